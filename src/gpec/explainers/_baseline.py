"""The baseline row, whose values replace masked features."""

from __future__ import annotations

import numpy as np

from gpec.data import Schema
from gpec.typing import FloatArray

__all__ = ["typical_row"]


def typical_row(background: FloatArray, schema: Schema) -> FloatArray:
    """The mean of each numeric column and the most frequent category of each other column, as an encoded row ``(d,)``.

    Missing numbers are ignored, unless all are missing. The most frequent category can be a missing value.
    """
    row = np.asarray(background.mean(axis=0), dtype=np.float64)
    absent = np.isnan(background)
    for j in np.flatnonzero(absent.any(axis=0) & ~absent.all(axis=0)):
        row[j] = background[~absent[:, j], j].mean()
    for j in schema.categorical:
        counts = np.bincount(background[~absent[:, j], j].astype(np.int64), minlength=1)
        row[j] = counts.argmax() if counts.max() >= absent[:, j].sum() else np.nan
    return row
