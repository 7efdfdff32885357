"""One unit in one result: given attributions and the explainer's, values and the base value they start from."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import gpec
from gpec.errors import InputError
from gpec.explainers import KernelShap, TreeShap


@pytest.fixture(scope="module")
def boosted():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(X, y)
    log_odds = shap.TreeExplainer(model, X[:40], feature_perturbation="interventional").shap_values(X[:80])
    return SimpleNamespace(X=X, model=model, log_odds=log_odds, background=X[:40])


def fit(boosted, explainer, attributions):
    g = gpec.GPEC(
        boosted.model, explainer, background=boosted.background, n_boundary=100, random_state=0, progress=False
    )
    return g.fit(boosted.X, X_explained=boosted.X[:80], attributions=attributions)


# Given attributions and an explainer in other units


@pytest.mark.parametrize("explainer", ["kernelshap", "exact", TreeShap(link="identity"), "lime"])
def test_log_odds_given_and_probabilities_later(boosted, explainer):
    g = fit(boosted, explainer, boosted.log_odds)
    for _ in range(2):  # and again
        with pytest.raises(InputError, match=r"unit: log-odds.*differ by \d+% of their size on 5 rows.*'posterior'"):
            g.explain(boosted.X[100:103])
    e = g.explain(boosted.X[:3], attribution="posterior")
    assert np.isfinite(e.std).all()


@pytest.mark.parametrize("explainer", [TreeShap(link="logit"), KernelShap(link="logit"), "shap"])
def test_log_odds_given_and_log_odds_later(boosted, explainer):
    if explainer == "shap":
        explainer = shap.TreeExplainer(boosted.model, boosted.background, feature_perturbation="interventional")
    own = shap.TreeExplainer(boosted.model, boosted.background, feature_perturbation="interventional")
    e = fit(boosted, explainer, boosted.log_odds).explain(boosted.X[100:103])
    np.testing.assert_allclose(e.values, own.shap_values(boosted.X[100:103]), atol=1e-4)


def test_probabilities_given_and_log_odds_later(boosted):
    own = gpec.explainers.ExactShapley().fit(boosted.model, boosted.background)(boosted.X[:80]).values
    with pytest.raises(InputError, match=r"unit: probability.*unit: log-odds.*pass TreeShap\(link='identity'\)"):
        fit(boosted, TreeShap(link="logit"), own).explain(boosted.X[100:103])
    assert (fit(boosted, "exact", own).explain(boosted.X[100:103]).values != 0).any()


def test_another_class_given(boosted):
    with pytest.raises(InputError, match=r"add up to the log-odds of class '0', but gpec explains class '1'"):
        fit(boosted, TreeShap(link="logit"), -boosted.log_odds)


def test_difference_within_the_noise(make, models, X):
    """What the variances of both explain is no difference of units."""
    rng = np.random.default_rng(0)
    noisy = models.slopes(X) + rng.normal(size=X.shape)
    with pytest.raises(InputError, match="differ by"):
        make().fit(X, attributions=noisy).explain(X[:3] + 1)
    g = make().fit(X, attributions=noisy, attribution_variance=np.ones(X.shape))
    np.testing.assert_array_equal(g.explain(X[:3] + 1).values, models.slopes(X[:3] + 1))


def test_attributions_of_zero(make, X):
    g = make(explainer=lambda X: 0.0 * X).fit(X, attributions=np.zeros(X.shape))
    assert (g.explain(X[:3]).values == 0).all()


def test_after_loading(tmp_path, boosted):
    fit(boosted, "exact", boosted.log_odds).save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=boosted.model)
    with pytest.raises(InputError, match=r"pass ExactShapley\(link='logit'\)"):
        loaded.explain(boosted.X[100:103])
    np.testing.assert_array_equal(loaded.explain(boosted.X[:3]).values, boosted.log_odds[:3])
    loaded = gpec.GPEC.load(tmp_path / "g", model=boosted.model, explainer=TreeShap(link="logit"))
    assert np.isfinite(loaded.explain(boosted.X[100:103]).width).all()


# The base value of the posterior


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("explainer", ["exact", "tree", "kernelshap"])
def test_posterior_starts_from_the_explainers_base_value(explainer, classes):
    X, y = load_iris(return_X_y=True)
    y = y if classes == 3 else y == 1
    model = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X, y)
    small = {"n_boundary": 60, "n_explained": 30, "background": X[::10], "random_state": 0, "progress": False}
    g = gpec.GPEC(model, explainer, mode="predict", **small).fit(X)
    own, posterior = g.explain(X[:4]), g.explain(X[:4], attribution="posterior")
    np.testing.assert_allclose(posterior.base_values, own.base_values, atol=1e-9)
    s = posterior.to_shap()
    np.testing.assert_array_equal(s.base_values, posterior.base_values)
    base = model.predict_proba(X[::10]).mean(axis=0)
    np.testing.assert_allclose(s.base_values[0], base if classes == 3 else base[1], atol=1e-6)
    one = s[0] if classes == 2 else s[0, :, 2]
    try:
        shap.plots.waterfall(one, show=False)
        words = " ".join(text.get_text() for axes in plt.gcf().axes for text in axes.get_xticklabels())
    finally:
        plt.close("all")
    shown = one.base_values + one.values.sum()
    assert f"{shown:.3f}".rstrip("0").rstrip(".").replace("-", "\N{MINUS SIGN}") in words, words


def test_base_values_that_differ_have_no_common_one(make, X):
    """BayesSHAP has another intercept for each row: the posterior has none, and shap draws from 0."""
    g = make(explainer="bayesshap", n_explained=10).fit(X)
    assert np.ptp(g.explain(X[:4]).base_values) > 1e-6
    e = g.explain(X[:4], attribution="posterior")
    assert e.base_values is None
    assert (e.to_shap().base_values == 0).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_explanation_of_shap_as_attributions(make, models, X, classes):
    """Its values, its base value, and its names, by which columns find their places."""
    model = models.curved if classes == 2 else models.three_classes
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    own = gpec.explainers.ExactShapley().fit(lambda rows: model(np.asarray(rows)), X[:5])(X[:30])
    order = [2, 0, 1]
    s = shap.Explanation(own.values[:, order], own.base_values, X[:30, order], feature_names=["c", "a", "b"])
    g = make(lambda rows: model(np.asarray(rows)), None, n_explained=30).fit(
        frame, X_explained=frame[:30], attributions=s
    )
    np.testing.assert_array_equal(g.attributions_.values, own.values)
    e = g.explain(frame[:4], attribution="posterior")
    np.testing.assert_array_equal(e.base_values, own.base_values[:4])
    one = shap.Explanation(own.values, own.base_values[0], X[:30])  # one base value for all rows, names of shap's own
    g.fit(frame, X_explained=frame[:30], attributions=one)
    np.testing.assert_array_equal(g.attributions_.values, own.values)
    np.testing.assert_array_equal(g.explain(frame[:4], attribution="posterior").base_values, own.base_values[:4])


def test_base_value_after_loading(tmp_path, make, X):
    g = make(explainer="exact").fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model)
    e = loaded.explain(X[:4], attribution="posterior")
    np.testing.assert_array_equal(e.base_values, g.explain(X[:4]).base_values)
