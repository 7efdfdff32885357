"""Fig. 1, 3 and 9: why smoothness matters; geodesics, weights and similarity balls; the same for more boundaries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec.datasets import CurveModel
from gpec.kernels import WEG
from paper._curves import (
    BOUNDARIES,
    COSINE,
    LEVEL,
    MODELS,
    NAMES,
    PATIENTS,
    RADIUS,
    RHOS,
    boundary_graph,
    boundary_points,
)
from paper._illustrations_report import report, shrinks, smaller, tables, verdicts
from paper._runs import Run
from paper._sketches import draw_balls, draw_kernel, draw_patients

__all__ = ["draw", "report", "run", "settings", "shrinks", "smaller", "tables", "verdicts"]


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "pairs": {"toy": 200}.get(size, 20_000),
        "draws": seeds or {"toy": 2}.get(size, 10),
        "n_boundary": {"toy": 150, "small": 500, "paper": 1_000}[size],
        "n_grid": {"toy": 20, "small": 80, "paper": 120}[size],
        "lam": 1.0,
        "rhos": RHOS,
    }


def run(run: Run) -> None:
    s = run.settings
    run.once("patients", lambda: {name: _patients(model) for name, model in MODELS.items()})
    for name, model in MODELS.items():
        run.once(f"pairs, {name}", lambda model=model: [_disagreement(model, s["pairs"], i) for i in range(s["draws"])])
    run.once("geodesic", lambda: _geodesic(s["n_boundary"]))
    for name in BOUNDARIES:
        run.once(f"balls, {name}", lambda name=name: {f"{rho:g}": _balls(s, name, rho) for rho in s["rhos"]})


def _patients(model: CurveModel) -> dict[str, Any]:
    """The model's answer for both patients, and its gradient: the explanation."""
    rows = np.array(list(PATIENTS.values()))
    gradient = model.gradient(rows)
    return {
        patient: {"probability": p, "gradient": g, "top": NAMES[int(np.abs(g).argmax())]}
        for patient, p, g in zip(PATIENTS, model.predict_proba(rows)[:, 1], gradient, strict=True)
    }


def _disagreement(model: CurveModel, n: int, seed: int) -> float:
    """The share of pairs of near rows with the same predicted class whose most important features differ."""
    rng = np.random.default_rng(seed)
    x1 = rng.uniform(0, 4, size=n)
    one = np.column_stack((x1, 1.5 + x1 / 2 + rng.uniform(-0.6, 0.6, size=n)))
    angle = rng.uniform(0, 2 * np.pi, size=n)
    other = one + 0.3 * np.column_stack((np.cos(angle), np.sin(angle)))
    same = model.predict(one) == model.predict(other)
    top = [np.abs(model.gradient(rows)).argmax(axis=1) for rows in (one, other)]
    return float((top[0] != top[1])[same].mean())


def _geodesic(n: int) -> dict[str, float]:
    """Between two boundary points: the way along the curve by the graph and in closed form, and the straight line."""
    points = boundary_points(COSINE, n)
    ends = [int(np.abs(points[:, 0] - x1).argmin()) for x1 in (1.0, 6.0)]
    graph = boundary_graph(COSINE, n)
    fine = BOUNDARIES[COSINE][0](2).model.boundary(np.linspace(*points[ends, 0], 200_001))
    return {
        "graph": graph.distances[ends[0], ends[1]],
        "curve": np.linalg.norm(np.diff(fine, axis=0), axis=1).sum(),
        "straight": np.linalg.norm(points[ends[1]] - points[ends[0]]),
    }


def _balls(s: dict[str, Any], name: str, rho: float) -> list[float]:
    """How much of the disc around it is similar to the row near a complex piece, and to the one near a plain piece."""
    kernel = WEG(s["lam"], rho).fit(boundary_graph(name, s["n_boundary"]))
    side = np.linspace(-RADIUS, RADIUS, s["n_grid"])
    disc = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    disc = disc[np.linalg.norm(disc, axis=1) <= RADIUS]
    shares = []
    for center in np.array(BOUNDARIES[name][2:]):
        around = center + disc
        around = around[around[:, 0] > 0] if name == COSINE else around  # where the paper has a boundary
        shares.append(float((kernel.cross(around, center[None]) >= LEVEL).mean()))
    return shares


def draw(run: Run) -> None:
    for name, make in (
        ("fig01_smoothness", draw_patients),
        ("fig03_kernel", draw_kernel),
        ("fig09_balls", draw_balls),
    ):
        figure = make(run)
        run.save(figure, name)
