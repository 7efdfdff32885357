"""Small tables and models nobody tuned for: heavy tails, rare classes, ties, text, dates, missing values."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from extras import lightgbm, torch, xgboost


@dataclass(frozen=True)
class Case:
    """A table, a model of it, and its probabilities ``(n, c)`` as the model itself gives them."""

    X: pd.DataFrame
    model: Any
    ask: Callable[[pd.DataFrame], Any]

    @property
    def probabilities(self):
        """As gpec counts outputs: of two classes the last."""
        return lambda rows: self._outputs(np.asarray(self.ask(rows), dtype=np.float64))

    @staticmethod
    def _outputs(p):
        return p[:, 1:] if p.shape[1] == 2 else p


def frame(values, prefix="x"):
    return pd.DataFrame(values, columns=[f"{prefix}{j}" for j in range(values.shape[1])])


def case(X, model):
    return Case(X, model, model.predict_proba)


def wine():
    data = load_wine(as_frame=True)
    X = data.data.iloc[:, 5:11]
    return case(X, RandomForestClassifier(12, max_depth=4, random_state=0).fit(X, data.target))


def iris():
    data = load_iris(as_frame=True)
    return case(data.data, LogisticRegression(max_iter=2_000).fit(data.data, data.target_names[data.target]))


def breast_cancer():
    data = load_breast_cancer(as_frame=True)
    X = data.data.iloc[:, [1, 4, 8, 12, 21, 27]]
    return case(X, GradientBoostingClassifier(n_estimators=25, random_state=0).fit(X, data.target))


def digits():
    X, y = load_digits(return_X_y=True)
    X = frame(X[:, [10, 20, 21, 26, 36, 42, 43, 60]], "pixel ")
    return case(X, DecisionTreeClassifier(max_depth=7, random_state=0).fit(X, y >= 5))


def heavy_tails():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(600, 4))
    X = frame(np.column_stack((np.exp(3 * Z[:, 0]), Z[:, 1:])))
    y = Z[:, 0] + Z[:, 1] * Z[:, 2] > -0.9
    return case(X, GradientBoostingClassifier(n_estimators=30, max_depth=2, random_state=0).fit(X, y))


def cauchy():
    X = frame(np.random.default_rng(1).standard_cauchy(size=(500, 5)))
    y = X["x0"] + X["x1"] > 0.5 * X["x2"]
    return case(X, LogisticRegression(max_iter=10_000, C=0.1).fit(X, y))


def rare_class():
    X = frame(np.random.default_rng(2).normal(size=(4_000, 5)))
    y = X["x0"] + 0.5 * X["x1"] ** 2 + 0.5 * X["x2"] > 3.9
    assert 0.005 < y.mean() < 0.02
    return case(X, xgboost.XGBClassifier(n_estimators=25, max_depth=3, n_jobs=1, random_state=0).fit(X, y))


def ties():
    X = frame(np.random.default_rng(3).integers(0, 4, (400, 5)))
    y = (X["x0"] > X["x1"]) ^ (X["x2"] == 3)
    return case(X, DecisionTreeClassifier(min_samples_leaf=8, random_state=0).fit(X, y))


def text():
    rng = np.random.default_rng(4)
    n = 300
    X = pd.DataFrame(
        {
            "town": rng.choice(["Ulm", "Bonn", "Köln", "<b>"], n, p=[0.5, 0.3, 0.17, 0.03]),
            "member": rng.random(n) < 0.3,
            "age": rng.integers(18, 90, n),
            "plan": pd.Categorical(rng.choice(["small", "large"], n)),
            "spent": rng.lognormal(3, 1, n),
        }
    )
    y = (X["town"] == "Bonn") * 20.0 + X["member"] * 15.0 + X["age"] + 0.3 * X["spent"] > 65
    encode = ColumnTransformer(
        [("words", OneHotEncoder(), ["town", "member", "plan"]), ("numbers", StandardScaler(), ["age", "spent"])]
    )
    return case(X, make_pipeline(encode, LogisticRegression()).fit(X, y))


def missing():
    rng = np.random.default_rng(5)
    X = frame(rng.normal(size=(500, 5)))
    y = X["x0"] + X["x1"] * X["x2"] > 0.2
    X = X.mask(rng.random(X.shape) < [0.3, 0.1, 0.0, 0.05, 0.0])
    return case(X, HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X, y))


def dates_as_numbers(rows):
    days = (rows["joined"] - pd.Timestamp("2021-01-01")) / pd.Timedelta("365D")
    visits = rows["visits"].astype("Float64").fillna(3).to_numpy(dtype=np.float64)
    return np.column_stack((days, visits / 4, rows["score"], rows["paid"] / pd.Timedelta("10D")))


def dates():
    rng = np.random.default_rng(6)
    n = 300
    visits = pd.array(rng.integers(0, 9, n), dtype="Int64")
    visits[rng.random(n) < 0.15] = pd.NA
    X = pd.DataFrame(
        {
            "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "visits": visits,
            "score": rng.normal(size=n),
            "paid": pd.to_timedelta(rng.integers(1, 400, n), unit="h"),
        }
    )
    numbers = dates_as_numbers(X)
    model = make_pipeline(FunctionTransformer(dates_as_numbers), LogisticRegression())
    return case(X, model.fit(X, numbers.sum(axis=1) + rng.normal(size=n) > np.median(numbers.sum(axis=1))))


def categories():
    rng = np.random.default_rng(7)
    n = 600
    X = frame(rng.normal(size=(n, 3))).assign(
        kind=pd.Categorical(rng.choice(list("abcde"), n)), old=pd.Categorical(rng.choice(["yes", "no"], n))
    )
    y = X["x0"] + X["kind"].isin(["b", "d"]) * (X["old"] == "yes") * 2 > 0.8
    options = {"n_estimators": 20, "num_leaves": 7, "min_data_per_group": 10, "cat_smooth": 1.0, "n_jobs": 1}
    return case(X, lightgbm.LGBMClassifier(**options, verbose=-1, random_state=0).fit(X, y))


def network():
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)).double()
    torch.random.set_rng_state(torch_state)
    X = frame(np.random.default_rng(8).normal(size=(400, 4)) * 3)
    with torch.no_grad():  # so that every class is predicted somewhere
        model[2].bias -= model(torch.tensor(X.to_numpy())).mean(dim=0)
        model[2].bias *= 3.0
        model[2].weight *= 3.0

    def ask(rows):
        with torch.no_grad():
            return softmax(model(torch.tensor(rows.to_numpy(dtype=np.float64))).numpy(), axis=1)

    return Case(X, model, ask)


# Where "tree" applies: trees that add up to the probability, and trees that add up to log-odds.
TREES = {
    "wine": "forest",
    "breast_cancer": "boosted",
    "digits": "forest",
    "heavy_tails": "boosted",
    "rare_class": "boosted",
    "ties": "forest",
    "missing": "boosted",
    "categories": "boosted",
}
MAKERS = {
    maker.__name__: cache(maker)
    for maker in (
        wine,
        iris,
        breast_cancer,
        digits,
        heavy_tails,
        cauchy,
        rare_class,
        ties,
        text,
        missing,
        dates,
        categories,
        network,
    )
}
