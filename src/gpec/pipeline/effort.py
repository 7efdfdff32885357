"""How many rows ``fit`` explains and with how many samples each: by a pilot, and within a budget of model rows.

The Gaussian process knows the noise of each explained row, so rows may be explained with few samples, and more rows
instead. Which is better depends on the table and the model. So some rows are explained with the fewest samples, and a
kernel is learned from them by marginal likelihood. For each number of samples, as many rows as the model rows allow
give a posterior variance at other rows; the least decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np

from gpec.data import same_values
from gpec.errors import BudgetError, InputError
from gpec.explainers import Attribution, Explainer
from gpec.explainers.noise import n_runs
from gpec.gp import ExactPosterior, learn_kernel, make_posterior
from gpec.kernels import make_kernel
from gpec.pipeline.attributions import bind_explainer, run_explainer
from gpec.pipeline.context import ExplainedSample, FitContext, FitInputs
from gpec.pipeline.explain import bound_explainer
from gpec.pipeline.fitted import Fitted, Observations
from gpec.pipeline.kernel_inputs import make_rows
from gpec.pipeline.sampling import PAIRS, boundary_rows, one_of_each, pool_rows, share_of_fit
from gpec.pipeline.settings import USUAL_ROWS, Settings
from gpec.runtime.blocks import Execution, one_blas_thread
from gpec.runtime.randomness import stream
from gpec.similar import SimilaritySampler
from gpec.typing import FloatArray

_SHARE = 0.24  # of the model rows that a fit on 200 rows needs with all samples
_LEAST_SHARE = 0.12  # the same of the explainer's alone, where most are needed for other things
_FEW_ROWS = 150  # explained at least, if there is no budget
_FEWEST_ROWS = 20  # that a budget must buy
_PILOT_ROWS, _DESIGN_ROWS, _TEST_ROWS = 30, 600, 100
_FEWEST_TO_CALIBRATE = 19  # rows, which 95% intervals need
_MORE_THAN_MEAN = 1.3  # rows to calibrate on may need more than those of fit
_TRIED_SIZES = 2.5  # times the fewest samples: up to these, one row shows how noise falls
_LEAST_NOISE = 1e-6
_LOUDEST = 0.15  # noise variance as a share of the variance of attributions
_MARGIN = 300  # model rows to identify the model, to see at the end that it is the same, and to evaluate the pilot


MOST_TARGETS = 300  # for whose sake rows are chosen, and as many others to choose from
_CANDIDATES_SHARE, _FEWEST_CANDIDATES = 0.01, 10  # of a budget


@dataclass(frozen=True, eq=False)
class Effort:
    """What ``fit`` does: rows explained, samples of each, and rows of which a similar row is explained, too.

    ``variances`` are those that the pilot expects at other rows, by number of samples, over the least of them.
    """

    n_rows: int
    n_samples: int | None = None  # None: the explainer's own number
    variances: dict[int, float] = field(default_factory=dict)
    pilot: tuple[FloatArray, Attribution] | None = None  # rows explained with as many samples
    n_chosen: int = 0  # further rows, chosen for the sake of targets
    allowed: float = np.inf  # model rows for these

    def describe(self) -> dict[str, Any]:
        """For ``diagnostics_``."""
        rows = self.n_rows + self.n_chosen
        variances = {n: round(variance, 3) for n, variance in self.variances.items()}
        return {"rows": rows, "samples": self.n_samples or "full", "expected_variance": variances}


def n_pairs(n: int, settings: Settings) -> int:
    """Of how many of ``n`` explained rows a similar row is explained, too."""
    return min(n, PAIRS if settings.budget is None else min(PAIRS, max(5, n // 4)))


def choose_effort(
    inputs: FitInputs,
    sample: ExplainedSample,
    similarity: SimilaritySampler | None,
    known: Observations | None,
    left: float,
    execution: Execution,
) -> Effort:
    """What to do with the rows of ``sample``, of which the first are explained, if ``left`` model rows may be used.

    With a budget, ``known`` rows of an earlier fit are used again, so their number of samples stays.
    """
    context, s = inputs.context, inputs.context.settings
    if inputs.given is not None or context.explainer is None:
        return Effort(len(sample.rows))
    if s.budget is not None and _learning_rows(inputs) and (others := other_rows(inputs)) > share_of_fit(s.budget):
        raise too_small(s.budget, s.budget / share_of_fit(s.budget) * others, "for what the explainer learns from")
    explainer = bind_explainer(inputs, execution)
    if context.mode == "explain":
        return Effort(_rows_to_try(inputs, explainer, sample, left))
    if s.budget is None or known is None:
        choices = affordable(inputs, sample, similarity, explainer)
    else:
        same = _own_size(explainer, sample) if known.n_samples is None else known.n_samples
        choices = affordable(inputs, sample, similarity, explainer, same, known.rows, left)
    variances, pilot, best = {}, None, next(iter(choices))
    if len(choices) > 1:
        numbers = cast(dict[int, int], choices)
        fewest = next(iter(numbers))
        rows = sample.rows[: min(_PILOT_ROWS, numbers[fewest])]
        pilot = (rows, run_explainer(context, explainer.with_samples(fewest), rows, execution))
        noise = {fewest: 1.0}
        for n in _tried(numbers):
            few = run_explainer(context, explainer.with_samples(n), rows[:1], execution)
            noise[n] = _mean_variance(few) / max(_mean_variance(pilot[1], 1), np.finfo(np.float64).tiny)
        variances = _expected_variances(inputs, sample, *pilot, numbers, noise)
        loud = _mean_variance(pilot[1]) / max(float(pilot[1].values.var(axis=0).mean()), np.finfo(np.float64).tiny)
        quiet = [n for n in numbers if loud * _share_of_noise(n, noise) <= _LOUDEST] or list(numbers)[-1:]
        best = min(quiet, key=variances.__getitem__)
        pilot = pilot if best == fewest else None
    n, n_samples = choices[best], None if best == _own_size(explainer, sample) else best
    if inputs.targets is None:
        return Effort(n, n_samples, variances, pilot)
    drawn, allowed = max(min(n, _FEWEST_ROWS), n // 2), np.inf
    if s.budget is not None:
        price = _Price(inputs, explainer.with_samples(best), sample, similarity)
        allowed = price.of(n) - price.of(drawn)
    return Effort(drawn, n_samples, variances, pilot, n - drawn, allowed)


def _rows_to_try(inputs: FitInputs, explainer: Explainer, sample: ExplainedSample, left: float) -> int:
    """How many rows a fit explains that learns nothing from them."""
    s = inputs.context.settings
    if s.budget is None:
        return len(sample.rows)
    needed = np.cumsum(n_runs(explainer, s.noise, s.n_resamples) * most_rows(explainer, sample.rows, s.budget))
    others = other_rows(inputs)
    if needed[0] + others > min(s.budget, left):
        raise too_small(s.budget, needed[0] + others, "to explain one row")
    return int((needed + others <= min(s.budget, left)).sum())


def affordable(
    inputs: FitInputs,
    sample: ExplainedSample,
    similarity: SimilaritySampler | None,
    explainer: Explainer,
    same: int | None = None,
    known: FloatArray | None = None,
    left: float = np.inf,
) -> dict[int | None, int]:
    """Numbers of samples, the fewest first, and how many rows can be explained with each.

    ``known`` rows were explained with the ``same`` number of samples before; for further ones, ``left`` may be used.
    """
    s, n_most = inputs.context.settings, len(sample.rows)
    fixed, sizes = inputs.explained is not None or s.n_explained != "auto", _sizes(s, explainer, sample)
    if s.budget is None and (fixed or len(sizes) == 1):
        return {sizes[-1]: n_most if fixed else min(n_most, USUAL_ROWS)}
    sizes = (same,) if same in sizes else sizes
    n_known = 0 if known is None else _in_common(known, sample.rows)
    prices = {n: _Price(inputs, explainer.with_samples(n), sample, similarity, n_known) for n in sizes}
    whole = {n: price.of(n_most) for n, price in prices.items()}
    sizes = tuple(n for n, more in pairwise((*sizes, -1)) if whole[n] < whole.get(more, np.inf))
    others, least = other_rows(inputs), n_most if fixed else min(n_most, _FEWEST_ROWS)
    if s.budget is None:
        few = min(n_most, USUAL_ROWS)
        usual = prices[sizes[-1]].of(few) * USUAL_ROWS / few
        few_rows = prices[sizes[0]].of(min(n_most, _FEW_ROWS))  # a model of few features has no rough explanation
        share, least = max(_SHARE * (usual + others) - others, _LEAST_SHARE * usual, few_rows), 1
        allowed = dict.fromkeys(sizes, share)
    else:
        share = share_of_fit(s.budget) - others
        allowed = {n: min(share, s.budget - others - price.to_calibrate) for n, price in prices.items()}
    pilot, tried = prices[sizes[0]].of(min(_PILOT_ROWS, n_most)), sum(prices[n].of(1) for n in _tried(sizes))
    enough: dict[int | None, int] = {}
    for n in reversed(sizes):  # with the fewest samples alone, there is no need for a pilot
        spent = (tried if enough or n != sizes[0] else 0.0) + (pilot if n != sizes[0] else 0.0)
        rows = prices[n].rows_for(allowed[n] - spent * (not fixed), left - others - prices[n].to_calibrate)
        if rows >= least and rows > max(enough.values(), default=0):  # more samples of as many rows serve as well
            enough = {n: rows, **enough}
    if not enough and s.budget is not None:
        fewest = prices[sizes[0]]
        needed = others + fewest.of(least) + max(fewest.to_calibrate, others + fewest.of(least))
        if known is not None:  # the rows of an earlier fit and of its calibration count
            needed = max(needed, s.budget - left + others + fewest.of(least) + fewest.to_calibrate)
        raise too_small(s.budget, needed, f"to explain {least} rows and calibrate")
    return dict([*enough.items()][-1:]) if fixed else enough  # as many samples as can be had


def _tried(sizes: Iterable[int | None]) -> list[int]:
    """The numbers of samples with which the pilot measures how noise falls, beside the fewest."""
    fewest, *others = sizes
    return [n for n in others if n and fewest and n <= _TRIED_SIZES * fewest]


def _mean_variance(answer: Attribution, n: int | None = None) -> float:
    return float(np.asarray(answer.variance)[:n].mean())


def _in_common(known: FloatArray, rows: FloatArray) -> int:
    """How many of the first rows are known."""
    n = min(len(known), len(rows))
    same = same_values(known[:n], rows[:n]).all(axis=1)
    return n if same.all() else int(same.argmin())


def _sizes(settings: Settings, explainer: Explainer, sample: ExplainedSample) -> tuple[int | None, ...]:
    """Numbers of samples to choose from, the fewest first; None alone: the explainer's own, there is no choice."""
    wanted = settings.fit_samples
    if not isinstance(wanted, str):
        return (int(wanted),)
    knows_noise = isinstance(settings.noise, str) and settings.noise == "auto"
    return (explainer.sample_sizes(sample.rows[:1]) if wanted == "auto" and knows_noise else ()) or (None,)


