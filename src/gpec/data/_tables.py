"""Reading of user tables into columns, with errors for what is not supported."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from gpec.data._polars import from_polars
from gpec.errors import InputError, ParameterTypeError


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a table.

    ``columns`` are pandas Series, or arrays if the columns have no labels. ``shape`` is the shape of one row if rows
    are images. ``polars`` are the names of the types of a polars DataFrame.
    """

    columns: tuple[Any, ...]
    labels: tuple[Any, ...] | None
    n_rows: int
    shape: tuple[int, ...] | None = None
    polars: tuple[str, ...] | None = None

    def aligned(self, labels: tuple[Any, ...] | None, name: str) -> Table:
        """The columns in the order of ``labels``, if both have labels."""
        if labels is None or self.labels is None or self.labels == labels:
            return self
        place = {label: j for j, label in enumerate(self.labels)}
        missing = [str(label) for label in labels if label not in place]
        extra = [str(label) for label in self.labels if label not in labels]
        if missing or extra:
            raise InputError(
                f"{name} does not have the columns seen in fit (missing: {missing}, unexpected: {extra}); "
                "pass the same columns."
            )
        if len(self.labels) != len(labels):  # a duplicate label
            return self
        return replace(self, columns=tuple(self.columns[place[label]] for label in labels), labels=labels, polars=None)


def read_table(X: Any, name: str, labels: tuple[Any, ...] | None = None) -> Table:
    """The columns of ``X``. A Series is one row if its index has the ``labels`` of the columns seen in fit."""
    package = type(X).__module__.partition(".")[0]
    if sparse.issparse(X):  # first, as one class of sparse matrices is a dict
        raise ParameterTypeError(f"{name} is a sparse matrix; pass a dense array: {name}.toarray().")
    if X is None or isinstance(X, (str, bytes, dict)):
        raise ParameterTypeError(f"{name} must be a table of rows (array or DataFrame), got {type(X).__name__}.")
    if isinstance(X, pd.Series):
        X = _one_row(X, name, labels)
    if isinstance(X, pd.DataFrame):
        return _read_frame(X, name)
    if package == "polars":
        if type(X).__name__ == "LazyFrame":
            raise ParameterTypeError(f"{name} is a polars LazyFrame, which has no rows yet; pass {name}.collect().")
        if type(X).__name__ != "DataFrame":
            raise ParameterTypeError(f"{name} is a polars {type(X).__name__}; pass a DataFrame: {name}.to_frame().")
        frame, type_names = from_polars(X, name)
        return replace(_read_frame(frame, name), n_rows=X.height, polars=type_names)
    if package == "pyarrow" and hasattr(X, "to_pandas") and hasattr(X, "column_names"):
        return _read_frame(X.to_pandas(), name)
    if package in ("dask", "dask_expr"):
        raise ParameterTypeError(
            f"{name} is a Dask {type(X).__name__}, which only explain accepts; pass some of its rows: "
            f"{name}.sample(frac=0.01).compute(), or {name}[:10_000].compute() for an array."
        )
    named = ("columns", "__dataframe__", "__arrow_c_stream__", "__narwhals_dataframe__", "__narwhals_lazyframe__")
    if any(hasattr(X, attribute) for attribute in named):
        raise ParameterTypeError(
            f"{name} is a {package} {type(X).__name__}, whose columns cannot be read by name; pass a pandas or polars "
            "DataFrame or a pyarrow Table."
        )
    array, shape = _flattened(_detached(X, name), name)
    return Table(tuple(array[:, j] for j in range(array.shape[1])), None, len(array), shape)


def _read_frame(X: pd.DataFrame, name: str) -> Table:
    columns = tuple(X.iloc[:, j] for j in range(X.shape[1]))
    for column in columns:
        if isinstance(column.dtype, pd.SparseDtype):
            raise ParameterTypeError(
                f"{name} column '{column.name}' is sparse; pass a dense DataFrame: {name}.sparse.to_dense()."
            )
    return Table(columns, tuple(X.columns), len(X))


def _one_row(X: pd.Series[Any], name: str, labels: tuple[Any, ...] | None) -> pd.DataFrame:
    if labels is None or len(X) != len(labels) or set(X.index) != set(labels):
        raise ParameterTypeError(
            f"{name} is a Series and its index is not the columns seen in fit; for one column pass {name}.to_frame(), "
            f"for one row {name}.to_frame().T."
        )
    return pd.DataFrame({j: [value] for j, value in enumerate(X.tolist())}).set_axis(X.index, axis=1)


def _detached(X: Any, name: str) -> Any:
    """The values of a torch tensor, on any device, with or without a gradient."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)  # another thread may be importing it
    if torch is None or kind is None or not isinstance(X, kind):
        return X
    if X.layout != torch.strided:
        raise ParameterTypeError(f"{name} is a sparse tensor; pass a dense one: {name}.to_dense().")
    return (X.double() if X.is_floating_point() else X).numpy(force=True)


def _flattened(X: Any, name: str) -> tuple[npt.NDArray[Any], tuple[int, ...] | None]:
    """Rows as vectors, and the shape of one row if it is an image: (height, width) or (channels, height, width)."""
    if np.ma.is_masked(X):
        raise InputError(
            f"{name} has masked values; if the model supports missing values, pass {name}.filled(np.nan), else impute."
        )
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InputError(f"{name} cannot be read as a table: {error}.") from error
    if array.dtype.names is not None:
        raise InputError(f"{name} is an array with named fields; pass pd.DataFrame({name}).")
    if array.ndim not in (2, 3, 4):
        remedy = f"; for a single row pass {name}.reshape(1, -1)" if array.ndim == 1 else ""
        raise InputError(
            f"{name} must have 2 dimensions (rows, features), or 3 or 4 for images, got shape {array.shape}{remedy}."
        )
    if np.iscomplexobj(array):
        raise InputError(f"{name} has complex numbers; only real numbers can be explained.")
    if array.ndim == 2:
        return array, None
    return array.reshape(len(array), math.prod(array.shape[1:])), array.shape[1:]
