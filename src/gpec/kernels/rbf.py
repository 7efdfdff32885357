"""The radial basis function kernel: ``exp(-|x - x'|^2 / (2 l^2))``."""

from __future__ import annotations

import copy
from typing import Any, Literal, Self

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist, pdist, squareform

from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Against, Kernel, _rows
from gpec.table import FloatArray
from gpec.validation import check_positive

__all__ = ["RBF"]

_ROWS_FOR_LENGTHSCALE = 500
_ROWS_FOR_EVIDENCE = 300
_SEARCHED = (float(np.log(1e-2)), float(np.log(1e2)))  # in units of the median distance
_UNEXPLAINED = np.geomspace(1e-6, 1e4, 201)  # noise and nugget, as a share of the scale


class RBF(Kernel):
    """Radial basis function kernel; it knows nothing of the boundary (the paper's Naive-GP).

    Parameters
    ----------
    lengthscale : float, "auto" or "evidence"
        ``l`` in ``exp(-|x - x'|^2 / (2 l^2))``; "auto" is the median distance between rows. "evidence" is the one under
        which the attributions are most likely, see :meth:`tune`; before that, and as a part of a sum or product, it is
        the median too.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.kernels import RBF
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> kernel = RBF("evidence").fit(None, X)
    >>> wavy, smooth = np.sin(3 * X), np.sin(X)
    >>> kernel.tune(X, wavy, 0 * X).lengthscale_ < kernel.tune(X, smooth, 0 * X).lengthscale_
    True
    """

    def __init__(self, lengthscale: float | Literal["auto", "evidence"] = "auto") -> None:
        self.lengthscale = lengthscale

    def check(self) -> None:
        if not isinstance(self.lengthscale, str):
            check_positive("lengthscale", self.lengthscale)
        elif self.lengthscale not in ("auto", "evidence"):
            raise InputError(f"lengthscale={self.lengthscale!r} must be 'auto', 'evidence' or a number.")

    def _fit(self, graph: GeodesicGraph | None, X: FloatArray | None) -> None:
        if not isinstance(self.lengthscale, str):
            self.lengthscale_ = float(self.lengthscale)
            return
        if X is None:
            raise InputError(f"lengthscale={self.lengthscale!r} needs rows: call fit(boundary, X), or give a number.")
        distances = pdist(_some(X, _ROWS_FOR_LENGTHSCALE))
        distances = distances[distances > 0]
        self.lengthscale_ = float(np.median(distances)) if distances.size else 1.0

    def tune(
        self, X: FloatArray, Y: FloatArray, U: FloatArray, output_scale: float | Literal["evidence"] = "evidence"
    ) -> Self:
        """The kernel, already fitted, with the lengthscale under which the attributions are most likely.

        The log marginal likelihood, summed over the features, is maximised by a bounded search over ``l`` from a
        hundredth to a hundred times the median distance, on at most 300 rows. With ``output_scale="evidence"`` each
        feature has for each ``l`` its own best scale and nugget and an unknown constant mean; with a number it has that
        scale and the mean 0. Noise enters as each feature's mean over the rows, so that one eigendecomposition serves
        all features.

        Parameters
        ----------
        X : array of shape (n, D)
            Explained rows, embedded.
        Y, U : arrays of shape (n, d)
            Their attributions and noise variance.
        output_scale : "evidence" or float
            As for :class:`gpec.GPEC`.

        Returns
        -------
        RBF
            A copy; the kernel itself unless ``lengthscale="evidence"`` and some attribution varies.
        """
        self._require_fitted("lengthscale_")
        if self.lengthscale != "evidence":
            return self
        X, Y, noise = (_some(part, _ROWS_FOR_EVIDENCE) for part in (X, Y, U))
        size = np.abs(Y).max(axis=0)
        spread = (Y / np.where(size > 0, size, 1.0)).std(axis=0) * size
        varies = spread > 1e-13 * size
        squared = squareform(pdist(X, "sqeuclidean"))
        if len(X) < 3 or not varies.any() or not squared.any():
            return self
        # a free scale makes units irrelevant; a given one has them
        unit = spread[varies] if isinstance(output_scale, str) else np.ones(int(varies.sum()))
        Y, u = Y[:, varies] / unit, noise[:, varies].mean(axis=0) / unit**2
        middle = float(np.sqrt(np.median(squared[squared > 0])))

        def lack(log_ratio: float) -> float:
            K = np.exp(-0.5 * squared / (middle * np.exp(log_ratio)) ** 2)
            eigenvalues, Q = eigh(K, driver="evd")
            spectrum = np.maximum(eigenvalues, 0.0)
            if isinstance(output_scale, str):
                return _lack_with_free_scale(spectrum, Q.T @ (Y - Y.mean(axis=0)), Q.sum(axis=0), u)
            return _lack_with_scale(spectrum, Q.T @ Y, u, float(output_scale))

        tuned = copy.copy(self)
        tuned.lengthscale_ = middle * float(np.exp(_least_point(lack)))
        return tuned

    def against(self, Y: FloatArray) -> Against:
        self._require_fitted("lengthscale_")
        Y = _rows(Y, "Y") / self.lengthscale_

        def cross_and_diagonal(X: FloatArray) -> tuple[FloatArray, FloatArray]:
            X = _rows(X, "X")
            if X.shape[1] != Y.shape[1]:
                raise InputError(f"X has {X.shape[1]} features but Y has {Y.shape[1]}.")
            return np.exp(-0.5 * cdist(X / self.lengthscale_, Y, "sqeuclidean")), np.ones(len(X))

        return cross_and_diagonal

    def diag(self, X: Any) -> FloatArray:
        self._require_fitted("lengthscale_")
        return np.ones(len(_rows(X, "X")))

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("lengthscale_")
        return {"lengthscale": self.lengthscale_}

    def fitted_state(self) -> dict[str, Any]:
        self._require_fitted("lengthscale_")
        return {"lengthscale": self.lengthscale_}

    def restore(self, state: dict[str, Any]) -> Self:
        self.lengthscale_ = state["lengthscale"]
        return self


