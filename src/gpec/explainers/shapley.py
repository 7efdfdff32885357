"""Shapley values by sampling of permutations (Strumbelj & Kononenko), and exact Shapley values."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from gpec._validation import check_count
from gpec.errors import InputError
from gpec.explainers._coalitions import MaskedModel, Queue
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import sizes_between
from gpec.explainers.kernelshap import KernelShap
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

_MOST_FEATURES = 16  # 65,536 coalitions with each background row
_FEWEST_REFERENCES = 16  # with fewer, their variance would be a poor estimate


@dataclass(eq=False, repr=False)
class ShapleySampling(LinkedExplainer):
    """Shapley Sampling Values of the model's probabilities or log-odds (Strumbelj & Kononenko 2014), for many rows.

    A permutation changes a background row ``b`` into the explained row ``x``, feature by feature. The change of the
    probability at a feature's turn is an estimate of its interventional Shapley value. Permutations come in antithetic
    pairs: an order and its reverse, with the same background row. The pairs are distributed evenly over the background
    rows, at least two for each, so that the choice of background rows adds no error. If there are fewer than two pairs
    for each, some background rows are drawn, and a regression on ``p(x) - p(b)``, which is known for all of them,
    corrects for the others. Values always add up to ``p(x) - base_values``.

    Parameters
    ----------
    n_permutations : int
        Permutations of a row, two for each pair; at least 64 are drawn (or 4 for each background row, if there are
        fewer than 16). They cost at most ``n_permutations * (d - 1) + 1`` model rows for each explained row: features
        in which ``x`` and ``b`` are equal are skipped, and equal masked rows are predicted once.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds; see :class:`~gpec.explainers.KernelShap`.

    Notes
    -----
    The variance of the estimate is ``sum_b s_b^2 / n_b / B^2``, where ``s_b^2`` is the variance (ddof 1) of the ``n_b``
    pairs with background row ``b``. If only ``r`` of ``B`` background rows are drawn, it is, as in two-stage sampling,
    ``sum_b s_b^2 / n_b / (r B)`` plus ``1 - r / B`` times the variance of the regression over these background rows,
    corrected for leverage.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> explainer = ShapleySampling(200).fit(lambda X: X @ [0.5, 0.25, 0.0], X)
    >>> answer = explainer(X[:2])
    >>> np.allclose(answer.values, (X[:2] - X.mean(axis=0)) * [0.5, 0.25, 0.0])
    True
    """

    rows_at_once = 64  # each has three sums for each background row
    threads = True
    zero_where_equal = True
    samples = "n_permutations"
    remedy = "a smaller n_permutations costs less, and explainer='tree' needs no calls of a tree model"

    n_permutations: int = 2_000
    _: KW_ONLY
    link: Link = "identity"

    def check(self) -> None:
        super().check()
        check_count("n_permutations", self.n_permutations)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._game = MaskedModel(self.outputs_of, background, merge=False)
        self.stochastic = background.shape[1] > 2  # two features have only one pair of permutations

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        return sizes_between(4 * min(_FEWEST_REFERENCES, len(self._game.rows)), self._n_drawn)

    def model_rows(self, Z: FloatArray) -> int:
        return int(self.most_model_rows(Z).sum())

    def most_model_rows(self, Z: FloatArray) -> FloatArray:
        d, pairs = Z.shape[1], -(-int(self.n_permutations) // 2)
        distinct = _n_references(pairs, len(self._game.rows)) * (2.0**d - 2)  # coalitions that permutations share
        return np.full(len(Z), min(float(self._n_drawn * (d - 1)), distinct) + 1)

    @property
    def _n_drawn(self) -> int:
        """Permutations of a row."""
        pairs = -(-int(self.n_permutations) // 2)
        return 2 * max(pairs, 2 * _n_references(pairs, len(self._game.rows)))

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        sums = []
        for i, seed in enumerate(seeds):
            rng = stream(seed, "perturbations")
            chosen = _assign_background(-(-int(self.n_permutations) // 2), len(game.rows), rng)
            sums.append(_PermutationSums(chosen, Z.shape[1], answers.shape[1]))
            self._submit_permutations(queue, i, answers[i], sums[-1], rng)
        queue.flush()
        found = [part.estimate(answer - game.answers) for part, answer in zip(sums, answers, strict=True)]
        values, variance = (np.stack(part) for part in zip(*found, strict=True))
        return Attribution(values, variance, np.broadcast_to(game.base, answers.shape))

    def _submit_permutations(
        self, queue: Queue, row: int, p: FloatArray, sums: _PermutationSums, rng: np.random.Generator
    ) -> None:
        game, d = queue.game, queue.Z.shape[1]
        step = max(1, game.at_once // max(1, 2 * (d - 1)))
        for start in range(0, len(sums.chosen), step):
            references = sums.chosen[start : start + step]
            # the position of each feature in the first order of a pair; features that are not players join last
            plays = game.differs(queue.Z[row], references)
            rank = (rng.random(plays.shape) + ~plays).argsort(axis=1).argsort(axis=1)
            joined = rank[:, None, :] < np.arange(1, d)[:, None]  # coalitions of 1, 2, ... features
            masks = np.stack([joined, ~joined], axis=1)

            def use(answers: FloatArray, rank: IntArray = rank, references: IntArray = references) -> None:
                worth = answers.reshape(len(references), 2, d - 1, len(p))
                sums.add(references, _contributions(rank, worth, game.answers[references], p))

            queue.submit_unique(row, p, masks.reshape(-1, d), np.repeat(references, 2 * (d - 1)), use)


def _contributions(rank: IntArray, worth: FloatArray, empty: FloatArray, full: FloatArray) -> FloatArray:
    """The marginal contribution of each feature, averaged over both orders of each of ``g`` pairs, ``(g, d, c)``.

    Parameters
    ----------
    rank : array of int, shape (g, d)
        Position of each feature in the first order, from 0.
    worth : array of shape (g, 2, d - 1, c)
        The values of the coalitions of 1, 2, ... features in the first order, and of their complements.
    empty, full : arrays of shape (g, c) and (c,)
        The values of the empty and of the full coalition.
    """
    ends = (full - empty)[:, None] / 2
    # A feature of rank r adds v(S_r+1) - v(S_r) in one order and v(not S_r) - v(not S_r+1) in the other.
    path = np.concatenate([-ends, (worth[:, 0] - worth[:, 1]) / 2, ends], axis=1)
    return np.asarray(np.take_along_axis(np.diff(path, axis=1), rank[:, :, None], axis=1))


def _assign_background(pairs: int, B: int, rng: np.random.Generator) -> IntArray:
    """The background row of each pair, sorted: all equally often (within one), or two pairs on as many as possible."""
    r = _n_references(pairs, B)
    order = rng.permutation(B)[:r]
    return np.sort(np.resize(order, max(pairs, 2 * r)))


def _n_references(pairs: int, B: int) -> int:
    """How many of the background rows are used."""
    return min(B, max(pairs // 2, _FEWEST_REFERENCES))


class _PermutationSums:
    """Sums over the pairs of each background row, so that memory does not grow with the number of pairs."""

    def __init__(self, chosen: IntArray, d: int, c: int) -> None:
        self.chosen = chosen
        self.references, self.counts = np.unique(chosen, return_counts=True)
        # contributions of the first pair: sums of squares around them stay small and accurate
        self.pilot = np.full((len(self.references), d, c), np.nan)
        self.first = np.zeros_like(self.pilot)
        self.second = np.zeros_like(self.pilot)

    def add(self, references: IntArray, contributions: FloatArray) -> None:
        """Add the contributions of pairs with these background rows."""
        place = np.searchsorted(self.references, references)
        distinct, first = np.unique(place, return_index=True)
        self.pilot[distinct] = np.where(np.isnan(self.pilot[distinct]), contributions[first], self.pilot[distinct])
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


class ExactShapley(KernelShap):
    """Interventional Shapley values of the model's probabilities or log-odds, by enumeration; deterministic.

    ``phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! * (v(S + j) - v(S))`` with
    ``v(S) = mean_b p(x_S, b_notS)``. A background row that differs from ``x`` in ``m`` features costs ``2^m - 2`` model
    rows, at most ``2^d - 2``.

    Parameters
    ----------
    link : {"identity", "logit"}
        Explain probabilities, or log-odds.

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

    stochastic = False
    samples = None
    _budget = np.inf
    remedy = (
        "fewer background rows cost less, explainer='kernelshap' has a budget, and explainer='tree' needs no calls of "
        "a tree model"
    )

    def __init__(self, *, link: Link = "identity") -> None:
        self.link = link

    def bind(self, model: Model, background: FloatArray) -> None:
        d = background.shape[1]
        if d > _MOST_FEATURES:
            raise InputError(
                f"ExactShapley enumerates the coalitions of all features, but X has {d}, more than {_MOST_FEATURES}; "
                "use KernelShap or ShapleySampling."
            )
        super().bind(model, background)
        self.stochastic = False

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        return ()
