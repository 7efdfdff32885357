"""A model whose answers are cached: it is called only once for the same rows."""

from __future__ import annotations

from copy import copy

from gpec.models import Model
from gpec.runtime.blocks import Execution
from gpec.typing import FloatArray

__all__ = ["with_cache"]


def with_cache(model: Model, stage: str, now: Execution) -> Model:
    """The model, which has been called before, with the cache of ``now`` around its calls.

    It counts all rows; the model itself counts only those that were not in the cache.
    """
    return model if now.cache is None else _CachedModel(model, stage, now)


class _CachedModel(Model):
    def __init__(self, model: Model, stage: str, now: Execution) -> None:
        vars(self).update(vars(model))
        self._model, self._stage, self._now = model, stage, now
        self._count = copy(self._count)

    def _call(self, Z: FloatArray, start: int, total: int) -> FloatArray:
        self._count.n_calls += 1
        self._count.n_rows += len(Z)
        cached = self._now.cached(self._stage, lambda _: {"scores": self._model._call(Z, start, total)}, Z)
        scores: FloatArray = cached(slice(0, len(Z)))["scores"]
        return scores.copy()
