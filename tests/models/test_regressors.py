"""Models that predict a number: of every library, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import checked, rows
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from extras import catboost, lightgbm, torch, xgboost
from gpec.errors import InputError, ModelOutputError, ParameterTypeError
from gpec.models import load_model

X = rows(150)
Y = 1_000.0 + 30.0 * X[:, 0] - 20.0 * X[:, 1] ** 2

REGRESSORS = {
    "linear": lambda: LinearRegression(),
    "SVR": lambda: SVR(),
    "pipeline": lambda: make_pipeline(StandardScaler(), Ridge()),
    "grid search": lambda: GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}),
    "transformed target": lambda: TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=5, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1),
    "catboost": lambda: catboost.CatBoostRegressor(iterations=5, verbose=0, allow_writing_files=False, thread_count=1),
}


class Line:
    """A model that no library knows."""

    def predict(self, X):
        return 3.0 * X[:, 0] + 5.0


@pytest.mark.parametrize("name", REGRESSORS)
def test_values_are_those_of_predict(name):
    machine = REGRESSORS[name]().fit(X, Y)
    for given in (machine, machine.predict):
        model, Z = checked(given, X)
        np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(X))
        np.testing.assert_array_equal(model.outputs(Z), model.answers(Z))
        np.testing.assert_array_equal(model.kind.answers_from(model.outputs(Z)), model.answers(Z))
        assert (model.is_regressor, model.is_binary, model.n_outputs, model.output_names) == (True, False, 1, None)


@pytest.mark.parametrize("options", [{}, {"model_output": "value"}])
def test_a_model_with_predict_only(options):
    model, Z = checked(Line(), X, **options)
    np.testing.assert_array_equal(model.answers(Z)[:, 0], 3.0 * X[:, 0] + 5.0)


@pytest.mark.parametrize("objective", ["reg:squarederror", "reg:absoluteerror", "count:poisson", "reg:logistic"])
def test_xgboost_boosters(objective):
    y = (X[:, 0] > 0).astype(float)
    matrix = xgboost.DMatrix(X, label=y)
    machine = xgboost.train({"objective": objective, "nthread": 1}, matrix, 5)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(matrix))
    assert model.is_regressor


@pytest.mark.parametrize("objective", ["regression", "regression_l1", "poisson", "quantile"])
def test_lightgbm_boosters(objective):
    settings = {"objective": objective, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    machine = lightgbm.train(settings, lightgbm.Dataset(X, np.abs(Y)), 5)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(X))
    assert model.is_regressor


def test_a_custom_objective_is_a_value_if_the_user_says_so():
    def squares(scores, data):
        return scores - data.get_label(), np.ones(len(scores))

    machine = lightgbm.train({"objective": squares, "num_threads": 1, "verbose": -1}, lightgbm.Dataset(X, Y), 5)
    model, Z = checked(machine, X, model_output="value")
    np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(X))


@pytest.mark.parametrize("squeezed", [False, True])
def test_modules_and_functions(squeezed):
    layer = torch.nn.Linear(3, 1, dtype=torch.float64)
    module = torch.nn.Sequential(layer, torch.nn.Flatten(0)) if squeezed else layer
    model, Z = checked(module, X, model_output="value")
    with torch.no_grad():
        expected = layer(torch.as_tensor(X)).numpy()
    np.testing.assert_array_equal(model.answers(Z), expected)
    model, Z = checked(lambda X: X[:, 0] * 7.0, X, model_output="value")
    np.testing.assert_array_equal(model.answers(Z)[:, 0], X[:, 0] * 7.0)


def test_a_module_with_a_sigmoid_may_be_a_regressor():
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Sigmoid())
    model, Z = checked(module, X)
    with pytest.raises(InputError, match="or 'value' if it is a regressor"):
        model.answers(Z)
    model, Z = checked(module, X, model_output="value")
    assert model.answers(Z).shape == (150, 1)


@pytest.mark.parametrize("kind", ["CatBoostRegressor", "CatBoostClassifier"])
def test_catboost_files(tmp_path, kind):
    machine = getattr(catboost, kind)(iterations=5, verbose=0, allow_writing_files=False, thread_count=1)
    machine.fit(X, Y if kind == "CatBoostRegressor" else Y > 1_000)
    machine.save_model(tmp_path / "model.cbm")
    model, Z = checked(load_model(tmp_path / "model.cbm"), X)
    expected = machine.predict(X) if kind == "CatBoostRegressor" else machine.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(model.answers(Z)[:, 0], expected)
    assert model.is_regressor is (kind == "CatBoostRegressor")


def test_tables_with_texts_and_missing_values():
    frame = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))})
    frame.loc[::7, "a"] = np.nan
    machine = xgboost.XGBRegressor(n_estimators=5, n_jobs=1, enable_categorical=True).fit(frame, Y)
    model, Z = checked(machine, frame)
    np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(frame))


# What is judged small


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_changes_are_judged_by_the_spread(factor):
    model, Z = checked(lambda X: factor * X[:, 0], X, model_output="value")
    before = model.answers(Z)
    assert model.kind.unit(before) == pytest.approx(factor * model.kind.unit(before / factor))
    model.require_repeatable(Z, before * (1 + 1e-7))
    with pytest.raises(ModelOutputError, match="The model changed its answer to the same row"):
        model.require_repeatable(Z, before + 1e-3 * factor)


def test_the_spread_of_values_that_hardly_differ():
    model, Z = checked(lambda X: (X[:, 0] > 2) * 5.0, X, model_output="value")
    assert model.kind.unit(model.answers(Z)) == pytest.approx(np.std(model.answers(Z)))
    assert model.kind.unit(np.full((9, 1), -3.0)) == 3.0
    assert model.kind.unit(np.zeros((9, 1))) == 1.0


# What is refused


@pytest.mark.parametrize(
    ("machine", "output", "message"),
    [
        (RandomForestClassifier(5), "value", "'value' is for regressors, and the RandomForestClassifier is a class"),
        (LinearRegression(), "probability", "'probability' is for classifiers, and the LinearRegression is a regr"),
        (LinearRegression(), "logit", "'logit' is for classifiers"),
        (LinearRegression(), "number", "model_output='number' is not one of 'auto', 'probability', 'logit', 'value'"),
    ],
)
def test_what_was_stated_must_agree(machine, output, message):
    with pytest.raises(InputError, match=message):
        checked(machine, X, model_output=output)


def test_boosters_of_classes_are_no_regressors():
    for objective in ("binary:logistic", "binary:hinge"):
        machine = xgboost.train({"objective": objective, "nthread": 1}, xgboost.DMatrix(X, label=X[:, 0] > 0), 2)
        with pytest.raises(InputError, match=r"'value' is for regressors|objective 'binary:hinge'"):
            checked(machine, X, model_output="value")


@pytest.mark.parametrize("threshold", [0.7, 1_200.0, "high"])
def test_a_threshold_is_for_classes(threshold):
    with pytest.raises(InputError, match=rf"threshold={threshold!r} with a regressor.*LevelSetSampler"):
        checked(LinearRegression().fit(X, Y), X, threshold=threshold)


def test_labels_are_no_numbers():
    class Named:
        def predict(self, X):
            return np.where(X[:, 0] > 0, "high", "low")

    model, Z = checked(Named(), X)
    with pytest.raises(ModelOutputError, match=r"not an array of numbers.*it must return, for each row, one number"):
        model.answers(Z)


def test_several_numbers_are_explained_one_at_a_time():
    machine = LinearRegression().fit(X, np.column_stack((Y, -Y)))
    model, Z = checked(machine, X)
    with pytest.raises(ModelOutputError, match=r"2 numbers for each row on call 1; explain one at a time.*\[:, 0\]"):
        model.answers(Z)
    model, Z = checked(lambda X: machine.predict(X)[:, 0], X, model_output="value")
    np.testing.assert_array_equal(model.answers(Z)[:, 0], machine.predict(X)[:, 0])


def test_a_function_beyond_one_is_asked_whether_it_is_a_regressor():
    model, Z = checked(lambda X: 100.0 * X[:, 0] + 500.0, X)
    with pytest.raises(ModelOutputError, match=r"not a probability.*if it is a regressor, model_output='value'"):
        model.answers(Z)


def test_a_classifier_without_probabilities_is_no_regressor():
    class Silent(LogisticRegression):
        predict_proba = decision_function = predict_log_proba = property()

    with pytest.raises(ParameterTypeError, match="Its predict gives labels"):
        checked(Silent().fit(X, X[:, 0] > 0), X)


@pytest.mark.parametrize("what", ["probabilities", "log_odds"])
def test_a_regressor_has_no_probabilities(what):
    model, Z = checked(Line(), X)
    with pytest.raises(InputError, match="The model is a regressor, which has no"):
        getattr(model, what)(Z)


def test_onnx_files(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    machine = Ridge().fit(X, Y)
    types = [("rows", skl2onnx.common.data_types.DoubleTensorType([None, 3]))]
    (tmp_path / "m.onnx").write_bytes(skl2onnx.to_onnx(machine, initial_types=types).SerializeToString())
    model, Z = checked(load_model(tmp_path / "m.onnx"), X, model_output="value")
    np.testing.assert_allclose(model.answers(Z)[:, 0], machine.predict(X), rtol=1e-9)
