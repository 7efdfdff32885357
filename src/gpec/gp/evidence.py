r"""The marginal likelihood of attributions, and the scale and nugget of each feature under which it is greatest.

The attributions ``y`` of one feature at the ``N`` explained rows follow

    y ~ N(m 1, s (K + diag(h))),   h = g + u / s,

with kernel matrix ``K``, output scale ``s``, constant mean ``m``, nugget ``g`` (variation the kernel cannot explain)
and known noise variance ``u``. The mean is integrated out under a flat prior, so that the scale is not biased for few
rows.
With ``A = K + diag(h)`` and ``P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)``, the deviance is, up to a constant,

    -2 log p(y | s, g) = y' P y / s + (N - 1) log s + log|A| + log(1' A^-1 1),                                    (*)
    its derivative by K is P - P y y' P / s.

With the mean fixed at 0, ``P = A^-1``, the last term is absent and ``N`` stands for ``N - 1``. Each feature has its own
``s`` and ``g``; the free parameters of the kernel are shared, and (*) is summed over the features.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from gpec.gp._gram import Gram, Spectrum
from gpec.typing import FloatArray, IntArray

__all__ = [
    "LARGEST_NOISE",
    "LEAST_NUGGET",
    "Curve",
    "Parameters",
    "deviance",
    "fit_parameters",
    "fixed_parameters",
    "spread_of",
]

# Without a nugget the scale of a deterministic explainer would be set by the jitter.
LEAST_NUGGET = 1e-6
# Noise beyond this many times the scale leaves nothing to learn; the bound keeps it a number.
LARGEST_NOISE = 1e100
_LARGEST_NUGGET = 1e4
_LEAST_SPREAD = 1e-152  # its square is still a number
_SCALE_RANGE = (1e-8, 1e8)  # in units of the attributions' variance
_GRID = 48
_ROWS_FOR_STARTS = 150
_STARTS = 3
_ROWS_FOR_AVERAGE = 300  # of more rows the likelihood knows enough
_AVERAGED = (1e-4, 10.0)  # scales, in units of the attributions' variance
_NODES = 24


@dataclass(frozen=True, eq=False)
class Parameters:
    """Hyperparameters of ``d`` independent Gaussian processes.

    Attributes
    ----------
    scale : array of shape (d,)
        Output scale ``s``, in squared attribution units; 0 where a feature's attributions do not vary.
    nugget : array of shape (d,)
        ``g``, as a share of the scale.
    free_mean : bool
        Whether a constant mean is estimated (else it is 0).
    """

    scale: FloatArray
    nugget: FloatArray
    free_mean: bool

    def of(self, features: IntArray) -> Parameters:
        """Those of some features."""
        return Parameters(self.scale[features], self.nugget[features], self.free_mean)


def fixed_parameters(scale: float, d: int) -> Parameters:
    """The same scale for all features, zero mean and no nugget: the paper's model."""
    return Parameters(np.full(d, float(scale)), np.zeros(d), free_mean=False)


def fit_parameters(
    K: FloatArray | list[tuple[IntArray, Gram]], Y: FloatArray, U: FloatArray, *, average: bool = False
) -> Parameters:
    """Scale and nugget of each column of ``Y (N, d)`` with noise variance ``U (N, d)``.

    ``K (N, N)`` is the kernel matrix, or there is one for each group of features. They are those under which the
    attributions are most likely. ``average`` gives, for noisy features of at most 300 rows, the mean of the scale over
    what the likelihood leaves open instead; see :func:`_average_scale`.
    """
    d = Y.shape[1]
    grams = K if isinstance(K, list) else [(np.arange(d), Gram.of_matrix(K))]
    scale, nugget = np.zeros(d), np.full(d, LEAST_NUGGET)
    spread = spread_of(Y)
    for features, gram in grams:
        varies = features[spread[features] > 0]
        if not len(varies):
            continue
        y = (Y[:, varies] - Y[:, varies].mean(axis=0)) / spread[varies]
        with np.errstate(over="ignore"):
            u = np.minimum(U[:, varies] / spread[varies] ** 2, LARGEST_NOISE)
        # pixels of a superpixel shared by all images, or channels of one, are the same feature several times over
        _, first, twin = np.unique(np.concatenate((y, u)), axis=1, return_index=True, return_inverse=True)
        s, g = _scale_and_nugget(gram, y[:, first], u[:, first], average)
        scale[varies], nugget[varies] = s[twin.ravel()] * spread[varies] ** 2, g[twin.ravel()]
    return Parameters(scale, nugget, free_mean=True)


def spread_of(Y: FloatArray) -> FloatArray:
    """Standard deviation of each column, 0 where it does not vary beyond rounding."""
    size = np.abs(Y).max(axis=0)
    spread = (Y / np.where(size > 0, size, 1.0)).std(axis=0) * size
    return np.where(spread > np.maximum(1e-13 * size, _LEAST_SPREAD), spread, 0.0)


