r"""The same posterior from kernel features, for many explained rows.

Rows ``p`` (pivots) are drawn in blocks with chances proportional to what the kernel at the earlier ones leaves
unexplained, until nothing is: then ``K = Z Z'`` to within ``tolerance``, with ``Z = K_Xp L^-T`` and ``L L' = K_pp``.
With ``z = L^-1 k(p, x)`` and ``S = I + Z' D^-1 Z``, ``D = diag(h)``,

    k' (K + D)^-1 k = |z|^2 - z' S^-1 z,

which costs ``N q^2`` instead of ``N^3`` for ``q`` pivots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpstrf

from gpec.gp._gram import Gram
from gpec.gp._solver import Solver, SpectralSolver, VarianceFactor
from gpec.gp.evidence import Parameters
from gpec.gp.posterior import Posterior
from gpec.kernels import Kernel
from gpec.kernels.base import Cross
from gpec.typing import FloatArray, IntArray

__all__ = ["LowRankPosterior"]

_BLOCK = 1_024


class LowRankPosterior(Posterior):
    """Posterior from at most ``max_rank`` kernel features.

    Parameters
    ----------
    kernel, rows, Y, U, parameters
        See :class:`Posterior`.
    seed : int
        Of the draw of pivots.
    tolerance : float
        Largest ``k(x, x)`` left unexplained at an explained row.
    max_rank : int
        Most features; ``residual`` tells what they leave unexplained, which is then added to the noise.

    Attributes
    ----------
    n_pivots : int
        The rows whose kernel functions are the features.
    residual : float
        Largest ``k(x, x)`` left unexplained at an explained row.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Any,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
        *,
        seed: int = 0,
        tolerance: float = 1e-9,
        max_rank: int = 4_096,
    ) -> None:
        self.seed, self.tolerance, self.max_rank = seed, tolerance, max_rank
        super().__init__(kernel, rows, Y, U, parameters)

    def _solver(self, features: IntArray, gram: Gram) -> Solver:
        rng = np.random.default_rng(self.seed)  # the same pivots for each feature, and after loading
        found = _features(gram, self.tolerance, self.max_rank, rng)
        return _LowRankSolver(gram, *found, self.Y[:, features], self.U[:, features], self.parameters.of(features))

    @property
    def n_pivots(self) -> int:
        return max(len(solver.pivots) for solver in self._solvers if isinstance(solver, _LowRankSolver))

    @property
    def residual(self) -> float:
        return max(solver.residual for solver in self._solvers if isinstance(solver, _LowRankSolver))


