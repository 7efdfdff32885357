"""Lengths used by the boundary search, in units of the spread of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpec.data import Schema
from gpec.typing import FloatArray

__all__ = ["SearchScale"]

_CLEAR = 1e-4
_ROWS = 2_000


@dataclass(frozen=True)
class SearchScale:
    """Lengths that the search compares with.

    Attributes
    ----------
    unit : float
        1 for standardised columns; else a typical distance of a number from the median of its column.
    tolerance : float
        Longest final bracket.
    clear : float
        A stretch of a path with one class is a sliver if it is shorter than half of this, and not if it is longer than
        this.
    """

    unit: float
    tolerance: float
    clear: float

    @classmethod
    def of(cls, schema: Schema, Z: FloatArray, tolerance: float) -> SearchScale:
        """The lengths for encoded rows ``Z``; ``tolerance`` is in units."""
        unit = _spread(schema, Z[:: max(len(Z) // _ROWS, 1)]) if _is_raw(schema) else 1.0
        return cls(unit, tolerance * unit, _CLEAR * unit)


def _is_raw(schema: Schema) -> bool:
    """Whether numbers are not standardised (dates are in days)."""
    numbers = [j for j in schema.continuous.tolist() if j not in schema.origins]
    return not schema.center.any() and bool((schema.scale[numbers] == 1).all())


def _spread(schema: Schema, Z: FloatArray) -> float:
    """Median distance of rows from the column medians (rows at distance 0 left out), divided by ``sqrt(columns)``."""
    numbers = schema.continuous
    Z = Z[:, numbers] / schema.scale[numbers]
    Z = Z[:, ~np.isnan(Z).all(axis=0)]
    offset = np.nan_to_num(Z - np.nanmedian(Z, axis=0))
    largest = float(np.abs(offset).max(initial=0.0))
    if largest == 0:
        return 1.0
    length = np.linalg.norm(offset / largest, axis=1)  # squares of raw numbers may overflow or vanish
    return float(np.median(length[length > 0])) * largest / float(np.sqrt(Z.shape[1]))
