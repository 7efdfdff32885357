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
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from gpec.errors import NumericalError
from gpec.gp._gram import Gram
from gpec.gp.evidence import LARGEST_NOISE, LEAST_NUGGET, Parameters
from gpec.kernels.base import Cross
from gpec.typing import BoolArray, FloatArray, IntArray

__all__ = [
    "JITTER",
    "Cholesky",
    "CrossCovariance",
    "DenseSolver",
    "PairPosterior",
    "Prediction",
    "Solver",
    "SpectralSolver",
    "VarianceFactor",
]

# ``k(x, X) (n, N)`` and ``k(x, x) (n,)`` of some rows ``x``.
CrossCovariance = tuple[FloatArray, FloatArray]

JITTER = 1e-12  # added to the diagonal, in units of the scale
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
class PairPosterior:
    """Latent posterior at rows ``(n, d)``, at ``K`` rows similar to each ``(n, K, d)``, and between them."""

    mean: FloatArray
    similar_mean: FloatArray
    variance: FloatArray
    similar_variance: FloatArray
    covariance: FloatArray  # of a row with each similar one


class VarianceFactor:
    """Factor V of the variance reduction: the explained rows lower the prior covariance by ``V V'``.

    ``parts`` are signs and arrays ``(n, q)``; that of an unknown mean has a minus.
    """

    def __init__(self, *parts: tuple[float, FloatArray]) -> None:
        self.parts = parts

    def taken(self) -> FloatArray:
        """Between all rows, ``(n, n)``, less the uncertainty of the mean."""
        return np.asarray(sum(sign * (V @ V.T) for sign, V in self.parts))

    def size(self) -> FloatArray:
        """At each row, ``(n,)``."""
        return np.asarray(sum(sign * np.einsum("ij,ij->i", V, V) for sign, V in self.parts))

    def towards(self, other: VarianceFactor) -> FloatArray:
        """Between each of ``n`` rows and its own ``K`` of the ``n K`` rows of another, ``(n, K)``."""
        products = [
            sign * np.einsum("ij,ikj->ik", V, W.reshape(len(V), -1, W.shape[1]))
            for (sign, V), (_, W) in zip(self.parts, other.parts, strict=True)
        ]
        return np.asarray(sum(products))


