r"""Exact posterior of the latent explanation (Eq. 2), with noise by row and feature.

For one feature, with ``A = K + diag(h)`` in units of the output scale ``s`` and ``h = g + u / s``,

    V(x) / s = k(x, x) + g - k(X, x)' A^-1 k(X, x) + (1 - 1' A^-1 k(X, x))^2 / (1' A^-1 1),

the last term being the uncertainty of the constant mean (absent when the mean is fixed at 0). ``V`` splits into its
boundary part, the same with ``u = 0`` at the same parameters, and its noise part, the rest, which is never negative.

Noise that is the same for all rows shares one eigendecomposition of ``K`` between all features; other noise takes one
Cholesky factor for each distinct column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from gpec.errors import NumericalError
from gpec.gp.evidence import LARGEST_NOISE, LEAST_NUGGET, Parameters
from gpec.table import FloatArray, IntArray

__all__ = ["JITTER", "ExactPosterior", "Posterior", "Prediction"]

JITTER = 1e-12
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Posterior at some rows; all arrays ``(n, d)``."""

    mean: FloatArray
    boundary_variance: FloatArray
    noise_variance: FloatArray
    n_clamped: int  # variances that rounding had made negative

    @property
    def variance(self) -> FloatArray:
        return self.boundary_variance + self.noise_variance


class Posterior(ABC):
    """Base of the posteriors.

    Attributes
    ----------
    parameters : Parameters
    mean : array of shape (d,)
        The constant mean of each feature.
    condition : float
        Largest condition number of a matrix that was inverted.
    """

    def __init__(self, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float) -> None:
        self.parameters = parameters
        self.flat = parameters.scale == 0
        scale = np.where(self.flat, 1.0, parameters.scale)
        self.scale = scale
        # ``h``: noise in units of the scale. The floor keeps a noise-free matrix invertible.
        with np.errstate(over="ignore"):
            noise = np.minimum(U / scale, LARGEST_NOISE)
        self.h = np.maximum(parameters.nugget + noise, LEAST_NUGGET) + jitter
        self.h_boundary = np.maximum(parameters.nugget, LEAST_NUGGET) + jitter
        self.noisy = U.any(axis=0)
        same = np.ptp(self.h, axis=0) == 0
        self.shared: IntArray = np.flatnonzero(same)
        varying = np.flatnonzero(~same)
        self.groups: list[IntArray] = []
        if len(varying):
            _, group = np.unique(self.h[:, varying], axis=1, return_inverse=True)
            self.groups = [varying[group.ravel() == i] for i in range(int(group.max()) + 1)]
        self.mean = np.zeros(Y.shape[1])
        self.condition = 1.0
        with np.errstate(divide="ignore", over="ignore"):
            self._flat_noise = 1.0 / (1.0 / U).sum(axis=0)  # variance of a mean of constants

    @abstractmethod
    def _quadratic(self, k: FloatArray, h: str) -> tuple[FloatArray, FloatArray]:
        """``k' A^-1 k`` and the mean's uncertainty ``(n, d)``; ``h`` is "boundary" (no noise) or "total"."""

    @abstractmethod
    def _mean_at(self, k: FloatArray) -> FloatArray:
        """``k' A^-1 (y - m)``, ``(n, d)``."""

    def predict(self, k: FloatArray, diagonal: FloatArray) -> Prediction:
        """Posterior at rows ``x`` from ``k(x, X)`` and ``k(x, x)``."""
        mean = self.mean + self._mean_at(k)
        boundary, clamped = self._variance(k, diagonal, "boundary")
        noise = np.zeros_like(boundary)
        if self.noisy.any():
            total, clamped_too = self._variance(k, diagonal, "total")
            noise = np.where(self.noisy, np.maximum(total - boundary, 0.0), 0.0)
            clamped += clamped_too
        boundary *= self.scale
        noise *= self.scale
        if self.flat.any():
            mean[:, self.flat] = self.mean[self.flat]
            boundary[:, self.flat] = 0.0
            noise[:, self.flat] = np.where(self.noisy, self._flat_noise, 0.0)[self.flat]
        return Prediction(mean, boundary, noise, clamped)

    def _variance(self, k: FloatArray, diagonal: FloatArray, h: str) -> tuple[FloatArray, int]:
        quadratic, of_mean = self._quadratic(k, h)
        variance = diagonal[:, None] + self.parameters.nugget - quadratic + of_mean
        negative = variance < 0
        if negative.any():
            slack = 10 * self.condition * _EPS * float(diagonal.max())
            if variance.min() < -slack:
                row, f = np.unravel_index(int(variance.argmin()), variance.shape)
                raise NumericalError(
                    f"The variance of feature {f} at row {row} came out as {variance[row, f]:.3g}, more than rounding "
                    f"explains (condition {self.condition:.2g}); add noise or use output_scale='evidence'."
                )
            variance = np.maximum(variance, 0.0)
        return variance, int(negative.sum())


