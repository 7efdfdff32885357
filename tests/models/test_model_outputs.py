"""What models may answer: shapes and scales, ties and thresholds, log-odds, and answers that are refused."""

import numpy as np
import pandas as pd
import pytest
from model_helpers import BATCH, checked, rows
from scipy.special import expit, logit, softmax
from sklearn.ensemble import RandomForestClassifier

from gpec.errors import InputError, ModelOutputError

# ---------------------------------------------------------------- shapes and scales


@pytest.mark.parametrize(
    "shape",
    [lambda p: p, lambda p: p[:, None], lambda p: np.column_stack((1 - p, p))],
    ids=["(n,)", "(n, 1)", "(n, 2)"],
)
def test_binary_probabilities(shape):
    model, Z = checked(lambda X: shape(expit(X[:, 0])))
    probabilities = model.probabilities(Z)
    assert probabilities.shape == (12, model.n_outputs) == (12, 1)
    assert probabilities.dtype == np.float64
    np.testing.assert_array_equal(probabilities[:, 0], expit(Z[:, 0]))
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
    np.testing.assert_allclose(model.probabilities(Z), expit(4 * Z[:, :1]), rtol=1e-12)
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
        assert model.n_classes == model.n_outputs == 4


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
    np.testing.assert_array_equal(model.probabilities(Z), (Z[:, :1] > 0).astype(float))


def test_lists_and_frames_are_answers():
    model, Z = checked(lambda X: expit(X[:, 0]).tolist())
    np.testing.assert_array_equal(model.probabilities(Z), expit(Z[:, :1]))
    model, Z = checked(lambda X: pd.DataFrame({"no": 1 - expit(X[:, 0]), "yes": expit(X[:, 0])}))
    np.testing.assert_array_equal(model.probabilities(Z), expit(Z[:, :1]))


def test_rounding_outside_the_unit_interval_is_clipped():
    model, Z = checked(lambda X: np.where(X[:, 0] > 0, 1 + 5e-7, -5e-7))
    np.testing.assert_array_equal(model.probabilities(Z), Z[:, :1] > 0)


# ---------------------------------------------------------------- log-odds


@pytest.mark.parametrize("output", ["probability", "logit"])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_log_odds_are_the_logit_of_the_probability(output, columns):
    def scores(X):
        return X[:, :columns]

    def shares(X):
        return expit(X[:, :1]) if columns == 1 else softmax(X[:, :columns], axis=1)

    model, Z = checked(scores if output == "logit" else shares, model_output=output)
    odds, probabilities = model.log_odds(Z), model.probabilities(Z)
    assert odds.shape == (12, model.n_outputs) == (12, 3 if columns == 3 else 1)
    assert odds.dtype == np.float64
    np.testing.assert_allclose(odds, logit(probabilities), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_log_odds_are_finite_where_the_model_is_sure(columns):
    certain = np.eye(columns)[[0, 1]] if columns > 1 else np.array([[0.0], [1.0]])
    model, Z = checked(lambda X: certain[[0, 1] * 6])
    odds = model.log_odds(Z)
    np.testing.assert_array_equal(odds, np.where(model.probabilities(Z) > 0.5, 36.0, -36.0))


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_log_odds_of_logits_keep_the_order_where_probabilities_have_lost_it(columns):
    """Of logits 30 to 40: expit tells them apart no better than by 1e-3, and is 1 from 37 on."""
    height = np.linspace(30, 40, 101)
    model, Z = checked(
        lambda X: np.column_stack((*[np.zeros(101)] * (columns - 1), height)), rows(101), model_output="logit"
    )
    expected = np.minimum(height - (np.log(2) if columns == 3 else 0.0), 36.0)
    np.testing.assert_allclose(model.log_odds(Z)[:, -1], expected, rtol=1e-14)
    assert len(np.unique(model.probabilities(Z)[:, -1])) < 70


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


# ---------------------------------------------------------------- wrong answers


def spoil(value, position: int, columns: int):
    """A model that is fine for ``BATCH`` rows and spoils one number in the second call."""
    calls = []

    def predict(X):
        calls.append(len(X))
        answer = np.full((len(X), columns), 0.5 if columns == 1 else 1 / columns)
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


@pytest.mark.parametrize("columns", [2, 3])
def test_probabilities_that_do_not_sum_to_one(columns):
    def predict(X):
        answer = np.full((len(X), columns), 1 / columns)
        answer[4, 0] += 0.002 if len(X) == 10 else 9e-4  # rounding is fine
        return answer

    model, Z = checked(predict, rows(BATCH + 10))
    message = rf"sum to 1\.002 on call 2, row {BATCH + 4}; if they are logits set model_output='logit', else divide"
    with pytest.raises(ModelOutputError, match=message) as caught:
        model.labels(Z)
    assert caught.value.rows == (BATCH + 4, BATCH + 4)
    logits, _ = checked(predict, rows(BATCH + 10), model_output="logit")
    assert logits.labels(Z).shape == (BATCH + 10,)


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2), (1, 2), (4, 3)])
def test_number_of_columns_changes(first, second):
    widths = iter([first, second])
    model, Z = checked(lambda X: np.full((len(X), width := next(widths)), 1 / width))
    model.labels(Z)
    with pytest.raises(ModelOutputError, match=rf"returned {second} columns on call 2 but {first} before"):
        model.labels(Z)


# ---------------------------------------------------------------- repeatability


def test_require_repeatable():
    model, Z = checked(lambda X: expit(X[:, 0]))
    model.require_repeatable(Z, model.probabilities(Z))
    three, Z = checked(lambda X: softmax(X, axis=1))
    three.require_repeatable(Z, three.probabilities(Z))
    three.require_repeatable(Z, three.probabilities(Z) + 1e-6)  # rounding of a batch
    assert three.n_calls == 6


@pytest.mark.parametrize("columns", [1, 3])
def test_model_that_changes_its_mind(columns):
    calls = []

    def predict(X):
        calls.append(1)
        answer = np.full((len(X), columns), 1 / max(columns, 2))
        answer[7:8, -1] += 2e-4 * len(calls)
        return answer

    model, Z = checked(predict)
    before = model.probabilities(Z)
    with pytest.raises(ModelOutputError, match=r"changed its answer to the same row by 0\.0006.*\(call 4, row 7\)"):
        model.require_repeatable(Z, before)
