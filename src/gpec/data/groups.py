"""Groups of features that get one attribution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpec._numbers import value_text
from gpec.data._labels import column_of
from gpec.data.schema import Schema
from gpec.errors import InputError, ParameterTypeError
from gpec.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Groups:
    """The explained features: groups of columns, and single columns that are in no group.

    A group has the position of its first column.

    Examples
    --------
    >>> import pandas as pd
    >>> from gpec.data import Groups, Schema
    >>> schema, Z = Schema.learn(pd.DataFrame({"street": [1.0, 2.0], "age": [30.0, 40.0], "city": [5.0, 6.0]}))
    >>> groups = Groups.of({"address": ["street", "city"]}, schema)
    >>> groups.names
    ('address', 'age')
    """

    names: tuple[str, ...]
    members: tuple[IntArray, ...]

    @classmethod
    def of(cls, groups: Any, schema: Schema) -> Groups:
        """From ``{"address": ["street", "city"]}``; None for no groups."""
        if groups is None:
            return cls(tuple(schema.names), tuple(np.array([j]) for j in range(schema.n_features)))
        if not isinstance(groups, Mapping):
            raise ParameterTypeError(
                f"groups={groups!r} must be a dict of names and columns, such as {{'address': ['street', 'city']}}."
            )
        taken: dict[int, str] = {}
        by_first: dict[int, tuple[str, IntArray]] = {}
        for name, columns in groups.items():
            if isinstance(columns, str) or not isinstance(columns, Iterable):
                raise ParameterTypeError(f"groups[{name!r}]={columns!r} must be a list of columns.")
            places = sorted({column_of(f"groups[{name!r}]", column, schema.names, schema.labels) for column in columns})
            if not places:
                raise InputError(f"groups[{name!r}] is empty; give at least one column.")
            for j in places:
                if j in taken:
                    raise InputError(
                        f"groups {taken[j]!r} and {name!r} overlap in the column '{schema.names[j]}'; a column can be "
                        "in one group only."
                    )
                taken[j] = name
            by_first[places[0]] = (str(name), np.array(places))
        for j in set(range(schema.n_features)) - set(taken):
            by_first[j] = (schema.names[j], np.array([j]))
        ordered = [by_first[j] for j in sorted(by_first)]
        names = tuple(name for name, _ in ordered)
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"groups names {name!r}, which is also a column outside of the group; rename it.")
        return cls(names, tuple(columns for _, columns in ordered))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def single(self) -> bool:
        """Whether no group has more than one column."""
        return all(len(columns) == 1 for columns in self.members)

    def add(self, values: FloatArray) -> FloatArray:
        """``(n, columns, ...)`` summed within groups."""
        if self.single:
            return values
        return np.stack([values[:, columns].sum(axis=1) for columns in self.members], axis=1)

    def coordinates(self, schema: Schema) -> tuple[IntArray, ...]:
        """The columns of :meth:`Schema.embed` that belong to each group."""
        of_columns = schema.coordinates
        return tuple(np.concatenate([of_columns[j] for j in columns]) for columns in self.members)

    def data(self, Z: FloatArray, schema: Schema) -> Any:
        """The explained values, one column for each group: values, or for a group text such as "street=3, city=5"."""
        if self.single:
            return Z if schema.plain else np.asarray(schema.decode(Z), dtype=object)
        shown = np.asarray(schema.decode(Z), dtype=object).reshape(len(Z), schema.n_features)  # images are flat here
        table = np.empty((len(Z), len(self)), dtype=object)
        for i, columns in enumerate(self.members):
            if len(columns) == 1:
                table[:, i] = shown[:, columns[0]]
            else:
                table[:, i] = [
                    ", ".join(f"{schema.names[j]}={value_text(row[j], digits=4)}" for j in columns) for row in shown
                ]
        return table
