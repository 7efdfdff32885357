"""CXPlain: does it find the features that matter, and does its spread shrink with data?"""

import time

import numpy as np
import xgboost
from scipy.special import expit
from scipy.stats import spearmanr

from gpec.explainers.cxplain import CXPlain

WEIGHTS = (2.5, -2.0, 1.5, -1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0)
SIZES = (100, 300, 1_000)


def problem(seed):
    """Weights in random order, rows to train on and rows to explain."""
    rng = np.random.default_rng(seed)
    return rng.permutation(WEIGHTS), rng.normal(size=(2_000, len(WEIGHTS))), rng.normal(size=(500, len(WEIGHTS)))


def boosted(weights, X, seed):
    labels = np.random.default_rng(seed).random(len(X)) < expit(X @ weights)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=3, n_jobs=1, random_state=seed)
    return model.fit(X, labels)


def measure(model, weights, X, queries, seed):
    started = time.perf_counter()
    explainer = CXPlain().fit(model, X, random_state=seed)
    seconds = time.perf_counter() - started
    found = explainer(queries)
    rank = spearmanr(np.abs(found.values).mean(axis=0), np.abs(weights))[0]
    return {"rank": float(rank), "variance": float(found.variance.mean()), "seconds": seconds}


def run(seeds=5):
    known, trained = {str(n): [] for n in SIZES}, []
    for seed in range(seeds):
        weights, X, queries = problem(seed)
        for n in SIZES:
            known[str(n)].append(measure(lambda X, w=weights: expit(X @ w), weights, X[:n], queries, seed))
        trained.append(measure(boosted(weights, X, seed), weights, X[:1_000], queries, seed))
    return {"known": known, "trained": trained}


def report(x):
    perfect = spearmanr(np.arange(10), np.maximum(np.arange(10) - 4, 0))[0]
    lines = [
        "Ten normal features, logistic model with weights 2.5, -2, 1.5, -1, 0.5 and five zeros in random order, 500 "
        f"rows explained, {len(x['trained'])} seeds, 10 networks. *rank*: Spearman's correlation of mean |attribution| "
        f"with |weight|; the five zeros are tied, so a perfect order scores {perfect:.3f}. *variance*: the networks' "
        "variance, mean over rows and features.",
        "",
        "| model | training rows | rank: least | mean | variance | seconds |",
        "|---|---|---|---|---|---|",
    ]
    cases = [("the logistic function", n, runs) for n, runs in x["known"].items()]
    for name, n, runs in [*cases, ("XGBoost, trained on 2,000 noisy labels", "1000", x["trained"])]:
        ranks = [run["rank"] for run in runs]
        lines.append(
            f"| {name} | {int(n):,} | {min(ranks):.3f} | {np.mean(ranks):.3f} "
            f"| {np.mean([run['variance'] for run in runs]):.2e} | {np.mean([run['seconds'] for run in runs]):.1f} |"
        )
    return lines
