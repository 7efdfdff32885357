"""The public door: inside, arrays have an axis for outputs; a single output is not shown to users."""

from __future__ import annotations

from gpec.typing import FloatArray

__all__ = ["at_the_door"]


def at_the_door(array: FloatArray) -> FloatArray:
    """``(..., c)`` as users see it: without the last axis where there is one output (two classes)."""
    return array[..., 0] if array.shape[-1] == 1 else array
