r"""The free parameters of a kernel, learned from attributions by marginal likelihood (see :mod:`gpec.gp.evidence`).

A kernel that all features share costs one eigendecomposition a step, and each feature has its best scale and nugget. A
kernel that differs by feature costs a Cholesky factor for each feature; all features then share a nugget while the
lengths are learned, and the scale of a feature without noise is the best one, ``y' P y / (N - 1)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.linalg import LinAlgError
from scipy.optimize import minimize
from scipy.stats.qmc import Halton

from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.gp._gram import Spectrum
from gpec.gp._reml import LEAST_NUGGET, EqualNoiseREML, REMLTerms
from gpec.gp.evidence import spread_of
from gpec.kernels import Kernel, Matern
from gpec.kernels.weg import settle
from gpec.typing import BoolArray, FloatArray, IntArray

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
            W, Z, by_noise = found.by_matrix_and_noise(s)
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


_ROWS = 300  # from which a kernel that all features share is learned
_ROWS_BY_FEATURE = 500  # from which a kernel that differs by feature is learned
_FEATURES = 64  # from which a Matern kernel that all features share is learned
_ROWS_FOR_STARTS = 100
_ROWS_FOR_NATS = 200
_STARTS = 3
_NUGGETS = (LEAST_NUGGET, 1.0)
# iterations of the search from each start, of the final search on all rows, and of the search without a term
_ITERATIONS, _FINAL_ITERATIONS, _ITERATIONS_WITHOUT = 40, 15, 4
_LEAST_NATS = 1.0  # a term that adds less to the log marginal likelihood is removed


@dataclass(frozen=True, eq=False)
class _Sample:
    """Rows with their attributions, noise, and the distances between them that stay while a kernel is learned."""

    rows: Rows
    y: FloatArray
    u: FloatArray
    distances: Any

    def at_most(self, n: int, kernel: Kernel) -> _Sample:
        """``n`` of the rows, evenly spaced, or all."""
        if n >= len(self.y):
            return self
        some = evenly_spaced(len(self.y), n)
        rows = self.rows[some]
        return _Sample(rows, self.y[some], self.u[some], kernel.distances(rows))

    def without(self, i: int) -> _Sample:
        """The same for a kernel that lacks its ``i``-th term."""
        return replace(self, distances=self.distances and self.distances[:i] + self.distances[i + 1 :])


_ObjectiveOf = Callable[[Kernel, _Sample], Objective]


def learn_kernel(
    kernel: Kernel,
    X: Any,
    Y: FloatArray,
    U: FloatArray,
    output_scale: float | Literal["evidence"] = "evidence",
    start: Kernel | None = None,
) -> Kernel:
    """The fitted kernel with the free parameters that maximise the marginal likelihood of the attributions.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel. It is returned unchanged if it has no free parameters or no attribution varies.
    X : Rows or array of shape (N, D)
        Explained rows. At most 300 of them are used, evenly spaced; 500 if the kernel differs by feature.
    Y, U : arrays of shape (N, d)
        Their attributions and noise variance. For a kernel that all features share, the noise of a feature is replaced
        by its mean over the rows.
    output_scale : "evidence" or float
        With "evidence", each feature has its best scale and an unknown mean. With a number, it has that scale and the
        mean 0.
    start : Kernel, optional
        A kernel learned for a similar task, at which the search starts.

    Notes
    -----
    The kernel's own parameters and a Halton sequence within the bounds of :attr:`Kernel.theta` are tried first; L-BFGS
    starts at the best of them. For a :class:`Matern` kernel, or one that differs by feature, this uses 100 rows, and a
    final search uses all. Terms of a :class:`Matern` that add less than one nat are then removed; ``off_`` names them,
    and ``nats_`` says how much each of the others adds.
    """
    free_scale = isinstance(output_scale, str)
    by_feature = kernel.varies_by_feature and free_scale
    some = evenly_spaced(len(Y), _ROWS_BY_FEATURE if by_feature else _ROWS)
    rows, Y, U = Rows.of(X)[some], Y[some], U[some]
    spread = spread_of(Y)
    varies = np.flatnonzero(spread > 0)
    if kernel.n_dims == 0 or not len(varies) or len(rows) < 3 or not np.ptp(rows.embedded, axis=0).any():
        return kernel
    # with a free scale, units do not matter; a given scale is in units of attributions
    unit = spread[varies] if free_scale else np.ones(len(varies))
    y, u = Y[:, varies] / unit, U[:, varies] / unit**2
    if free_scale:
        y = y - y.mean(axis=0)
    if by_feature:
        return settle(_learn_by_feature(kernel, _Sample(rows, y, u, kernel.distances(rows)), varies, start))
    if isinstance(kernel, Matern):  # some of many features suffice for a few lengths
        few = evenly_spaced(len(varies), _FEATURES)
        y, u, varies = y[:, few], u[:, few], varies[few]
    sample = _Sample(rows, y, u, kernel.distances(rows))
    return settle(_learn_for_all(kernel, sample, varies, output_scale, start))


def _learn_for_all(
    kernel: Kernel, sample: _Sample, varies: IntArray, output_scale: float | Literal["evidence"], start: Kernel | None
) -> Kernel:
    """The parameters of a kernel, where each feature has its best scale and nugget, or the given scale."""
    free_scale, noise, bounds = isinstance(output_scale, str), sample.u.mean(axis=0), kernel.bounds
    scale = np.array([np.nan if free_scale else float(output_scale)])
    features = varies.tolist() if kernel.varies_by_feature else [None]

    def objective_of(kernel: Kernel, some: _Sample) -> Objective:
        varying = moves(some.y) if free_scale else np.ones(len(varies), dtype=np.bool_)

        def objective(theta: FloatArray, gradient: bool = True) -> tuple[float, FloatArray]:
            tried, total, slope = kernel.with_theta(theta), 0.0, np.zeros(len(theta))
            for feature in features:
                own = np.flatnonzero(varying if feature is None else varying & (varies == feature))
                if len(own):
                    at: Any = (some.rows, (feature,), some.distances)
                    K, pull = tried.grams_pullback(*at) if gradient else (tried.grams(*at), None)
                    reml = EqualNoiseREML(Spectrum(K[0]), some.y[:, own], free_scale)
                    s, h = (
                        reml.best(noise[own]) if free_scale else (scale, np.maximum(noise[own] / scale, LEAST_NUGGET))
                    )
                    total += float(reml.deviance(s, h).sum())
                    if pull is not None:
                        slope += pull(reml.by_matrix(s, h)[None])
            return total, slope

        return objective

    tried = np.clip(_initial(kernel, start), *bounds.T)[None]
    if start is None:
        design = bounds[:, 0] + _halton(12 * len(bounds), len(bounds)) * np.ptp(bounds, axis=1)
        tried = np.vstack((tried, design))
    if not isinstance(kernel, Matern):
        return kernel.with_theta(_search(objective_of(kernel, sample), tried, bounds)[0])
    return _search_and_select(kernel, sample, tried, bounds, objective_of)


def _learn_by_feature(kernel: Kernel, sample: _Sample, features: Any, start: Kernel | None) -> Kernel:
    """Lengths, a nugget that all features share, and a scale for each noisy feature."""
    noisy, p = sample.u.any(axis=0), kernel.n_dims + 1
    n_noisy = int(noisy.sum())
    bounds = np.vstack((kernel.bounds, np.log([_NUGGETS, *[(1e-4, 1e2)] * n_noisy])))
    here = np.concatenate((_initial(kernel, start), np.log([1e-2]), np.zeros(n_noisy)))
    here = np.clip(here, *bounds.T)
    tried = here[None]
    if start is None:
        low = np.append(kernel.theta - np.log(10.0), np.log(1e-4))
        high = np.append(kernel.theta + np.log(30.0), np.log(0.3))
        design = np.tile(here, (24, 1))
        design[:, :p] = np.clip(low + _halton(24, p) * (high - low), *bounds[:p].T)
        tried = np.vstack((tried, design))

    def objective_of(kernel: Kernel, some: _Sample) -> Objective:
        return each_feature(kernel, some.rows, some.y, some.u, features, noisy, some.distances)

    return _search_and_select(kernel, sample, tried, bounds, objective_of)


def _search_and_select(
    kernel: Kernel, sample: _Sample, tried: FloatArray, bounds: FloatArray, objective: _ObjectiveOf
) -> Kernel:
    """Search from several starts on few rows, then on all; remove terms of a Matern kernel that add little."""
    few, p = sample.at_most(_ROWS_FOR_STARTS, kernel), kernel.n_dims
    best, _ = _search(objective(kernel, few), tried, bounds, steps=_ITERATIONS)
    if few is not sample:
        best, _ = _search(objective(kernel, sample), best[None], bounds, steps=_FINAL_ITERATIONS)
    kernel = kernel.with_theta(best[:p])
    if not isinstance(kernel, Matern):
        return kernel
    return _select_terms(kernel, best[p:], bounds[p:], sample.at_most(_ROWS_FOR_NATS, kernel), objective)


def _select_terms(
    kernel: Matern, others: FloatArray, bounds: FloatArray, sample: _Sample, objective: _ObjectiveOf
) -> Matern:
    """The kernel without the terms that add less than one nat, and how much the others add."""
    off: list[str] = []
    while True:
        whole = objective(kernel, sample)(np.append(kernel.theta, others), gradient=False)[0]
        without: dict[str, tuple[float, Matern, _Sample]] = {}
        for i, name in enumerate(kernel.terms_ if len(kernel.terms_) > 1 else ()):
            other, rest = kernel.without(name), sample.without(i)
            around = np.vstack((other.bounds, bounds))
            at, value = _search(
                objective(other, rest), np.append(other.theta, others)[None], around, steps=_ITERATIONS_WITHOUT
            )
            without[name] = (float(value - whole) / 2, other.with_theta(at[: other.n_dims]), rest)
        least = min(without, key=lambda name: without[name][0], default=None)
        if least is None or without[least][0] >= _LEAST_NATS:
            break
        off.append(least)
        _, kernel, sample = without[least]
    kernel = kernel.with_theta(kernel.theta)
    kernel.nats_ = {name: nats for name, (nats, *_) in without.items()}
    kernel.off_ = off
    return kernel


def _search(
    objective: Objective, tried: FloatArray, bounds: FloatArray, steps: int = 15_000
) -> tuple[FloatArray, float]:
    """The best point found by L-BFGS from the best of those tried, and its deviance."""
    values = np.array([objective(x, gradient=False)[0] for x in tried])
    starts = tried[np.argsort(values, kind="stable")[:_STARTS]]
    options = {"maxiter": steps}
    found = [minimize(objective, x, jac=True, method="L-BFGS-B", bounds=bounds, options=options) for x in starts]
    best = min(found, key=lambda fit: float(fit.fun))
    return (best.x, float(best.fun)) if best.fun <= values.min() else (tried[values.argmin()], float(values.min()))


def _halton(n: int, p: int) -> FloatArray:
    return np.asarray(Halton(p, scramble=False).random(n + 1)[1:])


def _initial(kernel: Kernel, start: Kernel | None) -> FloatArray:
    """The parameters of another kernel for terms of the same name, else the kernel's own."""
    if start is None:
        return kernel.theta
    if isinstance(kernel, Matern) and isinstance(start, Matern):
        known = {name: part.theta for name, part in start.terms_.items()}
        parts = [(part.theta, known.get(name)) for name, part in kernel.terms_.items()]
        return np.concatenate([own if other is None or len(other) != len(own) else other for own, other in parts])
    return start.theta if start.n_dims == kernel.n_dims else kernel.theta
