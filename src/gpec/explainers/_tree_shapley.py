r"""Exact Shapley values of a sum of trees, for all outputs together.

shap's C code traverses each tree once for each row, background row and output, so ten classes cost ten times as much as
one. Here all outputs share the work, and so do all rows that fail the same conditions of a leaf. On digits, with a
forest of ten classes, this takes a thirteenth of shap's time, and it sums in double precision. ``tree.py`` states for
which models it is used.

A row reaches a leaf if it meets a condition on each feature of the leaf's path. For a row ``x`` and a background row
``r``, let ``A`` be the features whose condition ``r`` fails, and ``B`` those that ``x`` fails. If a feature is in both
sets, no mixture of the two rows reaches the leaf. Otherwise a mixture reaches it if it takes ``A`` from ``x`` and ``B``
from ``r``. With ``a`` and ``b`` the sizes of the sets and ``v`` the leaf's value, the Shapley values of this game are

    v (a-1)! b! / (a+b)!   for each feature of A,      -v a! (b-1)! / (a+b)!   for each of B.

They are summed over leaves and averaged over background rows. A set of features is a bit pattern. Rows with the same
pattern at a leaf form a group, which is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array, csr_array
from scipy.special import betaln

from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = ["MOST_FEATURES", "TreeShapley"]

Bits = npt.NDArray[np.unsignedinteger[Any]]

MOST_FEATURES = 56  # on the path to a leaf: 64 bits hold one bit for each and the 8-bit number of a row
_ROWS = 256  # explained or background rows in a block: their numbers have 8 bits
_NODES = 16_384  # of trees that are computed together
_CELLS = 262_144  # leaves times rows that are computed together
_SMALL = 500  # pairs of groups at a leaf, below which leaves are computed together
# a! b! / (a+b)! for all a and b, one after the other
_SIZES = np.arange(MOST_FEATURES + 1)
_SHARES = (np.exp(betaln(_SIZES[:, None] + 1, _SIZES + 1)) * (_SIZES[:, None] + _SIZES + 1)).ravel()


class TreeShapley:
    """Shapley values of the sum of trees, against background rows.

    Parameters
    ----------
    trees : object
        Arrays with a row for each tree and a column for each node, as shap stores them: ``children_left``,
        ``children_right``, ``children_default`` (where missing values go), ``features``, ``thresholds`` and ``values``;
        and ``tree_limit``, the number of trees that are used (all, if it is None or negative). No path may have more
        than ``MOST_FEATURES`` features.
    background : array of shape (m, p)
        Background rows; NaN is a missing value.
    n_outputs : int
        The last ``n_outputs`` columns of the leaves' values are explained.
    """

    def __init__(self, trees: Any, background: FloatArray, n_outputs: int) -> None:
        self._n_outputs, self._m = n_outputs, len(background)
        self._parts = []
        limit = trees.tree_limit
        counts = slice(None if limit is None or limit < 0 else limit)
        for some in _portions((trees.children_left[counts] >= 0).sum(axis=1)):
            part = _Part.of(trees, some, n_outputs)
            groups = [_Groups.of(part.failed(block), part.k).without_members() for block in _blocks(background)]
            self._parts.append((part, groups))

    def values(self, rows: FloatArray) -> FloatArray:
        """Shapley values of the rows, ``(n, p, n_outputs)``."""
        return np.concatenate([self._values(block) for block in _blocks(rows)])

    def _values(self, rows: FloatArray) -> FloatArray:
        n, p = rows.shape
        total = np.zeros((n, p * self._n_outputs))
        step = max(1, _CELLS // n)
        for part, background in self._parts:
            failed = part.failed(rows)
            for start in range(0, len(failed), step):
                leaves = slice(start, start + step)
                groups = _Groups.of(failed[leaves], part.k)
                for others in background:
                    total += _sum_leaves(part, leaves, groups, others.at(leaves), total.shape)
        return total.reshape(n, p, self._n_outputs) / self._m


@dataclass(frozen=True, eq=False)
class _Part:
    """Some trees with consecutively numbered nodes, and their leaves whose value is not 0."""

    left: IntArray
    right: IntArray
    missing_left: BoolArray
    feature: IntArray
    threshold: FloatArray
    place: IntArray  # of a node's feature on the path
    levels: list[IntArray]  # nodes that split, from the roots down
    leaves: IntArray
    path: npt.NDArray[np.int32]  # features on the path of each leaf, (leaves, k)
    length: IntArray  # number of features on the path
    value: FloatArray  # (leaves, outputs)

    @property
    def k(self) -> int:
        """Largest number of features on a path."""
        return int(self.path.shape[1])

    @classmethod
    def of(cls, trees: Any, some: slice, n_outputs: int) -> Self:
        count = 1 + np.maximum(trees.children_left, trees.children_right)[some].max(axis=1, initial=0).astype(np.int64)
        used = np.arange(trees.children_left.shape[1]) < count[:, None]
        roots = _ends(count)[:-1]
        names = ("children_left", "children_right", "children_default", "features", "thresholds", "values")
        *children, feature, threshold, value = (getattr(trees, name)[some][used] for name in names)
        left, right, default = (np.where(each >= 0, each + np.repeat(roots, count), -1) for each in children)
        levels, place, path, length = _paths(roots, left, right, feature)
        value = value[:, -n_outputs:]
        leaves = np.flatnonzero((left < 0) & (length > 0))
        if n_outputs == 1 and len(leaves):  # a constant has no effect: shift values to 0 for most leaves
            each, times = np.unique(value[leaves], return_counts=True)
            value = value - each[times.argmax()]
        leaves = leaves[value[leaves].any(axis=1)]
        length = length[leaves]
        path, value, missing_left = path[leaves, : length.max(initial=1)], value[leaves], default == left
        return cls(left, right, missing_left, feature, threshold, place, levels, leaves, path, length, value)

    def failed(self, rows: FloatArray) -> Bits:
        """The features on the path to each leaf whose condition each row fails, as bits ``(leaves, n)``."""
        dtype = _unsigned(self.k)
        bits, columns, lacking = np.zeros((len(self.left), len(rows)), dtype), rows.T.copy(), np.isnan(rows).any()
        for nodes in self.levels:
            seen = columns[self.feature[nodes]]
            goes_left = seen <= self.threshold[nodes, None]
            if lacking:
                goes_left |= np.isnan(seen) & self.missing_left[nodes, None]
            bit = np.left_shift(np.ones(1, dtype), self.place[nodes].astype(dtype))[:, None]
            bits[self.left[nodes]] = bits[nodes] | bit * ~goes_left
            bits[self.right[nodes]] = bits[nodes] | bit * goes_left
        return bits[self.leaves]


def _paths(
    roots: IntArray, left: IntArray, right: IntArray, feature: IntArray
) -> tuple[list[IntArray], IntArray, npt.NDArray[np.int32], IntArray]:
    """Nodes that split, by level; the position of their features on the path; each node's path and its length."""
    place, length = np.zeros(left.shape, dtype=np.int64), np.zeros(left.shape, dtype=np.int64)
    path = np.full((len(left), MOST_FEATURES), -1, dtype=np.int32)
    levels, nodes = [], roots
    while len(nodes := nodes[left[nodes] >= 0]):
        levels.append(nodes)
        same_feature = path[nodes] == feature[nodes, None]
        known = same_feature.any(axis=1)
        place[nodes] = np.where(known, same_feature.argmax(axis=1), length[nodes])
        for child in (left[nodes], right[nodes]):
            path[child], length[child] = path[nodes], length[nodes] + ~known
            path[child, place[nodes]] = feature[nodes]
        nodes = np.concatenate((left[nodes], right[nodes]))
    return levels, place, path, length


