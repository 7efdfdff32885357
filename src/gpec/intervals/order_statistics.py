r"""Intervals from the attributions of similar rows that were all explained; they are exact for each row.

*Fixed similar rows* are all there are. The interval at a level is the narrowest range around the value that holds
``ceil(level K)`` of the ``K`` attributions.

*Random similar rows* are ``K`` independent draws. A further draw is as likely to take any of the ``K + 1`` places among
them. So the range from the ``l``-th smallest attribution to the ``l``-th largest holds it with probability at least
``(K + 1 - 2 l) / (K + 1)``, for this row, whatever the model. ``l = floor((1 - level) (K + 1) / 2)`` is fixed before
the draws are looked at; the narrowest of several ranges would hold less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpec._numbers import level_text
from gpec.errors import InputError
from gpec.intervals.rules import IntervalRule
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray

_ROUNDING = 1e-9


def draws_needed(level: float) -> int:
    """The least number of independent draws that give an interval at this level.

    Examples
    --------
    >>> draws_needed(0.95), draws_needed(0.99)
    (39, 199)
    """
    return int(np.ceil(2.0 / (1.0 - level) - 1.0 - _ROUNDING))


def require_enough_draws(n_draws: int, level: float) -> None:
    """Raise unless independent draws give an interval at this level."""
    if n_draws < draws_needed(level):
        highest = np.floor(1000 * _highest_level(n_draws) + 1e-6) / 1000  # a level rounded up would be refused again
        or_level = f", or for a level of at most {highest:g}" if highest else ""
        raise InputError(
            f"A level of {level:g} needs {draws_needed(level)} independent draws of each row, and there "
            f"{'is' if n_draws == 1 else 'are'} {n_draws}; ask for more draws{or_level}."
        )


def _highest_level(n_draws: int) -> float:
    return (n_draws - 1) / (n_draws + 1) * (1 - 1e-12)


class _Explained(IntervalRule):
    """Rules of similar rows that were all explained."""

    phrase: str
    random: bool
    n_similar: int

    def attainable(self, level: float) -> float:
        return min(level, _highest_level(self.n_similar)) if self.random else level

    def statement(self, level: float) -> str:
        share, count = level_text(level), f"{self.n_similar:,}" if self.n_similar else ""  # a saved fit has none
        if self.random:
            promise = (
                f"Take a row and {self.phrase}: with a probability of at least {share} the second row's attribution "
                f"lies inside the first row's interval{f', which comes from {count} such rows' if count else ''}."
            )
        else:
            promise = (
                f"Take a row and {self.phrase}: at least {share} of the attributions of such rows"
                f"{f', {count} for each row,' if count else ''} lie inside the row's interval."
            )
        return (
            f"{promise} All of them were explained, so this is exact for each row and needs no calibration; it holds "
            "for each feature, not for all at once."
        )


@dataclass(frozen=True, eq=False)
class AllExplained(_Explained):
    """The interval holds the attributions of similar rows, all of which were explained and kept.

    Parameters
    ----------
    similar : array with the axes of the explanation, and one more for the ``K`` similar rows
        Their attributions.
    phrase : str
        What a similar row is.
    random : bool
        Whether similar rows are independent draws; else they are all there are.
    """

    promise, kind = "similar rows", "similar rows explained"
    arrays = ("similar",)

    similar: Annotated[FloatArray, Shape("row", "feature", "output", "K")]
    phrase: str
    random: bool

    def check_state(self) -> None:
        """Raise a ValueError if there is no similar row; a rule from a file is checked."""
        if self.n_similar == 0:
            raise ValueError("has no similar rows")

    @property
    def n_similar(self) -> int:  # type: ignore[override]
        return int(self.similar.shape[-1])

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        ranked, K = np.sort(self.similar, axis=-1), self.n_similar
        if self.random:
            require_enough_draws(K, level)
            beyond = int(np.floor((1.0 - level) * (K + 1) / 2.0 + _ROUNDING))
            return np.minimum(values, ranked[..., beyond - 1]), np.maximum(values, ranked[..., K - beyond])
        held = int(np.ceil(level * K - _ROUNDING))
        lower = np.minimum(values[..., None], ranked[..., : K - held + 1])
        upper = np.maximum(values[..., None], ranked[..., held - 1 :])
        narrowest = (upper - lower).argmin(axis=-1)[..., None]
        lower, upper = (np.take_along_axis(bound, narrowest, axis=-1)[..., 0] for bound in (lower, upper))
        return lower, upper

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.similar, np.zeros_like(self.similar)

    def bounds_of_sum(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """The interval of the sum, as exact as the others."""
        of_sums = AllExplained(self.similar.sum(axis=0), self.phrase, self.random)
        return of_sums.bounds(values.sum(axis=0), std.sum(axis=0), level)


@dataclass(frozen=True, eq=False)
class BoundsOnly(_Explained):
    """The same where the attributions of similar rows were not kept: bounds at some levels.

    Parameters
    ----------
    low, high : arrays with the axes of the explanation, and one more for the levels
        The bounds.
    levels : array
        Their levels.
    same_sign : array with the axes of the explanation
        Share of the similar rows that keep the sign.
    n_similar : int
        The number of similar rows.
    phrase, random
        As for :class:`AllExplained`.
    """

    promise, kind = "similar rows", "similar rows explained, bounds only"
    arrays = ("low", "high", "same_sign")

    low: Annotated[FloatArray, Shape("row", "feature", "output", "L")]
    high: Annotated[FloatArray, Shape("row", "feature", "output", "L")]
    levels: Annotated[FloatArray, Shape("L"), Limits(0, 1, strict=True)]
    same_sign: Annotated[FloatArray, Shape("row", "feature", "output"), Limits(0, 1)]
    n_similar: Annotated[int, Limits(least=1)]
    phrase: str
    random: bool

    def attainable(self, level: float) -> float:
        lower = self.levels[self.levels <= level + _ROUNDING]
        return float(lower.max() if len(lower) else self.levels.min())

    def bounds(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        known = np.flatnonzero(np.abs(self.levels - level) < _ROUNDING)
        if not len(known):
            if self.random:
                require_enough_draws(self.n_similar, level)
            raise InputError(
                f"The bounds at a level of {level:g} are not known, since the attributions of similar rows were not "
                f"kept; explain again with confidence_level={level:g} or keep_similar=True."
            )
        return self.low[..., known[0]], self.high[..., known[0]]

    def others(self, values: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        raise InputError("The attributions of similar rows were not kept; explain again with keep_similar=True.")

    def bounds_of_sum(self, values: FloatArray, std: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """The sums of the bounds, wider than the interval of the sum."""
        lower, upper = (bound.sum(axis=0) for bound in self.bounds(values, std, level))
        return lower, upper

    def sign_certainty(self, values: FloatArray, std: FloatArray) -> FloatArray:
        return self.same_sign
