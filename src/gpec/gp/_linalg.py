r"""Linear algebra of Gaussian process regression (Rasmussen & Williams, "R&W", Alg. 2.1 and section 2.7).

A covariance ``A = K + diag(h)`` of the attributions at ``N`` explained rows has the methods

    inv_quad(u, v)   u' A^-1 v
    logdet()         log|A|
    solve(v)         A^-1 v
    diag_inv()       the diagonal of A^-1
    reduction(cross) k(x, X) A^-1 k(X, x): by how much the attributions lower the prior variance at rows x
    factor(cross)    V with k(x, X) A^-1 k(X, x') = V V', a VarianceFactor
    weights(v)       the coefficients c with cross.k @ c = k(x, X) A^-1 v

Vectors ``v`` are columns in the coordinates of the covariance, to which ``coordinates`` converts values at the rows.
An implementation may hold several covariances, one for each column. :class:`FlatMean` adds an unknown constant mean
to any of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg import cho_solve, cholesky, eigh, solve_triangular

from gpec.errors import NumericalError
from gpec.gp._gram import CrossCovariance, LowRankGram, Spectrum
from gpec.runtime.blocks import Lazy
from gpec.typing import FloatArray


class VarianceFactor:
    """Factor V of the variance reduction: the explained rows lower the prior covariance by ``V V'``.

    ``parts`` are signs and arrays ``(n, q)``; the part of an unknown mean has a minus.
    """

    def __init__(self, *parts: tuple[float, FloatArray]) -> None:
        self.parts = parts

    def matrix(self) -> FloatArray:
        """The reduction between all rows, ``(n, n)``."""
        return np.asarray(sum(sign * (V @ V.T) for sign, V in self.parts))

    def diagonal(self) -> FloatArray:
        """The reduction at each row, ``(n,)``."""
        return np.asarray(sum(sign * np.einsum("ij,ij->i", V, V) for sign, V in self.parts))

    def paired(self, other: VarianceFactor) -> FloatArray:
        """The reduction between each of ``n`` rows and its own ``K`` of the ``n K`` rows of another, ``(n, K)``."""
        products = [
            sign * np.einsum("ij,ikj->ik", V, W.reshape(len(V), -1, W.shape[1]))
            for (sign, V), (_, W) in zip(self.parts, other.parts, strict=True)
        ]
        return np.asarray(sum(products))


class Covariance(ABC):
    """Base of the covariances."""

    ones: FloatArray  # the vector of ones, a column

    def coordinates(self, y: FloatArray) -> FloatArray:
        return y

    def reduction(self, cross: CrossCovariance) -> FloatArray:
        return self.factor(cross).diagonal()[:, None]

    @abstractmethod
    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        """``V`` with ``k(x, X) A^-1 k(X, x') = V V'``."""


class Spectral(Covariance):
    """``A_j = t_j K + h_j I`` by ``K = Q diag(q) Q'``: all columns share the eigenvectors. Coordinates are ``Q' y``."""

    def __init__(self, spectrum: Spectrum, h: FloatArray | float, t: FloatArray | float = 1.0) -> None:
        self.spectrum, self.t, self.ones = spectrum, t, spectrum.ones[:, None]
        self.w = 1.0 / (spectrum.values[:, None] * t + h)

    def coordinates(self, y: FloatArray) -> FloatArray:
        return np.asarray(self.spectrum.Q.T @ y)

    def inv_quad(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray((u * v * self.w).sum(axis=0))

    def logdet(self) -> FloatArray:
        return np.asarray(-np.log(self.w).sum(axis=0))

    def solve(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.spectrum.Q @ (self.w * v))

    def weights(self, v: FloatArray) -> FloatArray:
        return self.t * self.solve(v)

    def diag_inv(self) -> FloatArray:
        return np.asarray(self.spectrum.Q**2 @ self.w)

    def reduction(self, cross: CrossCovariance) -> FloatArray:
        return np.asarray(cross.projected**2 @ self.squared)

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        return VarianceFactor((1.0, cross.projected * np.sqrt(self.squared[:, column])))

    @Lazy
    def squared(self) -> FloatArray:
        """The weights of squared cross-covariances."""
        return np.asarray(self.t**2 * self.w)


class Cholesky(Covariance):
    """``A = K + diag(h) = L L'`` (R&W, Alg. 2.1, line 2). Coordinates are ``L^-1 y``."""

    def __init__(self, K: FloatArray, h: FloatArray) -> None:
        A = K.copy()
        A[np.diag_indices(len(A))] += h
        try:
            self.L = cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError as error:
            raise NumericalError("The kernel matrix with noise is not positive definite; add noise.") from error
        self.ones = self.whiten(np.ones((len(A), 1)))

    def whiten(self, y: FloatArray) -> FloatArray:
        """``L^-1 y``."""
        return np.asarray(solve_triangular(self.L, y, lower=True, check_finite=False))

    coordinates = whiten

    def inv_quad(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray((u * v).sum(axis=0))

    def solve(self, v: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self.L, v, lower=True, trans="T"))

    weights = solve

    def diag_inv(self) -> FloatArray:
        inverse = self.whiten(np.eye(len(self.L)))
        return np.asarray(np.einsum("ij,ij->j", inverse, inverse))[:, None]

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        return VarianceFactor((1.0, self.whiten(cross.k.T).T))


class _LowRank(Covariance):
    """``A = Z Z' + D``, ``D = diag(h)``, by Woodbury's formula.

    ``A^-1 = D^-1 - D^-1 Z S^-1 Z' D^-1`` with ``S = I + Z' D^-1 Z``. Rows have the cross-covariance ``z Z'``, and
    ``cross.k`` is ``z``.
    """

    def __init__(self, gram: LowRankGram, h: FloatArray) -> None:
        self.gram, self.h, self.ones = gram, h, np.ones((len(gram.rows), 1))

    @abstractmethod
    def weights(self, v: FloatArray) -> FloatArray:
        """``S^-1 Z' D^-1 v``."""

    @abstractmethod
    def inv_quad_S(self, Z: FloatArray) -> FloatArray:
        """``z S^-1 z'`` of each row of ``Z``."""

    def inv_quad(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray((u * self.solve(v)).sum(axis=0))

    def solve(self, v: FloatArray) -> FloatArray:
        return np.asarray((v - self.gram.Z @ self.weights(v)) / self.h)

    def diag_inv(self) -> FloatArray:
        return np.asarray((1.0 - self.inv_quad_S(self.gram.Z) / self.h) / self.h)


class LowRankSpectral(_LowRank):
    """Noise ``h (d,)`` that is the same at all rows: all columns share the eigenvectors of ``Z' Z = V diag(q) V'``."""

    def __init__(self, gram: LowRankGram, h: FloatArray) -> None:
        super().__init__(gram, h)
        self.w = 1.0 / (gram.values[:, None] + h)

    def weights(self, v: FloatArray) -> FloatArray:
        V = self.gram.V
        return np.asarray(V @ (self.w * (V.T @ (self.gram.Z.T @ v))))

    def inv_quad_S(self, Z: FloatArray) -> FloatArray:
        return np.asarray(self.gram.project(Z) ** 2 @ (self.h * self.w))

    def reduction(self, cross: CrossCovariance) -> FloatArray:
        return np.asarray(cross.projected**2 @ (self.gram.values[:, None] * self.w))

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        return VarianceFactor((1.0, cross.projected * np.sqrt(self.gram.values * self.w[:, column])))


class LowRankCholesky(_LowRank):
    """Noise ``h (N,)`` of its own at each row, ``S = R R'``."""

    def __init__(self, gram: LowRankGram, h: FloatArray) -> None:
        super().__init__(gram, h[:, None])
        self.R = cholesky(np.eye(len(gram.values)) + gram.Z.T @ (gram.Z / self.h), lower=True)

    def weights(self, v: FloatArray) -> FloatArray:
        return np.asarray(cho_solve((self.R, True), self.gram.Z.T @ (v / self.h)))

    def inv_quad_S(self, Z: FloatArray) -> FloatArray:
        whitened = solve_triangular(self.R, Z.T, lower=True)
        return np.asarray(np.einsum("ij,ij->j", whitened, whitened))[:, None]

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        return VarianceFactor((1.0, cross.k), (-1.0, solve_triangular(self.R, cross.k.T, lower=True).T))


class FlatMean:
    """Attributions of covariance ``A`` whose constant mean is unknown, with a flat prior (R&W, section 2.7).

    ``P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)`` takes the place of ``A^-1``. With ``free=False`` the mean is known to be
    0, which is a mean of infinite precision, and ``P = A^-1``.
    """

    def __init__(self, A: Any, free: bool = True) -> None:
        self.A, self.free = A, free
        self.precision: FloatArray = A.inv_quad(A.ones, A.ones) if free else np.array([np.inf])

    def mean(self, v: FloatArray) -> FloatArray:
        """The estimate of the mean (R&W, Eq. 2.42, with a flat prior)."""
        return np.asarray(self.A.inv_quad(self.A.ones, v) / self.precision)

    def residual(self, v: FloatArray) -> FloatArray:
        return np.asarray(v - self.A.ones * self.mean(v))

    def inv_quad(self, v: FloatArray) -> FloatArray:
        """``y' P y``."""
        residual = self.residual(v)
        return np.asarray(self.A.inv_quad(residual, residual))

    def logdet(self) -> FloatArray:
        """``log|A| + log(1' A^-1 1)`` (R&W, Eq. 2.45)."""
        return np.asarray(self.A.logdet() + (np.log(self.precision) if self.free else 0.0))

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean, and the weights of ``cross.k`` in the prediction beyond it, ``A^-1 (y - mean)``."""
        v = self.A.coordinates(y)
        return self.mean(v), self.A.weights(self.residual(v))

    @Lazy
    def _weights_of_mean(self) -> FloatArray:
        return np.asarray(self.A.weights(self.A.ones))

    def prepare(self) -> None:
        """Compute now what predictions need, before the memory of the explained rows is freed."""
        self._weights_of_mean  # noqa: B018

    def gap(self, cross: CrossCovariance) -> FloatArray:
        """``R = 1 - k(x, X) A^-1 1`` (R&W, Eq. 2.42)."""
        return np.asarray(1.0 - cross.k @ self._weights_of_mean)

    def variance_reduction(self, cross: CrossCovariance) -> FloatArray:
        """``k A^-1 k' - R^2 / (1' A^-1 1)`` at each row (R&W, Eqs. 2.26 and 2.42)."""
        reduction: FloatArray = self.A.reduction(cross)
        return reduction - self.gap(cross) ** 2 / self.precision if self.free else reduction

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        """The same between rows, for one column."""
        V: VarianceFactor = self.A.factor(cross, column)
        if not self.free:
            return V
        one = [column % len(self.precision)]  # all columns may share one covariance
        return self._add_mean(V, 1.0 - cross.k @ self._weights_of_mean[:, one], self.precision[one])

    def _add_mean(self, V: VarianceFactor, gap: FloatArray, precision: FloatArray) -> VarianceFactor:
        """The factor with the uncertainty of the mean, which lowers the reduction."""
        return VarianceFactor(*V.parts, (-1.0, gap / np.sqrt(precision)))

    def diag(self) -> FloatArray:
        """The diagonal of ``P``."""
        return np.asarray(self.A.diag_inv() - self.A.solve(self.A.ones) ** 2 / self.precision)

    def leave_one_out(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals and their variance, each row predicted from all others (R&W, Eq. 5.12)."""
        diagonal = self.diag()
        solved = self.A.solve(self.residual(self.A.coordinates(y)))
        return solved / diagonal, 1.0 / diagonal


class Kronecker(FlatMean):
    r"""Dependent features that share a kernel matrix, with noise ``h (d,)`` that is the same at all rows.

    One feature after the other, the covariance is ``A = T (x) K + H (x) I`` with the correlation ``T`` between features
    and ``H = diag(h)``. With ``H^-1/2 T H^-1/2 = V diag(t) V'`` and ``W = H^-1/2 V``,

        A^-1 = (W (x) Q) diag(1 / (1 + t q)) (W (x) Q)'.

    So the columns of ``Y W`` are independent, with covariances ``t_j K + I``, and each feature is a sum of them with
    the coefficients in a row of ``back = W^-T``.
    """

    def __init__(self, spectrum: Spectrum, T: FloatArray, h: FloatArray, free: bool) -> None:
        root = np.sqrt(h)[:, None]
        t, V = eigh(T / root / root.T, driver="evd")
        self.W, self.back = V / root, V * root
        super().__init__(Spectral(spectrum, 1.0, np.maximum(t, 0.0)), free)

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, weights = super().fit(y @ self.W)
        return self.back @ mean, weights @ self.back.T

    def variance_reduction(self, cross: CrossCovariance) -> FloatArray:
        return np.asarray(super().variance_reduction(cross) @ (self.back**2).T)

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        of_column = self.back[column]
        V = VarianceFactor((1.0, cross.projected * np.sqrt(self.A.squared @ of_column**2)))
        return self._add_mean(V, self.gap(cross) * of_column, self.precision) if self.free else V

    def leave_one_out(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        residual, variance = super().leave_one_out(y @ self.W)
        return residual @ self.back.T, variance @ (self.back**2).T


class JointFlatMean(FlatMean):
    """The same with noise ``h (N, d)`` that varies over the rows: the Cholesky factor of the whole matrix ``A``.

    The mean of each feature is a column of ``M = I (x) 1``. With ``M' A^-1 M = R R'`` the columns of ``M R^-T`` do not
    depend on each other, and each is projected out as the column of ones is elsewhere.
    """

    def __init__(self, K: FloatArray, T: FloatArray, h: FloatArray, free: bool) -> None:
        self.T, (N, d) = T, h.shape
        A = Cholesky(np.asarray(np.kron(T, K), dtype=np.float64), h.T.ravel())
        W = A.whiten(np.asarray(np.kron(np.eye(d), np.ones((N, 1))), dtype=np.float64))
        self.unit = solve_triangular(cholesky(W.T @ W, lower=True), np.eye(d), lower=True)  # R^-1
        A.ones = W @ self.unit.T
        super().__init__(A, free)
        self._whitened = A.whiten(np.asarray(np.kron(T, np.eye(N)), dtype=np.float64))

    def residual(self, v: FloatArray) -> FloatArray:
        return np.asarray(v - (self.A.ones * self.mean(v)).sum(axis=1, keepdims=True))

    def fit(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        v = self.A.whiten(y.T.reshape(-1, 1))
        return self.mean(v) @ self.unit, self._solved(v).T @ self.T

    def _solved(self, v: FloatArray) -> FloatArray:
        return np.asarray(self.A.solve(self.residual(v)).reshape(len(self.T), -1))

    def variance_reduction(self, cross: CrossCovariance) -> FloatArray:
        return np.stack([self.factor(cross, f).diagonal() for f in range(len(self.T))], axis=1)

    def factor(self, cross: CrossCovariance, column: int = 0) -> VarianceFactor:
        N = cross.k.shape[1]
        return self._projected(cross.k @ self._whitened[:, column * N : (column + 1) * N].T, self.unit[:, column])

    def _projected(self, V: FloatArray, unit: FloatArray | float) -> VarianceFactor:
        factor = VarianceFactor((1.0, V))
        return self._add_mean(factor, unit - V @ self.A.ones, self.precision) if self.free else factor

    def leave_one_out(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """All features of a row are left out together, so that blocks of ``P`` take the place of its diagonal."""
        factor = self._projected(self.A.whiten(np.eye(y.size)).T, 0.0)
        parts = [(sign, V.reshape(*y.T.shape, -1)) for sign, V in factor.parts]
        inverse = np.linalg.inv(sum(sign * np.einsum("fia,gia->ifg", V, V, optimize=True) for sign, V in parts))
        solved = self._solved(self.A.whiten(y.T.reshape(-1, 1)))
        return np.einsum("ifg,gi->if", inverse, solved), np.einsum("iff->if", inverse)
