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
from paper._methods import fit_gpec
from paper._models import Problem, problem
from paper._runs import Run, mean_and_error, plus_minus
from paper.times import timed

SCALES = {"raw units": False, "standard units": True}
STAGES = ("sampling", "distances along the boundary", "kernel and posterior")
INFERENCE = "inference, 100 rows"
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#000000")
_OTHER_SEED = 1_000
_REPEATS = 3


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "data": "German Credit" if size == "toy" else "Census",
        "seeds": seeds or {"toy": 2, "small": 3, "paper": 10}[size],
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


def _kept(run: Run, scale: str, J: int, *path: str) -> list[float]:
    """One number for each seed."""
    found = []
    for seed in range(run.settings["seeds"]):
        at = run.values[f"{scale}, seed {seed}"][str(J)]
        for word in path:
            at = at[word]
        found.append(at)
    return found


def _seconds(run: Run, J: int, stage: str) -> list[float]:
    return [second for scale in SCALES for second in _kept(run, scale, J, "seconds", stage)]


def _training(run: Run, J: int) -> np.ndarray:
    return np.sum([_seconds(run, J, stage) for stage in STAGES], axis=0)


def draw(run: Run) -> None:
    swept, most = run.settings["points"], run.settings["most"]
    figure, (clock, error, rank) = plt.subplots(1, 3, figsize=(13.5, 4.4), layout="constrained")
    for stage, color, style in zip((*STAGES, INFERENCE), _COLORS, "osD^", strict=True):
        seconds = [mean_and_error(_seconds(run, J, stage)) for J in (*swept, most)]
        clock.errorbar((*swept, most), *np.transpose(seconds), color=color, marker=style, capsize=2, label=stage)
    clock.set_yscale("log")
    clock.set_ylabel("seconds of processor time")
    clock.set_title("time", loc="left")
    for ax, word, title in ((error, "error", "error of the variances"), (rank, "rank", "order of the rows")):
        for scale, color, style in zip(SCALES, _COLORS, "os", strict=False):
            found = [mean_and_error(_kept(run, scale, J, word)) for J in swept]
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
    plt.close(figure)


def falls(first: Any, last: Any) -> bool:
    """Whether the last is smaller than the first, seed by seed, by more than two standard errors."""
    mean, error = mean_and_error(np.subtract(first, last))
    return bool(mean - 2 * error > 0)


def report(run: Run) -> list[str]:
    s = run.settings
    return [
        "## Conclusion: how many boundary points are enough?",
        "",
        "**Question.** More boundary points cost time. What do they buy?",
        "",
        '**The paper** names "a tradeoff between computation time and approximation accuracy or sample bias" as its '
        "limitation, and adds that sampling takes place in training only. It shows no figures.",
        "",
        f"**We find** ({s['data']}, XGBoost, {s['seeds']} seeds, each with its own split and model, {s['n_query']} "
        f"test rows, lambda {s['lam']:g}, rho {s['rho']:g}; each sweep is compared with a sample of "
        f"{s['most']:,} points drawn by itself; seconds of processor time; standard errors over seeds):",
        "",
        "| points | sampling, s | whole training, s | inference, s | "
        + " | ".join(f"error, {name} | bias | rank correlation" for name in SCALES)
        + " |",
        "|---" * (4 + 3 * len(SCALES)) + "|",
        *(_line(run, J) for J in s["points"]),
        f"| {s['most']:,} | {_times(run, s['most'])} |" + " |" * (3 * len(SCALES)),
        "",
        "Error is the root mean square difference of the variances as a share of their own root mean square; bias is "
        "that of their mean.",
        "",
        "![Time, error and rank correlation against the number of boundary points]"
        f"(figures/{run.size}/boundary_points.png)",
        "",
        f"**Does it hold?** {_holds(run)}",
        "",
        f"**Why.** {_why(run)}",
    ]


def _times(run: Run, J: int) -> str:
    return " | ".join(plus_minus(x, 2) for x in (_seconds(run, J, "sampling"), _training(run, J))) + (
        f" | {plus_minus(_seconds(run, J, INFERENCE))}"
    )


def _line(run: Run, J: int) -> str:
    cells = [
        f"{plus_minus(_kept(run, name, J, 'error'), 2)} | {100 * np.mean(_kept(run, name, J, 'bias')):+.0f}% | "
        f"{plus_minus(_kept(run, name, J, 'rank'), 2)}"
        for name in SCALES
    ]
    return f"| {J:,} | {_times(run, J)} | {' | '.join(cells)} |"


def _holds(run: Run) -> str:
    few, many, most = run.settings["points"][0], run.settings["points"][-1], run.settings["most"]
    traded = [n for n in SCALES if falls(_kept(run, n, few, "error"), _kept(run, n, many, "error"))]
    dearer = falls(_training(run, most), _training(run, few))
    ratio = np.mean(_training(run, most)) / np.mean(_training(run, few))
    share = np.mean(_seconds(run, most, INFERENCE)) / np.mean(_training(run, most))
    if not traded:
        found = f"We see no trade: from {few:,} to {many:,} points the error does not fall beyond two standard errors."
    else:
        found = (
            f"{'There is a trade' if dearer else 'More points are better and no dearer'}: from {few:,} to {many:,} "
            f"points the error falls, beyond two standard errors, with inputs in {' and in '.join(traded)}"
            + (f", and {most:,} points take {ratio:.0f} times the training of {few:,}." if dearer else ".")
        )
    return (
        f"{found} Inference for {run.settings['n_query']} rows takes {share:.1%} of the training time with {most:,} "
        f"points: the cost is {'indeed' if share < 0.1 else 'NOT'} paid once, in training."
    )


def _why(run: Run) -> str:
    few, most = run.settings["points"][0], run.settings["most"]
    sampling = np.mean(_seconds(run, most, "sampling")) / np.mean(_training(run, most))
    slowest = max(STAGES, key=lambda stage: np.mean(_seconds(run, most, stage)))
    shifted = [f"{100 * np.mean(_bias(run, n, few)):+.0f}% in {n}" for n in SCALES if biased(_bias(run, n, few))]
    return (
        f"Sampling is {sampling:.0%} of the training with {most:,} points, by bisection in place of the paper's "
        f"zeroth-order attack; the slowest stage is: {slowest}. "
        + (
            f"Too few points do not merely add noise, they shift the level: with {few:,} points the mean variance is "
            f"off by {' and '.join(shifted)}. So two models can be compared only at the same number of points."
            if shifted
            else f"The mean variance with {few:,} points is not off beyond two standard errors: the error is noise."
        )
    )


def _bias(run: Run, scale: str, J: int) -> list[float]:
    return _kept(run, scale, J, "bias")


def biased(shares: Any) -> bool:
    """Whether the bias is at least a tenth, and more than two standard errors."""
    mean, error = mean_and_error(shares)
    return bool(abs(mean) >= max(0.1, 2 * error))
