"""The Conclusion's trade between time and accuracy: how many boundary points are enough?"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import NullLocator, ScalarFormatter
from scipy.stats import spearmanr

import gpec
from gpec.boundary import BisectionSampler
from gpec.geometry import GeodesicGraph
from paper._boundary_points_report import (
    INFERENCE,
    SCALES,
    STAGES,
    kept_of,
    report,
    seconds_of,
    tables,
    verdicts,
)
from paper._methods import fit_gpec
from paper._models import Problem, problem
from paper._runs import Run, mean_and_error
from paper.times import timed

__all__ = ["draw", "errors", "report", "run", "settings", "tables", "verdicts"]

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#000000")
_OTHER_SEED = 1_000
_REPEATS = 3


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "data": "German Credit" if size == "toy" else "Census",
        "seeds": seeds or {"toy": 2, "small": 3, "paper": 6}[size],
        "points": {
            "toy": [20, 60],
            "small": [100, 300, 1_000, 2_000],
            "paper": [100, 200, 500, 1_000, 2_000, 5_000],
        }[size],
        "most": {"toy": 120, "small": 5_000, "paper": 10_000}[size],
        "n_explained": {"toy": 20}.get(size, 100),
        "n_query": {"toy": 20}.get(size, 100),
        "lam": 1.0,
        "rho": 0.1,
    }


def run(run: Run) -> None:
    for name, standardize in SCALES.items():
        for seed in range(run.settings["seeds"]):
            run.once(
                f"{name}, seed {seed}", lambda seed=seed, standardize=standardize: _one(run.settings, seed, standardize)
            )


def _one(s: dict[str, Any], seed: int, standardize: bool) -> dict[str, Any]:
    """A sweep on one draw of data and model, and the largest sample, drawn by itself, to compare with."""
    drawn = problem(s["data"], (0.0,), seed, n_explained=s["n_explained"], n_query=s["n_query"])
    reference = _fit(s, drawn, s["most"], seed + _OTHER_SEED, standardize)
    found = {str(J): _fit(s, drawn, J, seed, standardize) for J in s["points"]}
    truth = reference["variance"]
    return {
        str(s["most"]): {"seconds": reference["seconds"], "mean": truth.mean()},
        **{
            J: {"seconds": one["seconds"], "mean": one["variance"].mean(), **errors(one["variance"], truth)}
            for J, one in found.items()
        },
    }


def _fit(s: dict[str, Any], drawn: Problem, J: int, seed: int, standardize: bool) -> dict[str, Any]:
    """Variances of the query rows, the same for all features, and the seconds of each stage."""
    sampling, boundary = timed(
        lambda: BisectionSampler().sample(
            drawn.models[0.0], drawn.pool, J, standardize=standardize, random_state=seed, progress=False
        )
    )
    rest, g = timed(
        lambda: fit_gpec(
            drawn.models[0.0], drawn.explained, published=True, lam=s["lam"], rho=s["rho"], boundary=boundary,
            pool=drawn.pool, standardize=standardize, seed=seed,
        )
    )  # fmt: skip
    ways, _ = timed(lambda: GeodesicGraph.build(g.graph_.points, n_neighbors=gpec.PAPER["n_neighbors"]).distances)
    answers = [timed(lambda: g.explain(drawn.query, attribution="posterior")) for _ in range(_REPEATS)]
    inference = min(seconds for seconds, _ in answers)
    seconds = dict(zip((*STAGES, INFERENCE), (sampling, ways, max(rest - ways, 0.0), inference), strict=True))
    return {"variance": answers[0][1].variance[:, 0], "seconds": seconds}


def errors(variance: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Root mean square error as a share of the truth's own size, relative bias of the mean, and rank correlation."""
    return {
        "error": float(np.sqrt(((variance - truth) ** 2).mean() / (truth**2).mean())),
        "bias": float(variance.mean() / truth.mean() - 1),
        "rank": float(spearmanr(variance, truth)[0]),
    }


def draw(run: Run) -> None:
    swept, most = run.settings["points"], run.settings["most"]
    figure, (clock, error, rank) = plt.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
    for stage, color, style in zip((*STAGES, INFERENCE), _COLORS, "osD^", strict=True):
        seconds = [mean_and_error(seconds_of(run, J, stage)) for J in (*swept, most)]
        clock.errorbar((*swept, most), *np.transpose(seconds), color=color, marker=style, capsize=2, label=stage)
    clock.set_yscale("log")
    clock.set_ylabel("seconds of processor time")
    clock.set_title("time", loc="left")
    for ax, word, title in ((error, "error", "error of the variances"), (rank, "rank", "order of the rows")):
        for scale, color, style in zip(SCALES, _COLORS, "os", strict=False):
            found = [mean_and_error(kept_of(run, scale, J, word)) for J in swept]
            ax.errorbar(swept, *np.transpose(found), color=color, marker=style, capsize=2, label=scale)
        ax.set_title(title, loc="left")
    error.set_ylim(bottom=0)
    error.set_ylabel("root mean square, as a share of the variances' own")
    rank.set_ylim(top=1.02)
    rank.set_ylabel(f"rank correlation with {most:,} points")
    for ax in (clock, error, rank):
        ax.set_xscale("log")
        ax.set_xticks((*swept, most) if ax is clock else swept)
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("boundary points")
        ax.legend(frameon=False, fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
    run.save(figure, "boundary_points")
