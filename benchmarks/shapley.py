"""Shapley values: error, claimed variance and speed beside shap's explainers, against exact enumeration."""

import time
import warnings
from itertools import pairwise

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import census
from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.shapley import ExactShapley, ShapleySampling

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import shap

COALITIONS = (50, 100, 200, 400)
PERMUTATIONS = (100, 400, 1_600, 6_400)
PASSES = (1, 2, 4, 8)  # of shap's PermutationExplainer, each there and back


class Setting:
    """Rows to explain, of the census model with 100 background rows.

    With ``ties=False`` the rows are moved up by less than a step of the data, all of which are whole numbers: the trees
    answer as before, so the Shapley values are the same, but no feature agrees with a background row any more.
    """

    def __init__(self, n, ties, seed=0):
        self.model, X = census.model_and_rows()
        self.model.set_params(n_jobs=1)
        order = np.random.default_rng(seed).permutation(len(X))
        self.X, self.background, self.rows = X, X[order[:100]], X[order[100 : 100 + n]]
        self.exact = self.fit(ExactShapley())(self.rows).values
        if not ties:
            moved = self.rows + np.random.default_rng(seed).uniform(0.01, 0.02, self.rows.shape)
            assert (self.predict(moved) == self.predict(self.rows)).all()
            self.rows = moved
        self.n_rows = 0

    def predict(self, rows):
        return self.model.predict_proba(rows)[:, 1]

    def counted(self, rows):
        self.n_rows += len(rows)
        return self.predict(rows)

    def fit(self, explainer):
        return explainer.fit(self.model, self.X, background=self.background)

    def ours(self, explainer, seeds):
        """Values and variances ``(seeds, n, d)``, and model rows for each explained row."""
        self.fit(explainer)
        before = explainer.model_.n_rows
        runs = [explainer.explain(self.rows, seed=seed).squeeze_single_output() for seed in range(seeds)]
        rows = (explainer.model_.n_rows - before) / (seeds * len(self.rows))
        return np.stack([run.values for run in runs]), np.stack([run.variance for run in runs]), rows

    def theirs(self, explain, seeds):
        """Values ``(seeds, n, d)`` of a shap explainer, and model rows for each explained row."""
        before, runs = self.n_rows, []
        for seed in range(seeds):
            np.random.seed(seed)
            runs.append(explain(self.rows))
        return np.stack(runs), (self.n_rows - before) / (seeds * len(self.rows))

    def squared_error(self, values):
        """Mean squared error of each seed."""
        return ((values - self.exact) ** 2).mean(axis=(1, 2))


def root(errors):
    return float(np.sqrt(errors.mean()))


def variances(setting, seeds):
    """Claimed variance as a multiple of the variance from seed to seed; error against the budget."""
    found = []
    for explainer in [*map(KernelShap, COALITIONS), *map(ShapleySampling, PERMUTATIONS)]:
        values, variance, rows = setting.ours(explainer, seeds)
        actual = values.var(axis=0, ddof=1)
        found.append(
            {
                "explainer": repr(explainer),
                "rows": rows,
                "rmse": root(setting.squared_error(values)),
                "ratio": float(variance.mean() / actual.mean()),
                "each": [float(r) for r in variance.mean(axis=(0, 2)) / actual.mean(axis=1)],
            }
        )
        print(found[-1], flush=True)
    return found


def compared(name, setting, mine, theirs, seeds):
    values, _, rows = setting.ours(mine, seeds)
    other, other_rows = setting.theirs(theirs, seeds)
    a, b = setting.squared_error(values), setting.squared_error(other)
    difference = (a.mean() - b.mean()) / np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / seeds)
    found = {"name": name, "rows": rows, "their_rows": other_rows, "rmse": root(a), "their_rmse": root(b)}
    print({**found, "difference": difference}, flush=True)
    return {**found, "difference": float(difference)}


