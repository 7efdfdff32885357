"""Fig. 7: the case study of diabetes in NHANES 2013-2014."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import gpec
from paper._diabetes import BAR, GROUPS, MAIN, PEOPLE, SCALES, SHOWN, aurocs, one_fold, third
from paper._diabetes_report import report, tables, verdicts
from paper._planes import unpack
from paper._runs import Run

__all__ = ["draw", "report", "run", "settings", "tables", "verdicts"]

LEVELS = ("low", "medium", "high")
_COLORS, _MARKERS = ("#0072B2", "#E69F00", "#D55E00"), "os^"


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    toy = size == "toy"
    return {
        "folds": max(seeds or {"toy": 2, "small": 5, "paper": 10}[size], 2),
        "people": [MAIN] if toy else list(PEOPLE),
        "scales": [SHOWN] if toy else list(SCALES),
        "trees": 40 if toy else 300,
        "n_explained": 30 if toy else 100,
        "n_boundary": 100 if toy else 1_000,
        "n_samples": 60 if toy else 200,
        "most_test": 60 if toy else None,
        "n_checked": {"toy": 20, "small": 100, "paper": 300}[size],
        "n_similar": 2 if toy else 4,
        "lam": 1.0,
        "rho": 0.1,
    }


def run(run: Run) -> None:
    for people in run.settings["people"]:
        if people != MAIN:
            run.once(f"AUROC, {people}", lambda people=people: aurocs(run.settings, people))
    for fold in range(run.settings["folds"]):
        run.once(f"fold {fold}", lambda fold=fold: one_fold(run.settings, fold))


def _explanation(kept: dict[str, Any]) -> gpec.Explanation:
    values, variance, data = (
        unpack(kept[name]).reshape(-1, len(kept["features"])) for name in ("values", "variance", "data")
    )
    nothing, unit = np.zeros_like(values), {"unit": "probability"}
    return gpec.Explanation(values, variance, nothing, None, None, data, kept["features"], "diabetes", diagnostics=unit)


def draw(run: Run) -> None:
    kept = run.values["fold 0"]["picture"]
    e, said = _explanation(kept), unpack(kept["said"])
    figure = plt.figure(figsize=(15, 9), layout="constrained")
    top, below = figure.subfigures(2, 1, height_ratios=(1.15, 1))
    left, right = top.subplots(1, 2, width_ratios=(1, 1.6))
    _draw_levels(left, said)
    _draw_features(right, e, third(said))
    pictured = [kept["features"][0] if kept["features"][0] not in GROUPS else kept["features"][1], *GROUPS]
    for ax, feature, letter in zip(below.subplots(1, 3), pictured, "CDE", strict=True):
        gpec.plots.scatter(_counted(e[:, feature]) if feature == "hospital_stays" else e[:, feature], ax=ax)
        ax.set_title(f"({letter}) {feature.replace('_', ' ')}", loc="left")
    run.save(figure, "fig07_diabetes")


def _counted(one: gpec.Explanation) -> gpec.Explanation:
    """Whole numbers as words, so that dots lie side by side; the survey counts up to six."""
    words = [f"{x:.0f}" if x < 6 else "6 or more" for x in one.data]
    return replace(one, data=np.array(words, dtype=object))


def _draw_levels(ax: Any, said: np.ndarray) -> None:
    place = third(said)
    bins = np.linspace(said.min(), said.max(), 31)
    for k, (level, color) in enumerate(zip(LEVELS, _COLORS, strict=True)):
        some = place == k
        ax.hist(said[some], bins, color=color, label=f"{level} third of the range: {some.mean():.0%} of the people")
    for k, edge in enumerate(np.quantile(said, [1 / 3, 2 / 3])):
        ax.axvline(edge, color="#222222", linestyle="--", linewidth=1, label=None if k else "thirds of the people")
    ax.set_xlabel("GPEC's uncertainty, 4 sigma under unit scale")
    ax.set_ylabel("people")
    ax.set_title("(A) uncertainty of each person", loc="left")
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_features(ax: Any, e: gpec.Explanation, place: np.ndarray) -> None:
    names = e.feature_names[:BAR]
    rng = np.random.default_rng(0)
    for j, _ in enumerate(names):
        height = len(names) - 1 - j + rng.uniform(-0.32, 0.32, size=len(e))
        for k, (level, color, marker) in enumerate(zip(LEVELS, _COLORS, _MARKERS, strict=True)):
            some = place == k
            ax.scatter(
                e.values[some, j], height[some], s=(7, 12, 16)[k], color=color, marker=marker, linewidths=0, alpha=0.75,
                zorder=2 + k, label=level if j == 0 else None,
            )  # fmt: skip
    ax.axvline(0.0, color="#222222", linewidth=0.8, zorder=0)
    ax.set_yticks(range(len(names))[::-1], [name.replace("_", " ") for name in names])
    ax.set_xlabel("BayesLIME attribution: change of probability for one standard deviation of the feature")
    ax.set_title("(B) the largest attributions, by uncertainty", loc="left")
    ax.legend(title="uncertainty", frameon=False, fontsize="small", markerscale=1.6, loc="lower right")
    ax.spines[["top", "right"]].set_visible(False)
