"""Cholesky factors of several matrices, in place and without Python's lock.

SciPy's functions hold the lock while LAPACK computes, so that a second thread would wait; NumPy has no inverse from a
factor. So the routines are asked by address, as SciPy offers them to compiled code. Where it offers them with other
integers, SciPy's functions serve. Matrices ``(F, n, n)`` are C-contiguous: their lower halves are what Fortran takes
for the upper ones.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import cython_lapack, lapack

from gpec.typing import FloatArray

__all__ = ["backward", "cholesky", "forward", "inverse"]

_FACTOR = "char *,int *,d *,int *,int *"
_PARAMETERS = {
    "dpotrf": _FACTOR,
    "dpotri": _FACTOR,
    "dtrtrs": "char *,char *,char *,int *,int *,d *,int *,d *,int *,int *",
}


def cholesky(A: FloatArray) -> bool:
    """Put ``L`` with ``A = L L'`` into the lower halves of ``A``; above stays ``A``. False if there is none of one."""
    compiled, n = _routine("dpotrf"), A.shape[1]
    if compiled is not None:
        return not _called(compiled, b"U", n, A, n)
    for matrix in A:
        found, failed = lapack.dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return False
        matrix[:] = found.T
    return True


def inverse(L: FloatArray) -> None:
    """Put the lower halves of ``(L L')^-1`` into those of ``L``."""
    compiled, n = _routine("dpotri"), L.shape[1]
    if compiled is not None:
        _called(compiled, b"U", n, L, n)
        return
    for matrix in L:
        matrix[:] = lapack.dpotri(matrix.T, lower=0, overwrite_c=1)[0].T


def forward(L: FloatArray, B: FloatArray) -> None:
    """Put the solutions ``x`` of ``L x = b`` in the place of ``b``, the rows of ``B (F, m, n)``."""
    _solve(L, B, b"T")


def backward(L: FloatArray, B: FloatArray) -> None:
    """Put the solutions ``x`` of ``L' x = b`` in the place of ``b``, the rows of ``B (F, m, n)``."""
    _solve(L, B, b"N")


def _solve(L: FloatArray, B: FloatArray, transposed: bytes) -> None:
    compiled, (_, m, n) = _routine("dtrtrs"), B.shape
    if compiled is not None:
        _called(compiled, b"U", transposed, b"N", n, m, L, n, B, n)
        return
    for matrix, several in zip(L, B, strict=True):
        several[:] = lapack.dtrtrs(matrix.T, several.T, lower=0, trans=int(transposed == b"T"))[0].T


def _called(compiled: Callable[..., None], *arguments: Any) -> int:
    """Call the routine for each matrix in turn, until it says something else than 0; what it said last."""
    said, count = ctypes.c_int(0), 1
    pointers: list[Any] = []
    steps: list[tuple[int, int]] = []
    for i, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray):
            if not (argument.flags.c_contiguous and argument.dtype == np.float64):
                raise TypeError("LAPACK takes C-contiguous arrays of 64-bit numbers.")
            pointers.append(argument.ctypes.data)
            steps.append((i, argument.strides[0]))
            count = len(argument)
        else:
            pointers.append(argument if isinstance(argument, bytes) else ctypes.byref(ctypes.c_int(argument)))
    pointers.append(ctypes.byref(said))
    for _ in range(count):
        compiled(*pointers)
        if said.value:
            break
        for i, step in steps:
            pointers[i] += step
    return said.value


@cache
def _routine(name: str) -> Callable[..., None] | None:
    """The compiled routine, or None if its parameters are not those expected."""
    capsule = cython_lapack.__pyx_capi__.get(name)
    python = ctypes.pythonapi
    python.PyCapsule_GetName.argtypes, python.PyCapsule_GetName.restype = [ctypes.py_object], ctypes.c_char_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    signature = b"" if capsule is None else python.PyCapsule_GetName(capsule)
    if _plain(signature.decode()) != f"void ({_PARAMETERS[name]})":
        return None
    pointer = python.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(_PARAMETERS[name].split(",")))(pointer)


def _plain(signature: str) -> str:
    """``void (char *, __pyx_t_5scipy_6linalg_13cython_lapack_d *)`` as ``void (char *,d *)``."""
    head, _, parameters = signature.partition("(")
    return f"{head}({','.join(part.strip().split('cython_lapack_')[-1] for part in parameters.split(','))}"
