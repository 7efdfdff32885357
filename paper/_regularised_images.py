"""One training of the networks of the regularisation test, and what is said of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import gpec
from gpec.boundary import AdversarialSampler, BoundarySample
from gpec.data import Schema
from gpec.errors import FewBoundaryPointsWarning, SlowExplainerWarning
from gpec.explainers import BayesLime, BayesShap, CXPlain, make_explainer
from gpec.similar import NearestRows
from paper._models import images, network
from paper._published import LEVELS, MEANS, PARAMETERS
from paper._regularised import OURS
from paper._stability import agreement, published_naive

__all__ = ["METHODS", "as_printed", "image_draw", "patches"]

METHODS = ("GPEC", "Naive-GP", "BayesSHAP", "BayesLIME", "CXPlain")
_CLASSES = 10
_NEIGHBOURS = 5
_SIDES = 4  # patches along each side of an image
_STANDS_FOR = {"digits": "MNIST"}  # in tests
_FULL = 3.92  # width of a 95% interval in standard deviations


def as_printed(name: str) -> str:
    """The data set under which the paper prints its numbers."""
    return _STANDS_FOR.get(name, name)


def image_draw(name: str, what: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Networks of every level: what is said of them, and how much DeepLIFT's attributions really change."""
    X, _, X_test, _ = images(name)
    rng = np.random.default_rng([seed, 5])
    pool = X[np.sort(rng.choice(len(X), s["n_pool"], replace=False))].astype(float)
    query = X_test[np.sort(rng.choice(len(X_test), s["n_images"], replace=False))].astype(float)
    found: dict[str, list[Any]] = {}
    for level in LEVELS[as_printed(name), what]:
        model, right = network(
            name, what, level, hidden=s["hidden"], n_train=s["n_train"], n_epochs=s["n_epochs"], seed=seed,
            batch_size=s["batch_size"], patience=s["n_epochs"],
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SlowExplainerWarning)
            warnings.simplefilter("ignore", FewBoundaryPointsWarning)
            said = _level(name, what, model, pool, query, seed, s)
        for key, value in {"accuracy": right, "weights": _norm(model), **said}.items():
            found.setdefault(key, []).append(value)
    return found


def _level(
    name: str, what: str, model: Any, pool: np.ndarray, query: np.ndarray, seed: int, s: dict[str, Any]
) -> dict[str, Any]:
    explained, some = pool[: s["n_attributed"]], query[: s["n_compared"]]
    explainer = make_explainer("captum:DeepLift").fit(model, explained, random_state=seed)
    attributions = _flat(explainer(explained).values)
    said = {}
    said["GPEC"], points = _gpec(name, model, pool, query, seed, s)
    said["Naive-GP"] = published_naive(_flat(explained), attributions, _flat(query))
    for method, local in (("BayesSHAP", BayesShap()), ("BayesLIME", BayesLime())):
        if MEANS[as_printed(name), what][method] is not None:  # else the paper leaves it out
            said[method] = _flat(local.fit(model, explained, random_state=seed).half_width(some, 0.95))
    said["CXPlain"] = _cxplain(model, pool, query, seed, s)
    own = patches(query.shape[1:])
    here, there = (_pooled(_flat(explainer(rows).values), own) for rows in (some, _similar(pool, some, seed)))
    there = there.reshape(len(some), _NEIGHBOURS, *here.shape[1:])
    actual = np.sqrt(((there - here[:, None]) ** 2).mean(axis=1))  # root mean square change of each patch
    in_patches = {
        method: _pooled(width[: len(some)], own) / np.bincount(own)[:, None] for method, width in said.items()
    }
    interval = _ours(model, points, pool, explained, some, own, seed)
    in_patches[OURS] = np.asarray(interval.width)
    inside = (there >= interval.lower[:, None]) & (there <= interval.upper[:, None])
    return {
        **{method: float(width.mean()) for method, width in said.items()},
        OURS: float(in_patches[OURS].mean()),
        "covered": float(inside.mean()),
        "actual": float(actual.mean()),
        "relative": float(actual.mean() / np.abs(here).mean()),
        "J": len(points) / _CLASSES,
        **{f"rank {method}": agreement(_flat(width), _flat(actual)) for method, width in in_patches.items()},
    }


