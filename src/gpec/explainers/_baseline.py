"""The row that stands for "feature not there"."""

from __future__ import annotations

import numpy as np

from gpec.data import Schema
from gpec.typing import FloatArray

__all__ = ["typical_row"]


def typical_row(background: FloatArray, schema: Schema) -> FloatArray:
    """The mean of each number and the most frequent category of each other column, as an encoded row ``(d,)``."""
    row = np.asarray(background.mean(axis=0), dtype=np.float64)
    for j in schema.categorical:
        row[j] = np.bincount(background[:, j].astype(np.int64)).argmax()
    return row
