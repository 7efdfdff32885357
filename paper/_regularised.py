"""One draw of the regularisation test: everything that is said of the same models and rows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

import gpec
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.explainers import CXPlain, TreeShap
from paper._methods import fit_gpec, widths
from paper._models import Problem, problem
from paper._stability import (
    agreement,
    learned_naive,
    published_boundary,
    published_naive,
    real_changes,
    similar_rows_widths,
)

__all__ = ["OURS", "chosen_parameters", "naive_draw", "table_draw"]

OURS = "gpec, similar rows"
_APART = 1_000  # the draw on which parameters are chosen is no other draw


def table_draw(name: str, seed: int, s: dict[str, Any], parameters: dict[str, float]) -> dict[str, Any]:
    """One draw of a table at every gamma: means over rows and features."""
    gammas = tuple(s["gammas"])
    draw = problem(name, gammas, seed, n_explained=s["n_explained"], n_query=s["n_query"], n_fresh=s["n_fresh"])
    said = {gamma: _said(draw, gamma, seed, s, parameters) for gamma in gammas}
    found: dict[str, Any] = {
        "ours": {method: [said[gamma][method].mean() for gamma in gammas] for method in said[gammas[0]]},
        "size": [np.abs(_attributions(draw, gamma)).mean() for gamma in gammas],
        "leaves": [_leaves(draw.models[gamma]) for gamma in gammas],
    }
    if seed < s["n_published"]:
        published = _published(draw, gammas, seed, s)
        found["J"] = published.pop("J")
        found["published"] = {
            what: [by_gamma[gamma].mean() for gamma in gammas] for what, by_gamma in published.items()
        }
        if seed < s["n_stability"]:
            ends = (gammas[0], gammas[-1])
            for gamma in ends:
                said[gamma] |= {"GPEC": published["GPEC"][gamma], "Naive-GP": published["Naive-GP"][gamma]}
            found["stability"] = _stability(draw, ends, said, seed, s)
    return found


def chosen_parameters(name: str, s: dict[str, Any]) -> dict[str, float]:
    """Lambda, rho and Naive-GP's length by evidence, for the least regularised model of a draw apart."""
    gamma = s["gammas"][0]
    draw = problem(name, (gamma,), _APART, n_explained=s["n_explained"])
    g = _learned_gpec(draw, gamma, "evidence", "evidence", s["n_evidence"], _APART)
    kernel = g.diagnostics_["kernel"][0]
    _, length = learned_naive(draw.explained, _attributions(draw, gamma), draw.explained[:1], "evidence")
    return {"lam": kernel["lam"], "rho": kernel["rho"], "length": length}