def _own_size(explainer: Explainer, sample: ExplainedSample) -> int | None:
    return next(reversed(explainer.sample_sizes(sample.rows[:1])), None)


def other_rows(inputs: FitInputs) -> float:
    """Model rows that ``fit`` needs at most for all but explained rows."""
    context = inputs.context
    targets = 0 if inputs.targets is None else 3 * candidate_rows(context) * context.rows_for_kernel
    boundary, learning = np.nan_to_num(boundary_rows(inputs)), _learning_rows(inputs)
    return float(_MARGIN + 2 * len(context.background) + pool_rows(inputs) + boundary + learning + targets)


def _learning_rows(inputs: FitInputs) -> int:
    explainer, budget = inputs.context.explainer, inputs.context.settings.budget
    found = 0 if explainer is None or budget is None else explainer.learning_rows(inputs.rows)
    if found is None:
        raise _not_told(explainer, budget)
    return found


def candidate_rows(context: FitContext) -> int:
    """How many targets are looked at, and how many other rows, to choose rows from both."""
    budget = context.settings.budget
    if budget is None:
        return MOST_TARGETS
    return max(_FEWEST_CANDIDATES, min(MOST_TARGETS, int(_CANDIDATES_SHARE * budget / context.rows_for_kernel)))


class _Price:
    """Model rows that the first rows of a sample need, and similar rows of some of them, at most."""

    def __init__(
        self,
        inputs: FitInputs,
        explainer: Explainer,
        sample: ExplainedSample,
        similarity: SimilaritySampler | None,
        n_known: int = 0,
    ) -> None:
        context = inputs.context
        s, r = context.settings, context.rows_for_kernel
        runs, rows = n_runs(explainer, s.noise, s.n_resamples), sample.rows
        each = runs * most_rows(explainer, rows, s.budget) + r + 1
        pairs = np.zeros(0)
        if similarity is not None:
            similar = similarity.rows(rows[:PAIRS])
            there = one_of_each(similar)
            pairs = runs * most_rows(explainer, there, s.budget) + r * (1 + similar.shape[1])
        self._rows, self._pairs = (np.concatenate(([0.0], np.cumsum(part))) for part in (each, pairs))
        self._settings = s
        per_pair = each.mean() + (pairs.mean() if len(pairs) else 0.0)
        self.to_calibrate = _MORE_THAN_MEAN * _FEWEST_TO_CALIBRATE * per_pair
        self._known = np.minimum(self._rows, self._rows[n_known])

    def of(self, n: int) -> float:
        """For ``n`` rows."""
        return float(self._rows[n] + self._pairs[min(n_pairs(n, self._settings), len(self._pairs) - 1)])

    def rows_for(self, allowed: float, left: float = np.inf) -> int:
        """How many rows this buys, if ``left`` may be used for rows that are not known."""
        of = np.array([self.of(n) for n in range(len(self._rows))])
        return int(((of <= allowed) & (of - self._known <= left)).sum()) - 1


