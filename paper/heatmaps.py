"""Fig. 4 and 14: where each method is uncertain, over two features of four models."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._heatmaps_report import REGIONS, region_verdict, report, tables, uniform, verdicts
from paper._methods import METHODS, widths
from paper._planes import PLANES, Plane, draw_plane, pack, plane, rank_agreement, real_changes, unpack
from paper._runs import Run

__all__ = ["draw", "region_verdict", "report", "run", "settings", "tables", "uniform", "verdicts"]


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "planes": {"toy": ["Synthetic"]}.get(size, list(PLANES)),
        "n_grid": {"toy": 8, "small": 30, "paper": 60}[size],
        "n_train": {"toy": 20}.get(size, 100),
        "n_boundary": {"toy": 100}.get(size, 1_000),
        "draws": seeds or {"toy": 2, "small": 5, "paper": 6}[size],
        "parameters": {name: [0.5, 0.5] if name == "Synthetic" else [1.0, 0.1] for name in PLANES},
    }


def run(run: Run) -> None:
    for name in run.settings["planes"]:
        for draw in range(run.settings["draws"]):
            run.once(f"{name}, draw {draw}", lambda name=name, draw=draw: _one(run.settings, name, draw))


def _one(s: dict[str, Any], name: str, draw: int) -> dict[str, Any]:
    """What each method says over the plane; the first draw's surfaces are kept to be drawn."""
    scene, n = plane(name, n_train=s["n_train"], n_boundary=s["n_boundary"], seed=draw), s["n_grid"]
    grid, changes = scene.grid(n), real_changes(scene, n)
    away, inside = scene.away(grid), _region(scene, grid)
    lam, rho = s["parameters"][name]
    found: dict[str, Any] = {}
    for method in METHODS:
        w = widths(
            method, scene.model, scene.X_train, grid, published=True, lam=lam, rho=rho, boundary=scene.boundary,
            n_boundary=s["n_boundary"], pool=scene.pool, seed=draw,
        )  # fmt: skip
        found[method] = {
            "mean": w.mean(axis=0),
            "variation": w.std(axis=0) / w.mean(axis=0),
            "region over rest": w[inside].mean(axis=0) / w[~inside].mean(axis=0),
            "agreement with changes": [rank_agreement(w[:, j], changes[:, j]) for j in range(2)],
            "agreement with distance": [rank_agreement(w[:, j], away) for j in range(2)],
            **({"surface": [pack(w[:, j]) for j in range(2)]} if draw == 0 else {}),
        }
    return found


def _region(scene: Plane, grid: Any) -> np.ndarray:
    inside = np.ones(len(grid), dtype=bool)
    for j, (low, high) in enumerate(REGIONS[scene.name][1:]):
        start, stop = scene.limits[j]
        place = (grid.iloc[:, j].to_numpy() - start) / (stop - start)
        inside &= (place >= low) & (place <= high)
    return inside


def draw(run: Run) -> None:
    names = run.settings["planes"]
    for feature, figure_name in ((0, "fig04_heatmaps_x"), (1, "fig14_heatmaps_y")):
        figure, axes = plt.subplots(
            len(names), len(METHODS), figsize=(14.5, 2.9 * len(names) + 0.4), layout="constrained", squeeze=False
        )
        for line, name in zip(axes, names, strict=True):
            scene = plane(name, n_train=run.settings["n_train"], seed=0)
            for ax, method in zip(line, METHODS, strict=True):
                surface = unpack(run.values[f"{name}, draw 0"][method]["surface"][feature])
                draw_plane(ax, scene, surface, title=f"{name.split(',')[0]}: {method}")
                ax.title.set_fontsize(10)
                if method != METHODS[0]:
                    ax.set_ylabel("")
        axis = "horizontal" if feature == 0 else "vertical"
        figure.suptitle(
            f"Uncertainty of the {axis} feature's attribution, as published; bright is uncertain, each colour bar "
            "starts at 0"
        )
        run.save(figure, figure_name)
