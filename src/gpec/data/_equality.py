"""Encoded rows, whose missing values are NaN: when two are the same."""

from __future__ import annotations

import numpy as np

from gpec.typing import FloatArray

__all__ = ["contents_of", "unique_rows"]


def contents_of(Z: FloatArray) -> list[bytes]:
    """For each row the same bytes wherever it comes from: there is one zero and one missing value."""
    return [row.tobytes() for row in np.where(np.isnan(Z), np.nan, Z + 0.0)]


def unique_rows(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The distinct ones of encoded rows, sorted, and how often each occurs."""
    # NumPy takes no two NaN for the same; infinite numbers, which do, are not among encoded rows
    rows, counts = np.unique(np.where(np.isnan(Z), np.inf, Z), axis=0, return_counts=True)
    rows[np.isinf(rows)] = np.nan
    return rows, np.asarray(counts, dtype=np.float64)
