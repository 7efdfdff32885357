r"""Inverses of the covariance of dependent features that share a kernel matrix.

The attributions of ``d`` features at ``N`` rows, each feature in units of the root of its output scale, have the
covariance

    A = T (x) K + diag(h),

with the correlation ``T (d, d)`` between features and noise ``h (N, d)``, one feature after the other.

Where the noise of a feature is the same at all rows, ``H = diag(h)`` and ``H^-1/2 T H^-1/2 = V diag(t) V'``. With
``W = H^-1/2 V`` and ``K = Q diag(q) Q'``,

    A^-1 = (W (x) Q) diag(1 / (1 + t q)) (W (x) Q)':

the columns of ``Y W`` are independent Gaussian processes of covariance ``t_j K + I``. Other noise takes the Cholesky
factor of ``A``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from gpec.errors import NumericalError
from gpec.gp._gram import Spectrum
from gpec.gp._solver import Half
from gpec.typing import FloatArray

__all__ = ["EqualNoise", "Rotation", "UnequalNoise"]


@dataclass(frozen=True, eq=False)
class Rotation:
    """The features' side of the Kronecker form, ``t``, ``W``, ``W^-T`` and ``T W``."""

    values: FloatArray
    W: FloatArray
    back: FloatArray
    TW: FloatArray

    @classmethod
    def of(cls, T: FloatArray, h: FloatArray) -> Rotation:
        root = np.sqrt(h)[:, None]
        t, V = eigh(T / root / root.T, driver="evd")
        W = V / root
        return cls(np.maximum(t, 0.0), W, V * root, T @ W)


class EqualNoise:
    """``A`` with noise ``h (d,)``, the same at all rows. ``P`` below is ``k(x, X) Q``."""

    def __init__(self, spectrum: Spectrum, T: FloatArray, h: FloatArray) -> None:
        self.spectrum, self.rotation = spectrum, Rotation.of(T, h)
        self.w = 1.0 / (1.0 + spectrum.values[:, None] * self.rotation.values)
        self._ow = spectrum.ones[:, None] * self.w
        self.precision = spectrum.ones @ self._ow  # 1' A_j^-1 1 of each rotated column

    def taken(self, P: FloatArray, free_mean: bool) -> FloatArray:
        """``c A^-1 c'`` less the uncertainty of the mean, of each feature at each row, ``(n, d)``."""
        taken = np.asarray((P**2 @ self.w) @ (self.rotation.TW**2).T)
        if free_mean:
            taken -= (self._gap(P) ** 2 / self.precision) @ (self.rotation.back**2).T
        return taken

    def half(self, P: FloatArray, f: int, free_mean: bool) -> Half:
        """The same for one feature at several rows."""
        taken = (1.0, P * np.sqrt(self.w @ self.rotation.TW[f] ** 2))
        of_mean = (-1.0, self._gap(P) * (self.rotation.back[f] / np.sqrt(self.precision)))
        return Half(taken, of_mean) if free_mean else Half(taken)

    def solve(self, Y: FloatArray, free_mean: bool) -> tuple[FloatArray, FloatArray]:
        """The means ``(d,)`` and ``A^-1 (y - mean)`` in the rotated columns, ``(N, d)``."""
        Z, mean = self.spectrum.Q.T @ Y @ self.rotation.W, np.zeros(Y.shape[1])
        if free_mean:
            mean = (self._ow * Z).sum(axis=0) / self.precision
            Z = Z - self.spectrum.ones[:, None] * mean
        return self.rotation.back @ mean, self.spectrum.Q @ (self.w * Z)

    def left_out(self, solved: FloatArray, free_mean: bool) -> tuple[FloatArray, FloatArray]:
        """Residuals and their variance where each row in turn is left out, from what :meth:`solve` gave."""
        Q, back = self.spectrum.Q, self.rotation.back
        diagonal = Q**2 @ self.w
        if free_mean:
            diagonal -= (Q @ self._ow) ** 2 / self.precision
        return (solved / diagonal) @ back.T, (1.0 / diagonal) @ (back**2).T

    def _gap(self, P: FloatArray) -> FloatArray:
        """``1 - 1' A_j^-1 c_j`` of each rotated column, ``(n, d)``."""
        return np.asarray(1.0 - self.rotation.values * (P @ self._ow))


class UnequalNoise:
    """``A`` with noise ``h (N, d)``, from its Cholesky factor. Vectors are ``(N d, m)``, one feature after the other.

    ``M`` is the matrix ``(N d, d)`` with a column of ones for each feature.
    """

    def __init__(self, K: FloatArray, T: FloatArray, h: FloatArray, free_mean: bool) -> None:
        self.T, self.h, self.free_mean = T, h, free_mean
        try:
            A = np.kron(T, K).T  # symmetric, and in the order that LAPACK overwrites
            A[np.diag_indices(len(A))] += h.T.ravel()
            self._L = cholesky(A, lower=True, overwrite_a=True)
        except LinAlgError as error:
            raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
        self._half_T = self._white(np.asarray(np.kron(T, np.eye(len(K))).T, dtype=np.float64), overwrite=True)
        if free_mean:
            self._M = np.asarray(np.kron(np.eye(len(T)), np.ones((len(K), 1))), dtype=np.float64)
            self._solved_ones = self._solve(self._M)
            self._root = cholesky(self._M.T @ self._solved_ones, lower=True)  # of M' A^-1 M

    def _white(self, B: FloatArray, overwrite: bool = False) -> FloatArray:
        return np.asarray(solve_triangular(self._L, B, lower=True, overwrite_b=overwrite))

    def _solve(self, B: FloatArray) -> FloatArray:
        """``A^-1 B``."""
        return np.asarray(solve_triangular(self._L, self._white(B), lower=True, trans="T"))

    def half(self, k: FloatArray, f: int) -> Half:
        """What the explained rows say of a feature at rows with ``k(x, X) = k``."""
        N = len(self.h)
        part = (1.0, k @ self._half_T[:, f * N : (f + 1) * N].T)
        if not self.free_mean:
            return Half(part)
        # M' A^-1 c' from A^-1 M, which is known
        gap = -np.tensordot(self.T[f], self._solved_ones.reshape(*self.h.T.shape, -1), 1).T @ k.T
        gap[f] += 1.0
        return Half(part, (-1.0, solve_triangular(self._root, gap, lower=True).T))

    def solve(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The means ``(d,)`` and ``A^-1 (y - mean)``, ``(N, d)``."""
        y, mean = Y.T.reshape(-1, 1), np.zeros(Y.shape[1])
        if self.free_mean:
            white = solve_triangular(self._root, self._solved_ones.T @ y, lower=True)
            mean = solve_triangular(self._root, white, lower=True, trans="T")[:, 0]
            y = y - self._M @ mean[:, None]
        return mean, self._solve(y).reshape(Y.T.shape).T

    def left_out(self, solved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and their variance where each row in turn is left out, from ``A^-1 (y - mean)``."""
        inverse = self._white(np.eye(self.h.size)).reshape(-1, *self.h.T.shape)
        blocks = np.einsum("afi,agi->ifg", inverse, inverse, optimize=True)  # of A^-1 that belong to each row
        if self.free_mean:
            white = solve_triangular(self._root, self._solved_ones.T, lower=True).reshape(-1, *self.h.T.shape)
            blocks = blocks - np.einsum("afi,agi->ifg", white, white, optimize=True)
        inverse = np.linalg.inv(blocks)
        return np.einsum("ifg,ig->if", inverse, solved), np.einsum("iff->if", inverse)
