"""The learned kernel at work: its search, the cost of similar-row intervals, refinement, and many rows from few."""

import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.neural_network import MLPClassifier

import gpec
from benchmarks import census
from gpec.explainers import KernelShap
from gpec.gp import learn_kernel
from gpec.kernels import WEG, Matern, Output, Own, Rest
from gpec.metrics import coverage
from gpec.runtime.blocks import Execution, one_blas_thread

SEEDS = (30, 31, 32)
MANY, SOME = 100_000, 2_000
TRUE_ROWS = 500  # of the many, explained to see how good the rest is


def run():
    return {
        "search": [search(20), search(100)],
        "cost": cost(),
        "refine": [refine(seed) for seed in SEEDS],
        "many": many_rows(),
    }


def _timed(function):
    """What it gives, and its seconds of processor time."""
    started = time.process_time()
    result = function()
    return result, time.process_time() - started


def search(d, n=500):
    """Seconds of one core to learn all lengths from ``n`` rows of ``d`` features."""
    X, y = make_classification(4_000, d, n_informative=d // 2, n_redundant=0, random_state=0)
    model = MLPClassifier((32,), max_iter=40, random_state=0).fit(X, y)
    settings = {"n_explained": n, "background": 10, "kernel": "rbf", "similar": None, "random_state": 0}
    g = gpec.GPEC(model, KernelShap(n_samples=1_024), progress=False, **settings).fit(X)
    kernel, Y = Matern(Own(), Rest(), Output(), WEG()), np.asarray(g.attributions_.values)
    rows = g._fitted.rows_for(g._fitted.observations.rows, kernel)
    kernel.fit(g.graph_, rows)
    with one_blas_thread():
        learned, seconds = _timed(lambda: learn_kernel(kernel, rows, Y, np.asarray(g.attributions_.variance)))
    line = {"features": d, "rows": n, "seconds": seconds, "off": learned.off_, "nats": learned.nats_}
    print(line, flush=True)
    return line


def cost(n=100):
    """Time of the similar-row interval beside KernelSHAP with its defaults."""
    model, X = census.model_and_rows()
    g = gpec.GPEC(model, "kernelshap", random_state=0, progress=False).fit(X[:8_000])
    rows = X[-n:]
    g.explain(rows[:5])
    seconds = [g.explain(rows).diagnostics["seconds"] for _ in range(3)]
    best = min(seconds, key=lambda one: one["gp"] / one["explainer"])
    line = {"rows": n, **best, "off": g.diagnostics_["kernel"][0]["off"]}
    print(line, flush=True)
    return line


def refine(seed, n=50, targets=100):
    """How much narrower the value's intervals of some rows become with chosen rows, and with random ones."""
    model, X = census.model_and_rows()
    X = X[np.random.default_rng(seed).permutation(len(X))[:8_000]]
    fit, new = X[:-targets], X[-targets:]
    settings = {"n_explained": 200, "background": 25, "random_state": seed, "progress": False}
    g = gpec.GPEC(model, "tree", mode="predict", **settings).fit(fit)
    rng = np.random.default_rng(seed)
    random_rows = g._fitted.pool[rng.permutation(len(g._fitted.pool))[:n]]
    before = _deviation(g, new)
    chance = _with_rows(g, random_rows)
    by_chance = _deviation(chance, new)
    truth = g.explain(new).values
    g.refine(new, n=n)
    chosen = _deviation(g, new)
    e = g.explain(new, attribution="posterior")
    line = {
        "seed": seed,
        "chosen": 1 - chosen / before,
        "random": 1 - by_chance / before,
        "coverage": coverage(truth, e.lower, e.upper),
        "among_targets": float(np.isin(g.refinement_.X[:, 0], new[:, 0]).mean()),
    }
    print(line, flush=True)
    return line


def _deviation(g, rows):
    """Mean deviation of the value, each feature in units of its spread."""
    e = g.explain(rows, attribution="posterior")
    scale = np.sqrt(np.asarray(g.posterior_.scale))
    return float((e.std / np.where(scale > 0, scale, np.inf)).mean())


def _with_rows(g, rows):
    from gpec.pipeline.refine import add_rows

    other = gpec.GPEC(g.model, **{k: v for k, v in g.get_params(deep=False).items() if k != "model"})
    other._keep(add_rows(g._fitted, rows, Execution()))
    other.diagnostics_ = g.diagnostics_
    return other


def many_rows():
    """Shapley values of 100,000 rows from 2,000 explained ones, beside KernelSHAP for all."""
    model, X = census.model_and_rows()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    calibration, pool = X[order[:300]], X[order[300:]]
    # Census has 32,561 rows: the many are drawn from it with small changes of the numbers
    many = pool[rng.integers(len(pool), size=MANY)] + 0.0
    many[:, 0] += rng.normal(size=MANY)
    lines = []
    for n in (200, 500, 1_000, SOME):
        g = gpec.GPEC(model, "kernelshap", n_explained=n, random_state=0, progress=False)
        _, fit = _timed(lambda g=g: g.fit(pool[:10_000]).calibrate(calibration))
        some = many[:TRUE_ROWS]
        truth, slow = _timed(lambda g=g, some=some: g.explain(some).values)
        few, fast = _timed(lambda g=g: g.explain(many[: 20 * TRUE_ROWS], attribution="posterior"))
        e = few[:TRUE_ROWS]
        spread = ((truth - truth.mean(axis=0)) ** 2).sum()
        lines.append(
            {
                "explained": n,
                "R2": 1 - ((truth - e.values) ** 2).sum() / spread,
                "coverage": coverage(truth, e.lower, e.upper),
                "width": float((e.width / truth.std(axis=0)).mean()),
                "fit_seconds": fit,
                "seconds_a_row": fast / len(few),
                "kernelshap_seconds_a_row": slow / len(some),
            }
        )
        print(lines[-1], flush=True)
    return lines


def report(results):
    out = [
        "**Search of the lengths**, 500 rows, one core:",
        "",
        "| features | seconds | switched off |",
        "|---|---|---|",
        *(f"| {x['features']} | {x['seconds']:.1f} | {', '.join(x['off']) or 'none'} |" for x in results["search"]),
        "",
        "**Similar-row intervals** beside KernelSHAP with its defaults, Census, XGBoost: "
        f"{results['cost']['gp'] / results['cost']['explainer']:.0%} more time "
        f"({results['cost']['gp']:.2f} s and {results['cost']['explainer']:.2f} s for {results['cost']['rows']} rows).",
        "",
        "**Refinement**: 50 further rows, chosen or random, and how much smaller the mean deviation of 100 rows "
        "becomes (Census, XGBoost, 200 explained rows before):",
        "",
        "| seed | chosen | random | ratio | of the chosen, among the 100 | coverage afterwards |",
        "|---|---|---|---|---|---|",
    ]
    out += [
        f"| {x['seed']} | {x['chosen']:.1%} | {x['random']:.1%} | {x['chosen'] / x['random']:.1f} | "
        f"{x['among_targets']:.0%} | {x['coverage']:.1%} |"
        for x in results["refine"]
    ]
    out += [
        "",
        f"**Many rows from few**: KernelSHAP values of {MANY:,} Census rows predicted from explained ones; seconds are "
        "of one core, and for all rows scaled up from 10,000 predicted and 500 explained ones.",
        "",
        "| explained rows | R2 | coverage | width | seconds to fit, calibrate | seconds for all | KernelSHAP for all "
        "| faster: inference, end to end |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for x in results["many"]:
        fast, slow = x["seconds_a_row"] * MANY, x["kernelshap_seconds_a_row"] * MANY
        out.append(
            f"| {x['explained']:,} | {x['R2']:.3f} | {x['coverage']:.1%} | {x['width']:.2f} | {x['fit_seconds']:.0f} | "
            f"{fast:.0f} | {slow:.0f} | {slow / fast:.0f}, {slow / (fast + x['fit_seconds']):.0f} |"
        )
    return out
