"""TreeSHAP adds up, is exact near thresholds, and refuses what it cannot read."""

import numpy as np
import pandas as pd
import pytest
from explainer_helpers import IRIS, SPECIES, fitted, probability_of
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from extras import catboost, lightgbm, xgboost
from gpec.errors import ExplainerError, InputError
from gpec.explainers import ExactShapley, TreeShap, make_explainer

LACKING = np.where(np.random.default_rng(3).random(IRIS.shape) < 0.2, np.nan, IRIS)
REFUSED = r"explainer='tree' cannot explain this {}: {}; use 'kernelshap' or, with up to 16 features, 'exact'"


def cats(**options):
    """A small CatBoost model that says nothing."""
    quiet = {"iterations": 10, "verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return catboost.CatBoostClassifier(**quiet, **options)


def light(**options):
    """A small LightGBM model that says nothing."""
    return lightgbm.LGBMClassifier(n_estimators=10, verbose=-1, n_jobs=1, min_child_samples=5, **options)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 70])
def test_tree_shap_adds_up_to_the_probability(forests, classes, n):
    forest = forests[classes]
    explainer = fitted("tree", forest)
    rows = IRIS[40 : 40 + n]
    found = explainer(rows)
    assert found.values.shape == ((n, 4) if classes == 2 else (n, 4, 3))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, probability_of(forest, rows), atol=1e-6)
    expected = np.broadcast_to(probability_of(forest, IRIS[:20]).mean(axis=0), found.base_values.shape)
    np.testing.assert_allclose(found.base_values, expected, atol=1e-6)
    assert explainer.stochastic is False
    assert explainer.unit == "probability"


def test_tree_shap_rounds_the_background_as_the_forest_does():
    rows, classes = load_iris(return_X_y=True)  # of one decimal, many just at a threshold
    forest = RandomForestClassifier(8, max_depth=3, random_state=0).fit(rows, classes == 1)
    found = fitted("tree", forest, rows)(rows[40:44])
    expected = forest.predict_proba(rows[40:44])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GradientBoostingClassifier(n_estimators=5, max_depth=2),
        lambda: xgboost.XGBClassifier(n_estimators=5, max_depth=2),
    ],
    ids=["boosting", "xgboost"],
)
def test_boosted_trees_are_explained_in_probabilities_too(build):
    model = build().fit(IRIS, SPECIES == 1)
    found = fitted(TreeShap(link="identity"), model)(IRIS[48:52])
    expected = model.predict_proba(IRIS[48:52])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-5)


@pytest.mark.parametrize("rows", [load_iris, load_wine], ids=lambda load: load.__name__)
def test_forests_have_exact_shapley_values_near_thresholds_too(rows):
    """Values of few decimals lie on thresholds; shap rounds these to single precision, and missed by up to 0.1."""
    X, classes = rows(return_X_y=True)
    forest = RandomForestClassifier(50, random_state=0).fit(X, classes)
    found, exact = (fitted(kind(), forest, X)(X[::20]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, exact.base_values, atol=1e-6)
    every = fitted("tree", forest, X)(X)
    np.testing.assert_allclose(every.values.sum(axis=1) + every.base_values, forest.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier, ExtraTreesClassifier])
@pytest.mark.parametrize("rows", [IRIS, LACKING], ids=["whole", "lacking"])
def test_trees_of_scikit_learn_are_exact(kind, rows):
    model = kind(random_state=0).fit(rows, SPECIES)
    found, exact = (fitted(each(), model, rows)(rows[30:60]) for each in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)


BOOSTED = {
    "boosting": lambda: GradientBoostingClassifier(n_estimators=10),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=10),
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=10),
    "lightgbm": light,
    "lightgbm, dart": lambda: light(boosting_type="dart"),
    "catboost": cats,
}


