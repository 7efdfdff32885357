"""KernelSHAP beside the estimators of shapiq and shap at equal numbers of model rows, and whether its variance is true.

It needs shapiq 1.8, so Python 3.12 or newer. ``python -m benchmarks coalitions`` measures and writes RESULTS.md.
"""

import time
import warnings
from dataclasses import dataclass
from math import comb

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.shapley import ExactShapley
from gpec.explainers.tree import TreeShap

BUDGETS = (200, 500, 1_000, 2_000)  # coalitions with each background row, and 4 d
EXACT = 1e-12  # an error below it is rounding
LONG_RUN = 16, 2_000  # runs and coalitions of each for the truth, where there is no other way


def _fit(explainer, predict, background):
    return explainer.fit(predict, background, background=background, model_output="value")


@dataclass
class Problem:
    """Rows to explain, of a model against background rows, and their Shapley values (None: found by enumeration)."""

    name: str
    predict: object  # rows to (n,)
    rows: np.ndarray
    background: np.ndarray
    exact: np.ndarray | None = None
    n_rows: int = 0

    def __post_init__(self):
        if self.exact is None:
            if self.d <= 14:
                self.exact = _fit(ExactShapley(), self.predict, self.background)(self.rows).values
            else:
                runs, n_samples = LONG_RUN
                self.exact = np.mean([ours(self, n_samples, seed)[0] for seed in range(1_000, 1_000 + runs)], axis=0)

    @property
    def d(self):
        return self.rows.shape[1]

    @property
    def budgets(self):
        return sorted({4 * self.d, *(n for n in BUDGETS if 4 * self.d < n < 2**self.d - 2)})

    def counted(self, rows):
        self.n_rows += len(rows)
        return self.predict(rows)

    def value(self, x):
        """The game of ``x``: coalitions ``(s, d)`` to values ``(s,)``."""

        def play(masks):
            masked = np.where(np.asarray(masks, dtype=bool)[:, None], x, self.background)
            return self.counted(masked.reshape(-1, self.d)).reshape(len(masks), -1).mean(axis=1)

        return play


