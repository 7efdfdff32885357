"""What every kind of similar rows must do, and what several of them use."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from gpec.data import Schema
from gpec.errors import CorruptFileError, InputError
from gpec.typing import FloatArray

__all__ = ["Neighbourhood", "Similar", "column_of", "contents_of", "listed", "uniform"]


class Neighbourhood(ABC):
    """What similar rows are for one table: made by :meth:`Similar.learn`, never changed.

    A subclass has a ``kind``, the word by which files name it.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Neighbourhood]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):
            Neighbourhood._kinds[cls.kind] = cls

    @abstractmethod
    def rows(self, Z: FloatArray) -> FloatArray:
        """The similar rows ``(n, K, d)`` of encoded rows ``(n, d)``, encoded too."""

    @property
    @abstractmethod
    def phrase(self) -> str:
        """What a similar row is, in words that end the sentence "a similar row is ..."."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All there is to know besides the schema, as arrays, numbers and strings; ``"kind"`` is among them."""

    @classmethod
    @abstractmethod
    def restore(cls, state: dict[str, Any], schema: Schema) -> Neighbourhood:
        """The neighbourhood of this class that gave ``state``."""

    @staticmethod
    def from_state(state: dict[str, Any], schema: Schema) -> Neighbourhood:
        """The neighbourhood that gave ``state``, of whichever kind."""
        if state["kind"] not in Neighbourhood._kinds:
            raise CorruptFileError(
                f"The file holds similar rows of the unknown kind {state['kind']!r}; import the module that defines it."
            )
        return Neighbourhood._kinds[state["kind"]].restore(state, schema)


class Similar(BaseEstimator, ABC):
    """Base of what ``GPEC(similar=...)`` takes: implement :meth:`check` and :meth:`learn`."""

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Refuse parameters that can never be used with these columns."""

    @abstractmethod
    def learn(self, schema: Schema, Z: FloatArray, seed: int) -> Neighbourhood:
        """Get to know the encoded rows ``Z`` given to ``fit``."""


def listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def contents_of(Z: FloatArray) -> list[bytes]:
    """For each row the same bytes wherever it comes from: there is one zero and one missing value."""
    return [row.tobytes() for row in np.where(np.isnan(Z), np.nan, Z + 0.0)]


def uniform(seed: int, contents: list[bytes], count: int) -> FloatArray:
    """For each content ``count`` numbers between 0 and 1 that depend on it and on the seed.

    Hashed, because a generator for each of many thousand pairs of rows would take ten times as long.
    """
    start = seed.to_bytes(8, "little")
    drawn = b"".join(hashlib.shake_128(start + content).digest(8 * count) for content in contents)
    bits = np.frombuffer(drawn, dtype="<u8").reshape(len(contents), count)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def column_of(name: str, value: Any, schema: Schema) -> int:
    """The index of a column: its own label, else its position, else its name."""
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
