"""Fig. 10, 11 and 12: how the uncertainty depends on lambda and rho, for German Credit and two pairs of Census "
"features."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._methods import fit_gpec
from paper._planes import draw_plane, keep, pack, plane, rank_agreement, real_changes, unpack
from paper._runs import Run, mean_and_error, plus_minus

FIGURES = {
    "German Credit": "fig10_german_credit",
    "Census, age and hours": "fig11_census_hours",
    "Census, age and education": "fig12_census_education",
}
LAMBDAS, RHOS = (0.1, 0.5, 1.0), (0.01, 0.1, 1.0)


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "planes": ["German Credit"] if size == "toy" else list(FIGURES),
        "lambdas": LAMBDAS,
        "rhos": RHOS,
        "draws": seeds or {"toy": 2, "small": 3, "paper": 10}[size],
        "n_train": {"toy": 20}.get(size, 100),
        "n_boundary": {"toy": 100}.get(size, 1_000),
        "n_grid": {"toy": 8, "small": 25, "paper": 60}[size],
    }


def run(run: Run) -> None:
    for name in run.settings["planes"]:
        for draw in range(run.settings["draws"]):
            run.once(f"{name}, draw {draw}", lambda name=name, draw=draw: _one(run.settings, name, draw))


def _one(s: dict[str, Any], name: str, draw: int) -> dict[str, Any]:
    """Mean width for each lambda and rho, and how the surfaces go together with each other and with real changes."""
    scene = plane(name, n_train=s["n_train"], seed=draw)
    grid, changes = scene.grid(s["n_grid"]), real_changes(scene, s["n_grid"])[:, 0]
    g = fit_gpec(
        scene.model, scene.X_train, published=True, boundary=scene.boundary, n_boundary=s["n_boundary"],
        pool=scene.pool, seed=draw,
    )  # fmt: skip
    surfaces = {}
    for lam in s["lambdas"]:
        for rho in s["rhos"]:
            g.set_params(lam=lam, rho=rho).fit(  # the boundary and its graph stay as they are
                scene.pool, X_explained=scene.X_train, attributions=np.zeros(scene.X_train.shape)
            )
            surfaces[key(lam, rho)] = 4 * g.explain(grid, attribution="posterior").std[:, 0]
    usual = surfaces[key(1.0, 0.1)]
    return {
        which: {
            "mean": w.mean(),
            "agreement with 1 and 0.1": rank_agreement(w, usual),
            "agreement with changes": rank_agreement(w, changes),
            **({"surface": pack(w)} if draw == 0 else {}),
        }
        for which, w in surfaces.items()
    }


def key(lam: float, rho: float) -> str:
    return f"lambda {lam:g}, rho {rho:g}"


def draw(run: Run) -> None:
    lambdas, rhos = run.settings["lambdas"], run.settings["rhos"]
    for name in run.settings["planes"]:
        scene = plane(name, n_train=run.settings["n_train"], seed=0)
        figure, axes = plt.subplots(
            len(lambdas), len(rhos), figsize=(11.5, 9), layout="constrained", sharex=True, sharey=True
        )
        for line, lam in zip(axes, lambdas, strict=True):
            for ax, rho in zip(line, rhos, strict=True):
                surface = unpack(run.values[f"{name}, draw 0"][key(lam, rho)]["surface"])
                draw_plane(ax, scene, surface, title=key(lam, rho))
                ax.label_outer()
        figure.suptitle(f"{name}: width under unit scale, for each lambda and rho; each colour bar starts at 0")
        keep(run, figure, FIGURES[name])


def rises(numbers: Any, *, every_step: bool = False) -> bool:
    """Whether numbers ``(draws, steps)`` rise from first to last, or at every step, beyond two standard errors."""
    numbers = np.asarray(numbers, dtype=float)
    steps = np.diff(numbers if every_step else numbers[:, [0, -1]], axis=1)
    return all(mean - 2 * error > 0 for mean, error in map(mean_and_error, steps.T))


def report(run: Run) -> list[str]:
    s = run.settings
    names, lambdas, rhos = s["planes"], s["lambdas"], s["rhos"]
    means = {name: _numbers(run, name, "mean") for name in names}  # (draws, lambdas, rhos)
    with_lam = [name for name in names if all(rises(means[name][:, :, j]) for j in range(len(rhos)))]
    with_rho = [name for name in names if all(rises(means[name][:, i]) for i in range(len(lambdas)))]
    steps_of_lam = [
        name for name in names if all(rises(means[name][:, :, j], every_step=True) for j in range(len(rhos)))
    ]
    others = np.mean([_numbers(run, name, "agreement with 1 and 0.1").mean(axis=0) for name in names], axis=0)
    truth = np.array([_numbers(run, name, "agreement with changes").mean(axis=0) for name in names])
    where, place = np.unravel_index(others.argmin(), others.shape)
    ratio = {name: means[name].mean(axis=0).max() / means[name].mean(axis=0).min() for name in names}
    return [
        "## Fig. 10, 11 and 12: how much depends on lambda and rho?",
        "",
        "**Question.** The kernel has two parameters: lambda, how fast similarity falls along the boundary, and rho, "
        "how sharply a row looks at the boundary nearest to it. Does the picture survive another choice?",
        "",
        "**The paper** shows heatmaps for several choices, each with its own colour scale, and says that larger "
        "values make the kernel more sensitive to complex pieces of boundary. It draws no conclusion about the level.",
        "",
        f"**We find** the mean width (of at most 4; {s['draws']} draws of {s['n_train']} training rows, ± standard "
        "error):",
        "",
        "| plane | lambda | " + " | ".join(f"rho {rho:g}" for rho in rhos) + " |",
        "|---|---|" + "---|" * len(rhos),
        *(
            f"| {name} | {lam:g} | " + " | ".join(plus_minus(means[name][:, i, j], 3) for j in range(len(rhos))) + " |"
            for name in names
            for i, lam in enumerate(lambdas)
        ),
        "",
        *(f"![{name}, for each lambda and rho](figures/{run.size}/{FIGURES[name]}.png)\n" for name in names),
        f"**Does it hold?** The width rises with lambda at every rho {_on(with_lam, names)}, and with rho at every "
        f"lambda {_on(with_rho, names)} (from the smallest to the largest, beyond two standard errors). For every "
        f"single step of lambda that is so {_on(steps_of_lam, names)}. The level is a matter of choice: between the "
        "smallest and the largest mean lies a factor of "
        + ", ".join(f"{ratio[name]:.0f} ({name})" for name in names)
        + (". The order of the cells is steadier" if others.min() >= 0.7 else ". The order of the cells changes, too")
        + f": the rank correlation with the picture of lambda 1 and rho 0.1 is at least {others.min():.2f} on average "
        f"over the planes, with lambda {lambdas[where]:g} and rho {rhos[place]:g} the furthest.",
        "",
        "**What it means.** "
        + (
            "A number that changes so much with two parameters that are chosen by hand cannot be read as an error "
            "bar; at most the order of rows can be used. "
            if max(ratio.values()) > 2
            else ""
        )
        + "The rank correlation of the width with how much the exact explanation really changes nearby lies between "
        f"{truth.min():.2f} and {truth.max():.2f}: "
        + (
            "no choice makes the one follow the other."
            if truth.max() < 0.5
            else "with the best choice the one follows the other."
        ),
    ]


def _on(held: list[str], names: list[str]) -> str:
    return "on all planes" if len(held) == len(names) else f"on {'; '.join(held)} only" if held else "on no plane"


def _numbers(run: Run, name: str, what: str) -> np.ndarray:
    s = run.settings
    return np.array(
        [
            [[run.values[f"{name}, draw {d}"][key(lam, rho)][what] for rho in s["rhos"]] for lam in s["lambdas"]]
            for d in range(s["draws"])
        ]
    )
