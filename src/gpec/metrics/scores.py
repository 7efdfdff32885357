"""Scores of intervals, by coverage and width, and of normal predictions, by their density."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

from gpec._validation import check_level
from gpec.errors import InputError
from gpec.metrics._arrays import same_shape, weighted_mean


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


def nlpd(truth: Any, mean: Any, std: Any, weights: Any = None) -> float:
    """Mean negative log density of the true values under normal predictions; smaller is better.

    ``log(std) + ((truth - mean) / std)^2 / 2 + log(2 pi) / 2``.

    Examples
    --------
    >>> from gpec.metrics import nlpd
    >>> round(nlpd([0.0, 2.0], [0.0, 0.0], [1.0, 1.0]), 4)
    1.9189
    """
    y, m, s = same_shape(truth=truth, mean=mean, std=std)
    if (s <= 0).any():
        raise InputError("std has numbers that are not greater than 0; the density is not defined there.")
    return weighted_mean(np.log(s) + 0.5 * ((y - m) / s) ** 2 + 0.5 * np.log(2 * np.pi), weights)


def crps(truth: Any, mean: Any, std: Any, weights: Any = None) -> float:
    """Mean continuous ranked probability score of normal predictions; smaller is better.

    The integral over t of ``(P(prediction <= t) - [truth <= t])^2``, in the units of the truth. With
    ``z = (truth - mean) / std`` it is ``std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))``. If ``std``
    is 0 the score is the absolute error.

    Parameters
    ----------
    truth, mean, std : arrays of one shape
        True values, and mean and standard deviation of the predictions.
    weights : array, optional
        Weight of each value, such as a count; broadcast against the others.

    Examples
    --------
    >>> from gpec.metrics import crps
    >>> round(crps([0.0], [0.0], [1.0]), 4)
    0.2337
    >>> crps([3.0], [1.0], [0.0])
    2.0
    """
    y, m, s = same_shape(truth=truth, mean=mean, std=std)
    if (s < 0).any():
        raise InputError("std has numbers less than 0; a standard deviation is at least 0.")
    error = y - m
    with np.errstate(over="ignore"):  # a tiny std: z is infinite, and the score the absolute error
        z = np.divide(error, s, out=np.where(error < 0, -np.inf, np.inf), where=s > 0)
        density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return weighted_mean(error * erf(z / np.sqrt(2)) + s * (2 * density - 1 / np.sqrt(np.pi)), weights)
