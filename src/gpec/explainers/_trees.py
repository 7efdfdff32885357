"""Binary trees in one format, whatever library they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from gpec.typing import BoolArray, FloatArray, IntArray


class UnreadableTrees(Exception):  # noqa: N818  the name describes the model
    """gpec cannot read these trees."""


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree; the root is node 0.

    Attributes
    ----------
    left, right : array of int, shape (nodes,)
        Children; -1 for leaves.
    column, threshold : array of shape (nodes,)
        A row goes left if its value in this column is at most the threshold.
    missing_left : array of bool, shape (nodes,)
        Whether a missing value goes left.
    value : array of shape (nodes, outputs)
    categories : dict
        For nodes that split on categories: some codes, and whether these go left; all others go the other way.
    """

    left: IntArray
    right: IntArray
    column: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    value: FloatArray
    categories: dict[int, tuple[IntArray, bool]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Splits:
    """Conditions on one column each, sorted by column; those with thresholds first."""

    column: IntArray
    category: IntArray  # row of ``goes``; -1 for thresholds
    threshold: FloatArray
    missing_left: BoolArray
    goes: BoolArray

    def goes_left(self, rows: FloatArray) -> BoolArray:
        """Whether each row goes left at each split, ``(splits, n)``."""
        found = np.empty((len(self.column), len(rows)), dtype=np.bool_)
        kinds = np.stack((self.column, self.category >= 0))
        starts = np.flatnonzero(np.r_[True, (kinds[:, 1:] != kinds[:, :-1]).any(axis=0)][: len(self.column)])
        for start, stop in pairwise([*starts.tolist(), len(self.column)]):
            some, seen = slice(start, stop), np.ascontiguousarray(rows[:, self.column[start]])
            missing = np.isnan(seen)
            if self.category[start] >= 0:
                last = self.goes.shape[1] - 1  # of all other codes
                known = (seen >= 0) & (seen < last)
                codes = np.where(known, seen, last).astype(np.int64)
                found[some] = self.goes[self.category[some, None], codes]
            else:
                np.less_equal(seen, self.threshold[some, None], out=found[some])
            if missing.any():
                found[some, missing] = self.missing_left[some, None]
        return found


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees with consecutively numbered nodes; see :class:`Tree`."""

    roots: IntArray
    left: IntArray
    right: IntArray
    column: IntArray
    threshold: FloatArray
    missing_left: BoolArray
    value: FloatArray
    category: IntArray  # row of ``goes`` for nodes that split on categories, else -1
    goes: BoolArray  # (n, codes + 1): whether a code goes left; the last column is for all other codes

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> Trees:
        sizes = np.array([len(tree.left) for tree in trees])
        roots = np.cumsum(sizes) - sizes

        def joined(name: str) -> Any:
            return np.concatenate([getattr(tree, name) for tree in trees])

        left, right = (
            np.where(joined(name) < 0, -1, joined(name) + np.repeat(roots, sizes)) for name in ("left", "right")
        )
        category = np.full(len(left), -1)
        found = [
            (root + node, *rule)
            for root, tree in zip(roots, trees, strict=True)
            for node, rule in tree.categories.items()
        ]
        goes = np.zeros(
            (len(found), 1 + max((int(codes.max(initial=-1)) + 1 for _, codes, _ in found), default=0)), bool
        )
        for i, (node, codes, to_left) in enumerate(found):
            category[node] = i
            goes[i] = not to_left
            goes[i, codes] = to_left
        return cls(
            roots, left, right, joined("column"), joined("threshold"), joined("missing_left"), joined("value"),
            category, goes,
        )  # fmt: skip

    def distinct_splits(self) -> tuple[Splits, IntArray]:
        """The different splits, and the number of the split of each node."""
        inner = np.flatnonzero(self.left >= 0)
        keys = np.stack((self.column[inner], self.category[inner], self.threshold[inner], self.missing_left[inner]))
        (column, category, threshold, missing), inverse = np.unique(keys, axis=1, return_inverse=True)
        number = np.full(len(self.left), -1)
        number[inner] = inverse.ravel()
        splits = Splits(
            column.astype(np.int64), category.astype(np.int64), threshold, missing.astype(np.bool_), self.goes
        )
        return splits, number
