"""Do 300 boundary points serve as well as 2,000? The cases of ``benchmarks.trust``, on seeds of their own."""

import json

import numpy as np

import gpec
from benchmarks._trust.case import KnownTruth, flat, pooled_r2, rank
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import CASES, N_EXPLAINED
from gpec.metrics import interval_score

SEEDS = (72, 73)  # nothing was chosen on them
POINTS = ("auto", 2_000)
FIGURES = ("R2", "spearman", "score")


def run():
    kept = folder("boundary points")
    for seed in SEEDS:
        for table, kind in CASES:
            once(kept / f"{table}-{kind}-{seed}.json", case, table, kind, seed)
    return [json.loads(path.read_text()) for path in sorted(kept.glob("*.json"))]


def case(table, kind, seed):
    known = KnownTruth(table, kind, seed)
    return {"table": table, "kind": kind, "lines": [line(known, points) for points in POINTS]}


def line(known, points):
    """Quality of both promises on unseen rows, in units of each attribution's deviation."""
    p, truth = known.problem, known.truth
    settings = {"background": p.background, "random_state": known.seed, "progress": False, "n_explained": N_EXPLAINED}
    g = gpec.GPEC(p.model, known.explainer, n_boundary=points, mode="predict", **settings)
    with_categories = g.set_params(categorical_features=p.categorical or "auto")
    with_categories.fit(p.fit).calibrate(p.calibration)
    similar, value = g.explain(p.test), g.explain(p.test, attribution="posterior")
    some = truth.spread > 0
    y = (truth.values[:, None] + truth.changes)[:, :, some] / truth.spread[some]
    lower, upper = (
        np.broadcast_to((flat(end)[:, some] / truth.spread[some])[:, None], y.shape) for end in similar.interval()
    )
    return {
        "R2": pooled_r2(truth.values, flat(value.values)),
        "spearman": rank(flat(similar.width), truth.size),
        "score": interval_score(y.reshape(-1, some.sum()), *(end.reshape(-1, some.sum()) for end in (lower, upper))),
        "points": g.diagnostics_["boundary_points"],
        "rows": 0 if g.boundary_ is None else g.boundary_.n_model_rows,
    }


def report(found):
    lines = [
        "| points | R2 of the value | Spearman of similar rows | interval score | most model rows a class |",
        "|---|---|---|---|---|",
    ]
    for i, points in enumerate(POINTS):
        each = [one["lines"][i] for one in found]
        means = " | ".join(f"{np.mean([line[name] for line in each]):.3f}" for name in FIGURES)
        rows = max(line["rows"] / len(line["points"]) for line in each)
        lines.append(f"| {300 if points == 'auto' else points:,} | {means} | {rows:,.0f} |")
    gaps = {name: [one["lines"][0][name] - one["lines"][1][name] for one in found] for name in FIGURES}
    shown = "; ".join(
        f"{name} {np.mean(gap):+.4f} +- {np.std(gap, ddof=1) / np.sqrt(len(gap)):.4f}, largest {max(gap, key=abs):+.3f}"
        for name, gap in gaps.items()
    )
    return [*lines, "", f"300 less 2,000 points, over {len(found)} cases: {shown}."]
