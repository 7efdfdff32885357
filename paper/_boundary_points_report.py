"""The trade between time and accuracy in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._report import FAILS, HOLDS, PART, Claim, more, overall
from paper._runs import Run, mean_and_error, plus_minus

__all__ = [
    "INFERENCE", "SCALES", "STAGES", "biased", "falls", "kept_of", "report", "seconds_of", "tables", "training_of",
    "verdicts",
]  # fmt: skip

SCALES = {"raw units": False, "standard units": True}
STAGES = ("sampling", "distances along the boundary", "kernel and posterior")
INFERENCE = "inference, 100 rows"
_TITLE = "Conclusion"
_PAID = 0.1  # of the training time, below which inference costs little


def kept_of(run: Run, scale: str, J: int, *path: str) -> list[float]:
    """One number for each seed."""
    found = []
    for seed in range(run.settings["seeds"]):
        at = run.values[f"{scale}, seed {seed}"][str(J)]
        for word in path:
            at = at[word]
        found.append(at)
    return found


def seconds_of(run: Run, J: int, stage: str) -> list[float]:
    return [second for scale in SCALES for second in kept_of(run, scale, J, "seconds", stage)]


def training_of(run: Run, J: int) -> np.ndarray:
    return np.sum([seconds_of(run, J, stage) for stage in STAGES], axis=0)


def falls(first: Any, last: Any) -> bool:
    """Whether the last is smaller than the first, seed by seed, by more than two standard errors."""
    mean, error = mean_and_error(np.subtract(first, last))
    return bool(mean - 2 * error > 0)


def _traded(run: Run) -> list[str]:
    """The scales on which the error falls from the fewest points to the most."""
    few, many = run.settings["points"][0], run.settings["points"][-1]
    return [n for n in SCALES if falls(kept_of(run, n, few, "error"), kept_of(run, n, many, "error"))]


def _dearer(run: Run) -> tuple[bool, float]:
    """Whether the most points take longer to train with than the fewest, and how many times."""
    few, most = (training_of(run, J) for J in (run.settings["points"][0], run.settings["most"]))
    return falls(most, few), float(np.mean(most) / np.mean(few))


def _inference_share(run: Run) -> float:
    most = run.settings["most"]
    return float(np.mean(seconds_of(run, most, INFERENCE)) / np.mean(training_of(run, most)))


def verdicts(run: Run) -> list[Claim]:
    (dearer, ratio), traded = _dearer(run), _traded(run)
    share = _inference_share(run)
    return [
        Claim(
            "Conclusion",
            "more boundary points cost time and gain accuracy",
            "no figures",
            f"{ratio:.0f} times the training; the error falls on {len(traded)} of {len(SCALES)} scales",
            (HOLDS if len(traded) == len(SCALES) else PART) if dearer and traded else FAILS,
        ),
        Claim(
            "Conclusion",
            "the cost is paid in training only",
            "no figures",
            f"inference takes {share:.1%} of the training time",
            HOLDS if share < _PAID else FAILS,
        ),
    ]


def report(run: Run) -> list[str]:
    s = run.settings
    return [
        "## Conclusion: how many boundary points are enough?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} More boundary points cost time. What do they buy? The "
        "paper names a trade between time and accuracy, paid in training only, and shows no figures. We compare with "
        f"{s['most']:,} points drawn by themselves, on {s['data']}. *Error* is the root mean square difference of the "
        "variances, as a share of their size; *bias* is that of their mean.",
        "",
        "| points | training, s | inference, s | " + " | ".join(f"error, {name} | bias" for name in SCALES) + " |",
        "|---" * (3 + 2 * len(SCALES)) + "|",
        *(_short_line(run, J) for J in s["points"]),
        "",
        "![Time, error and rank correlation against the number of boundary points]"
        f"(figures/{run.size}/boundary_points.png)",
        "",
        f"{_holds(run)} {_why(run)}",
        "",
        more(_TITLE),
    ]


def _percent(shares: Any) -> str:
    return f"{round(100 * float(np.mean(shares))):+d}%"


def _short_line(run: Run, J: int) -> str:
    cells = [
        f"{np.mean(kept_of(run, name, J, 'error')):.2f} | {_percent(kept_of(run, name, J, 'bias'))}" for name in SCALES
    ]
    seconds = f"{np.mean(training_of(run, J)):.2f} | {np.mean(seconds_of(run, J, INFERENCE)):.3f}"
    return f"| {J:,} | {seconds} | {' | '.join(cells)} |"


def tables(run: Run) -> list[str]:
    s = run.settings
    return [
        f"## {_TITLE}",
        "",
        f"{s['data']}, XGBoost, {s['seeds']} seeds, each with its own split and model, {s['n_query']} "
        f"test rows, lambda {s['lam']:g}, rho {s['rho']:g}; each sweep is compared with a sample of "
        f"{s['most']:,} points drawn by itself; seconds of processor time; standard errors over seeds:",
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
    ]


def _times(run: Run, J: int) -> str:
    return " | ".join(plus_minus(x, 2) for x in (seconds_of(run, J, "sampling"), training_of(run, J))) + (
        f" | {plus_minus(seconds_of(run, J, INFERENCE))}"
    )


def _line(run: Run, J: int) -> str:
    cells = [
        f"{plus_minus(kept_of(run, name, J, 'error'), 2)} | {_percent(kept_of(run, name, J, 'bias'))} | "
        f"{plus_minus(kept_of(run, name, J, 'rank'), 2)}"
        for name in SCALES
    ]
    return f"| {J:,} | {_times(run, J)} | {' | '.join(cells)} |"


def _holds(run: Run) -> str:
    few, many, most = run.settings["points"][0], run.settings["points"][-1], run.settings["most"]
    traded, (dearer, ratio), share = _traded(run), _dearer(run), _inference_share(run)
    if not traded:
        found = f"We see no trade: from {few:,} to {many:,} points the error does not fall beyond two standard errors."
    else:
        found = (
            f"{'There is a trade' if dearer else 'More points are better and no dearer'}: from {few:,} to {many:,} "
            f"points the error falls, beyond two standard errors, in {' and in '.join(traded)}"
            + (f", and {most:,} points take {ratio:.0f} times the training of {few:,}." if dearer else ".")
        )
    return (
        f"{found} Inference for {run.settings['n_query']} rows takes {share:.1%} of the training time with {most:,} "
        f"points: the cost is {'indeed' if share < _PAID else 'NOT'} paid once."
    )


def _why(run: Run) -> str:
    few, most = run.settings["points"][0], run.settings["most"]
    sampling = np.mean(seconds_of(run, most, "sampling")) / np.mean(training_of(run, most))
    slowest = max(STAGES, key=lambda stage: np.mean(seconds_of(run, most, stage)))
    shifted = [f"{_percent(_bias(run, n, few))} in {n}" for n in SCALES if biased(_bias(run, n, few))]
    return f"Sampling, by bisection, is {sampling:.0%} of the training; the slowest stage is: {slowest}. " + (
        f"Too few points do not merely add noise, they shift the level: with {few:,} the mean variance is off by "
        f"{' and '.join(shifted)}. So models can be compared only at the same number of points."
        if shifted
        else f"The mean variance with {few:,} points is not off beyond two standard errors: the error is noise."
    )


def _bias(run: Run, scale: str, J: int) -> list[float]:
    return kept_of(run, scale, J, "bias")


def biased(shares: Any) -> bool:
    """Whether the bias is at least a tenth, and more than two standard errors."""
    mean, error = mean_and_error(shares)
    return bool(abs(mean) >= max(0.1, 2 * error))
