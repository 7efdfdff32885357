"""What an interval says: rules from values and variances to bounds, and the sentence behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from gpec._numbers import level_text
from gpec.intervals.conformal import ConformityScores, rows_needed
from gpec.runtime.state import Limits, Shape, Tagged
from gpec.typing import FloatArray

__all__ = ["IntervalRule", "Latent", "SimilarRows", "Value"]

_BISECTIONS = 60
_USUAL = 0.95  # the level at which certainties agree with the intervals
_LEAST_STD = 1e-12  # of the largest, below which a deviation is rounding


class IntervalRule(Tagged, ABC, tag="promise"):
    """How far the bounds of an interval lie from its value. An :class:`~gpec.Explanation` holds one.

    A rule that keeps arrays with the axes of the explanation is a dataclass, whose fields files hold (see
    ``gpec.runtime.state``), and overrides :meth:`select`; :class:`Latent` needs neither.
    """

    promise: ClassVar[str]

    @abstractmethod
    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each value at a level."""

    def statement(self, level: float) -> str:
        """What the interval promises and how that was checked, in one sentence."""
        return f"The {level_text(level)} interval comes from the rule '{self.promise}'."

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The attributions that the interval is about: a mixture of normals, means and deviations ``(*axes, K)``."""
        return values[..., None], std[..., None]

    def select(self, cut: tuple[Any, ...]) -> IntervalRule:
        """The rule for a part of the explanation."""
        return self


class Latent(IntervalRule):
    """The paper's: normal quantiles of the latent explanation's posterior. It promises no coverage.

    ``value +- z std`` with ``z`` the normal quantile of the level.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.intervals.rules import Latent
    >>> lower, upper = Latent().bounds(np.array([1.0]), np.array([0.5]), 0.95)
    >>> lower.round(2), upper.round(2)
    (array([0.02]), array([1.98]))
    """

    promise = "latent"

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        return _around(values, _normal(std, level))

    def statement(self, level: float) -> str:
        return (
            f"The {level_text(level)} interval is that of the latent explanation, as in the paper: it tells where "
            "explanations are uncertain, but promises no coverage."
        )


class _Calibrated(IntervalRule):
    """Rules whose half-width is a quantile of scores times the deviation, or the model's own where there are none.

    ``scores`` have an axis of size 1 for the rows as long as the explanation has rows.
    """

    scores: ConformityScores | None
    of_rows: bool

    @abstractmethod
    def _uncalibrated(self, std: FloatArray, level: float) -> FloatArray:
        """The half-width by the Gaussian process alone."""

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        return _around(values, self.half_width(std, level))

    def half_width(self, std: FloatArray, level: float) -> FloatArray:
        """Half of the interval's width."""
        if self.scores is None:
            return self._uncalibrated(std, level)
        if self.scores.suffice(level) or self.scores.fresh:  # with too few fresh rows, the quantile says so
            return np.asarray(self._quantile(self.scores, level) * std)
        # beyond what the scores can tell: as much wider than the model's own as at the highest level they tell of
        most = self.scores.highest_level
        own = self._uncalibrated(std, most)
        ratio = np.divide(self._quantile(self.scores, most) * std, own, out=np.ones_like(own), where=own > 0)
        return self._uncalibrated(std, level) * np.maximum(ratio, 1.0)

    def _quantile(self, scores: ConformityScores, level: float) -> FloatArray:
        found = scores.quantile(level)
        return found[None] if self.of_rows else found

    def _usual(self) -> float:
        """The level at which certainties agree with the intervals: 95%, or the highest that the scores tell of."""
        return _USUAL if self.scores is None else min(_USUAL, self.scores.highest_level)

    def checked(self, level: float) -> str:
        """How the promise was checked, as the end of a sentence."""
        if self.scores is None:
            return "this has not been checked (uncalibrated); call calibrate"
        n = len(self.scores)
        if self.scores.fresh:
            self.scores.quantile(level)  # with too few rows there is no interval at this level
            return f"calibrated on {n} rows that fit had not seen, each feature by itself (split conformal)"
        if not self.scores.suffice(level):
            return f"uncalibrated at this level, which needs {rows_needed(level)} rows and has {n}"
        return f"approximate, as it was checked on {n} rows that were explained in fit; calibrate makes it exact"

    def select(self, cut: tuple[Any, ...]) -> Self:
        scores, of_rows = self.scores, self.of_rows
        position, index = len(cut) - 1, cut[-1]
        if position == 0 and of_rows:
            of_rows = not isinstance(index, int)
        elif scores is not None:
            # scores have their own rows first, so that the axes of the explanation without rows follow
            inner = (slice(None),) * (position + (0 if of_rows else 1)) + (index,)
            scores = ConformityScores(scores.values[inner], scores.weights, scores.fresh)
        return self._selected(cut, scores, of_rows)

    @abstractmethod
    def _selected(self, cut: tuple[Any, ...], scores: ConformityScores | None, of_rows: bool) -> Self:
        """The rule for a part, given its scores."""


