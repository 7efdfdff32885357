"""Rows that may have missing values, which are NaN: when two are the same."""

from __future__ import annotations

import numpy as np

from gpec.typing import FloatArray

__all__ = ["content", "unique_rows"]


def content(row: FloatArray) -> bytes:
    """The same for rows of the same values: there is one zero and one missing value."""
    return np.where(np.isnan(row), np.nan, row + 0.0).tobytes()


def unique_rows(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The distinct ones of encoded rows, and how often each occurs."""
    # NumPy takes no two NaN for the same; infinite numbers, which do, are not among encoded rows
    rows, counts = np.unique(np.where(np.isnan(Z), np.inf, Z), axis=0, return_counts=True)
    rows[np.isinf(rows)] = np.nan
    return rows, np.asarray(counts, dtype=np.float64)
