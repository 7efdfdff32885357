"""Groups of points that coincide up to rounding."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from gpec.typing import FloatArray, IntArray

__all__ = ["distinct_points"]

_SHARE = 1e-9  # of the spread: distinct sampled points are at least a thousand times further apart


def distinct_points(points: FloatArray) -> tuple[IntArray, IntArray]:
    """Index of the first point of each group of coinciding points, in the order given, and the size of the group.

    The spread is the 0.9 quantile of the nonzero distances from the median. So neither a few distant points nor many
    copies at the median change it much.
    """
    radius = np.linalg.norm(points - np.median(points, axis=0), axis=1)
    nonzero = radius[radius > 0]
    if nonzero.size == 0:
        return np.zeros(1, dtype=np.int64), np.array([len(points)], dtype=np.int64)
    points = points / (_SHARE * float(np.quantile(nonzero, 0.9)))  # points coincide if their distance is at most 1
    # Thousands of copies share a cell; the few groups in two neighbouring cells are then joined.
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
    """All pairs of points with a distance of at most 1; there are few.

    Candidates are points whose projections on a line are close. Its direction has no rational ratios, so that distinct
    points of whole numbers have distinct projections.
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
