"""How much explanations of similar rows really differ, and what each method says about the same rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import gpec
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.errors import FewBoundaryPointsWarning
from gpec.explainers import TreeShap
from gpec.gp import learn_kernel, make_posterior
from gpec.kernels import RBF
from gpec.metrics import rank_correlation
from gpec.similar import NearestRows
from paper._models import Problem

__all__ = ["agreement", "learned_naive", "published_boundary", "published_naive", "real_changes", "similar_rows_widths"]

_PER_CLASS = 100
_TOLERANCE = 0.05  # of the probability; published: points where it jumps by more are thrown away
_N_LENGTHS = 41
_NOISE = 1e-4
_FULL = 3.92  # width of a 95% interval in standard deviations


def published_boundary(model: Any, pool: np.ndarray, n_pairs: int, seed: int) -> BoundarySample:
    """Points between random pairs of up to 100 rows of each class, without those where the probability jumps.

    How many are left depends on the model. The published search starts from rows moved by a zeroth-order attack; these
    start from the rows themselves.
    """
    rng = np.random.default_rng([seed, 7])
    positive = model.inplace_predict(pool) >= 0.5
    some = [rng.permutation(np.flatnonzero(positive == side))[:_PER_CLASS] for side in (False, True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewBoundaryPointsWarning)
        found = BisectionSampler("random").sample(
            model, pool[np.concatenate(some)], n_pairs, standardize=False, random_state=seed, progress=False
        )
    gap = np.min([np.abs(model.inplace_predict(end) - 0.5) for end in found.ends()], axis=0)
    near = np.flatnonzero(gap <= _TOLERANCE)
    return found.take(near if len(near) >= 50 else np.argsort(gap, kind="stable")[:50])


def published_naive(
    rows: np.ndarray, attributions: np.ndarray, query: np.ndarray, longest: float = 100.0
) -> np.ndarray:
    """Naive-GP's ``4 sigma`` as published, ``(n, d)``: raw inputs, unit scale, noise 1e-4, a length for each feature.

    Lengths are learned by evidence between 1 and ``longest``; 100 is as far as the published search, a hundred steps of
    size one that set out from 1, can come.
    """
    Y = attributions - attributions.mean(axis=0)
    near, far = cdist(rows, rows, "sqeuclidean"), cdist(rows, query, "sqeuclidean")
    deviance, width = [], []
    for length in np.geomspace(1, longest, _N_LENGTHS):
        L = np.linalg.cholesky(np.exp(-near / (2 * length**2)) + _NOISE * np.eye(len(rows)))
        white, cross = np.linalg.solve(L, Y), np.linalg.solve(L, np.exp(-far / (2 * length**2)))
        deviance.append((white**2).sum(axis=0) + 2 * np.log(np.diag(L)).sum())
        width.append(4 * np.sqrt(np.maximum(1 - (cross**2).sum(axis=0), 0)))
    return np.asarray(width)[np.argmin(deviance, axis=0)].T


def learned_naive(
    rows: np.ndarray, attributions: np.ndarray, query: np.ndarray, length: float | str
) -> tuple[np.ndarray, float]:
    """Naive-GP's 95% width in attribution units, ``(n, d)``, and its length in standardised inputs.

    Scale and nugget of each feature are learned; so is the length, if it is "evidence".
    """
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    rows, query = (rows - center) / spread, (query - center) / spread
    none = np.zeros_like(attributions)
    kernel = learn_kernel(RBF(length).fit(None, rows), rows, attributions, none)
    found = make_posterior(kernel, rows, attributions, none, "evidence", 0).predict(query)
    return _FULL * np.sqrt(found.model_variance + found.noise_variance), kernel.lengthscale_


def real_changes(draw: Problem, gamma: float, query: np.ndarray) -> np.ndarray:
    """Root mean square change of the attributions among ten rows half-way to the nearest ones, ``(n, d)``.

    All are explained by exact TreeSHAP.
    """
    explainer = TreeShap().fit(draw.models[gamma], draw.pool, background=draw.background, random_state=0)
    similar = NearestRows().learn(explainer.model_.schema, draw.pool, explainer.seed_).rows(query)
    n, k, d = similar.shape
    there = explainer(similar.reshape(-1, d)).values.reshape(n, k, d)
    return np.asarray(np.sqrt(((there - explainer(query).values[:, None]) ** 2).mean(axis=1)))


def similar_rows_widths(
    draw: Problem, gamma: float, query: np.ndarray, kernel: str, n_boundary: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """What gpec's interval over similar rows says, ``(n, d)``, calibrated on fresh rows; and the attributions."""
    g = gpec.GPEC(
        draw.models[gamma], TreeShap(), kernel=kernel, n_boundary=n_boundary, n_explained=len(draw.explained),
        background=draw.background, random_state=seed, progress=False,
    ).fit(draw.pool)  # fmt: skip
    e = g.calibrate(draw.fresh).explain(query)
    return np.asarray(e.width), np.asarray(e.values)


def agreement(said: np.ndarray, actual: np.ndarray) -> float:
    """Spearman's correlation over rows, within features; 0 where a method says the same of all rows."""
    found = float(rank_correlation(said, np.where(actual < 1e-12, 0.0, actual)))
    return found if np.isfinite(found) else 0.0
