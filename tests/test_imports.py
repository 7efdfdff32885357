"""Which module imports which: no cycle, one direction, and the drawing of it in docs/design.md.

``python tests/test_imports.py`` prints the drawing; paste it between the markers.
"""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from package_sources import PACKAGE, ROOT, trees

# A room is a folder of the package, or a module beside them. Each may import from those above it, and from no other.
ROOMS = [
    "errors",
    "typing",
    "_version",
    "_interrupt",
    "_colors",
    "_numbers",
    "_validation",
    "runtime",
    "data",
    "models",
    "boundary",
    "geometry",
    "kernels",
    "gp",
    "explainers",
    "similar",
    "intervals",
    "metrics",
    "plots",
    "report",
    "explanation",
    "pipeline",
    "distributed",
    "estimator",
    "images",
    "datasets",
    "app",
    "cli",
    "__main__",
    "gpec",  # what the package itself imports, for its users
]
DESIGN = ROOT / "docs" / "design.md"
MARKERS = ("<!-- imports -->", "<!-- /imports -->")


def imports_of(module: str, tree: ast.Module, known: set[str], is_package: bool = False) -> set[str]:
    """Modules of the package that a module imports anywhere: at the top, in functions, for type checkers only.

    ``from gpec import x`` imports ``gpec.x`` if that is a module, else it takes something from ``gpec``.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            folder = module.split(".") if is_package else module.split(".")[:-1]
            above = folder[: len(folder) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{source}.{alias.name}" for alias in node.names]
            found |= {name if name in known else source for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            found |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return {name for name in found if name.partition(".")[0] == "gpec"} - {module}


def import_graph() -> dict[str, set[str]]:
    """Module -> modules it imports."""
    sources = trees()
    packages = {name for name in sources if (PACKAGE.parent / name.replace(".", "/")).is_dir()}
    return {name: imports_of(name, tree, set(sources), name in packages) for name, tree in sources.items()}


def room(module: str) -> str:
    """``gpec.kernels.weg`` lies in the room ``kernels``; the package itself is the last one."""
    return module.split(".")[1] if "." in module else module


def room_graph(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    """Room -> rooms it imports from."""
    rooms: dict[str, set[str]] = {room(module): set() for module in modules}
    for module, imported in modules.items():
        rooms[room(module)] |= {room(other) for other in imported} - {room(module)}
    return rooms


def backward_edges(modules: dict[str, set[str]], order: list[str]) -> list[str]:
    """Imports from a room that stands below the importing one."""
    place = {name: i for i, name in enumerate(order)}
    return [
        f"{module} imports {other}"
        for module, imported in modules.items()
        for other in sorted(imported)
        if place.get(room(other), -1) > place.get(room(module), len(order))
    ]


def cycle(modules: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, or nothing."""
    try:
        TopologicalSorter(modules).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def drawing(rooms: dict[str, set[str]], order: list[str]) -> str:
    """The graph of rooms for Mermaid; an arrow that a longer way makes plain is left out."""
    reach: dict[str, set[str]] = {}
    for name in order:  # from those that import nothing
        reach[name] = set().union(*({other} | reach[other] for other in rooms[name]))
    lines = []
    for name in reversed(order):
        direct = [o for o in order if o in rooms[name] and not any(o in reach[other] for other in rooms[name])]
        if direct:
            lines.append(f"    {name} --> {' & '.join(direct)}")
    return "\n".join(["```mermaid", "flowchart LR", *lines, "```"])


def test_no_module_imports_itself_by_a_detour():
    assert cycle(import_graph()) == []


def test_every_room_has_its_place():
    assert sorted(ROOMS) == sorted(room_graph(import_graph())), "a room was added, renamed or removed: mend ROOMS"


def test_imports_point_one_way():
    assert backward_edges(import_graph(), ROOMS) == []


def test_the_drawing_is_that_of_the_code():
    text = DESIGN.read_text(encoding="utf-8")
    drawn = text.partition(MARKERS[0])[2].partition(MARKERS[1])[0].strip()
    assert drawn == drawing(room_graph(import_graph()), ROOMS), "paste what `python tests/test_imports.py` prints"


# The checks themselves


SOURCES = {
    "import gpec.gp": {"gpec.gp"},
    "import numpy, gpec.gp.lowrank as low": {"gpec.gp.lowrank"},
    "from gpec import gp": {"gpec.gp"},
    "from gpec import GPEC": {"gpec"},
    "from gpec.gp import lowrank, Posterior": {"gpec.gp.lowrank", "gpec.gp"},
    "from . import weg": {"gpec.kernels.weg"},
    "from ..gp.lowrank import x": {"gpec.gp.lowrank"},
    "from .. import gp": {"gpec.gp"},
    "def f():\n    from gpec.gp import Posterior": {"gpec.gp"},
    "if TYPE_CHECKING:\n    from gpec.gp import Posterior": {"gpec.gp"},
    "try:\n    import gpec.gp\nexcept ImportError:\n    pass": {"gpec.gp"},
    "importlib.import_module('gpec.gp')": {"gpec.gp"},
    "from gpecs import gp": set(),
    "'import gpec.gp'": set(),
}


def test_imports_are_found_wherever_they_stand():
    known = {"gpec", "gpec.gp", "gpec.gp.lowrank", "gpec.kernels", "gpec.kernels.weg"}
    found = {source: imports_of("gpec.kernels.base", ast.parse(source), known) for source in SOURCES}
    assert found == SOURCES


def test_relative_imports_of_a_package():
    known = {"gpec", "gpec.gp", "gpec.kernels", "gpec.kernels.weg"}
    for source, expected in {"from . import weg": "gpec.kernels.weg", "from ..gp import x": "gpec.gp"}.items():
        assert imports_of("gpec.kernels", ast.parse(source), known, is_package=True) == {expected}


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("gpec.kernels.base", "gpec.gp.lowrank"),
        ("gpec.errors", "gpec.typing"),
        ("gpec.pipeline.sampling", "gpec.estimator"),
    ],
)
def test_inserted_backward_edge_is_seen(module, imported):
    modules = import_graph()
    modules[module] = {*modules[module], imported}
    assert backward_edges(modules, ROOMS) == [f"{module} imports {imported}"]


def test_inserted_cycle_is_seen():
    modules = import_graph()
    assert "gpec.gp._gram" in modules["gpec.gp._linalg"]
    modules["gpec.gp._gram"] = {*modules["gpec.gp._gram"], "gpec.gp._linalg"}
    assert set(cycle(modules)) == {"gpec.gp._gram", "gpec.gp._linalg"}


def test_drawing_of_a_small_house():
    rooms = {"cellar": set(), "hall": {"cellar"}, "attic": {"hall", "cellar"}, "shed": {"cellar"}}
    lines = drawing(rooms, ["cellar", "hall", "shed", "attic"]).splitlines()
    assert lines[2:-1] == ["    attic --> hall", "    shed --> cellar", "    hall --> cellar"]


if __name__ == "__main__":
    print(drawing(room_graph(import_graph()), ROOMS))
