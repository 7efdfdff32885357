"""The deviance of attributions as a function of scale and noise; see :mod:`gpec.gp.evidence` for the formula (*)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs
from scipy.optimize import minimize

from gpec.gp._gram import Spectrum
from gpec.gp._linalg import FlatMean, Spectral
from gpec.typing import FloatArray

# Without a nugget, the jitter would determine the scale of a deterministic explainer.
LEAST_NUGGET = 1e-6
_LARGEST_NUGGET = 1e4
_SCALE_RANGE = (1e-8, 1e8)  # in units of the attributions' variance
_GRID = 48
_ROWS_FOR_STARTS = 150
_STARTS = 3


class EqualNoiseREML:
    """The deviance (*) of attributions ``y (n, d)`` whose noise is the same at all rows, a column for each feature."""

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
        return _deviance(*self.terms(h), s, self.freedom)

    def best(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best ``s`` and ``h`` with ``h >= LEAST_NUGGET + u / s``, for noise variance ``u (d,)``."""
        s, h = self._best_inside(np.zeros_like(u))
        violated = np.flatnonzero(h < LEAST_NUGGET + u / s)
        if len(violated):
            part = copy.copy(self)
            part.z = self.z[:, violated]
            s[violated], h[violated] = part._best_constrained(u[violated])
        return s, h

    def _best_inside(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The best ``h``, among those whose best ``s`` satisfies the constraint; the least ``h`` if none does."""

        def objective(log_h: FloatArray) -> FloatArray:
            h = np.exp(log_h)
            quadratic, logdet = self.terms(h)
            s = quadratic / self.freedom
            allowed = np.maximum(h - LEAST_NUGGET, 0.0) * s >= u
            return np.where(allowed, _deviance(quadratic, logdet, s, self.freedom), np.inf)

        h = np.exp(_minimize_each(objective, np.log(LEAST_NUGGET), np.log(_LARGEST_NUGGET), len(u)))
        return np.clip(self.terms(h)[0] / self.freedom, *_SCALE_RANGE), h

    def _best_constrained(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The better of the best at the limit, ``h = LEAST_NUGGET + u / s``, and the best inside."""

        def objective(log_s: FloatArray) -> FloatArray:
            s = np.exp(log_s)
            return self.deviance(s, LEAST_NUGGET + u / s)

        s = np.exp(_minimize_each(objective, np.log(_SCALE_RANGE[0]), np.log(_SCALE_RANGE[1]), len(u)))
        h = LEAST_NUGGET + u / s
        s_inside, h_inside = self._best_inside(u)
        better = self.deviance(s_inside, h_inside) < self.deviance(s, h)
        better &= h_inside >= LEAST_NUGGET + u / s_inside
        return np.where(better, s_inside, s), np.where(better, h_inside, h)

    def by_matrix(self, s: FloatArray, h: FloatArray) -> FloatArray:
        """The derivative of the summed deviance by the kernel matrix."""
        P, Q = self._at(h), self.spectrum.Q
        columns = [P.A.ones * P.A.w / np.sqrt(P.precision), P.residual(self.z) * P.A.w / np.sqrt(s)]
        R = Q @ np.hstack(columns)
        return np.asarray((Q * P.A.w.sum(axis=1)) @ Q.T - R @ R.T)


class REMLTerms:
    """The terms of (*) for several features, each with its own matrix: ``y' P y`` and ``log|A| + log(1' A^-1 1)``.

    ``K (F, n, n)`` are kernel matrices, ``h (F, n)`` noise and ``y (F, n)`` attributions. A matrix ``A = K + diag(h)``
    that is not positive definite raises LinAlgError. LAPACK works in place, so ``K`` is overwritten: what is the lower
    triangle in C's order is the upper one in Fortran's. Coordinates are ``L^-1 y``, a column for each feature.
    """

    def __init__(self, K: FloatArray, h: FloatArray, y: FloatArray) -> None:
        self._A = A = np.ascontiguousarray(K)
        np.einsum("fii->fi", A)[...] += h
        self._vectors = np.ones((len(A), 2, A.shape[1]))
        self._vectors[:, 0] = y
        for L, pair in zip(A, self._vectors, strict=True):
            if dpotrf(L.T, clean=0, overwrite_a=1)[1]:
                raise LinAlgError("The kernel matrix with noise is not positive definite.")
            dtrtrs(L.T, pair.T, trans=1, overwrite_b=1)
        v, self.ones = self._vectors[:, 0].T, self._vectors[:, 1].T
        P = FlatMean(self)  # not an attribute: a cycle of references would keep the matrices in memory
        self.quadratic, self.logdet_P = P.inv_quad(v), P.logdet()
        self._residual, self._precision = P.residual(v), P.precision

    def inv_quad(self, u: FloatArray, v: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("nf,nf->f", u, v))

    def logdet(self) -> FloatArray:
        return np.asarray(2 * np.log(np.einsum("fii->fi", self._A)).sum(axis=1))

    def deviance(self, s: Any) -> FloatArray:
        return _deviance(self.quadratic, self.logdet_P, s, len(self.ones) - 1)

    def by_matrix_and_noise(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The derivatives of the deviance: by ``K``, as the lower triangle of ``A^-1`` and ``Z (F, 2, n)``; by ``h``.

        ``A^-1 - Z' Z = P - P y y' P / s``. It can be called once, because the Cholesky factors are overwritten.
        """
        A, Z = self._A, self._vectors
        Z[:, 0], Z[:, 1] = (self._residual / np.sqrt(s)).T, (self.ones / np.sqrt(self._precision)).T
        for L, pair in zip(A, Z, strict=True):
            dtrtrs(L.T, pair.T, overwrite_b=1)
            dpotri(L.T, overwrite_c=1)
        return A, Z, np.einsum("fii->fi", A) - np.einsum("fin,fin->fn", Z, Z)


class VaryingNoiseREML:
    """The deviance (*) of attributions ``y (n,)`` of one feature where each row has its own noise ``u (n,)``."""

    def __init__(self, K: FloatArray, y: FloatArray, u: FloatArray) -> None:
        self.K, self.y, self.u = K, y, u

    def terms(self, s: Any, g: Any) -> REMLTerms:
        return REMLTerms(np.array(self.K, order="C")[None], g + self.u / s, self.y[None])

    def deviance(self, s: FloatArray, g: FloatArray) -> FloatArray:
        return self.terms(s, g).deviance(s)

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """At ``theta = log(s, g)``."""
        s, g = np.exp(theta)
        try:
            found = self.terms(s, g)
        except LinAlgError:  # the noise is so large that the kernel is lost in rounding
            return np.inf, np.zeros(2)
        value, by_h = float(found.deviance(s)[0]), found.by_matrix_and_noise(s)[2][0]  # h = g + u / s
        by_s = len(self.y) - 1 - found.quadratic[0] / s - by_h @ self.u / s
        return value, np.array([by_s, g * by_h.sum()])

    def best(self, start: FloatArray) -> FloatArray:
        """Scale and nugget; ``start`` is the best pair for the mean of the noise."""
        bounds = np.log([_SCALE_RANGE, (LEAST_NUGGET, _LARGEST_NUGGET)])
        # The deviance is flat where the scale vanishes, and a search would not leave that region: try a grid first.
        some = slice(None, None, max(len(self.y) // _ROWS_FOR_STARTS, 1))
        few = VaryingNoiseREML(self.K[some, some], self.y[some], self.u[some])
        grid = [(np.log(s), np.log(g)) for s in (1e-4, 1e-2, 0.1, 0.5, 2.0) for g in (1e-5, 1e-2, 1.0)]
        tried = np.array([np.clip(np.log(start), *bounds.T), *grid])
        values = [few.value_and_gradient(theta)[0] for theta in tried]
        starts = tried[np.argsort(values, kind="stable")[:_STARTS]]
        fits = [minimize(self.value_and_gradient, x, jac=True, method="L-BFGS-B", bounds=bounds) for x in starts]
        return np.asarray(np.exp(min(fits, key=lambda fit: float(fit.fun)).x))


def _deviance(quadratic: Any, logdet: Any, s: Any, freedom: int) -> FloatArray:
    """(*) with ``freedom`` degrees of freedom: ``N - 1``, or ``N`` if the mean is known."""
    return np.asarray(quadratic / s + freedom * np.log(s) + logdet)


def _minimize_each(function: Callable[[FloatArray], FloatArray], low: float, high: float, d: int) -> FloatArray:
    """Where each of ``d`` functions, which may have several minima, is least: a grid, then golden-section search."""
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
        value = function(np.where(left, c, e))
        at_c, at_e = np.where(left, value, at_e), np.where(left, at_c, value)
    middle = (a + b) / 2
    return np.asarray(np.where(function(middle) < values.min(axis=0), middle, grid[best]))
