"""Shapley values: by sampling permutations (Strumbelj & Kononenko), and exactly."""

from __future__ import annotations

import numpy as np

from gpec._validation import check_count
from gpec.errors import InputError
from gpec.explainers._coalitions import MaskedModel, Queue, put_enumeration
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers._permutations import Sums, Walks, spread
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

__all__ = ["ExactShapley", "ShapleySampling"]

_MOST_FEATURES = 16  # 65,536 coalitions with each background row


class ShapleySampling(LinkedExplainer):
    """Shapley Sampling Values of the model's probabilities or log-odds (Strumbelj & Kononenko 2014), rows together.

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
    link : {"identity", "logit"}
        Explain probabilities, or log-odds in their place; see :class:`~gpec.explainers.KernelShap`.

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

    rows_at_once = 64  # each keeps three sums for each background row
    threads = True
    remedy = "a smaller n_permutations costs less, and explainer='tree' reads trees without asking the model"

    def __init__(self, n_permutations: int = 2_000, *, link: Link = "identity") -> None:
        self.n_permutations = n_permutations
        self.link = link

    def check(self) -> None:
        super().check()
        check_count("n_permutations", self.n_permutations)

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._game = MaskedModel(self.outputs_of, background, merge=False)
        self.stochastic = background.shape[1] > 2  # a pair is all permutations of two features

    def model_rows(self, Z: FloatArray) -> int:
        return len(Z) * int(self.n_permutations * (Z.shape[1] - 1) + 1)

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        sums = []
        for i, seed in enumerate(seeds):
            rng = stream(seed, "perturbations")
            chosen = spread(-(-int(self.n_permutations) // 2), len(game.rows), rng)
            sums.append(Sums(chosen, Z.shape[1], answers.shape[1]))
            self._walk(queue, i, answers[i], sums[-1], rng)
        queue.flush()
        found = [part.estimate(answer - game.answers) for part, answer in zip(sums, answers, strict=True)]
        values, variance = (np.stack(part) for part in zip(*found, strict=True))
        return Attribution(values, variance, np.broadcast_to(game.base, answers.shape))

    def _walk(self, queue: Queue, row: int, p: FloatArray, sums: Sums, rng: np.random.Generator) -> None:
        game, d = queue.game, queue.Z.shape[1]
        step = max(1, game.at_once // max(1, 2 * (d - 1)))
        for start in range(0, len(sums.chosen), step):
            some = sums.chosen[start : start + step]
            walks = Walks.draw(game.differs(queue.Z[row], some), rng)

            def use(answers: FloatArray, walks: Walks = walks, some: IntArray = some) -> None:
                worth = answers.reshape(len(some), 2, d - 1, len(p))
                sums.add(some, walks.contributions(worth, game.answers[some], np.broadcast_to(p, (len(some), len(p)))))

            queue.share(row, p, walks.masks.reshape(-1, d), np.repeat(some, 2 * (d - 1)), use)


class ExactShapley(LinkedExplainer):
    """Interventional Shapley values of the model's probabilities or log-odds, by enumeration; deterministic.

    ``phi_j = sum over S without j of |S|! (d - |S| - 1)! / d! * (v(S + j) - v(S))`` with
    ``v(S) = mean_b p(x_S, b_notS)``. A background row that differs from ``x`` in ``m`` features costs ``2^m - 2`` model
    rows, at most ``2^d - 2``.

    Parameters
    ----------
    link : {"identity", "logit"}
        Explain probabilities, or log-odds in place of ``p``.

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
        "fewer background rows cost less, explainer='kernelshap' has a budget, and explainer='tree' reads trees "
        "without asking the model"
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
            put_enumeration(queue, i, p, np.arange(len(game.rows)), values[i])
        queue.flush()
        return Attribution(values, np.zeros_like(values), np.broadcast_to(game.base, answers.shape))
