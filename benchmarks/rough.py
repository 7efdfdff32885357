"""Many rows explained roughly, and within a budget: quality and model rows, beside all samples for 200 rows.

Each case is computed once and kept as a file of its own, so that a run that was interrupted goes on where it stopped.
"""

import json
import re

import numpy as np
import shap
from sklearn.ensemble import BaggingClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpec
from benchmarks._trust.case import KnownTruth, changes_inside, flat, pooled_r2, rank
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import CASES, problem
from gpec.explainers import KernelShap
from gpec.metrics import coverage, interval_score

SEEDS = (80, 81)  # nothing was chosen on them
ALL_SAMPLES = {"n_explained": 200, "fit_samples": "full"}
GRID_CASES = (
    ("census", "network"),
    ("census", "trees"),
    ("shoppers", "network"),
    ("german", "network"),
    ("nhanes", "trees"),
    ("breast", "network"),
)
COALITIONS, SAMPLES = (3_000, 12_000), (100, 200, 400)
TABLES = ("census", "shoppers", "german", "nhanes")
MANY, TRUE_ROWS, ENOUGH = 2_000, 150, 0.9
SLOW = {
    "Gaussian process": lambda: GaussianProcessClassifier(4.0 * RBF(4.0), optimizer=None),
    "50 networks": lambda: BaggingClassifier(MLPClassifier((16,), max_iter=60), 50, random_state=0),
}


def run():
    for seed in SEEDS:
        for table, kind in GRID_CASES:
            _once("grid", grid, table, kind, seed)
        for table, kind in CASES:
            _once("default", default, table, kind, seed)
        if seed == SEEDS[0]:
            for name in (*TABLES, *SLOW):
                _once("many", many_rows, name)
    return collect()


def collect():
    def read(part):
        return [json.loads(path.read_text()) for path in sorted((folder("rough") / part).glob("*.json"))]

    return {part: read(part) for part in ("default", "grid", "many")}


def _once(part, function, *arguments):
    once(folder("rough") / part / f"{'-'.join(map(str, arguments))}.json", function, *arguments)


class RoughCase(KnownTruth):
    """A problem whose truth is KernelSHAP with all samples."""

    def __init__(self, table, kind, seed):
        super().__init__(table, kind, seed, KernelShap())

    def fitted(self, **settings):
        p = self.problem
        common = {"background": p.background, "random_state": self.seed, "progress": False}
        g = gpec.GPEC(p.model, KernelShap(), mode="predict", categorical_features=p.categorical or "auto", **common)
        return g.set_params(**settings).fit(p.fit)

    def quality(self, g):
        truth, test = self.truth, self.problem.test
        similar, value = g.explain(test), g.explain(test, attribution="posterior")
        below, above = changes_inside(truth, similar)
        low, high = flat(value.lower) - truth.rounding, flat(value.upper) + truth.rounding
        some = truth.spread > 0
        changes, unit = truth.changes[:, :, some], truth.spread[some]
        return {
            "R2": pooled_r2(truth.values, flat(value.values)),
            "Spearman": rank(flat(similar.width), truth.size),
            "score": float(interval_score(changes / unit, below[:, :, some] / unit, above[:, :, some] / unit)),
            "similar_rows": coverage(truth.changes, below, above),
            "value": coverage(truth.values, low, high),
        }


def default(table, kind, seed):
    """A default fit beside one that takes all samples for 200 rows, both calibrated on the same rows."""
    case = RoughCase(table, kind, seed)
    line = {"table": table, "kind": kind, "seed": seed}
    for name, settings in {"all samples": ALL_SAMPLES, "default": {}}.items():
        g = case.fitted(**settings)
        about = {"effort": g.diagnostics_["effort"], "model_rows": g.diagnostics_["model_rows"]}
        about["seconds"] = sum(g.diagnostics_["seconds"].values())
        line[name] = about | case.quality(g.calibrate(case.problem.calibration))
    return line