def _some(X: FloatArray, most: int) -> FloatArray:
    """Evenly spaced rows, at most so many."""
    return X[:: max(len(X) // most, 1)][:most]


def _lack_with_free_scale(spectrum: FloatArray, z: FloatArray, o: FloatArray, u: FloatArray) -> float:
    """-2 log p of all features under their best scale and nugget, mean integrated out; see :mod:`gpec.gp.evidence`.

    ``z (n, d)`` are the attributions and ``o (n,)`` the ones in the eigenbasis of ``K``. With ``h`` the noise and
    nugget as a share of the scale ``s``, the best ``s`` is ``quadratic / (n - 1)``, but the noise must fit in:
    ``s h >= u``.
    """
    n = len(z)
    best = np.full(z.shape[1], np.inf)
    for h in _UNEXPLAINED:
        w = 1.0 / (spectrum + h)
        precision = float(o**2 @ w)
        residual = z - np.outer(o, (o * w) @ z / precision)
        quadratic = w @ residual**2
        s = np.maximum(quadratic / (n - 1), u / h)
        best = np.minimum(best, quadratic / s + (n - 1) * np.log(s) - np.log(w).sum() + np.log(precision))
    return float(best.sum())


def _lack_with_scale(spectrum: FloatArray, z: FloatArray, u: FloatArray, scale: float) -> float:
    """-2 log p of all features with mean 0 and the given scale."""
    variance = scale * (spectrum[:, None] + _UNEXPLAINED[0]) + u
    return float((z**2 / variance + np.log(variance)).sum())


def _least_point(function: Any) -> float:
    """Least point of a function that may have several minima: a grid, then a search around its best point."""
    grid = np.linspace(*_SEARCHED, 25)
    values = [function(float(x)) for x in grid]
    best = int(np.argmin(values))
    span = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(function, bounds=span, method="bounded", options={"xatol": 1e-3})
    return float(found.x) if found.fun < values[best] else float(grid[best])
