"""The posterior of dependent features that share a kernel matrix; see :mod:`gpec.gp._kronecker` for the algebra."""

from __future__ import annotations

import numpy as np

from gpec.errors import InputError
from gpec.gp._gram import Gram
from gpec.gp._kronecker import EqualNoise, UnequalNoise
from gpec.gp._solver import Half, Solver
from gpec.gp.evidence import Parameters
from gpec.kernels.base import Cross
from gpec.typing import FloatArray

__all__ = ["TaskSolver"]

_LARGEST = 6_000  # rows times features whose noise varies over the rows: their matrices take 0.6 GB


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
        if not np.ptp(self.h, axis=0).any():
            if self.noisy.any():
                self._total_noise = EqualNoise(spectrum, T, self.h[0])
            mean, self._solved = self._total_noise.solve(Y / root, self.free_mean)
            weights = self._solved @ self._total_noise.rotation.TW.T
        else:
            if self.h.size > _LARGEST:
                raise InputError(
                    f"task_kernel takes at most {_LARGEST:,} rows times dependent features where the noise differs "
                    f"between rows, got {len(Y):,} x {len(T):,} = {Y.size:,}; explain fewer rows, set noise to a "
                    "number or 'none', or use task_kernel=None."
                )
            self._unequal = UnequalNoise(gram.matrix, T, self.h, self.free_mean)
            mean, self._solved = self._unequal.solve(Y / root)
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

    def taken(self, k: FloatArray, P: FloatArray, noisy: bool) -> FloatArray:
        if noisy and self._unequal is not None:
            return np.stack([self._unequal.half(k, f).size() for f in range(len(self.T))], axis=1)
        return (self._total_noise if noisy else self._boundary).taken(P, self.free_mean)

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> Half:
        if noisy and self._unequal is not None:
            return self._unequal.half(k, f)
        return (self._total_noise if noisy else self._boundary).half(P, f, self.free_mean)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        if self._unequal is None:
            residual, variance = self._total_noise.left_out(self._solved, self.free_mean)
        else:
            residual, variance = self._unequal.left_out(self._solved)
        return residual * np.sqrt(self.scale) / variance, 1.0 / variance
