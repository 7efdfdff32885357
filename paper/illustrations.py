"""Fig. 1, 3 and 9: why smoothness matters; geodesics, weights and similarity balls; the same for more boundaries."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gpec.datasets import CurveModel
from gpec.kernels import WEG
from paper._curves import (
    BOUNDARIES,
    CORNER,
    COSINE,
    LEVEL,
    LINE,
    MODELS,
    NAMES,
    PATIENTS,
    RADIUS,
    RHOS,
    boundary_graph,
    boundary_points,
)
from paper._planes import keep
from paper._runs import Run, plus_minus
from paper._sketches import draw_balls, draw_kernel, draw_patients


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    return {
        "pairs": {"toy": 200}.get(size, 20_000),
        "draws": seeds or {"toy": 2}.get(size, 10),
        "n_boundary": {"toy": 150, "small": 500, "paper": 1_000}[size],
        "n_grid": {"toy": 20, "small": 80, "paper": 120}[size],
        "lam": 1.0,
        "rhos": RHOS,
    }


def run(run: Run) -> None:
    s = run.settings
    run.once("patients", lambda: {name: _patients(model) for name, model in MODELS.items()})
    for name, model in MODELS.items():
        run.once(f"pairs, {name}", lambda model=model: [_disagreement(model, s["pairs"], i) for i in range(s["draws"])])
    run.once("geodesic", lambda: _geodesic(s["n_boundary"]))
    for name in BOUNDARIES:
        run.once(f"balls, {name}", lambda name=name: {f"{rho:g}": _balls(s, name, rho) for rho in s["rhos"]})


def _patients(model: CurveModel) -> dict[str, Any]:
    """The model's answer for both patients, and its gradient: the explanation."""
    rows = np.array(list(PATIENTS.values()))
    gradient = model.gradient(rows)
    return {
        patient: {"probability": p, "gradient": g, "top": NAMES[int(np.abs(g).argmax())]}
        for patient, p, g in zip(PATIENTS, model.predict_proba(rows)[:, 1], gradient, strict=True)
    }


def _disagreement(model: CurveModel, n: int, seed: int) -> float:
    """The share of pairs of near rows with the same predicted class whose most important features differ."""
    rng = np.random.default_rng(seed)
    x1 = rng.uniform(0, 4, size=n)
    one = np.column_stack((x1, 1.5 + x1 / 2 + rng.uniform(-0.6, 0.6, size=n)))
    angle = rng.uniform(0, 2 * np.pi, size=n)
    other = one + 0.3 * np.column_stack((np.cos(angle), np.sin(angle)))
    same = model.predict(one) == model.predict(other)
    top = [np.abs(model.gradient(rows)).argmax(axis=1) for rows in (one, other)]
    return float((top[0] != top[1])[same].mean())


def _geodesic(n: int) -> dict[str, float]:
    """Between two boundary points: the way along the curve by the graph and in closed form, and the straight line."""
    points = boundary_points(COSINE, n)
    ends = [int(np.abs(points[:, 0] - x1).argmin()) for x1 in (1.0, 6.0)]
    graph = boundary_graph(COSINE, n)
    fine = BOUNDARIES[COSINE][0](2).model.boundary(np.linspace(*points[ends, 0], 200_001))
    return {
        "graph": graph.distances[ends[0], ends[1]],
        "curve": np.linalg.norm(np.diff(fine, axis=0), axis=1).sum(),
        "straight": np.linalg.norm(points[ends[1]] - points[ends[0]]),
    }


def _balls(s: dict[str, Any], name: str, rho: float) -> list[float]:
    """How much of the disc around it is similar to the row near a complex piece, and to the one near a plain piece."""
    kernel = WEG(s["lam"], rho).fit(boundary_graph(name, s["n_boundary"]))
    side = np.linspace(-RADIUS, RADIUS, s["n_grid"])
    disc = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    disc = disc[np.linalg.norm(disc, axis=1) <= RADIUS]
    shares = []
    for center in np.array(BOUNDARIES[name][2:]):
        around = center + disc
        around = around[around[:, 0] > 0] if name == COSINE else around  # where the paper has a boundary
        shares.append(float((kernel.cross(around, center[None]) >= LEVEL).mean()))
    return shares


def draw(run: Run) -> None:
    for name, make in (
        ("fig01_smoothness", draw_patients),
        ("fig03_kernel", draw_kernel),
        ("fig09_balls", draw_balls),
    ):
        figure = make(run)
        keep(run, figure, name)


def shrinks(shares: Any) -> bool:
    """Whether the ball near the complex piece gets smaller at each step of rho."""
    near = [share[0] for share in shares]
    return all(later < earlier for earlier, later in pairwise(near))


