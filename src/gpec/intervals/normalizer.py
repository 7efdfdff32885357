"""Residual normalizer: a forest that predicts the size of leave-one-out residuals.

A forest predicts the size of the residuals from the row and the model's answer. It is stored as arrays, so that files
need no pickle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from gpec.data import Rows
from gpec.intervals.conformal import ConformityScores
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray, IntArray

_TREES = 100
_LEAST_ROWS = 40
_LEAST_IN_LEAF = 5
_MOST_ATTRIBUTIONS = 200  # of a row; with more, the forest costs more than it gains
_FLOOR = 0.1  # of a feature's mean: the least expected size
_LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class ResidualNormalizer:
    """A forest of expected residual sizes; nodes of all trees in one list.

    Attributes
    ----------
    roots : array of shape (trees,)
    left, right, feature, threshold : arrays of shape (nodes,)
        Children of a node; a leaf is its own child.
    size : array of shape (nodes, d, c)
        Expected size of the residual at a leaf, divided by the feature's mean size.
    mean : array of shape (d, c)
        Mean size of each feature's residuals.
    left_out : array of shape (N, d, c)
        Out-of-bag expected size for each explained row.
    values : array of shape (m,) or None
        A regressor's distinct values at the explained rows, sorted: the trees see ranks among them. None: they see
        log-odds.
    """

    roots: Annotated[IntArray, Shape("t"), Limits(least=0)]
    left: Annotated[IntArray, Shape("k"), Limits(least=0)]
    right: Annotated[IntArray, Shape("k"), Limits(least=0)]
    feature: Annotated[IntArray, Shape("k"), Limits(least=0)]
    threshold: Annotated[FloatArray, Shape("k")]
    size: Annotated[FloatArray, Shape("k", "feature", "output"), Limits(least=0)]
    mean: Annotated[FloatArray, Shape("feature", "output"), Limits(least=0)]
    left_out: Annotated[FloatArray, Shape("explained", "feature", "output"), Limits(least=0)]
    values: Annotated[FloatArray, Shape("m")] | None = None

    def check_state(self) -> None:
        """Raise a ValueError if a path through a tree leaves it or has no end; trees from a file are checked."""
        here, k = np.arange(len(self.left)), len(self.left)
        children = np.concatenate((self.left, self.right))
        leaf = (self.left == here) & (self.right == here)
        if not len(self.roots) or self.roots.max() >= k or children.max() >= k:
            raise ValueError("has trees with nodes that do not exist")
        if not (leaf | ((self.left > here) & (self.right > here))).all():
            raise ValueError("has trees whose paths have no end")
        if self.values is not None and (len(self.values) == 0 or (np.diff(self.values) < 0).any()):
            raise ValueError("has values that are not sorted")

    @classmethod
    def learn(
        cls, rows: Rows, residual: FloatArray, std: FloatArray, weights: FloatArray, seed: int
    ) -> ResidualNormalizer | None:
        """From leave-one-out residuals ``(N, d, c)``; None if there are too few, or it is no better than ``std``."""
        N, d, c = residual.shape
        size = np.abs(residual)
        mean = size.mean(axis=0)
        if N < _LEAST_ROWS or d * c > _MOST_ATTRIBUTIONS or not mean.any():
            return None
        values = np.unique(rows.require("outputs")) if rows.kind.is_regression else None
        target = (size / np.where(mean > 0, mean, 1.0)).reshape(N, d * c)
        forest = RandomForestRegressor(
            _TREES, min_samples_leaf=_LEAST_IN_LEAF, oob_score=True, random_state=seed % 2**32, n_jobs=1
        ).fit(_seen(rows, values), target.ravel() if d * c == 1 else target)
        found = cls._of(forest, mean, np.asarray(forest.oob_prediction_).reshape(N, d, c), values)
        drawn = weights > 0
        plain, scaled = (
            _interval_score(size[drawn], deviation[drawn], weights[drawn])
            for deviation in (std, found.scaled(std, found.left_out))
        )
        return found if scaled < plain else None

    @classmethod
    def _of(cls, forest: Any, mean: FloatArray, left_out: FloatArray, values: FloatArray | None) -> ResidualNormalizer:
        trees = [tree.tree_ for tree in forest.estimators_]
        starts = np.cumsum([0, *(tree.node_count for tree in trees)])[:-1]
        parts: dict[str, list[Any]] = {name: [] for name in ("left", "right", "feature", "threshold", "size")}
        for start, tree in zip(starts, trees, strict=True):
            here, leaf = start + np.arange(tree.node_count), tree.children_left < 0
            parts["left"].append(np.where(leaf, here, start + tree.children_left))
            parts["right"].append(np.where(leaf, here, start + tree.children_right))
            parts["feature"].append(np.where(leaf, 0, tree.feature))
            parts["threshold"].append(np.where(leaf, 0.0, tree.threshold))
            parts["size"].append(tree.value[:, :, 0].reshape(-1, *mean.shape))
        arrays = {name: np.concatenate(part) for name, part in parts.items()}
        return cls(roots=starts.astype(np.int64), mean=mean, left_out=left_out, values=values, **arrays)

    def at(self, rows: Rows) -> FloatArray:
        """Expected sizes at rows ``(n, d, c)``, divided by the feature's mean size."""
        # scikit-learn compares single precision with thresholds in double
        X = _seen(rows, self.values).astype(np.float32)
        node = np.tile(self.roots, (len(X), 1))
        place = np.arange(len(X))[:, None]
        while True:
            below = X[place, self.feature[node]] <= self.threshold[node]
            further = np.where(below, self.left[node], self.right[node])
            if np.array_equal(further, node):
                break
            node = further
        total = np.zeros((len(X), *self.mean.shape))
        for tree in range(len(self.roots)):
            total += self.size[node[:, tree]]
        return total / len(self.roots)

    def scaled(self, std: FloatArray, size: FloatArray) -> FloatArray:
        """Geometric mean of a predicted deviation and the size that the forest expects, ``(n, d, c)``."""
        expected = np.sqrt(np.pi / 2) * self.mean * np.maximum(size, _FLOOR)
        return np.where(self.mean > 0, np.sqrt(std * expected), std)


def _seen(rows: Rows, values: FloatArray | None) -> FloatArray:
    """Inputs of the trees: coordinates, and the model's answer in numbers that differ in single precision.

    Log-odds are clipped to +-8. Values of a regressor have no such scale: they become ranks among the known ones.
    """
    if values is None:
        answers = np.clip(rows.require("outputs"), -8.0, 8.0)
    else:
        answers = np.interp(rows.require("outputs"), values, np.arange(len(values), dtype=np.float64))
    return np.hstack((rows.embedded, answers))


def _interval_score(size: FloatArray, deviation: FloatArray, weights: FloatArray) -> float:
    """Mean interval score of conformal intervals, each feature divided by its mean error."""
    unit = np.where(size.any(axis=0), size.mean(axis=0), 1.0)
    scores = ConformityScores(size / deviation, weights, fresh=False)
    half = scores.quantile(min(_LEVEL, scores.highest_level)) * deviation
    outside = np.maximum(size - half, 0.0) * (2.0 / (1.0 - _LEVEL))
    return float(np.average(((2.0 * half + outside) / unit).mean(axis=(1, 2)), weights=weights))
