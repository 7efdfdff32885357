"""The algebra of the posterior for a feature that has a kernel matrix of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from gpec.data.rows import evenly_spaced
from gpec.gp._gram import Gram
from gpec.gp._solver import Half, Solver
from gpec.gp.evidence import Parameters
from gpec.kernels.base import Cross
from gpec.typing import FloatArray

__all__ = ["OneFeatureSolver"]

_EXACT_VARIANCES = 1_000  # rows up to which variances are predicted from all of them
_VARIANCE_ROWS = 500  # from which they are predicted beyond


class OneFeatureSolver(Solver):
    """From the dense kernel matrix of one feature: a Cholesky factor, and another as if there were no noise.

    A variance takes the square of the number of rows it is predicted from. Beyond 1,000 rows it is predicted from 500
    of them, evenly spaced: never smaller than from all, and calibrated like any other. The mean is that of all rows.
    """

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float) -> None:
        super().__init__(gram, Y, U, parameters, jitter)
        self.gram = gram
        N = len(Y)
        self._factors = self._both(slice(None))
        self._few = evenly_spaced(N, N if N <= _EXACT_VARIANCES else _VARIANCE_ROWS)
        self._few_factors = self._factors if len(self._few) == N else self._both(self._few)
        L, ones = self._factors[True]
        white = solve_triangular(L, Y[:, 0], lower=True)
        if self.free_mean:
            self.mean[0] = ones @ white / (ones @ ones)
            white = white - ones * self.mean[0]
        self._alpha = solve_triangular(L, white, lower=True, trans="T")[:, None]
        # the largest eigenvalue of a matrix is at most its largest row sum of absolute values
        least = float(self.h_boundary[0])
        self.condition = (float(np.abs(gram.matrix).sum(axis=1).max()) + least) / least

    def _both(self, some: Any) -> dict[bool, tuple[FloatArray, FloatArray]]:
        """Factor of ``K + diag(h)`` over some rows, and ``L^-1 1``: with noise, and without."""
        h = self.h[some, 0]
        K = self.gram if isinstance(some, slice) else Gram.of_matrix(self.gram.matrix[np.ix_(some, some)])

        def factor(h: FloatArray) -> tuple[FloatArray, FloatArray]:
            L = np.ascontiguousarray(K.cholesky(h))
            return L, solve_triangular(L, np.ones(len(L)), lower=True)

        noisy = factor(h)
        return {True: noisy, False: factor(np.full(len(h), self.h_boundary[0])) if self.noisy.any() else noisy}

    @property
    def cross(self) -> Cross:
        return self.gram.cross

    def project(self, k: FloatArray) -> FloatArray:
        return k

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return np.asarray(k @ self._alpha)

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> Half:
        return self._half_of(k, self._factors[noisy])

    def _half_of(self, k: FloatArray, factor: tuple[FloatArray, FloatArray]) -> Half:
        L, ones = factor
        white = solve_triangular(L, k.T, lower=True, check_finite=False).T
        return self._half(((1.0, white),), 1.0 - white @ ones, float(ones @ ones))

    def equal(self, P: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._sizes(P, noisy=False)

    def _total(self, P: FloatArray, k: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self._sizes(k, noisy=True)

    def _sizes(self, k: FloatArray, noisy: bool) -> tuple[FloatArray, FloatArray]:
        few = k if self._few_factors is self._factors else k[:, self._few]
        quadratic = self._half_of(few, self._few_factors[noisy]).size()[:, None]
        return quadratic, np.zeros_like(quadratic)

    def varying(self, k: FloatArray, i: int) -> tuple[FloatArray, FloatArray, float]:
        return self._sizes(k, noisy=True)[0][:, 0], np.zeros(len(k)), 1.0  # the mean's uncertainty is in it already

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        diagonal = self._precisions(self._factors[True])
        if self._few_factors is self._factors:
            return self._alpha, diagonal[:, None]
        # the residual is that of all rows, its variance that from few, as it is predicted elsewhere
        K = self.gram.matrix
        variance = np.diag(K) - self._sizes(K, noisy=True)[0][:, 0] + self.h[:, 0]
        variance[self._few] = 1.0 / self._precisions(self._few_factors[True])
        return self._alpha / (diagonal * variance)[:, None], 1.0 / variance[:, None]

    def _precisions(self, factor: tuple[FloatArray, FloatArray]) -> FloatArray:
        """The diagonal of ``P``."""
        L, ones = factor
        inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        diagonal = np.einsum("ij,ij->j", inverse, inverse)
        return np.asarray(diagonal - (ones @ inverse) ** 2 / (ones @ ones) if self.free_mean else diagonal)
