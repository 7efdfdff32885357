"""Fig. 4 and 14: where each method is uncertain, over two features of four models."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._methods import METHODS, widths
from paper._planes import PLANES, Plane, draw_plane, keep, pack, plane, rank_agreement, real_changes, unpack
from paper._runs import Run, mean_and_error, plus_minus

# Where the paper sees GPEC's uncertainty highest: part of the horizontal and of the vertical axis.
REGIONS = {
    "Synthetic": ("the centre", (0.3, 0.7), (0.3, 0.7)),
    "Census, age and hours": ("the top right", (0.5, 1.0), (0.5, 1.0)),
    "Census, age and education": ("the top right", (0.5, 1.0), (0.5, 1.0)),
    "German Credit": ("the bottom right", (0.5, 1.0), (0.0, 0.5)),
}
UNIFORM = ("BayesSHAP", "BayesLIME", "CXPlain")  # as the paper calls them


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "planes": {"toy": ["Synthetic"]}.get(size, list(PLANES)),
        "n_grid": {"toy": 8, "small": 30, "paper": 60}[size],
        "n_train": {"toy": 20}.get(size, 100),
        "n_boundary": {"toy": 100}.get(size, 1_000),
        "draws": seeds or {"toy": 2, "small": 5, "paper": 10}[size],
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
        keep(run, figure, figure_name)


def region_verdict(ratios: Any) -> bool:
    """Whether the region is more uncertain than the rest, beyond two standard errors over draws."""
    mean, error = mean_and_error(ratios)
    return bool(mean - 2 * error > 1.0)


def uniform(variation: dict[str, float]) -> list[str]:
    """Which of BayesSHAP, BayesLIME and CXPlain vary less than half as much over the plane as GPEC does."""
    return [method for method in UNIFORM if variation[method] < 0.5 * variation["GPEC"]]


def report(run: Run) -> list[str]:
    names, size = run.settings["planes"], run.size
    held = [name for name in names if region_verdict(_draws(run, name, "GPEC", "region over rest"))]
    flat = {name: uniform({m: np.mean(_draws(run, name, m, "variation")) for m in METHODS}) for name in names}
    uneven = [f"{m} on {name}" for name in names for m in UNIFORM if m not in flat[name]]
    seen = {m: np.mean([np.mean(_draws(run, name, m, "agreement with changes")) for name in names]) for m in METHODS}
    best = max(seen, key=lambda m: seen[m])
    regions = "all planes" if len(held) == len(names) else ("; ".join(held) or "no plane")
    return [
        "## Fig. 4 and 14: where is each method uncertain?",
        "",
        "**Question.** A model of two features can be explained all over the plane. Does a method's uncertainty rise "
        "where the boundary is complex and where no explained row is near?",
        "",
        "**The paper** shows it for Synthetic, two pairs of Census features and German Credit: GPEC is most "
        "uncertain in the centre of Synthetic, at the top right of both Census planes and at the bottom right of "
        "German Credit; Naive-GP follows the distance to the training rows; BayesSHAP, BayesLIME and CXPlain are "
        '"relatively uniform".',
        "",
        f"**We find** (XGBoost of two features, Synthetic in closed form; {run.settings['n_train']} training rows; "
        f"{run.settings['draws']} draws of them, ± standard error; lambda = rho = 0.5 for Synthetic, 1 and 0.1 "
        "elsewhere). How much the width varies over the plane, as standard deviation over mean:",
        "",
        *_table(run, "variation"),
        "",
        "GPEC's mean width where the paper sees its peak, over the mean elsewhere:",
        "",
        "| plane | region | GPEC | holds |",
        "|---|---|---|---|",
        *(
            f"| {name} | {REGIONS[name][0]} | {plus_minus(_draws(run, name, 'GPEC', 'region over rest'), 2)} | "
            f"{'yes' if name in held else 'no'} |"
            for name in names
        ),
        "",
        "The paper judges by eye. Two rank correlations judge by number: of the width with how much exact Shapley "
        "values *really* differ between neighbouring cells, and with the distance to the nearest training row:",
        "",
        "| plane | | " + " | ".join(METHODS) + " |",
        "|---|---|" + "---|" * len(METHODS),
        *(
            f"| {name} | {word} | "
            + " | ".join(plus_minus(_draws(run, name, m, f"agreement with {word}"), 2) for m in METHODS)
            + " |"
            for name in names
            for word in ("changes", "distance")
        ),
        "",
        f"![Heatmaps of uncertainty for the feature on the horizontal axis](figures/{size}/fig04_heatmaps_x.png)",
        "",
        f"![Heatmaps of uncertainty for the feature on the vertical axis](figures/{size}/fig14_heatmaps_y.png)",
        "",
        f"**Does it hold?** GPEC's peak lies where the paper sees it, beyond two standard errors, for {regions}. "
        + (
            'BayesSHAP, BayesLIME and CXPlain vary less than half as much as GPEC on every plane: "relatively '
            'uniform" holds.'
            if not uneven
            else f'"Relatively uniform" does not hold for {"; ".join(uneven)}, which varies at least half as much '
            "as GPEC; otherwise it does."
        )
        + f" Of all widths, {best}'s follows the real changes of the explanation best (rank correlation "
        f"{seen[best]:.2f} on average over the planes; GPEC's is {seen['GPEC']:.2f})"
        + (", which is little." if seen[best] < 0.4 else "."),
        "",
        "**Why.** GPEC as published compares the boundary near a row with the boundary near the explained rows. With "
        "raw units and many explained rows far from any boundary, what is left is mostly whether an explained row is "
        "near the same piece of boundary. Its two features have one and the same surface, because its variance never "
        "looks at attributions; Fig. 14 repeats Fig. 4 for it. The levels cannot be compared between methods: see "
        "Table 1.",
    ]


def _draws(run: Run, name: str, method: str, what: str) -> list[float]:
    """For the horizontal feature, one number a draw."""
    return [run.values[f"{name}, draw {i}"][method][what][0] for i in range(run.settings["draws"])]


def _table(run: Run, what: str) -> list[str]:
    return [
        "| plane | " + " | ".join(METHODS) + " |",
        "|---|" + "---|" * len(METHODS),
        *(
            f"| {name} | " + " | ".join(plus_minus(_draws(run, name, m, what), 2) for m in METHODS) + " |"
            for name in run.settings["planes"]
        ),
    ]
