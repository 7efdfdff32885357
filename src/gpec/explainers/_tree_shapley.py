r"""Exact interventional Shapley values of a sum of trees, for many rows and all outputs together.

A row reaches a leaf if it meets a condition on each feature of the leaf's path. For a row ``x`` and a background row
``r``, let ``A`` be the features whose condition ``r`` fails, and ``B`` those that ``x`` fails. If a feature is in both
sets, no mixture of the two rows reaches the leaf. Otherwise a mixture reaches it if it takes ``A`` from ``x`` and ``B``
from ``r``. With ``a`` and ``b`` the sizes of the sets and ``v`` the leaf's value, the Shapley values of this game are

    v (a-1)! b! / (a+b)!   for each feature of A,      -v a! (b-1)! / (a+b)!   for each of B.

They are summed over leaves and averaged over background rows. A set of features is a bit pattern, so a leaf with ``k``
features on its path has only ``2^k`` different answers. They are in a table, and explaining a row means looking it up.
With ``Z_a(C)`` the number of background rows whose ``A`` has ``a`` features, all of ``C``, and ``C`` the complement of
``B``, the sums over background rows are

    sum_a (a-1)! b! / (a+b)! (Z_a(C) - Z_a(C without i))   for i outside of B,
    -sum_a a! (b-1)! / (a+b)! Z_a(C)                       for i in B.

``Z`` for all ``C`` is one sum over subsets. Leaves of a small subtree share one table: its index is the pattern of
features failed on the way to the subtree, and one bit for each different split in it.

Leaves with many features on their path have large tables. For few rows, and for more than 14 features, ``Z`` is counted
for the patterns of these rows instead. The numbers ``Z`` are whole, so both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from gpec.explainers._trees import Tree, Trees, UnreadableTrees
from gpec.typing import BoolArray, FloatArray, IntArray

Bits = npt.NDArray[np.unsignedinteger[Any]]

MOST_FEATURES = 64  # on the path to a leaf
# of the index of a table that several leaves share: the first whose tables are small enough
_SHARED_BITS = (8, 6, 4, 0)
_STORED = 1 << 25  # numbers in all tables that are stored
_TABLE_BITS = 14  # of the largest table
_NODES = 8_192  # of trees that are computed together
_CELLS = 1 << 14  # numbers in an array that is computed at once, so that it fits into the processor's cache
_LEAST = 8  # units in a batch, so that numbers which are added together lie next to each other
_PAIRS = 1 << 20  # rows times patterns of background rows that are compared at once
_FEW = 64  # rows, up to which numbers are added in one call
# (a-1)! b! / (a+b)!, and a! (b-1)! / (a+b)!
_SIZES = range(MOST_FEATURES + 1)
_UP = np.array([[1 / (a * comb(a + b, a)) if a else 0.0 for b in _SIZES] for a in _SIZES])
_DOWN = _UP.T.copy()


class TreeShapley:
    """Shapley values of the sum of trees, against background rows.

    Parameters
    ----------
    trees : list of Tree
        No path may have more than ``MOST_FEATURES`` features.
    feature : array of int, shape (p,)
        The feature to which each input column of the trees belongs. All columns of a feature are one player.
    n_features : int
    background : array of shape (m, p)
        Background rows; NaN is a missing value.
    """

    def __init__(self, trees: list[Tree], feature: IntArray, n_features: int, background: FloatArray) -> None:
        self._background, self._shape = background, (n_features, trees[0].value.shape[1])
        portion = np.cumsum([len(tree.left) for tree in trees]) // _NODES
        portions = [Trees.of([trees[i] for i in np.flatnonzero(portion == one)]) for one in np.unique(portion)]
        self._parts = [_Part(one, feature, background) for one in portions]
        for bits in _SHARED_BITS:
            if sum(part.share(bits) for part in self._parts) <= _STORED:
                break
        for part in self._parts:
            part.store_tables()

    def values(self, rows: FloatArray) -> FloatArray:
        """Shapley values of the rows, ``(n, features, outputs)``."""
        total = np.zeros((self._shape[0] * self._shape[1], len(rows)))
        for part in self._parts:
            part.add_to(total, rows)
        return total.T.reshape(len(rows), *self._shape) / len(self._background)

    def rescaled(self, rows: FloatArray, ratio: FloatArray) -> FloatArray:
        """The values against each background row, times its ``ratio`` for the row, ``(m, n)``; then their mean."""
        n, m, outputs = len(rows), len(self._background), self._shape[1]
        total = np.zeros(self._shape[0] * outputs * n)
        for part in self._parts:
            failed, background = part.failed(rows), part.failed(self._background)
            for r in range(m):
                leaf, row = np.nonzero((failed & background[:, r, None]) == 0)
                x, others, value = failed[leaf, row], background[leaf, r], part.value[leaf] * ratio[r, row, None]
                a, b = _size(others, part.k), _size(x, part.k)
                up, down = _UP[a, b][:, None] * value, _DOWN[a, b][:, None] * value
                for i in range(part.k):
                    gain = up * _bit(others, i)[:, None] - down * _bit(x, i)[:, None]
                    place = (part.path[leaf, i, None] * outputs + np.arange(outputs)) * n + row[:, None]
                    total += np.bincount(place.ravel(), gain.ravel(), len(total))
        return total.reshape(*self._shape, n).transpose(2, 0, 1) / m


@dataclass(frozen=True, eq=False)
class _Table:
    """Sums of the Shapley values of a unit's leaves, a row for each feature and output that they affect."""

    values: FloatArray
    unit: IntArray  # of each row
    target: IntArray  # of each row: the number of feature and output

    def add_to(self, total: FloatArray, index: Bits) -> None:
        """Add what the table has for rows; each number of ``total`` gets those of one unit after the other."""
        n = index.shape[1]
        if n <= _FEW and total.flags.c_contiguous:
            found = np.take_along_axis(self.values, index[self.unit].astype(np.int64), axis=1)
            np.add.at(total.reshape(-1), (self.target[:, None] * n + np.arange(n)).ravel(), found.ravel())
            return
        unit = -1
        for values, owner, target in zip(self.values, self.unit.tolist(), self.target.tolist(), strict=True):
            if owner != unit:
                unit, place = owner, index[owner].astype(np.intp)
            total[target] += values.take(place)


