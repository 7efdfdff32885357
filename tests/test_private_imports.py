"""Tests go through public doors: few of them import private names, each for a reason."""

import ast

import pytest

from package_sources import ROOT

TESTS = ROOT / "tests"
# `pipeline`, `runtime` and names that start with an underscore are private. What these files check shows nowhere else
# without being blurred.
ALLOWED = {
    "app/test_app_files.py": "what the page makes of files, without a browser",
    "app/test_app_surface.py": "the arrays behind the playground's pictures",
    "archive_helpers.py": "files as trees: the one door of all other tests of files",
    "boundary/test_adversarial.py": "attacks on single rows: radii, norms, the foot of the perpendicular",
    "boundary/test_search.py": "paths, slivers and pairs: a sample shows only what comes of all three",
    "explainers/test_bayes_regression.py": "closed forms and coverage of many regressions on given data",
    "explainers/test_cxplain.py": "the targets that networks learn from, and single networks",
    "explainers/test_tree_shapley.py": "trees of random shape, which no library trains",
    "files/test_container.py": "attacks on the file format",
    "files/test_state.py": "validation of fields that no saved class has",
    "gp/test_deviance.py": "the restricted likelihood itself, to many digits",
    "kernels/test_factor.py": "the factor of a geodesic matrix, to single precision",
    "models/test_garbled_trees.py": "trees that end the process before a library can report them",
    "test_execution.py": "blocks, threads and their cache under races",
    "test_numbers.py": "numbers as people read them, at all sizes",
    "test_randomness.py": "streams of random numbers and their purposes",
}


def is_private(name: str) -> bool:
    package, *parts = name.split(".")
    hidden = [part for part in parts if part.startswith("_") and not part.startswith("__")]
    return package == "gpec" and bool(hidden or parts[:1] in (["pipeline"], ["runtime"]))


def private_imports(tree: ast.Module) -> set[str]:
    """Private names of the package that a module imports anywhere."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if is_private(name)}


def test_no_other_test_imports_private_names():
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in TESTS.rglob("*.py")
        if (names := private_imports(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert {path: names for path, names in found.items() if path not in ALLOWED} == {}, "check it by public names"
    assert ALLOWED.keys() - found.keys() == set(), "these need their place in the list no longer"
    assert len(ALLOWED) <= 16


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from gpec.kernels._factor import factorize", "gpec.kernels._factor.factorize"),
        ("from gpec.kernels import _factor", "gpec.kernels._factor"),
        ("def f():\n    import gpec.runtime.state", "gpec.runtime.state"),
        ("from gpec.pipeline import refine", "gpec.pipeline.refine"),
        ("from gpec.gp.lowrank import _features", "gpec.gp.lowrank._features"),
        ("from gpec import __version__", None),
        ("from gpec.gp import lowrank", None),
        ("from paper.data import _registry", None),
    ],
)
def test_private_imports_are_seen_wherever_they_stand(source, name):
    assert private_imports(ast.parse(source)) == ({name} if name else set())
