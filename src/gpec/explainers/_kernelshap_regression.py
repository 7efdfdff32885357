"""Shapley values by weighted regression on coalitions, drawn in pairs and stratified by size.

    phi = argmin sum_S w(S) (v(S) - v(0) - sum_{j in S} phi_j)^2   subject to   sum_j phi_j = v(1) - v(0)

with ``w(S) = (m - 1) / (C(m, |S|) |S| (m - |S|))``. A coalition and its complement have the same weight. Together they
determine ``phi`` only through ``y = (v(S) - v(not S)) / 2``, the odd part of the game. It is regressed on ``z = +-1``
of all players and, where this helps, on products of three of them: interactions of two have no odd part. The regression
only predicts; what it leaves is added without bias, from the residuals of the pairs drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np

from gpec.typing import BoolArray, FloatArray, IntArray

_SMALL_COUNT = 2_048  # up to this number, random keys for all are cheaper than one draw for each game
_LARGE_COUNT = 2**62  # with this many pairs, none is drawn twice
_NOISE = np.concatenate([[1e-13], np.geomspace(1e-6, 10, 24)])  # of regressions, as a share of the terms' variance
_PILOTS = 2  # games in which interactions are searched
_LEAST_PAIRS = 20  # for interactions
_GAIN = 0.8  # of the variance, from which interactions are used
_FOLDS = 3
_SCREENED = 24  # players of which all interactions are tried
_MOST_TRIPLES = 96  # against a few background rows
_SHARED_TRIPLES = 32  # against the others, each of which adds to the cost


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

    def solve(
        self, worth: FloatArray, empty: FloatArray, full: FloatArray, *, same_players: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Values and their variance, both ``(g, m, c)``.

        Parameters
        ----------
        worth : array of shape (g, 2 p, c)
            The values of :attr:`masks`.
        empty, full : arrays of shape (g, c)
            The values of the empty and of the full coalition.
        same_players : bool
            Whether player ``j`` is the same feature in all games, so that games can learn interactions from others.
        """
        z, p = np.where(self.half, 1.0, -1.0), self.half.shape[1]
        y, known = (worth[:, :p] - worth[:, p:]) / 2, (full - empty) / 2
        outputs = range(y.shape[2])
        found = [self._solve_output(z, y[:, :, [k]], known[:, [k]], same_players=same_players) for k in outputs]
        values, variance = (np.concatenate(part, axis=2) for part in zip(*found, strict=True))
        return values, variance

    def _solve_output(
        self, z: FloatArray, y: FloatArray, known: FloatArray, *, same_players: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Values and their variance, both ``(g, m, 1)``, with interactions if they lower the variance of some games."""
        g, p, m = z.shape
        n, every = min(g, _PILOTS), np.full(p, True)
        some, others = slice(n), slice(n, g)
        alone = _Terms(np.zeros((g, 0, 3), dtype=np.intp), np.ones((g, m)))
        values, variance, noise = self._estimate(z[some], y[some], known[some], [(every, alone.games(some))])
        terms = alone.games(others)
        if same_players and m > 3 and p >= _LEAST_PAIRS and variance.sum() > 1e-20 * (known[some] ** 2).sum():
            # A pair is predicted by interactions that were chosen without it, so that residuals are not too small.
            folds, most = np.arange(p) % _FOLDS, min(p // 4, _MOST_TRIPLES)
            sets = [
                (folds == i, _choose_terms(z[some, folds != i], y[some, folds != i], known[some], most))
                for i in range(_FOLDS)
            ]
            found = self._estimate(z[some], y[some], known[some], sets)
            if found[1].sum() < _GAIN * variance.sum():
                values, variance = found[:2]
                noise, terms = found[2], _merge([one for _, one in sets], g - n)
        if n < g:
            rest = self._estimate(z[others], y[others], known[others], [(every, terms)], noise)
            values, variance = np.concatenate([values, rest[0]]), np.concatenate([variance, rest[1]])
        return values, variance

    def _estimate(
        self,
        z: FloatArray,
        y: FloatArray,
        known: FloatArray,
        sets: list[tuple[BoolArray, _Terms]],
        noise: float | None = None,
    ) -> tuple[FloatArray, FloatArray, float]:
        """Values, their variance, and the noise of regressions on the terms of each set of pairs.

        A regression alone is biased by shrinkage and by the random covariance of terms and residuals, which would not
        average out over games. So each pair is predicted without it, and the mean residual of each size is added.
        """
        m = z.shape[2]
        centred = (z - z.mean(axis=2, keepdims=True)) / 2  # 1_S minus its component along the constraint
        weighted = self.weight[:, None] * centred
        residuals, moment, noises = np.empty_like(y), np.zeros((len(z), m, y.shape[2])), []
        for own, terms in sets:
            X = terms.columns(z)
            ridge = _Ridge.of(X, y, known, terms.prior, noise, exact=X is z)
            noises.append(ridge.noise)
            gain = ridge.gain
            leverage = np.minimum(np.einsum("gfp,gpf->gp", gain, X), 1 - 1e-6)
            loo_residual = (y - X @ ridge.slopes) / (1 - leverage)[:, :, None]
            residuals[:, own] = loo_residual[:, own]
            for first, last, count in self.strata:
                part, n = first + np.flatnonzero(own[first:last]), last - first
                if not len(part):
                    continue
                mean_slopes = ridge.slopes - gain[:, :, part] @ loo_residual[:, part] / len(part)
                # given the others, a pair represents the pairs not drawn; the others represent only themselves
                drawn, share = slice(first, last), len(part) / count
                left = y[:, drawn] - X[:, drawn] @ mean_slopes
                moment += share * weighted[:, drawn].swapaxes(1, 2) @ left
                moment += (1 - n / count) * weighted[:, part].swapaxes(1, 2) @ loo_residual[:, part]
                # the mean of centred times prediction over all pairs of this size
                size = int(self.half[0, first].sum())
                moment += len(part) * self.weight[first] * terms.mean_moment(mean_slopes, size)
        variance, total = np.zeros_like(moment), 0.0
        for first, last, count in self.strata:
            n, drawn, size = last - first, slice(first, last), int(self.half[0, first].sum())
            variance += _variance(weighted[:, drawn].swapaxes(1, 2), residuals[:, drawn], n, count)
            total += n * self.weight[first] * size * (m - size) / (m * (m - 1))  # E[z z'], up to a projection
        values = moment / total
        values -= values.mean(axis=1, keepdims=True)
        return values + 2 * known[:, None] / m, variance / total**2, float(np.exp(np.mean(np.log(noises))))


@dataclass(frozen=True, eq=False)
class _Terms:
    """Terms of a regression: all players ``z_j = +-1``, and interactions ``z_i z_j z_k``.

    Attributes
    ----------
    triples : array of int, shape (g, t, 3)
    prior : array of shape (g, m + t)
        Prior variance of the slopes, up to a factor.
    """

    triples: IntArray
    prior: FloatArray

    def games(self, some: slice) -> _Terms:
        return _Terms(self.triples[some], self.prior[some])

    def columns(self, z: FloatArray) -> FloatArray:
        """The terms of the pairs, ``(g, p, m + t)``."""
        if not self.triples.shape[1]:
            return z
        i, j, k = (np.take_along_axis(z, self.triples[:, None, :, place], axis=2) for place in range(3))
        return np.concatenate([z, i * j * k], axis=2)

    def mean_moment(self, slopes: FloatArray, size: int) -> FloatArray:
        """Mean of the prediction times ``1_S``, orthogonal to the constraint, over all pairs of a size."""
        g, m = len(self.triples), self.prior.shape[1] - self.triples.shape[1]
        means = [_mean_product(m, size, order) for order in (2, 4)]
        moment = (1 - means[0]) / 2 * slopes[:, :m]
        for place in range(3):
            at = (np.arange(g)[:, None], self.triples[:, :, place])
            np.add.at(moment, at, (means[0] - means[1]) / 2 * slopes[:, m:])
        return np.asarray(moment - moment.mean(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Regressions whose slopes add up to a known number, with the noise that has the largest marginal likelihood."""

    slopes: FloatArray  # (g, f, c)
    noise: float  # as a share of the terms' variance
    root: FloatArray  # (g, f, f)
    scaled: FloatArray  # (g, p, f)

    @property
    def gain(self) -> FloatArray:
        """Contribution of each ``y`` to each slope, ``(g, f, p)``."""
        return self.root @ self.scaled.swapaxes(1, 2)

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray,
        known: FloatArray,
        prior: FloatArray,
        noise: float | None = None,
        *,
        exact: bool = False,
    ) -> _Ridge:
        """``noise``: instead of the most likely; ``exact``: it may be that there is none."""
        p, f = X.shape[1:]
        spread, size = np.sqrt(prior)[:, :, None], prior.sum(axis=1)[:, None, None]
        mean = prior[:, :, None] / size * known[:, None]  # of slopes, given what they add up to
        A, along = X * spread.swapaxes(1, 2), spread / np.sqrt(size)
        A -= (A @ along) @ along.swapaxes(1, 2)
        y = y - X @ mean
        square = A.swapaxes(1, 2) @ A
        signal = np.trace(square, axis1=1, axis2=2) / p
        square += signal[:, None, None] * (along @ along.swapaxes(1, 2))  # regular; y has no part in this direction
        if noise is None:
            values, vectors = np.linalg.eigh(square)
            values = np.maximum(values, 0.0)
            projected = (vectors.swapaxes(1, 2) @ (A.swapaxes(1, 2) @ y)) ** 2
            grid = _NOISE[0 if exact else 1 :]
            level = grid[:, None] * signal
            scaled = values + level[:, :, None]  # (l, g, f)
            squares = (y**2).sum(axis=1)
            left = squares - (projected / scaled[:, :, :, None]).sum(axis=2)  # (l, g, c)
            left = np.maximum(left, 1e-15 * squares + 1e-300)
            log_evidence = -p * np.log(left / level[:, :, None]).mean(axis=2) - np.log(scaled).sum(axis=2)
            best = (log_evidence - (p - f) * np.log(level)).argmax(axis=0)
            inverse = (vectors / scaled[best, np.arange(len(X))][:, None]) @ vectors.swapaxes(1, 2)
            noise = float(np.exp(np.log(grid[best]).mean()))
        else:
            inverse = np.linalg.inv(square + (noise * signal)[:, None, None] * np.eye(f))
        root = spread * inverse
        return cls(mean + root @ (A.swapaxes(1, 2) @ y), noise, root, A)