@pytest.mark.parametrize("name", BOOSTED)
@pytest.mark.parametrize("rows", [IRIS, LACKING], ids=["whole", "lacking"])
def test_boosted_trees_with_and_without_missing_values(name, rows):
    if name == "boosting" and rows is LACKING:
        pytest.skip("takes no missing values")
    model = BOOSTED[name]().fit(rows, SPECIES == 1)
    found = fitted(TreeShap(link="identity"), model, rows)(rows[30:70])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.predict_proba(rows[30:70])[:, 1], atol=1e-5
    )
    odds, exact = (fitted(kind(link="logit"), model, rows)(rows[45:55]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(odds.values, exact.values, atol=1e-5)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosters_are_read_too(library):
    if library == "xgboost":
        model = xgboost.XGBClassifier(n_estimators=10).fit(IRIS, SPECIES == 1).get_booster()
        expected = model.predict(xgboost.DMatrix(IRIS[40:60]))
    else:
        model = light().fit(IRIS, SPECIES == 1).booster_
        expected = model.predict(IRIS[40:60])
    found = fitted(TreeShap(link="identity"), model)(IRIS[40:60])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-5)


def test_all_background_rows_count():
    """shap draws a hundred of more."""
    rows = np.random.default_rng(0).normal(size=(400, 3))
    forest = RandomForestClassifier(5, random_state=0).fit(rows, rows.sum(axis=1) > 0)
    found, exact = (fitted(kind(), forest, rows, background=rows[:250])(rows[:5]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)
    assert found.base_values[0] == pytest.approx(forest.predict_proba(rows[:250])[:, 1].mean(), abs=1e-6)


def test_columns_that_are_bools_and_whole_numbers_are_numbers():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"yes": rng.random(80) < 0.5, "count": rng.integers(5, size=80), "size": rng.normal(size=80)})
    forest = RandomForestClassifier(10, random_state=0).fit(rows, rows["yes"] ^ (rows["size"] > 0))
    found, exact = (fitted(kind(), forest, rows, background=20)(rows[:9]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(found.values, exact.values, atol=1e-6)


def test_a_method_is_explained_as_its_model():
    for model, method in (
        (RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES == 1), "predict_proba"),
        (RandomForestRegressor(5, random_state=0).fit(IRIS[:, :3], IRIS[:, 3]), "predict"),
    ):
        rows = IRIS[:, : model.n_features_in_]
        whole, found = (fitted("tree", one, rows)(rows[:5]).values for one in (model, getattr(model, method)))
        np.testing.assert_array_equal(found, whole)
    forest = RandomForestClassifier(5, random_state=0).fit(IRIS, SPECIES == 1)
    with pytest.raises(ExplainerError, match=REFUSED.format("method", "its trees add up to other log-odds.*")):
        fitted("tree", forest.predict, IRIS)


# What is refused


OTHER = r"its trees add up to other log-odds \(off by 0\.\d+\)"
KINDS = {
    "a function": (lambda: (lambda X: X[:, 0] / 9, IRIS), "function", "it is not a tree model of .*"),
    "no tree": (lambda: (LogisticRegression().fit(IRIS, SPECIES == 1), IRIS), "LogisticRegression", "it is not .*"),
    "AdaBoost": (lambda: (AdaBoostClassifier().fit(IRIS, SPECIES == 1), IRIS), "AdaBoostClassifier", "it is not .*"),
    "XGBoost, linear": (
        lambda: (xgboost.XGBClassifier(n_estimators=3, booster="gblinear").fit(IRIS, SPECIES == 1), IRIS),
        "XGBClassifier",
        "it has no trees",
    ),
    "LightGBM, linear leaves": (
        lambda: (light(linear_tree=True).fit(IRIS, SPECIES == 1), IRIS),
        "LGBMClassifier",
        "its leaves hold linear models",
    ),
    "scikit-learn, exponential loss": (
        lambda: (GradientBoostingClassifier(n_estimators=10, loss="exponential").fit(IRIS, SPECIES == 1), IRIS),
        "GradientBoostingClassifier",
        OTHER,
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_what_cannot_be_explained_gets_one_sentence(case, capfd):
    make, kind, why = KINDS[case]
    model, rows = make()
    capfd.readouterr()
    with pytest.raises(ExplainerError, match=REFUSED.format(kind, f"({why})")):
        fitted("tree", model, rows, background=20)
    assert capfd.readouterr() == ("", "")


SEVERAL = "with several classes boosted trees add up to margins, which are neither probabilities nor log-odds; "


@pytest.mark.parametrize("link", ["identity", "logit"])
def test_margins_are_neither_probabilities_nor_log_odds(link):
    model = light().fit(IRIS, SPECIES)
    with pytest.raises(ExplainerError, match=f"{SEVERAL}use link='auto', which explains the margins"):
        fitted(TreeShap(link=link), model)


def test_what_has_no_path_dependent_values_gets_one_sentence(forests):
    why = "scikit-learn computes no path-dependent values; use perturbation='interventional'"
    with pytest.raises(ExplainerError, match=why):
        fitted(TreeShap(perturbation="tree_path_dependent"), forests[2])
    why = "path-dependent values are not rescaled to probabilities; use link='auto'"
    with pytest.raises(ExplainerError, match=why):
        fitted(TreeShap(link="identity", perturbation="tree_path_dependent"), light().fit(IRIS, SPECIES == 1))


def test_trees_that_gpec_cannot_read_have_the_librarys_values(monkeypatch):
    """A library that changes its format is no reason to compute Shapley values by sampling."""
    model = light().fit(IRIS, SPECIES)
    monkeypatch.setattr("gpec.explainers._tree_readers._of_lightgbm", lambda *tree: {}["left_child"])
    explainer = fitted("tree", model)
    assert explainer.perturbation_ == "tree_path_dependent"
    own = model.predict(IRIS[40:60], pred_contrib=True).reshape(20, 3, 5)
    np.testing.assert_allclose(explainer(IRIS[40:60]).values, own[:, :, :4].swapaxes(1, 2), atol=1e-12)
    why = r"gpec cannot read its trees \(KeyError: 'left_child'\); use perturbation='tree_path_dependent'"
    with pytest.raises(ExplainerError, match=why):
        fitted(TreeShap(perturbation="interventional"), model)


@pytest.mark.parametrize("perturbation", ["path", None, True])
def test_another_perturbation_is_refused(perturbation):
    with pytest.raises(InputError, match=r"perturbation=.* is not one of 'auto', 'interventional', 'tree_path_depen"):
        make_explainer(TreeShap(perturbation=perturbation))


def test_one_background_row_hides_nothing(monkeypatch):
    """It adds up to itself; other rows are looked at, too."""
    model = GradientBoostingClassifier(n_estimators=5).fit(IRIS, SPECIES == 1)
    monkeypatch.setattr("gpec.explainers._tree_readers._single", lambda rows: rows + 0.5)
    with pytest.raises(
        ExplainerError, match=r"values and base value add up to a number that is off by \d.*: gpec does"
    ):
        fitted("tree", model, background=IRIS[:1])


def test_a_tree_of_many_nodes():
    """shap numbers nodes with 16 bits, and crashed."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40_000, 3))
    model = DecisionTreeClassifier(random_state=0).fit(rows, rng.integers(2, size=len(rows)))
    assert model.tree_.node_count > 20_000
    found = fitted("tree", model, rows)(rows[:5])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, model.predict_proba(rows[:5])[:, 1], atol=1e-9
    )
