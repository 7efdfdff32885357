"""Many rows explained roughly, and within a budget: quality and model rows, beside all samples for 200 rows.

Each case is computed once and kept as a file of its own, so that a run that was interrupted goes on where it stopped.
"""

import json

import numpy as np

import gpec
from benchmarks._trust.case import KnownTruth, flat, pooled_r2, rank
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import CASES
from gpec.explainers import KernelShap
from gpec.metrics import coverage, interval_score

SEEDS = (80, 81)  # nothing was chosen on them
OLD = {"n_explained": 200, "fit_samples": "full"}


def run():
    for seed in SEEDS:
        for table, kind in CASES:
            _once(f"{table}-{kind}-{seed}", default, table, kind, seed)
    return collect()


def collect():
    return {"default": [json.loads(path.read_text()) for path in sorted(folder("rough").glob("*.json"))]}


def _once(name, function, *arguments):
    once(folder("rough") / f"{name}.json", function, *arguments)


class RoughCase(KnownTruth):
    """A problem whose truth is KernelSHAP with all samples."""

    def __init__(self, table, kind, seed):
        super().__init__(table, kind, seed, KernelShap())

    def fitted(self, **settings):
        p = self.problem
        common = {"background": p.background, "random_state": self.seed, "progress": False}
        g = gpec.GPEC(p.model, KernelShap(), mode="predict", categorical_features=p.categorical or "auto", **common)
        return g.set_params(**settings).fit(p.fit)

    def figures(self, g):
        """Of the posterior and of the intervals of similar rows, before and after calibration."""
        effort, rows = g.diagnostics_["effort"], g.diagnostics_["model_rows"]
        found = {"effort": effort, "model_rows": rows, "seconds": sum(g.diagnostics_["seconds"].values())}
        found["before"] = self._quality(g)
        g.calibrate(self.problem.calibration)
        return found | {"after": self._quality(g)}

    def _quality(self, g):
        truth, test = self.truth, self.problem.test
        similar, value = g.explain(test), g.explain(test, attribution="posterior")
        half = np.repeat(flat(similar.width)[:, None] / 2 + truth.rounding, truth.changes.shape[1], axis=1)
        low, high = flat(value.lower) - truth.rounding, flat(value.upper) + truth.rounding
        some = truth.spread > 0
        changes, unit = truth.changes[:, :, some], truth.spread[some]
        return {
            "R2": pooled_r2(truth.values, flat(value.values)),
            "Spearman": rank(flat(similar.width), truth.size),
            "score": float(interval_score(changes / unit, -half[:, :, some] / unit, half[:, :, some] / unit)),
            "score_value": float(
                interval_score(truth.values[:, some] / unit, low[:, some] / unit, high[:, some] / unit)
            ),
            "similar_rows": coverage(truth.changes, -half, half),
            "value": coverage(truth.values, low, high),
        }


def default(table, kind, seed):
    case = RoughCase(table, kind, seed)
    line = {"table": table, "kind": kind, "seed": seed}
    for name, settings in {"old": OLD, "new": {}}.items():
        line[name] = case.figures(case.fitted(**settings))
    return line
