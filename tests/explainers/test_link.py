"""link="logit": log-odds are explained in place of probabilities."""

import numpy as np
import pytest
from explainer_helpers import IRIS, SPECIES, fitted, network, shapley_by_definition
from scipy.special import expit, logit
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

import gpec
from extras import torch, xgboost
from gpec.errors import ExplainerError, InputError
from gpec.explainers import (
    BayesLime,
    BayesShap,
    CaptumAdapter,
    ExactShapley,
    KernelShap,
    Lime,
    ShapKernel,
    ShapleySampling,
    TreeShap,
    make_explainer,
)
from gpec.images import SuperpixelExplainer

SLOPES = np.array([2.0, -1.5, 0.0])
PER_DEVIATION = "per standard deviation, or for the row's own category"
UNITS = {
    BayesLime: f"log-odds {PER_DEVIATION}",
    BayesShap: "log-odds",
    CaptumAdapter: "log-odds",
    ExactShapley: "log-odds",
    KernelShap: "log-odds",
    Lime: f"log-odds {PER_DEVIATION}",
    ShapKernel: "log-odds",
    ShapleySampling: "log-odds",
}


def additive(X):
    """Log-odds are linear, so that their Shapley values are slope times distance to the mean."""
    return expit(np.asarray(X, dtype=float) @ SLOPES + 0.5)


def twisted(X):
    X = np.asarray(X, dtype=float)
    return expit(2 * X[:, 0] * X[:, 1] - X[:, 2])


@pytest.mark.parametrize("kind", UNITS, ids=lambda kind: kind.__name__)
def test_the_unit_says_what_is_explained(kind):
    assert kind(link="logit").unit == UNITS[kind]
    assert kind().unit == UNITS[kind].replace("log-odds", "probability")
    assert kind().get_params()["link"] == "identity"


@pytest.mark.parametrize("kind", [*UNITS, TreeShap], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("link", ["log", None, 1])
def test_another_link_is_refused(kind, link):
    with pytest.raises(InputError, match=r"link=.* is not one of ('auto', )?'identity', 'logit'"):
        make_explainer(kind(link=link))


@pytest.mark.parametrize(
    "explainer", [ExactShapley(link="logit"), KernelShap(link="logit"), ShapleySampling(200, link="logit")], ids=repr
)
def test_shapley_values_of_linear_log_odds_in_closed_form(explainer, X):
    found = fitted(explainer, additive, X)(X[:6])
    np.testing.assert_allclose(found.values, SLOPES * (X[:6] - X[:20].mean(axis=0)), atol=1e-9)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, logit(additive(X[:6])), atol=1e-9)
    np.testing.assert_allclose(found.base_values, logit(additive(X[:20])).mean(), atol=1e-9)


@pytest.mark.parametrize("explainer", [ExactShapley(link="logit"), KernelShap(link="logit")], ids=repr)
def test_shapley_values_of_log_odds_by_definition(explainer, X):
    found = fitted(explainer, twisted, X)(X[:4]).values
    expected = [shapley_by_definition(lambda rows: logit(twisted(rows)), x, X[:20]) for x in X[:4]]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("explainer", [ExactShapley(link="logit"), KernelShap(link="logit")], ids=repr)
def test_each_of_several_classes_has_log_odds_against_all_others(explainer, models, X):
    found = fitted(explainer, models.three_classes, X)(X[:3])
    for i in range(3):
        expected = shapley_by_definition(lambda rows: logit(models.three_classes(rows)), X[i], X[:20])
        np.testing.assert_allclose(found.values[i], expected, atol=1e-9)


def test_shaps_own_kernelshap_keeps_its_meaning(X):
    """It takes the log-odds of the mean probability, ours the mean of log-odds."""
    found = fitted(ShapKernel(link="logit"), twisted, X)(X[:3])

    def value(x):
        def of(members):
            rows = X[:20].copy()
            rows[:, list(members)] = x[list(members)]
            return logit(twisted(rows).mean())

        return of

    for i in range(3):
        expected = shapley_of_game(value(X[i]), 3)
        np.testing.assert_allclose(found.values[i], expected, atol=1e-6)
        np.testing.assert_allclose(found.base_values[i], value(X[i])(()), atol=1e-9)
    ours = fitted(KernelShap(link="logit"), twisted, X)(X[:3])
    assert np.abs(ours.values - found.values).max() > 0.1


def shapley_of_game(value, d):
    from itertools import permutations

    total, orders = np.zeros(d), list(permutations(range(d)))
    for order in orders:
        for place, j in enumerate(order):
            total[j] += value(order[: place + 1]) - value(order[:place])
    return total / len(orders)


def test_bayesshap_estimates_shapley_values_of_log_odds(X):
    found = fitted(BayesShap(4_000, n_background=8, link="logit"), additive, X)(X[:3])
    np.testing.assert_allclose(found.values, SLOPES * (X[:3] - X[:20].mean(axis=0)), atol=0.15)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, logit(additive(X[:3])), atol=0.05)


