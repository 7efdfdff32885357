"""One training of the networks of the regularisation test, and what is said of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import gpec
from gpec.boundary import AdversarialSampler
from gpec.explainers import BayesLime, BayesShap, make_explainer
from gpec.similar import NearestRows
from paper._models import images, network
from paper._published import PARAMETERS
from paper._stability import agreement, published_naive

__all__ = ["IMAGE_METHODS", "image_draw"]

IMAGE_METHODS = ("GPEC", "Naive-GP", "BayesSHAP", "BayesLIME")
_CLASSES = 10
_NEIGHBOURS = 5


def image_draw(name: str, what: str, levels: tuple[float, ...], seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Networks of every level: what is said as published, and how much DeepLIFT's attributions really change."""
    X, _, X_test, _ = images(name)
    rng = np.random.default_rng([seed, 5])
    pool = X[np.sort(rng.choice(len(X), s["n_pool"], replace=False))].astype(float)
    query = X_test[np.sort(rng.choice(len(X_test), s["n_images"], replace=False))].astype(float)
    found: dict[str, list[Any]] = {}
    for level in levels:
        model, right = network(
            name, what, level, hidden=s["hidden"], n_train=s["n_train"], n_epochs=s["n_epochs"], seed=seed
        )
        for key, value in {"accuracy": right, **_level(name, model, pool, query, seed, s)}.items():
            found.setdefault(key, []).append(value)
    return found


def _level(
    name: str, model: Any, pool: np.ndarray, query: np.ndarray, seed: int, s: dict[str, Any]
) -> dict[str, float]:
    explained, some = pool[: s["n_explained"]], query[: s["n_perturbed"]]
    explainer = make_explainer("captum:DeepLift").fit(model, explained, random_state=seed)
    attributions = _flat(explainer(explained).values)
    said = {
        "GPEC": _gpec(name, model, pool, explained, query, seed, s),
        "Naive-GP": published_naive(_flat(explained), attributions, _flat(query)),
    }
    for method, local in (("BayesSHAP", BayesShap()), ("BayesLIME", BayesLime())):
        said[method] = _flat(local.fit(model, explained, random_state=seed).half_width(some, 0.95))
    actual = _changes(explainer, pool, some, seed)
    by_class = {method: _by_class(width[: len(some)]) for method, width in said.items()}
    return {
        **{method: float(width.mean()) for method, width in said.items()},
        "actual": float(actual.mean()),
        "relative": float(actual.mean() / np.abs(attributions).mean()),
        **{f"rank {method}": agreement(width, _by_class(actual)) for method, width in by_class.items()},
    }


def _gpec(
    name: str, model: Any, pool: np.ndarray, explained: np.ndarray, query: np.ndarray, seed: int, s: dict[str, Any]
) -> np.ndarray:
    """``4 sigma`` as published, which does not depend on the attributions."""
    lam, rho = PARAMETERS[name]
    boundary = AdversarialSampler(*s["attacks"], n_approach=0)
    g = gpec.GPEC(
        model, None, boundary=boundary, random_state=seed, progress=False, **{**gpec.PAPER, "lam": lam, "rho": rho}
    )
    g.fit(pool, X_explained=explained, attributions=np.zeros((len(explained), explained[0].size, _CLASSES)))
    return _flat(4 * g.explain(query, attribution="posterior").std)


def _changes(explainer: Any, pool: np.ndarray, query: np.ndarray, seed: int) -> np.ndarray:
    """Root mean square change of the attributions among images half-way to the nearest ones, ``(n, pixels * 10)``."""
    nearest = NearestRows(_NEIGHBOURS).learn(explainer.model_.schema, _flat(pool), seed)
    similar = nearest.rows(_flat(query)).reshape(-1, *query.shape[1:])
    there = _flat(explainer(similar).values).reshape(len(query), _NEIGHBOURS, -1)
    return np.asarray(np.sqrt(((there - _flat(explainer(query).values)[:, None]) ** 2).mean(axis=1)))


def _by_class(array: np.ndarray) -> np.ndarray:
    """Means over the pixels, ``(n, 10)``."""
    return array.reshape(len(array), -1, _CLASSES).mean(axis=1)


def _flat(array: Any) -> np.ndarray:
    return np.asarray(array, dtype=float).reshape(len(array), -1)