@dataclass(frozen=True, eq=False)
class _Groups:
    """Groups of rows that fail the same features at a leaf: all groups of the first leaf, then those of the next."""

    pattern: Bits  # of each group
    size: IntArray
    row: npt.NDArray[np.int32]  # members, group after group
    start: IntArray  # the first group of each leaf, and the end

    @classmethod
    def of(cls, failed: Bits, k: int) -> Self:
        leaves, n = failed.shape
        shift = (n - 1).bit_length()
        wide = _unsigned(max(32, k + shift))  # sorting is fastest for numbers of 32 and 64 bits
        numbered = (failed.astype(wide) << wide(shift)) | np.arange(n, dtype=wide)
        numbered.sort(axis=1)
        pattern = (numbered >> wide(shift)).astype(failed.dtype)
        new = np.ones(pattern.shape, dtype=np.bool_)
        np.not_equal(pattern[:, 1:], pattern[:, :-1], out=new[:, 1:])
        first = np.flatnonzero(new)
        return cls(
            pattern.ravel()[first],
            np.diff(first, append=new.size).astype(np.int16),
            (numbered & wide((1 << shift) - 1)).ravel().astype(np.int32),
            np.searchsorted(first, np.arange(leaves + 1) * n),
        )

    def without_members(self) -> Self:
        return replace(self, row=self.row[:0].copy())

    def at(self, leaves: slice) -> Self:
        """The groups of these leaves, without members."""
        start = self.start[leaves.start : leaves.stop + 1]
        part = slice(start[0], start[-1])
        return type(self)(self.pattern[part], self.size[part], self.row[:0], start - start[0])


