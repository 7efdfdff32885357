"""The case study of diabetes: people, model, BayesLIME, and what GPEC says of one fold."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import xgboost
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import gpec
from gpec.errors import SlowExplainerWarning
from gpec.explainers import BayesLime
from gpec.metrics import rank_correlation
from gpec.similar import NearestRows
from paper._planes import pack
from paper.data import nhanes_diabetes

__all__ = [
    "AGAIN", "BAR", "GROUPS", "MAIN", "PEOPLE", "SCALES", "SHOWN", "aurocs", "by_tertile", "one_fold", "people_data",
    "split", "tertile", "third",
]  # fmt: skip

MAIN = "3,329 people, as in the paper"
PEOPLE: dict[str, dict[str, Any]] = {
    MAIN: {"unknown": "negative"},
    "3,183 people whose diagnosis is known": {"unknown": "drop"},
    "the same, without serum osmolality": {"unknown": "drop", "leaky": False},
}
SHOWN = "standard units"
SCALES: dict[str, dict[str, Any]] = {
    "raw units": {"standardize": False},
    SHOWN: {"standardize": True},
    "standard units, scale learned": {"standardize": True, "output_scale": "evidence"},
}
_SODIUM = {"below 135": (-np.inf, 134.9), "135 to 145": (135.0, 145.0)}  # mmol/l; the second is the normal range
_STAYS = {"0 or 1": (0.0, 1.0), "2": (2.0, 2.0), "3 or 4": (3.0, 4.0)}
GROUPS = {"sodium": _SODIUM, "hospital_stays": _STAYS}
AGAIN = "change in a second run"
_FEW_MISSING = 0.002  # share below which missing values are filled with the median
BAR = 8  # features in the picture


@cache
def people_data(people: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Rows as numbers, diagnoses, and the names of the features."""
    data = nhanes_diabetes(**PEOPLE[people])
    X = data.X.to_numpy(dtype=float)
    for column in X.T:  # a hole that only test rows have would be news to the explainer
        missing = np.isnan(column)
        if missing.mean() < _FEW_MISSING:
            column[missing] = np.median(column[~missing])
    return X, data.y, list(data.feature_names)


