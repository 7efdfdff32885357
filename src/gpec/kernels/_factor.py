r"""A positive semi-definite factor of the exponential geodesic matrix.

``G = exp(-lam d)`` over a neighbour graph is often indefinite. It is repaired once, at the boundary points, so that
gram, cross and diagonal of every kernel built on it agree. With distances from ``L`` landmarks only, ``C`` the columns
of ``G`` at the landmarks and ``A`` its landmark block,

    G ~ C A^+ C'            (Nystrom; ``A`` may be indefinite, so this may be as well)
      = F S F',             F = C V |a|^(-1/2), S = sign(a), A = V diag(a) V'
      -> B B',              the nearest positive semi-definite matrix in the span of F
      -> B B' + diag(r)     rows of B longer than 1 scaled to 1; r = 1 - |B_j|^2 restores the unit diagonal.

Clipping after the projection rather than before (``B = C A_+^(-1/2)``) halves the error where ``G`` is indefinite; the
diagonal residual is what makes the landmarks' kernel as good as the full one.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from gpec._execution import one_blas_thread
from gpec.geometry import GeodesicGraph
from gpec.typing import FloatArray

__all__ = ["Factor", "factorize"]

# Eigenvalues of the landmark block below this share of the largest carry noise, not geometry.
_CUT = 1e-5


@dataclass(frozen=True, eq=False)
class Factor:
    """``G = B B' + diag(r)`` with unit diagonal."""

    B: FloatArray
    r: FloatArray
    clipped_mass: float  # sum of the negative eigenvalues' sizes, as a share of all

    def dense(self) -> FloatArray:
        """``G`` in full; for few points."""
        return np.asarray(self.B @ self.B.T + np.diag(self.r))


_LATEST: WeakKeyDictionary[GeodesicGraph, tuple[float, Factor]] = WeakKeyDictionary()


def factorize(graph: GeodesicGraph, lam: float) -> Factor:
    """Factor of ``exp(-lam d)`` over the points of ``graph``; the latest of each graph is remembered.

    One BLAS thread: with the other of two cores busy, a second one made the eigenvalue problem thirty times slower.
    """
    known = _LATEST.get(graph)
    if known is not None and known[0] == lam:
        return known[1]
    with one_blas_thread():
        factor = _factorize(graph, lam)
    _LATEST[graph] = (lam, factor)
    return factor


def _factorize(graph: GeodesicGraph, lam: float) -> Factor:
    with np.errstate(over="ignore"):  # beyond the largest number similarity is 0
        C = np.exp(-lam * graph.distances).T  # (J, L); 0 between components
    if graph.is_exact:
        a, V = eigh((C + C.T) / 2, driver="evd")
        positive = a > 0
        B = V[:, positive] * np.sqrt(a[positive])
    else:
        A = C[graph.landmarks]
        a, V = eigh((A + A.T) / 2, driver="evd")
        keep = np.abs(a) > _CUT * a[-1]
        F = C @ (V[:, keep] / np.sqrt(np.abs(a[keep])))
        del C
        # F is well conditioned by the cut, so its gram matrix gives R without a QR decomposition.
        R = cholesky(F.T @ F)
        a, V = eigh((R * np.sign(a[keep])) @ R.T, driver="evd")
        positive = a > 0
        B = F @ solve_triangular(R, V[:, positive] * np.sqrt(a[positive]))
        del F
    norm = np.sqrt(np.einsum("ij,ij->i", B, B))
    B /= np.maximum(norm, 1.0)[:, None]
    if not graph.is_exact:  # landmarks err by percents: with half of the digits files take half of the space
        B *= 1.0 - 1e-7  # rounding makes no row longer than 1
        B[:] = B.astype(np.float32)
        norm = np.sqrt(np.einsum("ij,ij->i", B, B))
    r = np.maximum(1.0 - norm**2, 0.0)
    if graph.is_exact:
        r = np.zeros(len(B))  # clipping only raises the diagonal; what is left is rounding
    clipped = float(np.abs(a[a < 0]).sum() / np.abs(a).sum())
    return Factor(np.ascontiguousarray(B), r, clipped)
