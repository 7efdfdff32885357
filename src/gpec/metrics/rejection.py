"""What is gained by setting aside what is called uncertain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpec.metrics._arrays import check_weights, same_shape
from gpec.typing import FloatArray

__all__ = ["RejectionCurve", "rejection_curve"]


@dataclass(frozen=True, eq=False)
class RejectionCurve:
    """Mean error of what is kept, by the share that is rejected.

    Attributes
    ----------
    shares : array
        Shares rejected, from 0 to 1; one point between any two entries of different uncertainty.
    errors : array
        Mean error of what is kept; at 1 that of the last to go.
    area : float
        Mean of the error over all shares from 0 to 1.
    oracle_area : float
        The same, were the greatest errors rejected first: no order has a smaller one.
    random_area : float
        The same, were entries rejected at random: the mean of all errors.
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
        """How far the area comes from random (0) towards the oracle (1); below 0 is worse than random.

        NaN if all errors are equal, as there is nothing to gain.
        """
        possible = self.random_area - self.oracle_area
        return (self.random_area - self.area) / possible if possible > 0 else np.nan


def rejection_curve(said: Any, error: Any, weights: Any = None) -> RejectionCurve:
    """Mean error of the entries kept when the most uncertain share is rejected.

    Entries with the same uncertainty go together, in any proportion. All entries are compared with each other, so give
    one feature at a time if features differ in scale.

    Parameters
    ----------
    said : array
        The uncertainty, such as the width of the interval.
    error : array of the same shape
        What turned out, such as the absolute error.
    weights : array, optional
        How many entries each stands for; broadcast against the others.

    Returns
    -------
    RejectionCurve

    Examples
    --------
    >>> from gpec.metrics import rejection_curve
    >>> curve = rejection_curve(said=[1.0, 2.0, 3.0, 4.0], error=[0.0, 2.0, 1.0, 5.0])
    >>> curve.shares
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    >>> curve.errors
    array([2., 1., 1., 0., 0.])
    >>> round(curve.gain, 2)
    0.9
    """
    uncertainty, loss = same_shape(said=said, error=error)
    w = check_weights(weights, loss.shape)
    u, e, w = (array[w > 0] for array in (uncertainty, loss, w))
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
    # Of what is kept before a group goes, and after.
    kept = np.cumsum(share[::-1])[::-1]
    kept_mean = np.cumsum((share * mean)[::-1])[::-1] / kept
    after, after_mean = np.append(kept[1:], 0.0), np.append(kept_mean[1:], mean[-1])
    # Integral over r, from 0 to the group's share, of (after * after_mean + r * mean) / (after + r).
    ratio = np.divide(kept, after, out=np.ones_like(kept), where=after > 0)
    area = (share * mean + after * (after_mean - mean) * np.log(ratio)).sum()
    return np.append(0.0, 1.0 - after), np.append(kept_mean, mean[-1]), float(area)
