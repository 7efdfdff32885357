"""Columns as users hand them over: what is refused, which are categories, how they become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from gpec.errors import InputError, ParameterTypeError
from gpec.typing import FloatArray

__all__ = ["categorical_columns", "flattened", "missing_value", "numbers", "refuse_container", "sorted_unique"]


def refuse_container(X: Any, name: str) -> None:
    if sparse.issparse(X):
        raise ParameterTypeError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
    if X is None or isinstance(X, (str, bytes, dict)):
        raise ParameterTypeError(f"{name} must be a table of rows (array or DataFrame), got {type(X).__name__}.")


def flattened(X: Any, name: str) -> tuple[npt.NDArray[Any], tuple[int, ...] | None]:
    """Rows as vectors, and the shape of one row if it is an image: (height, width) or (channels, height, width)."""
    if np.ma.is_masked(X):
        raise InputError(f"{name} has masked values; impute or drop missing values first.")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"{name} cannot be read as a table: {error}.") from error
    if array.ndim not in (2, 3, 4):
        remedy = f"; for a single row pass {name}.reshape(1, -1)" if array.ndim == 1 else ""
        raise InputError(
            f"{name} must have 2 dimensions (rows, features), or 3 or 4 for images, got shape {array.shape}{remedy}."
        )
    if np.iscomplexobj(array):
        raise InputError(f"{name} has complex numbers; only real numbers can be explained.")
    if array.dtype.kind in "mM":
        raise InputError(f"{name} holds dates (dtype {array.dtype}); convert them to numbers first.")
    return (array, None) if array.ndim == 2 else (array.reshape(len(array), -1), array.shape[1:])


def numbers(column: Any, column_name: str, name: str) -> FloatArray:
    if isinstance(column, pd.Series):
        if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
            raise InputError(f"{name} column '{column_name}' holds dates; convert it to numbers first.")
        if pd.api.types.is_complex_dtype(column.dtype):
            raise InputError(f"{name} column '{column_name}' has complex numbers; only real numbers can be explained.")
        column = column.to_numpy(dtype=np.float64, na_value=np.nan) if _is_number(column) else column.to_numpy()
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} column '{column_name}' is not numeric ({error}); pass a pandas DataFrame so that text columns are "
            "treated as categories, or name it in categorical_features."
        ) from error


def _is_number(column: pd.Series[Any]) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


def sorted_unique(column: pd.Series[Any]) -> npt.NDArray[Any]:
    values = column.unique()
    try:
        return np.asarray(pd.Index(values).sort_values())
    except TypeError:  # mixed types have no order of their own
        return np.asarray(sorted(values, key=lambda value: (type(value).__name__, str(value))), dtype=object)


def missing_value(name: str, row: int, column_name: str) -> InputError:
    return InputError(
        f"{name} has a missing value in row {row}, column '{column_name}'; the boundary between two rows is undefined "
        "there: impute or drop missing values first."
    )


def categorical_columns(
    columns: Sequence[pd.Series[Any]], names: tuple[str, ...], chosen: Any, *, is_frame: bool
) -> list[int]:
    automatic = [
        j
        for j, column in enumerate(columns)
        if is_frame
        and (
            isinstance(column.dtype, pd.CategoricalDtype)
            or pd.api.types.is_bool_dtype(column.dtype)
            or pd.api.types.is_object_dtype(column.dtype)
            or pd.api.types.is_string_dtype(column.dtype)
        )
    ]
    if isinstance(chosen, str):
        if chosen == "auto":
            return automatic
        raise InputError(
            f"categorical_features={chosen!r} is not 'auto', None or a list of columns; for one column write "
            f"[{chosen!r}]."
        )
    if chosen is None:
        if automatic:
            raise InputError(
                f"X column '{names[automatic[0]]}' is not numeric but categorical_features=None; use 'auto' or name it."
            )
        return []
    wanted = np.asarray(list(chosen), dtype=object)
    if wanted.shape == (len(columns),) and all(isinstance(value, (bool, np.bool_)) for value in wanted):
        indices = [j for j, value in enumerate(wanted) if value]
    else:
        indices = [_column_index(value, names) for value in wanted]
    return sorted(set(indices) | set(automatic))


def _column_index(value: Any, names: tuple[str, ...]) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -len(names) <= int(value) < len(names):
            raise InputError(f"categorical_features has column {value}, but X has {len(names)} columns.")
        return int(value) % len(names)
    if str(value) in names:
        return names.index(str(value))
    raise InputError(f"categorical_features has {value!r}, which is not a column of X; columns are {list(names)}.")
