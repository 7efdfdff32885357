"""Column labels, categories and data types as numbers and texts, for files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gpec.runtime.state import Stored


def _index_state(values: pd.Index) -> Any:
    """Categories as a list; dates as their ticks, intervals as their ends."""
    if isinstance(values, pd.IntervalIndex):
        return {"left": _index_state(values.left), "right": _index_state(values.right), "closed": values.closed}
    if isinstance(values, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return values.asi8.tolist()
    return np.asarray(values).tolist()


def _index_of(state: Any, dtype: Any) -> pd.Index:
    """The categories that gave ``state``."""
    kind = pd.api.types.pandas_dtype(dtype)
    if isinstance(kind, pd.IntervalDtype):
        left, right = (_index_of(state[side], kind.subtype) for side in ("left", "right"))
        ends: Any = zip(left, right, strict=True)
        return pd.Index(pd.arrays.IntervalArray.from_tuples(list(ends), closed=state["closed"]), dtype=kind)
    values = [_hashable(value) for value in state]
    index: pd.Index = pd.Index(values, dtype=kind, tupleize_cols=False)
    return index


def _hashable(value: Any) -> Any:
    """Tuples, such as the labels of a MultiIndex: JSON knows lists only."""
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _dtype_state(dtype: Any) -> dict[str, Any]:
    """A data type as words."""
    if isinstance(dtype, pd.CategoricalDtype):
        return {"values": str(dtype.categories.dtype), "ordered": bool(dtype.ordered)}
    return {"values": str(dtype)}


def _dtype_of(kind: dict[str, Any], categories: Any) -> Any:
    """The data type that gave ``kind``."""
    if "ordered" in kind:
        return pd.CategoricalDtype(_index_of(categories, kind["values"]), ordered=kind["ordered"])
    return pd.api.types.pandas_dtype(kind["values"])


LABELS = Stored(lambda labels: labels, lambda labels, state: labels and tuple(map(_hashable, labels)))
CATEGORIES = Stored(
    lambda known: {j: _index_state(values) for j, values in known.items()},
    lambda known, state: {int(j): _index_of(values, state["dtypes"][j]["values"]) for j, values in known.items()},
)
DTYPES = Stored(
    lambda dtypes: {j: _dtype_state(dtype) for j, dtype in dtypes.items()},
    lambda dtypes, state: {int(j): _dtype_of(kind, state["categories"].get(j)) for j, kind in dtypes.items()},
)
