"""The deviance of attributions as a function of scale and noise; see :mod:`gpec.gp.evidence` for the formula (*)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from gpec.gp._gram import Spectrum
from gpec.gp._linalg import FlatMean, Spectral
from gpec.typing import FloatArray

__all__ = ["LARGEST_NUGGET", "LEAST_NUGGET", "SCALE_RANGE", "EqualNoiseREML", "REMLTerms", "deviance"]

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

    def _at(self, h: FloatArray) -> FlatMean:
        return FlatMean(Spectral(self.spectrum, h), self.free_mean)

    def terms(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``y' P y`` and the last two terms of (*) for each feature, at ``h (d,)``."""
        P = self._at(h)
        return P.inv_quad(self.z), P.logdet()

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
        P, Q = self._at(h), self.spectrum.Q
        columns = [P.A.ones * P.A.w / np.sqrt(P.precision), P.residual(self.z) * P.A.w / np.sqrt(s)]
        R = Q @ np.hstack(columns)
        return np.asarray((Q * P.A.w.sum(axis=1)) @ Q.T - R @ R.T)


class REMLTerms:
    """``quadratic = y' P y`` and ``logarithm = log|A| + log(1' A^-1 1)`` of several features, each with its matrix.

    ``A (F, n, n)`` are matrices ``K + diag(h)`` and ``y (F, n)`` attributions. A matrix that is not positive definite
    raises LinAlgError. LAPACK works in place, so ``A`` is overwritten: what is the lower triangle in C's order is the
    upper one in Fortran's. Coordinates are ``L^-1 y``, a column for each feature.
    """

    def __init__(self, A: FloatArray, y: FloatArray) -> None:
        self._A = A = np.ascontiguousarray(A)
        self._vectors = np.ones((len(A), 2, A.shape[1]))
        self._vectors[:, 0] = y
        for L, pair in zip(A, self._vectors, strict=True):
            if dpotrf(L.T, clean=0, overwrite_a=1)[1]:
                raise LinAlgError("The kernel matrix with noise is not positive definite.")
            dtrtrs(L.T, pair.T, trans=1, overwrite_b=1)
        white, self.ones = self._vectors[:, 0].T, self._vectors[:, 1].T
        P = FlatMean(self)  # not kept: the matrices would wait for the garbage collector
        self.quadratic, self.logarithm = P.inv_quad(white), P.logdet()
        self._residual, self._precision = P.residual(white), P.precision

    def inv_quad(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("nf,nf->f", u, v))

    def logdet(self) -> FloatArray:
        return np.asarray(2 * np.log(np.einsum("fii->fi", self._A)).sum(axis=1))

    def by_matrix(self, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lower triangle of ``A^-1``, and ``Z (F, 2, n)`` with ``A^-1 - Z' Z = P - P y y' P / s``.

        It can be called once, because the factors are overwritten.
        """
        A, Z = self._A, self._vectors
        Z[:, 0], Z[:, 1] = (self._residual / np.sqrt(s)).T, (self.ones / np.sqrt(self._precision)).T
        for L, pair in zip(A, Z, strict=True):
            dtrtrs(L.T, pair.T, overwrite_b=1)
            dpotri(L.T, overwrite_c=1)
        return A, Z

    def by_diagonal(self, s: FloatArray) -> FloatArray:
        """The derivative of the deviance by ``h``, ``(F, n)``, instead of :meth:`by_matrix`."""
        inverse, Z = self.by_matrix(s)
        return np.asarray(np.einsum("fii->fi", inverse) - np.einsum("fin,fin->fn", Z, Z))


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
