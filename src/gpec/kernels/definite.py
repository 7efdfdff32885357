r"""For which ``lam`` the exponential geodesic kernel is positive definite (App. F.4).

Over a graph ``exp(-lam d)`` may be indefinite. With ``D`` the distances between the points and ``G = exp(-lam D)``:

- If ``x' D x <= 0`` for all ``x`` that sum to 0 (``d`` is *of negative type*), ``d`` is a squared distance in some
  Hilbert space, and ``G`` is positive definite for every ``lam > 0`` (Schoenberg). Trees and cycles are such graphs.
- If not, let ``x`` break the rule, ``x' D x = m > 0``. From ``1 - u <= exp(-u) <= 1 - u + u^2 / 2`` follows
  ``x' G x <= -lam m + lam^2 / 2 sum_ij |x_i| |x_j| D_ij^2``: ``G`` is indefinite for small ``lam``.
- Products of such matrices, entry by entry, are positive definite again (Schur): if two values of ``lam`` will do, so
  does their sum. All above ``a`` will do as soon as all from ``a`` to ``2 a`` do.
- Where the other entries of each line of ``G`` sum to less than 1, it is positive definite (Gershgorin).

Pieces of the boundary that no path joins are blocks of ``G``; all must be positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from gpec._validation import check_positive
from gpec.data.rows import evenly_spaced
from gpec.geometry import GeodesicGraph
from gpec.runtime.blocks import one_blas_thread
from gpec.typing import FloatArray

_MOST_POINTS = 2_500
_FEW = 300
_PER_OCTAVE = 8  # values of lam that are tried between one and its double
_ACCURACY = 1e-4  # of the ends of intervals
_ROUNDING = 100 * np.finfo(np.float64).eps  # times the number of points


@dataclass(frozen=True)
class PositiveDefiniteRange:
    """What :func:`positive_definite_range` found; ``lam in found`` asks for one value.

    Attributes
    ----------
    intervals : tuple of (float, float)
        The values of ``lam`` for which ``exp(-lam d)`` is positive definite; the last interval ends at infinity.
    always : bool
        Whether every ``lam > 0`` is among them because the distances are of negative type.
    dominant_from : float
        From here on Gershgorin's theorem proves it, whatever the search has found.
    lam : float
        The value that was asked for, by default that of ``lam="auto"``.
    least_eigenvalue : float
        Of ``exp(-lam d)`` at that value.
    n_points : int
        Points whose distances were used.
    is_exact : bool
        Whether these are all points of the graph. If not, the rest holds for its landmarks.
    """

    intervals: tuple[tuple[float, float], ...]
    always: bool
    dominant_from: float
    lam: float
    least_eigenvalue: float
    n_points: int
    is_exact: bool

    def __contains__(self, lam: float) -> bool:
        return any(low <= lam <= high for low, high in self.intervals) and lam > 0


def positive_definite_range(boundary: Any, lam: float | None = None) -> PositiveDefiniteRange:
    """For which ``lam`` the matrix ``exp(-lam d)`` of boundary points is positive definite.

    :class:`EG` and :class:`WEG` repair the matrix where it is not, so that they can be used with any ``lam``; this
    function tells where there is nothing to repair.

    Parameters
    ----------
    boundary : GeodesicGraph or array of shape (J, D)
        The graph, such as ``g.graph_`` of a fitted GPEC, or boundary points. Points that coincide count once.
    lam : float, optional
        Where to report the least eigenvalue; by default 1 / median distance.

    Returns
    -------
    PositiveDefiniteRange

    Notes
    -----
    Up to 2,500 points all distances are used. Beyond, only those between landmarks: a ``lam`` outside the intervals is
    then proved to be bad for all points, but one inside need not be good for all of them.

    ``always`` and ``dominant_from`` are theorems, up to rounding. For the rest eight values of ``lam`` in each octave
    are tried, and the ends of intervals are found by bisection, to a ten-thousandth: an interval or a gap that is
    narrower than 9% of its ``lam`` may be missed. Eigenvalues that differ from 0 by rounding only count as positive.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.kernels import positive_definite_range
    >>> line = np.column_stack((np.linspace(0, 1, 50), np.zeros(50)))
    >>> positive_definite_range(line).intervals
    ((0.0, inf),)
    """
    graph = boundary if isinstance(boundary, GeodesicGraph) else GeodesicGraph.build(boundary)
    asked = 1.0 / graph.median_distance if lam is None else check_positive("lam", lam)
    unit = graph.median_distance
    with one_blas_thread():
        if len(graph) > max(_MOST_POINTS, len(graph.landmarks)):
            D = graph.distances[:, graph.landmarks]
        else:
            D = (graph if graph.is_exact else replace(graph, landmarks=np.arange(len(graph)))).distances
        D = (D + D.T) / 2 / unit
        indefinite_below = _indefinite_below(D)
        dominant = _dominant_from(D)
        always = indefinite_below == 0.0
        found = [(0.0, np.inf)] if always else _intervals(_test_of(D), indefinite_below, dominant)
        least = eigh(_matrix(D, asked * unit), eigvals_only=True, subset_by_index=[0, 0])[0]
    intervals = tuple((low / unit, high / unit) for low, high in found)
    is_exact = len(D) == len(graph)
    return PositiveDefiniteRange(intervals, always, dominant / unit, asked, float(least), len(D), is_exact)


def _matrix(D: FloatArray, lam: float) -> FloatArray:
    with np.errstate(over="ignore"):  # beyond the largest number similarity is 0
        G = -lam * D
    return np.exp(G, out=G)


def _indefinite_below(D: FloatArray) -> float:
    """All ``lam`` below this are proved to be bad; 0 where all are proved to be good."""
    bound, left = 0.0, np.arange(len(D))
    while len(left):
        together = np.isfinite(D[left[0], left])
        piece, left = left[together], left[~together]
        d = D[np.ix_(piece, piece)]
        centred = d - d.mean(axis=0) - d.mean(axis=1)[:, None] + d.mean()
        m, x = (part[..., 0] for part in eigh(centred, subset_by_index=[len(d) - 1] * 2))
        if m > _ROUNDING * len(d) * d.max():
            size = np.abs(x)
            bound = max(bound, 2.0 * float(m) / float(size @ d**2 @ size))
    return bound


def _dominant_from(D: FloatArray) -> float:
    """The least ``lam``, to a thousandth, from which on the other entries of each line of ``G`` sum to less than 1."""
    others = D[~np.eye(len(D), dtype=bool)].reshape(len(D), -1)
    nearest = others.min(initial=np.inf)
    if np.isfinite(others).sum(axis=1).max(initial=0) <= 1:  # a single entry is less than 1 by itself
        return 0.0

    def dominant(lam: float) -> bool:
        return bool(_matrix(others, lam).sum(axis=1).max() < 1.0)

    high = 1.001 * np.log(others.shape[1]) / nearest
    low = high / 2
    while dominant(low):
        low, high = low / 2, low
    return _bisect(dominant, low, high, 1e-3)[1]


def _test_of(D: FloatArray) -> Callable[[float], bool]:
    """Whether ``G`` is positive definite, as a function of ``lam``; what a few points tell spares the rest."""
    few = evenly_spaced(len(D), _FEW)
    some = D[np.ix_(few, few)]

    def positive_definite(lam: float) -> bool:
        for d in (some, D):
            G = _matrix(d, lam)
            np.fill_diagonal(G, 1.0 + _ROUNDING * len(D))
            try:
                cholesky(G, overwrite_a=True, check_finite=False)
            except LinAlgError:
                return False
        return True

    return positive_definite


def _intervals(test: Callable[[float], bool], low: float, high: float) -> list[tuple[float, float]]:
    """Where ``test`` holds, if it fails below ``low``, holds from ``high`` on, and holds for sums of where it holds."""
    ratio = 2.0 ** (1.0 / _PER_OCTAVE)
    intervals: list[tuple[float, float]] = []
    start, lam = None, low
    while True:
        previous, lam = lam, lam * ratio
        holds = lam >= high or test(lam)
        if holds and start is None:
            start = _bisect(test, previous, lam, _ACCURACY)[1]
        elif not holds and start is not None:
            intervals.append((start, _bisect(lambda value: not test(value), previous, lam, _ACCURACY)[0]))
            start = None
        if start is not None and (lam >= high or lam >= 2.0 * start):
            return [*intervals, (start, np.inf)]


def _bisect(test: Callable[[float], bool], low: float, high: float, accuracy: float) -> tuple[float, float]:
    """Two near values, of which the first fails and the second holds, as ``low`` and ``high`` do."""
    while high > low * (1.0 + accuracy):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if test(middle) else (middle, high)
    return low, high
