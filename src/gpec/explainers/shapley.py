"""Shapley values: by sampling permutations (Strumbelj & Kononenko), and exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpec.errors import InputError
from gpec.explainers.base import Attribution, Explainer
from gpec.explainers.coalitions import BoolArray, MaskedModel, Queue, put_enumeration
from gpec.model import Model
from gpec.table import FloatArray, IntArray
from gpec.validation import check_count

__all__ = ["ExactShapley", "ShapleySampling", "Walks"]

_MOST_FEATURES = 16  # 65,536 coalitions with each background row
_FEWEST_REFERENCES = 16  # fewer would tell little of their spread


@dataclass(frozen=True, eq=False)
class Walks:
    """Antithetic pairs of permutations: players join one after the other, once in an order and once in its reverse.

    Attributes
    ----------
    rank : array of int, shape (p, m)
        When each player joins, from 0, in the first of the two.
    """

    rank: IntArray

    @classmethod
    def draw(cls, plays: BoolArray, rng: np.random.Generator) -> Walks:
        """One pair for each row of ``plays (p, m)``; players that do not play join last."""
        return cls((rng.random(plays.shape) + ~plays).argsort(axis=1).argsort(axis=1))

    @property
    def masks(self) -> BoolArray:
        """The coalitions to be valued, ``(p, 2, m - 1, m)``: of 1, 2, ... players, and their complements."""
        joined = self.rank[:, None, :] < np.arange(1, self.rank.shape[1])[:, None]
        return np.stack([joined, ~joined], axis=1)

    def contributions(self, worth: FloatArray, empty: FloatArray, full: FloatArray) -> FloatArray:
        """What each player adds, the mean of the two orders, ``(p, m, c)``.

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


