"""What ``fit`` samples: rows to explain and to keep, similar rows, and points of the boundary."""

from __future__ import annotations

import warnings
from contextlib import suppress
from copy import copy
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from gpec.boundary import BoundarySample, Sampler
from gpec.data._equality import contents_of
from gpec.errors import BoundaryNotFoundError, BudgetError, FewBoundaryPointsWarning, InputError, ModelMismatchError
from gpec.models import Model
from gpec.pipeline.context import ExplainedSample, FitContext, FitInputs
from gpec.pipeline.fitted import ModelFingerprint
from gpec.pipeline.settings import Settings
from gpec.runtime.blocks import Execution
from gpec.runtime.checkpoint import different_work
from gpec.runtime.randomness import stream
from gpec.similar import SimilaritySampler, TypicalSteps
from gpec.similar.base import uniform
from gpec.typing import FloatArray, IntArray

_POOL = 10_000  # size of the pool from which rows are drawn; 10 n if n is as large
_OUTPUT_BINS = 10
_POOL_SHARE = 0.02  # of a budget
_FIT_SHARE = 0.5  # of a budget; the rest calibrates
_BOUNDARY_SHARE = 0.1  # of a budget, at most, for a boundary that the kernel can do without
_MORE_THAN_SAID = 1.25  # how many more rows a sampler may need than it says
_CHECKS = 2  # seed of the draws of similar rows to check
PAIRS = 40  # explained rows of which one similar row is explained, too
_FEW_ROWS, _MORE_ROWS = 5, 20  # between which few boundary points are sought, for each point
TRIED_ROWS = 20  # that fit explains in mode "explain"
_KEPT_ROWS = 2_000  # of ``fit``, in memory and in files, where no neighbours are sought among them


def sample_rows_to_explain(
    inputs: FitInputs, known: FloatArray | None, execution: Execution, n: int | None = None
) -> ExplainedSample:
    """The ``n`` rows to explain, by default as many as may be: those named, or some of ``X``.

    If attributions are given, of many rows some are learned from.

    ``draw="output"`` takes half of them evenly and half evenly over the range of the model's answers, so that a rare
    class is not left out; each row's weight undoes this. With the same seed, a larger sample contains the smaller one.
    ``known`` are the model's answers by which an earlier fit drew.
    """
    context, Z, most = inputs.context, inputs.rows, inputs.context.settings.most_explained
    if inputs.given is not None and inputs.explained is not None:
        Z, most = inputs.explained, context.settings.most_given
    n = min(len(Z), most) if n is None else n
    few = context.mode == "explain"  # nothing is learned from them; they show the unit and that the explainer works
    if inputs.explained is not None and (inputs.given is None or len(Z) <= n):
        chosen = inputs.explained[:TRIED_ROWS] if few else inputs.explained
        return ExplainedSample(chosen, np.ones(len(chosen)))
    rng = stream(context.seed, "explained rows")
    order = rng.permutation(len(Z))
    if few:
        n = min(n, TRIED_ROWS)
    if few or context.settings.draw == "uniform":
        return ExplainedSample(Z[order[:n]], np.ones(n), places=order[:n])
    pool = order[: _pool_size(context.settings, n, known)]
    model = with_cache(context.model, "drawn rows", execution)
    parts = [] if known is None else [known[: len(pool)]]  # the pool of an earlier draw starts with the same rows
    if known is None or len(known) < len(pool):
        parts.append(model.answers(Z[pool if known is None else pool[len(known) :]]))
    answers = np.concatenate(parts)
    chance = np.full(len(pool), 0.5 / len(pool))
    for p in answers.T:
        place = np.digitize(p, np.linspace(p.min(), p.max(), _OUTPUT_BINS + 1)[1:-1])
        counts = np.bincount(place, minlength=_OUTPUT_BINS)
        chance += 0.5 / (answers.shape[1] * (counts > 0).sum() * counts[place])
    # The n least of exponential times over chances are a draw without replacement; then 1 - exp(-chance t) is drawn.
    first = np.argsort(rng.exponential(size=len(pool)) / chance, kind="stable")[:n]
    if n == len(pool):
        return ExplainedSample(Z[pool[first]], np.ones(n), answers, places=pool[first])
    t = brentq(lambda t: -np.expm1(-chance * t).sum() - n, 0.0, 1e3 * n / chance.min())
    weights = 1.0 / -np.expm1(-chance[first] * t)
    return ExplainedSample(Z[pool[first]], weights / weights.mean(), answers, places=pool[first])


