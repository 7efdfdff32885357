"""Dates and durations as numbers: units of the column's own type since the earliest date in fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.errors import InputError
from gpec.typing import FloatArray, IntArray

_NONE = np.iinfo(np.int64).min  # NaT
_FAR = 2.0**62  # beyond this, differences of ticks can overflow
_LAST = np.nextafter(2.0**63, 0)  # the largest tick that a float can represent


def is_date(dtype: Any) -> bool:
    """Whether a column of this type holds dates or durations."""
    return isinstance(dtype, pd.DatetimeTZDtype) or (isinstance(dtype, np.dtype) and dtype.kind in "mM")


def day_of(dtype: Any) -> float:
    """Number of units in a day."""
    unit: Any = _unit(dtype)
    return float(np.timedelta64(1, "D") / np.timedelta64(1, unit))


def date_origin(column: Any, column_name: str, name: str) -> int:
    """The earliest date, in units since 1970; 0 if there is none."""
    dtype = column.dtype
    if _unit(dtype) in ("Y", "M", "generic") or (isinstance(dtype, np.dtype) and np.datetime_data(dtype)[1] != 1):
        raise InputError(f"{name} column '{column_name}' holds dates in the unit of {dtype}; use days or seconds.")
    ticks = _ticks(column, dtype, column_name, name)
    known = ticks[ticks != _NONE]
    return int(known.min()) if len(known) else 0


def date_numbers(column: Any, dtype: Any, origin: int, column_name: str, name: str) -> FloatArray:
    """Units since ``origin``; NaN for missing dates."""
    ticks = _ticks(column, dtype, column_name, name)
    rough = ticks.astype(np.float64) - float(origin)
    with np.errstate(over="ignore"):
        exact = (ticks - np.int64(origin)).astype(np.float64)
    return np.where(ticks == _NONE, np.nan, np.where(np.abs(rough) < _FAR, exact, rough))


def as_dates(values: FloatArray, dtype: Any, origin: int) -> Any:
    """The dates ``values`` units after ``origin``, rounded to whole units."""
    absent = np.isnan(values)
    since = np.rint(np.where(absent, 0.0, values))
    near = np.abs(since) < _FAR
    rough = np.clip(since + float(origin), -_LAST, _LAST).astype(np.int64)
    with np.errstate(over="ignore"):
        exact = np.where(near, since, 0.0).astype(np.int64) + np.int64(origin)
    ticks = np.where(absent, _NONE, np.where(near, exact, rough))
    dates = ticks.view(f"{dtype.kind}8[{_unit(dtype)}]")
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.DatetimeIndex(dates).tz_localize("UTC").tz_convert(dtype.tz)
    return dates


def _ticks(column: Any, dtype: Any, column_name: str, name: str) -> IntArray:
    """Dates as whole units of ``dtype`` since 1970, or durations as whole units."""
    where = f"{name} column '{column_name}'"
    values: Any = _read(column)
    if bool(values.isna().all()):
        return np.full(len(values), _NONE)
    if not is_date(values.dtype) or values.dtype.kind != dtype.kind:
        raise InputError(f"{where} holds {values.dtype}, where fit had {dtype}; pass the same kind of dates.")
    if isinstance(values.dtype, pd.DatetimeTZDtype) != isinstance(dtype, pd.DatetimeTZDtype):
        raise InputError(f"{where} holds {values.dtype}, where fit had {dtype}; give both a time zone, or neither.")
    if isinstance(column, np.ndarray) and column.dtype.kind in "mM":
        array: npt.NDArray[Any] = column  # not converted: pandas has fewer units
    elif isinstance(dtype, pd.DatetimeTZDtype):
        array = values.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    else:
        array = values.to_numpy()
    in_unit = array.astype(f"{dtype.kind}8[{_unit(dtype)}]")
    lost = (in_unit != array) & ~np.isnat(array)
    if lost.any():
        place = f" in row {int(lost.argmax())}"
        raise InputError(
            f"{where} has {array[lost][0]}{place}, which is finer than {dtype}, the type in fit; round it."
        ).at(place)
    return np.ascontiguousarray(in_unit).view(np.int64)


def _read(column: Any) -> pd.Series[Any]:
    values: pd.Series[Any] = column if isinstance(column, pd.Series) else pd.Series(column)
    if values.dtype != object:
        return values
    kind = pd.api.types.infer_dtype(values, skipna=True)
    try:
        if kind in ("datetime", "datetime64", "date"):
            return pd.Series(pd.to_datetime(values))
        return pd.Series(pd.to_timedelta(values)) if kind in ("timedelta", "timedelta64") else values
    except (TypeError, ValueError):  # several time zones
        return values


def _unit(dtype: Any) -> str:
    return str(dtype.unit) if isinstance(dtype, pd.DatetimeTZDtype) else str(np.datetime_data(dtype)[0])
