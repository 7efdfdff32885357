"""TreeSHAP by shap: adds up, is exact for forests, and refuses what shap misreads or dies of."""

import subprocess
import sys

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
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from extras import catboost, lightgbm, xgboost
from gpec.errors import ExplainerError
from gpec.explainers import ExactShapley, TreeShap

HOLES = np.random.default_rng(3).random(IRIS.shape) < 0.2
LACKING = np.where(HOLES, np.nan, IRIS)
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
    found = fitted("tree", model)(IRIS[48:52])
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
    found = fitted("tree", model, rows)(rows[30:70])
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
    found = fitted("tree", model)(IRIS[40:60])
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


# What is refused


def xgboost_of_categories(codes):
    values = np.random.default_rng(1).integers(5, size=len(IRIS))
    frame = pd.DataFrame(IRIS, columns=list("wxyz"))
    frame["kind"] = pd.Categorical(values if codes else np.array(list("abcde"))[values])
    target = np.isin(values, [0, 2]) ^ (SPECIES == 1)
    return xgboost.XGBClassifier(n_estimators=10, enable_categorical=True).fit(frame, target), frame


def lightgbm_of_categories(text):
    values = np.random.default_rng(1).integers(5, size=len(IRIS))
    frame = pd.DataFrame(IRIS, columns=list("wxyz"))
    frame["kind"] = pd.Categorical(np.array(list("abcde"))[values]) if text else values
    target = np.isin(values, [0, 2]) ^ (SPECIES == 1)
    options = {} if text else {"categorical_feature": [4]}
    return light(min_data_per_group=5).fit(frame, target, **options), frame


def catboost_of(column, **options):
    frame = pd.DataFrame(IRIS, columns=list("wxyz"))
    words = np.random.default_rng(1).choice(["good day", "bad day", "good night"], len(IRIS))
    frame[column] = words
    return cats(**options).fit(frame, np.char.startswith(words.astype(str), "good")), frame


def hist_of_categories():
    rows = np.column_stack((IRIS, np.random.default_rng(1).integers(5, size=len(IRIS))))
    model = HistGradientBoostingClassifier(max_iter=10, categorical_features=[4], min_samples_leaf=5)
    return model.fit(rows, (rows[:, 4] % 2 == 0) ^ (SPECIES == 1)), rows


