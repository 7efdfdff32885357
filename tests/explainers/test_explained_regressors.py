"""Explainers of regressors: exact where they can be, in units of the output, or refused in a sentence."""

import numpy as np
import pytest
import shap
from explainer_helpers import network, shapley_by_definition
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from extras import catboost, lightgbm, torch, xgboost
from gpec.errors import ExplainerError, InputError
from gpec.explainers import CXPlain, KernelShap, make_explainer
from gpec.images import SuperpixelExplainer

X = np.random.default_rng(0).normal(size=(150, 4))
Y = 1_000.0 + 300.0 * X[:, 0] * X[:, 1] - 200.0 * np.abs(X[:, 2]) + 5.0 * X[:, 3]
SLOPES = np.array([3.0, -200.0, 0.0, 40.0])
TREES = {
    "decision tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "extra tree": lambda: ExtraTreeRegressor(max_depth=4, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(5, max_depth=4, random_state=0),
    "forest": lambda: RandomForestRegressor(5, max_depth=4, random_state=0),
    "boosting": lambda: GradientBoostingRegressor(n_estimators=8, random_state=0),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=8),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbose=-1),
    "catboost": lambda: catboost.CatBoostRegressor(iterations=8, verbose=0, allow_writing_files=False, thread_count=1),
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestRegressor(5, max_depth=4, random_state=0)),
}


def linear(X):
    return 1e4 + np.asarray(X, dtype=float) @ SLOPES


def answer_of(explainer, model, rows=slice(0, 3), **options):
    own = make_explainer(explainer).fit(model, X, **{"background": X[:20], "model_output": "auto", **options})
    return own(X[rows]), own


@pytest.mark.parametrize("booster", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_tree_shap_is_what_the_definition_says(name, booster):
    if booster and name not in ("xgboost", "lightgbm"):
        pytest.skip("has no Booster")
    model = TREES[name]().fit(X, Y)
    given = model
    if booster:
        given = model.get_booster() if name == "xgboost" else model.booster_
    found, own = answer_of("tree", given)
    expected = [shapley_by_definition(model.predict, x, X[:20]) for x in X[:3]]
    np.testing.assert_allclose(found.values, expected, atol=2e-4)  # boosters answer in single precision
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:3]), rtol=1e-6)
    assert own.unit == "output"
    assert own.stochastic is False


@pytest.mark.parametrize("explainer", ["kernelshap", "exact", "shapley_sampling", "shap_kernel"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_shapley_values_of_a_linear_function(explainer, scale):
    if explainer == "shap_kernel":
        explainer = gpec_shap_kernel()
    found, own = answer_of(explainer, lambda X: scale * linear(X), model_output="value")
    expected = scale * (X[:3] - X[:20].mean(axis=0)) * SLOPES
    np.testing.assert_allclose(found.values, expected, rtol=1e-7, atol=1e-8 * scale)
    np.testing.assert_allclose(found.base_values, scale * linear(X[:20]).mean())
    assert own.unit == "output"


def gpec_shap_kernel():
    from gpec.explainers.adapters import ShapKernel

    return ShapKernel()


@pytest.mark.parametrize("explainer", ["lime", "bayeslime", "bayesshap"])
@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1e3, 0.0), (1.0, 1e6)])
def test_regressions_go_with_the_units(explainer, scale, shift):
    """Multiplying the output multiplies values and deviations; adding to it moves the base values alone."""

    def curved(X):
        return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]

    plain, own = answer_of(explainer, curved, model_output="value")
    other, _ = answer_of(explainer, lambda X: scale * curved(X) + shift, model_output="value")
    np.testing.assert_allclose(other.values, scale * plain.values, rtol=1e-5, atol=1e-6 * scale)
    np.testing.assert_allclose(other.variance, scale**2 * plain.variance, rtol=1e-5, atol=1e-7 * scale**2)
    if plain.base_values is not None:
        np.testing.assert_allclose(other.base_values, scale * plain.base_values + shift, rtol=1e-6)
    assert own.unit.startswith("output")


def test_focused_perturbations_go_with_the_units():
    from gpec.explainers import BayesShap

    def curved(X):
        return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]

    plain, _ = answer_of(BayesShap(sampling="focused"), curved, model_output="value")
    other, _ = answer_of(BayesShap(sampling="focused"), lambda X: 1e4 * curved(X), model_output="value")
    np.testing.assert_allclose(other.values, 1e4 * plain.values, rtol=1e-6)


