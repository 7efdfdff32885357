"""Centre and scale of columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.typing import FloatArray

_TAIL = 0.01  # fraction of the values at each end that is winsorised
_BLOCK = 64  # columns copied at a time, as the values of a column are far apart in memory
_FEWEST = 20  # rows for which at least one value at each end is winsorised


def column_moments(Z: FloatArray, *, robust: bool = False) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (1 for a constant) of each column, without missing values.

    If ``robust``, one percent of the values at each end, and at least one value for twenty or more rows, is replaced by
    the next inner value, unless the other values do not vary.
    """
    center, scale = np.zeros(Z.shape[1]), np.ones(Z.shape[1])
    for start in range(0, Z.shape[1], _BLOCK):
        for j, column in enumerate(Z[:, start : start + _BLOCK].T.copy(), start):
            known = column[~np.isnan(column)]
            if len(known) == 0:
                continue
            if robust and len(known) >= _FEWEST:
                tail = math.ceil(_TAIL * len(known))
                low, high = np.partition(known, (tail, len(known) - 1 - tail))[[tail, len(known) - 1 - tail]]
                if low < high:
                    known = np.clip(known, low, high)
            unit = np.abs(known).max() or 1.0  # squares of raw values can overflow or underflow
            reduced = known / unit
            spread = reduced.std()
            with np.errstate(over="ignore"):
                varies = np.ptp(known) > 0 and spread > 10 * np.finfo(float).eps
            center[j], scale[j] = reduced.mean() * unit, spread * unit if varies else 1.0
    return center, scale


def mismatch_scale(counts: npt.NDArray[Any]) -> float:
    """The distance between categories for which two random rows differ as much as in a standardised number.

    ``counts`` are the frequencies of the categories.
    """
    share = counts / counts.sum()
    mismatch = 1.0 - float(share @ share)  # probability that two rows differ
    return math.sqrt(2.0 / mismatch) if mismatch > 0 else 1.0
