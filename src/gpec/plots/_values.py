"""The values of a feature: numbers, dates, categories, and what is missing."""

from __future__ import annotations

from datetime import date
from typing import Any

import matplotlib.dates as mdates
import numpy as np

from gpec._numbers import is_missing
from gpec.typing import FloatArray

__all__ = ["MANY", "as_dates", "as_numbers", "dot_size", "spread"]

MANY = 2_000  # dots from which a picture in a vector format holds them as pixels


def as_numbers(column: Any) -> FloatArray | None:
    """The values as floats, NaN where missing; None if any is neither a number nor a truth value."""
    kinds = (int, float, np.number, np.bool_)
    return _converted(column, kinds, "biuf", lambda present: np.asarray(present, dtype=np.float64))


def as_dates(column: Any) -> FloatArray | None:
    """Dates as matplotlib's days, NaN where missing; None if any is no date."""
    kinds = (date, np.datetime64)
    return _converted(column, kinds, "M", lambda present: _days(list(present)))


def _days(dates: list[Any]) -> FloatArray:
    return np.asarray(mdates.date2num(dates))  # type: ignore[no-untyped-call]


def _converted(column: Any, kinds: tuple[type, ...], dtypes: str, convert: Any) -> FloatArray | None:
    column = np.asarray(column)
    present = ~is_missing(column)
    if column.dtype.kind not in dtypes and not all(isinstance(item, kinds) for item in column[present]):
        return None
    numbers = np.full(column.shape, np.nan)
    if present.any():
        numbers[present] = convert(column[present])
    return numbers


def dot_size(largest: float, rows: int) -> float:
    """The area of a dot: the more rows beyond some hundred, the smaller, down to a quarter."""
    return largest * float(np.clip((400 / rows) ** 0.5, 0.25, 1.0))


def spread(positions: FloatArray, low: float, high: float, *, bins: int) -> FloatArray:
    """Where points go crosswise, between -1 and 1, so that those close to each other lie side by side.

    Points of one bin along the axis are laid out alternately on both sides of its middle, evenly, so that the width of
    the swarm shows how many points lie there.
    """
    if not len(positions):
        return np.zeros(0)
    scale = (high - low) or 1.0
    group = np.clip((positions - low) / scale * bins, 0, bins - 1).astype(np.int64)
    order = np.argsort(group, kind="stable")  # within a bin as the rows come, so that no pattern is seen
    sizes = np.bincount(group, minlength=bins)
    rank = np.empty(len(positions), dtype=np.int64)
    rank[order] = np.arange(len(positions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    side = np.where(rank % 2 == 1, 1.0, -1.0) * ((rank + 1) // 2)
    return np.asarray(side / max((sizes.max() + 1) // 2, 6))
