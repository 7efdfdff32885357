"""lightgbm Boosters: their objective tells what they return."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import checked, rows

from extras import lightgbm
from gpec.errors import InputError


def booster(objective, X, y, **options):
    settings = {"objective": objective, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, **options}
    return lightgbm.train(settings, lightgbm.Dataset(X, y), 5)


@pytest.mark.parametrize("objective", ["binary", "cross_entropy"])
@pytest.mark.parametrize("loaded", [False, True])
def test_two_classes(objective, loaded):
    X = rows(300)
    machine = booster(objective, X, (X[:, 0] + X[:, 1] > 0).astype(int))
    if loaded:
        machine = lightgbm.Booster(model_str=machine.model_to_string())
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.probabilities(Z)[:, 0], machine.predict(X))
    assert model.is_binary


def test_several_classes():
    X = rows(300)
    machine = booster("multiclass", X, X.argmax(axis=1), num_class=3)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.probabilities(Z), machine.predict(X))
    np.testing.assert_array_equal(model.labels(Z), machine.predict(X).argmax(axis=1))
    assert model.n_classes == 3


def test_columns_go_by_name_with_categories_and_missing_values():
    X = pd.DataFrame(rows(300), columns=["a", "b", "c"])
    X.loc[::5, "a"] = np.nan
    X["kind"] = pd.Categorical(np.where(np.random.default_rng(0).random(300) > 0.5, "u", "v"))
    X.loc[::7, "kind"] = np.nan
    machine = booster("binary", X, ((X["a"] > 0) ^ (X["kind"] == "u")).astype(int))
    expected = machine.predict(X)
    for columns in (["a", "b", "c", "kind"], ["kind", "c", "a", "b"]):
        model, Z = checked(machine, X[columns])
        np.testing.assert_array_equal(model.probabilities(Z)[:, 0], expected)


@pytest.mark.parametrize("spaces", [False, True])
def test_columns_of_a_classifier_go_by_name(spaces):
    """LightGBM itself takes another order for its own, without a word; it has no spaces in names."""
    X = pd.DataFrame(rows(300), columns=["the a", "the b", "the c"] if spaces else ["a", "b", "c"])
    machine = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X, X.iloc[:, 0] > 0)
    for one in (machine, machine.booster_, machine.predict_proba):
        model, Z = checked(one, X[X.columns[::-1]])
        np.testing.assert_array_equal(model.probabilities(Z)[:, 0], machine.predict_proba(X)[:, 1])
        table = X.rename(columns={X.columns[0]: "other"})  # names that it does not know: by position
        model, Z = checked(one, table)
        np.testing.assert_array_equal(model.probabilities(Z)[:, 0], machine.predict_proba(X)[:, 1])


def custom(scores, data):
    return scores - data.get_label(), np.ones(len(scores))


@pytest.mark.parametrize(("objective", "options"), [("multiclassova", {"num_class": 3}), (custom, {})])
def test_another_objective_is_refused_before_a_call(objective, options):
    X = rows(100)
    machine = booster(objective, X, X.argmax(axis=1) if options else X[:, 0] > 0, **options)
    named = "custom" if callable(objective) else objective
    with pytest.raises(InputError, match=rf"objective '{named}'; gpec needs one of .*binary.*callable"):
        checked(machine, X)