def _choose_terms(z: FloatArray, y: FloatArray, known: FloatArray, most: int) -> _Terms:
    """At most ``most`` interactions that explain what the players leave, a half of them in each of two rounds."""
    g, _, m = z.shape
    slopes = _Ridge.of(z, y, known, np.ones((g, m))).slopes
    size = np.abs(slopes[:, :, 0])
    size /= np.maximum(size.max(axis=1, keepdims=True), 1e-300)
    players = np.sort(np.argsort(-size, axis=1, kind="stable")[:, :_SCREENED], axis=1)
    some = np.take_along_axis(z, players[:, None], axis=2)
    first, second, pair, third = _all_triples(players.shape[1])
    places = np.stack([first[pair], second[pair], third], axis=1)
    all_triples = players[:, places]  # (g, t, 3)
    # strong players interact more: the prior, which weak ones may overcome
    heredity = (np.take_along_axis(size, players, axis=1)[:, places] + 0.1).prod(axis=2)
    products = some[:, :, first] * some[:, :, second]
    chosen, residual = np.zeros((g, 0), dtype=np.intp), y - z @ slopes
    unused = np.ones(heredity.shape)
    for _ in range(2):
        covariance = (products * residual).swapaxes(1, 2) @ some
        score = covariance[:, pair, third] ** 2 * heredity * unused
        n = min(most // 2, heredity.shape[1] - chosen.shape[1])
        new = np.argsort(-score, axis=1, kind="stable")[:, :n]
        np.put_along_axis(unused, new, 0.0, axis=1)
        chosen = np.concatenate([chosen, new], axis=1)
        triples = np.take_along_axis(all_triples, chosen[:, :, None], axis=1)
        prior = np.concatenate([(size + 0.05) ** 2, 0.1 * np.take_along_axis(heredity, chosen, axis=1)], axis=1)
        X = _Terms(triples, prior).columns(z)
        slopes = _Ridge.of(X, y, known, prior).slopes
        residual = y - X @ slopes
    squares = slopes[:, :, 0] ** 2
    squares /= np.maximum(squares.sum(axis=1, keepdims=True), 1e-300)
    return _Terms(triples, squares + 0.05 * prior / prior.sum(axis=1, keepdims=True))


def _merge(sets: list[_Terms], g: int) -> _Terms:
    """The terms with the largest mean prior variance over some games, for ``g`` other games."""
    m = sets[0].prior.shape[1] - sets[0].triples.shape[1]
    prior = np.concatenate([terms.prior / terms.prior.sum(axis=1, keepdims=True) for terms in sets])
    triples = np.concatenate([np.sort(terms.triples, axis=2) for terms in sets]).reshape(-1, 3)
    unique, place = np.unique(triples, axis=0, return_inverse=True)
    mean = np.bincount(place.ravel(), prior[:, m:].ravel()) / len(prior)
    best = np.argsort(-mean, kind="stable")[: min(sets[0].triples.shape[1], _SHARED_TRIPLES)]
    both = np.concatenate([prior[:, :m].mean(axis=0), mean[best]])
    return _Terms(np.broadcast_to(unique[best], (g, len(best), 3)), np.broadcast_to(both, (g, len(both))))


@lru_cache(maxsize=64)
def _all_triples(q: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """All pairs ``i < j`` of ``q`` players; for all triples ``i < j < k`` the number of ``i, j``, and ``k``."""
    first, second = np.triu_indices(q, 1)
    pair, third = np.nonzero(np.arange(q) > second[:, None])
    return first, second, pair, third


@lru_cache(maxsize=4_096)
def _mean_product(m: int, size: int, order: int) -> float:
    """Mean over coalitions of a size of the product of ``order`` players, each +1 inside and -1 outside of it."""
    terms = ((-1) ** (order - j) * comb(size, j) * comb(m - size, order - j) for j in range(order + 1))
    return sum(terms) / comb(m, order) if order <= m else 0.0


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

    Their number depends only on ``m`` and ``n_samples``. It includes at least two pairs of each size (all, if there are
    fewer), which the variance needs.
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
    """Number of pairs of each size: the same for all, where there are that many (leverage scores)."""
    target = np.where(2 * np.arange(1, len(counts) + 1) == m, 0.5, 1.0)
    most = np.array([float(min(count, _LARGE_COUNT)) for count in counts])  # some counts exceed a double
    least = np.minimum(most, 2.0)
    pairs = max(pairs, m + int(least[1:].sum())) if m > 1 else 0  # more than the regression has unknowns
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
