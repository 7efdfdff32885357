"""Attributions that users have already: coverage of similar rows by brute force, with an explainer and without."""

import json

import numpy as np
import shap

import gpec
from benchmarks._trust.case import ROUNDING, flat, quietly, rank
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import problem
from gpec.explainers import TreeShap

TABLES = ("census", "shoppers", "german", "nhanes")
SEEDS = (92, 93)  # nothing was chosen on them
GROUPS = ("learned", "shown", "new")
GIVEN = 1_000  # rows with attributions, of which 500 are learned from


def run():
    for seed in SEEDS:
        for table in TABLES:
            once(folder("given") / f"{table}-{seed}.json", case, table, seed)
    return [json.loads(path.read_text()) for path in sorted(folder("given").glob("*.json"))]


def case(table, seed):
    p = problem(table, "trees", seed)
    rng = np.random.default_rng(seed)
    rows = p.fit[rng.permutation(len(p.fit))[:GIVEN]]
    explainer = TreeShap().fit(p.model, p.fit, background=p.background)  # the values of shap, in less time
    g = gpec.GPEC(p.model, TreeShap(), background=p.background, random_state=seed, progress=False)
    known = explainer(rows)
    g.fit(rows, attributions=shap.Explanation(known.values, known.base_values, rows))
    learned = {row.tobytes() for row in g.X_explained_}
    among = np.array([row.tobytes() in learned for row in rows])
    groups = dict(zip(GROUPS, (rows[among], rows[~among], p.test), strict=True))
    truth = {name: explainer(part).values for name, part in groups.items()}
    there = {name: explainer(g.similar_rows(part)).values for name, part in groups.items()}
    found = {"table": table, "seed": seed, "unit": g.diagnostics_["unit"], "groups": {}}
    found |= {"seconds": sum(g.diagnostics_["seconds"].values()), "given": len(rows)}
    for stage in ("without", "with"):
        if stage == "with":
            quietly(g.calibrate, p.calibration)
        for name, part in groups.items():
            e = g.explain(part, attributions=truth[name]) if name == "new" else g.explain(part)
            assert np.array_equal(e.values, truth[name])
            figures = measure(e, truth[name], there[name])
            found["groups"].setdefault(name, {})[stage] = figures | {"statement": e.statement()}
    return found


def measure(e, own, similar):
    """Coverage with its standard error over rows, and the rank correlation of width and change."""
    change = similar.reshape(len(own), -1, own.shape[1]) - own[:, None]
    change[np.abs(change) <= ROUNDING * np.abs(own).max()] = 0.0
    low, high = (e.lower - own)[:, None], (e.upper - own)[:, None]
    inside = ((low <= change) & (change <= high)).mean(axis=(1, 2))
    size = np.sqrt((change**2).mean(axis=1))
    error = inside.std() / np.sqrt(len(inside))
    return {"coverage": inside.mean(), "error": error, "rank": rank(flat(e.width), size), "n": len(own)}


def report(cases):
    about, shares = ["table", "seed", "unit found", "rows given", "fit, s"], ["learned from", "only shown", "new"]
    head = [*about, *shares, "not calibrated", "Spearman"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for c in cases:
        groups = c["groups"]
        cells = [c["table"], c["seed"], c["unit"], f"{c['given']:,}", f"{c['seconds']:.0f}"]
        cells += [f"**{_share(groups[name]['with'])}**" for name in GROUPS]
        cells += [_share(groups["shown"]["without"]), f"{groups['shown']['with']['rank']:.2f}"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    means = {
        stage: np.mean([c["groups"][name][stage]["coverage"] for c in cases for name in GROUPS])
        for stage in ("with", "without")
    }
    statements = {c["groups"]["shown"]["without"]["statement"] for c in cases}
    return [
        *lines,
        "",
        f"On average {means['with']:.1%} with an explainer to calibrate with, and {means['without']:.1%} without one, "
        f"where the statement is: {' / '.join(sorted(statements))}",
    ]


def _share(one):
    return f"{one['coverage']:.1%} +- {one['error']:.1%}"
