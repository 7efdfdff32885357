"""Categories and data types as numbers and strings, for files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

__all__ = ["dtype_of", "dtype_state", "index_of", "index_state"]


def index_state(values: pd.Index) -> Any:
    """Categories as a list; dates as their ticks, intervals as their ends."""
    if isinstance(values, pd.IntervalIndex):
        return {"left": index_state(values.left), "right": index_state(values.right), "closed": values.closed}
    if isinstance(values, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return values.asi8.tolist()
    return np.asarray(values).tolist()


def index_of(state: Any, dtype: Any) -> pd.Index:
    """The categories that gave ``state``."""
    kind = pd.api.types.pandas_dtype(dtype)
    if isinstance(kind, pd.IntervalDtype):
        left, right = (index_of(state[side], kind.subtype) for side in ("left", "right"))
        ends: Any = zip(left, right, strict=True)
        return pd.Index(pd.arrays.IntervalArray.from_tuples(list(ends), closed=state["closed"]), dtype=kind)
    index: pd.Index = pd.Index(state, dtype=kind)
    return index


def dtype_state(dtype: Any) -> dict[str, Any]:
    """A data type as words."""
    if isinstance(dtype, pd.CategoricalDtype):
        return {"values": str(dtype.categories.dtype), "ordered": bool(dtype.ordered)}
    return {"values": str(dtype)}


def dtype_of(state: dict[str, Any], categories: pd.Index | None) -> Any:
    """The data type that gave ``state``."""
    if "ordered" in state:
        return pd.CategoricalDtype(categories, ordered=state["ordered"])
    return pd.api.types.pandas_dtype(state["values"])
