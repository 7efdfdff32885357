"""Known answers, looked up by the content of a row."""

import numpy as np
import pytest
import shap
from explainer_helpers import IRIS, fitted, probability_of

from gpec.errors import ExplainerError, InputError
from gpec.explainers import Precomputed


def known(models, **changes):
    rows = np.random.default_rng(3).normal(size=(6, 3))
    parts = {"rows": rows, "values": models.slopes(rows), "variance": rows**2, "base_values": rows[:, 0]}
    return rows, Precomputed(**{**parts, **changes})


def test_known_answers_are_looked_up(models, X):
    rows, explainer = known(models)
    explainer = fitted(explainer, models.curved, X)
    order = [4, 0, 4, 2]
    found = explainer(rows[order])
    np.testing.assert_array_equal(found.values, models.slopes(rows)[order])
    np.testing.assert_array_equal(found.variance, rows[order] ** 2)
    np.testing.assert_array_equal(found.base_values, rows[order, 0])
    assert explainer.stochastic is False
    bare = fitted(known(models, variance=None, base_values=None)[1], models.curved, X)(rows[:2])
    assert bare.variance is None
    assert bare.base_values is None


def test_known_answers_of_several_classes(models, X):
    rows, explainer = known(models, variance=None, base_values=[0.1, 0.2, 0.7])
    explainer.set_params(values=models.slopes_of_three(rows))
    found = fitted(explainer, models.three_classes, X)(rows[3:5])
    np.testing.assert_array_equal(found.values, models.slopes_of_three(rows[3:5]))
    np.testing.assert_array_equal(found.base_values, [[0.1, 0.2, 0.7]] * 2)


def test_unknown_row_is_named_by_its_place(models, X):
    rows, explainer = known(models)
    many = np.repeat(rows[:1], 1_500, axis=0)  # more than one block of other explainers
    many[1_200] += 1e-12
    with pytest.raises(InputError, match="Row 1200 is not among the 6 rows whose attributions were given"):
        fitted(explainer, models.curved, X)(many)


def test_equal_rows_and_zeros_of_either_sign(models, X):
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    explainer = fitted(Precomputed(rows, np.arange(9.0).reshape(3, 3)), models.curved, X)
    np.testing.assert_array_equal(explainer(-rows[:1] * [1, -1, -1]).values, [[0.0, 1.0, 2.0]])


def test_known_answers_that_do_not_fit(models, X):
    with pytest.raises(ExplainerError, match=r"has shape \(5, 3\) for 6 rows"):
        fitted(known(models, values=np.zeros((5, 3)))[1], models.curved, X)
    with pytest.raises(InputError, match="rows has 2 features, but 3 are expected"):
        fitted(known(models, rows=np.zeros((6, 2)))[1], models.curved, X)


@pytest.mark.parametrize("classes", [2, 3])
def test_explanation_of_shap_is_an_explainer(forests, classes):
    explanation = shap.TreeExplainer(forests[classes])(IRIS[60:70])
    explainer = fitted(explanation, forests[classes])
    found = explainer(IRIS[63:66])
    expected = explanation.values[3:6]
    np.testing.assert_array_equal(found.values, expected[:, :, 1] if classes == 2 else expected)
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, probability_of(forests[classes], IRIS[63:66]), atol=1e-6
    )
    with pytest.raises(InputError, match="Row 1 is not among the 10 rows"):
        explainer(IRIS[69:71])


def test_spread_of_an_explanation_is_not_taken_for_its_variance(models, X):
    explanation = shap.Explanation(values=models.slopes(X), data=X, error_std=np.ones(X.shape))
    assert fitted(explanation, models.curved, X)(X[:3]).variance is None


def test_known_answers_of_a_frame(mixed):
    values = np.arange(5.0 * len(mixed.frame)).reshape(-1, 5)
    explainer = fitted(Precomputed(mixed.frame, values), mixed.model, mixed.frame)
    np.testing.assert_array_equal(explainer(mixed.frame[7:9]).values, values[7:9])
    explanation = shap.Explanation(values=values, data=mixed.frame.to_numpy())
    explainer = fitted(explanation, mixed.model, mixed.frame)
    np.testing.assert_array_equal(explainer(mixed.frame[7:9]).values, values[7:9])