class _LowRankSolver(SpectralSolver):
    """From features ``Z (N, q)`` with ``Z[pivots]`` lower triangular; the basis is that of ``Z' Z``."""

    def __init__(
        self,
        gram: Gram,
        pivots: IntArray,
        Z: FloatArray,
        residual: float,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
    ) -> None:
        super().__init__(gram, Y, U, parameters)
        self.pivots, self.residual, self._Y = pivots, residual, Y
        self._to_pivots = Gram(gram.kernel, gram.rows[pivots], gram.feature)
        self._rows = gram.rows
        # What the features leave unexplained counts as noise of every row, so that too few of them widen the answer.
        self.h = self.h + residual
        self.h_boundary = self.h_boundary + residual
        self._L = Z[pivots]  # lower triangular by construction
        squares, self._V = eigh(Z.T @ Z, driver="evd")
        self.values, self.ones = np.maximum(squares, 0.0)[:, None], (self._V.T @ Z.sum(axis=0))[:, None]
        least = float(self.h_boundary.min())
        self.condition = (float(self.values.max()) + least) / least
        self._beta = np.empty((Z.shape[1], Y.shape[1]))
        y = Y[:, self.shared]
        self._beta[:, self.shared] = self._V @ self._solve_shared(self._V.T @ (Z.T @ y), y.sum(axis=0))
        self._factors: list[tuple[FloatArray, FloatArray, float]] = []
        for group in self.groups:
            weight = 1.0 / self.h[:, group[0]]
            weighted = Z * weight[:, None]
            R = cholesky(np.eye(len(squares)) + Z.T @ weighted, lower=True)
            b = solve_triangular(R, weighted.sum(axis=0), lower=True)
            precision_of_mean = float(weight.sum() - b @ b)
            projected = solve_triangular(R, weighted.T @ Y[:, group], lower=True)
            if self.free_mean:
                self.mean[group] = (weight @ Y[:, group] - b @ projected) / precision_of_mean
                projected = projected - b[:, None] * self.mean[group]
            self._beta[:, group] = solve_triangular(R, projected, lower=True, trans="T")
            self._factors.append((R, solve_triangular(R, b, lower=True, trans="T"), precision_of_mean))

    @property
    def cross(self) -> Cross:
        return self._to_pivots.cross

    def _ones_times(self, z: FloatArray, total: FloatArray | int, h: FloatArray) -> FloatArray:
        return np.asarray((total - (self.ones * z / (self.values + h)).sum(axis=0)) / h)

    def _weights(self, h: FloatArray) -> FloatArray:
        return self.values / (self.values + h)

    def _z(self, k: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._L, k.T, lower=True).T)

    def project(self, k: FloatArray) -> FloatArray:
        return np.asarray(self._z(k) @ self._V)

    def mean_at(self, k: FloatArray, P: FloatArray) -> FloatArray:
        return np.asarray(P @ (self._V.T @ self._beta))

    def _half_of_group(self, k: FloatArray, i: int) -> VarianceFactor:
        (R, u, precision), z = self._factors[i], self._z(k)
        white = solve_triangular(R, z.T, lower=True).T
        parts = ((1.0, z), (-1.0, white))
        return (
            VarianceFactor(*parts, (-1.0, (1.0 - z @ u)[:, None] / np.sqrt(precision)))
            if self.free_mean
            else VarianceFactor(*parts)
        )

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        weighted, diagonal, h = np.empty_like(self._Y), np.empty_like(self._Y), self.h[0, self.shared]
        for start in range(0, len(self._Y), _BLOCK):
            block = slice(start, start + _BLOCK)
            z = self._z(self.cross(self._rows[block])[0])
            P = z @ self._V
            weighted[block] = (self._Y[block] - self.mean - z @ self._beta) / self.h[block]
            diagonal[block, self.shared] = (1.0 - P**2 @ (1.0 / (self.values + h))) / h
            if self.free_mean:
                diagonal[block, self.shared] -= (self._gap(P, h) / h) ** 2 / self._precision(h)
            for group, (R, u, precision) in zip(self.groups, self._factors, strict=True):
                noise = self.h[block, group[0]]
                white = solve_triangular(R, z.T, lower=True)
                part = (1.0 - np.einsum("ij,ij->j", white, white) / noise) / noise
                if self.free_mean:
                    part -= ((1.0 - z @ u) / noise) ** 2 / precision
                diagonal[block, group] = part[:, None]
        return weighted, diagonal


def _features(
    gram: Gram, tolerance: float, max_rank: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, float]:
    """Pivots, features ``Z (N, q)`` with ``Z[pivots]`` lower triangular, and the largest residual."""
    kernel, rows = gram.kernel, gram.rows
    residual = kernel.diag(rows, gram.feature).copy()
    pivots = np.empty(0, dtype=np.int64)
    Z = np.empty((len(rows), 0))
    while len(pivots) < max_rank and residual.max() > tolerance:
        chance = np.maximum(residual, 0.0)
        chance[chance <= tolerance] = 0.0
        size = min(_BLOCK, max_rank - len(pivots), int((chance > 0).sum()))
        drawn = rng.choice(len(rows), size, replace=False, p=chance / chance.sum())
        columns = kernel.cross_to(rows[drawn], gram.feature)(rows)[0] - Z @ Z[drawn].T
        # Pivoted Cholesky of the block leaves out rows that others of the block explain.
        C, order, rank, _ = dpstrf((columns[drawn] + columns[drawn].T) / 2, lower=1, tol=tolerance)
        if rank == 0:
            break
        kept = order[:rank] - 1
        L = np.tril(C[:rank, :rank])
        fresh = solve_triangular(L, columns[:, kept].T, lower=True).T
        fresh[drawn[kept]] = L
        Z = np.hstack((Z, fresh))
        pivots = np.concatenate((pivots, drawn[kept]))
        residual -= np.einsum("ij,ij->i", fresh, fresh)
        residual[pivots] = 0.0
    # Entries above the diagonal are 0 but for rounding.
    Z[pivots] = np.tril(Z[pivots])
    return pivots, Z, float(max(residual.max(), 0.0))
