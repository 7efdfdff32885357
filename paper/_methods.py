"""The paper's five methods on one footing: how wide each says the interval of an attribution is.

Two conventions. By default every method gives the full width of its 95% interval, in the units of its own attributions
(probability; CXPlain's are shares of a loss). ``published=True`` gives what the paper's tables and figures show, which
is not one scale: GPEC and Naive-GP ``4 sigma`` of a latent posterior of unit scale, whatever the attributions' size;
BayesSHAP and BayesLIME half of the width; CXPlain the full width.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

import gpec
from gpec.explainers import BayesLime, BayesShap, CXPlain, KernelShap
from gpec.gp import learn_kernel, make_posterior
from gpec.kernels import RBF

__all__ = ["METHODS", "attributions_of", "fit_gpec", "widths"]

METHODS = ("GPEC", "Naive-GP", "BayesSHAP", "BayesLIME", "CXPlain")
_FULL = 2 * norm.ppf(0.975)  # of a 95% interval, in standard deviations
_FULL_PUBLISHED = 4.0
_NOISE = 1e-4  # variance, as published
_BACKGROUND = 50
_N_SAMPLES = 200  # perturbations of BayesSHAP and BayesLIME


def widths(
    method: str,
    model: Any,
    X_train: Any,
    X_query: Any,
    *,
    published: bool = False,
    lam: Any = 1.0,
    rho: Any = 0.1,
    boundary: Any = "auto",
    n_boundary: int = 1_000,
    pool: Any = None,
    standardize: bool = False,
    background: Any = _BACKGROUND,
    n_samples: int = _N_SAMPLES,
    attributions: Any = None,
    seed: int = 0,
) -> np.ndarray:
    """How uncertain a method says each attribution of ``X_query`` is, ``(n, d)``.

    Parameters
    ----------
    method : str
        One of ``METHODS``.
    model : object
        Anything :class:`gpec.GPEC` takes, of two classes.
    X_train : rows
        Those explained for GPEC and Naive-GP and learned from by CXPlain; BayesLIME perturbs around them, and the
        background is drawn from them.
    X_query : rows
        Where the width is asked for.
    published : bool
        The paper's convention in place of full widths in attribution units.
    lam, rho : float, "auto" or "evidence"
        Of the WEG kernel.
    boundary, n_boundary
        As for :class:`gpec.GPEC`; given points serve as they are.
    pool : rows, optional
        Rows between which the boundary is sought; by default ``X_train``.
    standardize : bool
        Measure distances between standardised features (both Gaussian processes).
    background : int or rows
        Of the explainers.
    n_samples : int
        Perturbations of BayesSHAP and BayesLIME.
    attributions : array, optional
        KernelSHAP's of ``X_train``, if they are known.
    seed : int
        Of all that is random.
    """
    if method == "GPEC":
        g = fit_gpec(
            model, X_train, published=published, lam=lam, rho=rho, boundary=boundary, n_boundary=n_boundary, pool=pool,
            standardize=standardize, background=background, attributions=attributions, seed=seed,
        )  # fmt: skip
        std = g.explain(X_query, attribution="posterior").std
        return (_FULL_PUBLISHED if published else _FULL) * std
    if method == "Naive-GP":
        if attributions is None:
            attributions = attributions_of(model, X_train, background=background, seed=seed)
        rows, query = np.asarray(X_train, dtype=float), np.asarray(X_query, dtype=float)
        if standardize:
            rows, query = _standardized(rows, query)
        return (_FULL_PUBLISHED if published else _FULL) * _naive_std(rows, attributions, query, published)
    if method == "CXPlain":
        explainer = CXPlain().fit(model, X_train, background=background, random_state=seed)
        return _FULL * np.sqrt(explainer(X_query).variance)
    local = {"BayesSHAP": BayesShap, "BayesLIME": BayesLime}[method](n_samples)
    local.fit(model, X_train, background=background, random_state=seed)
    return (1 if published else 2) * local.half_width(X_query, 0.95)


def fit_gpec(
    model: Any,
    X_train: Any,
    *,
    published: bool = False,
    lam: Any = 1.0,
    rho: Any = 0.1,
    boundary: Any = "auto",
    n_boundary: int = 1_000,
    pool: Any = None,
    standardize: bool = False,
    background: Any = _BACKGROUND,
    attributions: Any = None,
    seed: int = 0,
) -> gpec.GPEC:
    """The paper's GPEC, fitted; see :func:`widths`. Unless ``published``, scale and nugget are learned."""
    scale: dict[str, Any] = {} if published else {"output_scale": "evidence", "noise": "none"}
    chosen = {**gpec.PAPER, **scale, "lam": lam, "rho": rho, "standardize": standardize}
    if attributions is None and published:  # scale and noise are given: the variance does not depend on them
        attributions = np.zeros(np.shape(X_train))
    g = gpec.GPEC(
        model, KernelShap(), boundary=boundary, n_boundary=n_boundary, background=background, random_state=seed,
        progress=False, **chosen,
    )  # fmt: skip
    return g.fit(X_train if pool is None else pool, X_explained=X_train, attributions=attributions)


def attributions_of(model: Any, X: Any, *, background: Any = _BACKGROUND, seed: int = 0) -> np.ndarray:
    """KernelSHAP's, ``(n, d)``, with background rows of ``X``."""
    return np.asarray(KernelShap().fit(model, X, background=background, random_state=seed)(X).values)


def _naive_std(rows: np.ndarray, attributions: np.ndarray, query: np.ndarray, published: bool) -> np.ndarray:
    """Of a Gaussian process for each feature by itself, whose kernel knows nothing of the boundary."""
    scale: Any = 1.0 if published else "evidence"
    found = []
    for column in np.asarray(attributions, dtype=float).T[:, :, None]:
        noise = np.full(column.shape, _NOISE if published else 0.0)
        kernel = learn_kernel(RBF("evidence").fit(None, rows), rows, column, noise, scale)
        at = make_posterior(kernel, rows, column, noise, scale, 0).predict(query)
        found.append(np.sqrt(at.model_variance + at.noise_variance)[:, 0])
    return np.column_stack(found)


def _standardized(rows: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    return (rows - center) / spread, (query - center) / spread
