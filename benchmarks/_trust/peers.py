"""What other methods say of the same rows, in any unit: only its order within a feature is compared."""

from typing import Any

import numpy as np

import gpec
from benchmarks._trust.case import Case, KnownTruth, flat, rank
from gpec.explainers import BayesLime, BayesShap, CXPlain, make_explainer

ROWS = 60
BOOTSTRAPS = 10

# What is said of each attribution, and the error of the method's own value; None where it has none.
Said = tuple[np.ndarray, np.ndarray | None]


def peers(case: Case) -> dict[str, dict[str, float]]:
    """By method, Spearman's correlation with the actual change, and with the error of its own value if it has one."""
    rows, truth = case.problem.test[:ROWS], case.truth.values[:ROWS]
    size = case.truth.size[:ROWS]
    said: dict[str, Said] = {
        "gpec": (flat(case.similar.width)[:ROWS], None),
        "gpec, deviation of the value": (flat(case.value.std)[:ROWS], np.abs(truth - flat(case.value.values)[:ROWS])),
        "closeness to p = 0.5": (_closeness(case, rows), None),
    }
    for name, method in METHODS.items():
        with case.clock(name):
            said[name] = method(case, rows)
    return {
        name: {
            kind: None if actual is None else rank(what, actual)
            for kind, actual in (("change", size), ("error", error))
        }
        for name, (what, error) in said.items()
    }


def paper(case: Case, rows: np.ndarray) -> Said:
    """The paper's variance, and the error of the posterior mean."""
    return _of_values(case, rows, case.refit(**gpec.PAPER).explain(rows, attribution="posterior"))


def weg(case: Case, rows: np.ndarray) -> Said:
    """The paper's kernel with scale and nugget learned."""
    return _of_values(case, rows, case.with_kernel("weg")[: len(rows)])


def _of_values(case: Case, rows: np.ndarray, e: gpec.Explanation) -> Said:
    return flat(e.std), np.abs(flat(case.alone(rows).values) - flat(e.values))


def bayes_shap(case: Case, rows: np.ndarray) -> Said:
    """Deviation of BayesSHAP, and how far its value is from the Shapley value."""
    answer = _fitted(case, BayesShap())(rows)
    return np.sqrt(flat(answer.variance)), np.abs(flat(answer.values) - flat(case.alone(rows).values))


def bayes_lime(case: Case, rows: np.ndarray) -> Said:
    return np.sqrt(flat(_fitted(case, BayesLime())(rows).variance)), None


def cxplain(case: Case, rows: np.ndarray) -> Said:
    """Deviation over the networks."""
    return np.sqrt(flat(_fitted(case, CXPlain())(rows).variance)), None


def bootstrap(case: Case, rows: np.ndarray) -> Said:
    """Deviation of the explainer's values over backgrounds drawn anew with replacement."""
    p, rng, runs = case.problem, np.random.default_rng(case.seed), []
    for _ in range(BOOTSTRAPS):
        background = p.background[rng.integers(len(p.background), size=len(p.background))]
        explainer = make_explainer(p.explainer).fit(p.model, p.fit, background=background, random_state=case.seed)
        runs.append(flat(explainer(rows).values))
    return np.std(runs, axis=0), None


def _fitted(case: Case, explainer: Any) -> Any:
    p = case.problem
    return explainer.fit(p.model, p.fit, background=p.background, random_state=case.seed)


def _closeness(case: Case, rows: np.ndarray) -> np.ndarray:
    """For several classes, of each class against the others."""
    p = case.problem.model.predict_proba(rows)
    p = p[:, 1:] if p.shape[1] == 2 else p
    return flat(np.repeat(-np.abs(p - 0.5)[:, None], rows.shape[1], axis=1))


METHODS = {
    "the paper's variance": paper,
    "the paper's kernel, scale learned": weg,
    "BayesSHAP": bayes_shap,
    "BayesLIME": bayes_lime,
    "CXPlain": cxplain,
    "bootstrap of the background": bootstrap,
}


def calibrated_explanations(case: KnownTruth) -> dict[str, float | None]:
    """The same of ``calibrated-explanations``: the width of the interval of each weight of ``explain_factual``.

    It takes two classes and no missing values.
    """
    p = case.problem
    if np.isnan(p.fit).any() or len(p.model.classes_) > 2:
        return {"change": None, "error": None}
    from calibrated_explanations import WrapCalibratedExplainer

    wrapped = WrapCalibratedExplainer(p.model)
    wrapped.calibrate(p.calibration, p.calibration_classes, mode="classification")
    weights = [one.feature_weights for one in wrapped.explain_factual(p.test[:ROWS])]
    low, high = (np.array([one[name] for one in weights], dtype=float) for name in ("low", "high"))
    return {"change": rank(high - low, case.truth.size[:ROWS]), "error": None}
