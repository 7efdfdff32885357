"""Similar rows between a row and its nearest rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from gpec._validation import check_choice, check_count, check_positive
from gpec.data import Schema, same_values
from gpec.data._equality import contents_of
from gpec.data._labels import column_of
from gpec.errors import InputError, ParameterTypeError
from gpec.runtime.randomness import stream
from gpec.runtime.state import MAY_BE_MISSING, NOT_STORED, Limits, Shape
from gpec.similar.base import Similar, SimilaritySampler, listed, uniform
from gpec.typing import BoolArray, FloatArray, IntArray

_LARGEST_POOL = 100_000
_DRAWS = 1  # seed of the draws for switches and rounding, which depend on the rows' content alone
_ROWS_AT_ONCE = 256
_DISTANCES_AT_ONCE = 2_500_000  # 20 MB
_GROUPS = 50  # of the pool, for each neighbour


@dataclass(eq=False, repr=False)
class NearestRows(Similar):
    """Similar rows lie between the row and each of its nearest rows among those given to ``fit``.

    Numbers and dates move from ``x`` towards the neighbour ``x'`` by the fraction ``step``: ``x + step (x' - x)``. A
    different category, or a value that is missing in one of the two rows, cannot move in part: it becomes the
    neighbour's with probability ``step``. Whole numbers stay whole: in a column where all numbers given to ``fit`` are
    whole, ``x + step (x' - x)`` is rounded up or down at random, with a mean that is the number itself. So 0 and 1
    switch with probability ``step``, as categories do.

    Parameters
    ----------
    n_neighbors : int
        Number of nearest rows. Rows identical to the row are ignored, and identical rows count as one. If there are
        fewer, all are used.
    step : float
        Fraction of the distance, greater than 0 and at most 1; 1 gives the neighbour itself.
    fixed : columns that keep the row's value
        Names or positions, or lists or ranges of them; with ``()`` all columns can change.
    whole : bool
        Whether whole numbers stay whole. False rounds nothing: rows then lie exactly on the line between two rows.

    Notes
    -----
    The neighbours come from at most 100,000 distinct rows, drawn at random from those given to ``fit``. With so many
    rows the search takes one to two milliseconds for each row (0.2 among 10,000), and a file of the fit holds them all.
    Distances are those of :meth:`gpec.data.Schema.embed`, in the columns that can change: fixed columns are ignored,
    because a difference in them does not change the similar row.

    The draws depend on the content of the row and of the neighbour: the same row has the same similar rows in every
    call. If no category changes and no number moves, the similar row is the row itself. Where a row given to
    ``explain`` has a number that is not whole in a column of whole numbers, that number moves like others, without
    rounding. Dates are not rounded either.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.data import Schema
    >>> from gpec.similar import NearestRows
    >>> schema, Z = Schema.learn(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 4.0], [9.0, 9.0]]))
    >>> nearby = NearestRows(n_neighbors=2, step=0.5).learn(schema, Z, seed=0)
    >>> nearby.rows(Z[:1])
    array([[[1., 0.], [0., 2.]]])
    >>> NearestRows(2, whole=False).learn(schema, Z, seed=0).rows(Z[:1])
    array([[[0.5, 0. ], [0. , 2. ]]])
    >>> nearby.phrase
    'a slightly different one, moved halfway towards one of its 2 nearest neighbours'
    """

    n_neighbors: int = 10
    step: float = 0.5
    fixed: Any = ()
    whole: bool = True

    def check(self, schema: Schema) -> None:
        """Raise for parameters that are invalid for these columns."""
        check_count("n_neighbors", self.n_neighbors)
        if check_positive("step", self.step) > 1:
            raise InputError(f"step={self.step!r} must be at most 1, which is the neighbour itself.")
        check_choice("whole", self.whole, (True, False))
        if len(_fixed_columns(self.fixed, schema)) == schema.n_features:
            raise InputError("fixed has all columns, so no row could change; leave some out.")

    def learn(self, schema: Schema, Z: FloatArray, seed: int) -> SimilaritySampler:
        """The sampler with a random pool of rows, from which the neighbours come."""
        self.check(schema)
        fixed = _fixed_columns(self.fixed, schema)
        free = np.setdiff1d(np.arange(schema.n_features), fixed)
        different: dict[bytes, int] = {}
        for row in stream(seed, "similar rows").permutation(len(Z)).tolist():
            different.setdefault(Z[row, free].tobytes(), row)
            if len(different) == _LARGEST_POOL:
                break
        pool = Z[list(different.values())]
        # of equally near rows the first in the pool is taken: an order that depends on their content alone
        pool = pool[np.argsort(uniform(0, contents_of(pool), 1)[:, 0], kind="stable")]
        if len(pool) < 2:
            changing = "" if len(fixed) == 0 else " in the columns that are not fixed"
            raise InputError(
                f"The {len(Z)} rows given to fit are all equal{changing}, so no row has a nearest row; pass rows that "
                "differ, or similar=None."
            )
        k = min(int(self.n_neighbors), len(pool) - 1)
        whole = np.asarray(same_values(Z, np.rint(Z)).all(axis=0) & self.whole, dtype=bool)
        whole[[*schema.categories, *schema.origins, *fixed]] = False
        return _Pool(schema, pool, k, float(self.step), fixed, whole)


@dataclass(frozen=True, eq=False)
class _Pool(SimilaritySampler):
    """Steps from a row towards its nearest rows of a pool."""

    kind = "nearest rows"

    schema: Annotated[Schema, NOT_STORED]
    # encoded rows, no two of them the same in the columns that may change
    pool: Annotated[FloatArray, Shape("p", "column"), MAY_BE_MISSING]
    n_neighbors: Annotated[int, Limits(least=1)]  # fewer than the rows in the pool
    step: Annotated[float, Limits(0, 1)]
    fixed: Annotated[IntArray, Shape("f"), Limits(least=0)]
    whole: Annotated[BoolArray, Shape("column")]  # columns whose numbers stay whole

    def rows(self, Z: FloatArray) -> FloatArray:
        similar = np.empty((len(Z), self.n_neighbors, self.schema.n_features))
        size = min(max(_DISTANCES_AT_ONCE // len(self.pool), 1), _ROWS_AT_ONCE)
        for start in range(0, len(Z), size):
            part = Z[start : start + size]
            similar[start : start + size] = self._towards(part, self._nearest(part))
        return similar

    @property
    def phrase(self) -> str:
        k = self.n_neighbors
        neighbour = "its nearest neighbour" if k == 1 else f"one of its {k:,} nearest neighbours"
        way = "halfway" if self.step == 0.5 else f"{100 * self.step:g}% of the way"
        moved = "" if self.step == 1 else f"a slightly different one, moved {way} towards "
        unchanged = [f"'{self.schema.names[j]}'" for j in self.fixed]
        fixed = f", with {listed(unchanged)} unchanged" if unchanged else ""
        return f"{moved}{neighbour}{fixed}"

    def _towards(self, Z: FloatArray, nearest: IntArray) -> FloatArray:
        """The rows between encoded rows and the rows of the pool at ``nearest``, ``(n, K, d)``."""
        own, other = Z[:, None, :], self.pool[nearest]
        # A weighted sum of the ends cannot overflow as their difference could; rounding must not leave their range.
        between = (1 - self.step) * own + self.step * other
        similar = np.clip(between, np.minimum(own, other), np.maximum(own, other))
        some = self._drawn
        own_values, other_values, moved = own[:, :, some], other[:, :, some], similar[:, :, some]
        # Each of these values becomes one of two: for a state the row's or the neighbour's, for a number that stays
        # whole the next whole ones below and above.
        states = np.isin(some, self.schema.categorical) | np.isnan(own_values) | np.isnan(other_values)
        rounds = self.whole[some] & (own_values == np.rint(own_values))
        one = np.where(states, own_values, np.where(rounds, np.floor(moved), moved))
        two = np.where(states, other_values, np.where(rounds, np.ceil(moved), moved))
        draws = np.ones(moved.shape)
        pairs = np.nonzero((~same_values(one, two)).any(axis=2))
        contents = zip(contents_of(Z[pairs[0]]), contents_of(self.pool[nearest[pairs]]), strict=True)
        draws[pairs] = uniform(_DRAWS, [row + neighbour for row, neighbour in contents], len(some))
        similar[:, :, some] = np.where(draws < np.where(states, self.step, moved - one), two, one)
        similar[:, :, self.fixed] = own[:, :, self.fixed]
        return similar

    def _nearest(self, Z: FloatArray) -> IntArray:
        """Indices of the nearest rows in the pool, ``(n, K)``; of equally near rows, the first in the pool."""
        E = self._embedded(Z)
        rows, places = self._candidates(E)
        squared = np.zeros(len(rows))
        # One coordinate at a time: the rounding of BLAS products depends on the number of rows.
        for row_values, pool_values in zip(E.T.copy(), self._coordinates, strict=True):
            squared += (row_values[rows] - pool_values[places]) ** 2
        close = np.flatnonzero(squared == 0)
        same = same_values(Z[rows[close]], self.pool[places[close]])
        squared[close[np.delete(same, self.fixed, axis=1).all(axis=1)]] = np.inf
        order = np.lexsort((places, squared, rows))
        first = np.searchsorted(rows, np.arange(len(Z)))
        return np.asarray(places[order][first[:, None] + np.arange(self.n_neighbors)], dtype=np.int64)

    def _candidates(self, E: FloatArray) -> tuple[IntArray, IntArray]:
        """Pairs (row, index in the pool), sorted, that contain the K + 1 nearest rows in spite of rounding errors."""
        center, P = self._products
        X = E - center
        own = (X * X).sum(axis=1)
        rough = np.hstack((X, np.ones((len(X), 1)))) @ P
        # The nearest of each group: the K + 1 nearest of these are no nearer than the K + 1 nearest of all rows.
        width = max(P.shape[1] // (_GROUPS * (self.n_neighbors + 1)), 1)
        groups = rough[:, : P.shape[1] // width * width].reshape(len(X), width, -1).min(axis=1)
        limit = np.partition(groups, self.n_neighbors, axis=1)[:, self.n_neighbors]
        # The relative error of |p|^2 - 2 x.p to |x|^2 + |p|^2 is below this: 4 (D + 2) roundings, doubled. For rows p
        # that matter |p|^2 is at most twice the sum of |x|^2 and the squared distance.
        slack = 4 * (E.shape[1] + 8) * np.finfo(np.float64).eps
        limit += 8 * slack * (own + np.maximum(limit + own, 0.0))
        rows, places = np.divmod(np.flatnonzero(rough <= limit[:, None]), P.shape[1])
        return rows, places

    def _embedded(self, Z: FloatArray) -> FloatArray:
        """Embedded rows without the fixed columns."""
        embedded = self.schema.embed(Z)
        if len(self.fixed) == 0:
            return embedded
        return np.delete(embedded, np.concatenate([self.schema.coordinates[j] for j in self.fixed]), axis=1)

    @cached_property
    def _coordinates(self) -> FloatArray:
        """The embedded pool, ``(D, rows)``."""
        return np.ascontiguousarray(self._embedded(self.pool).T)

    @cached_property
    def _products(self) -> tuple[FloatArray, FloatArray]:
        """The mean of the pool, and for its centred rows p the columns (-2 p, |p|^2)."""
        center = self._coordinates.mean(axis=1)
        P = self._coordinates - center[:, None]
        return center, np.vstack((-2 * P, (P * P).sum(axis=0)))

    @cached_property
    def _drawn(self) -> IntArray:
        """Columns with draws: categories, and numbers that can be missing or stay whole."""
        drawn = self.schema.missing | self.whole
        drawn[self.schema.categorical] = True
        drawn[self.fixed] = False
        return np.flatnonzero(drawn)


def _fixed_columns(fixed: Any, schema: Schema) -> IntArray:
    """Indices of the fixed columns, sorted and distinct."""
    if isinstance(fixed, (str, bytes)) or not isinstance(fixed, Iterable):
        remedy = ", or () for none" if fixed is None else f"; for one column write [{fixed!r}]"
        raise ParameterTypeError(f"fixed={fixed!r} must be a list of columns{remedy}.")
    found: set[int] = set()
    for value in fixed:
        group = value if isinstance(value, (list, range, np.ndarray)) else [value]
        found |= {column_of("fixed", one, schema.names, schema.labels) for one in group}
    return np.array(sorted(found), dtype=np.int64)
