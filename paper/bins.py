"""Fig. 5: uncertainty on Synthetic by bins of x1; the boundary is wild within [-4, 4] and calm outside."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from gpec.explainers import ExactShapley
from paper._bins_report import EDGES, INNER, REACH, TRUTH, bins_of, factors_of, report, tables, verdicts
from paper._methods import METHODS, widths
from paper._planes import Plane, plane
from paper._runs import Run, plus_minus

__all__ = ["by_bins", "draw", "report", "run", "settings", "tables", "verdicts"]

# What is measured: a label, the method, lambda and rho, and whether as published.
LINES: dict[str, tuple[str, float, float, bool]] = {
    "GPEC, 0.5 and 0.5": ("GPEC", 0.5, 0.5, True),
    "GPEC, 1 and 0.1": ("GPEC", 1.0, 0.1, True),
    "GPEC, 0.5 and 0.5, scale learned": ("GPEC", 0.5, 0.5, False),
    **{method: (method, 0.5, 0.5, True) for method in METHODS[1:]},
}


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "draws": seeds or {"toy": 2, "small": 10, "paper": 30}[size],
        "n_train": {"toy": 30}.get(size, 100),
        "n_boundary": {"toy": 200}.get(size, 1_000),
        "n_grid": {"toy": 10, "small": 20, "paper": 60}[size],
        "lines": [*list(LINES)[:3], "BayesLIME"] if size == "toy" else list(LINES),
    }


def run(run: Run) -> None:
    for draw in range(run.settings["draws"]):
        run.once(f"draw {draw}", lambda draw=draw: _one(run.settings, draw))


def _one(s: dict[str, Any], draw: int) -> dict[str, Any]:
    """The mean width of x1's attribution in each bin, for each line, and how much the attribution really changes."""
    scene = plane("Synthetic", n_train=s["n_train"], n_boundary=s["n_boundary"], seed=draw)
    grid = scene.grid(s["n_grid"])
    found = {}
    for line in s["lines"]:
        method, lam, rho, published = LINES[line]
        w = widths(
            method, scene.model, scene.X_train, grid, published=published, lam=lam, rho=rho, boundary=scene.boundary,
            seed=draw,
        )  # fmt: skip
        found[line] = by_bins(grid["x1"], w[:, 0])
    found[TRUTH] = by_bins(grid["x1"], _changes(scene, grid, draw))
    return found


def by_bins(x1: Any, numbers: np.ndarray) -> list[float]:
    place = np.digitize(np.asarray(x1), EDGES) - 1
    return [float(numbers[place == i].mean()) for i in range(len(EDGES) - 1)]


def _changes(scene: Plane, grid: pd.DataFrame, seed: int, n: int = 10) -> np.ndarray:
    """The standard deviation of x1's exact Shapley value among rows near each row."""
    rng = np.random.default_rng([seed, 5])
    near = np.repeat(grid.to_numpy(), n, axis=0) + rng.uniform(-REACH, REACH, size=(n * len(grid), 2))
    explainer = ExactShapley().fit(scene.model, scene.X_train, background=scene.X_train)
    values = explainer(pd.DataFrame(near, columns=grid.columns)).values[:, 0]
    return values.reshape(len(grid), n).std(axis=1)


def draw(run: Run) -> None:
    lines = [*run.settings["lines"], TRUTH]
    columns = -(-len(lines) // 2)
    figure, axes = plt.subplots(2, columns, figsize=(3.2 * columns, 5.2), layout="constrained", sharex=True)
    middles = (EDGES[1:] + EDGES[:-1]) / 2
    for ax, line in zip(axes.flat, lines, strict=False):
        bins = bins_of(run, line)
        error = bins.std(axis=0, ddof=1) / np.sqrt(len(bins)) if len(bins) > 1 else None
        color = ["#D55E00" if inside else "#0072B2" for inside in INNER]
        ax.bar(middles, bins.mean(axis=0), width=1.8, color=color, yerr=error, ecolor="#222222", capsize=2)
        word = f"{line} (standard deviation)" if line == TRUTH else line
        ax.set_title(f"{word}\nfactor {plus_minus(factors_of(run, line), 2)}", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xticks([-8, -4, 0, 4, 8])
    for ax in axes.flat[len(lines) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean width in the bin")
    for ax in axes[-1]:
        ax.set_xlabel("x1")
    figure.suptitle("Synthetic: the boundary is wild within [-4, 4] (vermilion) and calm outside (blue)")
    run.save(figure, "fig05_bins")
