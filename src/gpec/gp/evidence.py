r"""The marginal likelihood of attributions, and the scale and nugget of each feature under which it is greatest.

The attributions ``y`` of one feature at the ``N`` explained rows follow

    y ~ N(m 1, s (K + diag(h))),   h = g + u / s,

with kernel matrix ``K``, output scale ``s``, constant mean ``m``, nugget ``g`` (variation the kernel cannot explain)
and known noise variance ``u``. The mean is integrated out under a flat prior, so that the scale is not biased for few
rows.
With ``A = K + diag(h)`` and ``P = A^-1 - A^-1 1 1' A^-1 / (1' A^-1 1)``, the deviance is, up to a constant,

    -2 log p(y | s, g) = y' P y / s + (N - 1) log s + log|A| + log(1' A^-1 1),                                    (*)
    its derivative by K is P - P y y' P / s.

With the mean fixed at 0, ``P = A^-1``, the last term is absent and ``N - 1`` becomes ``N``. Each feature has its own
``s`` and ``g``; the free parameters of the kernel are shared, and (*) is summed over the features. This is restricted
maximum likelihood (REML; Rasmussen & Williams, Eq. 2.45 for one constant basis function).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpec.gp._gram import Gram
from gpec.gp._reml import LEAST_NUGGET, EqualNoiseREML, VaryingNoiseREML
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray, IntArray

# Noise of more than this many times the scale hides everything; the bound prevents overflow.
LARGEST_NOISE = 1e100
_LEAST_SPREAD = 1e-152  # its square does not underflow
_ROWS_FOR_AVERAGE = 300  # with more rows the likelihood is narrow
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
        """The parameters of some features."""
        return Parameters(self.scale[features], self.nugget[features], self.free_mean)


def fixed_parameters(scale: float, d: int) -> Parameters:
    """The same scale for all features, zero mean and no nugget: the paper's model."""
    return Parameters(np.full(d, float(scale)), np.zeros(d), free_mean=False)


def fit_parameters(
    K: FloatArray | list[tuple[IntArray, Gram]], Y: FloatArray, U: FloatArray, *, average: bool = False
) -> Parameters:
    """Scale and nugget of each column of ``Y (N, d)`` with noise variance ``U (N, d)``, by marginal likelihood.

    ``K (N, N)`` is the kernel matrix, or a list of features and their matrix. With ``average``, noisy features of at
    most 300 rows get the posterior mean of the scale instead of its maximum; see :func:`_average_scale`.
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
        # equal columns are fitted once: pixels of a superpixel that all images share, or channels of one pixel
        _, first, copies = np.unique(np.concatenate((y, u)), axis=1, return_index=True, return_inverse=True)
        s, g = _scale_and_nugget(gram, y[:, first], u[:, first], average)
        gram.forget()
        scale[varies], nugget[varies] = s[copies.ravel()] * spread[varies] ** 2, g[copies.ravel()]
    return Parameters(scale, nugget, free_mean=True)


def spread_of(Y: FloatArray) -> FloatArray:
    """Standard deviation of each column, 0 where it does not vary beyond rounding."""
    largest = np.abs(Y).max(axis=0)
    spread = (Y / np.where(largest > 0, largest, 1.0)).std(axis=0) * largest
    return np.where(spread > np.maximum(1e-13 * largest, _LEAST_SPREAD), spread, 0.0)


def _scale_and_nugget(gram: Gram, y: FloatArray, u: FloatArray, average: bool) -> tuple[FloatArray, FloatArray]:
    """Scale and nugget of each column of standardised attributions ``y`` with noise ``u``."""
    equal, noise = EqualNoiseREML(gram.spectrum, y, free_mean=True), u.mean(axis=0)
    s, h = equal.best(noise)
    g = np.maximum(h - noise / s, LEAST_NUGGET)
    averaged = average and bool(u.any()) and len(y) <= _ROWS_FOR_AVERAGE
    if averaged:
        mean = _average_scale(lambda s, g: equal.deviance(s, g + noise / s), s, g)
        s, g = np.where(noise > 0, mean, (s, g))
    for f in np.flatnonzero(np.ptp(u, axis=0) > 0):
        varying = VaryingNoiseREML(gram.matrix, y[:, f], u[:, f])
        s[f], g[f] = varying.best(np.array([s[f], g[f]]))
        if averaged:
            s[[f]], g[[f]] = _average_scale(varying.deviance, s[[f]], g[[f]])
    return s, g


def _average_scale(
    deviance: Callable[[FloatArray, FloatArray], FloatArray], s: FloatArray, g: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The posterior mean of the scale under a flat prior on its root, and the nugget, both ``(d,)``.

    If the noise is comparable to the spread, the likelihood is flat for small scales, and its maximum may lie there;
    intervals from the maximum alone would be too narrow. ``s`` and ``g`` are the maximum, and ``s`` is one of the
    scales averaged over. The variance that the kernel cannot explain, ``s g``, stays the same.
    """

    def nugget(scale: FloatArray) -> FloatArray:
        return np.maximum(s * g / scale, LEAST_NUGGET)

    low, high = np.log(_AVERAGED)
    grid, step = np.linspace(low, high, _NODES, retstep=True)
    offset = np.where((s > _AVERAGED[0]) & (s < _AVERAGED[1]), (np.log(s) - low) % step, 0.0)
    nodes = np.exp(grid[:, None] + offset)
    D = np.array([deviance(node, nugget(node)) for node in nodes])
    w = np.exp(-(D - D.min(axis=0)) / 2) * np.sqrt(nodes)
    mean = np.asarray((w * nodes).sum(axis=0) / w.sum(axis=0))
    return mean, nugget(mean)
