"""Arrays inside have an axis for outputs; users do not see the axis of a single output."""

from __future__ import annotations

import numpy as np

from gpec.typing import FloatArray

__all__ = ["squeeze_single_output"]


def squeeze_single_output(array: FloatArray, axis: int = -1) -> FloatArray:
    """``(..., c)`` as users see it: without the axis of outputs where there is one output (two classes)."""
    return np.take(array, 0, axis=axis) if array.shape[axis] == 1 else array
