"""The pictures of Fig. 1, 3 and 9."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from gpec import plots
from gpec.kernels import WEG
from paper._curves import BOUNDARIES, COSINE, LEVEL, LINE, MODELS, NAMES, PATIENTS, boundary_graph, boundary_points
from paper._runs import Run

__all__ = ["draw_balls", "draw_kernel", "draw_patients"]

_UP, _INK = "#D55E00", "#222222"
_PATIENT = dict(zip(PATIENTS, ("#E69F00", "#009E73"), strict=True))


def draw_patients(run: Run) -> Any:
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", height_ratios=[2.4, 1])
    across, up = np.meshgrid(np.linspace(0.6, 2.2, 300), np.linspace(1.6, 3.4, 300))
    for column, (name, model) in zip(axes.T, MODELS.items(), strict=True):
        p = model.predict_proba(np.column_stack((across.ravel(), up.ravel())))[:, 1].reshape(across.shape)
        column[0].contourf(across, up, p, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.5)
        column[0].contour(across, up, p, levels=[0.5], colors=[_INK], linewidths=2)
        column[0].set(title=name, xlabel=NAMES[0], ylabel=NAMES[1])
        found = run.values["patients"][name]
        for i, (patient, place) in enumerate(PATIENTS.items()):
            arrow = np.array(found[patient]["gradient"])
            column[0].annotate(
                "", xytext=place, xy=np.array(place) + 0.35 * arrow / np.linalg.norm(arrow),
                arrowprops={"arrowstyle": "-|>", "color": _INK, "linewidth": 1.8},
            )  # fmt: skip
            column[0].scatter(
                *place, s=90, color=_PATIENT[patient], edgecolors=_INK, zorder=5, label=f"patient {patient}"
            )
            y = np.array([1.0, 0.0]) + (0.18, -0.18)[i]
            column[1].barh(y, np.abs(arrow), height=0.34, color=_PATIENT[patient], edgecolor=_INK, linewidth=0.6)
        tops = ", ".join(f"{patient}: {found[patient]['top']}" for patient in PATIENTS)
        column[0].legend(loc="upper left")
        column[1].set(
            yticks=[1, 0], yticklabels=NAMES, xlabel="size of the gradient", title=f"most important for {tops}"
        )
        column[1].spines[["top", "right"]].set_visible(False)
    figure.suptitle("Two similar patients with the same prediction; arrows are gradients of the probability")
    return figure


def draw_kernel(run: Run) -> Any:
    s = run.settings
    points = boundary_points(COSINE, s["n_boundary"])
    figure, axes = plt.subplots(2, 2, figsize=(13, 9.5), layout="constrained")
    limits = ((0.0, 12.0), (-4.0, 4.0))
    graph = boundary_graph(COSINE, s["n_boundary"])
    kernel = WEG(s["lam"], 1.0)
    plots.boundary(
        graph, ax=axes[0, 0], ends=[(1.0, points[np.abs(points[:, 0] - 1.0).argmin(), 1]), (6.0, -0.2)], limits=limits,
        title="A: the way along the boundary",
    )  # fmt: skip
    options: dict[str, Any] = {"kernel": kernel, "n_grid": s["n_grid"]}
    centers = [(1.2, 0.0), (4.0, -1.6), (8.0, 0.6)]
    plots.boundary(graph, ax=axes[0, 1], centers=centers, limits=limits, title="B: balls, complex to plain", **options)
    straight = boundary_graph(LINE, s["n_boundary"])
    plots.boundary(
        straight,
        ax=axes[1, 0],
        centers=[(-5.0, -5.0), (0.0, 0.0), (5.0, 5.0)],
        title="B: balls, a linear boundary",
        **options,
    )
    _draw_weights(axes[1, 1], points, [(3.0, 1.5), (8.0, -1.0)], limits)
    for ax in axes.flat:
        ax.set(xlabel="x1", ylabel="x2")
    return figure


def _draw_weights(ax: Axes, points: np.ndarray, rows: list[tuple[float, float]], limits: Any) -> None:
    """Boundary points as large as their weight for each of two rows."""
    weights = WEG(1.0, 1.0).fit(points).weights(np.array(rows))
    ax.plot(*points.T, color="#888888", linewidth=0.8, zorder=1)
    for row, weight, color, name in zip(rows, weights, (_UP, "#009E73"), ("x", "x'"), strict=True):
        some = weight > 1e-3 * weight.max()
        ax.scatter(*points[some].T, s=60 * weight[some] / weight.max(), color=color, alpha=0.5, linewidths=0, zorder=2)
        for i in np.flatnonzero(some)[:: max(1, some.sum() // 12)]:
            share = float(weight[i] / weight.max())
            ax.plot(*np.array([row, points[i]]).T, color=color, linewidth=0.8, alpha=0.1 + 0.7 * share, zorder=1)
        ax.scatter(*row, s=80, marker="s", color=color, edgecolors="white", zorder=5, label=name)
    ax.set(title="C: weights of boundary points for x and x'", xlim=limits[0], ylim=limits[1])
    ax.legend(loc="upper right")


def draw_balls(run: Run) -> Any:
    s = run.settings
    figure, axes = plt.subplots(
        len(BOUNDARIES), len(s["rhos"]), figsize=(4.3 * len(s["rhos"]), 4.0 * len(BOUNDARIES)), layout="constrained"
    )
    for line, (name, (_, _, complex_row, plain_row)) in zip(axes, BOUNDARIES.items(), strict=True):
        graph = boundary_graph(name, s["n_boundary"])
        limits = ((0, 12), (-6, 6)) if name == COSINE else ((-10, 10), (-10, 10))
        for ax, rho in zip(line, s["rhos"], strict=True):
            plots.boundary(
                graph, ax=ax, centers=[complex_row, plain_row], kernel=WEG(s["lam"], rho), n_grid=s["n_grid"],
                limits=limits, level=LEVEL,
            )  # fmt: skip
            ax.get_legend().remove()
            ax.set_title(f"{name}, rho = {rho:g}", pad=6)
            ax.set(xlabel="x1", ylabel="x2")
    figure.suptitle(
        f"Where similarity to the row (vermilion) is at least {LEVEL:g}; black is the boundary, lambda = {s['lam']:g}"
    )
    return figure
