r"""Scale, mean and nugget of each feature by marginal likelihood.

The attributions ``y`` of one feature at the ``N`` explained rows follow

    y ~ N(m 1, A),   A = s (K + g I) + diag(u),

with output scale ``s``, constant mean ``m``, nugget ``g`` (variation the kernel cannot explain) and known noise ``u``.
The mean is integrated out under a flat prior, so that the scale is not biased for few rows:

    -2 log p(y | s, g) = y' P y + log|A| + log(1' A^-1 1) + const,   P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize, minimize_scalar

from gpec.table import FloatArray

__all__ = ["LARGEST_NOISE", "LEAST_NUGGET", "Parameters", "fit_parameters", "fixed_parameters"]

# Without a nugget the scale of a deterministic explainer would be set by the jitter.
LEAST_NUGGET = 1e-6
# Noise beyond this many times the scale leaves nothing to learn; the bound keeps it a number.
LARGEST_NOISE = 1e100
_LARGEST_NUGGET = 1e4
_LEAST_SPREAD = 1e-152  # its square is still a number
_SCALE_RANGE = (1e-8, 1e8)  # in units of the attributions' variance


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


def fixed_parameters(scale: float, d: int) -> Parameters:
    """The same scale for all features, zero mean and no nugget: the paper's model."""
    return Parameters(np.full(d, float(scale)), np.zeros(d), free_mean=False)


def fit_parameters(K: FloatArray, Y: FloatArray, U: FloatArray) -> Parameters:
    """Scale and nugget of each column of ``Y (N, d)`` with noise variance ``U (N, d)``, kernel matrix ``K (N, N)``."""
    eigenvalues, Q = eigh(K, driver="evd")
    eigenvalues = np.maximum(eigenvalues, 0.0)
    d = Y.shape[1]
    scale, nugget = np.zeros(d), np.full(d, LEAST_NUGGET)
    seen: dict[bytes, int] = {}
    for f in range(d):
        # pixels of a superpixel shared by all images, or channels of one, are the same feature several times over
        same = seen.setdefault(np.concatenate((Y[:, f], U[:, f])).tobytes(), f)
        if same != f:
            scale[f], nugget[f] = scale[same], nugget[same]
            continue
        size = float(np.abs(Y[:, f]).max())
        spread = float((Y[:, f] / size).std() * size) if size > 0 else 0.0
        if spread <= max(1e-13 * size, _LEAST_SPREAD):
            continue  # the feature is never used: nothing varies
        y = (Y[:, f] - Y[:, f].mean()) / spread
        with np.errstate(over="ignore"):
            u = np.minimum(U[:, f] / spread**2, LARGEST_NOISE)
        if np.ptp(u) == 0:
            s, g = _constant_noise(eigenvalues, Q.T @ y, Q.sum(axis=0), float(u[0]))
        else:
            s, g = _varying_noise(K, y, u, _constant_noise(eigenvalues, Q.T @ y, Q.sum(axis=0), 0.0))
        scale[f], nugget[f] = s * spread**2, g
    return Parameters(scale, nugget, free_mean=True)


def _constant_noise(eigenvalues: FloatArray, z: FloatArray, o: FloatArray, u: float) -> tuple[float, float]:
    """Scale and nugget when the noise is the same for all rows; ``z = Q'y``, ``o = Q'1``."""
    n = len(z)

    def terms(h: float) -> tuple[float, float]:
        w = 1.0 / (eigenvalues + h)
        precision = float(o**2 @ w)
        residual = z - (o * z @ w) / precision * o
        return float(residual**2 @ w), float(-np.log(w).sum() + np.log(precision))

    def profile(log_h: float) -> float:
        quadratic, log_determinant = terms(float(np.exp(log_h)))
        return float((n - 1) * np.log(quadratic) + log_determinant)

    low, high = np.log(LEAST_NUGGET), np.log(_LARGEST_NUGGET)
    h = float(np.exp(_minimize_on(profile, low, high)))
    s = _within_range(terms(h)[0] / (n - 1))
    if h - u / s >= LEAST_NUGGET:
        return s, h - u / s

    def at_least_nugget(log_s: float) -> float:  # the stated noise is all the unexplained variation there is
        s = float(np.exp(log_s))
        quadratic, log_determinant = terms(LEAST_NUGGET + u / s)
        return float(quadratic / s + (n - 1) * log_s + log_determinant)

    return float(np.exp(_minimize_on(at_least_nugget, *np.log(_SCALE_RANGE)))), LEAST_NUGGET


def _varying_noise(K: FloatArray, y: FloatArray, u: FloatArray, start: tuple[float, float]) -> tuple[float, float]:
    """Scale and nugget when each row has its own noise."""
    n = len(y)
    identity = np.eye(n)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        s, g = np.exp(theta)
        latent = s * (K + g * identity)
        factor = cho_factor(latent + np.diag(u), lower=True)
        inverse = cho_solve(factor, identity)
        ones = inverse.sum(axis=1)
        precision = float(ones.sum())
        P = inverse - np.outer(ones, ones) / precision
        Py = P @ y
        value = float(y @ Py) + 2 * float(np.log(np.diag(factor[0])).sum()) + float(np.log(precision))
        derivative = [float((P * latent).sum() - Py @ latent @ Py), s * g * float(np.trace(P) - Py @ Py)]
        return value, np.array(derivative)

    bounds = [tuple(np.log(_SCALE_RANGE)), (np.log(LEAST_NUGGET), np.log(_LARGEST_NUGGET))]
    starts = [np.log(start), np.log((max(1.0 - float(u.mean()), 0.1), 1e-2))]
    fits = [minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds) for x0 in starts]
    s, g = np.exp(min(fits, key=lambda fit: float(fit.fun)).x)
    return float(s), float(g)


def _minimize_on(function: Callable[[float], float], low: float, high: float) -> float:
    """Least point of a function that may have several minima: a grid, then a search around its best point."""
    grid = np.linspace(low, high, 48)
    values = [function(float(x)) for x in grid]
    best = int(np.argmin(values))
    span = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(function, bounds=span, method="bounded", options={"xatol": 1e-6})
    return float(found.x) if found.fun < values[best] else float(grid[best])


def _within_range(s: float) -> float:
    return float(np.clip(s, *_SCALE_RANGE))
