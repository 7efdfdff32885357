"""KernelSHAP by shap."""

import numpy as np
import pytest
import shap
from explainer_helpers import fitted

from gpec.errors import InputError, ModelCallError, ParameterTypeError
from gpec.explainers import ShapKernel, make_explainer


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_kernel_shap_adds_up_to_the_probability(models, X, classes, n):
    function = models.curved if classes == 2 else models.three_classes
    found = fitted(ShapKernel(), function, X)(X[:n])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, function(X[:n]), atol=1e-9)
    np.testing.assert_allclose(
        found.base_values, np.broadcast_to(function(X[:20]).mean(axis=0), found.base_values.shape)
    )


def test_kernel_shap_is_exact_for_an_additive_model(X):
    weights = np.array([0.1, -0.05, 0.0])
    found = fitted(ShapKernel(), lambda X: 0.5 + X @ weights, X)(X[:5])
    np.testing.assert_allclose(found.values, weights * (X[:5] - X[:20].mean(axis=0)), atol=1e-8)


def test_kernel_shap_of_one_feature(X):
    found = fitted(ShapKernel(), lambda X: 1 / (1 + np.exp(-X[:, 0])), X[:, :1])(X[:4, :1])
    p = 1 / (1 + np.exp(-X[:, 0]))
    np.testing.assert_allclose(found.values[:, 0], p[:4] - p[:20].mean(), atol=1e-9)


def test_kernel_shap_knows_whether_it_samples(models, X):
    assert fitted(ShapKernel(), models.curved, X).stochastic is False
    assert fitted(ShapKernel(n_samples=6), models.curved, X).stochastic is False  # all 2^3 - 2 coalitions
    assert fitted(ShapKernel(n_samples=5), models.curved, X).stochastic is True
    wide = np.random.default_rng(0).normal(size=(30, 12))
    assert fitted(ShapKernel(), lambda X: (X[:, 0] > 0) * 1.0, wide).stochastic is True
    wide = np.random.default_rng(0).normal(size=(30, 60))
    assert fitted(ShapKernel(n_samples=10**30), lambda X: (X[:, 0] > 0) * 1.0, wide).stochastic is True


@pytest.mark.parametrize("n_samples", [0, -3, "many"])
def test_kernel_shap_refuses_a_number_of_samples(n_samples):
    with pytest.raises(InputError, match="n_samples="):
        make_explainer(ShapKernel(n_samples=n_samples))


@pytest.mark.parametrize("n_samples", [2.5, None, True])
def test_kernel_shap_refuses_a_type_of_samples(n_samples):
    with pytest.raises(ParameterTypeError, match="n_samples="):
        make_explainer(ShapKernel(n_samples=n_samples))


def test_kernel_shap_takes_categories(mixed):
    found = fitted(ShapKernel(n_samples=40), mixed.model, mixed.frame)(mixed.frame[:2])
    expected = mixed.model.predict_proba(mixed.frame[:2])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-9)


def test_model_that_fails_inside_kernel_shap(counting, models, X, capsys):
    def before(call, X):
        if call > 1:
            raise ValueError("model is tired")

    with pytest.raises(ModelCallError, match="model is tired") as error:
        fitted(ShapKernel(), counting(models.curved, before=before), X)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("n_samples", ["auto", 6, 4])
def test_rows_do_not_depend_on_the_rows_beside_them(models, X, n_samples):
    explainer = fitted(ShapKernel(n_samples), models.curved, X)
    together = explainer.explain(X[:6], seed=3).values
    alone = np.concatenate([explainer.explain(X[i : i + 1], seed=3).values for i in range(6)])
    backwards = explainer.explain(X[:6][::-1], seed=3).values[::-1]
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)
    np.testing.assert_allclose(backwards, together, rtol=0, atol=1e-12)


def test_seeds_and_runs(models, X):
    explainer = fitted(ShapKernel(n_samples=4), models.curved, X)
    first = explainer.explain(X[:6], seed=3).values
    np.testing.assert_array_equal(explainer.explain(X[:6], seed=3).values, first)
    assert np.abs(explainer.explain(X[:6], seed=4).values - first).max() > 1e-3
    assert np.abs(explainer.explain(X[:6], seed=3, run=1).values - first).max() > 1e-3


def test_zero_has_no_sign(models, X):
    explainer = fitted(ShapKernel(n_samples=4), models.curved, X)
    row = np.array([[0.0, 1.0, -1.0]])
    np.testing.assert_array_equal(
        explainer.explain(row, seed=3).values, explainer.explain(row * [-1.0, 1.0, 1.0], seed=3).values
    )


@pytest.mark.parametrize("explainer", ["kernelshap", ShapKernel(4), "object"])
def test_numpys_generator_is_left_alone(models, X, explainer):
    if explainer == "object":
        explainer = shap.KernelExplainer(models.curved, X[:5])
    np.random.seed(11)
    before = np.random.get_state()[1].copy(), np.random.get_state()[2]
    fitted(explainer, models.curved, X)(X[:2])
    assert (np.random.get_state()[1] == before[0]).all()
    assert np.random.get_state()[2] == before[1]


def test_numpys_generator_is_left_alone_by_an_explainer_that_fails(counting, models, X):
    def before(call, rows):
        if len(rows) > 20:  # the coalitions of a row, not the background
            raise ValueError("model is tired")

    explainer = fitted(ShapKernel(4), counting(models.curved, before=before), X)
    np.random.seed(11)
    with pytest.raises(ModelCallError, match="model is tired"):
        explainer(X[:2])
    assert np.random.random() == np.random.RandomState(11).random()
