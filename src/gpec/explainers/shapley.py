"""Shapley values by sampling of permutations (Strumbelj & Kononenko), and exact Shapley values."""

from __future__ import annotations

import numpy as np

from gpec._validation import check_count
from gpec.errors import InputError
from gpec.explainers._coalitions import MaskedModel, Queue, submit_enumeration
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers._permutations import PermutationPairs, PermutationSums, assign_background
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

__all__ = ["ExactShapley", "ShapleySampling"]

_MOST_FEATURES = 16  # 65,536 coalitions with each background row


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
    remedy = "a smaller n_permutations costs less, and explainer='tree' needs no calls of a tree model"

    def __init__(self, n_permutations: int = 2_000, *, link: Link = "identity") -> None:
        self.n_permutations = n_permutations
        self.link = link

    def check(self) -> None:
        super().check()
        check_count("n_permutations", self.n_permutations)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._game = MaskedModel(self.outputs_of, background, merge=False)
        self.stochastic = background.shape[1] > 2  # two features have only one pair of permutations

    def model_rows(self, Z: FloatArray) -> int:
        return len(Z) * int(self.n_permutations * (Z.shape[1] - 1) + 1)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        sums = []
        for i, seed in enumerate(seeds):
            rng = stream(seed, "perturbations")
            chosen = assign_background(-(-int(self.n_permutations) // 2), len(game.rows), rng)
            sums.append(PermutationSums(chosen, Z.shape[1], answers.shape[1]))
            self._submit_permutations(queue, i, answers[i], sums[-1], rng)
        queue.flush()
        found = [part.estimate(answer - game.answers) for part, answer in zip(sums, answers, strict=True)]
        values, variance = (np.stack(part) for part in zip(*found, strict=True))
        return Attribution(values, variance, np.broadcast_to(game.base, answers.shape))

    def _submit_permutations(
        self, queue: Queue, row: int, p: FloatArray, sums: PermutationSums, rng: np.random.Generator
    ) -> None:
        game, d = queue.game, queue.Z.shape[1]
        step = max(1, game.at_once // max(1, 2 * (d - 1)))
        for start in range(0, len(sums.chosen), step):
            some = sums.chosen[start : start + step]
            pairs = PermutationPairs.draw(game.differs(queue.Z[row], some), rng)

            def use(answers: FloatArray, pairs: PermutationPairs = pairs, some: IntArray = some) -> None:
                worth = answers.reshape(len(some), 2, d - 1, len(p))
                sums.add(some, pairs.contributions(worth, game.answers[some], np.broadcast_to(p, (len(some), len(p)))))

            queue.submit_unique(row, p, pairs.masks.reshape(-1, d), np.repeat(some, 2 * (d - 1)), use)


class ExactShapley(LinkedExplainer):
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
    threads = True
    remedy = (
        "fewer background rows cost less, explainer='kernelshap' has a budget, and explainer='tree' needs no calls of "
        "a tree model"
    )

    def __init__(self, *, link: Link = "identity") -> None:
        self.link = link

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        d = background.shape[1]
        if d > _MOST_FEATURES:
            raise InputError(
                f"ExactShapley enumerates the coalitions of all features, but X has {d}, more than {_MOST_FEATURES}; "
                "use KernelShap or ShapleySampling."
            )
        self._game = MaskedModel(self.outputs_of, background)

    def model_rows(self, Z: FloatArray) -> int:
        return self._game.enumeration_rows(Z)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        values = np.zeros((*Z.shape, answers.shape[1]))
        for i, p in enumerate(answers):
            submit_enumeration(queue, i, p, np.arange(len(game.rows)), values[i])
        queue.flush()
        return Attribution(values, np.zeros_like(values), np.broadcast_to(game.base, answers.shape))
