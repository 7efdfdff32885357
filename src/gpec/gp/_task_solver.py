"""The posterior of dependent features that share a kernel matrix; see :mod:`gpec.gp._kronecker` for the algebra."""

from __future__ import annotations

import numpy as np

from gpec.errors import InputError
from gpec.gp._gram import Gram
from gpec.gp._kronecker import EqualNoise
from gpec.gp._solver import Cholesky, Solver, VarianceFactor
from gpec.gp.evidence import Parameters
from gpec.kernels.base import Cross
from gpec.typing import FloatArray

__all__ = ["TaskSolver"]

_LARGEST = 6_000  # rows times features whose noise varies over the rows: their matrices take 0.6 GB


class TaskSolver(Solver):
    """Features with correlation ``T (d, d)`` between them, each of a scale greater than 0.

    Attributions are in units of the root of their feature's scale inside.
    """

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters, T: FloatArray) -> None:
        super().__init__(gram, Y, U, parameters)
        self.gram, self.T = gram, T
        self.noisy = np.full(len(T), self.noisy.any())  # noise of one feature makes the others uncertain
        spectrum, root = gram.spectrum, np.sqrt(self.scale)
        least = float(self.h_boundary.min())
        largest = float(spectrum.values.max()) * float(np.linalg.eigvalsh(T).max())
        self.condition = (largest + least) / least
        self._boundary = self._total_noise = EqualNoise(spectrum, T, self.h_boundary)
        self._unequal: Cholesky | None = None
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
            N, d = Y.shape  # one feature after the other; the mean of each is a column of ones
            A = np.asarray(np.kron(T, gram.matrix), dtype=np.float64)
            M = np.asarray(np.kron(np.eye(d), np.ones((N, int(self.free_mean)))), dtype=np.float64)
            A[np.diag_indices(len(A))] += self.h.T.ravel()
            self._unequal = Cholesky(A, M)
            self._white_T = self._unequal.white(np.asarray(np.kron(T, np.eye(N)), dtype=np.float64))
            means, solved = self._unequal.solve((Y / root).T.reshape(-1, 1))
            mean, self._solved = means[:, 0] if self.free_mean else np.zeros(d), solved.reshape(d, N).T
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
            return np.stack([self.half(k, P, f, noisy).size() for f in range(len(self.T))], axis=1)
        return (self._total_noise if noisy else self._boundary).taken(P, self.free_mean)

    def half(self, k: FloatArray, P: FloatArray, f: int, noisy: bool) -> VarianceFactor:
        if noisy and self._unequal is not None:
            N = len(self.h)
            return self._unequal.half(k @ self._white_T[:, f * N : (f + 1) * N].T, mean=np.eye(len(self.T))[f])
        return (self._total_noise if noisy else self._boundary).half(P, f, self.free_mean)

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        if self._unequal is None:
            residual, variance = self._total_noise.left_out(self._solved, self.free_mean)
        else:
            halves = [(sign, V.reshape(*self.h.T.shape, -1)) for sign, V in self._unequal.inverse().parts]
            blocks = sum(sign * np.einsum("fia,gia->ifg", V, V, optimize=True) for sign, V in halves)  # of each row
            inverse = np.linalg.inv(blocks)
            residual, variance = np.einsum("ifg,ig->if", inverse, self._solved), np.einsum("iff->if", inverse)
        return residual * np.sqrt(self.scale) / variance, 1.0 / variance
