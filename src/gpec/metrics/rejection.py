"""Rejection curves: the error that remains when the most uncertain entries are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpec.metrics._arrays import check_weights, renamed_said, same_shape
from gpec.typing import FloatArray


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """Mean error of the entries that remain, by the share that is rejected.

    Attributes
    ----------
    shares : array
        Shares rejected, from 0 to 1; one point between any two entries of different uncertainty.
    errors : array
        Mean error of the entries that remain; at 1 that of the last one rejected.
    area : float
        Mean of the error over all shares from 0 to 1.
    oracle_area : float
        The same if the largest errors are rejected first: no order has a smaller one.
    random_area : float
        The same if entries are rejected at random: the mean of all errors.
    oracle_shares, oracle_errors : arrays
        The curve of the oracle.
    """

    shares: FloatArray
    errors: FloatArray
    area: float
    oracle_area: float
    random_area: float
    oracle_shares: FloatArray
    oracle_errors: FloatArray

    @property
    def gain(self) -> float:
        """Position of the area between random (0) and the oracle (1); below 0 is worse than random.

        NaN if all errors are equal: then no order is better than another.
        """
        possible = self.random_area - self.oracle_area
        return (self.random_area - self.area) / possible if possible > 0 else np.nan


def rejection_curve(
    uncertainty: Any = None, error: Any = None, weights: Any = None, *, said: Any = None
) -> RejectionCurve:
    """Mean error of the entries that remain when the most uncertain share is rejected.

    Entries with the same uncertainty are rejected together. All entries are compared with each other, so give
    one feature at a time if features differ in scale.

    Parameters
    ----------
    uncertainty : array
        Such as the width of the interval.
    error : array of the same shape
        Such as the absolute error.
    weights : array, optional
        Weight of each entry, such as a count; broadcast against the others.
    said : array, optional
        Deprecated name of ``uncertainty``.

    Returns
    -------
    RejectionCurve

    Examples
    --------
    >>> from gpec.metrics import rejection_curve
    >>> curve = rejection_curve([1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 1.0, 5.0])
    >>> curve.shares
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> curve.errors
    array([2., 1., 1., 0., 0.])
    >>> round(curve.gain, 2)
    0.9
    """
    given, loss = same_shape(uncertainty=renamed_said(uncertainty, said), error=error)
    w = check_weights(weights, loss.shape)
    u, e, w = (array[w > 0] for array in (given, loss, w))
    oracle_shares, oracle_errors, oracle_area = _curve(e, e, w)
    return RejectionCurve(
        *_curve(u, e, w),
        oracle_area=oracle_area,
        random_area=float(oracle_errors[0]),
        oracle_shares=oracle_shares,
        oracle_errors=oracle_errors,
    )


def _curve(uncertainty: FloatArray, error: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    _, group = np.unique(-uncertainty, return_inverse=True)
    size = np.bincount(group, weights)
    share = size / size.sum()
    mean = np.bincount(group, weights * error) / size
    # Weight and mean error of what remains before a group is rejected, and after.
    remaining = np.cumsum(share[::-1])[::-1]
    remaining_mean = np.cumsum((share * mean)[::-1])[::-1] / remaining
    after, after_mean = np.append(remaining[1:], 0.0), np.append(remaining_mean[1:], mean[-1])
    # Integral over r, from 0 to the group's share, of (after * after_mean + r * mean) / (after + r).
    ratio = np.divide(remaining, after, out=np.ones_like(remaining), where=after > 0)
    area = (share * mean + after * (after_mean - mean) * np.log(ratio)).sum()
    return np.append(0.0, 1.0 - after), np.append(remaining_mean, mean[-1]), float(area)
