r"""The same posterior from kernel features, for many explained rows.

Rows ``p`` (pivots) are drawn in blocks with chances proportional to what the kernel at the earlier ones leaves
unexplained, until nothing is: then ``K = Z Z'`` to within ``tolerance``, with ``Z = K_Xp L^-T`` and ``L L' = K_pp``.
With ``z = L^-1 k(p, x)`` and ``S = I + Z' D^-1 Z``, ``D = diag(h)``,

    k' (K + D)^-1 k = |z|^2 - z' S^-1 z,

which costs ``N q^2`` instead of ``N^3`` for ``q`` pivots.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpstrf

from gpec.gp.evidence import Parameters
from gpec.gp.regression import JITTER, Posterior
from gpec.kernels import Kernel
from gpec.table import FloatArray, IntArray

__all__ = ["LowRankPosterior"]

_BLOCK = 1_024


class LowRankPosterior(Posterior):
    """Posterior from at most ``max_rank`` kernel features.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel.
    X : array of shape (N, D)
        Explained rows, in the kernel's space.
    Y, U : arrays of shape (N, d)
        Attributions and their noise variance.
    parameters : Parameters
        Scale, nugget and whether the mean is free.
    tolerance : float
        Largest ``k(x, x)`` left unexplained at an explained row.
    max_rank : int
        Most features; ``residual`` tells what they leave unexplained, which is then added to the noise.

    Attributes
    ----------
    pivots : int array of shape (q,)
        The rows whose kernel functions are the features.
    residual : float
        Largest ``k(x, x)`` left unexplained at an explained row.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: FloatArray,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
        *,
        rng: np.random.Generator,
        tolerance: float = 1e-9,
        max_rank: int = 4_096,
        jitter: float = JITTER,
    ) -> None:
        super().__init__(Y, U, parameters, jitter)
        self.pivots, Z, self.residual = _features(kernel, X, tolerance, max_rank, rng)
        # What the features leave unexplained counts as noise of every row, so that too few of them widen the answer.
        self.h += self.residual
        self.h_boundary += self.residual
        self._L = Z[self.pivots]  # lower triangular by construction
        q, d = Z.shape[1], Y.shape[1]
        squares, self._V = eigh(Z.T @ Z, driver="evd")
        self._squares = np.maximum(squares, 0.0)[:, None]
        smallest = float(self.h_boundary.min())
        self.condition = (float(self._squares.max()) + smallest) / smallest
        self._o = self._V.T @ Z.sum(axis=0)
        self._n = len(X)
        self._beta = np.empty((q, d))
        shared = self.shared
        h = self.h[0, shared]
        shrink = 1.0 / (self._squares + h)  # S^-1 D^-1 in the basis V
        if parameters.free_mean:
            z = self._V.T @ (Z.T @ Y[:, shared])
            precision = (self._n - self._o**2 @ shrink) / h
            self.mean[shared] = (Y[:, shared].sum(axis=0) - self._o @ (shrink * z)) / h / precision
        self._beta[:, shared] = self._V @ (shrink * (self._V.T @ (Z.T @ (Y[:, shared] - self.mean[shared]))))
        self._factors: list[tuple[IntArray, FloatArray, FloatArray, float]] = []
        for group in self.groups:
            weight = 1.0 / self.h[:, group[0]]
            weighted = Z * weight[:, None]
            R = cholesky(np.eye(q) + Z.T @ weighted, lower=True)
            b = solve_triangular(R, weighted.sum(axis=0), lower=True)
            precision_of_mean = float(weight.sum() - b @ b)
            projected = solve_triangular(R, weighted.T @ Y[:, group], lower=True)
            if parameters.free_mean:
                self.mean[group] = (weight @ Y[:, group] - b @ projected) / precision_of_mean
                projected = projected - b[:, None] * self.mean[group]
            self._beta[:, group] = solve_triangular(R, projected, lower=True, trans="T")
            u = solve_triangular(R, b, lower=True, trans="T")
            self._factors.append((group, R, u, precision_of_mean))

    def _mean_at(self, k: FloatArray) -> FloatArray:
        return self._z(k) @ self._beta

    def _quadratic(self, k: FloatArray, h: str) -> tuple[FloatArray, FloatArray]:
        z = self._z(k)
        n, d = len(k), len(self.scale)
        squared = np.einsum("ij,ij->i", z, z)[:, None]
        quadratic, of_mean = np.empty((n, d)), np.zeros((n, d))
        features = np.arange(d) if h == "boundary" else self.shared
        if len(features):
            noise = self.h_boundary if h == "boundary" else self.h[0, features]
            P = z @ self._V
            shrink = 1.0 / (self._squares + noise)
            quadratic[:, features] = P**2 @ (self._squares * shrink)
            if self.parameters.free_mean:
                precision = (self._n - self._o**2 @ shrink) / noise
                of_mean[:, features] = (1.0 - P @ (self._o[:, None] * shrink)) ** 2 / precision
        if h == "total":
            for group, R, u, precision_of_mean in self._factors:
                white = solve_triangular(R, z.T, lower=True)
                quadratic[:, group] = squared - np.einsum("ij,ij->j", white, white)[:, None]
                if self.parameters.free_mean:
                    of_mean[:, group] = ((1.0 - z @ u) ** 2 / precision_of_mean)[:, None]
        return quadratic, of_mean

    def _z(self, k: FloatArray) -> FloatArray:
        return np.asarray(solve_triangular(self._L, k.T, lower=True).T)


def _features(
    kernel: Kernel, X: FloatArray, tolerance: float, max_rank: int, rng: np.random.Generator
) -> tuple[IntArray, FloatArray, float]:
    """Pivots, features ``Z (N, q)`` with ``Z[pivots]`` lower triangular, and the largest residual."""
    residual = kernel.diag(X).copy()
    pivots = np.empty(0, dtype=np.int64)
    Z = np.empty((len(X), 0))
    while len(pivots) < max_rank and residual.max() > tolerance:
        chance = np.maximum(residual, 0.0)
        chance[chance <= tolerance] = 0.0
        size = min(_BLOCK, max_rank - len(pivots), int((chance > 0).sum()))
        drawn = rng.choice(len(X), size, replace=False, p=chance / chance.sum())
        columns = kernel.against(X[drawn])(X)[0] - Z @ Z[drawn].T
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
