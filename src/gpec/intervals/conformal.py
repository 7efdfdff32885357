"""Split conformal calibration: conformity scores of rows with a known answer, and their quantiles.

A score says how far the truth lay from the value, in units of the predicted deviation. Of ``n`` scores of rows like the
next one, the ``ceil((n + 1) level)``-th smallest is exceeded by the next score with probability at most ``1 - level``
(split conformal prediction). Rows may have weights. A row may have several scores, for some of its similar rows, with
weights that add up to that of the row: then the share of a new row's similar rows beyond the quantile is at most
``1 - level`` on average (conformal risk control).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from scipy.stats import beta

from gpec.errors import InputError
from gpec.runtime.state import Limits, Shape, Tagged
from gpec.typing import BoolArray, FloatArray

_NOTHING = 1e-6  # a score below it is rounding
_SURE = 0.9  # how sure it is that one set of calibration rows holds


def rows_needed(level: float) -> int:
    """The least number of equally weighted rows that give a quantile at this level.

    Examples
    --------
    >>> rows_needed(0.95), rows_needed(0.99)
    (19, 99)
    """
    return int(np.ceil(level / (1.0 - level) - 1e-9))


class Scores(Tagged, ABC, tag="kind"):
    """Conformity scores, and the quantiles that the rows explained take."""

    kind: ClassVar[str]  # the name in files
    fresh: Any  # whether the rows were not used in fit

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""

    @abstractmethod
    def suffice(self, level: float) -> bool:
        """Whether there are enough rows for a quantile at this level."""

    @property
    @abstractmethod
    def highest_level(self) -> float:
        """The highest level for which there are enough rows."""

    @abstractmethod
    def quantile(self, level: float) -> FloatArray:
        """The score that a new row exceeds with probability at most ``1 - level``."""

    @abstractmethod
    def quantile_of_changes(self, level: float) -> FloatArray:
        """The same among the rows whose score is not 0; 0 if there are none. With few of them it is the largest."""

    @abstractmethod
    def sure_coverage(self, level: float) -> float:
        """The coverage that these rows give with 90% certainty, over draws of them: of a beta distribution."""

    @abstractmethod
    def for_features(self, cut: tuple[Any, ...]) -> Self:
        """The scores of a part of the features and outputs."""

    def for_rows(self, index: Any) -> Self:
        """The scores for a part of the rows explained."""
        return self

    @property
    def among(self) -> str:
        """For which groups there are quantiles, in words."""
        return ""

    @abstractmethod
    def lines(self) -> list[tuple[str, int, int, ConformityScores]]:
        """Of each group: name, rows, rows in the pool that they were drawn from, scores."""


@dataclass(frozen=True, eq=False)
class ConformityScores(Scores):
    """Conformity scores of some rows, by feature and output.

    Attributes
    ----------
    values : array of shape (n, d, c)
        Distance of the truth from the value over the predicted deviation.
    weights : array of shape (n,)
        Weight of each row.
    fresh : bool
        Whether the rows were not used in fit: only then is the guarantee exact.
    per_row : int
        How many scores each calibration row has; those of the first row first.
    """

    kind = "rows"

    values: Annotated[FloatArray, Shape("n", "feature", "output"), Limits(least=0)]
    weights: Annotated[FloatArray, Shape("n"), Limits(least=0)]
    fresh: bool
    per_row: Annotated[int, Limits(least=1)] = 1

    def check_state(self) -> None:
        """Raise a ValueError if there is no score; scores from a file are checked."""
        if not self.weights.any() or len(self.values) % self.per_row:
            raise ValueError("has no scores, or not as many for each row")

    def __len__(self) -> int:
        return len(self.values) // self.per_row

    @property
    def _weight_of_row(self) -> float:
        return float(self.weights.sum()) / len(self)

    def suffice(self, level: float) -> bool:
        whole = self.weights.sum()
        return bool(level * (whole + self._weight_of_row) <= whole * (1 + 1e-12))

    def quantile(self, level: float) -> FloatArray:
        """The score that a new row exceeds with probability at most ``1 - level``, by feature and output."""
        if not self.suffice(level):
            raise InputError(
                f"A level of {level:g} needs at least {rows_needed(level)} rows to calibrate with, got {len(self)}."
            )
        return self._quantile(level, self._weights * np.ones_like(self.values))

    def quantile_of_changes(self, level: float) -> FloatArray:
        return self._quantile(level, np.where(self.values > _NOTHING, self._weights, 0.0))

    @property
    def _weights(self) -> FloatArray:
        """The weights with the axes of the scores."""
        return np.asarray(self.weights.reshape(-1, *[1] * (self.values.ndim - 1)))

    def _quantile(self, level: float, weights: FloatArray) -> FloatArray:
        """The quantile by feature and output, with separate weights."""
        order = np.argsort(self.values, axis=0, kind="stable")
        ranked = np.take_along_axis(self.values, order, axis=0)
        reached = np.take_along_axis(weights, order, axis=0).cumsum(axis=0)
        needed = level * (reached[-1] + self._weight_of_row) * (1 - 1e-12)
        place = np.minimum((reached < needed).sum(axis=0), len(self.values) - 1)
        return np.asarray(np.take_along_axis(ranked, place[None], axis=0)[0])

    @property
    def highest_level(self) -> float:
        whole = self.weights.sum()
        return float(whole / (whole + self._weight_of_row)) * (1 - 1e-12)

    def part(self, rows: BoolArray) -> ConformityScores:
        """The scores of some of the rows."""
        keep = np.repeat(rows, self.per_row)
        return replace(self, values=self.values[keep], weights=self.weights[keep])

    def sure_coverage(self, level: float) -> float:
        n = len(self)
        k = int(np.ceil((n + 1) * level - 1e-9))
        return float(beta.ppf(1.0 - _SURE, k, n + 1 - k)) if k <= n else np.nan

    def for_features(self, cut: tuple[Any, ...]) -> Self:
        return replace(self, values=self.values[cut])

    def lines(self) -> list[tuple[str, int, int, ConformityScores]]:
        return [("all rows", len(self), len(self), self)]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Conformity scores for both promises; None if there are none.

    Those of similar rows hold for intervals made with ``n_similar_explained`` similar rows explained, whose squared
    changes count for the others with the weight ``mixed``.
    """

    similar: Scores | None = None
    value: Scores | None = None
    n_similar_explained: Annotated[int, Limits(least=0)] = 0
    mixed: Annotated[float, Limits(0, 1)] = 0.0

    def of(self, attribution: Literal["explainer", "posterior"]) -> Scores | None:
        return self.similar if attribution == "explainer" else self.value

    def map(self, change: Callable[[Scores], Scores]) -> Calibration:
        """The same with other scores for each promise."""
        similar, value = (None if one is None else change(one) for one in (self.similar, self.value))
        return replace(self, similar=similar, value=value)

    def require_enough_calibration_rows(self, attribution: Literal["explainer", "posterior"], level: float) -> None:
        """Raise if fresh rows were too few for intervals at this level."""
        scores = self.of(attribution)
        if scores is not None and scores.fresh:
            scores.quantile(level)
