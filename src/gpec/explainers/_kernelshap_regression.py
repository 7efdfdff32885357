"""Shapley values by weighted regression on coalitions, drawn in pairs and stratified by size.

    phi = argmin sum_S w(S) (v(S) - v(0) - sum_{j in S} phi_j)^2   subject to   sum_j phi_j = v(1) - v(0)

with ``w(S) = (m - 1) / (C(m, |S|) |S| (m - |S|))``. A coalition and its complement have the same weight. Together they
determine ``phi`` only through ``y = (v(S) - v(not S)) / 2``, the odd part of the game. It is regressed on ``z = +-1``
of all players and, where this helps, on products of three and five of them: interactions of two have no odd part. The
regression only predicts; what it leaves is added without bias, from the residuals of the pairs drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np

from gpec.typing import BoolArray, FloatArray, IntArray

_SMALL_COUNT = 2_048  # up to this number, random keys for all are cheaper than one draw for each game
_LARGE_COUNT = 2**62  # with this many pairs, none is drawn twice
_LEAST_NOISE = 1e-13  # of regressions, as a share of the terms' variance
_PILOTS = 5  # games in which interactions for others are searched
_LEAST_PAIRS = 20  # for interactions
_GAIN = 0.9  # of the variance, from which interactions are used
_FOLDS = 3
_FEW_GAMES = 4  # from here on, half of the games learn interactions from the other half
_ROUNDS = 4
_SCREENED = 40  # players of which all interactions of three are tried
_FIVES = 10  # players of which all interactions of five are tried
_MOST_TERMS = 160  # interactions
_SHARED_TERMS = 128  # that games learn from others


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
        even = (worth[:, :p] + worth[:, p:]) / 2
        even = even - even.mean(axis=1, keepdims=True)
        outputs = range(y.shape[2])
        found = [
            self._solve_output(z, y[:, :, k], even[:, :, k], known[:, k], same_players=same_players) for k in outputs
        ]
        values, variance = (np.stack(part, axis=2) for part in zip(*found, strict=True))
        return values, variance

    def _solve_output(
        self, z: FloatArray, y: FloatArray, even: FloatArray, known: FloatArray, *, same_players: bool
    ) -> tuple[FloatArray, FloatArray]:
        """Values and their variance, both ``(g, m)``, with interactions if they lower the variance of some games."""
        g, p, m = z.shape
        every, some = np.full(p, True), slice(_PILOTS)
        alone = [(every, _Terms.players(m))]
        values, variance = self._estimate(z[some], y[some], known[some], alone)
        uncertain = variance.sum() > 1e-20 * (known[some] ** 2).sum()
        if (same_players or g == 1) and m > 3 and p >= _LEAST_PAIRS and uncertain:
            # Pairs are predicted by interactions that were chosen without them, so that residuals are not too small.
            found = np.empty((2, g, m))
            if g < _FEW_GAMES:
                sets = []
                for own in np.arange(p) % _FOLDS == np.arange(_FOLDS)[:, None]:
                    others = ~own
                    most = min(p // 4, _MOST_TERMS)
                    sets.append((own, _choose_terms(z[:, others], y[:, others], even[:, others], known, most)))
                found[:] = self._estimate(z, y, known, sets)
            else:
                for half in range(2):
                    games, pilots = slice(half, None, 2), slice(1 - half, 2 * _PILOTS, 2)
                    most = min(p // 4, _SHARED_TERMS)
                    terms = _choose_terms(z[pilots], y[pilots], even[pilots], known[pilots], most)
                    found[:, games] = self._estimate(z[games], y[games], known[games], [(every, terms)])
            if found[1, some].sum() < _GAIN * variance.sum():
                return found[0], found[1]
        return (values, variance) if g <= _PILOTS else self._estimate(z, y, known, alone)

    def _estimate(
        self, z: FloatArray, y: FloatArray, known: FloatArray, sets: list[tuple[BoolArray, _Terms]]
    ) -> tuple[FloatArray, FloatArray]:
        """Values and their variance, by regressions on the terms of each set of pairs.

        A regression alone is biased by shrinkage and by the random covariance of terms and residuals, which would not
        average out over games. So each pair is predicted without it, and the mean residual of each size is added.
        """
        m = z.shape[2]
        centred = (z - z.mean(axis=2, keepdims=True)) / 2  # 1_S minus its component along the constraint
        weighted = self.weight[:, None] * centred
        residuals, moment = np.empty_like(y), np.zeros((len(z), m))
        for own, terms in sets:
            X = terms.columns(z)
            ridge = _Ridge.of(X, y, known, terms)
            loo_residual = ridge.left / (1 - ridge.leverage)
            residuals[:, own] = loo_residual[:, own]
            for first, last, count in self.strata:
                part, n = first + np.flatnonzero(own[first:last]), last - first
                if not len(part):
                    continue
                mean_slopes = ridge.slopes - ridge.gain(part, loo_residual[:, part] / len(part))
                # given the others, a pair represents the pairs not drawn; the others represent only themselves
                drawn, share = slice(first, last), len(part) / count
                left = y[:, drawn] - _predict(mean_slopes, X[:, :, drawn])
                moment += share * (left[:, None] @ weighted[:, drawn])[:, 0]
                moment += (1 - n / count) * (loo_residual[:, None, part] @ weighted[:, part])[:, 0]
                # the mean of centred times prediction over all pairs of this size
                size = int(self.half[0, first].sum())
                moment += len(part) * self.weight[first] * terms.mean_moment(mean_slopes, size)
        variance, total = np.zeros_like(moment), 0.0
        for first, last, count in self.strata:
            n, drawn, size = last - first, slice(first, last), int(self.half[0, first].sum())
            variance += _variance(weighted[:, drawn], residuals[:, drawn], n, count)
            total += n * self.weight[first] * size * (m - size) / (m * (m - 1))  # E[z z'], up to a projection
        values = moment / total
        values -= values.mean(axis=1, keepdims=True)
        return values + 2 * known[:, None] / m, variance / total**2


@dataclass(frozen=True, eq=False)
class _Terms:
    """Terms of a regression: all ``m`` players ``z_j = +-1``, and products of three or five of them.

    Attributes
    ----------
    sets : array of int, shape (t, 5)
        The players of each product, filled up with ``m``.
    prior : array of shape (m + t,)
        Prior variance of the slopes, up to a factor.
    noise : float
        A guess of the regression's noise, as a share of the terms' variance.
    steps : int
        Steps from there towards the most likely noise.
    """

    sets: IntArray
    prior: FloatArray
    noise: float = 0.1
    steps: int = 6

    @classmethod
    def players(cls, m: int) -> _Terms:
        return cls(np.zeros((0, 5), dtype=np.intp), np.ones(m))

    def columns(self, z: FloatArray) -> FloatArray:
        """The terms of the pairs, ``(g, m + t, p)``."""
        rows = np.ascontiguousarray(z.swapaxes(1, 2))
        return np.concatenate([rows, _products(rows, self.sets)], axis=1) if len(self.sets) else rows

    def mean_moment(self, slopes: FloatArray, size: int) -> FloatArray:
        """Mean of the prediction times ``1_S``, orthogonal to the constraint, over all pairs of a size."""
        t = len(self.sets)
        m = len(self.prior) - t
        means = [_mean_product(m, size, order) for order in (0, 2, 4, 6)]
        factor = -np.diff(means) / 2  # of terms with one, three and five players
        part = slopes[:, m:] * np.where(self.sets[:, 4] < m, factor[2], factor[1])
        members = np.zeros((t, m + 1))
        members[np.arange(t)[:, None], self.sets] = 1.0
        moment = factor[0] * slopes[:, :m] + part @ members[:, :m]
        return np.asarray(moment - moment.mean(axis=1, keepdims=True))


def _products(rows: FloatArray, sets: IntArray) -> FloatArray:
    """Products of three or five of the ``m`` rows ``(g, m, p)``: ``(g, t, p)``."""
    found = rows[:, sets[:, 0]] * rows[:, sets[:, 1]]
    found *= rows[:, sets[:, 2]]
    five = np.flatnonzero(sets[:, 4] < rows.shape[1])
    found[:, five] *= rows[:, sets[five, 3]] * rows[:, sets[five, 4]]
    return found


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Regressions whose slopes add up to a known number, with a noise of large marginal likelihood."""

    slopes: FloatArray  # (g, f)
    left: FloatArray  # (g, p), y without its prediction
    noise: FloatArray  # (g,), as a share of the terms' variance
    spread: FloatArray  # (f,)
    inverse: FloatArray  # (g, f, f)
    scaled: FloatArray  # (g, f, p)

    @property
    def leverage(self) -> FloatArray:
        """Contribution of each ``y`` to its prediction, ``(g, p)``."""
        return np.asarray(np.minimum(((self.inverse @ self.scaled) * self.scaled).sum(axis=1), 1 - 1e-6))

    def gain(self, part: IntArray, change: FloatArray) -> FloatArray:
        """Change of the slopes that follows from a change of ``y (g, n)`` of some pairs."""
        return self.spread * (self.inverse @ (self.scaled[:, :, part] @ change[:, :, None]))[:, :, 0]

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, known: FloatArray, terms: _Terms) -> _Ridge:
        f, p = X.shape[1:]
        spread, share = np.sqrt(terms.prior), terms.prior / terms.prior.sum()
        along, mean = np.sqrt(share), share * known[:, None]  # mean of slopes, given what they add up to
        A = X * spread[:, None]
        A -= along[:, None] * (along @ A)[:, None]
        target = y - _predict(mean, X)
        square, projected = A @ A.swapaxes(1, 2), A @ target[:, :, None]
        signal = np.trace(square, axis1=1, axis2=2) / p
        square += signal[:, None, None] * np.outer(along, along)  # regular; y has no part in this direction
        noise = np.broadcast_to(terms.noise, len(X))
        for step in range(terms.steps + 1):
            level = noise * signal
            inverse = np.linalg.inv(square + level[:, None, None] * np.eye(f))
            scaled = (inverse @ projected)[:, :, 0]
            left = target - _predict(scaled, A)
            if step < terms.steps:  # MacKay's step towards the most likely noise
                used = f - 1 - level * (np.trace(inverse, axis1=1, axis2=2) - 1 / (signal + level))
                strength = (scaled**2).sum(axis=1) / np.maximum(used, 1e-3)
                likely = (left**2).sum(axis=1) / np.maximum(p - used, 1) / np.maximum(strength * signal, 1e-300)
                noise = likely.clip(_LEAST_NOISE, 10)
        return cls(mean + spread * scaled, left, noise, spread, inverse, A)