class _Part:
    """Some trees, and their leaves whose value is not 0. Small subtrees and other leaves are called units."""

    def __init__(self, trees: Trees, feature: IntArray, background: FloatArray) -> None:
        self._trees = trees
        self._splits, self._split = trees.distinct_splits()
        self._levels, self._place, path, self._length = _paths(trees, feature)
        value = trees.value
        leaves = np.flatnonzero((trees.left < 0) & (self._length > 0))
        if value.shape[1] == 1 and len(leaves):  # a constant has no effect: shift values to 0 for most leaves
            each, times = np.unique(value[leaves], return_counts=True)
            value = value - each[times.argmax()]
        self._leaves = leaves[value[leaves].any(axis=1)]
        self.length, self.value = self._length[self._leaves], value[self._leaves]
        self.k = int(self.length.max(initial=1))
        self.path = np.maximum(path[self._leaves, : self.k], 0)
        self._patterns = _Patterns.of(self.failed(background), self.k)

    def share(self, most: int) -> int:
        """Let the leaves of subtrees share tables with an index of at most ``most`` bits; the numbers in the tables."""
        left, right = self._trees.left, self._trees.right
        none = len(self._splits.column)
        # the different splits of each subtree, sorted; one more than ``most`` if there are too many
        inside = np.full((len(left), most + 1), none)
        for nodes in reversed(self._levels):
            found = np.concatenate((inside[left[nodes]], inside[right[nodes]], self._split[nodes, None]), axis=1)
            found.sort(axis=1)
            found[:, 1:][found[:, 1:] == found[:, :-1]] = none
            found.sort(axis=1)
            inside[nodes] = found[:, : most + 1]
        n_bits = self._length + (inside < none).sum(axis=1)
        own = np.where((n_bits <= most) | (left < 0), np.arange(len(left)), -1)
        unit = np.full(len(left), -1)
        unit[self._trees.roots] = own[self._trees.roots]
        for nodes in self._levels:
            for child in (left[nodes], right[nodes]):
                unit[child] = np.where(unit[nodes] >= 0, unit[nodes], own[child])
        self._upper = [nodes[unit[nodes] < 0] for nodes in self._levels]
        self._lower = [nodes[unit[nodes] >= 0] for nodes in self._levels]
        units = np.unique(unit[self._leaves])
        longest = np.zeros(len(left), dtype=np.int64)  # path of a leaf in the unit
        np.maximum.at(longest, unit[self._leaves], self.length)
        self._units = units[np.lexsort((longest[units], n_bits[units]))]
        self._n_bits, self._longest = n_bits[self._units], longest[self._units]
        self._known, self._inside = self._length[self._units], inside[self._units, :most]
        number = np.full(len(left) + 1, -1)  # the last is for nodes outside of units
        number[self._units] = np.arange(len(self._units))
        self._unit_of = number[unit]
        of_leaf = self._unit_of[self._leaves]
        self._n_shared = int(np.searchsorted(self._n_bits, most, side="right"))  # the others are single leaves
        self._by_unit = np.argsort(of_leaf, kind="stable")
        self._start = np.searchsorted(of_leaf[self._by_unit], np.arange(len(self._units) + 1))
        return int((self._longest << self._n_bits)[: self._n_shared].sum())

    def store_tables(self) -> None:
        self._tables = []
        for first, last in self._batches(0, self._n_shared):
            leaves = self._by_unit[self._start[first] : self._start[last]]
            shares = self._patterns.tables_of(leaves, int(self._longest[last - 1]))
            place = self._patterns_in_tables(first, last, leaves)[:, None].astype(np.int64)
            self._tables.append((slice(first, last), self._weighted(leaves, np.take_along_axis(shares, place, axis=2))))

    def add_to(self, total: FloatArray, rows: FloatArray) -> None:
        """Add the values of rows, ``(features * outputs, n)``."""
        index = self._index(rows)
        for units, table in self._tables:
            table.add_to(total, index[units])
        start = self._n_shared
        work = (self._longest << np.minimum(self._longest, _TABLE_BITS))[start:]
        pairs = len(rows) * self._patterns.at(self._by_unit[self._start[start] :]).sum()
        if work.sum() < pairs:
            middle = int(np.searchsorted(self._n_bits, _TABLE_BITS, side="right"))
            for first, last in self._batches(start, middle):
                leaves = self._by_unit[self._start[first] : self._start[last]]
                shares = self._patterns.tables_of(leaves, int(self._longest[last - 1]))
                self._alone(leaves, shares).add_to(total, index[first:last])
            start = middle
        for first, last in self._batches_of_pairs(start, len(rows)):
            leaves = self._by_unit[self._start[first] : self._start[last]]
            k, here = int(self._longest[last - 1]), index[first:last]
            step = max(_FEW, _PAIRS // int(self._patterns.at(leaves).sum()))
            for begin in range(0, len(rows), step):
                some = slice(begin, begin + step)
                table = self._alone(leaves, self._patterns.units_of(leaves, here[:, some], k))
                table.add_to(total[:, some], np.tile(np.arange(table.values.shape[1]), (len(leaves), 1)))

    def failed(self, rows: FloatArray) -> Bits:
        """The features on the path to each leaf whose condition each row fails, as bits ``(leaves, n)``."""
        goes_left = self._splits.goes_left(rows)
        bits = np.zeros((len(self._split), len(rows)), dtype=_unsigned(self.k))
        self._descend(bits, self._levels, lambda nodes: goes_left[self._split[nodes]])
        return bits[self._leaves]

    def _index(self, rows: FloatArray) -> Bits:
        """Where each row is found in the table of each unit, ``(units, n)``."""
        kind = _unsigned(int(self._n_bits.max(initial=1)))
        found = np.empty((len(self._units), len(rows)), dtype=kind)
        step = max(1, 64 * _CELLS // max(1, len(self._split)))
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            goes_left = self._splits.goes_left(rows[some])
            bits: Bits = np.zeros((len(self._split), goes_left.shape[1]), dtype=kind)
            self._descend(bits, self._upper, lambda nodes, left=goes_left: left[self._split[nodes]])  # type: ignore[misc]
            here = bits[self._units]
            for j in range(self._inside.shape[1]):
                units = np.flatnonzero(self._known + j < self._n_bits)
                shift = (self._known[units, None] + j).astype(kind)
                here[units] |= goes_left[self._inside[units, j]].astype(kind) << shift
            found[:, some] = here
        return found

    def _descend(self, bits: Bits, levels: list[IntArray], goes_left: Callable[[IntArray], BoolArray]) -> None:
        """Set the bits of the children of these nodes."""
        for nodes in levels:
            bit = np.left_shift(1, self._place[nodes]).astype(bits.dtype)[:, None]
            right, here = bit * goes_left(nodes), bits[nodes]  # who goes left fails the condition of the right child
            bits[self._trees.right[nodes]] = here | right
            bits[self._trees.left[nodes]] = here | (right ^ bit)

    def _patterns_in_tables(self, first: int, last: int, leaves: IntArray) -> Bits:
        """The leaves' patterns for each index of the tables of units ``first`` to ``last``."""
        index = np.arange(1 << int(self._n_bits[first]), dtype=np.uint64)
        known = self._known.astype(np.uint64)
        bits = np.empty((len(self._split), len(index)), dtype=_unsigned(self.k))
        bits[self._units[first:last]] = index & ((np.uint64(1) << known[first:last, None]) - np.uint64(1))

        def goes_left(nodes: IntArray) -> BoolArray:
            unit = self._unit_of[nodes]
            number = (self._inside[unit] == self._split[nodes, None]).argmax(axis=1).astype(np.uint64)
            return np.asarray((index >> (known[unit] + number)[:, None]) & np.uint64(1), dtype=np.bool_)

        levels = [nodes[(self._unit_of[nodes] >= first) & (self._unit_of[nodes] < last)] for nodes in self._lower]
        self._descend(bits, levels, goes_left)
        return bits[self._leaves[leaves]]

    def _batches(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Consecutive units with tables of one size, so many that their tables fit into the cache."""
        cells = np.diff(self._start) << self._longest
        while first < end:
            last, total = first, 0
            same = self._n_bits == self._n_bits[first]
            while last < end and same[last] and (total < _CELLS or last < first + _LEAST):
                total += cells[last]
                last += 1
            yield first, last
            first = last

    def _batches_of_pairs(self, first: int, n: int) -> Iterator[tuple[int, int]]:
        """Consecutive leaves that are units of their own, with a limited number of pairs for ``n`` rows."""
        pairs = n * np.cumsum(self._patterns.at(self._by_unit[self._start[first] :]))
        begins = first + np.flatnonzero(np.diff(pairs // _PAIRS, prepend=-1))
        yield from pairwise([*begins.tolist(), len(self._units)])

    def _weighted(self, leaves: IntArray, shares: FloatArray) -> _Table:
        """Values of leaves of value 1, ``(leaves, k, any)``, times their values, added for each unit and target."""
        leaf, i, output = self._affected(leaves, shares.shape[1])
        n_outputs, unit = self.value.shape[1], self._unit_of[self._leaves[leaves]]
        width = n_outputs * (int(self.path.max(initial=0)) + 1)
        targets = self.path[leaves[leaf], i] * n_outputs + output
        keys, row = np.unique((unit[leaf] - unit[0]) * width + targets, return_inverse=True)
        weights = csr_array(
            (self.value[leaves[leaf], output], (row, leaf * shares.shape[1] + i)),
            shape=(len(keys), len(leaves) * shares.shape[1]),
        )
        return _Table(weights @ shares.reshape(weights.shape[1], -1), keys // width, keys % width)

    def _alone(self, leaves: IntArray, shares: FloatArray) -> _Table:
        """The same for leaves that are units of their own."""
        leaf, i, output = self._affected(leaves, shares.shape[1])
        targets = self.path[leaves[leaf], i] * self.value.shape[1] + output
        return _Table(shares[leaf, i] * self.value[leaves[leaf], output][:, None], leaf, targets)

    def _affected(self, leaves: IntArray, k: int) -> tuple[IntArray, ...]:
        """For each number of the leaves' values and each feature on their path: number of leaf, feature and output."""
        inside = np.arange(k) < self.length[leaves, None]
        return np.nonzero(inside[:, :, None] & (self.value[leaves] != 0)[:, None])


@dataclass(frozen=True, eq=False)
class _Patterns:
    """The different patterns of background rows at each leaf, and how many rows have each."""

    pattern: Bits
    count: FloatArray
    size: IntArray
    start: IntArray  # of each leaf, and the end

    @classmethod
    def of(cls, failed: Bits, k: int) -> _Patterns:
        failed.sort(axis=1)
        new = np.ones(failed.shape, dtype=np.bool_)
        np.not_equal(failed[:, 1:], failed[:, :-1], out=new[:, 1:])
        first = np.flatnonzero(new)
        pattern = failed.ravel()[first]
        start = np.searchsorted(first, np.arange(len(failed) + 1) * failed.shape[1])
        return cls(pattern, np.diff(first, append=new.size).astype(np.float64), _size(pattern, k), start)

    def at(self, leaves: IntArray) -> IntArray:
        """The number of different patterns at each of these leaves."""
        return self.start[leaves + 1] - self.start[leaves]

    def tables_of(self, leaves: IntArray, k: int) -> FloatArray:
        """Shapley values of each feature for each pattern, for leaves of value 1, ``(leaves, k, 2^k)``."""
        owner, which = _ranges(self.start[leaves], self.start[leaves + 1])
        b = _size(~np.arange(1 << k, dtype=np.uint64), k)  # failed features; the pattern is the complement of the set
        weights = (_UP[:, b, None], _UP[:, np.maximum(b - 1, 0), None], _DOWN[:, b, None])
        # the last axis is that of leaves, so that numbers which are added lie next to each other
        up, less, down = (np.zeros((1 << k, len(leaves))) for _ in weights)
        for a in range(int(self.size[which].max(initial=0)) + 1):
            some = self.size[which] == a
            Z = np.zeros((1 << k, len(leaves)))
            Z[self.pattern[which[some]], owner[some]] = self.count[which[some]]
            for i in range(k):  # from counts of a set to counts of its subsets
                halves = Z.reshape(-1, 2, len(leaves) << i)
                halves[:, 1] += halves[:, 0]
            for total, weight in zip((up, less, down), weights, strict=True):
                total += Z * weight[a]
        found = np.empty((len(leaves), k, 1 << k))
        of_i = np.empty((1 << k, len(leaves)))
        for i in range(k):
            to, *of = (each.reshape(-1, 2, len(leaves) << i) for each in (of_i, up, less, down))
            np.subtract(of[0][:, 1], of[1][:, 0], out=to[:, 1])
            np.negative(of[2][:, 0], out=to[:, 0])
            found[:, i] = of_i[::-1].T
        return found

    def units_of(self, leaves: IntArray, seen: Bits, k: int) -> FloatArray:
        """The same for the patterns ``seen``, ``(leaves, n)``, only: ``(leaves, k, n)``."""
        n, x = seen.shape[1], seen.ravel()
        start, stop = (np.repeat(each, n) for each in (self.start[leaves], self.start[leaves + 1]))
        owner, which = _ranges(start, stop)
        disjoint = (x[owner] & self.pattern[which]) == 0
        owner, which = owner[disjoint], which[disjoint]
        place, pattern, count = owner * (k + 1) + self.size[which], self.pattern[which], self.count[which]
        b = _size(x, k)
        Z = np.bincount(place, count, len(x) * (k + 1))
        without = np.stack([Z - np.bincount(place, count * _bit(pattern, i), len(Z)) for i in range(k)])
        Z, without = Z.reshape(-1, k + 1), without.reshape(k, -1, k + 1)
        up, less, down = np.zeros(len(x)), np.zeros((k, len(x))), np.zeros(len(x))
        for a in range(k + 1):
            up += Z[:, a] * _UP[a, b]
            less += without[:, :, a] * _UP[a, b]
            down += Z[:, a] * _DOWN[a, b]
        failed = np.stack([_bit(x, i) for i in range(k)]) == 1
        return np.where(failed, -down, up - less).reshape(k, len(leaves), n).swapaxes(0, 1)


def _paths(trees: Trees, feature: IntArray) -> tuple[list[IntArray], IntArray, npt.NDArray[np.int32], IntArray]:
    """Nodes that split, by level; the position of their features on the path; each node's path and its length."""
    left, right = trees.left, trees.right
    place, length = np.zeros(left.shape, dtype=np.int64), np.zeros(left.shape, dtype=np.int64)
    path = np.full((len(left), MOST_FEATURES), -1, dtype=np.int32)
    levels, nodes = [], trees.roots
    while len(nodes := nodes[left[nodes] >= 0]):
        if (length[nodes] == MOST_FEATURES).any():
            raise UnreadableTrees(f"a path in its trees has more than {MOST_FEATURES} features")
        levels.append(nodes)
        own = feature[trees.column[nodes]]
        same_feature = path[nodes] == own[:, None]
        known = same_feature.any(axis=1)
        place[nodes] = np.where(known, same_feature.argmax(axis=1), length[nodes])
        for child in (left[nodes], right[nodes]):
            path[child], length[child] = path[nodes], length[nodes] + ~known
            path[child, place[nodes]] = own
        nodes = np.concatenate((left[nodes], right[nodes]))
    return levels, place, path, length


def _ranges(start: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
    """The numbers from each start to its stop, one range after the other, and the number of their range."""
    size = stop - start
    owner = np.repeat(np.arange(len(size)), size)
    return owner, np.arange(len(owner)) + (start - np.cumsum(size) + size)[owner]


def _bit(pattern: Bits, i: int) -> Bits:
    return (pattern >> pattern.dtype.type(i)) & pattern.dtype.type(1)


def _size(pattern: Bits, k: int) -> IntArray:
    """The number of bits in each pattern."""
    total = np.zeros(pattern.shape, dtype=np.int64)
    for i in range(k):
        total += _bit(pattern, i).astype(np.int64)
    return total


def _unsigned(bits: int) -> Any:
    """The smallest unsigned type with at least ``bits`` bits."""
    return np.min_scalar_type((1 << bits) - 1)
