"""Calibration by groups of rows: each has a quantile of its own, and a row takes the widest of its groups.

The rows by which a group is calibrated are a simple random sample of the group, so that each quantile, and that of all
rows, is exact without weights, however many more rows were drawn for other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated, Any, Self

import numpy as np

from gpec.errors import InputError
from gpec.intervals.conformal import ConformityScores, Scores, rows_needed
from gpec.runtime.state import Limits, OneOf, Shape
from gpec.typing import BoolArray, FloatArray, IntArray

ALL_ROWS = "all rows"
_NAMED = 6  # groups that the statement names


@dataclass(frozen=True)
class Group:
    """A group of rows: its name, and how it is known which rows are in it.

    "all" are the rows in no other group, or everybody if ``of`` is 1; "low" and "high" have answers up to, or from, a
    ``value``; "class", "column" and "missing" are those of this class, or of this ``value`` in column ``of``; "other"
    are the rows of no class, or of neither tail, that has its own group; "given" is as the user says.
    """

    name: str
    kind: Annotated[str, OneOf("all", "class", "low", "high", "other", "column", "missing", "given")]
    of: Annotated[int, Limits(least=0)] = 0
    value: float = 0.0
    rows_in_pool: Annotated[int, Limits(least=0)] = 0


def members(
    groups: tuple[Group, ...], Z: FloatArray, outputs: FloatArray, labels: IntArray, given: Mapping[str, BoolArray]
) -> BoolArray:
    """Which of the groups ``G`` encoded rows are in ``(n, G)``, by the model's outputs and its predicted class."""
    ways: dict[str, Callable[[Group], BoolArray]] = {
        "class": lambda g: labels == g.of,
        "low": lambda g: outputs[:, 0] <= g.value,
        "high": lambda g: outputs[:, 0] >= g.value,
        "column": lambda g: Z[:, g.of] == g.value,
        "missing": lambda g: np.isnan(Z[:, g.of]),
        "given": lambda g: given.get(g.name, np.zeros(len(Z), dtype=np.bool_)),
    }
    found = np.zeros((len(Z), len(groups)), dtype=np.bool_)
    for place, group in enumerate(groups):
        if group.kind in ways:
            found[:, place] = ways[group.kind](group)
    kinds = [group.kind for group in groups]
    cells = ("class",) if "class" in kinds else ("low", "high")
    if "other" in kinds:
        found[:, kinds.index("other")] = ~found[:, [kind in cells for kind in kinds]].any(axis=1)
    found[:, 0] = True if groups[0].of else ~found[:, 1:].any(axis=1)
    return found


@dataclass(frozen=True, eq=False)
class GroupedScores(Scores):
    """Conformity scores of rows drawn for several groups, the first of which are all rows.

    Attributes
    ----------
    scores : ConformityScores
        Of all rows drawn.
    groups : tuple of Group
        The ``G`` groups.
    drawn : array of shape (n, G)
        Which rows calibrate which group.
    member : array of shape (rows, G)
        The groups of the rows that are explained; without the first axis for a single row.
    """

    kind = "groups"

    scores: ConformityScores
    groups: Annotated[tuple[Group, ...], Shape("G")]
    drawn: Annotated[BoolArray, Shape("n", "G")]
    member: Annotated[BoolArray, Shape("row", "G")]

    def check_state(self) -> None:
        """Raise a ValueError unless all groups have rows; scores from a file are checked."""
        if not self.groups or self.groups[0].kind != "all" or len(self.drawn) != len(self.scores):
            raise ValueError("does not begin with all rows, or has not as many scores as rows")
        if not self.drawn.any(axis=0).all():
            raise ValueError("has a group without rows")

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def fresh(self) -> bool:
        return self.scores.fresh

    @property
    def parts(self) -> list[ConformityScores]:
        """The scores of each group."""
        return [self.scores.part(rows) for rows in self.drawn.T]

    def suffice(self, level: float) -> bool:
        return all(part.suffice(level) for part in self.parts)

    @property
    def highest_level(self) -> float:
        return min(part.highest_level for part in self.parts)

    def quantile(self, level: float) -> FloatArray:
        """The widest of the quantiles of each row's groups, with the axes of the explanation."""
        for group, part in zip(self.groups, self.parts, strict=True):
            if not part.suffice(level):
                raise InputError(
                    f"A level of {level:g} needs at least {rows_needed(level)} rows of '{group.name}' to calibrate "
                    f"with, got {len(part)}."
                )
        return self._widest([part.quantile(level) for part in self.parts])

    def quantile_of_changes(self, level: float) -> FloatArray:
        return self._widest([part.quantile_of_changes(level) for part in self.parts])

    def _widest(self, quantiles: list[FloatArray]) -> FloatArray:
        shape = (*self.member.shape[:-1], *[1] * quantiles[0].ndim)
        each = (
            np.where(of.reshape(shape), one, 0.0)
            for of, one in zip(np.moveaxis(self.member, -1, 0), quantiles, strict=True)
        )
        return np.asarray(reduce(np.maximum, each))

    def sure_coverage(self, level: float) -> float:
        return min(part.sure_coverage(level) for part in self.parts)

    def for_features(self, cut: tuple[Any, ...]) -> Self:
        return replace(self, scores=self.scores.for_features(cut))

    def for_rows(self, index: Any) -> Self:
        return replace(self, member=self.member[index])

    @property
    def among(self) -> str:
        """The groups in words."""
        names = [group.name for group in self.groups[1:]]
        listed = f"{len(names)} groups" if len(names) > _NAMED else f"these groups: {', '.join(names)}"
        return f", at least {self.drawn[:, 1:].sum(axis=0).min()} of them from each of {listed}" if names else ""

    def lines(self) -> list[tuple[str, int, int, ConformityScores]]:
        return [
            (group.name, len(part), group.rows_in_pool, part)
            for group, part in zip(self.groups, self.parts, strict=True)
        ]