def smaller(shares: Any) -> list[int]:
    """At which values of rho the ball near the complex piece is the smaller one."""
    return [i for i, (near, plain) in enumerate(shares) if near < plain]


def report(run: Run) -> list[str]:
    s, v = run.settings, run.values
    tops = {name: [one["top"] for one in v["patients"][name].values()] for name in MODELS}
    pairs = {name: 100 * np.array(v[f"pairs, {name}"]) for name in MODELS}
    balls = {name: [v[f"balls, {name}"][f"{rho:g}"] for rho in s["rhos"]] for name in BOUNDARIES}
    way = v["geodesic"]
    shrinking = [name for name in BOUNDARIES if shrinks(balls[name])]
    return [
        "## Fig. 1: why does smoothness matter?",
        "",
        "**Question.** Two patients are alike and get the same prediction. Are they told the same story?",
        "",
        "**The paper** draws two patients whose most important feature, by the gradient, differs under a complex "
        "boundary and agrees under a smoothed one.",
        "",
        f"**We find** the same with a model in closed form. Complex: {tops['complex boundary'][0]} for A, "
        f"{tops['complex boundary'][1]} for B. Smoothed: {tops['smoothed boundary'][0]} for A, "
        f"{tops['smoothed boundary'][1]} for B. And not for these two alone: of {s['pairs']:,} random pairs of rows "
        f"at a distance of 0.3 with the same predicted class, {plus_minus(pairs['complex boundary'], 1)}% disagree "
        "about the most important feature under the complex boundary and "
        f"{plus_minus(pairs['smoothed boundary'], 1)}% under the smoothed one ({s['draws']} draws).",
        "",
        f"![Two patients under a complex and a smoothed boundary](figures/{run.size}/fig01_smoothness.png)",
        "",
        "**Does it hold?** "
        + (
            "Yes."
            if len(set(tops["complex boundary"])) > 1 and len(set(tops["smoothed boundary"])) == 1
            else "No: the two patients do not differ as the paper says."
        ),
        "",
        "## Fig. 3 and 9: does the kernel see complexity?",
        "",
        "**Question.** The WEG kernel calls two rows similar if the boundary near one is a short way along the "
        "boundary from that near the other. Are rows near a complex piece similar to fewer rows around them?",
        "",
        f"**The paper** draws the set of rows with similarity of at least {LEVEL:g}: small near complex pieces, large "
        "near plain ones, and smaller near complex pieces for larger rho.",
        "",
        f"**We find** (lambda {s['lam']:g}; share of the disc of radius {RADIUS:g} around a row that is similar to "
        "it, near a complex piece / near a plain piece; on the line both pieces are plain):",
        "",
        "| boundary | " + " | ".join(f"rho {one:g}" for one in s["rhos"]) + " |",
        "|---|" + "---|" * len(s["rhos"]),
        *(
            f"| {name} | " + " | ".join(f"{near:.1%} / {plain:.1%}" for near, plain in balls[name]) + " |"
            for name in BOUNDARIES
        ),
        "",
        f"The way along x2 = 2 cos(10 / x1) from x1 = 1 to 6 is {way['graph']:.2f} by the graph of "
        f"{s['n_boundary']:,} points, {way['curve']:.2f} in closed form; the straight line is {way['straight']:.2f}.",
        "",
        f"![Geodesic, similarity balls and weights](figures/{run.size}/fig03_kernel.png)",
        "",
        f"![Similarity balls for three boundaries and three values of rho](figures/{run.size}/fig09_balls.png)",
        "",
        "**Does it hold?** The ball near the wild piece of the cosine is the smaller one at "
        f"{_which(smaller(balls[COSINE]), s['rhos'])}"
        + (
            ". Where rho is smaller, a row looks at so much of the boundary that all rows near the wild piece see "
            "the same bundle of it and are alike"
            if 0 not in smaller(balls[COSINE])
            else ""
        )
        + f". At the corner it is the smaller one at {_which(smaller(balls[CORNER]), s['rhos'])}"
        + (
            ": all rows below a corner have the corner for their nearest boundary and are alike, so a bend outwards "
            "makes rows more similar, not less"
            if not smaller(balls[CORNER])
            else ""
        )
        + f". The ball near the complex piece shrinks with every step of rho for {_some(shrinking)}"
        + (
            "; as it does so on the straight line, too, that by itself is no sign of complexity."
            if LINE in shrinking
            else "."
        ),
    ]


def _which(places: list[int], rhos: Any) -> str:
    if not places:
        return "no rho"
    return "every rho" if len(places) == len(rhos) else "rho = " + " and ".join(f"{rhos[i]:g}" for i in places)


def _some(names: list[str]) -> str:
    return ", ".join(names) or "none"
