"""The playground's data sets with two features, and models trained on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from gpec.datasets import absolute_boundary, cosine_boundary, linear_boundary
from gpec.errors import InputError
from gpec.runtime.randomness import derived_seed, stream
from gpec.typing import FloatArray, IntArray

FORMULA = "formula"
MODELS = {
    FORMULA: "The curve itself",
    "trees": "Boosted trees",
    "forest": "Random forest",
    "network": "Neural network",
    "svm": "Support vector machine",
}
DATASETS = {
    "line": "A straight line",
    "angle": "Two lines that meet",
    "sine": "A sine wave",
    "cosine": "The paper's wild cosine",
    "circle": "A circle",
    "moons": "Two moons",
    "iris": "Iris flowers",
    "cancer": "Breast cancer",
    "wine": "Wines",
}
REGULARISATION = (0.0, 4.0)  # from none to strong
_ROWS = 240
_SEED = 0
_REACH = 10.0  # range of the rows of a formula


class ScoreClassifier:
    """A classifier from a score that is 0 on the boundary: ``p(x) = sigmoid(score(x))``."""

    classes_ = np.array([0, 1])

    def __init__(self, score: Callable[[FloatArray], FloatArray]) -> None:
        self.score = score

    def predict_proba(self, X: Any) -> FloatArray:
        score = self.score(np.asarray(X, dtype=np.float64))
        return np.column_stack((expit(-score), expit(score)))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with two features and their classes; ``score`` is the formula of the boundary, if there is one."""

    X: FloatArray
    y: IntArray
    names: tuple[str, str]
    positive: str  # name of class 1
    score: Callable[[FloatArray], FloatArray] | None = None

    def axes(self, n: int) -> tuple[FloatArray, FloatArray]:
        """``n`` evenly spaced values of each feature over the range of the rows."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        first, second = (np.linspace(low[j], high[j], n) for j in (0, 1))
        return first, second


@lru_cache(maxsize=16)
def load_dataset(name: str) -> Dataset:
    """The data set with this key of :data:`DATASETS`."""
    if name in _TABLES:
        return _table(*_TABLES[name])
    if name == "moons":
        X, y = make_moons(_ROWS, noise=0.2, random_state=derived_seed(_SEED, "playground rows"))
        return Dataset(X, y.astype(np.int64), ("x1", "x2"), "the lower moon")
    X, score = stream(_SEED, "playground rows").uniform(-_REACH, _REACH, size=(_ROWS, 2)), _SCORES[name]
    return Dataset(X, (score(X) > 0).astype(np.int64), ("x1", "x2"), "inside" if name == "circle" else "above", score)


def _above(curve: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    return lambda X: np.asarray(X[:, 1] - curve(X[:, 0]))


_SCORES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "line": _above(linear_boundary(2).model.curve),
    "angle": _above(absolute_boundary(2).model.curve),
    "sine": _above(lambda x: np.asarray(4.0 * np.sin(0.6 * x))),
    "cosine": _above(cosine_boundary(2).model.curve),
    "circle": lambda X: np.asarray(6.0 - np.hypot(X[:, 0], X[:, 1])),
}
# scikit-learn's tables: the loader, two columns, the class of interest and its name.
_TABLES: dict[str, tuple[Callable[..., Any], tuple[str, str], int, str]] = {
    "iris": (load_iris, ("petal length (cm)", "petal width (cm)"), 1, "versicolor"),
    "cancer": (load_breast_cancer, ("mean radius", "mean texture"), 0, "malignant"),
    "wine": (load_wine, ("alcohol", "flavanoids"), 1, "the second grower"),
}


def _table(loader: Callable[..., Any], names: tuple[str, str], positive: int, word: str) -> Dataset:
    table = loader(as_frame=True)
    X = table.data[list(names)].to_numpy(dtype=np.float64)
    y = (table.target == positive).to_numpy(dtype=np.int64)
    rows = stream(_SEED, "playground rows").permutation(len(X))[:_ROWS]
    return Dataset(X[rows], y[rows], names, word)


def train(dataset: Dataset, kind: str, regularisation: float) -> Any:
    """A model of the data set; the higher ``regularisation``, the smoother it is."""
    if kind == FORMULA:
        score = dataset.score
        if score is None:
            raise InputError("A table has no formula; choose one of the other models.")
        return ScoreClassifier(lambda X: np.asarray(score(X) * 2.0 ** (1.0 - regularisation)))
    seed = derived_seed(_SEED, "playground models")
    leaf = round(2.0 ** (1.3 * regularisation))  # 1 to 37 rows
    alpha, C = 10 ** (regularisation - 3), 10 ** (2 - 0.75 * regularisation)
    model = {
        "trees": GradientBoostingClassifier(n_estimators=60, max_depth=3, min_samples_leaf=leaf, random_state=seed),
        "forest": RandomForestClassifier(n_estimators=25, min_samples_leaf=leaf, random_state=seed),
        "network": make_pipeline(
            StandardScaler(), MLPClassifier((16, 16), solver="lbfgs", alpha=alpha, max_iter=200, random_state=seed)
        ),
        "svm": make_pipeline(StandardScaler(), SVC(C=C)),
    }[kind]
    with warnings.catch_warnings():  # a network need not converge here
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(dataset.X, dataset.y)
    return ScoreClassifier(lambda X: np.asarray(2.0 * model.decision_function(X))) if kind == "svm" else model