@pytest.mark.parametrize("explainer", [Lime(2_000, link="logit"), BayesLime(2_000, link="logit")], ids=repr)
def test_slopes_of_log_odds(explainer, X):
    found = fitted(explainer, additive, X)(X[:3])
    np.testing.assert_allclose(found.values, np.tile(SLOPES * X.std(axis=0), (3, 1)), atol=0.02)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GradientBoostingClassifier(n_estimators=10, max_depth=3),
        lambda: HistGradientBoostingClassifier(max_iter=10),
        lambda: xgboost.XGBClassifier(n_estimators=10, max_depth=3),
    ],
    ids=["boosting", "histograms", "xgboost"],
)
def test_boosted_trees_have_exact_shapley_values_of_log_odds(build):
    model = build().fit(IRIS, SPECIES == 1)
    found, exact = (fitted(kind(link="logit"), model)(IRIS[40:60]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-5)
    np.testing.assert_allclose(found.base_values, exact.base_values, atol=1e-5)
    assert np.abs(exact.values).max() > 0.5


def test_trees_that_add_up_to_a_probability_have_no_log_odds():
    forest = RandomForestClassifier(5).fit(IRIS, SPECIES == 1)
    with pytest.raises(
        ExplainerError, match=r"not to log-odds; use KernelShap\(link='logit'\) or, .*ExactShapley\(lin"
    ):
        fitted(TreeShap(link="logit"), forest)


def test_log_odds_of_a_sure_model_are_finite():
    forest = RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES)
    assert (forest.predict_proba(IRIS) == 1).any()
    for explainer in (KernelShap(link="logit"), ShapKernel(link="logit"), BayesLime(50, link="logit")):
        found = fitted(explainer, forest)(IRIS[::30])
        assert np.isfinite(found.values).all()
        assert np.abs(found.values).max() > 1


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_captum_explains_log_odds(outputs):
    module, rows = network(3, outputs), np.random.default_rng(2).normal(size=(30, 3))
    explainer = fitted(CaptumAdapter("IntegratedGradients", {"n_steps": 300}, link="logit"), module, rows)
    found = explainer(rows[:4])
    odds = explainer.model_.log_odds(rows[:4])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, odds[:, 0] if outputs < 3 else odds, atol=0.02
    )


def test_captum_takes_log_odds_of_a_module_that_gives_probabilities():
    rows = np.random.default_rng(2).normal(size=(30, 3))
    linear = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        linear.weight.copy_(torch.as_tensor(SLOPES)[None])
    module = torch.nn.Sequential(linear, torch.nn.Sigmoid())
    explainer = make_explainer(CaptumAdapter("IntegratedGradients", link="logit"))
    found = explainer.fit(module, rows, background=rows[:20], model_output="probability")(rows[:4])
    np.testing.assert_allclose(found.values, SLOPES * (rows[:4] - rows[:20].mean(axis=0)), atol=1e-6)


def test_superpixels_explain_what_their_explainer_does():
    images = np.random.default_rng(0).uniform(size=(8, 4, 4))
    halves = np.repeat([[0, 0, 1, 1]], 4, axis=0)

    def model(X):
        means = np.stack([X[:, q == halves].mean(axis=1) for q in range(2)], axis=1)
        return expit(means @ [3.0, -2.0])

    over = SuperpixelExplainer(KernelShap(link="logit"), segments=halves, baseline=0.0)
    assert over.unit == "log-odds, of the whole superpixel"
    assert SuperpixelExplainer("lime").unit == "probability, of the whole superpixel"
    found = over.fit(model, images)(images[:2])
    means = np.stack([images[:2, q == halves].mean(axis=1) for q in range(2)], axis=1)
    np.testing.assert_allclose(found.values[:, [0, 2]], means * [3.0, -2.0], atol=1e-9)
    np.testing.assert_allclose(found.base_values, 0.0, atol=1e-9)


def test_superpixels_keep_log_odds_where_the_probability_is_1():
    """With logits of 30 the probability has lost them: 1 - p is 9e-14, known to three digits."""
    images = np.ones((3, 2, 2))
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 1, bias=False)).double()
    torch.nn.init.constant_(module[1].weight, 33.0 / 4)
    over = SuperpixelExplainer(KernelShap(link="logit"), segments=[[0, 1], [2, 3]], baseline=0.0)
    found = over.fit(module, images)(images[:1])
    np.testing.assert_allclose(found.values, 33.0 / 4, atol=1e-9)


def test_gpec_names_the_unit(models, X):
    g = gpec.GPEC(models.curved, KernelShap(link="logit"), n_boundary=40, n_explained=12, background=10, random_state=0)
    assert g.fit(X).diagnostics_["unit"] == "log-odds"
    e = g.explain(X[:3])
    assert e.diagnostics["unit"] == "log-odds"
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, logit(models.curved(X[:3])), atol=1e-9)
