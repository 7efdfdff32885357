"""Attributions of unknown mean under several matrices ``A = K + diag(h)``: the terms of the deviance (see evidence)."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from gpec.typing import FloatArray

__all__ = ["REMLTerms"]


class REMLTerms:
    """``quadratic = y' P y`` and ``logarithm = log|A| + log(1' A^-1 1)``, one of each for a feature.

    LAPACK works in place: the lower half of a C-contiguous matrix is what Fortran takes for the upper one.

    Parameters
    ----------
    A : array of shape (F, n, n)
        Matrices, which are overwritten; of each the lower half is read.
    y : array of shape (F, n)
        Attributions.

    Raises
    ------
    LinAlgError
        If a matrix is not positive definite.
    """

    def __init__(self, A: FloatArray, y: FloatArray) -> None:
        self._A = A = np.ascontiguousarray(A)
        self._diagonal = np.einsum("fii->fi", A)  # seen, not copied
        self._pairs = np.ones((len(A), 2, A.shape[1]))
        self._pairs[:, 0] = y
        for L, pair in zip(A, self._pairs, strict=True):
            if dpotrf(L.T, clean=0, overwrite_a=1)[1]:
                raise LinAlgError("The kernel matrix with noise is not positive definite.")
            dtrtrs(L.T, pair.T, trans=1, overwrite_b=1)
        (yy, self._mixed), (_, self._precision) = np.einsum("fin,fjn->ijf", self._pairs, self._pairs)
        self.quadratic: FloatArray = yy - self._mixed**2 / self._precision
        self.logarithm: FloatArray = 2 * np.log(self._diagonal).sum(axis=1) + np.log(self._precision)

    def by_matrix(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lower half of ``A^-1`` and ``Z (F, 2, n)``: ``A^-1 - Z' Z = P - P y y' P / s``. To be asked once."""
        A, Z = self._A, self._pairs
        for L, pair in zip(A, Z, strict=True):
            dtrtrs(L.T, pair.T, overwrite_b=1)
            dpotri(L.T, overwrite_c=1)
        Z[:, 0] -= Z[:, 1] * (self._mixed / self._precision)[:, None]
        Z /= np.sqrt(np.stack((s, self._precision), axis=1))[:, :, None]
        return A, Z

    def by_diagonal(self, s: FloatArray) -> FloatArray:
        """The diagonals ``(F, n)`` of these, where nothing else is wanted."""
        _, Z = self.by_matrix(s)
        return np.asarray(self._diagonal - np.einsum("fin,fin->fn", Z, Z))
