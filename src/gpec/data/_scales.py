"""Where the values of a column lie, and how far they spread."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.typing import FloatArray

__all__ = ["column_moments", "mismatch_scale", "robust_moments"]

_TAIL = 0.01  # share of the values at either end that is drawn in to its neighbour
_BLOCK = 64  # columns copied at a time: along a column, rows lie far apart in memory
_FEWEST = 20  # rows from which on there is at least one such value


def column_moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column, the latter 1 where it does not vary; missing values do not count."""
    holes = np.isnan(Z).any(axis=0)
    if not holes.any():
        return _moments(Z)
    center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    center[~holes], scale[~holes] = _moments(Z[:, ~holes])
    for j in np.flatnonzero(holes):
        known = Z[~np.isnan(Z[:, j]), j]
        if len(known):
            center[[j]], scale[[j]] = _moments(known[:, None])
    return center, scale


def robust_moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column after its tails were drawn in (winsorised).

    The hundredth part of the values at either end, and at least one from twenty rows on, takes the value of its inner
    neighbour. Where nothing else varies, the plain moments are given.
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
    """How far apart states that occur so often must lie, for two random rows to differ as in a standardised number."""
    share = counts / counts.sum()
    mismatch = 1.0 - float(share @ share)  # chance that two rows differ
    return math.sqrt(2.0 / mismatch) if mismatch > 0 else 1.0


def _moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    largest = np.abs(Z).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of raw values may overflow or vanish
    reduced = Z / unit
    spread = reduced.std(axis=0)
    with np.errstate(over="ignore"):
        varies = (np.ptp(Z, axis=0) > 0) & (spread > 10 * np.finfo(float).eps)
    return reduced.mean(axis=0) * unit, np.where(varies, spread * unit, 1.0)
