"""Columns of user tables: detection of categories, conversion to numbers, equality of values."""

from __future__ import annotations

import decimal
import numbers as number_types
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.data._dates import is_date
from gpec.data._labels import column_of
from gpec.errors import InputError
from gpec.typing import BoolArray, FloatArray

_NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal"}  # pandas' names of inferred types
_DATES = {"date", "datetime", "datetime64", "timedelta", "timedelta64"}

# Python objects that mark a missing value, by their text.
MARKERS: dict[str, Any] = {"None": None, "nan": float("nan"), "<NA>": pd.NA, "NaT": pd.NaT}


def same_values(A: Any, B: Any) -> BoolArray:
    """Whether the elements of two arrays are equal; two missing values are equal."""
    A, B = np.broadcast_arrays(np.asarray(A), np.asarray(B))
    if A.dtype.kind in "fiub" and B.dtype.kind in "fiub":
        return np.asarray((A == B) | ((A != A) & (B != B)), dtype=bool)
    missing_a, missing_b = pd.isna(A), pd.isna(B)
    same = np.asarray(missing_a & missing_b, dtype=bool)
    known = ~(missing_a | missing_b)
    dates = A.dtype.kind == B.dtype.kind and A.dtype.kind in "mM"
    same[known] = A[known] == B[known] if dates else A[known].astype(object) == B[known].astype(object)
    return same


def numbers(column: Any, column_name: str, name: str) -> FloatArray:
    """A column of numbers as floats, with missing values as NaN. Text raises, even if it looks like a number."""
    if is_date(column.dtype):
        raise InputError(f"{name} column '{column_name}' holds dates ({column.dtype}), where fit had numbers.")
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.kind in "mM":
        raise InputError(
            f"{name} column '{column_name}' holds dates of the type {column.dtype}; convert it to dates of pandas: "
            ".astype('datetime64[us]') or 'timedelta64[us]'."
        )
    if pd.api.types.is_complex_dtype(column.dtype):
        raise InputError(f"{name} column '{column_name}' has complex numbers; only real numbers can be explained.")
    if isinstance(column, pd.Series) and pd.api.types.is_numeric_dtype(column.dtype):
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    values = np.asarray(column)
    if values.dtype.kind in "fiub":
        return values.astype(np.float64)
    values = values.astype(object)
    absent = np.asarray(pd.isna(values), dtype=bool)
    result = np.full(len(values), np.nan)
    for row in np.flatnonzero(~absent).tolist():
        value = values[row]
        try:
            if not isinstance(value, (number_types.Real, decimal.Decimal, np.bool_)):
                raise TypeError(f"{value!r} has the type {type(value).__name__}")
            result[row] = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{name} column '{column_name}' is not numeric in row {row} ({error}); convert it to numbers or, if it "
                "holds categories, fit a pandas DataFrame or name it in categorical_features."
            ).at(f" in row {row}") from error
    return result


def as_series(column: Any) -> pd.Series[Any]:
    """A column as a Series; objects stay objects."""
    return column if isinstance(column, pd.Series) else pd.Series(column, dtype=column.dtype)


def is_nullable(dtype: Any) -> bool:
    """Whether numbers can be converted to this type of pandas or Arrow, whose missing values are not NaN."""
    return hasattr(dtype, "numpy_dtype") and str(dtype) != "null[pyarrow]"


def nullable(values: FloatArray, dtype: Any) -> Any:
    """Floats as a nullable type of pandas: the column's own if it represents them exactly, else floats."""
    absent = np.isnan(values)
    filled = np.where(absent, 0.0, values)
    with np.errstate(all="ignore"):
        exact = (filled.astype(dtype.numpy_dtype).astype(np.float64) == filled).all()
    wide = "double[pyarrow]" if isinstance(dtype, pd.ArrowDtype) else "Float64"
    floats: Any = pd.array(np.where(absent, np.nan, values), dtype="Float64")
    return floats.astype(dtype if exact else wide)


def sorted_unique(column: pd.Series[Any], column_name: str) -> npt.NDArray[Any]:
    """The distinct values, sorted, without missing values."""
    try:
        values = column.dropna().unique()
        "".join(value for value in values if isinstance(value, str)).encode()  # Arrow refuses other text, pandas not
        index = pd.Index(values)
    except (TypeError, UnicodeEncodeError) as error:
        raise not_a_category("X", column_name, error) from error
    try:
        return np.asarray(index.sort_values())
    except TypeError:  # values of mixed types cannot be compared
        return np.asarray(sorted(values, key=lambda value: (type(value).__name__, str(value))), dtype=object)


def not_a_category(name: str, column_name: str, error: TypeError | UnicodeEncodeError) -> InputError:
    if isinstance(error, UnicodeEncodeError):
        return InputError(f"{name} column '{column_name}' has text that is not UTF-8 ({error}); replace those letters.")
    return InputError(
        f"{name} column '{column_name}' has values that cannot be categories, such as lists or dictionaries ({error}); "
        "make a column of numbers or texts from each of their parts."
    )


def marker_of(column: pd.Series[Any]) -> str:
    """The text of the first missing value in a column of objects, a key of ``MARKERS``."""
    absent = np.flatnonzero(column.isna().to_numpy())
    word = str(column.iloc[int(absent[0])]) if len(absent) else "nan"
    return word if word in MARKERS else "nan"


def categorical_columns(columns: Sequence[Any], names: tuple[str, ...], chosen: Any, *, is_frame: bool) -> list[int]:
    """Indices of the categorical columns: those chosen, and in a DataFrame those that are not numbers."""
    automatic = [j for j, column in enumerate(columns) if is_frame and _is_category(column)]
    named: list[int] = []
    if isinstance(chosen, str):
        if chosen != "auto":
            raise InputError(
                f"categorical_features={chosen!r} is not 'auto', None or a list of columns; for one column write "
                f"[{chosen!r}]."
            )
    elif chosen is not None:
        wanted = np.asarray(list(chosen), dtype=object)
        is_mask = wanted.shape == (len(names),) and all(isinstance(value, (bool, np.bool_)) for value in wanted)
        labels = np.flatnonzero(wanted) if is_mask else wanted
        named = [column_of("categorical_features", label, names) for label in labels]
    elif automatic:
        raise InputError(
            f"X column '{names[automatic[0]]}' is not numeric but categorical_features=None; use 'auto' or name it."
        )
    for j in named:
        if is_date(columns[j].dtype):
            raise InputError(
                f"categorical_features has '{names[j]}', a column of dates, which are treated as numbers; leave it "
                "out, or convert it to text."
            )
    for j in (j for j in automatic if j not in named):
        if columns[j].dtype == object and pd.api.types.infer_dtype(columns[j], skipna=True) in _DATES:
            raise InputError(
                f"X column '{names[j]}' holds dates as Python objects; convert it to a column of dates with "
                "pd.to_datetime or pd.to_timedelta, or name it in categorical_features."
            )
    return sorted({*named, *automatic})


def _is_category(column: pd.Series[Any]) -> bool:
    if pd.api.types.is_object_dtype(column.dtype):
        return pd.api.types.infer_dtype(column, skipna=True) not in _NUMBERS
    return bool(
        isinstance(column.dtype, pd.CategoricalDtype)
        or pd.api.types.is_bool_dtype(column.dtype)
        or pd.api.types.is_string_dtype(column.dtype)
    )
