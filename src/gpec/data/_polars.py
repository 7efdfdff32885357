"""polars frames, by polars' own methods: it is not imported before there is one, and pyarrow is not needed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd

from gpec.errors import InputError, MissingExtraError
from gpec.typing import BoolArray

__all__ = ["from_polars", "to_polars"]

_NOT_A_DATE = np.iinfo(np.int64).min


def from_polars(frame: Any, name: str) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The same columns in pandas, and the word for each one's type; null is None, NaN or NaT."""
    columns = {label: _column(frame.get_column(label), label, name) for label in frame.columns}
    return pd.DataFrame(columns), tuple(_word(frame.schema[label], frame.get_column(label)) for label in frame.columns)


def to_polars(frame: pd.DataFrame, words: tuple[str, ...]) -> Any:
    """The frame of polars that :func:`from_polars` would read as ``frame``."""
    try:
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("The rows given to fit were a polars DataFrame: pip install polars.") from error
    return polars.DataFrame(
        [
            _series(polars, str(label), frame.iloc[:, j], word)
            for j, (label, word) in enumerate(zip(frame.columns, words, strict=True))
        ]
    )


def _word(dtype: Any, series: Any) -> str:
    word = str(dtype.base_type().__name__)
    holds_nan = dtype.is_float() and series.null_count() == 0 and series.is_nan().any()
    return f"{word} with NaN" if holds_nan else word


def _column(series: Any, label: str, name: str) -> Any:
    dtype = series.dtype
    word = dtype.base_type().__name__
    if dtype.is_numeric():
        return series.cast(importlib.import_module("polars").Float64).to_numpy(writable=True)
    if word in ("Categorical", "Enum"):
        values = series.to_list()
        known = dtype.categories.to_list() if word == "Enum" else sorted({v for v in values if v is not None})
        return pd.Categorical(values, categories=pd.Index(known, dtype=object))
    if word == "Date":
        return _dates(series.cast(importlib.import_module("polars").Datetime("us")), "M8[us]")
    if word == "Datetime":
        stamps = _dates(series, f"M8[{dtype.time_unit}]")
        zone = dtype.time_zone
        return stamps if zone is None else pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(zone)
    if word == "Duration":
        return _dates(series, f"m8[{dtype.time_unit}]")
    if word == "Boolean" and series.null_count() == 0:
        return series.to_numpy()
    if word in ("String", "Boolean", "Null"):
        return pd.Series(series.to_list(), dtype=object)
    raise InputError(f"{name} column '{label}' is of the polars type {dtype}, which is neither number, text nor date.")


def _dates(series: Any, dtype: str) -> Any:
    return series.to_physical().fill_null(_NOT_A_DATE).to_numpy(writable=True).view(dtype)


def _series(polars: Any, label: str, column: pd.Series[Any], word: str) -> Any:
    absent = column.isna().to_numpy()
    if word in ("String", "Boolean", "Null", "Categorical", "Enum"):
        dtype = getattr(polars, word)
        if word == "Enum":
            dtype = polars.Enum(column.cat.categories.to_list())
        return polars.Series(label, _or_none(column, absent), dtype=dtype)
    if word in ("Date", "Datetime", "Duration"):
        zone = getattr(column.dtype, "tz", None)
        naive = column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
        stamps = polars.Series(label, naive.to_numpy())
        if word == "Date":
            return stamps.cast(polars.Date)
        return stamps if zone is None else stamps.dt.replace_time_zone("UTC").dt.convert_time_zone(str(zone))
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    series = polars.Series(label, values)
    if word.endswith("with NaN"):
        return series
    series, dtype = series.fill_nan(None), getattr(polars, word)
    if word == "Decimal":
        return series
    narrow = series.cast(dtype, strict=False)  # the column's own type, if it holds these numbers
    return narrow if narrow.cast(polars.Float64).equals(series) else series


def _or_none(column: pd.Series[Any], absent: BoolArray) -> list[Any]:
    return [None if gone else value for value, gone in zip(column.tolist(), absent.tolist(), strict=True)]
