"""Fig. 10, 11 and 12: how the uncertainty depends on lambda and rho, for German Credit and two pairs of Census "
"features."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._methods import fit_gpec
from paper._planes import draw_plane, pack, plane, rank_agreement, real_changes, unpack
from paper._report import Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus

FIGURES = {
    "German Credit": "fig10_german_credit",
    "Census, age and hours": "fig11_census_hours",
    "Census, age and education": "fig12_census_education",
}
_TITLE = "Fig. 10, 11, 12"
LAMBDAS, RHOS = (0.1, 0.5, 1.0), (0.01, 0.1, 1.0)


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "planes": ["German Credit"] if size == "toy" else list(FIGURES),
        "lambdas": LAMBDAS,
        "rhos": RHOS,
        "draws": seeds or {"toy": 2, "small": 3, "paper": 5}[size],
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
        run.save(figure, FIGURES[name])


def rises(numbers: Any, *, every_step: bool = False) -> bool:
    """Whether numbers ``(draws, steps)`` rise from first to last, or at every step, beyond two standard errors."""
    numbers = np.asarray(numbers, dtype=float)
    steps = np.diff(numbers if every_step else numbers[:, [0, -1]], axis=1)
    return all(mean - 2 * error > 0 for mean, error in map(mean_and_error, steps.T))


def _rising(run: Run, axis: str, *, every_step: bool = False) -> list[str]:
    """The planes on which the mean width rises with lambda at every rho, or with rho at every lambda."""
    held = []
    for name in run.settings["planes"]:
        means = _numbers(run, name, "mean")  # (draws, lambdas, rhos)
        swept = np.moveaxis(means, 1 if axis == "lambda" else 2, -1)
        if all(rises(swept[:, i], every_step=every_step) for i in range(swept.shape[1])):
            held.append(name)
    return held


def _range(run: Run, name: str) -> tuple[float, float]:
    means = _numbers(run, name, "mean").mean(axis=0)
    return float(means.min()), float(means.max())


def verdicts(run: Run) -> list[Claim]:
    names = run.settings["planes"]
    rising = [_rising(run, axis) for axis in ("lambda", "rho")]
    factors = [most / least for least, most in (_range(run, name) for name in names)]
    return [
        Claim(
            "Fig. 10, 11, 12",
            "GPEC is more sensitive with larger lambda and rho",
            "by eye",
            f"width rises on {len(rising[0])} and {len(rising[1])} of {len(names)} planes, by up to {max(factors):.0f} "
            "times",
            judged(sum(map(len, rising)), 2 * len(names)),
        )
    ]


def report(run: Run) -> list[str]:
    s = run.settings
    names = s["planes"]
    truth = {name: _numbers(run, name, "agreement with changes").mean(axis=0) for name in names}
    usual = {name: _numbers(run, name, "agreement with 1 and 0.1").mean(axis=0).min() for name in names}
    return [
        "## Fig. 10, 11, 12: how much depends on lambda and rho?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} Does the picture survive another choice? The paper "
        "shows heatmaps, each with its own colour scale, and says that larger values make the kernel more sensitive "
        "to complex pieces of boundary. We take the mean width over the plane, for lambda from "
        f"{s['lambdas'][0]:g} to {s['lambdas'][-1]:g} and rho from {s['rhos'][0]:g} to {s['rhos'][-1]:g}. *Order* is "
        "the least rank correlation with the picture of lambda 1 and rho 0.1; *truth* is the best one with real "
        "changes of explanations that any choice reaches.",
        "",
        "| plane | least mean width | largest | factor | order | truth |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {least:.3f} | {most:.3f} | {most / least:.0f} | {usual[name]:.2f} | {truth[name].max():.2f} |"
            for name in names
            for least, most in [_range(run, name)]
        ),
        "",
        f"![{names[0]}, for each lambda and rho](figures/{run.size}/{FIGURES[names[0]]}.png)",
        "",
        f"The width rises with lambda at every rho {_on(_rising(run, 'lambda'), names)}, and with rho at every lambda "
        f"{_on(_rising(run, 'rho'), names)}. {_meaning(run)}",
        "",
        more(_TITLE),
    ]


def _meaning(run: Run) -> str:
    names = run.settings["planes"]
    factors = [most / least for least, most in (_range(run, name) for name in names)]
    truth = np.array([_numbers(run, name, "agreement with changes").mean(axis=0) for name in names])
    return (
        (
            "A number that changes so much with two parameters that are chosen by hand cannot be read as an error bar; "
            "at most the order of rows can be used. "
            if max(factors) > 2
            else ""
        )
        + f"The rank correlation with real changes lies between {truth.min():.2f} and {truth.max():.2f}: "
        + (
            "no choice makes the width follow them."
            if truth.max() < 0.5
            else "with the best choice the width follows them."
        )
    )


def tables(run: Run) -> list[str]:
    s = run.settings
    names, lambdas, rhos = s["planes"], s["lambdas"], s["rhos"]
    means = {name: _numbers(run, name, "mean") for name in names}  # (draws, lambdas, rhos)
    others = np.mean([_numbers(run, name, "agreement with 1 and 0.1").mean(axis=0) for name in names], axis=0)
    where, place = np.unravel_index(others.argmin(), others.shape)
    return [
        f"## {_TITLE}",
        "",
        f"Mean width (of at most 4; {s['draws']} draws of {s['n_train']} training rows, ± standard error):",
        "",
        "| plane | lambda | " + " | ".join(f"rho {rho:g}" for rho in rhos) + " |",
        "|---|---|" + "---|" * len(rhos),
        *(
            f"| {name} | {lam:g} | " + " | ".join(plus_minus(means[name][:, i, j], 3) for j in range(len(rhos))) + " |"
            for name in names
            for i, lam in enumerate(lambdas)
        ),
        "",
        f"The width rises with lambda at every rho {_on(_rising(run, 'lambda'), names)}, and with rho at every lambda "
        f"{_on(_rising(run, 'rho'), names)} (from the smallest to the largest, beyond two standard errors). For every "
        f"single step of lambda that is so {_on(_rising(run, 'lambda', every_step=True), names)}. "
        + ("The order of the cells is steadier" if others.min() >= 0.7 else "The order of the cells changes, too")
        + f": the rank correlation with the picture of lambda 1 and rho 0.1 is at least {others.min():.2f} on average "
        f"over the planes, with lambda {lambdas[where]:g} and rho {rhos[place]:g} the furthest.",
        *(f"\n![{name}, for each lambda and rho](figures/{run.size}/{FIGURES[name]}.png)" for name in names[1:]),
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
