"""xgboost Boosters: their objective tells what they return."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import checked, rows
from scipy.special import expit

from gpec.errors import InputError


@pytest.fixture(scope="module")
def xgb():
    return pytest.importorskip("xgboost")


def booster(xgb, objective: str, X, y, **options):
    matrix = xgb.DMatrix(X, label=y)
    return xgb.train({"objective": objective, "max_depth": 3, "nthread": 1, **options}, matrix, 5)


def test_booster_logistic_and_raw(xgb):
    X = rows(300)
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    logistic, raw = (booster(xgb, f"binary:{kind}", X, y) for kind in ("logistic", "logitraw"))
    first, Z = checked(logistic, X)
    second, _ = checked(raw, X)
    assert (first.output, second.output) == ("probability", "logit")
    np.testing.assert_array_equal(first.probabilities(Z)[:, 0], logistic.predict(xgb.DMatrix(X)))
    margin = raw.predict(xgb.DMatrix(X)).astype(float)
    np.testing.assert_allclose(second.probabilities(Z)[:, 0], expit(margin), rtol=1e-12)
    np.testing.assert_array_equal(second.labels(Z), margin > 0)
    assert (margin > 1).any()
    assert (margin < 0).any()


def test_booster_softprob(xgb):
    X = rows(300)
    machine = booster(xgb, "multi:softprob", X, X.argmax(axis=1), num_class=3)
    model, Z = checked(machine, X)
    expected = machine.predict(xgb.DMatrix(X))
    np.testing.assert_array_equal(model.probabilities(Z), expected)
    np.testing.assert_array_equal(model.labels(Z), expected.argmax(axis=1))
    assert model.n_classes == 3


@pytest.mark.parametrize("objective", ["multi:softmax", "binary:hinge"])
def test_booster_with_another_objective_is_refused_before_a_call(xgb, objective):
    X = rows(100)
    classes = {"num_class": 2} if objective.startswith("multi") else {}
    machine = booster(xgb, objective, X, (X[:, 0] > 0).astype(int), **classes)
    with pytest.raises(InputError, match=rf"objective '{objective}'.*binary:logistic.*callable"):
        checked(machine, X)


def test_booster_knows_its_columns(xgb):
    X = pd.DataFrame(rows(200), columns=["a", "b", "c"])
    X["b"] = np.rint(3 * X["b"]).astype(int)
    X["kind"] = pd.Categorical(np.where(np.random.default_rng(0).random(200) > 0.5, "u", "v"))
    y = ((X["a"] > 0) ^ (X["kind"] == "u")).astype(int)
    matrix = xgb.DMatrix(X, label=y, enable_categorical=True)
    machine = xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.probabilities(Z)[:, 0], machine.predict(matrix))


def test_booster_with_names_on_arrays(xgb):
    X = rows(200)
    matrix = xgb.DMatrix(X, label=(X[:, 0] > 0).astype(int), feature_names=["a", "b", "c"])
    machine = xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.probabilities(Z)[:, 0], machine.predict(matrix))
