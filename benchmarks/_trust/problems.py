"""Tables, models and explainers: each problem is split into rows to fit, to calibrate and to test."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpec.explainers import Attribution, Explainer, KernelShap, TreeShap, make_explainer
from paper import data as datasets

TABLES = ("census", "shoppers", "german", "nhanes", "pima", "breast")
THREE_CLASSES = "california"
CASES = (*((table, kind) for table in TABLES for kind in ("trees", "network")), (THREE_CLASSES, "trees"))
REGRESSIONS = ("house values", "diabetes", "hours", "duration")
REGRESSION_CASES = tuple((table, kind) for table in REGRESSIONS for kind in ("trees", "network"))
CODES = {"house values": [8]}  # the text column, which has no order
MOST_ROWS = 8_000  # to train on and to fit
N_COALITIONS = 1_024
LEAST_CALIBRATION = 120
N_EXPLAINED = 200


@dataclass(frozen=True)
class Sizes:
    """Most rows of each part; each test row costs eleven explainer runs."""

    background: int
    calibration: int
    test: int


SIZES = {TreeShap: Sizes(25, 200, 150), KernelShap: Sizes(10, 150, 80)}


@dataclass(frozen=True, eq=False)
class Problem:
    """A trained model and rows: those of ``fit``, which it was trained on, and fresh ones."""

    model: Any
    explainer: Explainer
    fit: np.ndarray
    calibration: np.ndarray
    calibration_classes: np.ndarray
    test: np.ndarray
    background: np.ndarray
    categorical: list[int] | None = None  # columns of codes that are switched, never interpolated


def problem(table: str, kind: str, seed: int, explainer: Explainer | None = None) -> Problem:
    """One table, split and modelled with one seed; by default trees are explained exactly where that can be."""
    X, y = _regression_table(table) if table in REGRESSIONS else _table(table)
    if kind == "network":
        X = filled(X, X)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    # shap reads boosted trees of two classes only
    exact_trees = kind == "trees" and table != THREE_CLASSES
    if explainer is None:
        explainer = TreeShap() if exact_trees else KernelShap(n_samples=N_COALITIONS)
    sizes = SIZES[type(explainer)]
    n_calibration = min(sizes.calibration, max(LEAST_CALIBRATION, len(X) // 5))
    test, calibration, rest = np.split(order, [sizes.test, sizes.test + n_calibration])
    rest = rest[:MOST_ROWS]
    model = (_regressor if table in REGRESSIONS else _model)(kind, seed).fit(X[rest], y[rest])
    background = X[rng.choice(rest, sizes.background, replace=False)]
    return Problem(model, explainer, X[rest], X[calibration], y[calibration], X[test], background, CODES.get(table))


def filled(X: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Missing values replaced by the medians of ``like``."""
    return np.where(np.isnan(X), np.nanmedian(like, axis=0), X)


class Remembering(Explainer):
    """Another explainer that explains no row twice; ``known`` may be shared by several."""

    def __init__(self, explainer: Explainer, known: dict[int, Attribution]) -> None:
        self.explainer = explainer
        self.known = known

    def bind(self, model: Any, background: np.ndarray) -> None:
        super().bind(model, background)
        self.inner_ = make_explainer(self.explainer)
        self.inner_.bind(model, background)
        self.stochastic, self.unit = self.inner_.stochastic, self.inner_.unit
        self.rows_at_once, self.zero_where_equal = self.inner_.rows_at_once, self.inner_.zero_where_equal

    def model_rows(self, Z: np.ndarray) -> int | None:
        return self.inner_.model_rows(Z)

    def _explain(self, Z: np.ndarray, seeds: list[int]) -> Attribution:
        # a row's seed is made from its content
        new = [i for i, seed in enumerate(seeds) if seed not in self.known]
        if new:
            answer = self.inner_._explain(Z[new], [seeds[i] for i in new])
            for place, i in enumerate(new):
                self.known[seeds[i]] = answer.map(lambda array, place=place: array[place : place + 1])
        return Attribution.join([self.known[seed] for seed in seeds])


def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "breast":
        return load_breast_cancer(return_X_y=True)
    if name == THREE_CLASSES:
        data = datasets.california_housing()
        X = data.X.select_dtypes("number").to_numpy(dtype=float)
        whole = ~np.isnan(X).any(axis=1)
        return X[whole], np.digitize(data.y, np.quantile(data.y, [1 / 3, 2 / 3]))[whole]
    load = {
        "census": datasets.census,
        "shoppers": datasets.online_shoppers,
        "german": datasets.german_credit,
        "nhanes": lambda: datasets.nhanes_diabetes(leaky=False),
        "pima": datasets.pima,
    }
    data = load[name]()
    return data.X.to_numpy(dtype=float), data.y


def _regression_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    if name == "house values":
        data = datasets.california_housing()
        coast = data.X["ocean_proximity"].astype("category").cat.codes
        return data.X.assign(ocean_proximity=coast).to_numpy(dtype=float), data.y
    load = {
        "hours": lambda: datasets.census(target="Hours per week"),
        "duration": lambda: datasets.online_shoppers(target="ProductRelated_Duration"),
    }
    data = load[name]()
    return data.X.to_numpy(dtype=float), data.y


def _regressor(kind: str, seed: int) -> Any:
    if kind == "trees":
        return xgboost.XGBRegressor(n_estimators=100, max_depth=4, n_jobs=1, random_state=seed)
    network = MLPRegressor(hidden_layer_sizes=(32, 16), alpha=1e-3, max_iter=60, random_state=seed)
    return make_pipeline(StandardScaler(), TransformedTargetRegressor(network, transformer=StandardScaler()))


def _model(kind: str, seed: int) -> Any:
    if kind == "trees":
        return xgboost.XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1, random_state=seed)
    network = MLPClassifier((32, 16), alpha=1e-3, max_iter=60, random_state=seed)
    return make_pipeline(StandardScaler(), network)
