"""What a row costs in microseconds of processor time, and how that grows: the constants of docs/scale.md."""

import time

import numpy as np
import xgboost
from scipy.special import expit, softmax

import gpec
from gpec.kernels import Matern, Output, Own, Rest
from paper import data as datasets

ROWS = {"posterior": 4_096, "explainer": 512}
BASE = {"d": 12, "c": 1, "N": 200}
CASES = [
    BASE,
    {**BASE, "N": 100},
    {**BASE, "N": 400},
    {**BASE, "N": 800},
    {**BASE, "d": 6},
    {**BASE, "d": 24},
    {**BASE, "c": 3},
]
EXPLAINED = 200
ON_CENSUS = [
    *((explainer, "income") for explainer in ("kernelshap", "tree", "bayeslime", "cxplain")),
    ("tree", "Hours per week"),
]


def fitted(d, c, N):
    """A fit with lengths that are given: learning them is a cost of ``fit``, not of a row."""
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((6_000, d)), rng.standard_normal((d, c if c > 1 else 1))
    kernel = Matern(Own(2.0), Rest(2.0), Output(2.0))

    def model(X):
        return expit(X @ W)[:, 0] if c == 1 else softmax(X @ W, axis=1)

    def slopes(X):
        values = np.asarray(X)[:, :, None] * W
        return values[:, :, 0] if c == 1 else values

    g = gpec.GPEC(model, slopes, kernel=kernel, n_boundary=500, n_explained=N, random_state=0, progress=False)
    return g.fit(X), X


def microseconds(g, X, attribution):
    rows = X[: ROWS[attribution]]
    best = np.inf
    for _ in range(3):
        started = time.process_time()
        g.explain(rows, attribution=attribution)
        best = min(best, time.process_time() - started)
    return best / len(rows) * 1e6


def census(explainer, target):
    """What a row of Census costs with this explainer, and what is predicted of its answers; seeds chose nothing."""
    data = datasets.census(**({} if target == "income" else {"target": target}))
    X = data.X.to_numpy(dtype=float)
    kind = xgboost.XGBClassifier if target == "income" else xgboost.XGBRegressor
    model = kind(n_estimators=100, max_depth=4, n_jobs=1, random_state=0).fit(X, data.y)
    X = X[np.random.default_rng(50).permutation(len(X))]
    started = time.process_time()
    g = gpec.GPEC(model, explainer, mode="predict", random_state=50, progress=False).fit(X[:8_000])
    found = {"explainer": explainer, "target": target, "fit": time.process_time() - started}
    rows = X[8_000 : 8_000 + EXPLAINED]
    e = g.explain(rows)
    found["explain"], found["similar"] = (e.diagnostics["seconds"][part] / len(rows) for part in ("explainer", "gp"))
    found["posterior"] = microseconds(g, X[8_000:], "posterior") / 1e6
    off = e.values - g.explain(rows, attribution="posterior").values
    found["R2"] = 1.0 - np.mean(off**2) / np.mean((e.values - e.values.mean(axis=0)) ** 2)
    return found


def run():
    found = {"rows": [], "census": []}
    for case in CASES:
        g, X = fitted(**case)
        line = {**case, **{kind: microseconds(g, X, kind) for kind in ROWS}}
        print(line, flush=True)
        found["rows"].append(line)
    for case in ON_CENSUS:
        found["census"].append(census(*case))
        print(found["census"][-1], flush=True)
    return found


def row(line):
    return f"| {line['N']} | {line['d']} | {line['c']} | {line['posterior']:.0f} | {line['explainer']:.0f} |"


def census_row(line):
    gained = line["explain"] - line["posterior"]
    times = f"{line['explain'] / line['posterior']:.0f} times" if gained > 0 else "slower"
    after = f"{float(format(line['fit'] / gained, '.2g')):,.0f} rows" if gained > 0 else "never"
    what = "income" if line["target"] == "income" else "hours (a regressor)"
    return (
        f"| `{line['explainer']}`, {what} | {line['fit']:.0f} s | {line['explain'] * 1e3:.2g} ms | "
        f"{line['similar'] * 1e3:.2g} ms | {line['posterior'] * 1e3:.2g} ms | {times} | {after} | {line['R2']:.0%} |"
    )


def report(x):
    return [
        "| explained rows N | features d | outputs c | predicted, us a row | intervals of similar rows, us a row |",
        "|---|---|---|---|---|",
        *(row(line) for line in x["rows"]),
        "",
        f"On Census, XGBoost with 100 trees on one thread, 100 background rows, 200 explained rows, {EXPLAINED} rows "
        "explained and 4,096 predicted, the model's time included. *R2*: share of the variance of the explainer's "
        "values that is predicted, all features together.",
        "",
        "| explainer, what is explained | `fit` | the explainer, a row | intervals of similar rows | predicted | "
        "faster by | earns the fit back after | R2 |",
        "|---|---|---|---|---|---|---|---|",
        *(census_row(line) for line in x["census"]),
    ]
