"""Points that cannot be told apart."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from gpec.typing import FloatArray, IntArray

__all__ = ["distinct_points"]

_SHARE = 1e-9  # of the spread: sampled points are at least a thousand times further apart


def distinct_points(points: FloatArray) -> tuple[IntArray, IntArray]:
    """Index of the first of each group of points that lie together, in the order given, and the size of the group.

    The spread is how far nine in ten points reach from the middle: a few points far away do not draw the others
    together, and many copies in the middle do not hide how far the others are.
    """
    radius = np.linalg.norm(points - np.median(points, axis=0), axis=1)
    away = radius[radius > 0]
    if away.size == 0:
        return np.zeros(1, dtype=np.int64), np.array([len(points)], dtype=np.int64)
    points = points / (_SHARE * float(np.quantile(away, 0.9)))  # points within 1 of each other lie together
    # Copies by the thousand share a cell; the few groups that a cell's wall divides are joined.
    cells = np.rint(points) + 0.0  # no negative zeros
    _, first, group = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    near = _close_pairs(points[first])
    if len(near):
        n = len(first)
        edges = coo_array((np.ones(len(near)), (near[:, 0], near[:, 1])), shape=(n, n))
        group = connected_components(edges, directed=False)[1][group]
    _, first, size = np.unique(group, return_index=True, return_counts=True)
    order = np.argsort(first)
    return first[order].astype(np.int64), size[order].astype(np.int64)


def _close_pairs(points: FloatArray) -> IntArray:
    """All pairs within 1 of each other: few, and so few points are candidates for one.

    Points that are close have close shadows on a line. Its direction has no rational ratios, so that the shadows of
    whole numbers do not meet.
    """
    direction = np.cos(1.0 + np.arange(points.shape[1]))
    shadow = points @ (direction / np.linalg.norm(direction))
    order = np.argsort(shadow)
    close = np.diff(shadow[order]) <= 1.0
    candidates = order[np.append(close, False) | np.append(False, close)]
    if len(candidates) == 0:
        return np.empty((0, 2), dtype=np.int64)
    pairs = cKDTree(points[candidates]).query_pairs(1.0, output_type="ndarray")
    return np.asarray(candidates[pairs], dtype=np.int64)
