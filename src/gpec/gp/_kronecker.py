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
from scipy.linalg import eigh

from gpec.gp._gram import Spectrum
from gpec.gp._solver import VarianceFactor
from gpec.typing import FloatArray

__all__ = ["EqualNoise", "Rotation"]


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

    def half(self, P: FloatArray, f: int, free_mean: bool) -> VarianceFactor:
        """The same for one feature at several rows."""
        taken = (1.0, P * np.sqrt(self.w @ self.rotation.TW[f] ** 2))
        of_mean = (-1.0, self._gap(P) * (self.rotation.back[f] / np.sqrt(self.precision)))
        return VarianceFactor(taken, of_mean) if free_mean else VarianceFactor(taken)

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
