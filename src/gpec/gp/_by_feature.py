"""How likely attributions are under a kernel that differs by feature: a Cholesky factor for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from gpec.data import Rows
from gpec.gp._reml import REMLTerms, deviance
from gpec.kernels import Kernel
from gpec.typing import BoolArray, FloatArray

__all__ = ["Objective", "each_feature", "moves"]

# Free parameters -> the deviance, and its derivatives if they are asked for.
Objective = Callable[..., tuple[float, FloatArray]]

_NUMBERS_AT_ONCE = 2**18  # of the matrices of a block: they fit into the cache, and loops in C are long
_BLOCKS = 4  # at least, if there are as many features: sums keep their order, and so their bits
_LEAST_SPREAD = 1e-9


def moves(y: FloatArray) -> BoolArray:
    """Which columns of unit spread, over rows of which these may be some, vary beyond rounding."""
    return np.asarray(np.ptp(y, axis=0) > _LEAST_SPREAD)


def each_feature(
    kernel: Kernel, rows: Rows, y: FloatArray, u: FloatArray, features: Any, noisy: Any, distances: Any = None
) -> Objective:
    """The deviance by theta, the logarithm of a nugget for all, and those of the scales of noisy features.

    ``y (n, d)`` are attributions of unit spread and ``u`` their noise; a feature without noise has its best scale, and
    one that does not vary among these rows, because they are some of more, is left out: its scale would be rounding.
    """
    n, p, varies = len(y), kernel.n_dims, moves(y)
    kept = varies[noisy]  # of the scales
    features, noisy, y, u = np.asarray(features)[varies], np.asarray(noisy)[varies], y[:, varies], u[:, varies]
    if not len(features):
        return lambda x, gradient=True: (0.0, np.zeros(len(x)))
    size = max(1, min(_NUMBERS_AT_ONCE // n**2, -(-len(features) // _BLOCKS)))
    blocks = [slice(start, start + size) for start in range(0, len(features), size)]
    twice = 2.0 * np.tri(n) - np.eye(n)  # against symmetric matrices the lower half counts twice

    def objective(x: FloatArray, gradient: bool = True) -> tuple[float, FloatArray]:
        tried, g, scales = kernel.with_theta(x[:p]), np.exp(x[p]), np.ones(len(features))
        scales[noisy] = np.exp(x[p + 1 :][kept])

        def work(block: slice) -> tuple[float, FloatArray, float, FloatArray]:
            own, noise = tuple(map(int, features[block])), u.T[block]
            A, pull = (
                tried.grams_pullback(rows, own, distances) if gradient else (tried.grams(rows, own, distances), None)
            )
            np.einsum("fii->fi", A)[...] += g + noise / scales[block, None]
            found = REMLTerms(A, y.T[block])
            best = np.maximum(found.quadratic / (n - 1), 1e-300)
            s = np.where(noisy[block], scales[block], best)
            total = float(deviance(found.quadratic, found.logarithm, s, n - 1).sum())
            if pull is None:
                return total, np.zeros(p), 0.0, np.zeros(len(A))
            W, Z = found.by_matrix(s)
            by_noise = np.einsum("fii->fi", W) - np.einsum("fin,fin->fn", Z, Z)
            W *= twice
            W -= np.matmul(Z.transpose(0, 2, 1), Z)
            by_scale = (n - 1) - found.quadratic / s - np.einsum("fn,fn->f", by_noise, noise) / s
            return total, pull(W), float(g * by_noise.sum()), by_scale

        try:
            totals, by_theta, by_nugget, by_scale = zip(*map(work, blocks), strict=True)
        except LinAlgError:  # a matrix of rounding
            return 1e30, np.zeros(len(x))
        slope = np.zeros(len(x))
        slope[: p + 1] = [*np.sum(by_theta, axis=0), sum(by_nugget)]
        slope[p + 1 :][kept] = np.concatenate(by_scale)[noisy]
        return sum(totals), slope

    return objective