def most_rows(explainer: Explainer, Z: FloatArray, budget: int | None) -> FloatArray:
    """Model rows that each row needs at most; raise if a budget is to be kept and the explainer does not tell."""
    found = explainer.most_model_rows(Z)
    if found is None and budget is not None:
        raise _not_told(explainer, budget)
    return np.zeros(len(Z)) if found is None else found


def _not_told(explainer: Any, budget: Any) -> InputError:
    return InputError(
        f"budget={budget:,} cannot be kept: {type(explainer).__name__} does not tell how often it calls the model; "
        "leave budget out, or use 'kernelshap', 'shapley_sampling' or 'lime'."
    )


def _expected_variances(
    inputs: FitInputs,
    sample: ExplainedSample,
    rows: FloatArray,
    answer: Attribution,
    choices: dict[int, int],
    noise: dict[int, float],
) -> dict[int, float]:
    """The posterior variance at other rows for each number of samples, over the least, from a pilot.

    ``noise`` is the noise variance over that with the fewest samples, where it was measured.
    """
    context = inputs.context
    designs = {n: min(count, _DESIGN_ROWS) for n, count in choices.items()}
    fewest, most = min(choices), max(designs.values())
    if designs[fewest] < choices[fewest]:  # compare at a smaller price, where fewer rows tell the same
        designs = {n: max(1, count * designs[fewest] // choices[fewest]) for n, count in choices.items()}
    others = inputs.rows[stream(context.seed, "pilot").permutation(len(inputs.rows))[:_TEST_ROWS]]
    some = np.concatenate((rows, sample.rows[:most], others))
    read = make_rows(context, some, outputs=True, n_jobs=context.settings.n_jobs)
    pilot, test = read[: len(rows)], read[len(rows) + most :]
    total = dict.fromkeys(choices, 0.0)
    with one_blas_thread():
        for c in range(context.model.n_outputs):
            Y, U = answer.values[:, :, c], np.asarray(answer.variance)[:, :, c]
            kernel = make_kernel("auto", n_attributions=Y.shape[1] * context.model.n_outputs, boundary=False)
            kernel = learn_kernel(kernel.copy().fit(None, pilot), pilot, Y, U)
            parameters = make_posterior(kernel, pilot, Y, U, "evidence", context.seed).parameters
            for n, count in designs.items():
                less = np.tile(U.mean(axis=0) * _share_of_noise(n, noise), (count, 1))
                design = read[len(rows) : len(rows) + count]
                posterior = ExactPosterior(kernel, design, np.zeros((count, Y.shape[1])), less, parameters)
                total[n] += float(posterior.predict(test).variance.sum())
    least = min(total.values())
    return {n: each / least if least > 0 else 1.0 for n, each in total.items()}


def _share_of_noise(n: int, measured: dict[int, float]) -> float:
    """The noise variance with ``n`` samples over that with the fewest: a power of their ratio between and beyond."""
    fewest, largest = min(measured), max(measured)
    if n in measured:
        return measured[n]
    if largest == fewest:
        return fewest / n
    power = np.log(max(measured[largest], _LEAST_NOISE)) / np.log(largest / fewest)
    return float((n / fewest) ** min(power, -1.0))


def too_small(budget: int, needed: float, what: str) -> BudgetError:
    return BudgetError(
        f"budget={budget:,} model rows is too small {what}: about {int(np.ceil(needed)):,} are needed; explainers that "
        "compare with background rows need fewer with a smaller background."
    )


def budget_left(settings: Settings, spent: float) -> float:
    """Model rows that may still be used."""
    return np.inf if settings.budget is None else float(max(0, settings.budget - spent))


def calibration_effort(
    fitted: Fitted, Z: FloatArray, budget: int, begun: dict[str, Any], n_similar_explained: int, *, whole: bool = False
) -> tuple[FloatArray, int | None]:
    """The rows of ``Z`` to calibrate on and the samples of each, with what ``fit`` has left of a budget.

    As many rows as can be had with the samples of ``fit``: all, or 19, 39, 59, ..., because the 95% quantile of any
    other number of scores is wider than it need be. Each has as many samples as can then be had. With ``whole``,
    all rows or none. What was ``begun`` before a stop goes on as it was.
    """
    Z = Z[stream(fitted.context.seed, "calibration rows").permutation(len(Z))]
    if "n_rows" in begun:
        return Z[: begun["n_rows"]], begun["n_samples"]
    least, left = len(Z) if whole else min(len(Z), _FEWEST_TO_CALIBRATE), budget - fitted.spent
    prices = {
        n: _prices_of_pairs(fitted, one, Z, budget, n_similar_explained) for n, one in _bound_with(fitted).items()
    }
    price = prices[fitted.observations.n_samples]
    n = int(np.searchsorted(price, left, side="right"))
    if n < least:
        raise too_small(budget, fitted.spent + price[least - 1], f"to calibrate on {least} rows after this fit")
    if n < len(Z):
        n -= (n + 1) % (_FEWEST_TO_CALIBRATE + 1)
    return Z[:n], [samples for samples, each in prices.items() if each[n - 1] <= left][-1]


def explanation_effort(
    fitted: Fitted,
    Z: FloatArray,
    budget: int,
    attribution: Literal["explainer", "posterior"],
    n_similar: int | Literal["all"],
) -> int | None:
    """The most samples with which rows can be explained within a budget of model rows; None: the explainer's own."""
    nearby = None if attribution == "posterior" else fitted.similarity
    K = 0 if nearby is None else nearby.rows(Z[:1]).shape[1]
    times = 1 + (K if n_similar == "all" else n_similar)
    others = len(Z) * (1 + K) * fitted.context.rows_for_kernel * (2 if 1 < times <= K else 1)
    found, given = dict[int | None, float](), fitted.observations.given
    new = Z if given is None else Z[~given.contain(Z)]
    if attribution == "posterior" or (times == 1 and not len(new)):
        found[None] = float(others)
    else:
        for n, explainer in _bound_with(fitted).items():
            own = most_rows(explainer, new, budget).sum() if len(new) else 0.0
            runs = (times - 1) * most_rows(explainer, Z, budget).sum() + own
            found[n] = float(others + runs)
    enough = [n for n, needed in found.items() if needed <= budget]
    if not enough:
        raise too_small(budget, min(found.values()), f"to explain {len(Z)} rows")
    return enough[-1]


def _bound_with(fitted: Fitted) -> dict[int | None, Explainer]:
    """The explainer with each number of samples that it can take, the fewest first; None: its own number."""
    explainer = bound_explainer(fitted)
    sizes = explainer.sample_sizes(fitted.observations.rows[:1])
    fewer = {fitted.observations.n_samples, *sizes[:-1]} - {None}
    return {n: explainer.with_samples(n) for n in (*sorted(cast(set[int], fewer)), None)}


def _prices_of_pairs(fitted: Fitted, explainer: Explainer, Z: FloatArray, budget: int, m: int) -> FloatArray:
    """Model rows to explain the first 1, 2, ... rows and ``m + 1`` rows similar to each, at most."""
    nearby, r = fitted.similarity, fitted.context.rows_for_kernel
    each = most_rows(explainer, Z, budget) + r
    if nearby is not None:
        similar = nearby.rows(Z)
        n, K, d = similar.shape
        if m:
            there = np.sort(most_rows(explainer, similar.reshape(-1, d), budget).reshape(n, K))[:, K - m - 1 :].sum(
                axis=1
            )
        else:
            there = most_rows(explainer, one_of_each(similar), budget)
        each = each + there + r * (1 + K) * (2 if m else 1)
    return np.cumsum(each)
