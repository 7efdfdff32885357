"""Scores of intervals: how many true values they hold, and how wide they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec._validation import check_level
from gpec.metrics._arrays import same_shape, weighted_mean

__all__ = ["coverage", "interval_score", "mean_width"]


def coverage(truth: Any, lower: Any, upper: Any, weights: Any = None) -> float:
    """Share of true values that lie between their bounds, ends included.

    Parameters
    ----------
    truth, lower, upper : arrays of one shape
        True values and bounds.
    weights : array, optional
        Weight of each value, such as a count; broadcast against the others.

    Examples
    --------
    >>> from gpec.metrics import coverage
    >>> coverage([0.0, 1.0, 2.0, 3.0], [-1, -1, -1, -1], [1, 1, 1, 1])
    0.5
    """
    y, low, high = same_shape(truth=truth, lower=lower, upper=upper)
    return weighted_mean((low <= y) & (y <= high), weights)


def mean_width(lower: Any, upper: Any, weights: Any = None) -> float:
    """Mean of upper minus lower bound.

    Examples
    --------
    >>> from gpec.metrics import mean_width
    >>> mean_width([0.0, 1.0], [1.0, 4.0])
    2.0
    """
    low, high = same_shape(lower=lower, upper=upper)
    return weighted_mean(high - low, weights)


def interval_score(truth: Any, lower: Any, upper: Any, level: float = 0.95, weights: Any = None) -> float:
    """Mean interval score (Gneiting & Raftery 2007); smaller is better.

    The width, plus ``2 / (1 - level)`` times the distance by which a true value lies outside.

    Examples
    --------
    >>> from gpec.metrics import interval_score
    >>> round(interval_score([0.0, 2.0], [-1, -1], [1, 1], level=0.9), 6)
    12.0
    """
    y, low, high = same_shape(truth=truth, lower=lower, upper=upper)
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return weighted_mean(high - low + 2.0 / (1.0 - check_level(level, "level")) * outside, weights)