class ShapleySampling(Explainer):
    """Shapley Sampling Values of the model's probabilities (Strumbelj & Kononenko 2014), for all rows together.

    A permutation turns a background row ``b`` into the explained row ``x``, feature by feature; what a feature adds to
    the probability when its turn comes is an estimate of its interventional Shapley value. Permutations come in
    antithetic pairs, an order and its reverse with the same background row, and the pairs are spread evenly over the
    background rows, at least two on each. So no part of the error stems from the choice of background rows, unless
    there are fewer than two pairs for each: then some are drawn, and a regression on ``p(x) - p(b)``, which is known
    for all of them, makes up for the others. Values always add to ``p(x) - base_values``.

    Parameters
    ----------
    n_permutations : int
        Permutations a row, both of each pair counted; at least 64 are drawn (or 4 for each background row, if these are
        fewer than 16). They cost at most ``n_permutations * (d - 1) + 1`` model rows for each explained row: features
        in which ``x`` and ``b`` agree need no turn, and masked rows that come twice are predicted once.

    Notes
    -----
    The variance is that of the estimate, with the pair as its unit: ``sum_b s_b^2 / n_b / B^2`` where ``s_b^2`` is the
    variance (ddof 1) of the ``n_b`` pairs on background row ``b``. Where only ``r`` of ``B`` background rows are drawn,
    it is, as in two-stage sampling, ``sum_b s_b^2 / n_b / (r B)`` plus ``1 - r / B`` of the variance of the
    regression over these background rows, corrected for leverage.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> explainer = ShapleySampling(200).fit(lambda X: X @ [0.5, 0.25, 0.0], X)
    >>> answer = explainer(X[:2])
    >>> np.allclose(answer.values, (X[:2] - X.mean(axis=0)) * [0.5, 0.25, 0.0])
    True
    """

    unit = "probability"
    rows_at_once = 64  # each keeps three sums for each background row

    def __init__(self, n_permutations: int = 2_000) -> None:
        self.n_permutations = n_permutations

    def check(self) -> None:
        check_count("n_permutations", self.n_permutations)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._game = MaskedModel(model, background, merge=False)
        self.stochastic = background.shape[1] > 2  # a pair is all permutations of two features

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        sums = []
        for i, seed in enumerate(seeds):
            rng = np.random.default_rng(seed)
            chosen = _spread(-(-int(self.n_permutations) // 2), len(game.rows), rng)
            sums.append(_Sums(chosen, Z.shape[1], answers.shape[1]))
            self._walk(queue, i, answers[i], sums[-1], rng)
        queue.flush()
        found = [part.estimate(answer - game.answers) for part, answer in zip(sums, answers, strict=True)]
        values, variance = (np.stack(part) for part in zip(*found, strict=True))
        base = np.broadcast_to(game.base, answers.shape)
        return Attribution(game.shaped(values), game.shaped(variance), game.shaped(base))

    def _walk(self, queue: Queue, row: int, p: FloatArray, sums: _Sums, rng: np.random.Generator) -> None:
        game, d = queue.game, queue.Z.shape[1]
        step = max(1, game.at_once // max(1, 2 * (d - 1)))
        for start in range(0, len(sums.chosen), step):
            some = sums.chosen[start : start + step]
            walks = Walks.draw(queue.Z[row] != game.rows[some], rng)

            def use(answers: FloatArray, walks: Walks = walks, some: IntArray = some) -> None:
                worth = answers.reshape(len(some), 2, d - 1, len(p))
                sums.add(some, walks.contributions(worth, game.answers[some], np.broadcast_to(p, (len(some), len(p)))))

            queue.share(row, p, walks.masks.reshape(-1, d), np.repeat(some, 2 * (d - 1)), use)


def _spread(pairs: int, B: int, rng: np.random.Generator) -> IntArray:
    """The background row of each pair, sorted: all equally often (within one), or two pairs on as many as possible."""
    r = min(B, max(pairs // 2, _FEWEST_REFERENCES))
    order = rng.permutation(B)[:r]
    return np.sort(np.resize(order, max(pairs, 2 * r)))


class _Sums:
    """Sums over the pairs on each background row, so that memory does not grow with their number."""

    def __init__(self, chosen: IntArray, d: int, c: int) -> None:
        self.chosen = chosen
        self.references, self.counts = np.unique(chosen, return_counts=True)
        # contributions of the first pair: sums of squares about them stay small, and so accurate
        self.pilot = np.full((len(self.references), d, c), np.nan)
        self.first = np.zeros_like(self.pilot)
        self.second = np.zeros_like(self.pilot)

    def add(self, some: IntArray, contributions: FloatArray) -> None:
        """Count in the pairs on background rows ``some``."""
        place = np.searchsorted(self.references, some)
        met, where = np.unique(place, return_index=True)
        self.pilot[met] = np.where(np.isnan(self.pilot[met]), contributions[where], self.pilot[met])
        about = contributions - self.pilot[place]
        np.add.at(self.first, place, about)
        np.add.at(self.second, place, about**2)

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
        about = totals[self.references] - totals[self.references].mean(axis=0)
        size = (about**2).sum(axis=0)
        # the slopes add to 1, for the contributions on each background row add to its total
        even = np.full(values.shape, 1 / len(values))
        slope = np.divide(np.einsum("bc,bjc->jc", about, means), size, out=even, where=size > 0)
        gap = totals.mean(axis=0) - totals[self.references].mean(axis=0)
        # What is left of the spread; by far ones the slopes, and so the sum of all, are swayed more.
        far = np.divide(about, size, out=np.zeros_like(about), where=size > 0)
        # The power is between HC2 (1/2) and HC3 (1), which claim too little and too much when r is small.
        leverage = np.minimum(1 / r + about * far, 0.9)
        residual = (means - values - slope * about[:, None]) / (1 - leverage)[:, None] ** 0.75
        between = ((residual * (1 / r + gap * far)[:, None]) ** 2).sum(axis=0) * (r - 1) / r
        return values + slope * gap, variance + (1 - r / B) * between


class ExactShapley(Explainer):
    """Interventional Shapley values of the model's probabilities by enumeration; deterministic.

    ``phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! * (v(S + j) - v(S))`` with
    ``v(S) = mean_b p(x_S, b_notS)``. A background row that differs from ``x`` in ``m`` features costs ``2^m - 2`` model
    rows, at most ``2^d - 2``.

    Raises
    ------
    InputError
        If there are more than 16 features.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> explainer = ExactShapley().fit(lambda X: X @ [0.5, 0.25, 0.0], X)
    >>> answer = explainer(X[:2])
    >>> np.allclose(answer.values, (X[:2] - X.mean(axis=0)) * [0.5, 0.25, 0.0])
    True
    """

    unit = "probability"
    stochastic = False

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        d = background.shape[1]
        if d > _MOST_FEATURES:
            raise InputError(
                f"ExactShapley enumerates the coalitions of all features, but X has {d}, more than {_MOST_FEATURES}; "
                "use KernelShap or ShapleySampling."
            )
        self._game = MaskedModel(model, background)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        values = np.zeros((*Z.shape, answers.shape[1]))
        for i, p in enumerate(answers):
            put_enumeration(queue, i, p, np.arange(len(game.rows)), values[i])
        queue.flush()
        base = np.broadcast_to(game.base, answers.shape)
        return Attribution(game.shaped(values), game.shaped(np.zeros_like(values)), game.shaped(base))
