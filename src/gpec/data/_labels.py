"""Lookup of columns by label, position or name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from gpec.errors import InputError


def column_of(argument: str, value: Any, names: tuple[str, ...], labels: tuple[Any, ...] | None = None) -> int:
    """The index of a column given by its label, else its position, else its name."""
    place = {label: j for j, label in enumerate(labels or ())}
    if isinstance(value, Hashable) and value in place:
        return place[value]
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        if not -len(names) <= value < len(names):
            raise InputError(f"{argument} has column {value}, but X has {len(names)} columns.")
        return int(value) % len(names)
    if str(value) in names:
        return names.index(str(value))
    raise InputError(f"{argument} has {value!r}, which is not a column of X; columns are {list(names)}.")


def require_utf8(what: str, labels: Iterable[Any]) -> None:
    """Raise for the name of a column or row that no file can hold."""
    try:
        "".join(map(str, labels)).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"X has a {what} that is not UTF-8 text ({error}); rename it.") from error
