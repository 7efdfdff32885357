"""What is imported is declared in pyproject.toml, and what is declared is used."""

import ast
import re
import sys
import tomllib
from collections import defaultdict
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from package_sources import ROOT, trees

pytest.importorskip("skimage", reason="where it is missing, skimage cannot be seen to be scikit-image")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OWN = {"gpec", "benchmarks", "paper", "release"}
FINDERS = {"import_module", "find_spec", "importorskip", "_Extra"}  # calls that name what they import
# Run, not imported; Flask is what Dash runs on.
TOOLS = {"build", "cosmic-ray", "flask", "mypy", "pandas-stubs", "pytest-cov", "pytest-xdist", "ruff"}
TOOLS |= {"myst-parser", "pydata-sphinx-theme", "sphinx", "sphinx-copybutton", "sphinx-design", "sphinx-gallery"}


def package(requirement):
    """``scikit_learn[x]>=1.5`` is ``scikit-learn``."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


NEEDED = {package(requirement) for requirement in PROJECT["dependencies"]}
EXTRAS = {name: {package(r) for r in some} for name, some in PROJECT["optional-dependencies"].items()}
DECLARED = NEEDED.union(*EXTRAS.values())


@cache
def distributions():
    return packages_distributions()


def imports(tree):
    """Top-level names of all modules imported anywhere in a file, as far as they are of others."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in FINDERS:
            names |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - OWN


@cache
def used(*folders):
    """Package on PyPI -> files that import it."""
    found = defaultdict(set)
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
                (distribution, *_) = distributions().get(name, [name])
                found[package(distribution)].add(str(path.relative_to(ROOT)))
    return found


def test_what_the_package_imports_is_declared():
    assert {name: files for name, files in used("src").items() if name not in DECLARED} == {}


def test_extras_are_imported_when_they_are_needed():
    """Only needed packages are imported at the top of a module, which everyone runs."""
    early = {}
    for module, tree in trees().items():
        top = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
        packages = {package(distributions().get(name, [name])[0]) for name in imports(top)}
        page = EXTRAS["app"] if module.startswith("gpec.app.") else set()  # which make_app imports once Dash is found
        if not packages <= NEEDED | page:
            early[module] = packages - NEEDED - page
    assert early == {}


def test_what_the_package_needs_is_imported():
    assert NEEDED - set(used("src")) == set()


def test_what_an_extra_brings_is_used():
    everywhere = set(used("src", "benchmarks", "paper", "tests"))
    assert {extra: some - TOOLS - everywhere for extra, some in EXTRAS.items() if some - TOOLS - everywhere} == {}


def test_tools_are_declared():
    assert set().union(*EXTRAS.values()) >= TOOLS


def test_imports_are_found_wherever_they_stand():
    source = """
import os, numpy.linalg as la
from sklearn.base import clone
from . import sibling
import gpec.errors
def f():
    import torch.nn
if TYPE_CHECKING:
    import shap
importlib.util.find_spec("captum")
"""
    assert imports(ast.parse(source)) == {"numpy", "sklearn", "torch", "shap", "captum"}


def test_names_of_packages():
    assert package("scikit_learn[alldeps]>=1.5; python_version > '3.8'") == "scikit-learn"
    assert package("ruamel.yaml~=0.1") == "ruamel-yaml"