def split(s: dict[str, Any], people: str, fold: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, each in random order; every person is a test row of one fold."""
    X, y, _ = people_data(people)
    folds = StratifiedKFold(s["folds"], shuffle=True, random_state=0).split(X, y)
    train, test = list(folds)[fold]
    rng = np.random.default_rng([fold, 7])
    return rng.permutation(train), rng.permutation(test)


def _model(s: dict[str, Any], people: str, train: np.ndarray) -> xgboost.XGBClassifier:
    """XGBoost with missing values as they are; the paper names no parameters."""
    X, y, _ = people_data(people)
    model = xgboost.XGBClassifier(
        n_estimators=s["trees"], learning_rate=0.1, max_depth=3, subsample=0.7, n_jobs=1, random_state=0
    )
    return model.fit(X[train], y[train])


def aurocs(s: dict[str, Any], people: str) -> list[float]:
    X, y, _ = people_data(people)
    found = []
    for fold in range(s["folds"]):
        train, test = split(s, people, fold)
        answer = _model(s, people, train).predict_proba(X[test])[:, 1]
        found.append(float(roc_auc_score(y[test], answer)))
    return found


def one_fold(s: dict[str, Any], fold: int) -> dict[str, Any]:
    """One fold: model, BayesLIME of the test rows, and what GPEC says of them on each scale."""
    X, y, names = people_data(MAIN)
    train, test = split(s, MAIN, fold)
    model = _model(s, MAIN, train)
    auroc = roc_auc_score(y[test], model.predict_proba(X[test])[:, 1])
    test = test[: s["most_test"]]
    pool, rows, query = X[train], X[train[: s["n_explained"]]], X[test]
    probability = model.predict_proba(query)[:, 1].astype(float)
    lime = BayesLime(s["n_samples"]).fit(model, pool, background=50, random_state=fold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowExplainerWarning)
        known, answer = lime(rows), lime(query)
        similar, again = _real_changes(s, lime, pool, query[: s["n_checked"]], answer.values)
    people = {
        "age (years)": query[:, names.index("age")],
        "have diabetes (share)": y[test],
        "predicted probability": probability,
        "log-odds away from the boundary": np.abs(np.log(probability / (1 - probability))),
        "wrongly predicted (share)": (probability >= 0.5) != y[test],
        "change among similar people": _whole(similar, len(test)),
        AGAIN: _whole(again, len(test)),
    }
    found: dict[str, Any] = {"AUROC": auroc, "importance": np.abs(answer.values).mean(axis=0), "n": len(test)}
    boundary: Any = "auto"
    for name in s["scales"]:
        g = gpec.GPEC(
            model, lime, boundary=boundary, n_boundary=s["n_boundary"], background=50, random_state=fold,
            progress=False, **{**gpec.PAPER, "lam": s["lam"], "rho": s["rho"], "noise": "auto", **SCALES[name]},
        )  # fmt: skip
        g.fit(pool, X_explained=rows, attributions=known.values, attribution_variance=known.variance)
        boundary = g.boundary_
        e = g.explain(query, attribution="posterior")
        said = e.std.mean(axis=1)
        found[name] = {
            "thirds": [float((third(said) == k).mean()) for k in range(3)],
            "spread between features": (e.std.std(axis=1) / said).mean(),
            "noise share": e.noise_variance.sum() / e.variance.sum(),
            "agreement": rank_correlation(e.std[: len(similar)], similar),
        }
        if name == SHOWN:
            found[name]["tertiles"] = by_tertile(said, people)
            found[name]["groups"] = {
                feature: _groups(query[:, j], answer.values[:, j], e.std[:, j], groups)
                for feature, groups in GROUPS.items()
                for j in [names.index(feature)]
            }
        if fold == 0 and name == SHOWN:
            found["picture"] = _picture(names, query, answer.values, e)
    return found


def _whole(changes: np.ndarray, n: int) -> np.ndarray:
    """Root mean square over features; NaN for people who were not checked."""
    return np.append(np.sqrt((changes**2).mean(axis=1)), np.full(n - len(changes), np.nan))


def _real_changes(s: dict[str, Any], lime: Any, pool: Any, query: Any, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """How far BayesLIME's answers move: half-way to the nearest people, and in a second run, ``(n, d)`` each."""
    schema, seed = lime.model_.schema, lime.seed_
    Z, values = schema.encode(query), values[: len(query)]
    near = NearestRows(s["n_similar"]).learn(schema, schema.encode(pool), seed).rows(Z)
    there = lime.explain(near.reshape(-1, Z.shape[1]), seed=seed).squeeze_single_output().values.reshape(near.shape)
    again = lime.explain(Z, seed=seed + 1).squeeze_single_output().values
    return np.sqrt(((there - values[:, None]) ** 2).mean(axis=1)), np.abs(again - values)


def third(said: np.ndarray) -> np.ndarray:
    """0, 1 or 2: the third of the range from the least to the greatest in which each lies."""
    low, high = said.min(), said.max()
    return np.minimum((3 * (said - low) / (high - low)).astype(int), 2)


def tertile(said: np.ndarray) -> np.ndarray:
    """0, 1 or 2, each as often as the others."""
    return 3 * np.argsort(np.argsort(said, kind="stable"), kind="stable") // len(said)


def by_tertile(said: np.ndarray, people: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """Means of what is known about the people in each tertile."""
    place = tertile(said)
    return {
        name: [float(np.nanmean(np.asarray(numbers, dtype=float)[place == k])) for k in range(3)]
        for name, numbers in people.items()
    }


def _groups(x: np.ndarray, values: np.ndarray, std: np.ndarray, groups: dict[str, Any]) -> dict[str, Any]:
    """Count, mean size of the attribution and mean uncertainty of those whose value lies within bounds."""
    found = {}
    for name, (low, high) in groups.items():
        some = (x >= low) & (x <= high)
        means = (np.abs(values[some]).mean(), std[some].mean()) if some.any() else (None, None)
        found[name] = {"n": int(some.sum()), "size": means[0], "uncertainty": means[1]}
    return found


def _picture(names: list[str], query: np.ndarray, values: np.ndarray, e: gpec.Explanation) -> dict[str, Any]:
    """What Fig. 7 shows, of the features with the largest attributions and those the paper speaks of."""
    order = [names[j] for j in np.argsort(-np.abs(values).mean(axis=0))]
    shown = list(dict.fromkeys([*order[:BAR], *GROUPS]))
    at = [names.index(name) for name in shown]
    parts = {"values": values, "variance": e.variance, "data": query}
    return {"features": shown, "said": pack(4 * e.std.mean(axis=1)), **{k: pack(v[:, at]) for k, v in parts.items()}}
