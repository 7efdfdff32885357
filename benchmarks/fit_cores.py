"""``fit`` on one core and on both, stage by stage; the bits are the same."""

import time

import numpy as np
import xgboost
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpec
from paper import data as datasets

ROUNDS, ROWS, SEED = 3, 8_000, 60
STAGES = ("boundary", "explainer", "geometry", "kernel", "gp", "calibration")


def models():
    """Classifiers and a regressor of Census, one thread each, and the rows."""
    income, hours = datasets.census(), datasets.census(target="Hours per week")
    trees = {"n_estimators": 100, "max_depth": 4, "n_jobs": 1, "random_state": 0}
    network = make_pipeline(StandardScaler(), MLPClassifier((32, 16), max_iter=60, random_state=0))
    for name, data, model, explainer in (
        ("XGBoost, KernelSHAP", income, xgboost.XGBClassifier(**trees), "kernelshap"),
        ("network, KernelSHAP", income, network, "kernelshap"),
        ("XGBoost, TreeSHAP", income, xgboost.XGBClassifier(**trees), "tree"),
        ("XGBoost regressor, KernelSHAP", hours, xgboost.XGBRegressor(**trees), "kernelshap"),
    ):
        X = data.X.to_numpy(dtype=float)
        yield name, model.fit(X, data.y), explainer, X[np.random.default_rng(SEED).permutation(len(X))[:ROWS]]


def fit(model, explainer, X, n_jobs, n_explained=200):
    how = {"mode": "predict", "n_boundary": 5_000, "n_explained": n_explained, "random_state": SEED, "progress": False}
    g = gpec.GPEC(model, explainer, n_jobs=n_jobs, **how)
    started = time.perf_counter()
    g.fit(X)
    return g, time.perf_counter() - started


def run():
    found = []
    for name, model, explainer, X in models():
        fit(model, explainer, X[:500], 2)  # what is compiled or imported is here
        rounds = [[fit(model, explainer, X, n_jobs) for n_jobs in (1, 2)] for _ in range(ROUNDS)]
        for (one, _), (two, _) in rounds:
            np.testing.assert_array_equal(one.attributions_.values, two.attributions_.values)
            few = (g.explain(X[:20], attribution="posterior") for g in (one, two))
            np.testing.assert_array_equal(*(e.upper for e in few))
        line = {"name": name}
        for i, n_jobs in enumerate((1, 2)):
            g, seconds = min((pair[i] for pair in rounds), key=lambda pair: pair[1])
            line[str(n_jobs)] = {"all": seconds, **g.diagnostics_["seconds"]}
        print(line, flush=True)
        found.append(line)
    return found


def report(x):
    def cell(line, stage):
        return f"{line['1'][stage]:.2f} / {line['2'][stage]:.2f}"

    return [
        f"| | all | {' | '.join(STAGES)} | times faster |",
        f"|---|---|{'---|' * len(STAGES)}---|",
        *(
            f"| {line['name']} | {' | '.join(cell(line, stage) for stage in ('all', *STAGES))} | "
            f"**{line['1']['all'] / line['2']['all']:.2f}** |"
            for line in x
        ),
    ]