def _gpec(
    name: str, model: Any, pool: np.ndarray, query: np.ndarray, seed: int, s: dict[str, Any]
) -> tuple[np.ndarray, BoundarySample]:
    """``4 sigma`` as published, which does not depend on the attributions; and the boundary's points."""
    lam, rho = PARAMETERS[as_printed(name)]
    boundary = AdversarialSampler(*s["attacks"], n_steps=s["n_steps"], n_approach=0)
    chosen = {**gpec.PAPER, "lam": lam, "rho": rho}
    g = gpec.GPEC(model, None, boundary=boundary, random_state=seed, progress=False, **chosen)
    explained = pool[: s["n_explained"]]
    g.fit(pool, X_explained=explained, attributions=np.zeros((len(explained), explained[0].size, _CLASSES)))
    return _flat(4 * g.explain(query, attribution="posterior").std), g.boundary_


def _cxplain(model: Any, pool: np.ndarray, query: np.ndarray, seed: int, s: dict[str, Any]) -> np.ndarray:
    """Full 95% widths of shares of the loss, patches of at most 1/64 of the image masked."""
    shape = (1, *pool.shape[1:]) if pool.ndim == 3 else pool.shape[1:]
    learner = CXPlain(s["n_networks"], n_train=s["n_learned"], n_epochs=s["n_cxplain"], image_shape=shape)
    learner.fit(model, pool[: s["n_learned"]], random_state=seed)
    return _flat(_FULL * np.sqrt(learner(query).variance))


def _ours(
    model: Any, points: BoundarySample, pool: np.ndarray, explained: np.ndarray, query: np.ndarray, own: np.ndarray,
    seed: int,
) -> gpec.Explanation:  # fmt: skip
    """gpec's similar-row intervals of each patch and class, ``(n, patches, 10)``."""
    flat = torch.nn.Sequential(torch.nn.Unflatten(1, pool.shape[1:]), model).eval()
    g = gpec.GPEC(
        flat, "captum:DeepLift", kernel="weg", standardize=False, boundary=points, similar=NearestRows(_NEIGHBOURS),
        groups={f"patch {i}": np.flatnonzero(own == i).tolist() for i in range(own.max() + 1)},
        background=_flat(explained), random_state=seed, progress=False,
    )  # fmt: skip
    return g.fit(_flat(pool), X_explained=_flat(explained)).explain(_flat(query))


def _similar(pool: np.ndarray, query: np.ndarray, seed: int) -> np.ndarray:
    """Images half-way to the nearest ones, those of one image after the other."""
    schema, rows = Schema.learn(_flat(pool), standardize=False)
    found = NearestRows(_NEIGHBOURS).learn(schema, rows, seed).rows(_flat(query))
    return found.reshape(-1, *query.shape[1:])


def patches(shape: tuple[int, ...]) -> np.ndarray:
    """The patch that each pixel belongs to: 4 x 4 of them, all channels together."""
    down, across = (np.arange(side) * _SIDES // side for side in shape[-2:])
    return np.broadcast_to(_SIDES * down[:, None] + across, shape).reshape(-1)


def _pooled(array: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Sums over the pixels of each patch, ``(n, patches, 10)``."""
    member = own == np.arange(own.max() + 1)[:, None]
    return np.einsum("pk,nkc->npc", member.astype(float), array.reshape(len(array), len(own), _CLASSES))


def _norm(model: torch.nn.Module) -> float:
    """Of all weights together."""
    return float(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).norm())


def _flat(array: Any) -> np.ndarray:
    return np.asarray(array, dtype=float).reshape(len(array), -1)
