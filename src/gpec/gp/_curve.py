"""The deviance of attributions whose noise is the same for all rows, as a function of scale and nugget.

See :mod:`gpec.gp.evidence` for the formula.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from gpec.gp._gram import Spectrum
from gpec.typing import FloatArray

__all__ = ["LARGEST_NUGGET", "LEAST_NUGGET", "SCALE_RANGE", "EqualNoiseREML", "deviance"]

# Without a nugget the scale of a deterministic explainer would be set by the jitter.
LEAST_NUGGET = 1e-6
LARGEST_NUGGET = 1e4
SCALE_RANGE = (1e-8, 1e8)  # in units of the attributions' variance
_GRID = 48


class EqualNoiseREML:
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

        h = np.exp(_least_points(objective, np.log(LEAST_NUGGET), np.log(LARGEST_NUGGET), len(u)))
        return np.clip(self.terms(h)[0] / self.freedom, *SCALE_RANGE), h

    def _squeezed(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best where the stated noise is all that the kernel leaves, or a lesser minimum that leaves more."""

        def objective(log_s: FloatArray) -> FloatArray:
            s = np.exp(log_s)
            return self.deviance(s, LEAST_NUGGET + u / s)

        s = np.exp(_least_points(objective, np.log(SCALE_RANGE[0]), np.log(SCALE_RANGE[1]), len(u)))
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
