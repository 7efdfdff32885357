"""The columns of the user's rows, and the embedding that defines distances between rows.

A :class:`Schema` is learned from the rows given to ``fit``. Inside the package every row is "encoded": a float64 vector
with one entry for each original column. Numbers are unchanged, categories are integer codes, dates are the time since
the earliest one, and missing values are NaN. ``decode`` converts encoded rows back to the format of the user's model.
``embed`` maps them to the space in which all distances are computed: standardised numbers, one 0/1 coordinate for each
category, and one more for each column with missing values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import pandas as pd

from gpec.data._columns import (
    MARKERS,
    as_series,
    categorical_columns,
    is_nullable,
    marker_of,
    not_a_category,
    nullable,
    numbers,
    sorted_unique,
)
from gpec.data._dates import as_dates, date_numbers, date_origin, day_of, is_date
from gpec.data._labels import require_utf8
from gpec.data._polars import to_polars
from gpec.data._scales import column_moments, mismatch_scale
from gpec.data._state import CATEGORIES, DTYPES, LABELS
from gpec.data._tables import Table, read_table
from gpec.errors import InputError
from gpec.runtime.state import Limits, Shape
from gpec.typing import BoolArray, FloatArray, IntArray

# Larger coordinates would make squared distances overflow.
_LARGEST = 1e151
# The largest distance of a missing number from the centre of its column, in standard deviations.
_FARTHEST_MISSING = 4.0


@dataclass(frozen=True, eq=False)
class Schema:
    """Columns of the user's rows: names, categories, dates, missing values and scales."""

    names: Annotated[tuple[str, ...], Shape("column")]
    labels: Annotated[tuple[Any, ...] | None, LABELS, Shape("column")]  # of a DataFrame's columns, None for arrays
    categories: Annotated[dict[int, pd.Index], CATEGORIES]  # categorical column -> its categories
    dtypes: Annotated[dict[int, Any], DTYPES]  # column that is a category, a date or nullable -> its dtype
    center: Annotated[FloatArray, Shape("column")]  # of the embedding; 0 without standardisation
    scale: Annotated[FloatArray, Shape("column"), Limits(least=0)]  # of categories: the distance between two
    missing: Annotated[BoolArray, Shape("column")]  # columns that had missing values in fit
    home: Annotated[FloatArray, Shape("column")]  # replaces a missing number, in the units of the column
    gap: Annotated[FloatArray, Shape("column"), Limits(least=0)]  # the embedded distance of a missing number from there
    shape: tuple[int, ...] | None = None  # of one image, if rows are images
    origins: dict[int, int] = field(default_factory=dict)  # column of dates -> the earliest, in units of its dtype
    markers: dict[int, str] = field(default_factory=dict)  # column of objects -> text of its missing values
    polars: Annotated[tuple[str, ...] | None, Shape("column")] = None  # types of the columns of a polars frame

    @classmethod
    def learn(
        cls, X: Any, *, categorical_features: Any = "auto", standardize: bool = True
    ) -> tuple[Schema, FloatArray]:
        """The schema of ``X``, and ``X`` encoded."""
        table = read_table(X, "X")
        columns, labels = table.columns, table.labels
        if not columns:
            raise InputError("X has 0 columns; at least 1 is needed.")
        names = tuple(f"x{j}" for j in range(len(columns))) if labels is None else tuple(str(c) for c in labels)
        require_utf8("column name", names)
        if len(set(names)) != len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise InputError(f"X has several columns named {duplicate!r}; rename them so that each has its own name.")
        categories: dict[int, pd.Index] = {}
        dtypes: dict[int, Any] = {}
        origins: dict[int, int] = {}
        markers: dict[int, str] = {}
        for j in categorical_columns(columns, names, categorical_features, is_frame=labels is not None):
            column = as_series(columns[j])
            dtypes[j] = column.dtype
            of_type = isinstance(column.dtype, pd.CategoricalDtype)
            categories[j] = column.cat.categories if of_type else pd.Index(sorted_unique(column, names[j]))
            if column.dtype == object:
                markers[j] = marker_of(column)
        for j, column in enumerate(columns):
            if j not in categories and is_date(column.dtype):
                dtypes[j], origins[j] = column.dtype, date_origin(column, names[j], "X")
            elif j not in categories and labels is not None and is_nullable(column.dtype):
                dtypes[j] = column.dtype
        d = len(names)
        schema = cls(
            names, labels, categories, dtypes, np.zeros(d), np.ones(d), np.ones(d, dtype=bool), np.zeros(d),
            np.zeros(d), table.shape, origins, markers, table.polars,
        )  # fmt: skip
        encoded = schema._encoded(table, "X")
        schema = schema._scaled(encoded, standardize)
        schema.embed(encoded)  # raises if distances would overflow
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
        """Indices of the columns that are numbers or dates."""
        return np.array([j for j in range(self.n_features) if j not in self.categories], dtype=np.int64)

    @property
    def plain(self) -> bool:
        """Whether encoded rows are the user's values: numbers only, neither categories nor dates."""
        return not self.categories and not self.origins

    def encode(self, X: Any, name: str = "X") -> FloatArray:
        """The user's rows, checked and encoded as a new float64 array; missing values are NaN."""
        table = read_table(X, name, self.labels).aligned(self.labels, name)
        if table.shape is not None and table.shape != self.shape:
            expected = f"shape {self.shape}" if self.shape else f"{self.n_features} features"
            raise InputError(f"{name} has rows of shape {table.shape}, but {expected} is expected, as in fit.")
        if len(table.columns) != self.n_features:
            raise InputError(
                f"{name} has {len(table.columns)} features, but {self.n_features} are expected, as in the rows given "
                "to fit."
            )
        encoded = self._encoded(table, name)
        self._refuse_new_missing(encoded, name)
        return encoded

    def decode(self, Z: FloatArray) -> Any:
        """Encoded rows in the user's format: an array, or a pandas DataFrame with the original columns."""
        values = [self._decoded(Z[:, j], j) for j in range(self.n_features)] if self.dtypes else []
        if self.labels is not None:
            frame = pd.DataFrame({j: values[j] if values else Z[:, j].copy() for j in range(self.n_features)})
            frame.columns = pd.Index(self.labels)
            return frame
        if self.categories:
            numeric = all(np.asarray(v).dtype.kind in "fiub" for v in values)
            return np.column_stack([np.asarray(v, dtype=float if numeric else object) for v in values])
        rows = np.column_stack(values) if self.origins else Z.copy()
        return rows if self.shape is None else rows.reshape(len(Z), *self.shape)

    def for_model(self, Z: FloatArray) -> Any:
        """Like :meth:`decode`, but a polars DataFrame if the rows given to ``fit`` were one."""
        frame = self.decode(Z)
        return frame if self.polars is None else to_polars(frame, self.polars)

    def embed(self, Z: FloatArray, name: str = "X") -> FloatArray:
        """Encoded rows in the space of distances, all finite: numbers, indicators of missing ones, and of categories.

        The distance of any two categories is ``scale``; a missing value is one more category. A missing number is at
        the centre of its column, with the distance ``gap`` in a separate coordinate.
        """
        self._refuse_new_missing(Z, name)
        numeric, can_miss = self.continuous, self._nullable_numbers
        absent = np.isnan(Z[:, can_miss])
        filled = Z
        if absent.any():
            filled = Z.copy()
            filled[:, can_miss] = np.where(absent, self.home[can_miss], Z[:, can_miss])
        with np.errstate(over="ignore"):
            values = (filled[:, numeric] if self.categories else filled) - self.center[numeric]
            values /= self.scale[numeric]
        parts = [values, absent * self.gap[can_miss]]
        for j in self.categorical:
            states = [Z[:, [j]] == np.arange(len(self.categories[j])), np.isnan(Z[:, [j]])[:, : int(self.missing[j])]]
            parts.append(np.hstack(states) * (self.scale[j] / np.sqrt(2.0)))
        embedded = np.hstack(parts) if any(part.shape[1] for part in parts[1:]) else values
        bad = ~(np.abs(embedded) <= _LARGEST)
        if bad.any():
            row = int(np.argwhere(bad)[0, 0])
            raise InputError(
                f"{name} row {row} is too far from the others for distances in double precision; "
                "rescale the features or keep standardize=True."
            ).at(f" row {row}")
        return np.ascontiguousarray(embedded)

    @property
    def coordinates(self) -> tuple[IntArray, ...]:
        """The columns of :meth:`embed` that belong to each feature."""
        states = np.array([len(self.categories[j]) + self.missing[j] for j in self.categorical], dtype=np.int64)
        owner = np.concatenate((self.continuous, self._nullable_numbers, np.repeat(self.categorical, states)))
        ends = np.cumsum(np.bincount(owner, minlength=self.n_features))
        return tuple(np.split(np.argsort(owner, kind="stable"), ends[:-1]))

    @property
    def _nullable_numbers(self) -> IntArray:
        """Indices of the numeric columns that can be missing."""
        return np.array([j for j in self.continuous if self.missing[j]], dtype=np.int64)

    def _scaled(self, Z: FloatArray, standardize: bool) -> Schema:
        """The schema with scales for which two random rows differ equally in each column, also in categories."""
        center, spread = column_moments(Z, robust=True)
        lacking = np.isnan(Z).sum(axis=0)
        scale, gap = spread.copy() if standardize else np.ones(self.n_features), np.zeros(self.n_features)
        for j, codes in ((j, Z[:, j]) for j in self.categories):
            counts = np.bincount(codes[~np.isnan(codes)].astype(np.int64))
            center[j], scale[j] = 0.0, mismatch_scale(np.append(counts, lacking[j])) if standardize else 1.0
        for j in () if standardize else self.origins:
            scale[j] = day_of(self.dtypes[j])
        for j in self.continuous[lacking[self.continuous] > 0]:
            distance = mismatch_scale(np.array([len(Z) - lacking[j], lacking[j]]))
            gap[j] = min(distance, _FARTHEST_MISSING) * (spread[j] / scale[j])
        return replace(
            self,
            center=center if standardize else np.zeros(self.n_features),
            scale=scale,
            missing=lacking > 0,
            home=center,
            gap=gap,
        )

    def _encoded(self, table: Table, name: str) -> FloatArray:
        if table.n_rows == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        encoded = np.empty((table.n_rows, self.n_features))
        for j, column in enumerate(table.columns):
            if j in self.categories:
                encoded[:, j] = self._codes(column, j, name)
            elif j in self.origins:
                encoded[:, j] = date_numbers(column, self.dtypes[j], self.origins[j], self.names[j], name)
            else:
                encoded[:, j] = numbers(column, self.names[j], name)
        infinite = np.isinf(encoded)
        if infinite.any():
            row, j = np.argwhere(infinite)[0]
            message = f"{name} is infinite in row {row}, column '{self.names[j]}'; replace or drop it."
            raise InputError(message).at(f" row {row},")
        encoded[np.isnan(encoded)] = np.nan  # one kind of NaN, and no -0: equal rows have equal bytes
        encoded += 0.0
        return encoded

    def _refuse_new_missing(self, Z: FloatArray, name: str) -> None:
        new = np.isnan(Z) & ~self.missing
        if new.any():
            row, j = np.argwhere(new)[0]
            raise InputError(
                f"{name} has a missing value in row {row}, column '{self.names[j]}', which had none in the rows given "
                "to fit, so the model may not support it; impute it, or fit again with rows where it is missing."
            ).at(f" row {row},")

    def _codes(self, column: Any, j: int, name: str) -> FloatArray:
        categories = self.categories[j]
        series = as_series(column)
        known = series.notna().to_numpy()
        codes = np.full(len(series), np.nan)
        if known.any():
            try:
                codes[known] = categories.get_indexer(pd.Index(series.to_numpy()[known]))
            except (TypeError, UnicodeEncodeError) as error:
                raise not_a_category(name, self.names[j], error) from error
        unknown = codes < 0
        if unknown.any():
            row = int(unknown.argmax())
            raise InputError(
                f"{name} has the category {series.tolist()[row]!r} in row {row}, column '{self.names[j]}', which did "
                "not occur in fit; fit again with rows that contain it."
            ).at(f" row {row},")
        return codes

    def _decoded(self, values: FloatArray, j: int) -> Any:
        if j in self.origins:
            return as_dates(values, self.dtypes[j], self.origins[j])
        if j in self.categories:
            return self._categories_of(values, j)
        return nullable(values, self.dtypes[j]) if j in self.dtypes else values.copy()

    def _categories_of(self, codes: FloatArray, j: int) -> Any:
        absent = np.isnan(codes)
        indices = np.where(absent, -1, np.rint(np.where(absent, 0, codes))).astype(np.int64)
        if isinstance(self.dtypes[j], pd.CategoricalDtype):
            return pd.Categorical.from_codes(indices.tolist(), dtype=self.dtypes[j])
        if absent.any():
            values = np.full(len(codes), MARKERS[self.markers.get(j, "None")], dtype=object)
            values[~absent] = self.categories[j].to_numpy()[indices[~absent]]
            if self.labels is None and self.categories[j].dtype.kind in "fiub":
                return np.where(absent, np.nan, values).astype(np.float64)
        else:
            values = self.categories[j].take(indices).to_numpy()
        return pd.Series(values, dtype=self.dtypes[j]) if self.labels is not None else values
