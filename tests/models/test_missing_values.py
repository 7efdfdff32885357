"""Missing values reach the model as the user gave them; a model that cannot take them says so in words."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import BATCH, checked, rows
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from extras import catboost, lightgbm, xgboost
from gpec.errors import ModelCallError, ModelOutputError


def table(n: int = 200, *, text: bool) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    X["kind"] = rng.choice(["u", "v", "w"], n)
    X["kind"] = X["kind"].astype(object) if text else X["kind"].astype("category")
    X.loc[::5, "a"] = np.nan
    X.loc[3::7, "kind"] = None if text else np.nan
    return X


def target(X):
    return ((X["a"].fillna(0.3) > 0) ^ (X["kind"] == "u")).astype(int)


@pytest.mark.parametrize(
    "build",
    [
        lambda: HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype"),
        lambda: xgboost.XGBClassifier(n_estimators=5, n_jobs=1, enable_categorical=True),
        lambda: lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1),
    ],
    ids=["histograms", "xgboost", "lightgbm"],
)
def test_trees_that_take_missing_values(build):
    X = table(text=False)
    classifier = build().fit(X, target(X))
    model, Z = checked(classifier, X)
    np.testing.assert_array_equal(model.probabilities(Z), classifier.predict_proba(X)[:, 1:].astype(float))
    assert len(np.unique(model.probabilities(Z[np.isnan(Z[:, 0])]))) > 1


def test_catboost_takes_missing_numbers():
    X = table(text=True).assign(kind=lambda frame: frame["kind"].fillna("none"))
    classifier = catboost.CatBoostClassifier(iterations=5, verbose=0, thread_count=1, allow_writing_files=False)
    classifier.fit(X, target(X), cat_features=["kind"])
    model, Z = checked(classifier, X)
    np.testing.assert_array_equal(model.probabilities(Z), classifier.predict_proba(X)[:, 1:])


def test_a_pipeline_that_imputes():
    X = table(text=True)
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), (SimpleImputer(), ["a", "b"]))
    pipeline = make_pipeline(columns, LogisticRegression()).fit(X, target(X))
    model, Z = checked(pipeline, X)
    np.testing.assert_array_equal(model.probabilities(Z), pipeline.predict_proba(X)[:, 1:])


def test_the_model_gets_what_the_user_has():
    X, seen = table(text=True), []

    def predict(frame):
        seen.append(frame.copy())
        return np.full(len(frame), 0.5)

    model, Z = checked(predict, X)
    model.labels(Z)  # and missing values do not count as changes
    pd.testing.assert_frame_equal(seen[0], X)
    assert [value for value in seen[0]["kind"] if pd.isna(value)] == [None] * 29


def test_a_model_that_raises_on_missing_values():
    X = rows(60)
    machine = LogisticRegression().fit(X, X[:, 0] > 0)
    X[7, 2] = np.nan
    model, Z = checked(machine, X)
    with pytest.raises(ModelCallError, match="NaN") as caught:
        model.labels(Z)
    assert "The rows contain missing values (as in row 7, column 'x2'), which the model may not" in str(caught.value)
    with pytest.raises(ModelCallError, match="is expecting 3 features") as other:
        model.labels(Z[:5, :1])  # raises for another reason
    assert "missing values" not in str(other.value)


def test_a_model_that_answers_missing_values_with_nan():
    X = rows(BATCH + 10)
    X[BATCH + 2, 0] = np.nan
    model, Z = checked(lambda rows: expit(rows[:, 0]), X)
    with pytest.raises(ModelOutputError, match=rf"nan on call 2, row {BATCH + 2}, which has missing values: impute"):
        model.labels(Z)


@pytest.mark.parametrize("kind", ["array", "objects", "frame"])
def test_a_model_that_fills_the_rows_it_was_given_is_noticed(kind):
    if kind == "frame":
        X = table(text=True)
    else:
        X = np.array([[1.0, "u"], [np.nan, "v"], [2.0, None]], dtype=object) if kind == "objects" else rows()
        X[1, 0] = np.nan

    def predict(given):
        if kind == "frame":
            given.loc[5, "a"] = 0.0
        else:
            given[1, 0] = 0.0
        return np.full(len(given), 0.5)

    chosen = {"categorical_features": [1]} if kind == "objects" else {}
    model, Z = checked(predict, X, **chosen)
    with pytest.raises(ModelOutputError, match=rf"changed its input rows \(call 1, row {5 * (kind == 'frame') or 1}\)"):
        model.labels(Z)


@pytest.mark.parametrize("objects", [False, True])
def test_rows_left_alone_are_not_changed_rows(objects):
    X = np.array([[1.0, "u"], [np.nan, "v"], [2.0, None]], dtype=object) if objects else rows()
    X[1, 0] = np.nan
    chosen = {"categorical_features": [1]} if objects else {}
    model, Z = checked(lambda given: np.full(len(given), 0.5), X, **chosen)
    assert model.labels(Z).tolist() == [0] * len(Z)
