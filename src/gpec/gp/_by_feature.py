"""The marginal likelihood of attributions under a kernel that differs by feature: a Cholesky factor for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from gpec.data import Rows
from gpec.gp._reml import REMLTerms
from gpec.kernels import Kernel
from gpec.typing import BoolArray, FloatArray

__all__ = ["Objective", "each_feature", "moves"]

# Free parameters -> the deviance, and its gradient, or zeros with gradient=False.
Objective = Callable[..., tuple[float, FloatArray]]

_NUMBERS_AT_ONCE = 2**18  # entries of the matrices of a block, which fit into the processor's cache
_BLOCKS = 4  # least number of blocks, if there are as many features
_LEAST_SPREAD = 1e-9


def moves(y: FloatArray) -> BoolArray:
    """Which columns vary beyond rounding; they have unit spread over all rows, of which these may be a part."""
    return np.asarray(np.ptp(y, axis=0) > _LEAST_SPREAD)


def each_feature(
    kernel: Kernel, rows: Rows, y: FloatArray, u: FloatArray, features: Any, noisy: Any, distances: Any = None
) -> Objective:
    """The deviance by theta, the logarithm of a nugget for all features, and those of the scales of noisy features.

    ``y (n, d)`` are attributions of unit spread and ``u`` their noise. A feature without noise has its best scale. A
    feature that does not vary among these rows, which may be a part of all rows, is excluded.
    """
    n, p, varies = len(y), kernel.n_dims, moves(y)
    used = varies[noisy]  # of the scales
    features, noisy, y, u = np.asarray(features)[varies], np.asarray(noisy)[varies], y[:, varies], u[:, varies]
    if not len(features):
        return lambda x, gradient=True: (0.0, np.zeros(len(x)))
    step = max(1, min(_NUMBERS_AT_ONCE // n**2, -(-len(features) // _BLOCKS)))
    blocks = [slice(start, start + step) for start in range(0, len(features), step)]
    twice = 2.0 * np.tri(n) - np.eye(n)  # only the lower triangle is computed: it counts twice, its diagonal once

    def objective(x: FloatArray, gradient: bool = True) -> tuple[float, FloatArray]:
        tried, g, scales = kernel.with_theta(x[:p]), np.exp(x[p]), np.ones(len(features))
        scales[noisy] = np.exp(x[p + 1 :][used])

        def work(block: slice) -> tuple[float, FloatArray, float, FloatArray]:
            own, noise = tuple(map(int, features[block])), u.T[block]
            at = rows, own, distances
            K, pull = tried.grams_pullback(*at) if gradient else (tried.grams(*at), None)
            found = REMLTerms(K, g + noise / scales[block, None], y.T[block])
            s = np.where(noisy[block], scales[block], np.maximum(found.quadratic / (n - 1), 1e-300))
            total = float(found.deviance(s).sum())
            if pull is None:
                return total, np.zeros(p), 0.0, np.zeros(len(s))
            W, Z = found.by_matrix(s)
            by_noise = np.einsum("fii->fi", W) - np.einsum("fin,fin->fn", Z, Z)
            W *= twice
            W -= np.matmul(Z.transpose(0, 2, 1), Z)
            by_scale = (n - 1) - found.quadratic / s - np.einsum("fn,fn->f", by_noise, noise) / s
            return total, pull(W), float(g * by_noise.sum()), by_scale

        try:
            totals, by_theta, by_nugget, by_scale = zip(*map(work, blocks), strict=True)
        except LinAlgError:  # not positive definite by rounding
            return 1e30, np.zeros(len(x))
        slope = np.zeros(len(x))
        slope[: p + 1] = [*np.sum(by_theta, axis=0), sum(by_nugget)]
        slope[p + 1 :][used] = np.concatenate(by_scale)[noisy]
        return sum(totals), slope

    return objective
