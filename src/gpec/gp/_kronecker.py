r"""Inverses of the covariance of dependent features that share a kernel matrix.

The attributions of ``d`` features at ``N`` rows, each feature in units of the root of its output scale, have the
covariance

    A = T (x) K + diag(h),

with the correlation ``T (d, d)`` between features and noise ``h (N, d)``, one feature after the other.

Where the noise of a feature is the same at all rows, ``H = diag(h)`` and ``H^-1/2 T H^-1/2 = V diag(t) V'``. With
``W = H^-1/2 V`` and ``K = Q diag(q) Q'``,

    A^-1 = (W (x) Q) diag(1 / (1 + t q)) (W (x) Q)':

the columns of ``Y W`` are independent Gaussian processes of covariance ``t_j K + I``. Other noise takes the Cholesky
factor of ``A``, or conjugate gradients.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from gpec.errors import NumericalError
from gpec.gp._gram import Spectrum
from gpec.gp._solver import Half
from gpec.typing import FloatArray

__all__ = ["CholeskyNoise", "EqualNoise", "IterativeNoise", "Rotation", "UnequalNoise"]

_TOLERANCE = 1e-12  # of conjugate gradients: residual against right-hand side
_MOST_ITERATIONS = 5_000
_NUMBERS_AT_ONCE = 2**22


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

    def taken(self, P: FloatArray) -> FloatArray:
        """``c A^-1 c'`` of each feature at each row, ``(n, d)``."""
        return np.asarray((P**2 @ self.w) @ (self.rotation.TW**2).T)

    def of_mean(self, P: FloatArray) -> FloatArray:
        """What the unknown means add to it, ``(n, d)``."""
        return np.asarray((self._gap(P) ** 2 / self.precision) @ (self.rotation.back**2).T)

    def between_features(self, P: FloatArray, free_mean: bool) -> FloatArray:
        """``c A^-1 c'`` less the uncertainty of the means, for all pairs of features at each row, ``(n, d, d)``."""
        TW, back = self.rotation.TW, self.rotation.back
        taken = (TW * (P**2 @ self.w)[:, None, :]) @ TW.T
        return taken - (back * (self._gap(P) ** 2 / self.precision)[:, None, :]) @ back.T if free_mean else taken

    def half(self, P: FloatArray, f: int, free_mean: bool) -> Half:
        """The same for one feature at several rows."""
        taken = (1.0, P * np.sqrt(self.w @ self.rotation.TW[f] ** 2))
        of_mean = (-1.0, self._gap(P) * (self.rotation.back[f] / np.sqrt(self.precision)))
        return Half((taken, of_mean) if free_mean else (taken,), None, 1.0)

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


