r"""Posterior of low rank, for many explained rows.

Rows ``p`` (pivots) are drawn in blocks, with probabilities proportional to the variance that earlier pivots leave
unexplained, until ``K = Z Z'`` to within ``tolerance``, with ``Z = K_Xp L^-T`` and ``L L' = K_pp``.
With ``z = L^-1 k(p, x)`` and ``S = I + Z' D^-1 Z``, ``D = diag(h)``,

    k' (K + D)^-1 k = |z|^2 - z' S^-1 z,

which costs ``N q^2`` instead of ``N^3`` for ``q`` pivots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from gpec.gp._gram import Gram, LowRankGram
from gpec.gp._linalg import FlatMean, LowRankCholesky, LowRankSpectral
from gpec.gp.evidence import Parameters
from gpec.gp.posterior import Posterior
from gpec.kernels import Kernel
from gpec.typing import FloatArray, IntArray

_BLOCK = 1_024


class LowRankPosterior(Posterior):
    """Posterior from a kernel matrix of rank at most ``max_rank``.

    Parameters
    ----------
    kernel, rows, Y, U, parameters
        See :class:`Posterior`.
    seed : int
        Seed of the pivots.
    tolerance : float
        Largest ``k(x, x)`` left unexplained at an explained row.
    max_rank : int
        Largest rank. The variance that it leaves unexplained, ``residual``, is added to the noise.

    Attributes
    ----------
    n_pivots : int
        The rank.
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

    def _split(self, features: IntArray, gram: Gram) -> Any:
        rng = np.random.default_rng(self.seed)  # the same pivots for each feature, and after loading
        return super()._split(features, LowRankGram(gram, *_features(gram, self.tolerance, self.max_rank, rng)))

    def _conditioned(self, features: IntArray, gram: Any, h: FloatArray) -> FlatMean:
        A = LowRankCholesky(gram, h[:, 0]) if np.ptp(h, axis=0).any() else LowRankSpectral(gram, h[0])
        P = FlatMean(A, self.parameters.free_mean)
        P.prepare()
        return P

    @property
    def n_pivots(self) -> int:
        return max(len(gram.pivots) for gram in self._grams())

    @property
    def residual(self) -> float:
        return max(gram.residual for gram in self._grams())

    def _grams(self) -> list[LowRankGram]:
        return [group.gram for group in self._groups if isinstance(group.gram, LowRankGram)]


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
        n = min(_BLOCK, max_rank - len(pivots), int((chance > 0).sum()))
        drawn = rng.choice(len(rows), n, replace=False, p=chance / chance.sum())
        columns = kernel.cross_to(rows[drawn], gram.feature)(rows)[0] - Z @ Z[drawn].T
        # pivoted Cholesky skips rows that others of the block explain
        C, order, rank, _ = dpstrf((columns[drawn] + columns[drawn].T) / 2, lower=1, tol=tolerance)
        if rank == 0:
            break
        used = order[:rank] - 1
        L = np.tril(C[:rank, :rank])
        fresh = solve_triangular(L, columns[:, used].T, lower=True).T
        fresh[drawn[used]] = L
        Z = np.hstack((Z, fresh))
        pivots = np.concatenate((pivots, drawn[used]))
        residual -= np.einsum("ij,ij->i", fresh, fresh)
        residual[pivots] = 0.0
    # entries above the diagonal are 0 up to rounding
    Z[pivots] = np.tril(Z[pivots])
    return pivots, Z, float(max(residual.max(), 0.0))