def naive_draw(name: str, seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """Naive-GP as published, and with lengths as long as evidence likes; and the rows it takes to be far from all.

    Of these: how many, their share of the width, and the column in which each differs most from its nearest row.
    """
    gammas = tuple(s["gammas"])
    draw = problem(name, gammas, seed, n_explained=s["n_explained"], n_query=s["n_query"])
    found, free = (
        [published_naive(draw.explained, _attributions(draw, gamma), draw.query, longest) for gamma in gammas]
        for longest in (100.0, 1e4)
    )
    far = found[0].mean(axis=1) > 3
    nearest = draw.explained[cdist(draw.query[far], draw.explained).argmin(axis=1)]
    return {
        "mean": [width.mean() for width in found],
        "unbounded": [width.mean() for width in free],
        "far": far.mean(),
        "share": found[0][far].sum() / found[0].sum(),
        "columns": np.abs(draw.query[far] - nearest).argmax(axis=1),
    }


def _said(
    draw: Problem, gamma: float, seed: int, s: dict[str, Any], parameters: dict[str, float]
) -> dict[str, np.ndarray]:
    """Full 95% widths of all methods in the units of their attributions, ``(n, d)`` each."""
    model, attributions = draw.models[gamma], _attributions(draw, gamma)
    g = _learned_gpec(draw, gamma, parameters["lam"], parameters["rho"], s["n_boundary"], seed, attributions)
    common = {"background": draw.background, "seed": seed}
    return {
        "GPEC": 3.92 * g.explain(draw.query, attribution="posterior").std,
        "Naive-GP": learned_naive(draw.explained, attributions, draw.query, parameters["length"])[0],
        **{name: widths(name, model, draw.explained, draw.query, **common) for name in s["local"]},
        **({"CXPlain": _cxplain(draw, gamma, s["n_networks"], seed)} if s["n_networks"] else {}),
    }


def _cxplain(draw: Problem, gamma: float, n_networks: int, seed: int) -> np.ndarray:
    explainer = CXPlain(n_networks).fit(
        draw.models[gamma], draw.explained, background=draw.background, random_state=seed
    )
    return np.asarray(3.92 * np.sqrt(explainer(draw.query).variance))


def _learned_gpec(
    draw: Problem, gamma: float, lam: Any, rho: Any, n_boundary: int, seed: int, attributions: Any = None
) -> gpec.GPEC:
    """The paper's kernel on standardised inputs, with ``n_boundary`` points whatever the model; scales learned."""
    model = draw.models[gamma]
    boundary = BisectionSampler().sample(model, draw.pool, n_boundary, random_state=seed, progress=False)
    given = _attributions(draw, gamma) if attributions is None else attributions
    return fit_gpec(
        model, draw.explained, lam=lam, rho=rho, boundary=boundary, pool=draw.pool, standardize=True,
        attributions=given, seed=seed,
    )  # fmt: skip


def _published(draw: Problem, gammas: tuple[float, ...], seed: int, s: dict[str, Any]) -> dict[str, Any]:
    """The published protocol: ``4 sigma`` in raw units, with as many boundary points as come, and with equally many."""
    points = {gamma: published_boundary(draw.models[gamma], draw.pool, s["n_pairs"], seed) for gamma in gammas}
    least = min(map(len, points.values()))
    found: dict[str, Any] = {"J": [len(points[gamma]) for gamma in gammas]}
    found |= {what: {} for what in ("GPEC", "GPEC, equal J", "Naive-GP")}
    for gamma in gammas:
        found["GPEC"][gamma] = _published_gpec(draw, gamma, points[gamma], seed)
        found["GPEC, equal J"][gamma] = found["GPEC"][gamma]
        if len(points[gamma]) > least:
            some = np.random.default_rng([seed, 3]).permutation(len(points[gamma]))[:least]
            found["GPEC, equal J"][gamma] = _published_gpec(draw, gamma, points[gamma].take(np.sort(some)), seed)
        found["Naive-GP"][gamma] = published_naive(draw.explained, _attributions(draw, gamma), draw.query)
    return found


def _published_gpec(draw: Problem, gamma: float, points: BoundarySample, seed: int) -> np.ndarray:
    model = draw.models[gamma]
    g = fit_gpec(model, draw.explained, published=True, boundary=points, pool=draw.pool, seed=seed)
    return np.asarray(4 * g.explain(draw.query, attribution="posterior").std)


def _stability(
    draw: Problem, gammas: tuple[float, ...], said: dict[float, dict[str, np.ndarray]], seed: int, s: dict[str, Any]
) -> dict[str, Any]:
    """What is said beside what is so, for some rows, at the least and the most regularised model."""
    query = draw.query[: s["n_compared"]]
    actual = {gamma: real_changes(draw, gamma, query) for gamma in gammas}
    both: dict[str, dict[float, np.ndarray]] = {
        method: {gamma: said[gamma][method][: len(query)] for gamma in gammas} for method in said[gammas[0]]
    }
    mine = {gamma: similar_rows_widths(draw, gamma, query, s["kernel"], s["n_evidence"], seed) for gamma in gammas}
    both[OURS] = {gamma: mine[gamma][0] for gamma in gammas}
    return {
        "actual": [actual[gamma].mean() for gamma in gammas],
        "relative": [actual[gamma].mean() / np.abs(mine[gamma][1]).mean() for gamma in gammas],
        "said": {method: [by_gamma[gamma].mean() for gamma in gammas] for method, by_gamma in both.items()},
        "rank": {
            method: [agreement(by_gamma[gamma], actual[gamma]) for gamma in gammas] for method, by_gamma in both.items()
        },
        "rows": {
            "actual": actual[gammas[0]].mean(axis=1),
            **{method: by_gamma[gammas[0]].mean(axis=1) for method, by_gamma in both.items()},
        },
    }


@lru_cache(maxsize=4)
def _attributions(draw: Problem, gamma: float) -> np.ndarray:
    """Exact TreeSHAP of the probability with 50 background rows, in place of KernelSHAP, which estimates it."""
    explainer = TreeShap().fit(draw.models[gamma], draw.explained, background=draw.background, random_state=0)
    return np.asarray(explainer(draw.explained).values)


def _leaves(model: Any) -> int:
    return sum(tree.count("leaf=") for tree in model.get_dump())
