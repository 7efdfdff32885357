"""Interval rules: from values and variances to bounds, with the sentence that says what the bounds promise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr
from scipy.stats import norm

from gpec._numbers import level_text
from gpec.intervals.conformal import Scores, rows_needed
from gpec.runtime.state import Limits, Shape, Tagged
from gpec.typing import FloatArray

_BISECTIONS = 60
_USUAL = 0.95  # the level at which certainties agree with the intervals
_EACH = "holds for each feature, not for all at once"
_DERIVED: Any = None
_SYMMETRIC = 0.25  # of squared half-widths, the share that does not differ by side
_LEAST_STD = 1e-12  # of the largest, below which a deviation is rounding


class IntervalRule(Tagged, ABC, tag="kind"):
    """Rule that turns values and variances into bounds. An :class:`~gpec.Explanation` holds one.

    A rule that keeps arrays with the axes of the explanation is a dataclass, whose fields files hold (see
    ``gpec.runtime.state``), and names them in ``arrays``; :class:`Latent` needs neither.
    """

    promise: ClassVar[str]
    kind: ClassVar[str]  # the name in files; the promise, unless another rule has it
    arrays: ClassVar[tuple[str, ...]] = ()  # the fields that have the axes of the explanation

    def __init_subclass__(cls, **options: Any) -> None:
        if "promise" in vars(cls) and "kind" not in vars(cls):
            cls.kind = cls.promise
        super().__init_subclass__(**options)

    @abstractmethod
    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound of each value at a level."""

    def statement(self, level: float) -> str:
        """What the interval promises and how that was checked, in plain sentences."""
        return f"The {level_text(level)} interval comes from the rule '{self.promise}'."

    def attainable(self, level: float) -> float:
        """The level itself, or the highest that the rule has bounds for."""
        return level

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The attributions that the interval is about: a mixture of normals, means and deviations ``(*axes, K)``."""
        return values[..., None], std[..., None]

    def sign_certainty(self, values: FloatArray, std: FloatArray) -> FloatArray:
        """Probability that the attributions have the sign of the values; 0.5 where the value is 0."""
        mean, deviation = self.others(values, std)
        side = np.sign(values)[..., None] * mean
        same = np.where(deviation > 0, ndtr(side / np.where(deviation > 0, deviation, 1.0)), (side > 0) * 1.0)
        return np.asarray(np.where(values == 0, 0.5, same.mean(axis=-1)))

    def bounds_of_sum(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Bounds of the sum along the first axis: an estimate, for features independent within a similar row."""
        mean, deviation = self.others(values, std)
        value, spread = values.sum(axis=0), np.sqrt((deviation**2).sum(axis=0))
        return _around(value, mixture_quantile(mean.sum(axis=0) - value[..., None], spread, level))

    def select(self, cut: tuple[Any, ...]) -> Self:
        """The rule for a part of the explanation."""
        return self._replaced({name: np.asarray(getattr(self, name)[cut]) for name in self.arrays})

    def _replaced(self, fields: dict[str, Any]) -> Self:
        rule: Any = self  # a dataclass, if it has fields
        found: Self = replace(rule, **fields) if fields else self
        return found


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
            f"The {level_text(level)} interval is that of the paper: it shows where explanations are uncertain, but "
            "promises no coverage."
        )