class Cholesky:
    """``A``, by its lower factor ``L``, of attributions whose means are unknown factors of the columns of ``M``.

    ``A (N, N)`` is overwritten. ``M (N, m)`` has a column of ones, or none where the mean is known; for dependent
    features one for each.
    """

    def __init__(self, A: FloatArray, M: FloatArray) -> None:
        try:
            self.L = cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError as error:
            raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
        self.W = self.white(M)
        self.root = cholesky(self.W.T @ self.W, lower=True)  # of M' A^-1 M

    @classmethod
    def of(cls, K: FloatArray, h: FloatArray, free_mean: bool) -> Cholesky:
        """``A = K + diag(h)``."""
        A = K.copy()
        A[np.diag_indices(len(A))] += h
        return cls(A, np.ones((len(A), int(free_mean))))

    def white(self, B: FloatArray) -> FloatArray:
        """``L^-1 B``."""
        return np.asarray(solve_triangular(self.L, B, lower=True, check_finite=False))

    def solve(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The means ``(m, d)`` and ``A^-1 (y - M mean)``, ``(N, d)``."""
        white = self.white(Y)
        mean = cho_solve((self.root, True), self.W.T @ white)
        return mean, solve_triangular(self.L, white - self.W @ mean, lower=True, trans="T")

    def half(self, white: FloatArray, mean: FloatArray | float = 1.0) -> VarianceFactor:
        """From ``(L^-1 k')'`` of rows whose mean is ``mean`` of those of ``M``."""
        if not len(self.root):
            return VarianceFactor((1.0, white))
        gap = solve_triangular(self.root, (mean - white @ self.W).T, lower=True).T
        return VarianceFactor((1.0, white), (-1.0, gap))

    def inverse(self) -> VarianceFactor:
        """Halves of ``P``."""
        return self.half(self.white(np.eye(len(self.L))).T, mean=0.0)


class Solver(ABC):
    """Base of the solvers; ``Y``, ``U`` and parameters are those of the features that share a matrix."""

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters) -> None:
        self.feature = gram.feature  # None for features that all share the matrix
        self.parameters, self.free_mean = parameters, parameters.free_mean
        self.flat = parameters.scale == 0
        self.scale = np.where(self.flat, 1.0, parameters.scale)
        # ``h``: noise in units of the scale. The floor keeps a noise-free matrix invertible.
        with np.errstate(over="ignore"):
            noise = np.minimum(U / self.scale, LARGEST_NOISE)
        self.h = np.maximum(parameters.nugget + noise, LEAST_NUGGET) + JITTER
        self.h_boundary = np.maximum(parameters.nugget, LEAST_NUGGET) + JITTER
        self.noisy: BoolArray = np.asarray(U.any(axis=0))
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
    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> VarianceFactor:
        """What the explained rows say of feature ``f`` at rows, with their noise or as if they had none."""

    @abstractmethod
    def taken(self, k: FloatArray, P: FloatArray, noisy: bool) -> FloatArray:
        """The size of :meth:`half` for all features, ``(n, d)``."""

    @abstractmethod
    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """``P y`` and the diagonal of ``P`` (see :mod:`gpec.gp.evidence`), both ``(N, d)``."""

    def predict(self, k: FloatArray, diagonal: FloatArray) -> Prediction:
        """Posterior at rows ``x`` from ``k(x, X)`` and ``k(x, x)``."""
        P = self.project(k)
        mean = self.mean + self.mean_at(k, P)
        boundary, clamped = self._variance(diagonal, self.taken(k, P, noisy=False))
        noise = np.zeros_like(boundary)
        if self.noisy.any():
            total, clamped_too = self._variance(diagonal, self.taken(k, P, noisy=True))
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

    def pairs(
        self, near: CrossCovariance, near_similar: CrossCovariance, between: FloatArray, noisy: bool
    ) -> PairPosterior:
        """Rows and the rows similar to each: ``k(x, X)`` and ``k(x, x)`` of both, and ``k(x, x') (n, K)``."""
        (n, K), d = between.shape, len(self.scale)
        variance, of_similar, covariance = np.empty((n, d)), np.empty((n, K, d)), np.empty((n, K, d))
        (k, diagonal), (q, diagonal_of_similar) = near, near_similar
        P, Q = self.project(k), self.project(q)
        for f, s in enumerate(self.scale):
            here, there = self.half(k, P, f, noisy), self.half(q, Q, f, noisy)
            variance[:, f] = s * np.maximum(diagonal - here.size(), 0.0)
            of_similar[:, :, f] = s * np.maximum(diagonal_of_similar - there.size(), 0.0).reshape(n, K)
            covariance[:, :, f] = s * (between - here.towards(there))
            if self.flat[f]:
                constant = float(self._flat_noise[f]) if noisy and self.noisy[f] else 0.0
                variance[:, f], of_similar[:, :, f], covariance[:, :, f] = constant, constant, constant
        mean, mean_similar = self.mean + self.mean_at(k, P), self.mean + self.mean_at(q, Q)
        mean[:, self.flat] = mean_similar[:, self.flat] = self.mean[self.flat]
        return PairPosterior(mean, mean_similar.reshape(n, K, d), variance, of_similar, covariance)

    def _variance(self, diagonal: FloatArray, taken: FloatArray) -> tuple[FloatArray, IntArray]:
        variance = diagonal[:, None] + self.parameters.nugget - taken
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


class SpectralSolver(Solver):
    """Features in a basis in which ``K`` is diagonal.

    Noise that is the same for all rows shares one eigendecomposition between all features; other noise takes one
    Cholesky factor for each distinct column.
    """

    values: FloatArray  # eigenvalues (q, 1)
    ones: FloatArray  # a one for each row, in the basis (q, 1)

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters) -> None:
        super().__init__(gram, Y, U, parameters)
        same = np.ptp(self.h, axis=0) == 0
        self.shared, varying = np.flatnonzero(same), np.flatnonzero(~same)
        self.groups: list[IntArray] = []  # features of the same noise, which varies over the rows
        if len(varying):
            _, group = np.unique(self.h[:, varying], axis=1, return_inverse=True)
            self.groups = [varying[group.ravel() == i] for i in range(int(group.max()) + 1)]

    @abstractmethod
    def _ones_times(self, z: FloatArray, total: FloatArray | int, h: FloatArray) -> FloatArray:
        """``1' A^-1 y`` from ``y`` in the basis ``(q, d)`` and its sum."""

    @abstractmethod
    def _weights(self, h: FloatArray) -> FloatArray:
        """What squares of ``P`` count, ``(q, d)``."""

    @abstractmethod
    def _half_of_group(self, k: FloatArray, i: int) -> VarianceFactor:
        """:meth:`half` of features whose noise varies over the rows."""

    def _solve_shared(self, z: FloatArray, total: FloatArray) -> FloatArray:
        """``A^-1 (y - mean)`` in the basis, for the features of equal noise; their means on the way."""
        shared, h = self.shared, self.h[0, self.shared]
        if self.free_mean:
            self.mean[shared] = self._ones_times(z, total, h) / self._precision(h)
        return np.asarray((z - self.ones * self.mean[shared]) / (self.values + h))

    def _precision(self, h: FloatArray) -> FloatArray:
        """``1' A^-1 1``."""
        return self._ones_times(self.ones, len(self.h), h)

    def _gap(self, P: FloatArray, h: FloatArray) -> FloatArray:
        """``1 - 1' A^-1 k``, ``(n, d)``."""
        return np.asarray(1.0 - P @ (self.ones / (self.values + h)))

    def taken(self, k: FloatArray, P: FloatArray, noisy: bool) -> FloatArray:
        found, shared = np.empty((len(k), len(self.scale))), self.shared if noisy else np.arange(len(self.scale))
        if len(shared):
            h = self.h[0, shared] if noisy else self.h_boundary
            found[:, shared] = P**2 @ self._weights(h)
            if self.free_mean:
                found[:, shared] -= self._gap(P, h) ** 2 / self._precision(h)
        for i, group in enumerate(self.groups if noisy else ()):
            found[:, group] = self._half_of_group(k, i).size()[:, None]
        return found

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> VarianceFactor:
        i = next((i for i, group in enumerate(self.groups) if noisy and f in group), None)
        if i is not None:
            return self._half_of_group(k, i)
        h = self.h[0, [f]] if noisy else self.h_boundary[[f]]
        part = (1.0, P * np.sqrt(self._weights(h)[:, 0]))
        return (
            VarianceFactor(part, (-1.0, self._gap(P, h) / np.sqrt(self._precision(h))))
            if self.free_mean
            else VarianceFactor(part)
        )


class DenseSolver(SpectralSolver):
    """From the dense kernel matrix."""

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters) -> None:
        super().__init__(gram, Y, U, parameters)
        self.gram, Q = gram, gram.spectrum.Q
        self.values, self.ones = gram.spectrum.values[:, None], gram.spectrum.ones[:, None]
        least = float(self.h_boundary.min())
        self.condition = (float(self.values.max()) + least) / least
        self._alpha = np.empty(Y.shape)
        y = Y[:, self.shared]
        self._alpha[:, self.shared] = Q @ self._solve_shared(Q.T @ y, y.sum(axis=0))
        self._factors = [Cholesky.of(gram.matrix, self.h[:, group[0]], self.free_mean) for group in self.groups]
        for group, factor in zip(self.groups, self._factors, strict=True):
            mean, self._alpha[:, group] = factor.solve(Y[:, group])
            self.mean[group] = mean.sum(axis=0)  # 0 where it is known

    @property
    def cross(self) -> Cross:
        return self.gram.cross

    def project(self, k: FloatArray) -> FloatArray:
        return k @ self.gram.spectrum.Q

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return k @ self._alpha

    def _ones_times(self, z: FloatArray, total: FloatArray | int, h: FloatArray) -> FloatArray:
        return np.asarray((self.ones * z / (self.values + h)).sum(axis=0))

    def _weights(self, h: FloatArray) -> FloatArray:
        return 1.0 / (self.values + h)

    def _half_of_group(self, k: FloatArray, i: int) -> VarianceFactor:
        return self._factors[i].half(self._factors[i].white(k.T).T)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        Q, diagonal, h = self.gram.spectrum.Q, np.empty_like(self._alpha), self.h[0, self.shared]
        diagonal[:, self.shared] = Q**2 @ self._weights(h)
        if self.free_mean:
            diagonal[:, self.shared] -= (Q @ (self.ones * self._weights(h))) ** 2 / self._precision(h)
        for group, factor in zip(self.groups, self._factors, strict=True):
            diagonal[:, group] = factor.inverse().size()[:, None]
        return self._alpha, diagonal
