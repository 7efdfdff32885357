"""The public door: inside, arrays have an axis for outputs; a single output is not shown to users."""

from __future__ import annotations

import numpy as np

from gpec.typing import FloatArray

__all__ = ["at_the_door"]


def at_the_door(array: FloatArray, axis: int = -1) -> FloatArray:
    """``(..., c)`` as users see it: without the axis of outputs where there is one output (two classes)."""
    return np.take(array, 0, axis=axis) if array.shape[axis] == 1 else array
