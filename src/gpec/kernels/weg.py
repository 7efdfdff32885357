r"""The exponential geodesic kernel, and its weighted form for rows off the boundary.

Notation, as in the paper: ``m_j`` boundary points, ``d`` geodesic distance, ``lam`` and ``rho`` the two parameters,

    G_ij  = exp(-lam d(m_i, m_j))                                             (Eq. 5)
    w_j(x) = exp(-rho |x - m_j|^2) / sum_i exp(-rho |x - m_i|^2)              (Eq. 6, 11)
    k(x, x') = sum_ij w_i(x) G_ij w_j(x')                                     (Eq. 7, 8, 10)
    k*(x, x') = k(x, x') / sqrt(k(x, x) k(x', x'))                            (Eq. 9)

``G`` enters as ``B B' + diag(r)``, which is positive semi-definite whatever the graph (see ``_factor.py``).

Derivatives, for parameters that are learned: by ``rho``, ``dw_j / drho = w_j (a_j - sum_i w_i a_i)`` with
``a_j = -|x - m_j|^2``; by ``lam``, those of a mean over factors on a grid (``FactorGrid``).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.optimize import brentq

from gpec._validation import check_auto, check_choice
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError, NotFittedError, NumericalError
from gpec.geometry import GeodesicGraph
from gpec.kernels._factor import Factor, FactorGrid, factorize
from gpec.kernels.base import POSITIVE, Cross, Kernel, symmetric
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray

_BLOCK = 512
_ROWS_FOR_RHO = 200
_REACH = 30.0  # learned parameters lie at most this many times above or below what "auto" chooses
_WORDS = ("auto", "evidence")

Learned = float | Literal["auto", "evidence"]


class _BoundaryKernel(Kernel):
    """Kernels of the form ``w(x)' G w(x')``; subclasses say what the weights are."""

    needs_boundary = rests_on_boundary = True
    lam: Learned
    normalize: bool
    lam_: Annotated[float, POSITIVE]
    lam_start_: Annotated[float, POSITIVE]
    points_: Annotated[FloatArray, Shape("J", "D")]
    multiplicity_: Annotated[FloatArray, Shape("J"), Limits(least=1)]
    B_: Annotated[FloatArray, Shape("J", "r")]
    r_: Annotated[FloatArray, Shape("J"), Limits(least=0)]
    clipped_mass_: Annotated[float, Limits(least=0)]
    # of a search over lam; not in files, which hold no graph
    _grid: FactorGrid | None = None
    _searching: bool = False

    def check(self) -> None:
        check_auto("lam", self.lam, word=_WORDS)

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if graph is None:
            raise InputError(f"{type(self).__name__} needs boundary points: call fit(boundary_points).")
        self.lam_ = 1.0 / graph.median_distance if isinstance(self.lam, str) else float(self.lam)
        self.points_, self.multiplicity_ = graph.points, graph.multiplicity.astype(np.float64)
        self._take(factorize(graph, self.lam_))
        self._grid, self._searching = None, False
        if self.lam == "evidence":
            self.lam_start_ = self.lam_
            self._grid = FactorGrid(graph, self.lam_, _REACH)

    def _take(self, factor: Factor) -> None:
        self.B_, self.r_, self.clipped_mass_ = factor.B, factor.r, factor.clipped_mass

    def _free(self) -> dict[str, tuple[float, float]]:
        return self._searched("lam", "lam_start_", 1 / _REACH, _REACH)

    def _set_own(self, theta: FloatArray) -> None:
        if self.lam == "evidence":
            self._search(float(np.exp(theta[0])))
        super()._set_own(theta)

    def _search(self, lam: float) -> None:
        """Take the factor that searches use at ``lam``."""
        known = abs(lam / self.lam_ - 1) < 1e-12
        if (known and self._searching) or (known and self._grid is None):
            return
        self._take(self._require_grid().mean(lam))
        self._searching = True

    def settled(self) -> Self:
        """A copy with the factor of ``lam_`` itself, where a search has left a mean of several."""
        twin = self.copy()
        if self._grid is not None:
            twin._take(factorize(self._grid.graph, self.lam_))
            twin._grid = FactorGrid(self._grid.graph, self._grid.start, _REACH)  # lets go of the factors
            twin._searching = False
        return twin

    def _require_grid(self) -> FactorGrid:
        if self._grid is None:
            raise NotFittedError(
                f"This {type(self).__name__} kernel comes from a file and has no graph of the boundary, which another "
                "lam needs; call fit(boundary_points) first."
            )
        return self._grid

    @abstractmethod
    def _weights(self, X: FloatArray) -> FloatArray:
        """``w(x)`` for a block of embedded rows ``(n, J)``; a new array."""

    def weights(self, X: Any) -> FloatArray:
        """Weight of each boundary point for each row, ``(n, J)``; rows sum to 1."""
        return self._weights(self._embedded(Rows.of(X), "X"))

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        embedded = self._embedded(Y, "Y")
        T, own = np.empty((len(self.points_), len(Y))), np.empty(len(Y))
        for start in range(0, len(Y), _BLOCK):
            block = slice(start, start + _BLOCK)
            W = self._weights(embedded[block])
            features, own[block] = self._project(W)
            T[:, block] = self.B_ @ features.T
            T[:, block] += self.r_[:, None] * W.T
            if self.normalize:
                T[:, block] /= np.sqrt(own[block])

        def cross_and_diagonal(X: Rows) -> tuple[FloatArray, FloatArray]:
            embedded = self._embedded(X, "X")
            K, diagonal = np.empty((len(X), T.shape[1])), np.empty(len(X))
            for start in range(0, len(X), _BLOCK):
                block = slice(start, start + _BLOCK)
                W = self._weights(embedded[block])
                diagonal[block] = own[block] if X is Y else self._project(W)[1]
                np.matmul(W, T, out=K[block])
            if self.normalize:
                K /= np.sqrt(diagonal)[:, None]
                diagonal = np.ones(len(X))
            return K, diagonal

        return cross_and_diagonal

    def diag(self, X: Any, feature: int | None = None) -> FloatArray:
        rows = Rows.of(X)
        return np.ones(len(self._embedded(rows, "X"))) if self.normalize else super().diag(rows)

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        if not self._free():
            K = self.gram(X)
            return K, np.empty((*K.shape, 0))
        embedded = self._embedded(Rows.of(X), "X")
        W = self._weights(embedded)
        weight_slopes = self._weight_slopes(embedded, W)
        K, by_lam, *by_weights = np.zeros((2 + len(weight_slopes), len(W), len(W)))
        for share, share_slope, factor in self._parts():
            features = W @ factor.B
            part = features @ features.T + (W * factor.r) @ W.T
            K += share * part
            by_lam += share_slope * part
            for D, by_weight in zip(weight_slopes, by_weights, strict=True):
                half = (D @ factor.B) @ features.T + (D * factor.r) @ W.T
                by_weight += share * (half + half.T)
        slopes = [by_lam, *by_weights] if self.lam == "evidence" else by_weights
        diagonal = np.maximum(K.diagonal(), np.finfo(np.float64).tiny)
        if self.normalize:
            size = np.sqrt(np.outer(diagonal, diagonal))
            K = symmetric(K / size, np.ones(len(W)))
            for slope in slopes:
                relative = slope.diagonal() / (2.0 * diagonal)
                slope /= size
                slope -= K * (relative[:, None] + relative)
        return K, np.stack(slopes, axis=2)

    def _parts(self) -> list[tuple[float, float, Factor]]:
        """What ``G`` is the sum of: factors with their shares and the derivatives of these by the logarithm of lam."""
        own = (1.0, 0.0, Factor(self.B_, self.r_, self.clipped_mass_))
        if self.lam != "evidence":
            return [own]
        parts = self._require_grid().parts(self.lam_)
        return parts if self._searching else [own, *((0.0, slope, factor) for _, slope, factor in parts)]

    def _weight_slopes(self, X: FloatArray, W: FloatArray) -> list[FloatArray]:
        """Derivatives of the weights ``W`` by the logarithms of the free parameters they depend on."""
        return []

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("B_")
        return {"lam": self.lam_, "clipped_mass": self.clipped_mass_}

    def _project(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``W B``, and the diagonal of ``W (B B' + diag r) W'``."""
        features = W @ self.B_
        diagonal = np.einsum("ij,ij->i", features, features)
        if self.r_.any():
            diagonal += W**2 @ self.r_
        return features, np.asarray(np.maximum(diagonal, np.finfo(np.float64).tiny))

    def _embedded(self, rows: Rows, name: str) -> FloatArray:
        self._require_fitted("B_")
        D = self.points_.shape[1]
        if rows.embedded.shape[1] != D:
            raise InputError(f"{name} has {rows.embedded.shape[1]} features but the boundary points have {D}.")
        return rows.embedded

    def _affinity(self, X: FloatArray) -> FloatArray:
        """``-|x - m_j|^2`` up to a constant of each row, which cancels in the weights."""
        center = self.points_.mean(axis=0)
        P = self.points_ - center
        with np.errstate(over="ignore", invalid="ignore"):
            affinity = (X - center) @ (2.0 * P.T)
            affinity -= np.einsum("ij,ij->i", P, P)
        return np.asarray(affinity, dtype=np.float64)


