"""What ``fit`` samples: rows to explain and to keep, similar rows, and points of the boundary."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.optimize import brentq

from gpec.boundary import BoundarySample
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError
from gpec.models import Model
from gpec.pipeline.context import ExplainedSample, FitInputs
from gpec.pipeline.fitted import ModelFingerprint
from gpec.runtime.blocks import Execution
from gpec.runtime.checkpoint import different_work
from gpec.runtime.randomness import stream
from gpec.similar import SimilaritySampler
from gpec.typing import FloatArray

__all__ = ["fit_similarity", "keep_rows", "sample_boundary", "sample_rows_to_explain", "with_cache"]

_POOL = 10_000  # size of the pool from which rows are drawn; 10 n if n is as large
_OUTPUT_BINS = 10
_KEPT_ROWS = 2_000  # of ``fit``, in memory and in files, where no neighbours are sought among them


def sample_rows_to_explain(inputs: FitInputs, known: FloatArray | None, execution: Execution) -> ExplainedSample:
    """The rows to explain: those given, or some of ``X``.

    ``draw="output"`` takes half of them evenly and half evenly over the range of the model's answers, so that a rare
    class is not left out; each row's weight undoes this. With the same seed, a larger sample contains the smaller one.
    ``known`` are the model's answers by which an earlier fit drew.
    """
    context, Z, n = inputs.context, inputs.rows, inputs.context.settings.n_explained
    if inputs.explained is not None:
        return ExplainedSample(inputs.explained, np.ones(len(inputs.explained)))
    rng = stream(context.seed, "explained rows")
    order = rng.permutation(len(Z))
    if context.settings.draw == "uniform":
        return ExplainedSample(Z[order[:n]], np.ones(n))
    pool = order[: _POOL if n < _POOL else 10 * n]
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
    t = brentq(lambda t: -np.expm1(-chance * t).sum() - n, 0.0, 1e3 * n / chance.min())
    weights = 1.0 / -np.expm1(-chance[first] * t)
    return ExplainedSample(Z[pool[first]], weights / weights.mean(), answers)


def fit_similarity(inputs: FitInputs) -> SimilaritySampler | None:
    """What similar rows are, learned from the rows of ``fit``."""
    context = inputs.context
    return None if inputs.similar is None else inputs.similar.learn(context.schema, inputs.rows, context.seed)


def keep_rows(inputs: FitInputs, similarity: SimilaritySampler | None) -> FloatArray:
    """Rows of ``fit`` for later: those among which neighbours are sought, else at most 2,000 at random."""
    pool: FloatArray | None = getattr(similarity, "pool", None)
    if pool is not None:
        return pool
    order = stream(inputs.context.seed, "kept rows").permutation(len(inputs.rows))
    return inputs.rows[order[:_KEPT_ROWS]]


def sample_boundary(inputs: FitInputs, model_fingerprint: ModelFingerprint, execution: Execution) -> BoundarySample:
    """Points on the decision boundary, sampled or as given."""
    context, sampler, cache = inputs.context, inputs.sampler, execution.cache
    settings, seed = context.settings, context.seed
    try:
        if isinstance(sampler, BoundarySample):
            sampler.require_on_boundary(context.model, seed)
            return sampler
        model = with_cache(context.model, "boundary", execution)
        sample = sampler.draw(model, inputs.rows, settings.n_boundary, seed=seed, progress=settings.progress)
    except (BoundaryNotFoundError, ModelMismatchError):
        context.model.require_repeatable(model_fingerprint.rows, model_fingerprint.answer)  # if this is why, say so
        raise
    if cache is not None and cache.resumed:  # the stored answers may come from another model
        try:
            sample.require_on_boundary(context.model, seed)
        except (InputError, ModelMismatchError) as error:
            raise different_work(cache.folder, "the model") from error
    return sample


def with_cache(model: Model, stage: str, execution: Execution) -> Model:
    """The model, which has been called before, with the cache of ``now`` around its calls.

    It counts all rows; the model itself counts only those that were not in the cache.
    """
    return model if execution.cache is None else _CachedModel(model, stage, execution)


class _CachedModel(Model):
    def __init__(self, model: Model, stage: str, execution: Execution) -> None:
        vars(self).update(vars(model))
        self._model, self._stage, self._now = model, stage, execution
        self._count = copy(self._count)

    def _call(self, Z: FloatArray, start: int, total: int) -> FloatArray:
        self._count.n_calls += 1
        self._count.n_rows += len(Z)
        cached = self._now.cached(self._stage, lambda _: {"scores": self._model._call(Z, start, total)}, Z)
        scores: FloatArray = cached(slice(0, len(Z)))["scores"]
        return scores.copy()
