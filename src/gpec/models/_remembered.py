"""A model whose answers are kept: nobody asks it twice for the same rows."""

from __future__ import annotations

from copy import copy

from gpec.models.model import Model
from gpec.runtime.checkpoint import Checkpoint
from gpec.typing import FloatArray

__all__ = ["remembered"]


def remembered(model: Model, cache: Checkpoint | None, stage: str) -> Model:
    """The model, which has been called before; if there is where to keep its answers, one that keeps them.

    It counts all rows, the model only those that it was asked for.
    """
    return model if cache is None else _Remembered(model, cache, stage)


class _Remembered(Model):
    def __init__(self, model: Model, cache: Checkpoint, stage: str) -> None:
        vars(self).update(vars(model))
        self._asked, self._kept, self._stage = model, cache, stage
        self._count = copy(self._count)

    def _call(self, Z: FloatArray, start: int, total: int) -> FloatArray:
        self._count.n_calls += 1
        self._count.n_rows += len(Z)
        once = self._kept.remember(self._stage, lambda _: {"scores": self._asked._call(Z, start, total)}, Z)
        scores: FloatArray = once(slice(0, len(Z)))["scores"]
        return scores.copy()
