"""Fig. 1, 3 and 9 in words."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from paper._curves import BOUNDARIES, CORNER, COSINE, LEVEL, LINE, MODELS, RADIUS
from paper._report import FAILS, HOLDS, Claim, judged, more
from paper._runs import Run, plus_minus

__all__ = ["report", "shrinks", "smaller", "tables", "verdicts"]

_TITLE = "Fig. 1, 3, 9"


def shrinks(shares: Any) -> bool:
    """Whether the ball near the complex piece gets smaller at each step of rho."""
    near = [share[0] for share in shares]
    return all(later < earlier for earlier, later in pairwise(near))


def smaller(shares: Any) -> list[int]:
    """At which values of rho the ball near the complex piece is the smaller one."""
    return [i for i, (near, plain) in enumerate(shares) if near < plain]


def verdicts(run: Run) -> list[Claim]:
    pairs = _pairs(run)
    balls, rhos = _balls(run), run.settings["rhos"]
    found = {name: smaller(balls[name]) for name in (COSINE, CORNER)}
    return [
        Claim(
            "Fig. 1",
            "under a complex boundary, like rows get unlike explanations",
            "one pair, drawn",
            f"{pairs['complex boundary'].mean():.1f}% of pairs disagree; {pairs['smoothed boundary'].mean():.1f}% if "
            "smoothed",
            HOLDS if _patients_hold(run) else FAILS,
        ),
        Claim(
            "Fig. 3, 9",
            "near a complex piece, fewer rows are similar",
            "drawn",
            f"oscillation: {_which(found[COSINE], rhos)}; corner: {_which(found[CORNER], rhos)}",
            judged(sum(len(places) for places in found.values()), len(found) * len(rhos)),
        ),
    ]


def report(run: Run) -> list[str]:
    tops = _tops(run)
    pairs = _pairs(run)
    one, other = verdicts(run)
    return [
        "## Fig. 1: why does smoothness matter?",
        "",
        f"**{one.verdict.capitalize()}.** Two patients are alike and get the same prediction. Are they told the same "
        "story? The paper draws a pair whose most important feature, by the gradient, differs under a complex boundary "
        f"and agrees under a smoothed one. With a model in closed form we get {_told(tops['complex boundary'])} "
        f"under the complex boundary, {_told(tops['smoothed boundary'])} under the smoothed one. And not for these two "
        "alone: of random pairs at a distance of 0.3 with the same "
        f"predicted class, {plus_minus(pairs['complex boundary'], 1)}% disagree under the complex boundary and "
        f"{plus_minus(pairs['smoothed boundary'], 1)}% under the smoothed one.",
        "",
        f"![Two patients under a complex and a smoothed boundary](figures/{run.size}/fig01_smoothness.png)",
        "",
        "## Fig. 3, 9: does the kernel see complexity?",
        "",
        f"**{other.verdict.capitalize()}.** GPEC's kernel calls two rows similar if the boundary near one is a short "
        f"way, along the boundary, from that near the other. The *ball* of a row is the set of rows with a similarity "
        f"of at least {LEVEL:g}. The paper draws small balls near complex pieces and large ones near plain pieces. "
        "Share of its surroundings that is in the ball "
        "of a row, near a complex piece / near a plain piece:",
        "",
        *_ball_table(run),
        "",
        _why(run),
        "",
        f"![Geodesic, similarity balls and weights](figures/{run.size}/fig03_kernel.png)",
        "",
        more(_TITLE),
    ]


def tables(run: Run) -> list[str]:
    s, v = run.settings, run.values
    way = v["geodesic"]
    balls = _balls(run)
    shrinking = [name for name in BOUNDARIES if shrinks(balls[name])]
    return [
        f"## {_TITLE}",
        "",
        f"**Pairs of rows (Fig. 1).** {s['draws']} draws of {s['pairs']:,} random pairs at a distance of 0.3 with the "
        "same predicted class. Share of pairs whose most important feature, by the gradient, differs: "
        + ", ".join(f"{plus_minus(share, 1)}% ({name})" for name, share in _pairs(run).items())
        + ". The two patients of the picture: "
        + "; ".join(f"{name}: {top[0]} for A, {top[1]} for B" for name, top in _tops(run).items())
        + ".",
        "",
        f"**Balls (Fig. 3, 9).** Lambda {s['lam']:g}; share of the disc of radius {RADIUS:g} around a row that is "
        f"similar to it (at least {LEVEL:g}), near a complex piece / near a plain piece; on the line both are plain.",
        "",
        *_ball_table(run),
        "",
        f"The way along x2 = 2 cos(10 / x1) from x1 = 1 to 6 is {way['graph']:.2f} by the graph of "
        f"{s['n_boundary']:,} points, {way['curve']:.2f} in closed form; the straight line is {way['straight']:.2f}.",
        "",
        f"The ball near the complex piece shrinks with every step of rho for {', '.join(shrinking) or 'none'}"
        + (
            "; as it does so on the straight line, too, that by itself is no sign of complexity."
            if LINE in shrinking
            else "."
        ),
        "",
        f"![Similarity balls for three boundaries and three values of rho](figures/{run.size}/fig09_balls.png)",
    ]


def _tops(run: Run) -> dict[str, list[str]]:
    return {name: [one["top"] for one in run.values["patients"][name].values()] for name in MODELS}


def _told(tops: list[str]) -> str:
    return f"{tops[0]} for both" if tops[0] == tops[1] else f"{tops[0]} for A and {tops[1]} for B"


def _patients_hold(run: Run) -> bool:
    tops = _tops(run)
    return len(set(tops["complex boundary"])) > 1 and len(set(tops["smoothed boundary"])) == 1


def _pairs(run: Run) -> dict[str, np.ndarray]:
    return {name: 100 * np.array(run.values[f"pairs, {name}"]) for name in MODELS}


def _balls(run: Run) -> dict[str, list[Any]]:
    return {name: [run.values[f"balls, {name}"][f"{rho:g}"] for rho in run.settings["rhos"]] for name in BOUNDARIES}


def _ball_table(run: Run) -> list[str]:
    balls, rhos = _balls(run), run.settings["rhos"]
    return [
        "| boundary | " + " | ".join(f"rho {one:g}" for one in rhos) + " |",
        "|---|" + "---|" * len(rhos),
        *(
            f"| {name} | " + " | ".join(f"{near:.1%} / {plain:.1%}" for near, plain in balls[name]) + " |"
            for name in BOUNDARIES
        ),
    ]


def _why(run: Run) -> str:
    balls, rhos = _balls(run), run.settings["rhos"]
    wild, corner = smaller(balls[COSINE]), smaller(balls[CORNER])
    return (
        f"Near the oscillation the ball is the smaller one for {_which(wild, rhos)}"
        + (
            ". With a smaller rho a row looks at so much of the boundary that all rows there see the same bundle"
            if 0 not in wild
            else ""
        )
        + f". At the corner it is so for {_which(corner, rhos)}"
        + (
            ": all rows below have the corner for their nearest boundary, so a bend outwards makes rows more similar."
            if not corner
            else "."
        )
    )


def _which(places: list[int], rhos: Any) -> str:
    if not places:
        return "no rho"
    return "every rho" if len(places) == len(rhos) else "rho = " + " and ".join(f"{rhos[i]:g}" for i in places)
