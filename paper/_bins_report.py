"""Fig. 5 in words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from paper._report import Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus

__all__ = [
    "EDGES",
    "INNER",
    "REACH",
    "TRUTH",
    "bins_of",
    "factor",
    "factors_of",
    "report",
    "tables",
    "verdict",
    "verdicts",
]

EDGES = np.arange(-10, 11, 2)
INNER = np.abs((EDGES[1:] + EDGES[:-1]) / 2) < 4  # of the bins
TRUTH = "real changes"
PEAK = 1.1  # a factor that is above this beyond two standard errors
REACH = 0.5  # neighbours differ by at most this much in both features
_ASKED = 2.5
_TITLE = "Fig. 5"


def factor(bins: Any) -> float:
    """The mean of the bins within [-4, 4] over the mean of the others."""
    bins = np.asarray(bins, dtype=float)
    return float(bins[INNER].mean() / bins[~INNER].mean())


def bins_of(run: Run, line: str) -> np.ndarray:
    return np.array([run.values[f"draw {i}"][line] for i in range(run.settings["draws"])])


def factors_of(run: Run, line: str) -> list[float]:
    return [factor(bins) for bins in bins_of(run, line)]


def verdict(factors: Any) -> bool:
    """Whether there is a peak."""
    mean, error = mean_and_error(factors)
    return bool(mean - 2 * error > PEAK)


def verdicts(run: Run) -> list[Claim]:
    lines = run.settings["lines"]
    ours = [factors_of(run, line) for line in lines[:2]]
    flat = [line for line in lines[3:] if not verdict(factors_of(run, line))]
    return [
        Claim(
            "Fig. 5",
            "GPEC is more uncertain where the boundary is wild",
            "by eye",
            f"{np.mean(ours[0]):.1f} times with lambda = rho = 0.5, {np.mean(ours[1]):.1f} with the stated 1 and 0.1",
            judged(sum(verdict(one) for one in ours), 2),
        ),
        Claim(
            "Fig. 5",
            "the other methods are not",
            "by eye",
            f"{len(flat)} of {len(lines[3:])} have no peak",
            judged(len(flat), len(lines[3:])),
        ),
    ]


def report(run: Run) -> list[str]:
    return [
        "## Fig. 5: does uncertainty rise where the boundary is wild?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} Synthetic's boundary, x2 = 2 cos(10 / x1), oscillates "
        "within [-4, 4] and is calm outside. The paper shows a central peak for GPEC and none for the other methods; "
        "it gives no numbers. Our factor is the mean width inside over the mean width outside; a peak is a factor "
        f"above {PEAK:g} by more than two standard errors.",
        "",
        *_table(run),
        "",
        f"![Mean width by bins of x1](figures/{run.size}/fig05_bins.png)",
        "",
        f"{_holds(run)} {_why(run)}",
        "",
        more(_TITLE),
    ]


def tables(run: Run) -> list[str]:
    s = run.settings
    shown = [*s["lines"], TRUTH]
    middles = [f"{low} to {high}" for low, high in pairwise(EDGES)]
    return [
        f"## {_TITLE}",
        "",
        f"{s['draws']} draws of {s['n_train']} training rows on [-12, 12]^2, the boundary in closed form at "
        f"{s['n_boundary']:,} values of x1; the attribution of x1. The factor is the mean of the four inner bins over "
        f"the mean of the six outer ones; a peak is a factor above {PEAK:g} by more than two standard errors. Real "
        f"changes are the standard deviation of x1's exact Shapley value among rows within {REACH} of each other.",
        "",
        *_table(run),
        "",
        "Mean width in each bin of x1 (*learned*: 0.5 and 0.5, scale learned):",
        "",
        "| x1 | " + " | ".join(line.replace("0.5 and 0.5, scale learned", "learned") for line in shown) + " |",
        "|---|" + "---|" * len(shown),
        *(
            f"| {middle} | " + " | ".join(f"{bins_of(run, line)[:, i].mean():.3g}" for line in shown) + " |"
            for i, middle in enumerate(middles)
        ),
    ]


def _table(run: Run) -> list[str]:
    return [
        "| lambda and rho, where there are | factor | peak |",
        "|---|---|---|",
        *(
            f"| {line} | {plus_minus(factors_of(run, line), 2)} | {'yes' if verdict(factors_of(run, line)) else 'no'} |"
            for line in [*run.settings["lines"], TRUTH]
        ),
    ]


def _holds(run: Run) -> str:
    lines = run.settings["lines"]
    peak, other = (factors_of(run, line) for line in lines[:2])
    seen = [line for line in lines[3:] if verdict(factors_of(run, line))]
    text = "With lambda = rho = 0.5 GPEC's peak "
    if verdict(peak):
        size = "at least" if np.mean(peak) >= _ASKED else "but less than"
        text += f"is there, {size} {_ASKED}."
    else:
        text += "is not there."
    text += " With 1 and 0.1, which the paper states, it is "
    text += "weaker." if np.mean(other) < np.mean(peak) else "as strong."
    if seen:
        return f"{text} Other methods have a peak, too: {', '.join(seen)}."
    return f"{text} None of the other methods has a peak."


def _why(run: Run) -> str:
    lines = run.settings["lines"]
    peak, learned, truth = (factors_of(run, line) for line in (lines[0], lines[2], TRUTH))
    agree = verdict(truth) and verdict(peak)
    return (
        "The last line is what a user would want to know: how much exact explanations of near rows differ. "
        + ("GPEC is right that the inside is worse" if agree else "GPEC's peak and the real changes do not agree")
        + ". But the height of its peak is a matter of lambda and rho"
        + (
            ", and of the kernel alone: where the scale is learned from the attributions, no peak is left."
            if verdict(peak) and not verdict(learned)
            else "."
        )
    )
