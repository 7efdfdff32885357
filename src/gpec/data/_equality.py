"""Equality of encoded rows, whose missing values are NaN."""

from __future__ import annotations

import numpy as np

from gpec.typing import FloatArray, IntArray


def contents_of(Z: FloatArray) -> list[bytes]:
    """The bytes of each row, equal for equal rows: -0 becomes 0, and all missing values have the same bits."""
    return [row.tobytes() for row in np.where(np.isnan(Z), np.nan, Z + 0.0)]


def distinct_rows(Z: FloatArray) -> tuple[IntArray, IntArray]:
    """The position of the first of equal encoded rows, and for each row which of these positions is its own."""
    seen: dict[bytes, int] = {}
    place = np.array([seen.setdefault(content, len(seen)) for content in contents_of(Z)], dtype=np.int64)
    return np.unique(place, return_index=True)[1].astype(np.int64), place


def unique_rows(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The distinct encoded rows, sorted, and their counts."""
    # NumPy treats two NaN as different; encoded rows have no infinite numbers
    rows, counts = np.unique(np.where(np.isnan(Z), np.inf, Z), axis=0, return_counts=True)
    rows[np.isinf(rows)] = np.nan
    return rows, np.asarray(counts, dtype=np.float64)
