"""The faults: cosmic-ray's operators, less those that cannot matter or cannot survive."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOMS = ("boundary", "geometry", "kernels", "gp")
_NEEDS_ARGUMENTS = ("VariableReplacer", "VariableInserter")
_BITS = {"RShift", "LShift", "BitOr", "BitAnd", "BitXor"}


@dataclass(frozen=True)
class Mutant:
    room: str
    module: str  # path below the root
    operator: str
    occurrence: int
    line: int
    first: int  # lines of the statement, to find the tests that run it
    last: int
    loaded: bool  # runs when the module is imported
    statement: str

    @property
    def key(self) -> str:
        """The same as long as the statement is the same, and its number in the file."""
        text = "|".join((self.module, self.operator, str(self.occurrence), self.statement))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def source(self, root: Path) -> tuple[str, str, str]:
        """The changed file, and the lines that differ before and after."""
        source = (root / self.module).read_text("utf-8")
        changed = str(mutate_code(source, get_operator(self.operator)(), self.occurrence))
        return changed, *_difference(source.splitlines(), changed.splitlines())

    def compiles(self, root: Path) -> bool:
        try:
            compile(self.source(root)[0], self.module, "exec")
        except SyntaxError:  # the star of a signature is taken for a product
            return False
        return True

    def as_dict(self) -> dict[str, Any]:
        names = ("room", "module", "line", "operator", "occurrence")
        return {"key": self.key, **{name: getattr(self, name) for name in names}}


def mutants(root: Path) -> dict[str, list[Mutant]]:
    """All mutants by room, in the order of the files."""
    return {
        room: [
            mutant
            for path in sorted((root / "src/gpec" / room).glob("*.py"))
            for mutant in _of_file(room, str(path.relative_to(root)), path.read_text("utf-8"))
        ]
        for room in ROOMS
    }


def draw(every: dict[str, list[Mutant]], n: int | None, seed: int) -> list[Mutant]:
    """``n`` mutants, from each room its share; a greater ``n`` takes the same ones first."""
    total = sum(map(len, every.values()))
    drawn: list[tuple[float, Mutant]] = []
    for room, known in every.items():
        order = random.Random(f"{seed} {room}").sample(known, len(known))  # noqa: S311
        drawn += [((i + 0.5) / len(order), mutant) for i, mutant in enumerate(order)]
    drawn.sort(key=lambda pair: pair[0])
    return [mutant for _, mutant in drawn[: total if n is None else n]]


def _of_file(room: str, module: str, source: str) -> Iterator[Mutant]:
    lines, nodes = source.splitlines(), list(ast_nodes(get_ast(source)))
    for name in sorted(operator_names()):
        if name.split("/")[1] in _NEEDS_ARGUMENTS or _cannot_run(name):
            continue
        operator, occurrence = get_operator(name)(), -1
        for node in nodes:
            for start, _ in operator.mutation_positions(node):
                occurrence += 1
                leaf = node.get_leaf_for_position(start, True) if hasattr(node, "get_leaf_for_position") else node
                if _cannot_matter(leaf or node):
                    continue
                first, last, loaded = _statement(node)
                text = "\n".join(lines[first - 1 : last])
                yield Mutant(room, module, name, occurrence, start[0], first, last, loaded, text)


def _cannot_run(operator: str) -> bool:
    """Arithmetic made bitwise, or the reverse: a TypeError at the first touch, which would flatter the tests."""
    parts = operator.split("/")[1].split("_")
    return parts[0] == "ReplaceBinaryOperator" and (parts[1] in _BITS) != (parts[2] in _BITS)


def _cannot_matter(node: Any) -> bool:
    """Type annotations, messages of errors and warnings, ``__all__``, and ``@abstractmethod``."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.type in ("raise_stmt", "decorator") and "abstractmethod" in parent.get_code():
            return True
        if parent.type == "raise_stmt" or (parent.type == "expr_stmt" and parent.get_code().startswith("__all__")):
            return True
        if parent.type == "tfpdef" and child is not parent.children[0]:
            return True
        if parent.type == "annassign" and child is parent.children[1]:
            return True
        if parent.type == "funcdef" and child is parent.annotation:
            return True
        if parent.type in ("atom_expr", "power") and parent.get_code().strip().startswith("warnings.warn("):
            return True
        child, parent = parent, parent.parent
    return node.type == "decorator" and "abstractmethod" in node.get_code()


def _statement(node: Any) -> tuple[int, int, bool]:
    while node.parent is not None and node.parent.type not in ("file_input", "suite"):
        node = node.parent
    inside = node if node.type == "funcdef" else node.parent
    while inside is not None and inside.type != "funcdef":
        inside = inside.parent
    last, column = node.end_pos
    return node.start_pos[0], last - (column == 0), inside is None


def _difference(old: list[str], new: list[str]) -> tuple[str, str]:
    """The lines that differ."""
    head = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return tuple("\n".join(each[head : len(each) - tail]).strip() for each in (old, new))  # type: ignore[return-value]
