"""Conversion of polars DataFrames with polars' own methods; polars is imported only for them, pyarrow is not needed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd

from gpec._validation import check_installed
from gpec.errors import InputError

_NOT_A_DATE = np.iinfo(np.int64).min


def from_polars(frame: Any, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The columns as a pandas DataFrame, and the names of their types; null becomes None, NaN or NaT."""
    columns = {label: _column(frame.get_column(label), label, name) for label in frame.columns}
    return pd.DataFrame(columns), tuple(_type_name(frame.get_column(label)) for label in frame.columns)


def to_polars(frame: pd.DataFrame, type_names: tuple[str, ...]) -> Any:
    """The polars DataFrame that :func:`from_polars` converts to ``frame``."""
    polars = check_installed("polars", "A model that was given polars DataFrames in fit", "polars")
    return polars.DataFrame(
        [
            _series(polars, str(label), frame.iloc[:, j], type_name)
            for j, (label, type_name) in enumerate(zip(frame.columns, type_names, strict=True))
        ]
    )


def _type_name(series: Any) -> str:
    dtype = series.dtype
    type_name = str(dtype.base_type().__name__)
    holds_nan = dtype.is_float() and series.null_count() == 0 and series.is_nan().any()
    return f"{type_name} with NaN" if holds_nan else type_name


def _column(series: Any, label: str, name: str) -> Any:
    dtype = series.dtype
    type_name = dtype.base_type().__name__
    if dtype.is_numeric():
        return series.cast(importlib.import_module("polars").Float64).to_numpy(writable=True)
    if type_name in ("Categorical", "Enum"):
        values = series.to_list()
        known = dtype.categories.to_list() if type_name == "Enum" else sorted({v for v in values if v is not None})
        return pd.Categorical(values, categories=pd.Index(known, dtype=object))
    if type_name == "Date":
        return _dates(series.cast(importlib.import_module("polars").Datetime("us")), "M8[us]")
    if type_name == "Datetime":
        stamps = _dates(series, f"M8[{dtype.time_unit}]")
        zone = dtype.time_zone
        return stamps if zone is None else pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(zone)
    if type_name == "Duration":
        return _dates(series, f"m8[{dtype.time_unit}]")
    if type_name == "Boolean" and series.null_count() == 0:
        return series.to_numpy()
    if type_name in ("String", "Boolean", "Null"):
        return pd.Series(series.to_list(), dtype=object)
    raise InputError(f"{name} column '{label}' has the polars type {dtype}, which is neither number, text nor date.")


def _dates(series: Any, dtype: str) -> Any:
    return series.to_physical().fill_null(_NOT_A_DATE).to_numpy(writable=True).view(dtype)


def _series(polars: Any, label: str, column: pd.Series[Any], type_name: str) -> Any:
    absent = column.isna().to_numpy()
    if type_name in ("String", "Boolean", "Null", "Categorical", "Enum"):
        dtype = getattr(polars, type_name)
        if type_name == "Enum":
            dtype = polars.Enum(column.cat.categories.to_list())
        known = [None if missing else value for value, missing in zip(column.tolist(), absent.tolist(), strict=True)]
        return polars.Series(label, known, dtype=dtype)
    if type_name in ("Date", "Datetime", "Duration"):
        zone = getattr(column.dtype, "tz", None)
        naive = column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        stamps = polars.Series(label, naive.to_numpy())
        if type_name == "Date":
            return stamps.cast(polars.Date)
        return stamps if zone is None else stamps.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    series = polars.Series(label, values)
    if type_name.endswith("with NaN"):
        return series
    series, dtype = series.fill_nan(None), getattr(polars, type_name)
    if type_name == "Decimal":
        return series
    narrow = series.cast(dtype, strict=False)  # the column's own type, if it represents these numbers exactly
    return narrow if narrow.cast(polars.Float64).equals(series) else series