class _Calibrated(IntervalRule):
    """Rules whose half-widths are a multiple of predicted deviations: a quantile of conformity scores.

    Without scores the multiple is that of the Gaussian process.

    ``of_rows`` says whether the explanation has an axis of rows.
    """

    scores: Scores | None
    of_rows: bool

    @abstractmethod
    def _uncalibrated(self, level: float) -> FloatArray:
        """The multiple by the Gaussian process alone."""

    def multiple(self, level: float) -> FloatArray:
        """The half-widths in units of the predicted deviations."""
        if self.scores is None:
            return self._uncalibrated(level)
        if self.scores.suffice(level) or self.scores.fresh:  # with too few fresh rows, the quantile raises
            return self._quantile(self.scores, level)
        # above the highest level of the scores: as much wider than the process's own interval as at that level
        return self._uncalibrated(level) * np.maximum(self._wider(self.scores.highest_level), 1.0)

    def _wider(self, level: float) -> FloatArray:
        """The half-widths over those of the Gaussian process alone; 1 where these are 0."""
        multiple, own = self.multiple(level), self._uncalibrated(level)
        return np.asarray(np.divide(multiple, own, out=np.ones_like(multiple + own), where=own > 0))

    def _quantile(self, scores: Scores, level: float) -> FloatArray:
        return scores.quantile(level)

    def attainable(self, level: float) -> float:
        if self.scores is None or not self.scores.fresh:
            return level
        return min(level, self.scores.highest_level)

    def _usual(self) -> float:
        """The level at which certainties agree with the intervals: 95%, or the highest level of the scores."""
        return _USUAL if self.scores is None else min(_USUAL, self.scores.highest_level)

    def checked(self, level: float) -> str:
        """How the promise was checked, in plain sentences."""
        if self.scores is None:
            return "Not checked (uncalibrated): calibrate runs the explainer on similar rows to check it."
        n = len(self.scores)
        if self.scores.fresh:
            self.scores.quantile(level)  # with too few rows there is no interval at this level
            sure = f"With 90% certainty, these rows give at least {self.scores.sure_coverage(level):.1%}"
            each = " in each group" if self.scores.among else ""
            return f"Checked on {n:,} rows not used in fitting{self.scores.among}; {_EACH}. {sure}{each}."
        if not self.scores.suffice(level):
            return f"Not checked at this level (uncalibrated): that needs {rows_needed(level)} rows; there are {n}."
        return f"Checked approximately, on {n:,} rows used in fitting: call calibrate to make it exact. It {_EACH}."

    def select(self, cut: tuple[Any, ...]) -> Self:
        scores, of_rows = self.scores, self.of_rows
        position, index = len(cut) - 1, cut[-1]
        if position == 0 and of_rows:
            of_rows = not isinstance(index, int)
            scores = None if scores is None else scores.for_rows(index)
        elif scores is not None:
            # the first axis of the scores are calibration rows; the explanation's axes without rows follow
            inner = (slice(None),) * (position + (0 if of_rows else 1)) + (index,)
            scores = scores.for_features(inner)
        return super().select(cut)._replaced({"scores": scores, "of_rows": of_rows})


@dataclass(frozen=True, eq=False)
class SimilarRows(_Calibrated):
    """The interval holds the attributions of rows similar to the one explained.

    Parameters
    ----------
    offset, deviation : arrays with the axes of the explanation, and one more for the ``K`` similar rows
        Mean and deviation of the attribution of each similar row minus that of the row; the deviation is 0 where it is
        known.
    scores : ConformityScores, GroupedScores or None
        See :class:`gpec.intervals.ConformityScores`.
    phrase : str
        What a similar row is; see :attr:`gpec.similar.SimilaritySampler.phrase`.
    below, above : arrays with the axes of the explanation, or None
        Typical changes downwards and upwards; the interval reaches so far, times a multiple. By default they follow
        from ``offset`` and ``deviation``.
    """

    promise = "similar rows"
    arrays = ("offset", "deviation", "below", "above")

    offset: Annotated[FloatArray, Shape("row", "feature", "output", "K")]
    deviation: Annotated[FloatArray, Shape("row", "feature", "output", "K"), Limits(least=0)]
    scores: Scores | None
    phrase: str
    below: Annotated[FloatArray, Shape("row", "feature", "output"), Limits(least=0)] = _DERIVED
    above: Annotated[FloatArray, Shape("row", "feature", "output"), Limits(least=0)] = _DERIVED
    of_rows: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        if self.below is _DERIVED or self.above is _DERIVED:
            below, above = sizes_by_side(*squares_by_side(self.offset, self.deviation))
            vars(self).update(below=below, above=above)

    def check_state(self) -> None:
        """Raise a ValueError if there is no similar row; a rule from a file is checked."""
        if self.offset.shape[-1] == 0:
            raise ValueError("has no similar rows")

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        multiple = self.multiple(level)
        return np.asarray(values - multiple * self.below), np.asarray(values + multiple * self.above)

    def _uncalibrated(self, level: float) -> FloatArray:
        return mixture_quantile(self.offset, self.deviation, level, self.below, self.above)

    def _quantile(self, scores: Scores, level: float) -> FloatArray:
        """At least 1, or the quantile of the scores that are not 0 if that is less.

        With trees most similar rows may not change at all. Their quantile is 0, and rows that do change would get an
        interval without width.
        """
        return np.maximum(super()._quantile(scores, level), self._least(scores, level))

    def _least(self, scores: Scores, level: float) -> FloatArray:
        return np.minimum(scores.quantile_of_changes(level), 1.0)

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        usual = self._usual()
        wider = further = self._wider(usual)
        if self.scores is not None:  # if most rows do not change, the predicted changes of the others are not narrowed
            few_change = super()._quantile(self.scores, usual) < self._least(self.scores, usual)
            further = np.where(few_change, np.maximum(wider, 1.0), wider)
        further = np.where(self.deviation > 0, further[..., None], 1.0)  # what is known stays as it is
        return values[..., None] + further * self.offset, wider[..., None] * self.deviation

    def statement(self, level: float) -> str:
        return (
            f"Take a row and {self.phrase}: in {level_text(level)} of cases the second row's attribution lies inside "
            f"the first row's interval. {self.checked(level)}"
        )


