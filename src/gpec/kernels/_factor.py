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

``F`` is never made. With ``T = V |a|^(-1/2)`` its gram matrix is ``F'F = T' (C'C) T = R'R``, and ``B = C M`` for one
small matrix ``M``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from gpec.geometry import GeodesicGraph
from gpec.runtime.blocks import one_blas_thread
from gpec.typing import FloatArray, IntArray

# Eigenvalues of the landmark block below this share of the largest carry noise, not geometry.
_CUT = 1e-5
_STEPS = (2, 8)  # of a grid, least and most to either side
_BYTES_OF_GRID = 1e9


@dataclass(frozen=True, eq=False)
class Factor:
    """``G = B B' + diag(r)`` with unit diagonal."""

    B: FloatArray
    r: FloatArray
    clipped_mass: float  # sum of the negative eigenvalues' sizes, as a share of all


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
    with np.errstate(over="ignore"):  # beyond the largest number similarity is 0, as it is between components
        C = -lam * graph.distances
    np.exp(C, out=C)
    if graph.is_exact:
        a, V = eigh((C + C.T) / 2, driver="evd")
        B = V[:, a > 0] * np.sqrt(a[a > 0])
        B /= np.maximum(_norms(B), 1.0)[:, None]
        r = np.zeros(len(B))  # clipping only raises the diagonal; what is left is rounding
    else:
        M, a = _projection(C, graph.landmarks)
        B = np.asarray(C.T.astype(np.float32) @ M, dtype=np.float64)
        B *= ((1.0 - 1e-7) / np.maximum(_norms(B), 1.0))[:, None]  # rounding makes no row longer than 1
        # Landmarks err by percents, so B has the digits of single precision: files take half of the space, and the
        # product half of the time.
        B[:] = B.astype(np.float32)
        r = np.maximum(1.0 - _norms(B) ** 2, 0.0)
    clipped = float(np.abs(a[a < 0]).sum() / np.abs(a).sum())
    return Factor(B, r, clipped)


def _projection(C: FloatArray, landmarks: IntArray) -> tuple[FloatArray, FloatArray]:
    """``M`` in single precision, and the eigenvalues that were clipped to get it; ``C`` is given as ``C' (L, J)``."""
    A = C[:, landmarks]
    a, V = eigh((A + A.T) / 2, driver="evd")
    keep = np.abs(a) > _CUT * a[-1]
    T = V[:, keep] / np.sqrt(np.abs(a[keep]))
    # F is well conditioned by the cut, so its gram matrix gives R without a QR decomposition.
    R = cholesky(T.T @ (C @ C.T) @ T)
    a, V = eigh((R * np.sign(a[keep])) @ R.T, driver="evd")
    half = solve_triangular(R, V[:, a > 0] * np.sqrt(a[a > 0]))
    return T.astype(np.float32) @ half.astype(np.float32), a


def _norms(B: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", B, B)))


@dataclass(frozen=True, eq=False)
class FactorGrid:
    """Factors of ``exp(-lam d)`` for a search over ``lam``, from ``start / reach`` to ``start * reach``.

    They are made at 19 values of ``lam`` at most, evenly spaced in its logarithm, when first asked for, and kept. For
    the search ``G`` is the weighted mean of the three nearest, weights being quadratic splines: this changes smoothly
    with ``lam``, is positive semi-definite and has a unit diagonal like them. Its entries differ from ``exp(-lam d)``
    by less than 0.008 on this account. Where the factors would take more than a gigabyte there are fewer, but at
    least seven.
    """

    graph: GeodesicGraph
    start: float
    reach: float
    _known: dict[int, Factor] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """How many on either side of the start; the grid has one more beyond."""
        entry = 8 if self.graph.is_exact else 4
        affordable = _BYTES_OF_GRID / (entry * len(self.graph) * len(self.graph.landmarks))
        return int(np.clip((affordable - 3) / 2, *_STEPS))

    @property
    def step(self) -> float:
        """Between two values of the grid, in the logarithm of ``lam``."""
        return float(np.log(self.reach)) / self.steps

    def parts(self, lam: float) -> list[tuple[float, float, Factor]]:
        """Weights, their derivatives by the logarithm of ``lam``, and factors."""
        place = float(np.log(lam / self.start)) / self.step
        middle = round(place)
        t = place - middle
        weights = {0: 0.75 - t**2, -1: (0.5 - t) ** 2 / 2, 1: (0.5 + t) ** 2 / 2}
        slopes = {0: -2 * t, -1: t - 0.5, 1: 0.5 + t}
        return [(weight, slopes[i] / self.step, self._at(middle + i)) for i, weight in weights.items() if weight > 0]

    def mean(self, lam: float) -> Factor:
        """The factor of the weighted mean."""
        parts = self.parts(lam)
        B = np.hstack([np.multiply(np.sqrt(weight), factor.B, dtype=np.float64) for weight, _, factor in parts])
        r = np.sum([weight * factor.r for weight, _, factor in parts], axis=0)
        return Factor(B, r, sum(weight * factor.clipped_mass for weight, _, factor in parts))

    def _at(self, number: int) -> Factor:
        if number not in self._known:
            factor = factorize(self.graph, self.start * float(np.exp(number * self.step)))
            if not self.graph.is_exact:  # its digits are those of single precision
                factor = replace(factor, B=factor.B.astype(np.float32))
            self._known[number] = factor
        return self._known[number]
