"""Shapley values by weighted regression on coalitions, drawn in pairs and stratified by size.

    phi = argmin sum_S w(S) (v(S) - v(0) - sum_{j in S} phi_j)^2   subject to   sum_j phi_j = v(1) - v(0)

with ``w(S) = (m - 1) / (C(m, |S|) |S| (m - |S|))``. A coalition and its complement have the same weight. Together they
determine ``phi`` only through ``y = (v(S) - v(not S)) / 2``, which is regressed on ``z = 1_S - 1/2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from gpec.typing import BoolArray, FloatArray, IntArray

_SMALL_COUNT = 2_048  # up to this number, random keys for all are cheaper than one draw for each game
_LARGE_COUNT = 2**62  # with this many pairs, none is drawn twice


@dataclass(frozen=True, eq=False)
class Design:
    """Coalitions of ``m`` players to evaluate in each of ``g`` games, and the regressions on their values.

    Attributes
    ----------
    half : array of bool, shape (g, p, m)
        One coalition of each pair.
    weight : array of shape (p,)
        Weight of each pair, which includes the weight of pairs of the same size that were not drawn.
    strata : list of (first, last, count)
        Pairs ``first`` to ``last - 1`` were drawn, without replacement, from ``count`` pairs of the same size. If all
        pairs of all strata are drawn, the solution is exact.
    """

    half: BoolArray
    weight: FloatArray
    strata: list[tuple[int, int, int]]

    @property
    def masks(self) -> BoolArray:
        """The coalitions to evaluate ``(g, 2 p, m)``: one of each pair, then their complements in the same order."""
        return np.concatenate([self.half, ~self.half], axis=1)

    def solve(self, worth: FloatArray, empty: FloatArray, full: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Values and their variance, both ``(g, m, c)``.

        Parameters
        ----------
        worth : array of shape (g, 2 p, c)
            The values of :attr:`masks`.
        empty, full : arrays of shape (g, c)
            The values of the empty and of the full coalition.
        """
        p, m = self.half.shape[1:]
        whole = (full - empty)[:, None]
        share = self.half.mean(axis=2, keepdims=True)
        z = self.half - share  # 1_S minus its component along the constraint
        y = (worth[:, :p] - worth[:, p:]) / 2 - (share - 0.5) * whole  # minus the constraint's part, too
        weighted = self.weight[:, None] * z
        root = np.sqrt(self.weight)[:, None] * z
        A = root.swapaxes(1, 2) @ root  # BLAS needs half the work for a matrix times its transpose
        A += np.trace(A, axis1=1, axis2=2)[:, None, None] / m**2  # regular; solutions stay orthogonal to the constraint
        gain = np.linalg.solve(A, weighted.swapaxes(1, 2))  # (g, m, p): contribution of each y to each value
        slopes = gain @ y
        leverage = np.minimum(np.einsum("gmp,gpm->gp", gain, z), 0.999)
        loo_residual = (y - z @ slopes) / (1 - leverage)[:, :, None]
        # The regression alone is biased by the random covariance of z and residuals, which would not average out over
        # games. So each pair is predicted by the slopes found without it, which are fixed given the other pairs.
        moment, variance, total = np.zeros_like(slopes), np.zeros_like(slopes), 0.0
        for first, last, count in self.strata:
            n, part = last - first, slice(first, last)
            mean_slopes = slopes - gain[:, :, part] @ loo_residual[:, part] / n
            # given the others, a pair represents the pairs not drawn; the others represent only themselves
            residual = n / count * (y[:, part] - z[:, part] @ mean_slopes) + (1 - n / count) * loo_residual[:, part]
            size = self.half[0, first].sum()
            a = n * self.weight[first] * size * (m - size) / (m * (m - 1))  # E[z z'] of this size, up to a projection
            moment += weighted[:, part].swapaxes(1, 2) @ residual + a * mean_slopes
            variance += _variance(weighted[:, part].swapaxes(1, 2), loo_residual[:, part], n, count)
            total += a
        values = moment / total
        values -= values.mean(axis=1, keepdims=True)
        return values + whole / m, variance / total**2


def _variance(gain: FloatArray, residual: FloatArray, n: int, count: int) -> FloatArray:
    """Variance of the sum of ``n`` pairs' influence, ``gain (g, m, n)`` times residual, drawn from ``count`` pairs."""
    if n == count:
        return np.zeros((*gain.shape[:2], residual.shape[2]))
    spread = gain**2 @ residual**2 - (gain @ residual) ** 2 / n
    return np.maximum(spread, 0.0) * (n / (n - 1) * (1 - n / count))


def least_samples(m: int) -> int:
    """The number of coalitions that :func:`draw_design` draws if it is asked for fewer."""
    return 2 * sum(_plan(m, 0)[1]) if m > 1 else 0  # one player has no coalition but the empty and the full one


