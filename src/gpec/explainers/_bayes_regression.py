"""Many weighted Bayesian linear regressions in closed form (Slack et al., NeurIPS 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from scipy.stats import t as student_t

from gpec._validation import check_level, check_positive
from gpec.data.rows import concatenated
from gpec.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """Posterior of ``n`` weighted linear regressions with ``p`` coefficients (the first is the intercept).

    Each regression can have ``c`` outputs, which share features and weights. The model is

        y | z ~ N(z beta, sigma^2 / weight(z)),   beta ~ N(0, sigma^2 P^-1),   p(sigma^2) ~ 1 / sigma^2,

    with P diagonal. Its posterior for N observations is

        V = (Z'WZ + P)^-1,   phi = V Z'Wy,   N s2 = (y - Z phi)'W(y - Z phi) + phi'P phi,
        sigma^2 ~ InvGamma(N / 2, N s2 / 2),   beta | sigma^2 ~ N(phi, sigma^2 V).

    So each coefficient has a Student t distribution with N degrees of freedom, location ``phi_j`` and scale
    ``sqrt(s2 V_jj)``. Its intervals need no sampling.

    Attributes
    ----------
    mean : array of shape (n, p, c)
        ``phi``.
    V : array of shape (n, p, p)
    s2 : array of shape (n, c)
    penalty : array of shape (n, c)
        ``phi'P phi``, the prior's part of ``N s2``.
    count : array of shape (n,)
        ``N``, the number of observations of each regression.
    """

    mean: FloatArray
    V: FloatArray
    s2: FloatArray
    penalty: FloatArray
    count: IntArray

    def __getitem__(self, index: Any) -> LinearPosterior:
        """The posteriors of some of the regressions."""
        return LinearPosterior(*(getattr(self, field.name)[index] for field in fields(self)))

    def first(self, d: int) -> LinearPosterior:
        """The marginal posterior of the intercept and the first ``d`` coefficients."""
        p = d + 1
        return LinearPosterior(self.mean[:, :p], self.V[:, :p, :p], self.s2, self.penalty, self.count)

    def shifted(self, by: FloatArray) -> LinearPosterior:
        """The posterior for answers that are greater by ``by (c,)``: the intercepts are shifted."""
        mean = self.mean.copy()
        mean[:, 0] += by
        return replace(self, mean=mean)

    @classmethod
    def join(cls, parts: Sequence[LinearPosterior]) -> LinearPosterior:
        """Several posteriors as one."""
        return cls(**concatenated(parts, *(field.name for field in fields(cls))))

    @property
    def intercept(self) -> FloatArray:
        """Posterior mean of the intercept, ``(n, c)``."""
        return self.mean[:, 0]

    @property
    def coefficients(self) -> FloatArray:
        """Posterior mean of the coefficients without the intercept, ``(n, p - 1, c)``."""
        return self.mean[:, 1:]

    @property
    def squared_scale(self) -> FloatArray:
        """``s2 V_jj`` of the coefficients without the intercept, ``(n, p - 1, c)``."""
        diagonal = np.diagonal(self.V, axis1=1, axis2=2)[:, 1:]
        return np.asarray(diagonal[:, :, None] * self.s2[:, None, :])

    @property
    def variance(self) -> FloatArray:
        """Posterior variance of the coefficients, ``s2 V_jj N / (N - 2)``; needs three observations."""
        N = self.count[:, None, None].astype(np.float64)
        return np.asarray(self.squared_scale * N / (N - 2.0))

    def half_width(self, level: float = 0.95) -> FloatArray:
        """Half-width of the credible interval of each coefficient, ``(n, p - 1, c)``."""
        quantile = student_t.ppf(0.5 + 0.5 * check_level(level), self.count)
        return np.asarray(quantile[:, None, None] * np.sqrt(self.squared_scale))

    def predictive_std(self, features: FloatArray, weights: FloatArray) -> FloatArray:
        """Predictive scale of ``sqrt(w) y`` at ``features (n, s, p - 1)``, ``sqrt(s2 (1 + w z'Vz))``; ``(n, s)``.

        ``s2`` is the mean over the outputs. Slack et al. omit the weight; that selects distant perturbations, which
        have little weight.
        """
        Z = with_intercept(features)
        leverage = weights * ((Z @ self.V) * Z).sum(axis=2)
        return np.asarray(np.sqrt(self.s2.mean(axis=1)[:, None] * (1.0 + leverage)))

    def samples_needed(self, width: float, level: float = 0.95) -> IntArray:
        """Total number of observations after which every half-width is at most ``width``, ``(n,)``.

        The largest solution over j of ``width^2 = t^2 V_jj (N / m) (r / N + phi'P phi / m)`` for m, where r are the
        weighted squared residuals. It assumes that r grows and V falls in proportion to m. The estimate has an error of
        about ten percent. For balanced 0/1 features, ``V_jj = 4 / (N mean weight)``, and without the prior it is the
        formula of Slack et al., ``4 s2 / (mean weight * (width / 1.96)^2)``.
        """
        wanted = check_positive("width", width)
        quantile = student_t.ppf(0.5 + 0.5 * check_level(level), self.count)
        V = np.diagonal(self.V, axis1=1, axis2=2)[:, 1:].max(axis=1)
        a = (quantile / wanted) ** 2 * V * self.count
        r = np.maximum(self.s2 - self.penalty / self.count[:, None], 0.0)
        half = 0.5 * a[:, None] * r
        needed = (half + np.sqrt(half**2 + a[:, None] * self.penalty)).max(axis=1)
        return np.asarray(np.minimum(np.ceil(needed), 2.0**62), dtype=np.int64)


@dataclass(eq=False)
class Moments:
    """Sufficient statistics of ``n`` weighted regressions, so that observations can be added in batches.

    Attributes
    ----------
    gram, cross, square : arrays of shape (n, p, p), (n, p, c), (n, c)
        ``Z'WZ``, ``Z'Wy`` and ``y'Wy``.
    count : array of shape (n,)
        Observations so far.
    """

    gram: FloatArray
    cross: FloatArray
    square: FloatArray
    count: IntArray

    @classmethod
    def of(cls, features: FloatArray, y: FloatArray, weights: FloatArray) -> Self:
        """Sums over ``s`` observations: features ``(n, s, p - 1)``, y ``(n, s, c)``, weights ``(n, s)``."""
        Z = with_intercept(features)
        weighted = np.ascontiguousarray((Z * weights[:, :, None]).transpose(0, 2, 1))
        count = np.full(len(Z), Z.shape[1], dtype=np.int64)
        return cls(weighted @ Z, weighted @ y, np.einsum("ns,nsc,nsc->nc", weights, y, y), count)

    def add(self, more: Moments, rows: IntArray) -> None:
        """Add the observations ``more`` of the regressions ``rows``."""
        for field in fields(self):
            getattr(self, field.name)[rows] += getattr(more, field.name)

    def solve(self, prior: float = 1.0, *, intercept_prior: float | None = None) -> LinearPosterior:
        """The posterior for ``P = prior * I``; ``intercept_prior`` is the intercept's own prior precision."""
        precision = np.full(self.gram.shape[1], float(prior))
        if intercept_prior is not None:
            precision[0] = intercept_prior
        V = np.linalg.inv(self.gram + np.diag(precision))
        V = 0.5 * (V + V.transpose(0, 2, 1))
        phi = V @ self.cross
        # Equal to the weighted residuals plus phi'P phi; for a perfect fit, rounding can make it slightly negative.
        total = np.maximum(self.square - (phi * self.cross).sum(axis=1), 0.0)
        penalty = np.einsum("p,npc,npc->nc", precision, phi, phi)
        return LinearPosterior(phi, V, total / self.count[:, None], penalty, self.count.copy())


def sandwich_variance(
    posterior: LinearPosterior, features: FloatArray, y: FloatArray, weights: FloatArray
) -> FloatArray:
    """Variance of the coefficients over random observations, ``(n, p - 1, c)``.

    ``V (sum_i w_i^2 r_i^2 / (1 - h_i) z_i z_i') V`` with residuals ``r`` and leverages ``h_i = w_i z_i'V z_i`` (HC2).
    It is also valid if the linear model is wrong, and for unequal noise.
    """
    Z = with_intercept(features)
    ZV = Z @ posterior.V
    leverage = weights * (ZV * Z).sum(axis=2)
    residual = y - Z @ posterior.mean
    # A leverage of 1 means that the fit passes through the point; its residual is 0, up to rounding.
    factor = (weights**2 / np.maximum(1.0 - leverage, 1e-6))[:, :, None] * residual**2
    return np.asarray((ZV[:, :, 1:] ** 2).transpose(0, 2, 1) @ factor)


def with_intercept(features: FloatArray) -> FloatArray:
    """``features (n, s, d)`` with a first column of ones, ``(n, s, d + 1)``."""
    return np.concatenate((np.ones((*features.shape[:2], 1)), features), axis=2)
