r"""The algebra of the posterior for features that share a kernel matrix.

For one feature, with ``A = K + diag(h)`` in units of the output scale ``s`` and ``h = g + u / s``,

    V(x) / s = k(x, x) + g - k(X, x)' A^-1 k(X, x) + (1 - 1' A^-1 k(X, x))^2 / (1' A^-1 1),

the last term being the uncertainty of the constant mean (absent when the mean is fixed at 0). ``V`` splits into its
boundary part, the same with ``u = 0`` at the same parameters, and its noise part, the rest, which is never negative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from gpec.errors import NumericalError
from gpec.gp._gram import Gram
from gpec.gp.evidence import LARGEST_NOISE, LEAST_NUGGET, Parameters
from gpec.kernels.base import Cross
from gpec.typing import FloatArray, IntArray

__all__ = ["DenseSolver", "Half", "Near", "Pairs", "Prediction", "Solver"]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Posterior at some rows; all arrays ``(n, d)``, or ``(n, d, c)`` for several outputs."""

    mean: FloatArray
    boundary_variance: FloatArray
    noise_variance: FloatArray
    clamped: IntArray  # for each row, variances that rounding had made negative

    @property
    def variance(self) -> FloatArray:
        return self.boundary_variance + self.noise_variance

    @property
    def n_clamped(self) -> int:
        return int(np.sum(self.clamped))


@dataclass(frozen=True, eq=False)
class Near:
    """``k(x, X) (n, N)`` and ``k(x, x) (n,)`` of some rows ``x``."""

    cross: FloatArray
    diagonal: FloatArray


@dataclass(frozen=True, eq=False)
class Pairs:
    """Latent posterior at rows ``(n, d)``, at ``K`` rows similar to each ``(n, K, d)``, and between them."""

    mean: FloatArray
    similar_mean: FloatArray
    variance: FloatArray
    similar_variance: FloatArray
    covariance: FloatArray  # of a row with each similar one


@dataclass(frozen=True, eq=False)
class Half:
    """Half of what the explained rows take off the prior: it is a sum of products of such halves.

    ``parts`` are signs and arrays ``(n, q)``; ``gap`` is ``1 - 1' A^-1 k``, None where the mean is known.
    """

    parts: tuple[tuple[float, FloatArray], ...]
    gap: FloatArray | None
    precision: float

    def taken(self) -> FloatArray:
        """Between all rows, ``(n, n)``, less the uncertainty of the mean."""
        total = sum(sign * (V @ V.T) for sign, V in self.parts)
        return np.asarray(total if self.gap is None else total - np.outer(self.gap, self.gap) / self.precision)

    def size(self) -> FloatArray:
        """At each row, ``(n,)``."""
        total = sum(sign * np.einsum("ij,ij->i", V, V) for sign, V in self.parts)
        return np.asarray(total if self.gap is None else total - self.gap**2 / self.precision)

    def towards(self, other: Half) -> FloatArray:
        """Between each of ``n`` rows and its own ``K`` of the ``n K`` rows of another, ``(n, K)``."""
        n = len(self.parts[0][1])
        total = sum(
            sign * np.einsum("ij,ikj->ik", V, W.reshape(n, -1, W.shape[1]))
            for (sign, V), (_, W) in zip(self.parts, other.parts, strict=True)
        )
        if self.gap is None or other.gap is None:
            return np.asarray(total)
        return np.asarray(total - self.gap[:, None] * other.gap.reshape(n, -1) / self.precision)