class ExactPosterior(Posterior):
    """Exact posterior from the dense kernel matrix.

    Parameters
    ----------
    K : array of shape (N, N)
        Kernel matrix of the explained rows.
    Y, U : arrays of shape (N, d)
        Attributions and their noise variance.
    parameters : Parameters
        Scale, nugget and whether the mean is free.
    jitter : float
        Added to the diagonal, in units of the scale.
    """

    def __init__(
        self, K: FloatArray, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float = JITTER
    ) -> None:
        super().__init__(Y, U, parameters, jitter)
        N, d = Y.shape
        eigenvalues, self._Q = eigh(K, driver="evd")
        self._eigenvalues = np.maximum(eigenvalues, 0.0)[:, None]
        self._o = self._Q.sum(axis=0)
        self._inverse = {"boundary": 1.0 / (self._eigenvalues + self.h_boundary)}
        largest = float(self._eigenvalues.max())
        self.condition = (largest + float(self.h_boundary.min())) / float(self.h_boundary.min())
        self._alpha = np.empty((N, d))
        shared = self.shared
        self._inverse["total"] = 1.0 / (self._eigenvalues + self.h[0, shared])
        z = self._Q.T @ Y[:, shared]
        if parameters.free_mean:
            w = self._inverse["total"]
            self.mean[shared] = (self._o[:, None] * z * w).sum(axis=0) / (self._o**2 @ w)
            z = z - self._o[:, None] * self.mean[shared]
        self._alpha[:, shared] = self._Q @ (z * self._inverse["total"])
        self._factors: list[tuple[IntArray, FloatArray, FloatArray]] = []
        for group in self.groups:
            try:
                L = cholesky(K + np.diag(self.h[:, group[0]]), lower=True)
            except LinAlgError as error:
                raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
            ones = solve_triangular(L, np.ones(N), lower=True)
            white = solve_triangular(L, Y[:, group], lower=True)
            if parameters.free_mean:
                self.mean[group] = ones @ white / (ones @ ones)
                white = white - ones[:, None] * self.mean[group]
            self._alpha[:, group] = solve_triangular(L, white, lower=True, trans="T")
            self._factors.append((group, L, ones))

    def _mean_at(self, k: FloatArray) -> FloatArray:
        return k @ self._alpha

    def _quadratic(self, k: FloatArray, h: str) -> tuple[FloatArray, FloatArray]:
        n, d = len(k), len(self.scale)
        quadratic, of_mean = np.empty((n, d)), np.zeros((n, d))
        features = np.arange(d) if h == "boundary" else self.shared
        if len(features):
            w = self._inverse[h]
            P = k @ self._Q
            quadratic[:, features] = P**2 @ w
            if self.parameters.free_mean:
                of_mean[:, features] = (1.0 - P @ (self._o[:, None] * w)) ** 2 / (self._o**2 @ w)
        if h == "total":
            for group, L, ones in self._factors:
                white = solve_triangular(L, k.T, lower=True)
                quadratic[:, group] = np.einsum("ij,ij->j", white, white)[:, None]
                if self.parameters.free_mean:
                    of_mean[:, group] = ((1.0 - ones @ white) ** 2 / (ones @ ones))[:, None]
        return quadratic, of_mean