def _largest(score: FloatArray, n: int) -> IntArray:
    return np.argpartition(-score, min(n, len(score) - 1))[:n]


def _predict(slopes: FloatArray, X: FloatArray) -> FloatArray:
    """Sum of slopes ``(g, f)`` times terms ``(g, f, p)``."""
    return (slopes[:, None] @ X)[:, 0]


def _choose_terms(z: FloatArray, y: FloatArray, even: FloatArray, known: FloatArray, most: int) -> _Terms:
    """At most ``most`` interactions that explain what the players leave in some games, chosen in a few rounds."""
    m = z.shape[2]
    terms = _Terms.players(m)
    X = terms.columns(z)
    ridge = _Ridge.of(X, y, known, terms)
    size = np.sqrt((ridge.slopes**2).mean(axis=0))
    size /= max(size.max(), 1e-300)
    order = np.argsort(-size, kind="stable")
    players, few = np.sort(order[:_SCREENED]), np.sort(order[:_FIVES])
    first, second, pair, third = _all_triples(len(players))
    some = X[:, players]
    twos = some[:, first] * some[:, second]
    fives = few[_all_fives(len(few))]
    sets = np.concatenate([np.full((len(pair), 5), m), fives])
    sets[: len(pair), :3] = players[np.stack([first[pair], second[pair], third], axis=1)]
    products = _products(X, fives)
    # Strong players interact more, and three of which two interact: the prior, which others may overcome.
    joint = np.zeros((m + 1, m + 1))
    joint[players[first], players[second]] = np.sqrt((_predict(even, twos.swapaxes(1, 2)) ** 2).mean(axis=0))
    joint = (joint + joint.T) / max(joint.max(), 1e-300)
    i, j, k = sets[:, :3].T
    heredity = np.append(size + 0.1, 1.0)[sets].prod(axis=1) * (joint[i, j] + joint[i, k] + joint[j, k] + 0.5)
    alone, chosen = (size + 0.05) ** 2, np.zeros(0, dtype=np.intp)
    for _ in range(_ROUNDS):
        threes = twos @ (some * ridge.left[:, None]).swapaxes(1, 2)
        covariance = np.concatenate([threes[:, pair, third], (products @ ridge.left[:, :, None])[:, :, 0]], axis=1)
        score = (covariance**2).sum(axis=0) * heredity
        score[chosen] = 0.0
        chosen = np.concatenate([chosen, _largest(score, most // _ROUNDS)])
        prior = np.concatenate([alone, 0.1 * heredity[chosen]])
        terms = _Terms(sets[chosen], prior, float(np.exp(np.log(ridge.noise).mean())), 1)
        ridge = _Ridge.of(terms.columns(z), y, known, terms)
    squares = (ridge.slopes**2).mean(axis=0)
    prior = squares / max(squares.sum(), 1e-300) + 0.05 * prior / prior.sum()
    return _Terms(sets[chosen], prior, float(np.exp(np.log(ridge.noise).mean())), 1)


@lru_cache(maxsize=64)
def _all_fives(q: int) -> IntArray:
    """All sets of five of ``q`` players."""
    return np.array(list(combinations(range(q), 5)), dtype=np.intp).reshape(-1, 5)


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
    """Variance of the sum of ``n`` pairs' influence, ``gain (g, n, m)`` times residual, drawn from ``count`` pairs."""
    if n == count:
        return np.zeros((gain.shape[0], gain.shape[2]))
    influence = gain * residual[:, :, None]
    spread = (influence**2).sum(axis=1) - influence.sum(axis=1) ** 2 / n
    return np.asarray(np.maximum(spread, 0.0) * (n / (n - 1) * (1 - n / count)))


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
