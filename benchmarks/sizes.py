"""How many rows to explain in fit, and how many boundary points: what more of them cost, and what they bring."""

import time

import numpy as np
import xgboost
from paper.data import census

import gpec
from gpec.metrics import coverage, rank_correlation
from gpec.runtime.blocks import one_blas_thread

EXPLAINED = (50, 100, 200, 400, 800)
BOUNDARY = (200, 500, 1_000, 2_000, 5_000)
USUAL = {"n_explained": 200, "n_boundary": 1_000}
CALIBRATION, TEST, CHECKED = 200, 300, 60  # rows; the similar rows of the last are explained, to know the truth


def run(seeds=(40, 41)):
    """Census, XGBoost with 100 trees of depth 4, TreeSHAP against 25 background rows."""
    found = {"n_explained": [], "n_boundary": []}
    for seed in seeds:
        with one_blas_thread():
            for name, sizes in (("n_explained", EXPLAINED), ("n_boundary", BOUNDARY)):
                found[name] += [one(seed, **{**USUAL, name: size}) for size in sizes]
    return {"seeds": list(seeds), **{name: mean(name, lines) for name, lines in found.items()}}


def one(seed, n_explained, n_boundary):
    """Seconds of processor time, and how good both kinds of interval are on rows not seen before."""
    data = census()
    X = np.asarray(data.X, dtype=float)
    _, first = np.unique(X, axis=0, return_index=True)  # so that no row is both explained in fit and tested
    order = np.random.default_rng(seed).permutation(first)
    fit, rest = X[order[:8_000]], X[order[8_000:]]
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=4, random_state=seed, n_jobs=1)
    model.fit(fit, np.asarray(data.y)[order[:8_000]])
    sizes = {"n_explained": n_explained, "n_boundary": n_boundary}
    g = gpec.GPEC(model, "tree", mode="predict", background=25, random_state=seed, progress=False, **sizes)
    started = time.process_time()
    g.fit(fit)
    seconds = time.process_time() - started
    g.calibrate(rest[:CALIBRATION])
    rows = rest[CALIBRATION : CALIBRATION + TEST]
    e, predicted = g.explain(rows), g.explain(rows, attribution="posterior")
    spread = e.values.std(axis=0)
    some = e[:CHECKED]
    nearby = g.explain(g.similar_rows(rows[:CHECKED])).values.reshape(CHECKED, -1, X.shape[1])
    change = np.sqrt(((nearby - some.values[:, None]) ** 2).mean(axis=1))
    lower, upper = (np.broadcast_to(bound[:, None], nearby.shape) for bound in some.interval())
    line = {
        **sizes,
        "seed": seed,
        "seconds": seconds,
        "similar_width": float((e.width / spread).mean()),
        "similar_coverage": coverage(nearby, lower, upper),
        "spearman": rank_correlation(some.width, change),
        "R2": float(1 - ((e.values - predicted.values) ** 2).sum() / (len(e) * spread**2).sum()),
        "value_width": float((predicted.width / spread).mean()),
    }
    print(line, flush=True)
    return line


def mean(name, lines):
    """One line for each size, the mean over seeds."""
    kept = [key for key in lines[0] if key != "seed"]
    sizes = sorted({line[name] for line in lines})
    groups = [[line for line in lines if line[name] == size] for size in sizes]
    return [{key: float(np.mean([line[key] for line in group])) for key in kept} for group in groups]


def row(name, x):
    """One line of a table, as it also stands in docs/sizes.md."""
    return (
        f"| {x[name]:,.0f} | {x['seconds']:.1f} s | {x['similar_width']:.2f} | {x['spearman']:.2f} | "
        f"{x['R2']:.2f} | {x['value_width']:.2f} |"
    )


def report(results):
    titles = {"n_explained": "explained rows", "n_boundary": "boundary points"}
    out = []
    for name, title in titles.items():
        other = {"n_explained": "n_boundary", "n_boundary": "n_explained"}[name]
        out += [
            f"**{title.capitalize()}**, with {USUAL[other]:,} {titles[other]}:",
            "",
            f"| {title} | `fit` | similar rows: width | similar rows: Spearman | value: R2 | value: width |",
            "|---|---|---|---|---|---|",
            *(row(name, x) for x in results[name]),
            "",
        ]
    covered = [x["similar_coverage"] for name in titles for x in results[name]]
    return [*out, f"Coverage of the 95% similar-row intervals was {min(covered):.1%} to {max(covered):.1%}."]
