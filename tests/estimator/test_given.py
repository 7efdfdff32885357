"""Attributions that users have already: their rows are explained without an explainer, and wrong ones are named."""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression

import gpec
from gpec.errors import InputError

NOT_CHECKED = "Not checked (uncalibrated): calibrate runs the explainer on similar rows to check it."
SMALL = {"kernel": "rbf", "background": 10, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def wine():
    """Three classes; 40 labelled rows with the values of shap, and others."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = X.sample(frac=1, random_state=0)
    X.index = [f"wine {i}" for i in X.index]
    y = load_wine().target[[int(label.split()[1]) for label in X.index]]
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:100], y[:100])
    boosted = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X[:100], np.where(y == 1, "b", "a")[:100])
    rows, others = X[100:140], X[140:170]
    values = shap.TreeExplainer(forest)(rows)
    return SimpleNamespace(X=X, y=y, forest=forest, boosted=boosted, rows=rows, others=others, values=values)


@pytest.fixture(scope="module")
def fitted(wine):
    return gpec.GPEC(wine.forest, None, **SMALL).fit(wine.rows, attributions=wine.values)


# The rows that were given


def test_their_attributions_are_those_given(wine, fitted):
    some = wine.rows[::-3]
    e = fitted.explain(some)
    np.testing.assert_array_equal(e.values, wine.values.values[::-3])
    np.testing.assert_allclose(e.base_values, wine.values.base_values[::-3])
    assert list(e.row_names) == list(some.index)
    assert (e.lower < e.upper).any()
    assert e.diagnostics["mode"] == "predict"
    assert NOT_CHECKED in e.statement()
    assert e.statement().endswith("The attributions were given, and add up to the model's probability.")


def test_the_explainer_is_not_run_on_them(wine):
    def explainer(rows):
        raise AssertionError("it was run")

    g = gpec.GPEC(wine.forest, explainer, **SMALL).fit(wine.rows, attributions=wine.values)
    np.testing.assert_array_equal(g.explain(wine.rows).values, wine.values.values)


def test_other_rows_need_an_explainer(wine, fitted):
    with pytest.raises(InputError, match=r"^Row 2 is not among the 40 rows whose attributions were given to fit"):
        fitted.explain(pd.concat([wine.rows[:2], wine.others[:2]]))
    with pytest.raises(InputError, match=r"There is no explainer, which calibrate runs on similar rows"):
        fitted.calibrate(wine.others)
    for call in (fitted.refine, lambda _: fitted.explain(wine.rows, n_similar_explained=1)):
        with pytest.raises(InputError, match="There is no explainer"):
            call(wine.others)
    assert fitted.explain(wine.others[:2], attribution="posterior").shape == (2, 13, 3)


def test_given_rows_and_others_in_one_call(wine):
    explainer = shap.TreeExplainer(wine.forest)
    g = gpec.GPEC(wine.forest, explainer, **SMALL).fit(wine.rows, attributions=wine.values)
    both = pd.concat([wine.others[:2], wine.rows[:2], wine.others[2:4]])
    np.testing.assert_allclose(g.explain(both).values, explainer(both).values, atol=1e-12)


def test_attributions_given_to_explain(wine, fitted):
    own = shap.TreeExplainer(wine.forest)(wine.others)
    for attributions in (own, own.values):
        e = fitted.explain(wine.others, attributions=attributions)
        np.testing.assert_array_equal(e.values, own.values)
        np.testing.assert_allclose(e.base_values, own.base_values)
    with pytest.raises(InputError, match=r"shape \(30, 13, 3\); expected \(29, 13\).*pass these 30 rows as X"):
        fitted.explain(wine.others[1:], attributions=own.values)
    with pytest.raises(InputError, match="attribution='posterior' predicts them; leave them out"):
        fitted.explain(wine.others, attribution="posterior", attributions=own)


def test_equal_rows_get_the_first(make, models, X):
    rows = np.concatenate([X[:30], X[:3]])
    given = np.concatenate([models.slopes(X[:30]), models.slopes(X[:3]) + 1])
    g = make(explainer=None, n_explained=40).fit(rows, attributions=given)
    np.testing.assert_array_equal(g.explain(X[:3]).values, given[:3])


def test_of_many_rows_some_are_learned_from(make, models):
    rows = np.random.default_rng(0).normal(size=(700, 3))
    variance = np.abs(models.slopes(rows)) + 0.1
    g = make(explainer=None, n_explained=60, kernel="rbf", draw="output", similar="auto")
    g.fit(rows, attributions=models.slopes(rows), attribution_variance=variance)
    assert (len(g.X_explained_), g.diagnostics_["explained_rows"], g.diagnostics_["given_rows"]) == (60, 60, 700)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(g.X_explained_))
    np.testing.assert_array_equal(g.attributions_.variance, np.abs(models.slopes(g.X_explained_)) + 0.1)
    e = g.explain(rows)
    np.testing.assert_array_equal(e.values, models.slopes(rows))
    np.testing.assert_array_equal(e.explainer_variance, variance)
    assert len(g.set_params(n_explained="auto").fit(rows, attributions=models.slopes(rows)).X_explained_) == 500


def test_files(tmp_path, wine):
    g = gpec.GPEC(wine.forest, None, n_explained=20, **SMALL).fit(wine.rows, attributions=wine.values)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=wine.forest)
    a, b = g.explain(wine.rows), loaded.explain(wine.rows)
    assert (a.lower.tobytes(), a.statement()) == (b.lower.tobytes(), b.statement())
    loaded = gpec.GPEC.load(tmp_path / "g", model=wine.forest, explainer=shap.TreeExplainer(wine.forest))
    loaded.calibrate(wine.others)
    assert "Checked on 30 rows not used in fitting" in loaded.explain(wine.rows).statement()


def test_a_fit_after_one_with_given_rows(wine):
    """The model's answers by which given rows were drawn are not those of X."""
    few = {**SMALL, "n_explained": 15, "draw": "output"}
    g = gpec.GPEC(wine.forest, "tree", mode="predict", **few)
    g.fit(wine.X[:100], X_explained=wine.rows, attributions=wine.values).fit(wine.X[:100])
    alone = gpec.GPEC(wine.forest, "tree", mode="predict", **few).fit(wine.X[:100])
    pd.testing.assert_frame_equal(g.X_explained_, alone.X_explained_)


def test_the_explanation_in_shap(wine, fitted):
    e = fitted.explain(wine.rows)
    s = e.to_shap()
    np.testing.assert_array_equal(s.lower_bounds, e.lower)
    np.testing.assert_array_equal(s.upper_bounds, e.upper)
    np.testing.assert_array_equal(s.error_std, e.std)
    one = s[3, :, 1]
    np.testing.assert_array_equal(one.lower_bounds, e.lower[3, :, 1])
    try:
        shap.plots.waterfall(one, show=False)
        shap.plots.beeswarm(s[..., 1], show=False)
    finally:
        plt.close("all")
    again = gpec.GPEC(wine.forest, None, **SMALL).fit(wine.rows, attributions=s).explain(wine.rows)
    np.testing.assert_array_equal(again.lower, e.lower)


# Their unit


def unit(model, rows, attributions):
    g = gpec.GPEC(model, None, **SMALL).fit(rows, attributions=attributions)
    return g.diagnostics_["unit"], g.attributions_.base_values


@pytest.mark.parametrize("whole", [True, False], ids=["Explanation", "array"])
def test_units_are_found_by_what_attributions_add_up_to(wine, whole):
    def part(explanation):
        return explanation if whole else explanation.values

    name, base = unit(wine.forest, wine.rows, part(wine.values))
    assert name == "probability"
    np.testing.assert_allclose(base, wine.values.base_values, atol=1e-9)
    raw = shap.TreeExplainer(wine.boosted)(wine.rows)
    name, base = unit(wine.boosted, wine.rows, part(raw))
    assert name == "log-odds"
    np.testing.assert_allclose(base, raw.base_values.ravel(), atol=1e-6)
    scaled = (wine.X - wine.X.mean()) / wine.X.std()
    linear = LogisticRegression().fit(scaled[:100], wine.y[:100])
    margins = shap.LinearExplainer(linear, scaled[:100])(scaled[100:140])
    assert unit(linear, scaled[100:140], part(margins))[0] == "margin"
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    forest = RandomForestRegressor(10, random_state=0).fit(X[:200], y[:200])
    assert unit(forest, X[200:260], part(shap.TreeExplainer(forest)(X[200:260])))[0] == "output"


def test_a_unit_that_is_not_known(wine):
    halves = wine.values.values * np.linspace(0.5, 1.5, 13)[:, None]
    g = gpec.GPEC(wine.forest, None, **SMALL).fit(wine.rows, attributions=halves)
    assert g.diagnostics_["unit"] == "as given"
    e = g.explain(wine.rows[:2])
    assert e.base_values is None
    assert e.statement().endswith("The attributions were given, in a unit that is not known.")


def test_kernel_explainer(wine):
    explainer = shap.KernelExplainer(wine.forest.predict_proba, wine.X[:5])
    assert unit(wine.forest, wine.rows[:12], explainer(wine.rows[:12], silent=True))[0] == "probability"


def test_another_unit_in_a_later_call(wine):
    raw = shap.TreeExplainer(wine.boosted).shap_values(wine.rows)
    g = gpec.GPEC(wine.boosted, None, **SMALL).fit(wine.rows, attributions=raw)
    explainer = shap.TreeExplainer(wine.boosted, wine.X[:50], model_output="probability")
    for attributions in (explainer(wine.others), explainer(wine.others).values):
        for call in (g.explain, g.calibrate):
            with pytest.raises(InputError, match="attributions are in probability, but those of fit are in log-odds"):
                call(wine.others, attributions=attributions)


# Attributions of something else

SHAPES = {
    "classes first": (lambda A: np.moveaxis(A, -1, 0), r"pass np\.moveaxis\(A, 0, -1\)"),
    "classes in the middle": (lambda A: np.swapaxes(A, 1, 2), r"pass np\.swapaxes\(A, 1, 2\)"),
    "one class of three": (lambda A: A[..., 1], r"expected \(40, 13, 3\), one column of attributions for each class"),
    "transposed": (lambda A: A[..., 0].T, r"pass A\.T"),
    "interactions": (lambda A: A[:, None] * A[:, :, None], r"interaction values: pass .* A\.sum\(axis=2\)"),
    "interactions of one class": (lambda A: A[:, None, :, 0] * A[:, :, None, 0], r"pass .* A\.sum\(axis=2\)"),
    "with the base value": (lambda A: np.c_[A[..., 0], A[:, :1, 0]], r"shap\.Explanation\(A\[:, :-1\], A\[:, -1\]\)"),
    "of other rows": (lambda A: A[:30], "pass these 30 rows as X_explained"),
}


@pytest.mark.parametrize("case", SHAPES)
def test_shapes(wine, case):
    change, words = SHAPES[case]
    with pytest.raises(InputError, match=words):
        gpec.GPEC(wine.forest, None, **SMALL).fit(wine.rows, attributions=change(wine.values.values))


def test_a_list_with_one_array_for_each_class(wine):
    as_list = [wine.values.values[..., c] for c in range(3)]
    g = gpec.GPEC(wine.forest, None, **SMALL).fit(wine.rows, attributions=as_list)
    np.testing.assert_array_equal(g.explain(wine.rows).values, wine.values.values)


def test_values_of_other_rows(wine):
    g = gpec.GPEC(wine.forest, None, **SMALL)
    with pytest.raises(
        InputError, match=r"shap\.Explanation of other rows than X_explained.*1 of 40 .*first is row 1\."
    ):
        g.fit(pd.concat([wine.rows[:1], wine.others[:1], wine.rows[2:]]), attributions=wine.values)
    with pytest.raises(InputError, match="add up to the probability that the model gives for these rows in another"):
        g.fit(wine.rows[::-1], attributions=wine.values.values)


def test_values_of_the_other_class(wine):
    raw = shap.TreeExplainer(wine.boosted).shap_values(wine.rows)
    with pytest.raises(InputError, match="log-odds of class 'a', but gpec explains class 'b'"):
        gpec.GPEC(wine.boosted, None, **SMALL).fit(wine.rows, attributions=-raw)


def test_an_explanation_as_the_explainer(wine):
    with pytest.raises(InputError, match=r"call GPEC\(model, None\)\.fit\(X, attributions=\.\.\.\)"):
        gpec.GPEC(wine.forest, wine.values, **SMALL).fit(wine.rows)