def grid(table, kind, seed):
    """Samples x rows at the same number of coalitions, and what a budget of twice as many chooses."""
    case = RoughCase(table, kind, seed)
    line = {"table": table, "kind": kind, "seed": seed, "budgets": []}
    for coalitions in COALITIONS:
        try:
            g = case.fitted(budget=2 * coalitions * len(case.problem.background))
        except gpec.errors.BudgetError as error:  # 19 rows to calibrate need more
            g = case.fitted(budget=int(1.05 * int(re.search("about ([0-9,]+)", str(error))[1].replace(",", ""))))
        effort, d = g.diagnostics_["effort"], case.problem.fit.shape[1]
        own = 2 * d + 512 if effort["samples"] == "full" else effort["samples"]
        least = min(effort["expected_variance"], default=own)
        total, found = own * effort["rows"], {}
        for n in sorted({least, *(n for n in SAMPLES if n > least), own}):
            rows = total // n
            other = case.fitted(n_explained=rows, fit_samples=n)
            found[n] = {"rows": rows, "R2": case.quality(other)["R2"]}
        spent = g.diagnostics_["spent"]
        chosen = {
            "samples": own,
            "before": case.quality(g),
            "after": case.quality(g.calibrate(case.problem.calibration)),
        }
        line["budgets"].append(
            {"coalitions": coalitions, "chosen": chosen, "grid": found, "spent": [spent, g.diagnostics_["spent"]]}
        )
    return line


class Counted:
    def __init__(self, model):
        self.model, self.n = model, 0

    def __call__(self, rows):
        self.n += len(rows)
        return self.model.predict_proba(rows)[:, 1]


def many_rows(name):
    """Model rows for an R2 of 0.9 on many rows, beside shap's permutation explainer with its defaults."""
    seed = SEEDS[0]
    p = problem("german" if name in SLOW else name, "network", seed, KernelShap())
    X, model = np.concatenate([p.fit, p.calibration, p.test]), p.model
    if name in SLOW:
        labels = p.model.predict(p.fit[:500])
        model = make_pipeline(StandardScaler(), SLOW[name]()).fit(p.fit[:500], labels)
    counted, rng = Counted(model), np.random.default_rng(seed)
    new = X[rng.integers(len(X), size=MANY)]
    some, background = new[:TRUE_ROWS], p.fit[rng.permutation(len(p.fit))[:100]]
    truth = KernelShap().fit(counted, p.fit, background=background, random_state=1)(some).values
    counted.n = 0
    shap.PermutationExplainer(counted, background, seed=seed)(some[:10])
    permutation = counted.n / 10 * MANY
    for budget in (25_000 * 2**k for k in range(12)):
        counted.n = 0
        g = gpec.GPEC(counted, "kernelshap", budget=budget, background=background, random_state=seed, progress=False)
        try:
            g.fit(p.fit, targets=new)
        except gpec.errors.BudgetError:
            continue
        e = g.explain(new, attribution="posterior")
        r2 = pooled_r2(flat(truth), flat(e.values)[:TRUE_ROWS])
        print(name, budget, counted.n, r2, flush=True)
        if r2 >= ENOUGH:
            break
    effort = g.diagnostics_["effort"]
    return {
        "name": name,
        "features": X.shape[1],
        "R2": r2,
        "ours": counted.n,
        "permutation": permutation,
        "effort": effort,
    }


