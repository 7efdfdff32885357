"""The values of a feature: numbers, dates, categories and missing values."""

from __future__ import annotations

from datetime import date
from typing import Any

import matplotlib.dates as mdates
import numpy as np

from gpec._numbers import is_missing
from gpec.typing import FloatArray

MANY = 2_000  # from this number on, dots are rasterised in vector formats


def numbers_of(column: Any) -> tuple[FloatArray | None, bool]:
    """The values as floats, NaN where missing, and whether they are dates (in matplotlib's days); None for texts."""
    column = np.asarray(column)
    present = ~is_missing(column)
    for kinds, dtypes, dates in (
        ((int, float, np.number, np.bool_), "biuf", False),
        ((date, np.datetime64), "M", True),
    ):
        if column.dtype.kind in dtypes or all(isinstance(item, kinds) for item in column[present]):
            numbers = np.full(column.shape, np.nan)
            if present.any():
                known: Any = column[present]
                numbers[present] = mdates.date2num(list(known)) if dates else known  # type: ignore[no-untyped-call]
            return numbers, dates
    return None, False


def dot_size(largest: float, rows: int) -> float:
    """The area of a dot: smaller with more than a few hundred rows, down to a quarter."""
    return largest * float(np.clip((400 / rows) ** 0.5, 0.25, 1.0))


def spread(positions: FloatArray, low: float, high: float, *, bins: int) -> FloatArray:
    """Offsets of points across the axis, between -1 and 1, so that close points lie side by side.

    Points of one bin along the axis are laid out alternately on both sides of its middle, evenly, so that the width of
    the swarm shows how many points lie there.
    """
    if not len(positions):
        return np.zeros(0)
    scale = (high - low) or 1.0
    group = np.clip((positions - low) / scale * bins, 0, bins - 1).astype(np.int64)
    order = np.argsort(group, kind="stable")  # in the order of the rows within a bin, so that no pattern appears
    sizes = np.bincount(group, minlength=bins)
    rank = np.empty(len(positions), dtype=np.int64)
    rank[order] = np.arange(len(positions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    side = np.where(rank % 2 == 1, 1.0, -1.0) * ((rank + 1) // 2)
    return np.asarray(side / max((sizes.max() + 1) // 2, 6))