def _pool_size(settings: Settings, n: int, known: FloatArray | None = None) -> int:
    """How many rows, at most, the model is asked for to draw ``n`` of them by its answers."""
    if settings.budget is None:
        return _POOL if n < _POOL else 10 * n
    if known is not None and len(known) >= 2 * n:
        return len(known)
    return max(2 * n, min(_POOL, int(_POOL_SHARE * settings.budget)))


def pool_rows(inputs: FitInputs) -> int:
    """Model rows by whose answers the rows to explain are drawn."""
    s, n = inputs.context.settings, len(inputs.rows)
    if inputs.explained is not None or inputs.context.mode == "explain" or s.draw == "uniform":
        return 0
    return min(n, _pool_size(s, min(n, s.most_explained)))


def one_of_each(similar: FloatArray) -> FloatArray:
    """One of the rows ``similar (n, K, d)`` to each row, at random by their content."""
    n = len(similar)
    chosen: FloatArray = similar[np.arange(n), other_than(similar, np.empty((n, 0), dtype=np.int64))[:, 0]]
    return chosen


def other_than(similar: FloatArray, chosen: IntArray) -> IntArray:
    """The place ``(n, 1)`` of one of the rows ``similar (n, K, d)`` to each row that is not ``chosen (n, m)``.

    It is drawn by the content of the rows: another seed does not change it.
    """
    n, K, d = similar.shape
    share = uniform(_CHECKS, contents_of(similar.reshape(n, K * d)), 1)
    place = np.asarray(share * (K - chosen.shape[1]), dtype=np.int64)
    for taken in np.sort(chosen, axis=1).T:
        place += place >= taken[:, None]
    return place


def fit_similarity(inputs: FitInputs) -> SimilaritySampler | None:
    """What similar rows are, learned from the rows of ``fit``."""
    context = inputs.context
    if inputs.similar is None:
        return None
    learn = inputs.similar.learn_draws if context.mode == "explain" else inputs.similar.learn
    return learn(context.schema, inputs.rows, context.seed)


def keep_rows(inputs: FitInputs, similarity: SimilaritySampler | None) -> FloatArray:
    """Rows of ``fit`` for later: those among which neighbours are sought, else at most 2,000 at random."""
    pool: FloatArray | None = getattr(similarity, "pool", None)
    if pool is not None:
        return pool
    order = stream(inputs.context.seed, "kept rows").permutation(len(inputs.rows))
    return inputs.rows[order[:_KEPT_ROWS]]


def typical_steps(context: FitContext, similarity: SimilaritySampler | None, pool: FloatArray) -> TypicalSteps | None:
    """How far similar rows lie; None for images, whose pixels say nothing, and where a function fails for some rows."""
    if similarity is None or context.schema.shape is not None:
        return None
    try:
        return TypicalSteps.measure(context.schema, similarity, pool)
    except InputError:
        return None


def samples_boundary(context: FitContext) -> bool:
    """Whether ``fit`` samples a boundary if none is given."""
    return context.mode == "predict" and context.kernel.needs_boundary


def find_boundary(
    inputs: FitInputs, known: BoundarySample | None, model_fingerprint: ModelFingerprint, execution: Execution
) -> tuple[FitInputs, BoundarySample | None]:
    """The points that were given, or those that the kernel needs, sampled unless they are ``known``.

    Where the model never predicts a class, ``kernel="auto"`` goes without its term along the boundary.
    """
    context, sampler = inputs.context, inputs.sampler
    if isinstance(sampler, Sampler) and not samples_boundary(context):
        return inputs, None
    if known is not None:
        return inputs, known
    reason, most = "not found", None if context.settings.budget is None else boundary_rows(inputs)
    try:
        with context.model.at_most(most):
            return inputs, sample_boundary(context, sampler, inputs.rows, model_fingerprint, execution)
    except BoundaryNotFoundError as error:
        if context.settings.kernel != "auto":
            raise
        if context.model.is_guess:  # it may predict numbers
            warnings.warn(f"{error} The fit goes on without the boundary.", FewBoundaryPointsWarning, stacklevel=3)
    except BudgetError as error:
        if context.settings.kernel != "auto":
            raise BudgetError(
                f"budget={context.settings.budget:,} model rows is too small for the boundary that the kernel rests "
                "on; kernel='auto' can do without it."
            ) from error
        reason = "too dear for the budget"
    return replace(inputs, context=replace(context, no_boundary=reason)), None


