"""One checked way to call any model: what it is given, what it may answer, how calls are counted."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from gpec.errors import InputError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.model import Model
from gpec.table import Table

BATCH = 16_384


def rows(n: int = 12, d: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, d))


def checked(model, X=None, **options) -> tuple[Model, np.ndarray]:
    table, Z = Table.learn(rows() if X is None else X)
    return Model(model, table, **options), Z


# ---------------------------------------------------------------- shapes and scales of the answer


@pytest.mark.parametrize(
    "shape",
    [lambda p: p, lambda p: p[:, None], lambda p: np.column_stack((1 - p, p))],
    ids=["(n,)", "(n, 1)", "(n, 2)"],
)
def test_binary_probabilities(shape):
    model, Z = checked(lambda X: shape(expit(X[:, 0])))
    probabilities = model.probabilities(Z)
    assert probabilities.shape == (12,)
    assert probabilities.dtype == np.float64
    np.testing.assert_array_equal(probabilities, expit(Z[:, 0]))
    assert model.is_binary
    assert model.n_classes == 2
    np.testing.assert_array_equal(model.classes, [0, 1])
    labels = model.labels(Z)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, Z[:, 0] > 0)


@pytest.mark.parametrize(
    "shape",
    [lambda s: s, lambda s: s[:, None], lambda s: np.column_stack((5 - s / 2, 5 + s / 2))],
    ids=["(n,)", "(n, 1)", "(n, 2)"],
)
@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_binary_logits(shape, threshold):
    model, Z = checked(lambda X: shape(4 * X[:, 0]), model_output="logit", threshold=threshold)
    np.testing.assert_allclose(model.probabilities(Z), expit(4 * Z[:, 0]), rtol=1e-12)
    np.testing.assert_array_equal(model.labels(Z), expit(4 * Z[:, 0]) > threshold)
    assert 0 < model.labels(Z).sum() < len(Z)


def test_multiclass_probabilities_and_logits():
    as_probability, Z = checked(lambda X: softmax(X @ np.arange(12.0).reshape(3, 4), axis=1))
    as_logit, _ = checked(lambda X: X @ np.arange(12.0).reshape(3, 4), model_output="logit")
    expected = softmax(Z @ np.arange(12.0).reshape(3, 4), axis=1)
    for model in (as_probability, as_logit):
        np.testing.assert_allclose(model.probabilities(Z), expected, rtol=1e-12)
        np.testing.assert_array_equal(model.labels(Z), expected.argmax(axis=1))
        assert not model.is_binary
        assert model.n_classes == 4


def test_saturated_logits_keep_their_order():
    model, Z = checked(lambda X: np.column_stack((np.full(len(X), 800.0), 800 + X[:, 0])), model_output="logit")
    np.testing.assert_array_equal(model.labels(Z), Z[:, 0] > 0)
    three, Z = checked(
        lambda X: np.column_stack((np.full(len(X), 800.0), 800 + 1e-9 * X[:, 0], X[:, 0])), model_output="logit"
    )
    np.testing.assert_array_equal(three.labels(Z), Z[:, 0] > 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, int, bool])
def test_number_types_of_the_answer(dtype):
    model, Z = checked(lambda X: (X[:, 0] > 0).astype(dtype))
    np.testing.assert_array_equal(model.probabilities(Z), (Z[:, 0] > 0).astype(float))


def test_lists_and_frames_are_answers():
    model, Z = checked(lambda X: expit(X[:, 0]).tolist())
    np.testing.assert_array_equal(model.probabilities(Z), expit(Z[:, 0]))
    model, Z = checked(lambda X: pd.DataFrame({"no": 1 - expit(X[:, 0]), "yes": expit(X[:, 0])}))
    np.testing.assert_array_equal(model.probabilities(Z), expit(Z[:, 0]))


def test_rounding_outside_the_unit_interval_is_clipped():
    model, Z = checked(lambda X: np.where(X[:, 0] > 0, 1 + 5e-7, -5e-7))
    np.testing.assert_array_equal(model.probabilities(Z), Z[:, 0] > 0)


# ---------------------------------------------------------------- ties and thresholds


@pytest.mark.parametrize("threshold", [0.25, 0.5, 0.75])
def test_positive_means_greater_than_the_threshold(threshold):
    answers = np.array([threshold, np.nextafter(threshold, 1), np.nextafter(threshold, 0)])
    model, Z = checked(lambda X: answers, rows(3), threshold=threshold)
    assert model.labels(Z).tolist() == [0, 1, 0]


def test_zero_logit_is_negative():
    model, Z = checked(lambda X: np.array([0.0, 1e-300, -1e-300]), rows(3), model_output="logit")
    assert model.labels(Z).tolist() == [0, 1, 0]


def test_several_classes_tie_to_the_first():
    answers = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    model, Z = checked(lambda X: answers, rows(3))
    assert model.labels(Z).tolist() == answers.argmax(axis=1).tolist() == [0, 1, 0]


def test_forest_ties_are_decided_as_scikit_learn_does():
    X = rows(300)
    y = np.random.default_rng(1).integers(0, 2, 300)
    forest = RandomForestClassifier(4, random_state=0).fit(X, y)
    queries = rows(2000, seed=3)
    ties = forest.predict_proba(queries)[:, 1] == 0.5
    assert ties.sum() > 50
    model, _ = checked(forest, X)
    np.testing.assert_array_equal(model.labels(queries), forest.predict(queries))


def test_threshold_with_several_classes_is_an_error_on_every_call():
    model, Z = checked(lambda X: np.full((len(X), 3), 1 / 3), threshold=0.7)
    for _ in range(2):
        with pytest.raises(InputError, match=r"threshold=0\.7 with a model of 3 classes.*leave it at 0\.5"):
            model.labels(Z)


@pytest.mark.parametrize("threshold", [0, 1, -0.1, 1.5, np.nan, "half", None, True])
def test_bad_threshold(threshold):
    with pytest.raises(InputError, match=r"^threshold=.* must be a number between 0 and 1\.$"):
        checked(len, threshold=threshold)


def test_bad_model_output():
    with pytest.raises(InputError, match=r"model_output='logits' is not one of 'auto', 'probability', 'logit'"):
        checked(len, model_output="logits")


# ---------------------------------------------------------------- what the model is given


def test_classes_are_the_models_own():
    X = rows(50)
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    model, Z = checked(classifier, X)
    model.labels(Z)
    assert model.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(model.probabilities(Z), classifier.predict_proba(X)[:, 1])


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
    np.testing.assert_array_equal(model.probabilities(Z), pipeline.predict_proba(X)[:, 1])
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
    np.testing.assert_array_equal(model.probabilities(Z), expit(X[:, 0]))
    assert lengths == [BATCH, BATCH, 5]
    assert (model.n_calls, model.n_rows) == (3, 2 * BATCH + 5)
    model.labels(Z[:7])
    assert (model.n_calls, model.n_rows) == (4, 2 * BATCH + 12)


def test_a_failed_call_is_counted():
    def predict(X):
        raise ValueError

    model, Z = checked(predict)
    with pytest.raises(ModelCallError):
        model.labels(Z)
    assert (model.n_calls, model.n_rows) == (1, 12)


# ---------------------------------------------------------------- wrong answers


def spoil(value, position: int, columns: int):
    """A model that is fine for ``BATCH`` rows and spoils one number in the second call."""
    calls = []

    def predict(X):
        calls.append(len(X))
        answer = np.full((len(X), columns), 0.5)
        if len(calls) == 2:
            answer[position, -1] = value
        return answer[:, 0] if columns == 1 else answer

    return predict


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("output", ["probability", "logit"])
def test_number_that_is_not_finite(columns, value, output):
    model, Z = checked(spoil(value, 3, columns), rows(BATCH + 10), model_output=output)
    with pytest.raises(ModelOutputError, match=rf"returned {value} on call 2, row {BATCH + 3};"):
        model.probabilities(Z)


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("value", [1.01, -0.01, 37.5])
def test_logits_without_saying_so(columns, value):
    model, Z = checked(spoil(value, 4, columns), rows(BATCH + 10))
    message = rf"returned {value:g} on call 2, row {BATCH + 4}, which is not a probability.*model_output='logit'"
    with pytest.raises(ModelOutputError, match=message):
        model.labels(Z)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda X: None, "returned a NoneType on call 1 that is not an array of numbers"),
        (lambda X: "positive", "returned a str on call 1"),
        (lambda X: ["yes"] * len(X), "returned a list on call 1"),
        (lambda X: np.ones(len(X), dtype=complex), "dtype complex128"),
        (lambda X: np.array([object()] * len(X)), "dtype object"),
        (lambda X: [[0.1, 0.9]] * (len(X) - 1) + [[0.5]], "returned a list on call 1"),
        (lambda X: 0.5, r"returned shape \(\) for 12 rows on call 1; expected \(12,\) or \(12, classes\)"),
        (lambda X: np.full(len(X) - 1, 0.5), r"returned shape \(11,\) for 12 rows on call 1"),
        (lambda X: np.full((2, len(X)), 0.5), r"returned shape \(2, 12\) for 12 rows on call 1"),
        (lambda X: np.full((len(X), 2, 1), 0.5), r"returned shape \(12, 2, 1\) for 12 rows"),
        (lambda X: np.empty((len(X), 0)), r"returned shape \(12, 0\) for 12 rows"),
    ],
)
def test_answer_that_is_not_a_prediction(answer, message):
    model, Z = checked(answer)
    with pytest.raises(ModelOutputError, match=message):
        model.labels(Z)


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2), (1, 2), (4, 3)])
def test_number_of_columns_changes(first, second):
    widths = iter([first, second])
    model, Z = checked(lambda X: np.full((len(X), next(widths)), 0.5))
    model.labels(Z)
    with pytest.raises(ModelOutputError, match=rf"returned {second} columns on call 2 but {first} before"):
        model.labels(Z)


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
        raise KeyboardInterrupt

    model, Z = checked(predict)
    with pytest.raises(KeyboardInterrupt):
        model.labels(Z)


def test_model_that_changes_its_array():
    calls = []

    def predict(X):
        calls.append(1)
        if len(calls) == 2:
            X[6] += 1.0
        return np.full(len(X), 0.5)

    model, Z = checked(predict, rows(BATCH + 10))
    before = Z.copy()
    with pytest.raises(ModelOutputError, match=rf"changed the rows it was given \(call 2, row {BATCH + 6}\)"):
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
    with pytest.raises(ModelOutputError, match=rf"changed the rows it was given \(call 1, row {row}\); let it work on"):
        model.labels(Z)


def test_model_that_changes_an_array_of_objects():
    def predict(X):
        X[2, 1] = "a"
        return np.full(len(X), 0.5)

    table, Z = Table.learn(np.array([[1.0, "a"], [2.0, "b"], [3.0, "b"]], dtype=object), categorical_features=[1])
    with pytest.raises(ModelOutputError, match=r"\(call 1, row 2\)"):
        Model(predict, table).labels(Z)


# ---------------------------------------------------------------- repeatability


def test_require_repeatable():
    model, Z = checked(lambda X: expit(X[:, 0]))
    model.require_repeatable(Z, model.probabilities(Z))
    three, Z = checked(lambda X: softmax(X, axis=1))
    three.require_repeatable(Z, three.probabilities(Z))
    three.require_repeatable(Z, three.probabilities(Z) + 1e-6)  # rounding of a batch
    assert three.n_calls == 4


@pytest.mark.parametrize("columns", [1, 3])
def test_model_that_changes_its_mind(columns):
    calls = []

    def predict(X):
        calls.append(1)
        answer = np.full((len(X), columns), 0.5)
        answer[7, -1] += 1e-3 * len(calls)
        return answer

    model, Z = checked(predict)
    before = model.probabilities(Z)
    with pytest.raises(ModelOutputError, match=r"changed its answer to the same row by 0\.001.*\(call 2, row 7\)"):
        model.require_repeatable(Z, before)


# ---------------------------------------------------------------- kinds of model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "got NoneType"),
        (3, "got int"),
        (LogisticRegression, "class LogisticRegression; pass a fitted instance"),
        (LinearSVC(), r"got LinearSVC.*model\.decision_function and model_output='logit'"),
        (KMeans(), r"got KMeans\.$"),
    ],
)
def test_not_a_model(model, message):
    with pytest.raises(ParameterTypeError, match=message):
        checked(model)


def test_decision_function_as_the_error_advises():
    X = rows(80)
    machine = LinearSVC().fit(X, X[:, 0] > 0.2)
    model, Z = checked(machine.decision_function, X, model_output="logit")
    np.testing.assert_array_equal(model.labels(Z), machine.predict(X))


def test_unfitted_model_is_chained():
    model, Z = checked(LogisticRegression())
    with pytest.raises(ModelCallError, match="raised NotFittedError on call 1"):
        model.labels(Z)


# ---------------------------------------------------------------- xgboost


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
    np.testing.assert_array_equal(first.probabilities(Z), logistic.predict(xgb.DMatrix(X)))
    margin = raw.predict(xgb.DMatrix(X)).astype(float)
    np.testing.assert_allclose(second.probabilities(Z), expit(margin), rtol=1e-12)
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


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softmax", "binary:hinge"])
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
    np.testing.assert_array_equal(model.probabilities(Z), machine.predict(matrix))


def test_booster_with_names_on_arrays(xgb):
    X = rows(200)
    matrix = xgb.DMatrix(X, label=(X[:, 0] > 0).astype(int), feature_names=["a", "b", "c"])
    machine = xgb.train({"objective": "binary:logistic", "nthread": 1}, matrix, 5)
    model, Z = checked(machine, X)
    np.testing.assert_array_equal(model.probabilities(Z), machine.predict(matrix))


# ---------------------------------------------------------------- torch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def network(torch, outputs: int, dtype):
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5)), torch.nn.Linear(8, outputs)
    ).to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_module_gives_logits(torch, outputs, dtype):
    module = network(torch, outputs, getattr(torch, dtype)).eval()
    model, Z = checked(module)
    logits = module(torch.as_tensor(Z, dtype=getattr(torch, dtype))).detach().double().numpy()
    expected = {1: lambda: expit(logits[:, 0]), 2: lambda: softmax(logits, 1)[:, 1], 3: lambda: softmax(logits, 1)}
    np.testing.assert_allclose(model.probabilities(Z), expected[outputs](), rtol=1e-12)
    assert model.output == "logit"
    assert model.n_classes == max(outputs, 2)


def test_module_that_gives_probabilities(torch):
    module = torch.nn.Sequential(network(torch, 1, torch.float64), torch.nn.Sigmoid()).eval()
    model, Z = checked(module, model_output="probability")
    np.testing.assert_array_equal(model.probabilities(Z), module(torch.as_tensor(Z)).detach().numpy()[:, 0])


def test_module_is_left_as_it_was(torch):
    module = network(torch, 1, torch.float32).train()
    module[0].eval()  # a frozen part of a network in training
    modes = [part.training for part in module.modules()]
    assert True in modes
    assert False in modes
    state = torch.get_rng_state()
    model, Z = checked(module)
    first = model.probabilities(Z)
    np.testing.assert_array_equal(model.probabilities(Z), first)  # no dropout
    assert [part.training for part in module.modules()] == modes
    assert all(parameter.grad is None and parameter.requires_grad for parameter in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_module_is_called_without_gradients(torch):
    class Watch(torch.nn.Module):
        def forward(self, X):
            self.seen = (torch.is_grad_enabled(), X.requires_grad, X.dtype)
            return X[:, 0]

    module = Watch()
    model, Z = checked(module)
    model.labels(Z)
    assert module.seen == (False, False, torch.get_default_dtype())


def test_module_that_raises_is_put_back(torch):
    module = network(torch, 1, torch.float32).train()
    model, Z = checked(module, rows(12, d=4))
    with pytest.raises(ModelCallError, match="raised RuntimeError on call 1"):
        model.labels(Z)
    assert all(part.training for part in module.modules())


def test_tensor_that_requires_grad_is_not_an_answer(torch):
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    model, Z = checked(lambda X: torch.sigmoid(torch.as_tensor(X) @ weight))
    with pytest.raises(ModelOutputError, match=r"returned a Tensor on call 1 .*requires grad"):
        model.labels(Z)
    model, Z = checked(lambda X: torch.sigmoid(torch.as_tensor(X) @ weight).detach())
    np.testing.assert_allclose(model.probabilities(Z), expit(Z.sum(axis=1)), rtol=1e-12)


def test_neither_torch_nor_xgboost_is_needed(monkeypatch):
    for name in ("torch", "xgboost"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    model, Z = checked(lambda X: expit(X[:, 0]))
    np.testing.assert_array_equal(model.labels(Z), Z[:, 0] > 0)
    assert "torch" not in sys.modules
    assert "xgboost" not in sys.modules
