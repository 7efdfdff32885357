"""Lookup of columns by label, position or name."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from gpec.data.schema import Schema
from gpec.errors import InputError

__all__ = ["column_of"]


def column_of(name: str, value: Any, schema: Schema) -> int:
    """The index of a column given by its label, else its position, else its name."""
    place = {label: j for j, label in enumerate(schema.labels or ())}
    if isinstance(value, Hashable) and value in place:
        return place[value]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -schema.n_features <= value < schema.n_features:
            raise InputError(f"{name} has column {value}, but X has {schema.n_features} columns.")
        return int(value) % schema.n_features
    if isinstance(value, str) and value in schema.names:
        return schema.names.index(value)
    raise InputError(f"{name} has {value!r}, which is not a column of X; columns are {list(schema.names)}.")