def boundary_rows(inputs: FitInputs) -> float:
    """Model rows that the boundary needs, with a budget at most; 0 if none is sampled."""
    context, sampler, budget = inputs.context, inputs.sampler, inputs.context.settings.budget
    if not isinstance(sampler, Sampler) or not samples_boundary(context):
        return 0.0
    said = sampler.model_rows(context.model, rows_to_pair(context, inputs.rows)[0], context.n_boundary)
    if budget is None:
        return said
    most = _MORE_THAN_SAID * said
    if context.settings.kernel != "auto":
        return share_of_fit(budget) / 2
    return most if most <= _BOUNDARY_SHARE * budget else 0.0


def share_of_fit(budget: int) -> float:
    """The part of a budget that ``fit`` may use."""
    return _FIT_SHARE * budget


def sample_boundary(
    context: FitContext,
    sampler: Sampler | BoundarySample,
    rows: FloatArray,
    model_fingerprint: ModelFingerprint,
    execution: Execution,
) -> BoundarySample:
    """Points on the decision boundary, sampled or as given."""
    cache, seed = execution.cache, context.seed
    try:
        if isinstance(sampler, BoundarySample):
            sampler.require_on_boundary(context.model, seed)
            return sampler
        model = with_cache(context.model, "boundary", execution)
        sample = _draw_points(context, sampler, model, rows)
    except (BoundaryNotFoundError, ModelMismatchError):
        context.model.require_repeatable(model_fingerprint.rows, model_fingerprint.answer)  # if this is why, say so
        raise
    if cache is not None and cache.resumed:  # the stored answers may come from another model
        try:
            sample.require_on_boundary(context.model, seed)
        except (InputError, ModelMismatchError) as error:
            raise different_work(cache.folder, "the model") from error
    return sample


def rows_to_pair(context: FitContext, rows: FloatArray) -> list[FloatArray]:
    """Rows between which the boundary is sought, and more of them if that fails.

    Few points are sought between few rows first, because the model is asked for each row.
    """
    if context.settings.n_boundary != "auto" or context.kernel.rests_on_boundary:
        return [rows]
    order = stream(context.seed, "rows to pair").permutation(len(rows))
    return [rows[order[: each * context.n_boundary]] for each in (_FEW_ROWS, _MORE_ROWS)]


def _draw_points(context: FitContext, sampler: Sampler, model: Model, rows: FloatArray) -> BoundarySample:
    def draw(some: FloatArray) -> BoundarySample:
        n, progress = context.n_boundary, context.settings.progress
        return sampler.draw(model, some, n, seed=context.seed, progress=progress)

    tries = rows_to_pair(context, rows)
    for some in tries[:-1]:
        with suppress(BoundaryNotFoundError):
            return draw(some)
    return draw(tries[-1])


def with_cache(model: Model, stage: str, execution: Execution) -> Model:
    """The model, which has been called before, with the cache of ``now`` around its calls unless its rows are kept.

    It counts all rows; the model itself counts only those that were not known.
    """
    return model if execution.cache is None and not model.asked_by_row else _CachedModel(model, stage, execution)


class _CachedModel(Model):
    def __init__(self, model: Model, stage: str, execution: Execution) -> None:
        vars(self).update(vars(model))
        self._model, self._stage, self._now = model, stage, execution
        self._count = copy(self._count)

    def _scores(self, Z: FloatArray) -> FloatArray:
        if not self.asked_by_row:
            return super()._scores(Z)
        self._count.update(rows=len(Z))
        return self._model._scores(Z)

    def _call(self, Z: FloatArray, at: IntArray, total: int) -> FloatArray:
        self._count.update(calls=1, rows=len(Z))
        cached = self._now.cached(self._stage, lambda _: {"scores": self._model._call(Z, at, total)}, Z)
        scores: FloatArray = cached(slice(0, len(Z)))["scores"]
        return scores.copy()