def draw_design(m: int, n_samples: int, g: int, rng: np.random.Generator) -> Design:
    """Draw about ``n_samples`` coalitions of ``m`` players for each of ``g`` games.

    Their number depends only on ``m`` and ``n_samples``. It includes all coalitions of sizes 1 and ``m - 1``, and at
    least two pairs of each other size, which the variance needs.
    """
    counts, chosen = _plan(m, n_samples // 2)
    large = [k for k, count in enumerate(counts, start=1) if count >= _LARGE_COUNT]
    first_large = large[0] if large else len(counts) + 1  # counts increase, so all later ones are large too
    half = [_draw_pairs(m, k, (g, chosen[k - 1]), counts[k - 1], rng) for k in range(1, first_large)]
    if large:
        half.append(_draw_large(m, np.repeat(large, chosen[first_large - 1 :]), g, rng))
    weight, strata, first = [], [], 0
    for k, (n, count) in enumerate(zip(chosen, counts, strict=True), start=1):
        share = (m - 1) / (k * (m - k)) * (0.5 if 2 * k == m else 1.0)  # of all pairs of this size
        weight.append(np.full(n, share / n))
        strata.append((first, first + n, count))
        first += n
    return Design(np.concatenate(half, axis=1), np.concatenate(weight), strata)


@lru_cache(maxsize=1_024)
def _plan(m: int, pairs: int) -> tuple[list[int], list[int]]:
    """The number of pairs of each size, and how many of them to draw."""
    counts = [comb(m, k) if 2 * k < m else comb(m - 1, k - 1) for k in range(1, m // 2 + 1)]
    return counts, _allocate(m, counts, pairs)


def _allocate(m: int, counts: list[int], pairs: int) -> list[int]:
    """Number of pairs of each size: Neyman allocation for residuals of equal variance."""
    size = np.arange(1, len(counts) + 1)
    target = np.where(2 * size == m, 0.5, 1.0) / np.sqrt(size * (m - size))
    most = np.array([float(min(count, _LARGE_COUNT)) for count in counts])  # some counts exceed a double
    least = np.minimum(most, 2.0)
    least[:1] = most[:1]
    low, high = 0.0, float((most / target).max(initial=0.0))
    if pairs >= sum(counts):
        return counts
    for _ in range(100):
        middle = (low + high) / 2
        if np.clip(middle * target, least, most).sum() > pairs:
            high = middle
        else:
            low = middle
    exact = np.clip(low * target, least, most)
    chosen = np.floor(exact + 1e-9)
    remaining = max(0, pairs - int(chosen.sum()))
    order = [k for k in np.argsort(chosen - exact, kind="stable") if chosen[k] < most[k]]
    chosen[order[:remaining]] += 1
    return [int(n) for n in chosen]


def _draw_pairs(m: int, k: int, shape: tuple[int, int], count: int, rng: np.random.Generator) -> BoolArray:
    """For each of ``g`` games, ``n`` distinct pairs of the ``count`` pairs of coalitions of sizes ``k``, ``m - k``."""
    masks = np.zeros((*shape, m), dtype=bool)
    # The combinatorial number system. If both coalitions of a pair have size k, the ranks below ``count`` are the
    # coalitions without the last player: one of each pair.
    rank = _draw_ranks(shape, count, rng)
    for left in range(k, 0, -1):
        binomials = _binomials(m, left)
        player = np.searchsorted(binomials, rank, side="right") - 1
        np.put_along_axis(masks, player[:, :, None], True, axis=2)
        rank = rank - binomials[player]
    return masks


@lru_cache(maxsize=1_024)
def _binomials(m: int, left: int) -> IntArray:
    return np.array([comb(c, left) for c in range(m)])


def _draw_large(m: int, sizes: IntArray, g: int, rng: np.random.Generator) -> BoolArray:
    """For each of ``g`` games, one random coalition of each of the sizes."""
    keys = rng.random((g, len(sizes), m))
    last = np.broadcast_to((sizes - 1)[:, None], (g, len(sizes), 1))
    return np.asarray(keys <= np.take_along_axis(np.sort(keys, axis=2), last, axis=2))


def _draw_ranks(shape: tuple[int, int], count: int, rng: np.random.Generator) -> IntArray:
    """For each of ``g`` games, ``n`` distinct numbers below ``count``."""
    g, n = shape
    if n == count:
        return np.broadcast_to(np.arange(n), shape)
    if count <= _SMALL_COUNT:
        return rng.random((g, count)).argpartition(n - 1, axis=1)[:, :n]
    return np.stack([rng.choice(count, n, replace=False) for _ in range(g)])
