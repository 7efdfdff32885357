"""The background rows of explainers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec._validation import check_count
from gpec.data.schema import Schema
from gpec.errors import ParameterTypeError
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray

__all__ = ["check_background"]


def check_background(background: Any, schema: Schema, Z: FloatArray, seed: int) -> FloatArray:
    """Encoded background rows: a number of random rows of ``Z``, or the given rows."""
    if isinstance(background, (int, np.integer)) and not isinstance(background, bool):
        count = check_count("background", background)
        return Z if count >= len(Z) else Z[stream(seed, "background").permutation(len(Z))[:count]]
    if isinstance(background, (bool, float)):
        raise ParameterTypeError(f"background={background!r} must be a whole number of rows, or the rows.")
    return schema.encode(background, "background")