def _sum_leaves(part: _Part, leaves: slice, x: _Groups, r: _Groups, shape: tuple[int, int]) -> FloatArray:
    """The sum of some leaves' Shapley values for each row, summed over the background rows ``r``."""
    partners, count = _partners(x, r)
    live = np.flatnonzero(count)
    of_leaf = np.repeat(np.arange(len(x.start) - 1), np.diff(x.start))[live]
    worth = _unit_values(x.pattern[live], r, partners, count[live], part.k)
    length, value = part.length[leaves][of_leaf], part.value[leaves][of_leaf]
    group, output = value.nonzero()
    inside = np.arange(part.k) < length[group, None]
    place = (part.path[leaves][of_leaf[group]] * np.int64(value.shape[1]) + output[:, None])[inside]
    given = (worth[group] * value[group, output, None])[inside]
    ends = _ends(np.bincount(group, length[group], minlength=len(live)).astype(np.int64))
    of_groups = csr_array((given, place, ends), shape=(len(live), shape[1]))
    member = x.row[np.repeat(count > 0, x.size)]
    groups_of = csc_array((np.ones(len(member)), member, _ends(x.size[live])), shape=(shape[0], len(live)))
    return np.asarray((groups_of.tocsr() @ of_groups).toarray())


def _partners(x: _Groups, r: _Groups) -> tuple[IntArray, IntArray]:
    """For each group of ``x``, the groups of ``r`` at the same leaf without a common failed feature, and their number.

    The partners of the first group of ``x`` come first, then those of the next.
    """
    width, height = np.diff(r.start), np.diff(x.start)
    if (width @ height) < _SMALL * len(width):
        wide = np.repeat(width, height)  # for each group of x
        begin = np.repeat(r.start[:-1], height) - _ends(wide)[:-1]
        other = np.arange(wide.sum()) + np.repeat(begin, wide)
        disjoint = (np.repeat(x.pattern, wide) & r.pattern[other]) == 0
        owner = np.repeat(np.arange(len(wide)), wide)[disjoint]
        return other[disjoint], np.bincount(owner, minlength=len(wide))
    found = [
        (np.bitwise_and.outer(x.pattern[i:to_i], r.pattern[j:to_j]) == 0).ravel().nonzero()[0]
        for (i, to_i), (j, to_j) in zip(_pairs(x.start), _pairs(r.start), strict=True)
    ]
    per_leaf, flat = [len(each) for each in found], np.concatenate(found)
    wide = np.repeat(width, per_leaf)
    owner = flat // wide
    other = flat - owner * wide + np.repeat(r.start[:-1], per_leaf)
    return other, np.bincount(owner + np.repeat(x.start[:-1], per_leaf), minlength=len(x.pattern))


def _unit_values(pattern: Bits, r: _Groups, partners: IntArray, count: IntArray, k: int) -> FloatArray:
    """Shapley values of the features on the path, for a leaf of value 1, ``(groups, k)``; summed over background rows.

    With ``q = a! b! / (a+b)!`` they are the sum of ``q / a`` over the partners that fail the feature; for a feature
    that the group itself fails, ``-1 / b`` times the sum of ``q``.
    """
    used = np.zeros(len(r.pattern), dtype=np.bool_)
    used[partners] = True
    partners, size = (np.cumsum(used) - 1)[partners], r.size[used]
    B, A = _bits_of(pattern, k), _bits_of(r.pattern[used], k)
    a, b = A.sum(axis=1, dtype=np.int64), B.sum(axis=1, dtype=np.int64)
    of_partner = np.empty((len(A), k + 1))
    np.multiply(A, (size / np.maximum(a, 1))[:, None], out=of_partner[:, :k])
    of_partner[:, k] = size
    q = _SHARES.take((a * len(_SIZES))[partners] + np.repeat(b, count))
    sums = csr_array((q, partners, _ends(count)), shape=(len(B), len(A))) @ of_partner
    return np.asarray(sums[:, :k] - (sums[:, k] / np.maximum(b, 1))[:, None] * B)


def _bits_of(pattern: Bits, k: int) -> Bits:
    return ((pattern[:, None] >> np.arange(k, dtype=pattern.dtype)) & pattern.dtype.type(1)).astype(np.uint8)


def _unsigned(bits: int) -> Any:
    """The smallest unsigned type with at least ``bits`` bits."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64) if bits <= 8 * kind().itemsize)


def _ends(counts: IntArray) -> IntArray:
    """The start of each of consecutive pieces, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _pairs(starts: IntArray) -> Iterator[tuple[int, int]]:
    return pairwise(starts.tolist())


def _blocks(rows: FloatArray) -> list[FloatArray]:
    return [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]


def _portions(splits: IntArray) -> Iterator[slice]:
    """Groups of consecutive trees with a limited number of nodes in all; at least one tree each."""
    start, nodes = 0, 0
    for tree, size in enumerate((2 * splits + 1).tolist()):
        if tree > start and nodes + size > _NODES:
            yield slice(start, tree)
            start, nodes = tree, 0
        nodes += size
    yield slice(start, len(splits))
