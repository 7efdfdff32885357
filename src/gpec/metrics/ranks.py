"""Rank correlations: of uncertainty with error, and of the features' order among similar rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from gpec._validation import check_count, check_finite_array
from gpec.errors import InputError
from gpec.metrics._arrays import check_weights, mean_of_defined, renamed_said, rows_first
from gpec.typing import FloatArray


def rank_correlation(
    uncertainty: Any = None, actual: Any = None, *, by_feature: bool = False, weights: Any = None, said: Any = None
) -> float | FloatArray:
    """Spearman correlation of uncertainty with error over the rows, within each feature, then the mean over features.

    It is high if, within a feature, the wide intervals are those with a large error or change. Differences in width
    between features do not count.

    Parameters
    ----------
    uncertainty : array of shape (n,), (n, d) or (n, d, c)
        Predicted uncertainty of each attribution, such as the width of its interval.
    actual : array of the same shape
        Observed error, or change among similar rows.
    by_feature : bool
        Return one correlation for each feature and output, of shape ``(d,)`` or ``(d, c)``, instead of their mean.
    weights : array of shape (n,), optional
        Weight of each row, such as a count.
    said : array, optional
        Deprecated name of ``uncertainty``.

    Returns
    -------
    float or array
        Between -1 and 1. A feature where ``uncertainty`` or ``actual`` is the same for all rows has no correlation: it
        is NaN in the array, and left out of the mean. The mean is NaN if no feature is left.

    Examples
    --------
    >>> from gpec.metrics import rank_correlation
    >>> width = [[1, 7, 0], [2, 8, 0], [3, 9, 0]]
    >>> error = [[10, 3, 1], [20, 2, 2], [90, 1, 3]]
    >>> rank_correlation(width, error)
    0.0
    >>> rank_correlation(width, error, by_feature=True)
    array([ 1., -1., nan])
    """
    predicted, observed = rows_first(uncertainty=renamed_said(uncertainty, said), actual=actual)
    w = check_weights(weights, (len(predicted),))
    columns = zip(predicted.reshape(len(w), -1).T, observed.reshape(len(w), -1).T, strict=True)
    result = np.array([_spearman(a, b, w) for a, b in columns]).reshape(predicted.shape[1:])
    if by_feature and result.ndim:
        return result
    return float(mean_of_defined(result, np.ones_like(result)))


def rank_stability(
    values: Any, others: Any, k: int | None = None, *, by_row: bool = False, weights: Any = None
) -> float | FloatArray:
    """How well the most important features of a row agree with those of its similar rows.

    Features are ordered by the absolute value of their attributions. With ``k`` the agreement of two rows is the share
    of the row's ``k`` largest features that are also among the other's ``k`` largest; features tied for the last
    places share them evenly. Without ``k`` it is the Spearman correlation of the two orders of all features. It is
    averaged over a row's similar rows and outputs, then over rows.

    Parameters
    ----------
    values : array of shape (n, d) or (n, d, c)
        Attributions of the rows.
    others : array of shape (n, K, d) or (n, K, d, c)
        Attributions of the K similar rows of each row.
    k : int, optional
        Number of largest features to compare.
    by_row : bool
        Return the agreement of each row, of shape ``(n,)``, instead of the mean.
    weights : array of shape (n,), optional
        Weight of each row in the mean.

    Returns
    -------
    float or array
        Between 0 and 1 with ``k``, between -1 and 1 without. Where all features of a row matter equally there is no
        order to compare: such pairs are left out, and the result is NaN if no pair is left. This concerns ``k=None``
        only.

    Examples
    --------
    >>> from gpec.metrics import rank_stability
    >>> values = [[0.5, -0.3, 0.1]]
    >>> others = [[[0.4, -0.2, 0.1], [0.2, 0.1, -0.5]]]
    >>> rank_stability(values, others, k=1)
    0.5
    >>> rank_stability(values, others)
    0.25
    """
    rows, similar = _with_similar_rows(values, others)
    n, _, d, _ = similar.shape
    w = check_weights(weights, (n,))
    if k is None:
        agreement = _order_agreement(rows, similar)
    elif check_count("k", k) <= d:
        agreement = np.minimum(_membership(rows, k), _membership(similar, k)).sum(axis=2) / k
    else:
        raise InputError(f"k={k} must be at most {d}, the number of features.")
    flat = agreement.reshape(n, -1)
    row_means = mean_of_defined(flat, np.ones_like(flat), axis=1)
    return row_means if by_row else float(mean_of_defined(row_means, w))


def _centred_ranks(values: FloatArray, weights: FloatArray) -> FloatArray:
    """Ranks minus their mean, as if each value occurred ``weights`` times; ties get their mean rank."""
    _, group = np.unique(values, return_inverse=True)
    size = np.bincount(group, weights)
    return np.asarray((np.cumsum(size) - 0.5 * size - 0.5 * size.sum())[group])


def _spearman(a: FloatArray, b: FloatArray, weights: FloatArray) -> float:
    a, b = _centred_ranks(a, weights), _centred_ranks(b, weights)
    spread = np.sqrt((weights * a**2).sum() * (weights * b**2).sum())
    return float(np.clip((weights * a * b).sum() / spread, -1.0, 1.0)) if spread > 0 else np.nan


def _with_similar_rows(values: Any, others: Any) -> tuple[FloatArray, FloatArray]:
    """Both as ``(n, K, d, c)``, the rows themselves with K = 1."""
    rows, similar = check_finite_array("values", values), check_finite_array("others", others)
    if rows.ndim not in (2, 3):
        raise InputError(f"values has the shape {rows.shape}; it must be (n, d) or (n, d, c).")
    if similar.ndim != rows.ndim + 1 or (similar.shape[0], *similar.shape[2:]) != rows.shape:
        expected = f"({rows.shape[0]}, K, {', '.join(map(str, rows.shape[1:]))})"
        raise InputError(f"others has the shape {similar.shape}; beside values {rows.shape} it must be {expected}.")
    if not similar.size:
        raise InputError(f"others is empty: it has the shape {similar.shape}.")
    if rows.ndim == 2:
        rows, similar = rows[..., None], similar[..., None]
    return rows[:, None], similar


def _order_agreement(rows: FloatArray, similar: FloatArray) -> FloatArray:
    """Spearman correlation over the features of each pair, ``(n, K, c)``; NaN where there is no order."""
    middle = 0.5 * (rows.shape[2] + 1)
    a, b = (rankdata(np.abs(x), axis=2) - middle for x in (rows, similar))
    spread = np.sqrt((a**2).sum(axis=2) * (b**2).sum(axis=2))
    together = (a * b).sum(axis=2)
    return np.asarray(np.divide(together, spread, out=np.full_like(spread, np.nan), where=spread > 0))


def _membership(values: FloatArray, k: int) -> FloatArray:
    """1 for features among the k largest, 0 for others, a fraction for those tied at the k-th place."""
    size = np.abs(values)
    d = size.shape[2]
    last = np.partition(size, d - k, axis=2)[:, :, d - k : d - k + 1]
    above, tied = size > last, size == last
    left = k - above.sum(axis=2, keepdims=True)
    return np.asarray(above + tied * (left / tied.sum(axis=2, keepdims=True)))
