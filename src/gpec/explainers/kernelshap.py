"""KernelSHAP: Shapley values by weighted regression on coalitions."""

from __future__ import annotations

import numpy as np

from gpec.data.rows import evenly_spaced
from gpec.explainers._coalitions import (
    CoalitionExplainer,
    MaskedModel,
    Queue,
    enumeration_cost,
    games,
    submit_enumeration,
    submit_games,
)
from gpec.explainers._kernelshap_regression import Design, draw_design, least_samples
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import sizes_between
from gpec.models import Model
from gpec.runtime.randomness import stream
from gpec.typing import BoolArray, FloatArray, IntArray

_AUTO = 512
_RUNS = 100  # that a budget is to buy, with the fewest samples
_FEWEST_BACKGROUND = 5  # rows, within a budget
_COUNTED_ROWS = 256  # explained rows from which the cost of all is estimated


class KernelShap(CoalitionExplainer):
    """KernelSHAP of the model's probabilities or log-odds, for all rows and classes together.

    Interventional Shapley values: the value of a coalition ``S`` is the model's mean probability when the features
    outside it come from the background rows, ``v(S) = mean_b p(x_S, b_notS)``. The values of a row add up to
    ``p(x) - base_values``. With ``link="logit"``, ``p`` is replaced by log-odds. They solve a weighted least squares
    problem over coalitions, drawn together with their complements, stratified by size and without replacement (Lundberg
    & Lee 2017; Covert & Lee 2021).

    Shapley values are linear in the game, so the values for the mean over ``B`` background rows are the mean of the
    values for each background row. Each has its own regression on its own coalitions, so that their errors average out.
    With at least ``6 d`` samples, four background rows share coalitions and a regression, and ten from ``2 d^2``.
    The budget is ``n_samples * B`` model rows for an explained row. Features in which a background row equals ``x`` are
    not players in the game with it: if ``m`` features differ, ``2^m - 2`` coalitions give the exact solution. A
    background row is solved exactly if this costs no more than an equal part of the remaining budget, the cheapest
    first. If all are, the values are exact and their variance is 0. All background rows are used.

    Parameters
    ----------
    n_samples : int or "auto"
        Coalitions for each background row, on average; "auto" is ``2 d + 512``, a quarter of shap's, with 0.4 to 0.7
        times its error on the data sets tried. A smaller number than ``4 d - 4`` (``4 d - 6`` if ``d`` is odd, 2 if
        ``d`` is 2) is raised to it. Coalitions come in pairs, so an odd number is lowered by one.
    link : {"identity", "logit"}
        Explain probabilities or log-odds. Log-odds are averaged over background rows. shap's KernelExplainer uses the
        log-odds of the mean probability instead, which is a different game with different values.

    Notes
    -----
    The regression has a term for each feature and, where this lowers the variance, for up to 160 products of three or
    five. Products of three are searched among the 40 features with the largest effects, products of five among ten. One
    half of the background rows learns them from the other half, or a pair from the other pairs. So a pair is always
    predicted without it, and by terms that were chosen without it. The mean residual of each size is added, so the
    estimate is nearly unbiased whatever the terms are.

    The variance is over random pairs of coalitions: the sum over sizes of the variance of the pairs' influence on the
    values, with the residuals of these predictions and the finite population correction.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((50, 3))
    >>> explainer = KernelShap().fit(lambda X: X @ [0.5, 0.25, 0.0], X)
    >>> answer = explainer(X[:2])
    >>> np.allclose(answer.values, (X[:2] - X.mean(axis=0)) * [0.5, 0.25, 0.0])
    True
    """

    threads = True
    zero_where_equal = True
    samples: str | None = "n_samples"

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        self._game = MaskedModel(self.outputs_of, background)
        d = background.shape[1]
        # otherwise it depends on the number of features in which the row differs from the background
        self.stochastic = False if d <= 60 and 2**d - 2 <= self._budget else None

    @property
    def _budget(self) -> float:
        """Coalitions for each background row, on average."""
        d = self.background_.shape[1]
        return max(2 * d + _AUTO if isinstance(self.n_samples, str) else int(self.n_samples), least_samples(d))

    def background_within(self, budget: int, d: int) -> int:
        return int(np.clip(budget // (_RUNS * max(1, least_samples(d))), _FEWEST_BACKGROUND, self.most_background))

    def sample_sizes(self, Z: FloatArray) -> tuple[int, ...]:
        return sizes_between(max(1, least_samples(Z.shape[1])), int(self._budget))

    def model_rows(self, Z: FloatArray) -> int:
        some = evenly_spaced(len(Z), _COUNTED_ROWS)
        return int(self.most_model_rows(Z[some]).mean() * len(Z))

    def most_model_rows(self, Z: FloatArray) -> FloatArray:
        game, most = self._game, self._budget * len(self._game.rows)
        return 1 + np.array([min(most, float(enumeration_cost(game.differs(x)).sum())) for x in Z])

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        game = self._game
        queue = Queue(game, Z)
        answers = game.answers_to(Z)
        values = np.zeros((*Z.shape, answers.shape[1]))
        variance = np.zeros_like(values)
        for i, (x, seed) in enumerate(zip(Z, seeds, strict=True)):
            exact, others, share = _split(game.differs(x), self._budget)
            submit_enumeration(queue, i, answers[i], exact, values[i])
            rng = stream(seed, "perturbations")
            for some, players in games(queue, i, others, share):
                design = draw_design(players.shape[1], share, _count_games(players, share), rng)
                _submit_design(queue, i, answers[i], some, players, design, values[i], variance[i])
        queue.flush()
        return Attribution(values, variance, np.broadcast_to(game.base, answers.shape))


def _submit_design(
    queue: Queue,
    row: int,
    p: FloatArray,
    references: IntArray,
    players: IntArray,
    design: Design,
    values: FloatArray,
    variance: FloatArray,
) -> None:
    """Add the weighted estimates from drawn coalitions, and their variance, to those of an explained row ``(d, c)``.

    ``p (c,)`` is the model's answer to the row.
    """
    game, g = queue.game, len(design.half)
    group = np.arange(len(references)) % g  # background rows with the same coalitions
    member = np.where(group == np.arange(g)[:, None], game.weights[references], 0.0)
    weight = member.sum(axis=1, keepdims=True)
    mean = member / weight

    def use(worth: FloatArray) -> None:
        empty = mean @ game.answers[references]
        same = bool((players == players[0]).all())
        worth = np.tensordot(mean, worth, axes=1)
        found, spread = design.solve(worth, empty, np.broadcast_to(p, empty.shape), same_players=same)
        np.add.at(values, players[:g], weight[:, :, None] * found)
        np.add.at(variance, players[:g], weight[:, :, None] ** 2 * spread)

    submit_games(queue, row, references, players, design.masks[group], use)


def _count_games(players: IntArray, n_coalitions: int) -> int:
    """Number of mean games of background rows: they can be predicted better, but have fewer coalitions together.

    With few coalitions for the ``m`` players, each background row has its own; groups of four share them from ``6 m``
    and groups of ten from ``2 m^2``, with which a game can learn its interactions.
    """
    (g, m), same = players.shape, bool((players == players[0]).all())
    size = 1 if not same or n_coalitions < 6 * m else 4 if n_coalitions < 2 * m**2 else 10
    return int(-(-g // size))


def _split(differs: BoolArray, budget: float) -> tuple[IntArray, IntArray, int]:
    """Background rows to enumerate, the others, and the number of coalitions for each of the others.

    ``differs (B, d)`` marks the features in which each differs; ``budget`` is the mean number of coalitions for each.
    """
    cost = enumeration_cost(differs)
    order = np.argsort(cost, kind="stable")
    left, share = budget * len(cost), 0.0
    for place, b in enumerate(order):
        share = left / (len(cost) - place)
        if cost[b] > share:
            return np.sort(order[:place]), np.sort(order[place:]), int(share)
        left -= cost[b]
    return np.arange(len(cost)), order[:0], 0
