"""How good intervals are, measured against what turned out to be true."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec._validation import check_finite_array, check_level
from gpec.errors import InputError
from gpec.typing import FloatArray

__all__ = ["coverage", "interval_score", "mean_width", "nlpd"]


def coverage(truth: Any, lower: Any, upper: Any, weights: Any = None) -> float:
    """Share of true values that lie between their bounds, ends included.

    Parameters
    ----------
    truth, lower, upper : arrays of one shape
        True values and bounds.
    weights : array, optional
        How many values each stands for; broadcast against the others.

    Examples
    --------
    >>> from gpec.metrics import coverage
    >>> coverage([0.0, 1.0, 2.0, 3.0], [-1, -1, -1, -1], [1, 1, 1, 1])
    0.5
    """
    y, low, high = _like(truth=truth, lower=lower, upper=upper)
    return _mean((low <= y) & (y <= high), weights)


def mean_width(lower: Any, upper: Any, weights: Any = None) -> float:
    """Mean of upper minus lower bound."""
    low, high = _like(lower=lower, upper=upper)
    return _mean(high - low, weights)


def interval_score(truth: Any, lower: Any, upper: Any, level: float = 0.95, weights: Any = None) -> float:
    """Mean interval score (Gneiting & Raftery 2007); smaller is better.

    The width, plus ``2 / (1 - level)`` times the distance by which a true value lies outside.

    Examples
    --------
    >>> from gpec.metrics import interval_score
    >>> round(interval_score([0.0, 2.0], [-1, -1], [1, 1], level=0.9), 6)
    12.0
    """
    y, low, high = _like(truth=truth, lower=lower, upper=upper)
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return _mean(high - low + 2.0 / (1.0 - check_level(level)) * outside, weights)


def nlpd(truth: Any, mean: Any, std: Any, weights: Any = None) -> float:
    """Mean negative log density of the true values under normal predictions; smaller is better.

    ``log(std) + ((truth - mean) / std)^2 / 2 + log(2 pi) / 2``.
    """
    y, m, s = _like(truth=truth, mean=mean, std=std)
    if (s <= 0).any():
        raise InputError("std has numbers that are not greater than 0; the density is not defined there.")
    return _mean(np.log(s) + 0.5 * ((y - m) / s) ** 2 + 0.5 * np.log(2 * np.pi), weights)


def _like(**arrays: Any) -> list[FloatArray]:
    checked = [check_finite_array(name, array) for name, array in arrays.items()]
    shapes = {array.shape for array in checked}
    if len(shapes) > 1:
        raise InputError(f"{', '.join(arrays)} have the shapes {sorted(shapes)}; they must have one.")
    if not checked[0].size:
        raise InputError(f"{next(iter(arrays))} is empty.")
    return checked


def _mean(values: Any, weights: Any) -> float:
    if weights is None:
        return float(np.mean(values))
    given = check_finite_array("weights", weights, least=0.0)
    try:
        w = np.broadcast_to(given, np.shape(values))
    except ValueError as error:
        raise InputError(f"weights has the shape {given.shape}, which does not fit {np.shape(values)}.") from error
    if not w.any():
        raise InputError("weights are all 0; some must be greater.")
    return float(np.average(values, weights=w))
