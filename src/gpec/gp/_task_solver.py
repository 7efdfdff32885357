"""The posterior of dependent features that share a kernel matrix; see :mod:`gpec.gp._kronecker` for the algebra."""

from __future__ import annotations

import numpy as np

from gpec.gp._gram import Gram
from gpec.gp._kronecker import CholeskyNoise, EqualNoise, IterativeNoise, UnequalNoise
from gpec.gp._solver import Half, Solver
from gpec.gp.evidence import Parameters
from gpec.kernels.base import Cross
from gpec.typing import FloatArray

__all__ = ["TaskSolver"]

_DENSE_SIZE = 6_000  # rows times features up to which noise that varies over the rows takes a Cholesky factor: 0.6 GB


class TaskSolver(Solver):
    """Features with correlation ``T (d, d)`` between them, each of a scale greater than 0.

    Attributions are in units of the root of their feature's scale inside.
    """

    def __init__(
        self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters, jitter: float, T: FloatArray
    ) -> None:
        super().__init__(gram, Y, U, parameters, jitter)
        self.gram, self.T = gram, T
        self.noisy = np.full(len(T), self.noisy.any())  # noise of one feature makes the others uncertain
        spectrum, root = gram.spectrum, np.sqrt(self.scale)
        least = float(self.h_boundary.min())
        largest = float(spectrum.values.max()) * float(np.linalg.eigvalsh(T).max())
        self.condition = (largest + least) / least
        self._boundary = self._total_noise = EqualNoise(spectrum, T, self.h_boundary)
        self._unequal: UnequalNoise | None = None
        if len(self.shared) == len(T):
            self.groups = []
            if self.noisy.any():
                self._total_noise = EqualNoise(spectrum, T, self.h[0])
            mean, self._solved = self._total_noise.solve(Y / root, self.free_mean)
            weights = self._solved @ self._total_noise.rotation.TW.T
        else:
            self.shared, self.groups = np.arange(0), [np.array([f]) for f in range(len(T))]
            noise = CholeskyNoise if self.h.size <= _DENSE_SIZE else IterativeNoise
            self._unequal = noise(gram.matrix, T, self.h, self.free_mean)
            mean, self._solved = self._unequal.solve_attributions(Y / root)
            weights = self._solved @ T
        self.mean = mean * root
        self._weights = weights * root

    @property
    def cross(self) -> Cross:
        return self.gram.cross

    def project(self, k: FloatArray) -> FloatArray:
        return k @ self.gram.spectrum.Q

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return k @ self._weights

    def equal(self, P: FloatArray, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        noise = self._boundary if h is self.h_boundary else self._total_noise
        taken = noise.taken(P)
        return taken, noise.of_mean(P) if self.free_mean else np.zeros_like(taken)

    def varying(self, k: FloatArray, i: int) -> tuple[FloatArray, FloatArray, float]:
        # the uncertainty of the means is in the half already
        return self.half(k, k, i, noisy=True).size(), np.zeros(len(k)), 1.0

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> Half:
        if noisy and self._unequal is not None:
            return self._unequal.half(k, f)
        return (self._total_noise if noisy else self._boundary).half(P, f, self.free_mean)

    def between_features(self, k: FloatArray, diagonal: FloatArray) -> FloatArray:
        """Joint latent covariance ``(n, d, d)`` of the features at each row, without the nugget."""
        if self._unequal is not None:
            taken = self._unequal.between_features(k)
        else:
            taken = self._total_noise.between_features(self.project(k), self.free_mean)
        root = np.sqrt(self.scale)
        return np.asarray((self.T * diagonal[:, None, None] - taken) * root[:, None] * root)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        if self._unequal is None:
            residual, variance = self._total_noise.left_out(self._solved, self.free_mean)
        else:
            residual, variance = self._unequal.left_out(self._solved)
        return residual * np.sqrt(self.scale) / variance, 1.0 / variance
