"""How models are called: what they are given, in which batches, and what happens when they fail or meddle."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import BATCH, checked, rows
from scipy.special import expit
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, LinearSVC

from gpec.data import Schema
from gpec.errors import InputError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.models import Model

# ---------------------------------------------------------------- what the model is given


def test_classes_are_the_models_own():
    X = rows(50)
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    model, Z = checked(classifier, X)
    model.labels(Z)
    assert model.classes.tolist() == ["no", "yes"]
    assert model.class_name(1) == "'yes'"
    np.testing.assert_array_equal(model.probabilities(Z), classifier.predict_proba(X)[:, 1:])


def test_array_model_gets_arrays_it_may_keep():
    kept = []

    def predict(X):
        kept.append(X)
        return np.full(len(X), 0.5)

    model, Z = checked(predict)
    model.labels(Z)
    assert type(kept[0]) is np.ndarray
    np.testing.assert_array_equal(kept[0], Z)
    assert not np.shares_memory(kept[0], Z)


def test_frames_reach_the_model_as_frames():
    frame = pd.DataFrame(
        {
            "town": ["Rome", "Oslo", "Rome"],
            "member": [True, False, True],
            "size": pd.Categorical(["S", "L", "S"], categories=["S", "M", "L"]),
            "age": [1.5, 2.5, 3.5],
        }
    )
    seen = []

    def predict(X):
        seen.append(X.copy())
        return np.full(len(X), 0.25)

    model, Z = checked(predict, frame)
    model.labels(Z)
    pd.testing.assert_frame_equal(seen[0], frame)


def test_pipeline_on_text_columns():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"town": rng.choice(["Rome", "Oslo", "Lima"], 200), "kind": rng.choice(["a", "b"], 200)})
    y = (X["town"] == "Rome") ^ (rng.random(200) < 0.1)
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="error"), LogisticRegression()).fit(X, y)
    model, Z = checked(pipeline, X)
    np.testing.assert_array_equal(model.probabilities(Z), pipeline.predict_proba(X)[:, 1:])
    np.testing.assert_array_equal(model.labels(Z), pipeline.predict(X))


def test_forest_warns_of_no_feature_names():
    X = pd.DataFrame(rows(60), columns=list("abc"))
    forest = RandomForestClassifier(5, random_state=0).fit(X, X["a"] > 0)
    model, Z = checked(forest, X)
    np.testing.assert_array_equal(model.labels(Z), forest.predict(X))  # warnings are errors


# ---------------------------------------------------------------- batches and counts


def test_calls_are_batched_and_counted():
    lengths = []

    def predict(X):
        lengths.append(len(X))
        return expit(X[:, 0])

    X = rows(2 * BATCH + 5)
    model, Z = checked(predict, X)
    np.testing.assert_array_equal(model.probabilities(Z), expit(X[:, :1]))
    assert lengths == [BATCH, BATCH, 5]
    assert (model.n_calls, model.n_rows) == (3, 2 * BATCH + 5)
    model.labels(Z[:7])
    assert (model.n_calls, model.n_rows) == (4, 2 * BATCH + 12)


def test_no_rows_are_no_call():
    model, Z = checked(lambda X: np.full((len(X), 3), 1 / 3))
    model.labels(Z)
    assert model.labels(Z[:0]).shape == (0,)
    assert model.probabilities(Z[:0]).shape == model.log_odds(Z[:0]).shape == (0, 3)
    assert model.n_calls == 1


def test_a_failed_call_is_counted():
    def predict(X):
        raise ValueError

    model, Z = checked(predict)
    with pytest.raises(ModelCallError, match=r"^The model raised ValueError on call 1"):
        model.labels(Z)
    assert (model.n_calls, model.n_rows) == (1, 12)


# ---------------------------------------------------------------- models that raise


def test_model_raises():
    calls = []

    def predict(X):
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("income")
        return np.full(len(X), 0.5)

    model, Z = checked(predict, rows(2 * BATCH + 100))
    message = rf"raised KeyError on call 3 \(rows {2 * BATCH} to {2 * BATCH + 99} of {2 * BATCH + 100}\): 'income'"
    with pytest.raises(ModelCallError, match=message) as caught:
        model.labels(Z)
    assert isinstance(caught.value.__cause__, KeyError)
    assert isinstance(caught.value, RuntimeError)


def test_interruption_is_not_a_model_error():
    def predict(X):
        raise KeyboardInterrupt("pressed")

    model, Z = checked(predict)
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        model.labels(Z)


def test_unfitted_model_is_chained():
    model, Z = checked(LogisticRegression())
    with pytest.raises(ModelCallError, match="raised NotFittedError on call 1"):
        model.labels(Z)


# ---------------------------------------------------------------- models that change their rows


def test_model_that_changes_its_array():
    calls = []

    def predict(X):
        calls.append(1)
        if len(calls) == 2:
            X[6] += 1.0
        return np.full(len(X), 0.5)

    model, Z = checked(predict, rows(BATCH + 10))
    before = Z.copy()
    with pytest.raises(ModelOutputError, match=rf"changed its input rows \(call 2, row {BATCH + 6}\)"):
        model.labels(Z)
    np.testing.assert_array_equal(Z, before)


def change_number(X):
    X.loc[1, "age"] = 0.0


def change_category(X):
    X.loc[1, "town"] = "Oslo"


def add_column(X):
    X["new"] = 1.0


def drop_column(X):
    del X["age"]


def rename_columns(X):
    X.columns = ["AGE", "TOWN"]


def change_kind(X):
    X["town"] = X["town"].astype("category")


def reverse_rows(X):
    X.index = X.index[::-1]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        (change_number, 1),
        (change_category, 1),
        (add_column, 0),
        (drop_column, 0),
        (rename_columns, 0),
        (change_kind, 0),
        (reverse_rows, 0),
    ],
)
def test_model_that_changes_its_frame(change, row):
    def predict(X):
        change(X)
        return np.full(len(X), 0.5)

    model, Z = checked(predict, pd.DataFrame({"age": [1.0, 2.0, 3.0], "town": ["Rome", "Rome", "Oslo"]}))
    with pytest.raises(ModelOutputError, match=rf"changed its input rows \(call 1, row {row}\); let it work on"):
        model.labels(Z)


def test_model_that_changes_an_array_of_objects():
    def predict(X):
        X[2, 1] = "a"
        return np.full(len(X), 0.5)

    schema, Z = Schema.learn(np.array([[1.0, "a"], [2.0, "b"], [3.0, "b"]], dtype=object), categorical_features=[1])
    with pytest.raises(ModelOutputError, match=r"\(call 1, row 2\)"):
        Model(predict, schema).labels(Z)


# ---------------------------------------------------------------- kinds of model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "got NoneType"),
        (3, "got int"),
        (LogisticRegression, "class LogisticRegression; pass a fitted instance"),
        (LinearSVC(), r"got LinearSVC.*model\.decision_function and model_output='logit'"),
        (IsolationForest(), r"got IsolationForest.*pass model\.score_samples and model_output='value'"),
        (KMeans(), r"got KMeans\. Its predict gives labels: pass a callable that returns probabilities"),
    ],
)
def test_not_a_model(model, message):
    with pytest.raises(ParameterTypeError, match=message):
        checked(model)


def test_a_model_that_is_not_fitted_is_not_blamed_on_missing_values():
    X = rows(20)
    X[0, 0] = np.nan
    model, Z = checked(HistGradientBoostingClassifier(), X)
    with pytest.raises(ModelCallError, match="NotFittedError") as refused:
        model.probabilities(Z)
    assert "missing" not in str(refused.value)


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("machine", [LinearSVC(), SVC()], ids=["linear", "kernel"])
def test_decision_function_as_the_error_advises(machine, classes):
    X = rows(200)
    names = np.array(["a", "b", "c", "d"])
    machine = clone(machine).fit(X, names[np.digitize(X[:, 0], [0.2, 0.9, 1.4][: classes - 1])])
    model, Z = checked(machine.decision_function, X, model_output="logit")
    labels = model.labels(Z)
    np.testing.assert_array_equal(model.classes[labels], machine.predict(X))
    assert model.classes.tolist() == names[:classes].tolist()


def test_decision_function_of_pairs_is_refused_and_its_remedy_works():
    X = rows(200)
    machine = SVC(decision_function_shape="ovo").fit(X, np.digitize(X[:, 0], [-0.5, 0.5, 1.0]))
    with pytest.raises(InputError, match="one column for each pair of classes; set decision_function_shape='ovr'"):
        checked(machine.decision_function, X, model_output="logit")
    machine.set_params(decision_function_shape="ovr")
    model, Z = checked(machine.decision_function, X, model_output="logit")
    np.testing.assert_array_equal(model.labels(Z), machine.predict(X))