def against_shap(setting, seeds):
    """At equal numbers of model rows; the difference of mean squared errors in standard errors."""
    found = []
    kernel = shap.KernelExplainer(setting.counted, setting.background)
    for n in COALITIONS:

        def explain(rows, n=n):
            return kernel.shap_values(rows, nsamples=n, l1_reg=False, silent=True)

        found.append(compared(f"KernelShap({n})", setting, KernelShap(n), explain, seeds))
    masker = shap.maskers.Independent(setting.background)
    d = setting.rows.shape[1]
    for passes in PASSES:
        permutation = shap.PermutationExplainer(setting.counted, masker)

        def explain(rows, permutation=permutation, passes=passes):
            return permutation(rows, max_evals=passes * (2 * d + 1), silent=True).values

        cost = setting.theirs(explain, 1)[1]
        n = int(cost / (d - 1))
        found.append(compared(f"ShapleySampling({n})", setting, ShapleySampling(n), explain, seeds))
    return found


def timed(function, repeats):
    seconds, answer = [], None
    for seed in range(repeats):
        np.random.seed(seed)
        started = time.perf_counter()
        answer = function()
        seconds.append(time.perf_counter() - started)
    return min(seconds), answer


def speed(setting, repeats):
    """Seconds a row, best of some repetitions."""
    n = len(setting.rows)
    kernel = shap.KernelExplainer(setting.predict, setting.background)
    seconds, values = timed(lambda: kernel.shap_values(setting.rows, l1_reg=False, silent=True), repeats)
    found = [
        {"name": "shap.KernelExplainer", "seconds": seconds / n, "rmse": root(setting.squared_error(values[None]))}
    ]
    ours = [*map(KernelShap, ("auto", *COALITIONS)), ShapleySampling()]
    for explainer in ours:
        setting.fit(explainer)
        seconds, answer = timed(lambda explainer=explainer: explainer(setting.rows), repeats)
        error = root(setting.squared_error(answer.values[None]))
        found.append({"name": repr(explainer), "seconds": seconds / n, "rmse": error})
    print(*found, sep="\n", flush=True)
    return found


def run(n=3, seeds=200, pairs=50, repeats=3):
    found = {"n": n, "seeds": seeds, "pairs": pairs}
    with threadpool_limits(1):
        for name, ties in (("census", True), ("without ties", False)):
            found[name] = {
                "speed": speed(Setting(10, ties), repeats),
                "against": against_shap(Setting(n, ties), pairs),
                "variance": variances(Setting(n, ties), seeds),
            }
    return found


def _falls(found):
    """How the error falls with the model rows, from each budget to the next, while there is an error."""
    texts = []
    for kind in ("KernelShap", "ShapleySampling"):
        points = [(v["rows"], v["rmse"]) for v in found if v["explainer"].startswith(kind) and v["rmse"] > 0]
        powers = [np.log(b[1] / a[1]) / np.log(b[0] / a[0]) for a, b in pairwise(points)]
        texts.append(f"{kind} {', '.join(f'{power:.2f}' for power in powers)}")
    return f"The error falls with the model rows to the power of: {'; '.join(texts)} (at most -0.5 is wanted)."


def report(x):
    lines = [
        f"Census, XGBoost on one thread, 12 features, 100 background rows, the truth by enumeration. {x['n']} rows "
        f"(10 for the speed); {x['pairs']} seeds beside shap, {x['seeds']} seeds for the variance. *without ties*: the "
        "same rows moved up by a hundredth, so that the model answers the same but no feature equals one of the "
        "background and nothing can be shared. *rmse*: root mean squared error of a value, in units of probability.",
    ]
    for name in ("census", "without ties"):
        part = x[name]
        lines += ["", f"**{name}**", "", "| explainer | seconds a row | rmse | times faster |", "|---|---|---|---|"]
        slow = part["speed"][0]["seconds"]
        lines += [
            f"| {s['name']} | {s['seconds']:.4f} | {s['rmse']:.2g} | {slow / s['seconds']:.1f} |" for s in part["speed"]
        ]
        lines += ["", "| explainer | model rows | rmse | shap's rows | shap's rmse | difference / standard error |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [
            f"| {c['name']} | {c['rows']:,.0f} | {c['rmse']:.2g} | {c['their_rows']:,.0f} | {c['their_rmse']:.2g} | "
            f"{c['difference']:.1f} |"
            for c in part["against"]
        ]
        lines += [
            "",
            "| explainer | model rows | rmse | claimed / actual variance | of each row |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {v['explainer']} | {v['rows']:,.0f} | {v['rmse']:.2g} | {v['ratio']:.2f} | "
            f"{', '.join(f'{r:.2f}' for r in v['each'])} |"
            for v in part["variance"]
        ]
        lines += ["", _falls(part["variance"])]
    return lines