@dataclass(frozen=True, eq=False)
class Value(_Calibrated):
    """The interval holds the answer that the explainer would give for the row."""

    promise = "value"

    scores: Scores | None
    of_rows: bool = field(default=True, kw_only=True)

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        return _around(values, self.multiple(level) * std)

    def _uncalibrated(self, level: float) -> FloatArray:
        return _normal(np.ones(()), level)

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        return values[..., None], (self._wider(self._usual()) * std)[..., None]

    def statement(self, level: float) -> str:
        return (
            f"If the explainer were run, its answer would lie inside the interval for {level_text(level)} of rows. "
            f"{self.checked(level)}"
        )


def mixture_quantile(
    offset: FloatArray,
    deviation: FloatArray,
    level: float,
    below: FloatArray | float = 1.0,
    above: FloatArray | float = 1.0,
) -> FloatArray:
    """The least ``h`` for which ``offset + deviation z``, averaged over the last axis, lies between ``-h below`` and
    ``h above`` at this level.
    """
    below, above = np.asarray(below)[..., None], np.asarray(above)[..., None]
    far, z = np.abs(offset), norm.isf((1 - level) / 2)
    side = np.minimum(below, above)
    reach = np.divide(
        far + z * deviation, side, out=np.zeros(np.broadcast_shapes(offset.shape, side.shape)), where=side > 0
    )
    low, high = np.zeros(offset.shape[:-1]), reach.max(axis=-1)
    exact = deviation <= _LEAST_STD * np.maximum((far + z * deviation).max(axis=-1), np.finfo(float).tiny)[..., None]
    spread = np.where(exact, 1.0, deviation)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        up, down = middle[..., None] * above, -middle[..., None] * below
        inside = ndtr((up - offset) / spread) - ndtr((down - offset) / spread)
        share = np.where(exact, (down <= offset) & (offset <= up), inside).mean(axis=-1)
        enough = share >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def squares_by_side(mean: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The expected squares of a normal variable below 0 and above 0; on the other side it counts as 0."""
    random = deviation > 0
    z = np.divide(mean, deviation, out=np.zeros_like(mean), where=random)
    square, slope = mean**2 + deviation**2, mean * deviation * np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi)
    above = np.where(random, square * ndtr(z) + slope, np.maximum(mean, 0.0) ** 2)
    below = np.where(random, square * ndtr(-z) - slope, np.minimum(mean, 0.0) ** 2)
    return np.maximum(below, 0.0), np.maximum(above, 0.0)


def sizes_by_side(below: FloatArray, above: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Typical changes downwards and upwards, from expected squares whose last axis are similar rows.

    Their mean square is the expected square.
    """
    down, up = (squares.sum(axis=-1) / max(squares.shape[-1], 1) for squares in (below, above))
    both, apart = _SYMMETRIC * (down + up), 2.0 * (1.0 - _SYMMETRIC)
    return np.sqrt(apart * down + both), np.sqrt(apart * up + both)


def _normal(std: FloatArray, level: float) -> FloatArray:
    return np.asarray(norm.isf((1 - level) / 2) * std)  # of the tail: 0.5 + level / 2 may round to 1


def _around(values: FloatArray, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.asarray(values - half), np.asarray(values + half)
