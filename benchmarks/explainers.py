"""Every explainer on 100 rows of Census: seconds, model rows, and what peers take."""

import time
import warnings

import numpy as np
import shap
from lime.lime_tabular import LimeTabularExplainer

from benchmarks import census
from gpec.explainers import (
    BayesLime,
    BayesShap,
    CXPlain,
    ExactShapley,
    KernelShap,
    Lime,
    ShapKernel,
    ShapleySampling,
    TreeShap,
)

ROWS = 100
PEER_ROWS = 5  # peers that go row by row are timed on a few and scaled


def ours(explainer, model, X, rows):
    """Seconds to get ready, seconds and model rows for ``rows``, and how much the variance is beside the values."""
    started = time.perf_counter()
    explainer.fit(model, X)
    ready = time.perf_counter() - started
    before = explainer.model_.n_rows
    started = time.perf_counter()
    answer = explainer(rows)
    seconds = time.perf_counter() - started
    noise = None if answer.variance is None else float(np.sqrt(answer.variance).mean())
    return {
        "ready": ready,
        "seconds": seconds,
        "model_rows": (explainer.model_.n_rows - before) / len(rows),
        "noise": noise,
        "size": float(np.abs(answer.values).mean()),
    }


def timed(function, scale):
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function()
    return (time.perf_counter() - started) * scale


def run():
    model, X = census.model_and_rows()
    model.set_params(n_jobs=1)
    rng = np.random.default_rng(0)
    rows = X[rng.permutation(len(X))[:ROWS]]
    background = X[rng.permutation(len(X))[:100]]
    explainers = {
        "tree": TreeShap(),
        "exact": ExactShapley(),
        "kernelshap": KernelShap(),
        "shapley_sampling": ShapleySampling(),
        "lime": Lime(),
        "bayeslime": BayesLime(),
        "bayesshap": BayesShap(),
        "cxplain": CXPlain(),
    }
    lines = {}
    for name, explainer in explainers.items():
        subset = rows[:10] if name == "exact" else rows
        line = ours(explainer, model, X, subset)
        line["seconds"] *= ROWS / len(subset)
        lines[name] = line
        print(name, line, flush=True)
    few = rows[:PEER_ROWS]
    shap_kernel = ShapKernel().fit(model, X, background=background)
    permutation = shap.explainers.Permutation(lambda Z: model.predict_proba(Z)[:, 1], background, seed=0)
    permutation(rows[:1], silent=True)  # compiles
    package = LimeTabularExplainer(X, discretize_continuous=False, random_state=0)
    peers = {
        "kernelshap": ("shap.KernelExplainer", timed(lambda: shap_kernel(few), ROWS / PEER_ROWS)),
        "shapley_sampling": (
            "shap.PermutationExplainer, its default 10 permutations",
            timed(lambda: permutation(rows[:20], silent=True), ROWS / 20),
        ),
        "lime": (
            "lime",
            timed(
                lambda: [package.explain_instance(row, model.predict_proba, num_features=12) for row in rows[:20]],
                ROWS / 20,
            ),
        ),
    }
    for name, (who, seconds) in peers.items():
        lines[name]["peer"], lines[name]["peer_seconds"] = who, seconds
        print(name, who, seconds, flush=True)
    return lines


ABOUT = {  # object, whether it is deterministic, where its variance comes from
    "tree": ("TreeShap", "yes", "none"),
    "exact": ("ExactShapley", "yes", "none"),
    "kernelshap": ("KernelShap", "where it can enumerate", "regression over pairs of coalitions"),
    "shapley_sampling": ("ShapleySampling", "no", "spread over antithetic pairs"),
    "lime": ("Lime", "no", "sandwich formula of the regression"),
    "bayeslime": ("BayesLime", "no", "posterior of the coefficients"),
    "bayesshap": ("BayesShap", "no", "posterior of the coefficients"),
    "cxplain": ("CXPlain", "after training", "bootstrap ensemble"),
}


def row(name, x):
    """One line of the table in docs/explainers.md."""
    kind, deterministic, source = ABOUT[name]
    ready = f" ({x['ready']:.1f} to train)" if x["ready"] > 1 else ""
    peer = f"{x['peer']}: {x['peer_seconds']:.1f} s" if "peer" in x else ""
    rows = "none: reads the trees" if name == "tree" else f"{x['model_rows']:,.0f}"
    return f'| `"{name}"` | `{kind}` | {deterministic} | {source} | {rows} | {x["seconds"]:.2f} s{ready} | {peer} |'


def report(lines):
    out = [
        "| method | model rows a row | s for 100 rows | mean standard deviation | mean size | peer | its s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, x in lines.items():
        noise = "" if x["noise"] is None else f"{x['noise']:.2g}"
        peer = f"{x['peer']} | {x['peer_seconds']:.1f}" if "peer" in x else " | "
        ready = f" (and {x['ready']:.1f} to get ready)" if x["ready"] > 1 else ""
        out.append(
            f"| `{name}` | {x['model_rows']:,.0f} | {x['seconds']:.2f}{ready} | {noise} | {x['size']:.3f} | {peer} |"
        )
    return out