def _regression(n, d, rng):
    """Smooth and stepwise effects of half of the features, alone, in pairs and in threes."""
    X = rng.normal(size=(n, d))
    y = 0.1 * rng.normal(size=n)
    for order in (1, 1, 2, 3):
        for _ in range(d // 4):
            some = rng.choice(d // 2, order, replace=False)
            steps = rng.random() < 0.5
            y += rng.normal() * np.prod(np.tanh(3 * X[:, some]) if steps else X[:, some], axis=1)
    return X, y


def _threes(d, rng):
    """A function of products of up to three features, and its Shapley values by their terms."""
    terms = [(rng.choice(d, order, replace=False), rng.normal()) for order in (1, 2, 3) for _ in range(d)]

    def predict(rows):
        return sum(weight * rows[:, some].prod(axis=1) for some, weight in terms)

    def exact(rows, background):
        values = np.zeros(rows.shape)
        for some, weight in terms:
            part = _fit(ExactShapley(), lambda u, w=weight: w * u.prod(axis=1), background[:, some])
            values[:, some] += part(rows[:, some]).values
        return values

    return predict, exact


def problems(seed, n):
    """Models against one background row and against several; ``n`` explained rows each."""
    rng = np.random.default_rng(seed)
    for name, load in (("forest", load_breast_cancer), ("network", load_wine)):
        X, y = load(return_X_y=True)
        X, order = StandardScaler().fit_transform(X), rng.permutation(len(X))
        if name == "forest":
            model = RandomForestClassifier(50, random_state=seed).fit(X, y)
        else:
            model = MLPClassifier(hidden_layer_sizes=(32, 16), max_iter=500, random_state=seed).fit(X, y == 1)

        def predict(rows, model=model):
            return model.predict_proba(rows)[:, 1]

        for B in (1, 20):
            rows, background = X[order[:n]], X[order[-B:]]
            exact = TreeShap().fit(model, X, background=background)(rows).values if name == "forest" else None
            yield Problem(f"{name}, {X.shape[1]} features", predict, rows, background, exact)
    for d in (12, 20, 40, 60):
        X, y = _regression(2_000, d, rng)
        model = GradientBoostingRegressor(n_estimators=100, max_depth=4, random_state=seed).fit(X, y)
        for B in (1, 20):
            exact = TreeShap().fit(model, X, background=X[-B:])(X[:n]).values
            yield Problem(f"boosted trees, {d} features", model.predict, X[:n], X[-B:], exact)
    X, y = _regression(2_000, 30, rng)
    model = MLPRegressor(hidden_layer_sizes=(64, 32), max_iter=60, alpha=1.0, random_state=seed).fit(X, y)
    for B in (1, 20):
        yield Problem("network, 30 features", model.predict, X[:n], X[-B:])
    for d in (16, 50):
        predict, exact = _threes(d, rng)
        X = rng.normal(size=(n + 20, d))
        for B in (1, 20):
            yield Problem(f"products of three, {d} features", predict, X[:n], X[-B:], exact(X[:n], X[-B:]))


def ours(problem, n_samples, seed):
    """Values and variances ``(n, d)``."""
    explainer = _fit(KernelShap(n_samples), problem.counted, problem.background)
    problem.n_rows = 0
    found = explainer.explain(problem.rows, seed=seed).squeeze_single_output()
    return found.values, found.variance


def peers(d, budget):
    """Functions of game and seed to its values ``(d,)``, by name; each also plays the empty and the full coalition."""
    import shapiq.approximator as approximator

    def of(make):
        def values(game, seed):
            return make(seed).approximate(budget + 2, game).get_n_order_values(1)

        return values

    found = {
        "KernelSHAP": of(lambda seed: approximator.KernelSHAP(d, pairing_trick=True, random_state=seed)),
        "LeverageSHAP": of(lambda seed: approximator.LeverageSHAP(d, random_state=seed)),
        "OddSHAP": of(lambda seed: approximator.OddSHAP(d, random_state=seed)),
    }
    orders = [k for k in (2, 3) if sum(comb(d, j) for j in range(k + 1)) <= budget / 2]
    size = {"max_order": orders[-1]} if orders else {"max_order": 2, "max_terms": max(d + 1, budget // 2)}
    found["PolySHAP"] = of(lambda seed: approximator.PolySHAP(d, **size, pairing_trick=True, random_state=seed))
    return found


def by_shap(problem, budget, seed):
    import shap

    np.random.seed(seed)
    explainer = shap.KernelExplainer(problem.counted, problem.background)
    problem.n_rows = 0
    return explainer.shap_values(problem.rows, nsamples=budget, l1_reg=False, silent=True)


def _root(errors):
    return float(np.sqrt(np.mean(np.square(errors))))


def compare(problem, budget, seeds):
    """Root mean squared error and model rows of each estimator, with the variance that ours claims and has."""
    d, scale = problem.d, len(problem.rows) * len(problem.background)
    cell = {"problem": problem.name, "background": len(problem.background), "budget": budget, "rows": {}, "rmse": {}}

    def note(name, values, counted, started):
        cell["rows"][name] = counted / scale
        cell["rmse"][name] = _root(np.stack(values) - problem.exact)
        cell.setdefault("seconds", {})[name] = (time.perf_counter() - started) / (len(values) * len(problem.rows))

    started = time.perf_counter()
    runs = [ours(problem, budget, seed) for seed in range(max(seeds))]
    values, variance = (np.stack(part) for part in zip(*runs, strict=True))
    note("gpec", values, problem.n_rows, started)
    cell["variance"] = [float(variance.mean()), float(values.var(axis=0, ddof=1).mean())]
    started = time.perf_counter()
    note("shap", [by_shap(problem, budget, seed) for seed in range(seeds[0])], problem.n_rows, started)
    for name, explain in peers(d, budget).items():
        problem.n_rows, started = 0, time.perf_counter()
        found = [
            [explain(problem.value(x), 1_000 * seed + i) for i, x in enumerate(problem.rows)]
            for seed in range(seeds[0])
        ]
        note(name, found, problem.n_rows / seeds[0], started)
    return cell


def run(seed=0, n=2, seeds=(2, 12)):
    """``seeds``: runs of the peers and of ours, whose variance needs more of them."""
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem in problems(seed, n):
            for budget in problem.budgets:
                found.append(compare(problem, budget, seeds))
                print(found[-1], flush=True)
    return found


def report(cells):
    names = [name for name in cells[0]["rmse"] if name != "gpec"]
    lines = [
        f"| model | background rows | coalitions | gpec | {' | '.join(names)} | claimed / actual variance |",
        f"|---|---|---|---|{'---|' * len(names)}---|",
    ]
    for x in cells:
        least = min(x["rmse"].values())
        each = [f"{e:.2g}" if e > least else f"**{e:.2g}**" for e in (x["rmse"][name] for name in ("gpec", *names))]
        claimed, actual = x["variance"]
        line = [x["problem"], str(x["background"]), f"{x['budget']:,}", *each, f"{claimed / actual:.2f}"]
        lines.append(f"| {' | '.join(line)} |")
    lines.append("")
    for B in sorted({x["background"] for x in cells}):
        some = [x for x in cells if x["background"] == B]
        best = [min(x["rmse"][name] for name in names) for x in some]
        won = sum(x["rmse"]["gpec"] < max(least, EXACT) for x, least in zip(some, best, strict=True))
        factor = np.median([least / x["rmse"]["gpec"] for x, least in zip(some, best, strict=True)])
        ratio = np.mean([x["variance"][0] / x["variance"][1] for x in some if x["rmse"]["gpec"] > EXACT])
        rows = max(x["rows"]["gpec"] / min(x["rows"][name] for name in names) for x in some)
        lines.append(
            f"- {B} background {'row' if B == 1 else 'rows'}: gpec has the least error in {won} of {len(some)} cells "
            f"({won / len(some):.0%}); the best other error is {factor:.2f} times its error in the median; "
            f"claimed over actual variance is {ratio:.2f} on average where it is not exact; "
            f"it used at most {rows:.3f} times the model rows."
        )
    return lines
