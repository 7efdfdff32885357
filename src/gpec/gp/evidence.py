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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize

from gpec.gp._gram import Gram
from gpec.gp._reml import LARGEST_NUGGET, LEAST_NUGGET, SCALE_RANGE, EqualNoiseREML, REMLTerms, deviance
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray, IntArray

__all__ = [
    "LARGEST_NOISE",
    "LEAST_NUGGET",
    "Parameters",
    "fit_parameters",
    "fixed_parameters",
    "spread_of",
]

# Noise beyond this many times the scale leaves nothing to learn; the bound keeps it a number.
LARGEST_NOISE = 1e100
_LEAST_SPREAD = 1e-152  # its square is still a number
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

    scale: Annotated[FloatArray, Shape("feature"), Limits(least=0)]
    nugget: Annotated[FloatArray, Shape("feature"), Limits(least=0)]
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


def _scale_and_nugget(gram: Gram, y: FloatArray, u: FloatArray, average: bool) -> tuple[FloatArray, FloatArray]:
    """Scale and nugget of each column of standardised attributions ``y`` with noise ``u``."""
    curve, noise = EqualNoiseREML(gram.spectrum, y, free_mean=True), u.mean(axis=0)
    s, h = curve.best(noise)
    g = np.maximum(h - noise / s, LEAST_NUGGET)
    averaged = average and bool(u.any()) and len(y) <= _ROWS_FOR_AVERAGE
    if averaged:
        left = s * g  # variation that the kernel cannot explain: it stays what it is
        t = _average_scale(lambda t: curve.deviance(t, np.maximum(left / t, LEAST_NUGGET) + noise / t), s)
        s, g = np.where(noise > 0, t, s), np.where(noise > 0, np.maximum(left / t, LEAST_NUGGET), g)
    K = gram.matrix
    for f in np.flatnonzero(np.ptp(u, axis=0) > 0):
        s[f], g[f] = _varying_noise(K, y[:, f], u[:, f], np.array([s[f], g[f]]))
        if averaged:
            s[f], g[f] = _average_with_varying_noise(K, y[:, f], u[:, f], s[f], g[f])
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
        found = REMLTerms(_with_noise(K, np.maximum(left / t, LEAST_NUGGET) + u / t), y[None])
        return deviance(found.quadratic, found.logarithm, t, len(y) - 1)

    t = float(_average_scale(at_scale, np.array([s]))[0])
    return t, max(left / t, LEAST_NUGGET)


def _varying_noise(K: FloatArray, y: FloatArray, u: FloatArray, start: FloatArray) -> FloatArray:
    """Scale and nugget when each row has its own noise; ``start`` is the best for their mean."""
    bounds = np.log([SCALE_RANGE, (LEAST_NUGGET, LARGEST_NUGGET)])

    def objective(theta: FloatArray, some: slice = slice(None)) -> tuple[float, FloatArray]:
        (s, g), y_, u_ = np.exp(theta), y[some], u[some]
        freedom = len(y_) - 1
        try:
            found = REMLTerms(_with_noise(K[some, some], g + u_ / s), y_[None])
        except LinAlgError:  # noise beyond all measure drowns the kernel in rounding
            return np.inf, np.zeros(2)
        value = float(deviance(found.quadratic, found.logarithm, s, freedom)[0])
        by_h = found.by_diagonal(np.array([s]))[0]  # h = g + u / s
        by_s = freedom - found.quadratic[0] / s - by_h @ u_ / s
        return value, np.array([by_s, g * by_h.sum()])

    # The surface is flat where the scale vanishes, so that a search from there would stay: look around first.
    some = slice(None, None, max(len(y) // _ROWS_FOR_STARTS, 1))
    grid = [(np.log(s), np.log(g)) for s in (1e-4, 1e-2, 0.1, 0.5, 2.0) for g in (1e-5, 1e-2, 1.0)]
    tried = np.array([np.clip(np.log(start), *bounds.T), *grid])
    values = [objective(theta, some)[0] for theta in tried]
    starts = tried[np.argsort(values, kind="stable")[:_STARTS]]
    fits = [minimize(objective, x0, jac=True, method="L-BFGS-B", bounds=bounds) for x0 in starts]
    return np.asarray(np.exp(min(fits, key=lambda fit: float(fit.fun)).x))


def _with_noise(K: FloatArray, h: FloatArray) -> FloatArray:
    """``K + diag(h)``, as one of several matrices."""
    A = np.array(K, order="C")[None]
    np.einsum("fii->fi", A)[...] += h
    return A