class EG(_BoundaryKernel):
    """Exponential geodesic kernel (Eq. 5): ``exp(-lam d(m, m'))`` between boundary points.

    Rows off the boundary stand for their nearest boundary point.

    Parameters
    ----------
    lam : float, "auto" or "evidence"
        Decay with distance along the boundary, as for :class:`WEG`.
    """

    normalize = False

    def __init__(self, lam: Learned = "auto") -> None:
        self.lam = lam

    def _weights(self, X: FloatArray) -> FloatArray:
        affinity = self._affinity(X)
        nearest = affinity.argmax(axis=1)
        top = affinity[np.arange(len(X)), nearest]
        if not np.isfinite(top).all():
            row = int(np.argmin(np.isfinite(top)))
            raise NumericalError(
                f"The nearest boundary point of row {row} is lost to overflow: it lies too far from the boundary for "
                "double precision. Rescale the features."
            )
        W = np.zeros_like(affinity)
        W[np.arange(len(X)), nearest] = 1.0
        return W


class WEG(_BoundaryKernel):
    """Weighted exponential geodesic kernel (Eq. 7 to 10).

    Parameters
    ----------
    lam : float, "auto" or "evidence"
        Decay of similarity with distance along the boundary; "auto" is 1 / median finite distance. "evidence" starts
        there and is learned by :func:`gpec.gp.learn_kernel`, from a thirtieth to thirty times of it.
    rho : float, "auto" or "evidence"
        How sharply the boundary points near a row outweigh the others; "auto" makes the median over rows of the
        effective number of boundary points, ``1 / sum w^2``, equal to the square root of their number. "evidence"
        starts there and is learned, within the same factors.
    normalize : bool
        Divide by ``sqrt(k(x, x) k(x', x'))`` (Eq. 9), so that ``k(x, x) = 1``. ``False`` is Algorithms 1 and 2.

    Notes
    -----
    A new ``lam`` needs a new factor of the matrix of boundary points, which takes about a second for 2,000 of them.
    While :attr:`theta` is being searched, factors are therefore made at 19 values of ``lam`` at most, and the kernel is
    a weighted mean of the three nearest, which differs from its own by less than a hundredth; :meth:`settled` then
    makes its own. A kernel read from a file keeps what was learned; to learn ``lam`` anew it must be fitted anew.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.kernels import WEG
    >>> line = np.column_stack((np.linspace(-1, 1, 50), np.zeros(50)))
    >>> k = WEG(lam=1.0, rho=10.0).fit(line)
    >>> K = k(np.array([[0.0, 0.5], [0.1, 0.5], [0.9, 0.5]]))
    >>> bool(K[0, 1] > K[0, 2])
    True
    """

    rho_: Annotated[float, Limits(least=0)]
    rho_start_: Annotated[float, POSITIVE]

    def __init__(self, lam: Learned = "auto", rho: Learned = "auto", normalize: bool = True) -> None:
        self.lam = lam
        self.rho = rho
        self.normalize = normalize

    def check(self) -> None:
        super().check()
        check_auto("rho", self.rho, word=_WORDS, zero=True)
        check_choice("normalize", self.normalize, (True, False))

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        super()._fit(graph, rows)
        if isinstance(self.rho, str):
            self.rho_ = self._choose_rho(self.points_ if rows is None else rows.embedded)
        else:
            self.rho_ = float(self.rho)
        if self.rho == "evidence":
            self.rho_start_ = self.rho_

    def _free(self) -> dict[str, tuple[float, float]]:
        return {**super()._free(), **self._searched("rho", "rho_start_", 1 / _REACH, _REACH)}

    def _weight_slopes(self, X: FloatArray, W: FloatArray) -> list[FloatArray]:
        if self.rho != "evidence":
            return []
        affinity = np.where(W > 0, self._affinity(X), 0.0)  # far points may lie at minus infinity
        return [self.rho_ * W * (affinity - np.einsum("ij,ij->i", W, affinity)[:, None])]

    def _weights(self, X: FloatArray) -> FloatArray:
        return _softmax(self._affinity(X), self.rho_, self.multiplicity_)

    def _choose_rho(self, X: FloatArray) -> float:
        affinity = self._affinity(X[evenly_spaced(len(X), _ROWS_FOR_RHO)])
        J = affinity.shape[1]

        def excess(log_rho: float) -> float:
            W = _softmax(affinity.copy(), float(np.exp(log_rho)), self.multiplicity_)
            return float(np.log(np.median(1.0 / np.einsum("ij,ij->i", W, W))) - 0.5 * np.log(J))

        spread = float(np.median(np.ptp(affinity, axis=1)))
        if J < 2 or spread <= 0 or not np.isfinite(spread):
            return 1.0
        middle = -np.log(spread)
        low, high = middle - 10.0, middle + 15.0
        if excess(low) <= 0 or excess(high) >= 0:  # ties leave no such number
            return float(np.exp(middle))
        return float(np.exp(brentq(excess, low, high, xtol=1e-3)))

    def diagnostics(self) -> dict[str, Any]:
        return {**super().diagnostics(), "rho": self.rho_}


def settle(kernel: Kernel) -> Kernel:
    """A copy of a learned kernel in which every ``lam`` that was searched has its own factor; see :class:`WEG`."""
    if isinstance(kernel, _BoundaryKernel):
        return kernel.settled()
    twin = kernel.copy()
    for name, value in vars(twin).items():
        if isinstance(value, Kernel):
            setattr(twin, name, settle(value))
    return twin


def _softmax(affinity: FloatArray, rho: float, multiplicity: FloatArray) -> FloatArray:
    """Weights in log space, in place: far from the boundary the plain form would be 0 / 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # found out below
        affinity *= rho
        if (multiplicity != 1).any():
            affinity += np.log(multiplicity)
        affinity -= affinity.max(axis=1, keepdims=True)
        np.exp(affinity, out=affinity)
        total = affinity.sum(axis=1, keepdims=True)
    if not np.isfinite(total).all():
        row = int(np.argmin(np.isfinite(total[:, 0])))
        raise NumericalError(
            f"The weights of row {row} overflow at rho={rho:.3g}: it lies too far from the boundary for double "
            "precision. Rescale the features or use a smaller rho."
        )
    affinity /= total
    return affinity
