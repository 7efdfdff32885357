"""How the user's rows look, and how far apart two of them are.

A :class:`Schema` is learned once from the rows given to ``fit``. Inside the package every row is a float64 vector with
one entry for each original column ("encoded": numbers as they are, categories as integer codes). ``decode`` gives the
user's model the kind of rows it knows; ``embed`` maps encoded rows into the space in which all distances are measured:
standardised numbers, and one 0/1 coordinate for each category.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gpec.data._columns import categorical_columns, flattened, missing_value, numbers, refuse_container, sorted_unique
from gpec.errors import InputError
from gpec.typing import FloatArray, IntArray

__all__ = ["Schema", "column_moments"]

# Squared distances between rows beyond this would overflow.
_LARGEST = 1e151


@dataclass(frozen=True, eq=False)
class Schema:
    """Columns of the user's rows: names, categories and scales."""

    names: tuple[str, ...]
    labels: tuple[Any, ...] | None  # column labels of the DataFrame, None for arrays
    categories: dict[int, pd.Index]  # categorical column -> its categories
    dtypes: dict[int, Any]  # categorical column -> pandas dtype
    center: FloatArray
    scale: FloatArray  # for a categorical column: distance between two categories
    shape: tuple[int, ...] | None = None  # of one image, where rows are images and not vectors

    @classmethod
    def learn(
        cls, X: Any, *, categorical_features: Any = "auto", standardize: bool = True
    ) -> tuple[Schema, FloatArray]:
        """Learn the columns of ``X``; also return ``X`` encoded."""
        refuse_container(X, "X")
        if isinstance(X, pd.DataFrame):
            labels, shape = tuple(X.columns), None
            names = tuple(str(label) for label in labels)
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(f"X has several columns named {twice!r}; rename them so that each has its own name.")
            columns = [X.iloc[:, j] for j in range(X.shape[1])]
        else:
            array, shape = flattened(X, "X")
            labels = None
            names = tuple(f"x{j}" for j in range(array.shape[1]))
            columns = [pd.Series(array[:, j]) for j in range(array.shape[1])]
        if not columns:
            raise InputError("X has 0 columns; at least 1 is needed.")
        chosen = categorical_columns(columns, names, categorical_features, is_frame=labels is not None)
        categories: dict[int, pd.Index] = {}
        dtypes: dict[int, Any] = {}
        for j in chosen:
            column = columns[j]
            if column.isna().any():
                raise missing_value("X", int(column.isna().to_numpy().argmax()), names[j])
            dtypes[j] = column.dtype
            if isinstance(column.dtype, pd.CategoricalDtype):
                categories[j] = column.cat.categories
            else:
                categories[j] = pd.Index(sorted_unique(column))
        d = len(names)
        schema = cls(names, labels, categories, dtypes, np.zeros(d), np.ones(d), shape)
        encoded = schema.encode(X)
        if standardize:
            center, scale = _standardize(encoded, categories)
            schema = replace(schema, center=center, scale=scale)
        schema.embed(encoded)  # refuses values whose distances would overflow
        return schema, encoded

    @property
    def n_features(self) -> int:
        return len(self.names)

    @property
    def categorical(self) -> IntArray:
        """Indices of the categorical columns."""
        return np.array(sorted(self.categories), dtype=np.int64)

    @property
    def continuous(self) -> IntArray:
        """Indices of the columns that are numbers."""
        return np.array([j for j in range(self.n_features) if j not in self.categories], dtype=np.int64)

    def encode(self, X: Any, name: str = "X") -> FloatArray:
        """Check rows given by the user and return them as a new float64 array."""
        refuse_container(X, name)
        if isinstance(X, pd.DataFrame):
            X = self._align(X, name)
            columns: list[Any] = [X.iloc[:, j] for j in range(X.shape[1])]
        else:
            array, shape = flattened(X, name)
            if shape is not None and shape != self.shape:
                expected = f"shape {self.shape}" if self.shape else f"{self.n_features} features"
                raise InputError(f"{name} has rows of shape {shape}, but {expected} is expected, as in fit.")
            columns = [array[:, j] for j in range(array.shape[1])]
        if len(columns) != self.n_features:
            raise InputError(
                f"{name} has {len(columns)} features, but {self.n_features} are expected, as in the rows given to fit."
            )
        n = len(X)
        if n == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        encoded = np.empty((n, self.n_features))
        for j, column in enumerate(columns):
            encoded[:, j] = (
                self._codes(column, j, name) if j in self.categories else numbers(column, self.names[j], name)
            )
        bad = ~np.isfinite(encoded)
        if bad.any():
            row, j = np.argwhere(bad)[0]
            if np.isnan(encoded[row, j]):
                raise missing_value(name, int(row), self.names[j])
            raise InputError(f"{name} is infinite in row {row}, column '{self.names[j]}'; replace or drop it.")
        return encoded

    def decode(self, Z: FloatArray) -> Any:
        """Encoded rows as the user's model knows them: an array, or a DataFrame with the original columns."""
        if self.labels is None:
            if self.shape is not None:
                return Z.reshape(len(Z), *self.shape).copy()
            if not self.categories:
                return Z.copy()
            values = [self._categories_of(Z[:, j], j) if j in self.categories else Z[:, j] for j in range(Z.shape[1])]
            numeric = all(np.asarray(v).dtype.kind in "fiub" for v in values)
            return np.column_stack([np.asarray(v, dtype=float if numeric else object) for v in values])
        columns: dict[int, Any] = {}
        for j in range(self.n_features):
            columns[j] = self._categories_of(Z[:, j], j) if j in self.categories else Z[:, j].copy()
        frame = pd.DataFrame(columns)
        frame.columns = pd.Index(self.labels)
        return frame

    def embed(self, Z: FloatArray, name: str = "X") -> FloatArray:
        """Encoded rows in the space of distances: standardised numbers, then 0/1 coordinates of the categories.

        Two different categories lie ``scale`` apart, whichever they are.
        """
        continuous = self.continuous
        with np.errstate(over="ignore"):
            parts = [(Z[:, continuous] - self.center[continuous]) / self.scale[continuous]]
        for j in self.categorical:
            one_hot = Z[:, [j]] == np.arange(len(self.categories[j]))
            parts.append(one_hot * (self.scale[j] / np.sqrt(2.0)))
        embedded = np.hstack(parts)
        bad = ~(np.abs(embedded) <= _LARGEST)
        if bad.any():
            row = int(np.argwhere(bad)[0, 0])
            raise InputError(
                f"{name} row {row} lies too far from the rest for distances in double precision; "
                "rescale the features or keep standardize=True."
            )
        return np.ascontiguousarray(embedded)

    @property
    def coordinates(self) -> tuple[IntArray, ...]:
        """The columns of :meth:`embed` that belong to each feature."""
        place = {int(j): np.array([k]) for k, j in enumerate(self.continuous)}
        start = len(place)
        for j in self.categorical.tolist():
            place[j] = np.arange(start, start + len(self.categories[j]))
            start += len(self.categories[j])
        return tuple(place[j] for j in range(self.n_features))

    def state(self) -> dict[str, Any]:
        """All there is to know, as arrays, numbers and strings."""
        return {
            "names": list(self.names),
            "labels": None if self.labels is None else list(self.labels),
            "categories": {str(j): np.asarray(values).tolist() for j, values in self.categories.items()},
            "dtypes": {str(j): _dtype_state(dtype) for j, dtype in self.dtypes.items()},
            "center": self.center,
            "scale": self.scale,
            "shape": None if self.shape is None else list(self.shape),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Schema:
        """The schema that gave ``state``."""
        categories, dtypes = {}, {}
        for key, values in state["categories"].items():
            kind = state["dtypes"][key]
            categories[int(key)] = pd.Index(values, dtype=kind["values"])
            dtypes[int(key)] = (
                pd.CategoricalDtype(categories[int(key)], ordered=kind["ordered"])
                if "ordered" in kind
                else pd.api.types.pandas_dtype(kind["values"])
            )
        labels = state["labels"]
        if labels is not None:
            # the labels of a MultiIndex are tuples, which JSON gives back as lists
            labels = tuple(tuple(label) if isinstance(label, list) else label for label in labels)
        shape = None if state["shape"] is None else tuple(state["shape"])
        return cls(tuple(state["names"]), labels, categories, dtypes, state["center"], state["scale"], shape)

    def _align(self, X: pd.DataFrame, name: str) -> pd.DataFrame:
        if self.labels is None or tuple(X.columns) == self.labels:
            return X
        missing = [str(c) for c in self.labels if c not in X.columns]
        extra = [str(c) for c in X.columns if c not in self.labels]
        if missing or extra:
            raise InputError(
                f"{name} does not have the columns seen in fit (missing: {missing}, unexpected: {extra}); "
                "pass the same columns."
            )
        return X[list(self.labels)]

    def _codes(self, column: Any, j: int, name: str) -> FloatArray:
        categories = self.categories[j]
        series = pd.Series(column)
        absent = series.isna().to_numpy()
        if absent.any():
            raise missing_value(name, int(absent.argmax()), self.names[j])
        codes = categories.get_indexer(pd.Index(series.to_numpy()))
        unknown = codes < 0
        if unknown.any():
            row = int(unknown.argmax())
            raise InputError(
                f"{name} has the category {series.tolist()[row]!r} in row {row}, column '{self.names[j]}', which did "
                "not occur in fit; fit again with rows that contain it."
            )
        return np.asarray(codes, dtype=np.float64)

    def _categories_of(self, codes: FloatArray, j: int) -> Any:
        indices = np.rint(codes).astype(np.int64)
        if isinstance(self.dtypes[j], pd.CategoricalDtype):
            return pd.Categorical.from_codes(indices.tolist(), dtype=self.dtypes[j])
        values = self.categories[j].take(indices)
        return (
            pd.Series(values.to_numpy(), dtype=self.dtypes[j]).array if self.labels is not None else values.to_numpy()
        )


def _dtype_state(dtype: Any) -> dict[str, Any]:
    if isinstance(dtype, pd.CategoricalDtype):
        return {"values": str(dtype.categories.dtype), "ordered": bool(dtype.ordered)}
    return {"values": str(dtype)}


def column_moments(Z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each column, the latter 1 where it does not vary."""
    largest = np.abs(Z).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)  # squares of raw values may overflow or vanish
    reduced = Z / unit
    spread = reduced.std(axis=0)
    varies = (np.ptp(Z, axis=0) > 0) & (spread > 10 * np.finfo(float).eps)
    return reduced.mean(axis=0) * unit, np.where(varies, spread * unit, 1.0)


def _standardize(Z: FloatArray, categories: dict[int, pd.Index]) -> tuple[FloatArray, FloatArray]:
    """Center and scale of each column; two random rows then differ equally much in each, categories included."""
    center, scale = column_moments(Z)
    for j in categories:
        share = np.bincount(Z[:, j].astype(np.int64)) / len(Z)
        mismatch = 1.0 - float(share @ share)  # chance that two rows differ
        center[j] = 0.0
        scale[j] = np.sqrt(2.0 / mismatch) if mismatch > 0 else 1.0
    return center, scale