def report(results):
    out = [
        f"**Default fits**: 200 rows with all samples, and the default; {_seeds(results['default'])}, calibrated on "
        "the same rows. *Rows*: model rows of `fit`, default over all samples. *Score*: interval score of similar "
        "rows, in standard deviations of each attribution; lower is better.",
        "",
        "| table, model | samples x rows | rows | R2 | Spearman | score | similar rows inside | values inside |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines = results["default"]
    for key in dict.fromkeys((x["table"], x["kind"]) for x in lines):
        some = [x for x in lines if (x["table"], x["kind"]) == key]
        ratio = np.mean([x["default"]["model_rows"] / x["all samples"]["model_rows"] for x in some])
        efforts = ", ".join(f"{x['default']['effort']['samples']} x {x['default']['effort']['rows']}" for x in some)
        out.append(
            f"| {', '.join(key)} | {efforts} | {ratio:.2f} | {_both(some, 'R2')} | {_both(some, 'Spearman')} | "
            f"{_both(some, 'score')} | {_both(some, 'similar_rows')} | {_both(some, 'value')} |"
        )
    changes = {n: [x["default"][n] - x["all samples"][n] for x in lines] for n in ("R2", "Spearman")}
    worse = sum(any(changes[n][i] < -0.02 for n in changes) for i in range(len(lines)))
    out += [
        "",
        f"Of {len(lines)} fits, {worse} lost more than 0.02 in R2 or Spearman.",
        "",
        "**Samples x rows at the same number of coalitions** (R2 of values; the pilot's choice in bold, within a "
        "budget of twice as many model rows, of which half calibrate, or of what the error asked for):",
        "",
        "| table, model, coalitions | R2 by samples | best - pilot's | similar rows inside | values inside |",
        "|---|---|---|---|---|",
    ]
    gaps = []
    for x in results["grid"]:
        for b in x["budgets"]:
            own = b["grid"][str(b["chosen"]["samples"])]["R2"]
            gaps.append(max(each["R2"] for each in b["grid"].values()) - own)
            cells = "; ".join(
                f"{'**' if int(n) == b['chosen']['samples'] else ''}{n} x {each['rows']}: {each['R2']:.3f}"
                f"{'**' if int(n) == b['chosen']['samples'] else ''}"
                for n, each in b["grid"].items()
            )
            after = b["chosen"]["after"]
            out.append(
                f"| {x['table']}, {x['kind']}, {b['coalitions']:,}, seed {x['seed']} | {cells} | {gaps[-1]:.3f} | "
                f"{after['similar_rows']:.1%} | {after['value']:.1%} |"
            )
    out += ["", f"Within 0.01 of the best: {sum(gap <= 0.01 for gap in gaps)} of {len(gaps)} cells."]
    for i, coalitions in enumerate(COALITIONS):
        held = {n: [x["budgets"][i]["chosen"]["after"][n] for x in results["grid"]] for n in ("similar_rows", "value")}
        means = [f"{np.mean(v):.1%} +- {np.std(v) / np.sqrt(len(v)):.1%}" for v in held.values()]
        out.append(f"Coverage with {coalitions:,} coalitions: similar rows {means[0]}, values {means[1]}.")
    out += [
        "",
        f"**Model rows for an R2 of {ENOUGH} on {MANY:,} rows** (checked on {TRUE_ROWS}), all of them predicted from a "
        "`fit` with these as targets and a budget, doubled until it was enough; beside shap's `PermutationExplainer` "
        "with its defaults for these rows. 100 background rows.",
        "",
        "| table or model | features | samples x rows | model rows | R2 | PermutationExplainer | share |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {x['name']} | {x['features']} | {x['effort']['samples']} x {x['effort']['rows']} | {x['ours']:,} | "
            f"{x['R2']:.3f} | {x['permutation']:,.0f} | {x['ours'] / x['permutation']:.2%} |"
            for x in results["many"]
        ),
    ]
    return out


def _seeds(lines):
    found = sorted({x["seed"] for x in lines})
    return f"mean of the seeds {found}" if len(found) > 1 else f"seed {found[0]}"


def _both(lines, name):
    before, now = (np.mean([x[which][name] for x in lines]) for which in ("all samples", "default"))
    if name in ("similar_rows", "value"):
        return f"{before:.1%} -> {now:.1%}"
    return f"{before:.3f} -> {now:.3f}"
