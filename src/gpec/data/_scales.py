"""Centre and scale of columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.typing import FloatArray

__all__ = ["column_moments", "mismatch_scale", "robust_moments"]

_TAIL = 0.01  # fraction of the values at each end that is winsorised
_BLOCK = 64  # columns copied at a time, as the values of a column are far apart in memory
_FEWEST = 20  # rows for which at least one value at each end is winsorised


def column_moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (1 for a constant) of each column, without missing values."""
    has_missing = np.isnan(Z).any(axis=0)
    if not has_missing.any():
        return _moments(Z)
    center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    center[~has_missing], scale[~has_missing] = _moments(Z[:, ~has_missing])
    for j in np.flatnonzero(has_missing):
        known = Z[~np.isnan(Z[:, j]), j]
        if len(known):
            center[[j]], scale[[j]] = _moments(known[:, None])
    return center, scale


def robust_moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Winsorised mean and standard deviation of each column.

    One percent of the values at each end, and at least one value for twenty or more rows, is replaced by the next inner
    value. If the other values do not vary, these are the plain moments.
    """
    center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    for start in range(0, Z.shape[1], _BLOCK):
        for j, column in enumerate(Z[:, start : start + _BLOCK].T.copy(), start):
            known = column[~np.isnan(column)]
            if len(known) == 0:
                continue
            tail = math.ceil(_TAIL * len(known)) if len(known) >= _FEWEST else 0
            low, high = np.partition(known, (tail, len(known) - 1 - tail))[[tail, len(known) - 1 - tail]]
            if low < high:
                known = np.clip(known, low, high)
            center[[j]], scale[[j]] = _moments(known[:, None])
    return center, scale


def mismatch_scale(counts: npt.NDArray[Any]) -> float:
    """The distance between categories for which two random rows differ as much as in a standardised number.

    ``counts`` are the frequencies of the categories.
    """
    share = counts / counts.sum()
    mismatch = 1.0 - float(share @ share)  # probability that two rows differ
    return math.sqrt(2.0 / mismatch) if mismatch > 0 else 1.0


def _moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    largest = np.abs(Z).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of raw values can overflow or underflow
    reduced = Z / unit
    spread = reduced.std(axis=0)
    with np.errstate(over="ignore"):
        varies = (np.ptp(Z, axis=0) > 0) & (spread > 10 * np.finfo(float).eps)
    return reduced.mean(axis=0) * unit, np.where(varies, spread * unit, 1.0)
