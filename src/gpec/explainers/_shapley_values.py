"""Shapley values of games given by the values of all their coalitions.

phi_j = sum over S without j of |S|! (m - |S| - 1)! / m! * (v(S + j) - v(S))
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from gpec.typing import BoolArray, FloatArray

__all__ = ["all_coalitions", "shapley_values"]


@lru_cache(maxsize=32)
def all_coalitions(m: int) -> BoolArray:
    """All coalitions of ``m`` players ``(2^m, m)``, the empty one first and the full one last; a read-only array."""
    masks = (np.arange(2**m)[:, None] >> np.arange(m) & 1).astype(bool)
    masks.setflags(write=False)
    return masks


@lru_cache(maxsize=32)
def _weights(m: int) -> FloatArray:
    """Weight of each coalition's value for each player, ``(m, 2^m - 2)``, without the empty and the full coalition."""
    masks = all_coalitions(m)[1:-1]
    size = masks.sum(axis=1)
    share = np.array([1.0 / (m * comb(m - 1, k)) for k in range(m)])  # |S|! (m - |S| - 1)! / m!
    return np.ascontiguousarray(np.where(masks, share[size - 1][:, None], -share[size][:, None]).T)


def shapley_values(inner: FloatArray, empty: FloatArray, full: FloatArray) -> FloatArray:
    """Shapley values ``(g, m, c)`` of ``g`` games of ``m`` players and ``c`` outputs.

    Parameters
    ----------
    inner : array of shape (g, 2^m - 2, c)
        The values of all other coalitions, in the order of :func:`all_coalitions`.
    empty, full : arrays of shape (g, c) or (c,)
        The values of the empty and of the full coalition.

    Examples
    --------
    >>> import numpy as np
    >>> shapley_values(np.array([[[3.0], [1.0]]]), np.array([0.0]), np.array([6.0]))[0, :, 0]
    array([4., 2.])
    """
    m = int(inner.shape[1] + 2).bit_length() - 1
    whole = np.broadcast_to(full - empty, (len(inner), inner.shape[2]))
    return np.asarray(np.matmul(_weights(m), inner) + whole[:, None, :] / m)
