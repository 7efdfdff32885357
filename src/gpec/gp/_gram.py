"""A kernel at some rows: its matrix, eigendecomposition and low-rank factor, and its values between them and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh, solve_triangular

from gpec.data import Rows
from gpec.kernels import Kernel
from gpec.kernels.base import Crosses, symmetric
from gpec.runtime.blocks import Lazy
from gpec.typing import FloatArray, IntArray


class Spectrum:
    """``K = Q diag(values) Q'``, with ``ones = Q' 1``; eigenvalues that rounding made negative are 0."""

    def __init__(self, K: FloatArray) -> None:
        values, self.Q = eigh(K, driver="evd")
        self.values, self.ones = np.maximum(values, 0.0), self.Q.sum(axis=0)


class Covariances:
    """A kernel between fixed rows and others; what features share is computed once."""

    def __init__(self, kernel: Kernel, rows: Rows, last: int | None = None) -> None:
        self.kernel, self.rows, self.last = kernel, rows, last

    @Lazy
    def cross(self) -> Crosses:
        """Function of rows ``x`` and then of the feature that gives ``k(x, X)`` and ``k(x, x)``."""
        return self.kernel.crosses_to(self.rows)

    @Lazy
    def _at_rows(self) -> Callable[[int | None], tuple[FloatArray, FloatArray]]:
        return self.cross(self.rows)

    def matrix(self, feature: int | None) -> FloatArray:
        """``k(X, X)`` of one feature; after the last one, what features share is freed."""
        K = symmetric(*self._at_rows(feature))
        if feature == self.last:
            vars(self).pop("_at_rows", None)
        return K

    def __getstate__(self) -> dict[str, Any]:  # functions cannot be pickled, but made again
        return {"kernel": self.kernel, "rows": self.rows, "last": self.last}


class Gram:
    """``k(X, X)`` of fixed rows, for one feature or, with ``feature=None``, for all.

    Grams of several features may share their ``covariances``.
    """

    residual = 0.0  # largest k(x, x) that the matrix leaves unexplained

    def __init__(
        self, kernel: Kernel, rows: Rows, feature: int | None = None, covariances: Covariances | None = None
    ) -> None:
        self.kernel, self.rows, self.feature = kernel, rows, feature
        self.covariances = covariances or Covariances(kernel, rows)

    @classmethod
    def of_matrix(cls, K: FloatArray) -> Gram:
        """A Gram matrix without its kernel and rows."""
        gram = cls.__new__(cls)
        vars(gram).update(matrix=K, feature=None)
        return gram

    @Lazy
    def matrix(self) -> FloatArray:
        return self.covariances.matrix(self.feature)

    @Lazy
    def spectrum(self) -> Spectrum:
        return Spectrum(self.matrix)

    def cross_covariance(self, k: FloatArray, diagonal: FloatArray) -> CrossCovariance:
        """With rows ``x``, from what the ``covariances`` give for them."""
        return CrossCovariance(k, diagonal, self)

    def project(self, k: FloatArray) -> FloatArray:
        """``k(x, X)`` in the basis of the eigenvectors."""
        return np.asarray(k @ self.spectrum.Q)

    @property
    def largest_eigenvalue(self) -> float:
        """Of the matrix; of one feature's its bound, the largest row sum of absolute values."""
        values = self.spectrum.values if self.feature is None else np.abs(self.matrix).sum(axis=1)
        return float(values.max())

    def forget(self) -> None:
        """Free what is computed again when it is needed: a matrix for each feature takes much memory."""
        if self.feature is not None:
            for name in ("matrix", "spectrum"):
                vars(self).pop(name, None)


class LowRankGram(Gram):
    """``k(X, X) = Z Z'`` to within ``residual``, with ``Z (N, q)`` lower triangular at the rows ``pivots``.

    With ``L = Z[pivots]`` the cross-covariance of rows ``x`` is ``z Z'``, ``z = L^-1 k(pivots, x)``.
    """

    def __init__(self, gram: Gram, pivots: IntArray, Z: FloatArray, residual: float) -> None:
        super().__init__(gram.kernel, gram.rows, gram.feature, Covariances(gram.kernel, gram.rows[pivots]))
        self.pivots, self.residual, self.L = pivots, residual, Z[pivots]
        vars(self)["Z"] = Z
        squares, self.V = eigh(Z.T @ Z, driver="evd")
        self.values = np.maximum(squares, 0.0)

    @Lazy
    def Z(self) -> FloatArray:
        return self.cross_covariance(*self.covariances.cross(self.rows)(self.feature)).k

    @property
    def largest_eigenvalue(self) -> float:
        return float(self.values.max())

    def forget(self) -> None:
        """``Z`` is computed again when it is needed."""
        vars(self).pop("Z", None)

    def cross_covariance(self, k: FloatArray, diagonal: FloatArray) -> CrossCovariance:
        """``z`` takes the place of ``k(x, X)``."""
        return CrossCovariance(np.asarray(solve_triangular(self.L, k.T, lower=True).T), diagonal, self)

    def project(self, k: FloatArray) -> FloatArray:
        return np.asarray(k @ self.V)


class CrossCovariance:
    """``k = k(x, X) (n, N)`` between rows ``x`` and those of a Gram matrix, and ``diagonal = k(x, x) (n,)``."""

    def __init__(self, k: FloatArray, diagonal: FloatArray, gram: Gram) -> None:
        self.k, self.diagonal, self._gram = k, diagonal, gram

    @Lazy
    def projected(self) -> FloatArray:
        """``k`` in the basis of the eigenvectors of the Gram matrix."""
        return self._gram.project(self.k)

    def at(self, some: IntArray) -> CrossCovariance:
        """With some of the rows ``X`` only."""
        return CrossCovariance(self.k[:, some], self.diagonal, self._gram)


def feature_grams(kernel: Kernel, rows: Rows, d: int) -> list[tuple[IntArray, Gram]]:
    """Features with the Gram matrix they share: all with one, unless the kernel differs by feature."""
    if not kernel.varies_by_feature:
        return [(np.arange(d), Gram(kernel, rows))]
    covariances = Covariances(kernel, rows, last=d - 1)
    return [(np.array([f]), Gram(kernel, rows, f, covariances)) for f in range(d)]
