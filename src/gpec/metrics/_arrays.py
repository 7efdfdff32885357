"""Checks of arrays and weights that all metrics share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpec._validation import check_finite_array
from gpec.errors import InputError
from gpec.typing import FloatArray


def renamed_said(uncertainty: Any, said: Any) -> Any:
    """The uncertainty, also under the parameter's former name ``said``."""
    if said is None:
        return uncertainty
    warnings.warn("said= is now called uncertainty=; pass uncertainty=.", DeprecationWarning, stacklevel=3)
    return said


def same_shape(**arrays: Any) -> list[FloatArray]:
    """The arrays, finite, of one shape and not empty."""
    checked = [check_finite_array(name, array) for name, array in arrays.items()]
    shapes = {array.shape for array in checked}
    if len(shapes) > 1:
        raise InputError(f"{', '.join(arrays)} have the shapes {sorted(shapes)}; they must have one.")
    if not checked[0].size:
        raise InputError(f"{next(iter(arrays))} is empty.")
    return checked


def rows_first(**arrays: Any) -> list[FloatArray]:
    """As :func:`same_shape`, for arrays whose first axis is the row."""
    checked = same_shape(**arrays)
    if not checked[0].ndim:
        raise InputError(f"{', '.join(arrays)} are single numbers; give arrays with one entry for each row.")
    return checked


def check_weights(weights: Any, shape: tuple[int, ...]) -> FloatArray:
    """Weights broadcast to ``shape`` and divided by the largest; 1 if none are given."""
    if weights is None:
        return np.ones(shape)
    given = check_finite_array("weights", weights, least=0.0)
    try:
        w = np.broadcast_to(given, shape)
    except ValueError as error:
        raise InputError(f"weights has the shape {given.shape}, which does not fit {shape}.") from error
    if not w.any():
        raise InputError("weights are all 0; some must be greater.")
    return np.asarray(w / w.max())


def weighted_mean(values: Any, weights: Any) -> float:
    return float(np.average(values, weights=None if weights is None else check_weights(weights, np.shape(values))))


def mean_of_defined(values: FloatArray, weights: FloatArray, axis: int | None = None) -> FloatArray:
    """The mean of the values that are not NaN; NaN if there are none."""
    w = np.where(np.isnan(values), 0.0, weights)
    total = w.sum(axis=axis)
    summed = (w * np.nan_to_num(values)).sum(axis=axis)
    return np.asarray(np.divide(summed, total, out=np.full_like(total, np.nan), where=total > 0))
