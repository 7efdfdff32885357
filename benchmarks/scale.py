"""What a row costs in microseconds of processor time, and how that grows: the constants of docs/scale.md."""

import time

import numpy as np
from scipy.special import expit, softmax

import gpec
from gpec.kernels import Matern, Output, Own, Rest

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


def run():
    found = []
    for case in CASES:
        g, X = fitted(**case)
        line = {**case, **{kind: microseconds(g, X, kind) for kind in ROWS}}
        print(line, flush=True)
        found.append(line)
    return found


def row(line):
    return f"| {line['N']} | {line['d']} | {line['c']} | {line['posterior']:.0f} | {line['explainer']:.0f} |"


def report(x):
    return [
        "| explained rows N | features d | outputs c | predicted, us a row | intervals of similar rows, us a row |",
        "|---|---|---|---|---|",
        *(row(line) for line in x),
    ]