@dataclass(frozen=True, eq=False)
class SimilarRows(_Calibrated):
    """The interval holds the attributions of rows similar to the one explained.

    Parameters
    ----------
    offset, deviation : arrays with the axes of the explanation, and one more for the ``K`` similar rows
        Mean and deviation of the attribution of each similar row less that of the row.
    scores : Scores or None
        See :class:`gpec.intervals.ConformityScores`.
    phrase : str
        What a similar row is.
    """

    promise = "similar rows"

    offset: Annotated[FloatArray, Shape("row", "feature", "output", "K")]
    deviation: Annotated[FloatArray, Shape("row", "feature", "output", "K"), Limits(least=0)]
    scores: ConformityScores | None
    phrase: str
    of_rows: bool = field(default=True, kw_only=True)

    def _uncalibrated(self, std: FloatArray, level: float) -> FloatArray:
        return mixture_quantile(self.offset, self.deviation, level)

    def _quantile(self, scores: ConformityScores, level: float) -> FloatArray:
        """At least 1, or what changes need if that is less: most similar rows may not change at all, as with trees.

        Their quantile would be 0, and rows that do change would get an interval without width.
        """
        return np.maximum(super()._quantile(scores, level), self._least(scores, level))

    def _least(self, scores: ConformityScores, level: float) -> FloatArray:
        least = np.minimum(scores.quantile_of_changes(level), 1.0)
        return np.asarray(least[None] if self.of_rows else least)

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        usual = self._usual()
        own = mixture_quantile(self.offset, self.deviation, usual)
        wider = np.divide(self.half_width(std, usual), own, out=np.ones_like(own), where=own > 0)
        further = wider
        if self.scores is not None:  # that most do not change says nothing against the change that is foreseen of some
            few_change = super()._quantile(self.scores, usual) < self._least(self.scores, usual)
            further = np.where(few_change, np.maximum(wider, 1.0), wider)
        return values[..., None] + further[..., None] * self.offset, wider[..., None] * self.deviation

    def statement(self, level: float) -> str:
        return (
            f"Over rows and the rows similar to them, {level_text(level)} of the attributions of similar rows lie "
            f"inside, where a similar row is {self.phrase}; {self.checked(level)}."
        )

    def _selected(self, cut: tuple[Any, ...], scores: ConformityScores | None, of_rows: bool) -> SimilarRows:
        return SimilarRows(
            np.asarray(self.offset[cut]), np.asarray(self.deviation[cut]), scores, self.phrase, of_rows=of_rows
        )


@dataclass(frozen=True, eq=False)
class Value(_Calibrated):
    """The interval holds what the explainer would answer, were it run on the row."""

    promise = "value"

    scores: ConformityScores | None
    of_rows: bool = field(default=True, kw_only=True)

    def _uncalibrated(self, std: FloatArray, level: float) -> FloatArray:
        return _normal(std, level)

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        usual = self._usual()
        return values[..., None], self.half_width(std, usual)[..., None] / norm.isf((1 - usual) / 2)

    def statement(self, level: float) -> str:
        return (
            f"Were the explainer run on the row, its answer would lie inside for {level_text(level)} of rows; "
            f"{self.checked(level)}."
        )

    def _selected(self, cut: tuple[Any, ...], scores: ConformityScores | None, of_rows: bool) -> Value:
        return Value(scores, of_rows=of_rows)


def mixture_quantile(offset: FloatArray, deviation: FloatArray, level: float) -> FloatArray:
    """The ``h`` for which ``|offset + deviation z|``, averaged over the last axis, is at most ``h`` at this level."""
    most = np.abs(offset) + norm.isf((1 - level) / 2) * deviation
    low, high = np.zeros(offset.shape[:-1]), most.max(axis=-1)
    exact = deviation <= _LEAST_STD * np.maximum(high, np.finfo(float).tiny)[..., None]
    spread = np.where(exact, 1.0, deviation)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        h = middle[..., None]
        inside = ndtr((h - offset) / spread) - ndtr((-h - offset) / spread)
        share = np.where(exact, np.abs(offset) <= h, inside).mean(axis=-1)
        enough = share >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def _normal(std: FloatArray, level: float) -> FloatArray:
    return np.asarray(norm.isf((1 - level) / 2) * std)  # of the tail: 0.5 + level / 2 may round to 1


def _around(values: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.asarray(values - half), np.asarray(values + half)
