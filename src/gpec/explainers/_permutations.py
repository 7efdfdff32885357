"""Shapley values by sampling of permutations: the paths from a background row to the explained row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = ["PermutationPairs", "PermutationSums", "assign_background"]

_FEWEST_REFERENCES = 16  # with fewer, their variance would be a poor estimate


@dataclass(frozen=True, eq=False)
class PermutationPairs:
    """Antithetic pairs of permutations: players join one by one, in a random order and in its reverse.

    Attributes
    ----------
    rank : array of int, shape (p, m)
        Position of each player in the first of the two orders, from 0.
    """

    rank: IntArray

    @classmethod
    def draw(cls, plays: BoolArray, rng: np.random.Generator) -> PermutationPairs:
        """One pair for each row of ``plays (p, m)``; features that are not players join last."""
        return cls((rng.random(plays.shape) + ~plays).argsort(axis=1).argsort(axis=1))

    @property
    def masks(self) -> BoolArray:
        """The coalitions to evaluate, ``(p, 2, m - 1, m)``: of 1, 2, ... players, and their complements."""
        joined = self.rank[:, None, :] < np.arange(1, self.rank.shape[1])[:, None]
        return np.stack([joined, ~joined], axis=1)

    def contributions(self, worth: FloatArray, empty: FloatArray, full: FloatArray) -> FloatArray:
        """The marginal contribution of each player, averaged over the two orders, ``(p, m, c)``.

        Parameters
        ----------
        worth : array of shape (p, 2, m - 1, c)
            The values of :attr:`masks`.
        empty, full : arrays of shape (p, c)
            The values of the empty and of the full coalition.
        """
        ends = (full - empty)[:, None] / 2
        # A player of rank r adds v(S_r+1) - v(S_r) in one order and v(not S_r) - v(not S_r+1) in the other.
        path = np.concatenate([-ends, (worth[:, 0] - worth[:, 1]) / 2, ends], axis=1)
        return np.asarray(np.take_along_axis(np.diff(path, axis=1), self.rank[:, :, None], axis=1))


def assign_background(pairs: int, B: int, rng: np.random.Generator) -> IntArray:
    """The background row of each pair, sorted: all equally often (within one), or two pairs on as many as possible."""
    r = min(B, max(pairs // 2, _FEWEST_REFERENCES))
    order = rng.permutation(B)[:r]
    return np.sort(np.resize(order, max(pairs, 2 * r)))


class PermutationSums:
    """Sums over the pairs of each background row, so that memory does not grow with the number of pairs."""

    def __init__(self, chosen: IntArray, d: int, c: int) -> None:
        self.chosen = chosen
        self.references, self.counts = np.unique(chosen, return_counts=True)
        # contributions of the first pair: sums of squares around them stay small and accurate
        self.pilot = np.full((len(self.references), d, c), np.nan)
        self.first = np.zeros_like(self.pilot)
        self.second = np.zeros_like(self.pilot)

    def add(self, some: IntArray, contributions: FloatArray) -> None:
        """Add the contributions of pairs with the background rows ``some``."""
        place = np.searchsorted(self.references, some)
        found_at, where = np.unique(place, return_index=True)
        self.pilot[found_at] = np.where(np.isnan(self.pilot[found_at]), contributions[where], self.pilot[found_at])
        centred = contributions - self.pilot[place]
        np.add.at(self.first, place, centred)
        np.add.at(self.second, place, centred**2)

    def estimate(self, totals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and variance ``(d, c)``; ``totals (B, c)`` is ``p(x) - p(b)`` for all background rows."""
        n = self.counts[:, None, None]
        r, B = len(self.references), len(totals)
        means = self.first / n
        within = np.maximum(self.second - n * means**2, 0.0) / (n - 1)
        means += self.pilot
        values, variance = means.mean(axis=0), (within / n).sum(axis=0) / (r * B)
        if r == B:
            return values, variance
        centred = totals[self.references] - totals[self.references].mean(axis=0)
        size = (centred**2).sum(axis=0)
        # the slopes add up to 1, as the contributions for each background row add up to its total
        equal = np.full(values.shape, 1 / len(values))
        slope = np.divide(np.einsum("bc,bjc->jc", centred, means), size, out=equal, where=size > 0)
        gap = totals.mean(axis=0) - totals[self.references].mean(axis=0)
        # Influence of each background row on the slopes.
        influence = np.divide(centred, size, out=np.zeros_like(centred), where=size > 0)
        # The power is between HC2 (1/2) and HC3 (1), which are too small and too large for small r.
        leverage = np.minimum(1 / r + centred * influence, 0.9)
        residual = (means - values - slope * centred[:, None]) / (1 - leverage)[:, None] ** 0.75
        between = ((residual * (1 / r + gap * influence)[:, None]) ** 2).sum(axis=0) * (r - 1) / r
        return values + slope * gap, variance + (1 - r / B) * between
