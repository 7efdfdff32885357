"""Fig. 4 and 14 in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._methods import METHODS
from paper._report import Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus

__all__ = ["REGIONS", "UNIFORM", "region_verdict", "report", "tables", "uniform", "verdicts"]

_TITLE = "Fig. 4, 14"

# Where the paper sees GPEC's uncertainty highest: part of the horizontal and of the vertical axis.
REGIONS = {
    "Synthetic": ("the centre", (0.3, 0.7), (0.3, 0.7)),
    "Census, age and hours": ("the top right", (0.5, 1.0), (0.5, 1.0)),
    "Census, age and education": ("the top right", (0.5, 1.0), (0.5, 1.0)),
    "German Credit": ("the bottom right", (0.5, 1.0), (0.0, 0.5)),
}
UNIFORM = ("BayesSHAP", "BayesLIME", "CXPlain")  # as the paper calls them


def region_verdict(ratios: Any) -> bool:
    """Whether the region is more uncertain than the rest, beyond two standard errors over draws."""
    mean, error = mean_and_error(ratios)
    return bool(mean - 2 * error > 1.0)


def uniform(variation: dict[str, float]) -> list[str]:
    """Which of BayesSHAP, BayesLIME and CXPlain vary less than half as much over the plane as GPEC does."""
    return [method for method in UNIFORM if variation[method] < 0.5 * variation["GPEC"]]


def verdicts(run: Run) -> list[Claim]:
    names = run.settings["planes"]
    even = sum(len(uniform(_variation(run, name))) for name in names)
    return [
        Claim(
            "Fig. 4, 14",
            "GPEC peaks in the regions that the paper points out",
            "by eye",
            f"on {len(_held(run))} of {len(names)} planes",
            judged(len(_held(run)), len(names)),
        ),
        Claim(
            "Fig. 4, 14",
            'BayesSHAP, BayesLIME, CXPlain are "relatively uniform"',
            "by eye",
            f"in {even} of {len(UNIFORM) * len(names)} pictures",
            judged(even, len(UNIFORM) * len(names)),
        ),
    ]


def report(run: Run) -> list[str]:
    names, seen = run.settings["planes"], _seen(run)
    best = max(seen, key=lambda method: seen[method])
    return [
        "## Fig. 4, 14: where is each method uncertain?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} A model of two features can be explained all over their "
        "plane. The paper judges by eye: GPEC peaks in the centre of Synthetic, where its boundary oscillates, at the "
        "top right of both Census planes and at the bottom right of German Credit; Naive-GP follows the distance to "
        'the explained rows; the others are "relatively uniform". We measure the width in these regions over the rest. '
        "*Truth* is the rank correlation of a width with how much exact explanations *really* change nearby.",
        "",
        "| plane | GPEC, region over rest | " + " | ".join(f"truth: {method}" for method in METHODS) + " |",
        "|---|" + "---|" * (1 + len(METHODS)),
        *(
            f"| {name} | {plus_minus(_draws(run, name, 'GPEC', 'region over rest'), 1)} | "
            + " | ".join(f"{np.mean(_draws(run, name, m, 'agreement with changes')):.2f}" for m in METHODS)
            + " |"
            for name in names
        ),
        "",
        f"GPEC's peak lies where the paper sees it {_on(_held(run), names)}. {_evenness(run)} Of all widths "
        f"{best}'s follows the truth best: its rank correlation is {seen[best]:.2f} on average over the planes"
        + ("." if best == "GPEC" else f", GPEC's {seen['GPEC']:.2f}."),
        "",
        f"![Heatmaps of uncertainty for the feature on the horizontal axis](figures/{run.size}/fig04_heatmaps_x.png)",
        "",
        "**Why.** GPEC sees little but whether an explained row is near the same piece of boundary, and never looks at "
        "the attributions.",
        "",
        more(_TITLE),
    ]


def tables(run: Run) -> list[str]:
    names = run.settings["planes"]
    held = _held(run)
    return [
        f"## {_TITLE}",
        "",
        f"XGBoost of two features, Synthetic in closed form; {run.settings['n_train']} training rows; "
        f"{run.settings['draws']} draws of them, ± standard error; lambda = rho = 0.5 for Synthetic, 1 and 0.1 "
        "elsewhere. How much the width varies over the plane, as standard deviation over mean (uniform: less than half "
        "of GPEC's):",
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
        "Rank correlations of the width with how much exact Shapley values *really* differ between neighbouring cells "
        "(changes), and with the distance to the nearest training row:",
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
        "GPEC's two features have one and the same surface: Fig. 14 repeats Fig. 4 for it. The levels cannot be "
        "compared between methods: see Table 1.",
        "",
        f"![Heatmaps of uncertainty for the feature on the vertical axis](figures/{run.size}/fig14_heatmaps_y.png)",
    ]


def _held(run: Run) -> list[str]:
    return [name for name in run.settings["planes"] if region_verdict(_draws(run, name, "GPEC", "region over rest"))]


def _variation(run: Run, name: str) -> dict[str, float]:
    return {method: float(np.mean(_draws(run, name, method, "variation"))) for method in METHODS}


def _seen(run: Run) -> dict[str, float]:
    """How well each method's width follows the real changes, on average over the planes."""
    names = run.settings["planes"]
    return {m: float(np.mean([_draws(run, name, m, "agreement with changes") for name in names])) for m in METHODS}


def _evenness(run: Run) -> str:
    names = run.settings["planes"]
    uneven = [f"{m} on {name}" for name in names for m in UNIFORM if m not in uniform(_variation(run, name))]
    if not uneven:
        return (
            'BayesSHAP, BayesLIME and CXPlain vary less than half as much as GPEC on every plane: "relatively '
            'uniform" holds.'
        )
    return f'Not "relatively uniform", varying at least half as much as GPEC: {"; ".join(uneven)}.'


def _on(held: list[str], names: list[str]) -> str:
    return "on all planes" if len(held) == len(names) else f"on {'; '.join(held)}" if held else "on no plane"


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
