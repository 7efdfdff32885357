"""Rows as tensors for an ONNX file or a model server: one tensor for all columns, or one for each column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.errors import InputError


@dataclass(frozen=True)
class TensorSpec:
    """Name, data type and number of axes of a tensor; ``width`` is the size of its second axis where that is fixed."""

    name: str
    dtype: npt.DTypeLike | None  # object for text; None if it is not an array of numbers or text
    rank: int
    width: int | None = None


def columns_of(inputs: Sequence[TensorSpec]) -> tuple[tuple[str, ...] | None, int | None]:
    """Names and number of the columns that a model with these inputs takes; None if unknown."""
    if len(inputs) > 1:
        return tuple(spec.name for spec in inputs), len(inputs)
    return None, inputs[0].width if inputs and inputs[0].rank == 2 else None


def tensors(rows: Any, inputs: Sequence[TensorSpec]) -> Iterator[tuple[TensorSpec, npt.NDArray[Any]]]:
    """The rows as the tensors of ``inputs``; columns are selected by name, or by position if rows have no names."""
    frame = _as_frame(rows)
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    named = {str(name): j for j, name in enumerate(frame.columns)}
    for place, spec in enumerate(inputs):
        chosen = columns
        if len(inputs) > 1:
            j = named.get(spec.name, place if isinstance(rows, np.ndarray) else -1)
            if not 0 <= j < len(columns):
                raise InputError(f"The rows have no column {spec.name!r}, which the model takes.")
            chosen = [columns[j]]
        values = _cast(chosen, spec)
        yield spec, values if spec.rank != 1 else values[:, 0]


def choose_output(outputs: Sequence[TensorSpec], wanted: str | None, where: str) -> str | None:
    """The name of the output that holds the probabilities or values; None if the outputs are not known."""
    names = [spec.name for spec in outputs]
    if wanted is not None:
        if names and wanted not in names:
            raise InputError(f"{where} has no output {wanted!r}; its outputs are {names}.")
        return wanted
    floats = [spec.name for spec in outputs if spec.dtype is None or np.dtype(spec.dtype).kind == "f"]
    likely = [name for name in floats if "prob" in name.lower()]
    chosen = likely or floats
    if names and not chosen:
        raise InputError(
            f"{where} has the outputs {names}, but none holds probabilities or values; name one that does "
            "(--output-name)."
        )
    if len(chosen) > 1:
        raise InputError(
            f"{where} has the outputs {chosen}; name the one with the probabilities or values (--output-name)."
        )
    return chosen[0] if chosen else None


def _as_frame(rows: Any) -> pd.DataFrame:
    if isinstance(rows, pd.DataFrame):
        return rows
    if hasattr(rows, "to_pandas"):
        return pd.DataFrame(rows.to_pandas())
    return pd.DataFrame(np.asarray(rows))


def _cast(columns: list[pd.Series[Any]], spec: TensorSpec) -> npt.NDArray[Any]:
    """Columns as one array with the type of the tensor. Numbers are rounded for tensors of integers."""
    dtype = np.dtype(object if spec.dtype is None else spec.dtype)
    if dtype.kind == "O":
        return np.column_stack([_texts(column) for column in columns])
    try:
        numbers = np.column_stack([column.to_numpy(dtype=np.float64, na_value=np.nan) for column in columns])
    except (TypeError, ValueError) as error:
        text = [str(column.name) for column in columns if not pd.api.types.is_numeric_dtype(column.dtype)]
        raise InputError(f"The model takes numbers, and column {text[0] if text else '?'!r} holds text.") from error
    if dtype.kind in "iu":
        if not np.isfinite(numbers).all():
            raise InputError(f"The model takes whole numbers as {spec.name!r}, which cannot be missing.")
        numbers = np.rint(numbers)
    return numbers.astype(dtype)


def _texts(column: pd.Series[Any]) -> npt.NDArray[Any]:
    """A column as strings; a missing value becomes an empty string."""
    return column.astype(object).map(str, na_action="ignore").where(column.notna(), "").to_numpy(dtype=object)