def test_cxplain_shares_the_squared_change():
    pytest.importorskip("torch")
    found, _ = answer_of(CXPlain(n_estimators=2, n_train=60, n_epochs=100), linear, model_output="value")
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0)
    change = ((X - X[:20].mean(axis=0)) * SLOPES) ** 2
    assert found.values[:, 1].mean() == pytest.approx(
        (change / change.sum(axis=1, keepdims=True))[:, 1].mean(), abs=0.1
    )
    other, _ = answer_of(CXPlain(n_estimators=2, n_train=60, n_epochs=100), lambda X: 1e-6 * linear(X),
                         model_output="value")  # fmt: skip
    np.testing.assert_allclose(other.values, found.values, atol=1e-4)


@pytest.mark.parametrize("method", ["IntegratedGradients", "ShapleyValues", "DeepLift", "Saliency"])
def test_captum_explains_the_output_itself(method):
    module = network(4, 1)
    found, own = answer_of(f"captum:{method}", module, model_output="value")
    baseline = torch.as_tensor(X[:20].mean(axis=0)[None])
    with torch.no_grad():
        change = (module(torch.as_tensor(X[:3])) - module(baseline)).numpy()[:, 0]
    if method == "Saliency":
        assert (found.values >= 0).all()
    else:
        np.testing.assert_allclose(found.values.sum(axis=1), change, rtol=0.02)
    assert own.unit == "output"


def test_objects_of_shap_and_functions():
    model = LinearRegression().fit(X, Y)
    found, _ = answer_of(shap.LinearExplainer(model, X[:20]), model)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:3]))
    found, _ = answer_of(lambda X: X * SLOPES, model)
    np.testing.assert_array_equal(found.values, X[:3] * SLOPES)


def test_a_network_by_any_name():
    model = MLPRegressor(hidden_layer_sizes=(8,), max_iter=50, random_state=0, tol=1.0).fit(X, (Y - 1_000) / 300)
    found, _ = answer_of("exact", model)
    expected = [shapley_by_definition(model.predict, x, X[:20]) for x in X[:3]]
    np.testing.assert_allclose(found.values, expected, atol=1e-10)


# What is refused


@pytest.mark.parametrize("explainer", [KernelShap(link="logit"), make_explainer("lime").set_params(link="logit")])
def test_log_odds_of_a_number(explainer):
    with pytest.raises(InputError, match="link='logit' explains the log-odds of a classifier; for a regressor leave"):
        answer_of(explainer, LinearRegression().fit(X, Y))


def test_labels_of_a_number():
    with pytest.raises(InputError, match="truth='label' is for classifiers"):
        answer_of(CXPlain(truth="label"), LinearRegression().fit(X, Y))


@pytest.mark.parametrize(
    "build",
    [
        lambda: xgboost.XGBRegressor(n_estimators=5, n_jobs=1, objective="count:poisson"),
        lambda: lightgbm.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1, objective="poisson"),
        lambda: HistGradientBoostingRegressor(max_iter=5, loss="poisson"),
    ],
    ids=["xgboost", "lightgbm", "histograms"],
)
def test_trees_of_a_logarithm(build):
    with pytest.raises(
        ExplainerError,
        match=r"its trees add up to the logarithm or another function of its value \(off by .*\); use 'kernelshap'",
    ):
        answer_of("tree", build().fit(X, np.abs(Y)))


def test_not_a_tree():
    with pytest.raises(ExplainerError, match="it is not a tree model"):
        answer_of("tree", LinearRegression().fit(X, Y))


def test_two_columns_of_a_regressor():
    with pytest.raises(ExplainerError, match=r"shape \(3, 4, 2\) for 3 rows of a regressor; expected \(3, 4\)\."):
        answer_of(lambda X: np.zeros((len(X), 4, 2)), LinearRegression().fit(X, Y))


def test_superpixels_of_a_number():
    images = np.random.default_rng(0).random((5, 1, 4, 4))
    quarters = np.kron([[0, 1], [2, 3]], np.ones((2, 2), dtype=int))
    explainer = SuperpixelExplainer("exact", segments=quarters, baseline=0.0)
    found = explainer.fit(lambda shown: 1e3 * shown.sum(axis=(1, 2, 3)), images, model_output="value")(images[:2])
    for image, values in zip(images[:2, 0], found.values.reshape(2, 4, 4), strict=True):
        sums = np.kron(image.reshape(2, 2, 2, 2).sum(axis=(1, 3)), np.ones((2, 2)))
        np.testing.assert_allclose(values, 1e3 * sums)
    assert explainer.unit == "output, of the whole superpixel"
