"""Large arrays that are used again.

Memory of a large array goes back to the system when the array is let go, on workers of Dask without exception (their
nanny asks for it), and it comes back page by page: predicting took three times as long there. So blocks of rows take
the arrays that they let go.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount
from threading import local

import numpy as np

from gpec.typing import FloatArray

__all__ = ["spare"]

_SMALL, _LARGE = 2**13, 2**18  # numbers: of fewer or more the array is new
_MOST = 12  # arrays that a thread keeps


class _Kept(local):
    """The arrays of a thread."""

    def __init__(self) -> None:
        self.arrays: list[FloatArray] = []


def spare(*shape: int) -> FloatArray:
    """An array of any content; its memory is of one that nobody holds any more, if there is such a one."""
    n = prod(shape)
    if not _SMALL <= n <= _LARGE:
        return np.empty(shape)
    for array, held in zip(_kept.arrays, _references(_kept.arrays), strict=True):
        if held == _UNUSED and n <= len(array) <= 2 * n:
            return array[:n].reshape(shape)
    if len(_kept.arrays) == _MOST:
        _kept.arrays.pop(0)
    _kept.arrays.append(np.empty(n))
    return _kept.arrays[-1].reshape(shape)


def _references(arrays: list[FloatArray]) -> list[int]:
    """How often each array is held, by views too; by how much that counts too many, versions of Python differ."""
    return [getrefcount(array) for array in arrays]


_kept = _Kept()
(_UNUSED,) = _references([np.empty(1)])
