"""The algebra of the posterior for a feature that has a kernel matrix of its own."""

from __future__ import annotations

import numpy as np

from gpec.data.rows import evenly_spaced
from gpec.gp._gram import Gram
from gpec.gp._solver import Cholesky, Solver, VarianceFactor
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

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters) -> None:
        super().__init__(gram, Y, U, parameters)
        self.gram, N = gram, len(Y)
        self._factors = self._few_factors = self._both(gram.matrix, self.h[:, 0])
        self._few = evenly_spaced(N, N if N <= _EXACT_VARIANCES else _VARIANCE_ROWS)
        if len(self._few) < N:
            self._few_factors = self._both(gram.matrix[np.ix_(self._few, self._few)], self.h[self._few, 0])
        mean, self._alpha = self._factors[True].solve(Y)
        self.mean = mean.sum(axis=0)  # 0 where it is known
        # the largest eigenvalue of a matrix is at most its largest row sum of absolute values
        least = float(self.h_boundary[0])
        self.condition = (float(np.abs(gram.matrix).sum(axis=1).max()) + least) / least

    def _both(self, K: FloatArray, h: FloatArray) -> dict[bool, Cholesky]:
        """Factor of ``K + diag(h)``: with noise, and without."""
        noisy = Cholesky.of(K, h, self.free_mean)
        boundary = np.full(len(h), self.h_boundary[0])
        return {True: noisy, False: Cholesky.of(K, boundary, self.free_mean) if self.noisy.any() else noisy}

    @property
    def cross(self) -> Cross:
        return self.gram.cross

    def project(self, k: FloatArray) -> FloatArray:
        return k

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return np.asarray(k @ self._alpha)

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> VarianceFactor:
        return self._factors[noisy].half(self._factors[noisy].white(k.T).T)

    def taken(self, k: FloatArray, P: FloatArray, noisy: bool) -> FloatArray:
        few = k if self._few_factors is self._factors else k[:, self._few]
        factor = self._few_factors[noisy]
        return factor.half(factor.white(few.T).T).size()[:, None]

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        diagonal = self._factors[True].inverse().size()
        if self._few_factors is self._factors:
            return self._alpha, diagonal[:, None]
        # the residual is that of all rows, its variance that from few, as it is predicted elsewhere
        K = self.gram.matrix
        variance = np.diag(K) - self.taken(K, K, noisy=True)[:, 0] + self.h[:, 0]
        variance[self._few] = 1.0 / self._few_factors[True].inverse().size()
        return self._alpha / (diagonal * variance)[:, None], 1.0 / variance[:, None]