class Solver(ABC):
    """Base of the solvers; ``Y``, ``U`` and parameters are those of the features that share a matrix."""

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float) -> None:
        self.feature = gram.feature  # None for features that all share the matrix
        self.parameters, self.free_mean = parameters, parameters.free_mean
        self.flat = parameters.scale == 0
        self.scale = np.where(self.flat, 1.0, parameters.scale)
        # ``h``: noise in units of the scale. The floor keeps a noise-free matrix invertible.
        with np.errstate(over="ignore"):
            noise = np.minimum(U / self.scale, LARGEST_NOISE)
        self.h = np.maximum(parameters.nugget + noise, LEAST_NUGGET) + jitter
        self.h_boundary = np.maximum(parameters.nugget, LEAST_NUGGET) + jitter
        self.noisy = U.any(axis=0)
        same = np.ptp(self.h, axis=0) == 0
        self.shared: IntArray = np.flatnonzero(same)
        varying = np.flatnonzero(~same)
        self.groups: list[IntArray] = []  # features of the same noise, which varies over the rows
        if len(varying):
            _, group = np.unique(self.h[:, varying], axis=1, return_inverse=True)
            self.groups = [varying[group.ravel() == i] for i in range(int(group.max()) + 1)]
        self.mean = np.zeros(Y.shape[1])
        self.condition = 1.0
        with np.errstate(divide="ignore", over="ignore"):
            self._flat_noise = 1.0 / (1.0 / U).sum(axis=0)  # variance of a mean of constants

    @property
    @abstractmethod
    def cross(self) -> Cross:
        """``k(x, X)`` and ``k(x, x)`` as a function of rows ``x``."""

    @abstractmethod
    def project(self, k: FloatArray) -> FloatArray:
        """``k(x, X)`` in the basis in which equal noise is diagonal; the methods below take both."""

    @abstractmethod
    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        """``k' A^-1 (y - m)``, ``(n, d)``."""

    @abstractmethod
    def equal(self, P: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``k' A^-1 k`` and the mean's uncertainty, both ``(n, d)``, for noise ``h (d,)`` equal over the rows."""

    @abstractmethod
    def varying(self, k: FloatArray, i: int) -> tuple[FloatArray, FloatArray, float]:
        """``k' A^-1 k (n,)``, ``1 - 1' A^-1 k (n,)`` and ``1' A^-1 1`` for the i-th group of features."""

    @abstractmethod
    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> Half:
        """What the explained rows say of feature ``f`` at rows, with their noise or as if they had none."""

    @abstractmethod
    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """``P y`` and the diagonal of ``P`` (see :mod:`gpec.gp.evidence`), both ``(N, d)``."""

    def predict(self, k: FloatArray, diagonal: FloatArray) -> Prediction:
        """Posterior at rows ``x`` from ``k(x, X)`` and ``k(x, x)``."""
        P = self.project(k)
        mean = self.mean + self.mean_at(k, P)
        boundary, clamped = self._variance(diagonal, *self.equal(P, self.h_boundary))
        noise = np.zeros_like(boundary)
        if self.noisy.any():
            total, clamped_too = self._variance(diagonal, *self._total(P, k))
            noise = np.where(self.noisy, np.maximum(total - boundary, 0.0), 0.0)
            clamped = clamped + clamped_too
        boundary *= self.scale
        noise *= self.scale
        if self.flat.any():
            mean[:, self.flat] = self.mean[self.flat]
            boundary[:, self.flat] = 0.0
            noise[:, self.flat] = np.where(self.noisy, self._flat_noise, 0.0)[self.flat]
        return Prediction(mean, boundary, noise, clamped)

    def covariance(self, k: FloatArray, K: FloatArray) -> FloatArray:
        """Joint latent covariance ``(n, n, d)`` of rows from ``k(x, X)`` and ``k(x, x')``, without the nugget."""
        P = self.project(k)
        parts = [s * (K - self.half(k, P, f, noisy=True).taken()) for f, s in enumerate(self.scale)]
        for f in np.flatnonzero(self.flat):
            parts[f] = np.full_like(K, self._flat_noise[f])  # one unknown constant
        return np.stack(parts, axis=-1)

    def pairs(self, k: Near, similar: Near, between: FloatArray, noisy: bool) -> Pairs:
        """Rows and the rows similar to each: ``k(x, X)`` and ``k(x, x)`` of both, and ``k(x, x') (n, K)``."""
        (n, K), d = between.shape, len(self.scale)
        variance, of_similar, covariance = np.empty((n, d)), np.empty((n, K, d)), np.empty((n, K, d))
        P, Q, U_noisy = self.project(k.cross), self.project(similar.cross), np.atleast_1d(self.noisy)
        for f, s in enumerate(self.scale):
            here, there = self.half(k.cross, P, f, noisy), self.half(similar.cross, Q, f, noisy)
            variance[:, f] = s * np.maximum(k.diagonal - here.size(), 0.0)
            of_similar[:, :, f] = s * np.maximum(similar.diagonal - there.size(), 0.0).reshape(n, K)
            covariance[:, :, f] = s * (between - here.towards(there))
            if self.flat[f]:
                constant = float(self._flat_noise[f]) if noisy and U_noisy[f] else 0.0
                variance[:, f], of_similar[:, :, f], covariance[:, :, f] = constant, constant, constant
        mean, mean_similar = self.mean + self.mean_at(k.cross, P), self.mean + self.mean_at(similar.cross, Q)
        mean[:, self.flat] = mean_similar[:, self.flat] = self.mean[self.flat]
        return Pairs(mean, mean_similar.reshape(n, K, d), variance, of_similar, covariance)

    def _total(self, P: FloatArray, k: FloatArray) -> tuple[FloatArray, FloatArray]:
        quadratic, of_mean = np.empty((len(k), len(self.scale))), np.zeros((len(k), len(self.scale)))
        if len(self.shared):
            quadratic[:, self.shared], of_mean[:, self.shared] = self.equal(P, self.h[0, self.shared])
        for i, group in enumerate(self.groups):
            part, gap, precision = self.varying(k, i)
            quadratic[:, group] = part[:, None]
            if self.free_mean:
                of_mean[:, group] = (gap**2 / precision)[:, None]
        return quadratic, of_mean

    def _half(self, parts: tuple[tuple[float, FloatArray], ...], gap: FloatArray, precision: float) -> Half:
        return Half(parts, gap if self.free_mean else None, precision)

    def _group_of(self, f: int) -> int | None:
        """The group of a feature whose noise varies over the rows."""
        return next((i for i, group in enumerate(self.groups) if f in group), None)

    def _variance(
        self, diagonal: FloatArray, quadratic: FloatArray, of_mean: FloatArray
    ) -> tuple[FloatArray, IntArray]:
        variance = diagonal[:, None] + self.parameters.nugget - quadratic + of_mean
        negative = variance < 0
        if negative.any():
            slack = 10 * self.condition * _EPS * float(diagonal.max())
            if variance.min() < -slack:
                row, f = np.unravel_index(int(variance.argmin()), variance.shape)
                name = f if self.feature is None else self.feature
                raise NumericalError(
                    f"The variance of feature {name} at row {row} came out as {variance[row, f]:.3g}, more than "
                    f"rounding explains (condition {self.condition:.2g}); add noise or use output_scale='evidence'."
                )
            variance = np.maximum(variance, 0.0)
        return variance, negative.sum(axis=1)


class DenseSolver(Solver):
    """From the dense kernel matrix.

    Noise that is the same for all rows shares one eigendecomposition of ``K`` between all features; other noise takes
    one Cholesky factor for each distinct column.
    """

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float) -> None:
        super().__init__(gram, Y, U, parameters, jitter)
        self.gram, N = gram, len(Y)
        spectrum = gram.spectrum
        least = float(self.h_boundary.min())
        self.condition = (float(spectrum.values.max()) + least) / least
        self._alpha = np.empty(Y.shape)
        shared, o = self.shared, spectrum.ones[:, None]
        w = 1.0 / (spectrum.values[:, None] + self.h[0, shared])
        z = spectrum.Q.T @ Y[:, shared]
        if self.free_mean:
            self.mean[shared] = (o * z * w).sum(axis=0) / (o**2 * w).sum(axis=0)
            z = z - o * self.mean[shared]
        self._alpha[:, shared] = spectrum.Q @ (z * w)
        self._factors: list[tuple[FloatArray, FloatArray]] = []
        for group in self.groups:
            try:
                L = cholesky(gram.matrix + np.diag(self.h[:, group[0]]), lower=True)
            except LinAlgError as error:
                raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
            ones = solve_triangular(L, np.ones(N), lower=True)
            white = solve_triangular(L, Y[:, group], lower=True)
            if self.free_mean:
                self.mean[group] = ones @ white / (ones @ ones)
                white = white - ones[:, None] * self.mean[group]
            self._alpha[:, group] = solve_triangular(L, white, lower=True, trans="T")
            self._factors.append((L, ones))

    @property
    def cross(self) -> Cross:
        return self.gram.cross

    def project(self, k: FloatArray) -> FloatArray:
        return k @ self.gram.spectrum.Q

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return k @ self._alpha

    def equal(self, P: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        spectrum = self.gram.spectrum
        w = 1.0 / (spectrum.values[:, None] + h)
        quadratic = P**2 @ w
        if not self.free_mean:
            return quadratic, np.zeros_like(quadratic)
        o = spectrum.ones
        return quadratic, (1.0 - P @ (o[:, None] * w)) ** 2 / (o**2 @ w)

    def varying(self, k: FloatArray, i: int) -> tuple[FloatArray, FloatArray, float]:
        L, ones = self._factors[i]
        white = solve_triangular(L, k.T, lower=True)
        return np.einsum("ij,ij->j", white, white), 1.0 - ones @ white, float(ones @ ones)

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> Half:
        i = self._group_of(f) if noisy else None
        if i is not None:
            L, ones = self._factors[i]
            white = solve_triangular(L, k.T, lower=True).T
            return self._half(((1.0, white),), 1.0 - white @ ones, float(ones @ ones))
        spectrum = self.gram.spectrum
        w = 1.0 / (spectrum.values + (self.h[0, f] if noisy else self.h_boundary[f]))
        return self._half(((1.0, P * np.sqrt(w)),), 1.0 - P @ (spectrum.ones * w), float(spectrum.ones**2 @ w))

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        spectrum, diagonal = self.gram.spectrum, np.empty_like(self._alpha)
        w = 1.0 / (spectrum.values[:, None] + self.h[0, self.shared])
        o = spectrum.ones[:, None]
        diagonal[:, self.shared] = spectrum.Q**2 @ w
        if self.free_mean:
            diagonal[:, self.shared] -= (spectrum.Q @ (o * w)) ** 2 / (o**2 * w).sum(axis=0)
        for group, (L, ones) in zip(self.groups, self._factors, strict=True):
            inverse = solve_triangular(L, np.eye(len(L)), lower=True)
            part = np.einsum("ij,ij->j", inverse, inverse)
            if self.free_mean:
                part -= (ones @ inverse) ** 2 / (ones @ ones)
            diagonal[:, group] = part[:, None]
        return self._alpha, diagonal