class Curve:
    """The deviance (*) where the noise is the same for all rows; ``y (n, d)``, one column a feature."""

    def __init__(self, spectrum: Spectrum, y: FloatArray, free_mean: bool) -> None:
        self.spectrum, self.free_mean = spectrum, free_mean
        self.z = spectrum.Q.T @ y
        self.freedom = len(y) - free_mean

    def terms(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``y' P y`` and the last two terms of (*) for each feature, at ``h (d,)``."""
        w = 1.0 / (self.spectrum.values[:, None] + h)
        quadratic, logarithm = (self.z**2 * w).sum(axis=0), -np.log(w).sum(axis=0)
        if self.free_mean:
            o = self.spectrum.ones[:, None]
            precision = (o**2 * w).sum(axis=0)
            residual = self.z - o * ((o * self.z * w).sum(axis=0) / precision)
            quadratic, logarithm = (residual**2 * w).sum(axis=0), logarithm + np.log(precision)
        return quadratic, logarithm

    def deviance(self, s: FloatArray, h: FloatArray) -> FloatArray:
        return deviance(*self.terms(h), s, self.freedom)

    def best(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best ``s`` and ``h``; the noise ``u (d,)`` must fit in: ``h >= LEAST_NUGGET + u / s``."""
        s, h = self._free(np.zeros_like(u))
        tight = np.flatnonzero(h < LEAST_NUGGET + u / s)
        if len(tight):
            part = copy.copy(self)
            part.z = self.z[:, tight]
            s[tight], h[tight] = part._squeezed(u[tight])
        return s, h

    def _free(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best ``h`` at which the best ``s`` leaves room for the noise; the least ``h`` if there is none."""

        def objective(log_h: FloatArray) -> FloatArray:
            h = np.exp(log_h)
            quadratic, logarithm = self.terms(h)
            s = quadratic / self.freedom
            fits = np.maximum(h - LEAST_NUGGET, 0.0) * s >= u
            return np.where(fits, deviance(quadratic, logarithm, s, self.freedom), np.inf)

        h = np.exp(_least_points(objective, np.log(LEAST_NUGGET), np.log(_LARGEST_NUGGET), len(u)))
        return np.clip(self.terms(h)[0] / self.freedom, *_SCALE_RANGE), h

    def _squeezed(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best where the stated noise is all that the kernel leaves, or a lesser minimum that leaves more."""

        def objective(log_s: FloatArray) -> FloatArray:
            s = np.exp(log_s)
            return self.deviance(s, LEAST_NUGGET + u / s)

        s = np.exp(_least_points(objective, np.log(_SCALE_RANGE[0]), np.log(_SCALE_RANGE[1]), len(u)))
        h = LEAST_NUGGET + u / s
        other, loose = self._free(u)
        better = (loose >= LEAST_NUGGET + u / other) & (self.deviance(other, loose) < self.deviance(s, h))
        return np.where(better, other, s), np.where(better, loose, h)

    def by_matrix(self, s: FloatArray, h: FloatArray) -> FloatArray:
        """The derivative of the summed deviance by the kernel matrix."""
        Q, o = self.spectrum.Q, self.spectrum.ones[:, None]
        w = 1.0 / (self.spectrum.values[:, None] + h)
        columns, z = [], self.z
        if self.free_mean:
            precision = (o**2 * w).sum(axis=0)
            z = z - o * ((o * z * w).sum(axis=0) / precision)
            columns.append(o * w / np.sqrt(precision))
        columns.append(z * w / np.sqrt(s))
        R = Q @ np.hstack(columns)
        return np.asarray((Q * w.sum(axis=1)) @ Q.T - R @ R.T)


def deviance(quadratic: Any, logarithm: Any, s: Any, freedom: int) -> FloatArray:
    return np.asarray(quadratic / s + freedom * np.log(s) + logarithm)


def _scale_and_nugget(gram: Gram, y: FloatArray, u: FloatArray, average: bool) -> tuple[FloatArray, FloatArray]:
    """Scale and nugget of each column of standardised attributions ``y`` with noise ``u``."""
    curve, noise = Curve(gram.spectrum, y, free_mean=True), u.mean(axis=0)
    s, h = curve.best(noise)
    g = np.maximum(h - noise / s, LEAST_NUGGET)
    averaged = average and bool(u.any()) and len(y) <= _ROWS_FOR_AVERAGE
    if averaged:
        left = s * g  # variation that the kernel cannot explain: it stays what it is
        t = _average_scale(lambda t: curve.deviance(t, np.maximum(left / t, LEAST_NUGGET) + noise / t), s)
        s, g = np.where(noise > 0, t, s), np.where(noise > 0, np.maximum(left / t, LEAST_NUGGET), g)
    for f in np.flatnonzero(np.ptp(u, axis=0) > 0):
        s[f], g[f] = _varying_noise(gram.matrix, y[:, f], u[:, f], np.array([s[f], g[f]]))
        if averaged:
            s[f], g[f] = _average_with_varying_noise(gram.matrix, y[:, f], u[:, f], s[f], g[f])
    return s, g


def _average_scale(deviance: Callable[[FloatArray], FloatArray], best: FloatArray) -> FloatArray:
    """The mean of the scale over what the likelihood leaves open, under a flat prior on its root.

    Where noise is comparable to the spread, the likelihood is flat towards a scale of 0, and its highest point may lie
    there; intervals from that point alone would be too narrow. ``best (d,)`` is one of the scales looked at.
    """
    low, high = np.log(_AVERAGED)
    grid, step = np.linspace(low, high, _NODES, retstep=True)
    offset = np.where((best > _AVERAGED[0]) & (best < _AVERAGED[1]), (np.log(best) - low) % step, 0.0)
    nodes = np.exp(grid[:, None] + offset)
    D = np.array([deviance(node) for node in nodes])
    w = np.exp(-(D - D.min(axis=0)) / 2) * np.sqrt(nodes)
    return np.asarray((w * nodes).sum(axis=0) / w.sum(axis=0))


def _average_with_varying_noise(K: FloatArray, y: FloatArray, u: FloatArray, s: float, g: float) -> tuple[float, float]:
    left = s * g

    def at_scale(t: FloatArray) -> FloatArray:
        L = cholesky(K + np.diag(np.maximum(left / t, LEAST_NUGGET) + u / t), lower=True)
        white = solve_triangular(L, np.column_stack((y, np.ones(len(y)))), lower=True)
        precision = float(white[:, 1] @ white[:, 1])
        quadratic = white[:, 0] @ white[:, 0] - (white[:, 0] @ white[:, 1]) ** 2 / precision
        return deviance(quadratic, 2 * np.log(np.diag(L)).sum() + np.log(precision), t, len(y) - 1)

    t = float(_average_scale(at_scale, np.array([s]))[0])
    return t, max(left / t, LEAST_NUGGET)


def _varying_noise(K: FloatArray, y: FloatArray, u: FloatArray, start: FloatArray) -> FloatArray:
    """Scale and nugget when each row has its own noise; ``start`` is the best for their mean."""
    bounds = np.log([_SCALE_RANGE, (LEAST_NUGGET, _LARGEST_NUGGET)])

    def objective(theta: FloatArray, some: slice = slice(None)) -> tuple[float, FloatArray]:
        (s, g), y_, u_ = np.exp(theta), y[some], u[some]
        n = len(y_)
        A = K[some, some] + np.diag(g + u_ / s)
        try:
            factor = cho_factor(A, lower=True)
        except LinAlgError:  # noise beyond all measure drowns the kernel in rounding
            return np.inf, np.zeros(2)
        inverse = cho_solve(factor, np.eye(n))
        ones = inverse.sum(axis=1)
        precision = float(ones.sum())
        P = inverse - np.outer(ones, ones) / precision
        Py = P @ y_
        logarithm = 2 * np.log(np.diag(factor[0])).sum() + np.log(precision)
        value = deviance(np.array(y_ @ Py), logarithm, s, n - 1)
        by_h = np.diag(P) - Py**2 / s  # h = g + u / s
        by_s = (n - 1) - y_ @ Py / s - by_h @ u_ / s
        return float(value), np.array([by_s, g * by_h.sum()])

    # The surface is flat where the scale vanishes, so that a search from there would stay: look around first.
    some = slice(None, None, max(len(y) // _ROWS_FOR_STARTS, 1))
    grid = [(np.log(s), np.log(g)) for s in (1e-4, 1e-2, 0.1, 0.5, 2.0) for g in (1e-5, 1e-2, 1.0)]
    tried = np.array([np.clip(np.log(start), *bounds.T), *grid])
    values = [objective(theta, some)[0] for theta in tried]
    starts = tried[np.argsort(values, kind="stable")[:_STARTS]]
    fits = [minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds) for x0 in starts]
    return np.asarray(np.exp(min(fits, key=lambda fit: float(fit.fun)).x))


def _least_points(function: Callable[[FloatArray], FloatArray], low: float, high: float, d: int) -> FloatArray:
    """Least point of each of ``d`` functions, which may have several minima: a grid, then golden sections."""
    grid = np.linspace(low, high, _GRID)
    values = np.array([function(np.full(d, x)) for x in grid])
    best = values.argmin(axis=0)
    a, b = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID - 1)]
    golden = (np.sqrt(5.0) - 1) / 2
    c, e = b - golden * (b - a), a + golden * (b - a)
    at_c, at_e = function(c), function(e)
    while (b - a).max() > 1e-7:
        left = at_c < at_e
        a, b = np.where(left, a, c), np.where(left, e, b)
        c, e = np.where(left, b - golden * (b - a), e), np.where(left, c, a + golden * (b - a))
        fresh = function(np.where(left, c, e))
        at_c, at_e = np.where(left, fresh, at_e), np.where(left, at_c, fresh)
    middle = (a + b) / 2
    return np.asarray(np.where(function(middle) < values.min(axis=0), middle, grid[best]))