class UnequalNoise(ABC):
    """``A`` with noise ``h (N, d)``. Vectors are ``(N d, m)``, one feature after the other.

    ``M`` is the matrix ``(N d, d)`` with a column of ones for each feature.
    """

    def __init__(self, K: FloatArray, T: FloatArray, h: FloatArray, free_mean: bool) -> None:
        self.K, self.T, self.h, self.free_mean = K, T, h, free_mean
        if free_mean:
            self._M = np.asarray(np.kron(np.eye(len(T)), np.ones((len(K), 1))), dtype=np.float64)
            self._solved_ones = self.solve(self._M)
            self._root = cholesky(self._M.T @ self._solved_ones, lower=True)  # of M' A^-1 M

    @abstractmethod
    def solve(self, B: FloatArray) -> FloatArray:
        """``A^-1 B``."""

    @abstractmethod
    def _parts(self, k: FloatArray, f: int) -> tuple[tuple[float, FloatArray], ...]:
        """Halves of ``c_f A^-1 c_f'`` at rows with ``k(x, X) = k``, and of ``c_f A^-1 c_g'`` with those of ``g``."""

    @abstractmethod
    def _inverse_blocks(self) -> FloatArray:
        """The part of ``A^-1`` that belongs to each row, ``(N, d, d)``."""

    def half(self, k: FloatArray, f: int) -> Half:
        """What the explained rows say of a feature at rows with ``k(x, X) = k``."""
        parts = self._parts(k, f)
        if self.free_mean:
            # M' A^-1 c' from A^-1 M, which is known
            gap = -np.tensordot(self.T[f], self._solved_ones.reshape(*self.h.T.shape, -1), 1).T @ k.T
            gap[f] += 1.0
            parts = (*parts, (-1.0, solve_triangular(self._root, gap, lower=True).T))
        return Half(parts, None, 1.0)

    def between_features(self, k: FloatArray) -> FloatArray:
        """The same for all pairs of features at each row, ``(n, d, d)``."""
        (N, d), taken = self.h.shape, np.zeros((len(k), *self.T.shape))
        width = max(_NUMBERS_AT_ONCE // (N * d * d), 1)
        for start in range(0, len(k), width):
            some = slice(start, start + width)
            halves = [self.half(k[some], f).parts for f in range(d)]
            for parts in zip(*halves, strict=True):
                V = np.stack([part for _, part in parts], axis=1)
                taken[some] += parts[0][0] * (V @ V.transpose(0, 2, 1))
        return taken

    def solve_attributions(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The means ``(d,)`` and ``A^-1 (y - mean)``, ``(N, d)``."""
        y, mean = Y.T.reshape(-1, 1), np.zeros(Y.shape[1])
        if self.free_mean:
            white = solve_triangular(self._root, self._solved_ones.T @ y, lower=True)
            mean = solve_triangular(self._root, white, lower=True, trans="T")[:, 0]
            y = y - self._M @ mean[:, None]
        return mean, self.solve(y).reshape(Y.T.shape).T

    def left_out(self, solved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and their variance where each row in turn is left out, from ``A^-1 (y - mean)``."""
        blocks = self._inverse_blocks()
        if self.free_mean:
            white = solve_triangular(self._root, self._solved_ones.T, lower=True).reshape(-1, *self.h.T.shape)
            blocks = blocks - np.einsum("afi,agi->ifg", white, white, optimize=True)
        inverse = np.linalg.inv(blocks)
        return np.einsum("ifg,ig->if", inverse, solved), np.einsum("iff->if", inverse)


class CholeskyNoise(UnequalNoise):
    """From the Cholesky factor of the whole matrix."""

    def __init__(self, K: FloatArray, T: FloatArray, h: FloatArray, free_mean: bool) -> None:
        try:
            A = np.kron(T, K).T  # symmetric, and in the order that LAPACK overwrites
            A[np.diag_indices(len(A))] += h.T.ravel()
            self._L = cholesky(A, lower=True, overwrite_a=True)
        except LinAlgError as error:
            raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
        super().__init__(K, T, h, free_mean)
        self._half_T = self._half(np.asarray(np.kron(T, np.eye(len(K))).T, dtype=np.float64), overwrite=True)

    def _half(self, B: FloatArray, overwrite: bool = False) -> FloatArray:
        return np.asarray(solve_triangular(self._L, B, lower=True, overwrite_b=overwrite))

    def solve(self, B: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._L, self._half(B), lower=True, trans="T"))

    def _parts(self, k: FloatArray, f: int) -> tuple[tuple[float, FloatArray], ...]:
        N = len(self.K)
        return ((1.0, k @ self._half_T[:, f * N : (f + 1) * N].T),)

    def _inverse_blocks(self) -> FloatArray:
        inverse = self._half(np.eye(self.h.size)).reshape(-1, *self.h.T.shape)
        return np.asarray(np.einsum("afi,agi->ifg", inverse, inverse, optimize=True))


class IterativeNoise(UnequalNoise):
    """By conjugate gradients.

    The product of a row's and a feature's noise that is closest to ``h`` in the logarithm makes a matrix ``A_0`` whose
    inverse ``E E'`` has the Kronecker form. Solved is ``E' A E = I + E' (A - A_0) E``; ``A - A_0`` is diagonal.
    """

    def __init__(self, K: FloatArray, T: FloatArray, h: FloatArray, free_mean: bool) -> None:
        logarithm = np.log(h)
        by_feature = np.exp(logarithm.mean(axis=0))
        by_row = np.exp((logarithm - logarithm.mean(axis=0)).mean(axis=1))
        self._root_by_row = np.sqrt(by_row)[:, None]
        spectrum, rotation = Spectrum.of(K / self._root_by_row / self._root_by_row.T), Rotation.of(T, by_feature)
        self._Q, self._W = spectrum.Q, rotation.W
        self._root_w = 1.0 / np.sqrt(1.0 + rotation.values[:, None, None] * spectrum.values[:, None])
        self._rest = (h - np.outer(by_row, by_feature)).T[:, :, None]
        super().__init__(K, T, h, free_mean)

    def _apply(self, V: FloatArray) -> FloatArray:
        """``E V`` for ``V (d, N, m)``."""
        return np.asarray(np.tensordot(self._W, self._Q @ (self._root_w * V), 1) / self._root_by_row)

    def _apply_transposed(self, V: FloatArray) -> FloatArray:
        return np.asarray(self._root_w * np.tensordot(self._W.T, self._Q.T @ (V / self._root_by_row), 1))

    def _times(self, V: FloatArray) -> FloatArray:
        return V + self._apply_transposed(self._rest * self._apply(V))

    def solve(self, B: FloatArray) -> FloatArray:
        width, solved = max(_NUMBERS_AT_ONCE // self.h.size, 1), np.empty_like(B)
        for start in range(0, B.shape[1], width):
            some = slice(start, start + width)
            white = self._apply_transposed(B[:, some].reshape(*self.h.T.shape, -1))
            solved[:, some] = self._apply(_conjugate_gradients(self._times, white)).reshape(len(B), -1)
        return solved

    def _parts(self, k: FloatArray, f: int) -> tuple[tuple[float, FloatArray], ...]:
        # With s = A^-1 c and any a, 4 c_1' s_2 is (a s_1 + c_1 / a)' (a s_2 + c_2 / a) less the same with a minus.
        c = np.asarray(np.kron(self.T[:, [f]], k.T), dtype=np.float64)
        a = float(np.exp(np.log(self.h).mean() / 2))
        solved, c = a * self.solve(c).T, c.T / a
        return (0.25, solved + c), (-0.25, solved - c)

    def _inverse_blocks(self) -> FloatArray:
        (N, d), width = self.h.shape, max(_NUMBERS_AT_ONCE // self.h.size, 1)
        blocks = np.empty((N, d, d))
        for f in range(d):
            for start in range(0, N, width):
                rows = np.arange(start, min(start + width, N))
                column = rows - start
                unit = np.zeros((N * d, len(rows)))
                unit[f * N + rows, column] = 1.0
                blocks[rows, :, f] = self.solve(unit).reshape(d, N, -1)[:, rows, column].T
        return (blocks + blocks.transpose(0, 2, 1)) / 2


def _conjugate_gradients(times: Callable[[FloatArray], FloatArray], B: FloatArray) -> FloatArray:
    """Solutions for the right-hand sides ``B (d, N, m)``, each with steps of its own."""
    X, R, direction = np.zeros_like(B), B.copy(), B.copy()
    size = np.einsum("dnm,dnm->m", R, R)
    goal = size * _TOLERANCE**2
    for _ in range(_MOST_ITERATIONS):
        if (size <= goal).all():
            return X
        moved = times(direction)
        curvature = np.einsum("dnm,dnm->m", direction, moved)
        step = size / np.where(curvature > 0, curvature, np.inf)
        X += step * direction
        R -= step * moved
        before, size = size, np.einsum("dnm,dnm->m", R, R)
        direction *= size / np.where(before > 0, before, np.inf)
        direction += R
    raise NumericalError(
        f"Conjugate gradients did not converge in {_MOST_ITERATIONS} steps; add noise, explain fewer rows or use "
        "task_kernel=None."
    )