SEVERAL = (
    "with several classes boosted trees add up to margins, which shap converts neither to probabilities nor to log-odds"
)
OFF = r"shap does not read its trees correctly.* off by 0\.\d+ .*"
CATEGORIES = "it splits on categories, which shap does not support"
TEXT = "it uses columns that are not numbers, which shap does not support"
UNREADABLE = "shap cannot read its trees"
KINDS = {
    "a function": (lambda: (lambda X: X[:, 0] / 9, IRIS), "function", "it is not a tree model of .*"),
    "no tree": (lambda: (LogisticRegression().fit(IRIS, SPECIES == 1), IRIS), "LogisticRegression", "it is not .*"),
    "AdaBoost": (lambda: (AdaBoostClassifier().fit(IRIS, SPECIES == 1), IRIS), "AdaBoostClassifier", "it is not .*"),
    "scikit-learn, several": (
        lambda: (GradientBoostingClassifier(n_estimators=3).fit(IRIS, SPECIES), IRIS),
        "GradientBoostingClassifier",
        SEVERAL,
    ),
    "XGBoost, several": (
        lambda: (xgboost.XGBClassifier(n_estimators=3).fit(IRIS, SPECIES), IRIS),
        "XGBClassifier",
        SEVERAL,
    ),
    "LightGBM, several": (lambda: (light().fit(IRIS, SPECIES), IRIS), "LGBMClassifier", SEVERAL),
    "CatBoost, several": (lambda: (cats().fit(IRIS, SPECIES), IRIS), "CatBoostClassifier", SEVERAL),
    "CatBoost, lossguide": (
        lambda: (cats(grow_policy="Lossguide").fit(IRIS, SPECIES == 1), IRIS),
        "CatBoostClassifier",
        UNREADABLE,
    ),
    "CatBoost, missing last": (
        lambda: (cats(nan_mode="Max").fit(LACKING, SPECIES == 1), LACKING),
        "CatBoostClassifier",
        OFF,
    ),
    "CatBoost, categories": (
        lambda: catboost_of("kind", cat_features=["kind"]),
        "CatBoostClassifier",
        "it splits on categories or text, which shap does not support",
    ),
    "CatBoost, text": (
        lambda: catboost_of("words", text_features=["words"]),
        "CatBoostClassifier",
        "it splits on categories or text, which shap does not support",
    ),
    "XGBoost, codes": (lambda: xgboost_of_categories(codes=True), "XGBClassifier", CATEGORIES),
    "XGBoost, text": (lambda: xgboost_of_categories(codes=False), "XGBClassifier", TEXT),
    "XGBoost, linear": (
        lambda: (xgboost.XGBClassifier(n_estimators=3, booster="gblinear").fit(IRIS, SPECIES == 1), IRIS),
        "XGBClassifier",
        UNREADABLE,
    ),
    "XGBoost, forest": (
        lambda: (xgboost.XGBRFClassifier(n_estimators=3).fit(IRIS, SPECIES == 1), IRIS),
        "XGBRFClassifier",
        UNREADABLE,
    ),
    "XGBoost, dropped trees": (
        lambda: (
            xgboost.XGBClassifier(n_estimators=20, booster="dart", rate_drop=0.3).fit(IRIS, SPECIES == 1),
            IRIS,
        ),
        "XGBClassifier",
        OFF,
    ),
    "XGBoost, missing is -1": (
        lambda: (
            xgboost.XGBClassifier(n_estimators=10, missing=-1.0).fit(np.where(HOLES, -1.0, IRIS), SPECIES == 1),
            np.where(HOLES, -1.0, IRIS),
        ),
        "XGBClassifier",
        OFF,
    ),
    "LightGBM, codes": (lambda: lightgbm_of_categories(text=False), "LGBMClassifier", CATEGORIES),
    "LightGBM, text": (lambda: lightgbm_of_categories(text=True), "LGBMClassifier", TEXT),
    "LightGBM, linear leaves": (
        lambda: (light(linear_tree=True).fit(IRIS, SPECIES == 1), IRIS),
        "LGBMClassifier",
        OFF,
    ),
    "scikit-learn, categories": (hist_of_categories, "HistGradientBoostingClassifier", OFF),
    "scikit-learn, exponential loss": (
        lambda: (GradientBoostingClassifier(n_estimators=10, loss="exponential").fit(IRIS, SPECIES == 1), IRIS),
        "GradientBoostingClassifier",
        OFF,
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_what_shap_cannot_explain_gets_one_sentence(case, capfd):
    make, kind, why = KINDS[case]
    model, rows = make()
    capfd.readouterr()
    with pytest.raises(ExplainerError, match=REFUSED.format(kind, f"({why})")):
        fitted("tree", model, rows, background=20)
    assert capfd.readouterr() == ("", "")


def test_what_is_refused_has_values_by_kernelshap():
    model = light().fit(IRIS, SPECIES)
    found = fitted("kernelshap", model)(IRIS[:3])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model.predict_proba(IRIS[:3]), atol=1e-9)


def test_one_background_row_hides_nothing():
    """It adds up to itself; other rows are looked at, too."""
    model, rows = hist_of_categories()
    with pytest.raises(ExplainerError, match=r"off by 0\.\d+"):
        fitted("tree", model, rows, background=rows[:1])


@pytest.mark.parametrize(("engine", "method"), [("_exact", "values"), ("_shap", "shap_values")])
def test_values_that_do_not_add_up_are_refused_later_too(forests, monkeypatch, engine, method):
    boosted = GradientBoostingClassifier(n_estimators=5).fit(IRIS, SPECIES == 1)
    explainer = fitted("tree", boosted if engine == "_shap" else forests[2])
    used = getattr(explainer._trees, engine)
    original = getattr(used, method)
    monkeypatch.setattr(used, method, lambda *a, **options: 1.1 * original(*a, **options))
    with pytest.raises(ExplainerError, match=r"TreeSHAP failed: .* differs from the trees' answer by 0\.\d+;"):
        explainer(IRIS[40:60])


NATIVE = """
import numpy as np
from catboost import CatBoostClassifier
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier
from gpec.errors import ExplainerError
from gpec.explainers import TreeShap

rng = np.random.default_rng(0)
large = rng.normal(size=(70_000, 3))
X, y = load_iris(return_X_y=True)
catboost = CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, thread_count=1)
for model, rows in (
    (catboost.fit(X, y), X),
    (DecisionTreeClassifier(random_state=0).fit(large, rng.integers(2, size=len(large))), large),
):
    try:
        TreeShap().fit(model, rows, background=5)(rows[:5])
    except ExplainerError as error:
        print(str(error).partition(": ")[2].partition(";")[0])
"""


def test_nothing_ends_the_process(one_process_environment):
    """shap dies of CatBoost with several classes, and of trees with more nodes than a 16-bit number can count."""
    pytest.importorskip("catboost")
    run = subprocess.run(  # noqa: S603  our own text
        [sys.executable, "-W", "ignore", "-c", NATIVE], capture_output=True, text=True, env=one_process_environment
    )
    assert run.returncode == 0, run.stderr
    several, nodes = run.stdout.splitlines()
    assert several == SEVERAL
    assert nodes.startswith("a tree has ")
    assert nodes.endswith(" nodes, more than shap supports (32,767)")
