"""GPEC of a regressor: everything that works for two classes works for a number, in its units."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gpec
from extras import torch, xgboost
from gpec.boundary import LevelSetSampler
from gpec.errors import (
    BoundaryNotFoundError,
    ExplainerError,
    FewBoundaryPointsWarning,
    InputError,
    ModelMismatchError,
    ModelOutputError,
)
from gpec.kernels import Output
from gpec.similar import MeasurementError

SLOPES = np.array([30.0, -20.0, 5.0])


def curved(X):
    X = np.asarray(X, dtype=np.float64)
    return 1_000.0 + 30.0 * X[:, 0] - 20.0 * X[:, 1] * X[:, 2]


def slopes(X):
    X = np.asarray(X, dtype=np.float64)
    return X * SLOPES + X[:, :1] ** 2


@pytest.fixture
def build(make_auto):
    def build(model=curved, explainer="exact", **parameters):
        return make_auto(model, explainer, **{"model_output": "value", **parameters})

    return build


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).normal(size=(120, 3))
    g = gpec.GPEC(
        curved, "exact", model_output="value", n_boundary=60, n_explained=25, background=10, random_state=0,
        progress=False,
    )  # fmt: skip
    return g.fit(X).calibrate(np.random.default_rng(1).normal(size=(40, 3)))


def test_what_a_regressor_is_told(fitted, X):
    e = fitted.explain(X[:4])
    assert e.shape == (4, 3)
    np.testing.assert_array_equal(e.predictions, curved(X[:4]))
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, e.predictions, rtol=1e-12)
    assert e.output_names is None
    assert e.diagnostics["unit"] == "output"
    assert not hasattr(fitted, "classes_")
    assert fitted.diagnostics_["regression"] is True
    assert fitted.diagnostics_["levels"] == pytest.approx([np.median(curved(X))], abs=1.0)
    assert "class" not in e.statement()
    assert "probab" not in e.statement()
    assert "output" not in e.to_frame().columns


def test_the_posterior_adds_up_and_is_close(build, X):
    g = build(n_explained=80).fit(X)
    e = g.explain(X[90:], attribution="posterior")
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, curved(X[90:]), rtol=1e-9)
    exact = g.explain(X[90:]).values
    assert 1 - ((e.values - exact) ** 2).sum() / ((exact - exact.mean(axis=0)) ** 2).sum() > 0.9


def test_a_linear_regressor_in_closed_form(make_auto, X):
    model = LinearRegression().fit(X, X @ SLOPES + 4.0)
    e = make_auto(model, "kernelshap", background=X[:10], kernel="weg").fit(X).explain(X[:5])
    np.testing.assert_allclose(e.values, (X[:5] - X[:10].mean(axis=0)) * SLOPES, atol=1e-8)


@pytest.mark.parametrize(("scale", "shift"), [(1e-6, 0.0), (1e3, 0.0), (1e6, 0.0), (1.0, 1e4)])
def test_units(build, X, scale, shift):
    """Times a number: values and widths are multiplied. Plus a number: base values alone move."""
    one, two = (build(model).fit(X) for model in (curved, lambda X: scale * curved(X) + shift))
    for attribution in ("explainer", "posterior"):
        same_but_for_units(*(g.explain(X[:10], attribution=attribution) for g in (one, two)), scale, shift)


def same_but_for_units(plain, other, scale, shift):
    np.testing.assert_allclose(other.values, scale * plain.values, rtol=1e-5, atol=1e-5 * scale)
    np.testing.assert_allclose(other.width, scale * plain.width, rtol=1e-3)
    np.testing.assert_allclose(other.base_values, scale * plain.base_values + shift, rtol=1e-9)
    np.testing.assert_allclose(other.sign_certainty, plain.sign_certainty, atol=1e-3)


def test_bits_do_not_depend_on_threads_or_order(build, X):
    one, two = (build(n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    for attribution in ("explainer", "posterior"):
        a, b = (g.explain(X[:20], attribution=attribution) for g in (one, two))
        assert a.upper.tobytes() == b.upper.tobytes()
        turned = one.explain(X[19::-1], attribution=attribution)
        np.testing.assert_allclose(turned.width[::-1], a.width, rtol=1e-10)


def test_saved_and_loaded(fitted, X, tmp_path):
    fitted.save(tmp_path / "g.gpec")
    again = gpec.GPEC.load(tmp_path / "g.gpec", model=curved)
    for attribution in ("explainer", "posterior"):
        a, b = (g.explain(X[:7], attribution=attribution) for g in (fitted, again))
        assert a.upper.tobytes() == b.upper.tobytes()
        assert a.statement() == b.statement()
    with pytest.raises(ModelMismatchError, match="The model is not the one that was fitted"):
        gpec.GPEC.load(tmp_path / "g.gpec", model=lambda X: curved(X) + 1.0)
    e = fitted.explain(X[:3])
    e.save(tmp_path / "e.gpec")
    assert gpec.Explanation.load(tmp_path / "e.gpec").output_names is None


def test_the_checkpoint_goes_on(fitted, X, tmp_path):
    plain = fitted.explain(X[:30])
    first = fitted.explain(X[:30], checkpoint=tmp_path / "kept")
    again = fitted.explain(X[:30], checkpoint=tmp_path / "kept")
    assert first.upper.tobytes() == again.upper.tobytes() == plain.upper.tobytes()
    assert sum(again.diagnostics["rows_resumed"].values()) > 0


def test_calibrated_intervals_hold(build):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(700, 3))
    g = build(n_explained=40).fit(rows[:200]).calibrate(rows[200:400])
    truth = g.explain(rows[400:]).values
    e = g.explain(rows[400:], attribution="posterior")
    inside = (e.lower <= truth) & (truth <= e.upper)
    assert 0.92 < inside.mean() < 0.98


def test_refine(build, X):
    g = build().fit(X[:80])
    g.refine(X[80:], n=10)
    assert g.refinement_.width_after < g.refinement_.width_before


@pytest.mark.parametrize("draw", ["output", "uniform"])
def test_draws(build, X, draw):
    g = build(draw=draw, explainer=slopes, kernel="weg", similar=None).fit(X)
    assert g.explained_weights_.mean() == pytest.approx(1.0)


def test_other_settings(build, X):
    g = build(groups={"both": [0, 1]}, kernel="weg").fit(X)
    assert g.explain(X[:2]).values.shape == (2, 2)
    g = build(task_kernel="clusters", kernel="weg", explainer=slopes).fit(X)
    assert np.isfinite(g.explain(X[:2]).std).all()
    g = build(kernel="weg", similar=MeasurementError({0: 0.1})).fit(X)
    assert "normal error of standard deviation 0.1" in g.explain(X[:2]).statement()
    g = build(boundary=LevelSetSampler((0.2, 0.5, 0.8)), kernel="weg", similar=None).fit(X)
    assert len(g.diagnostics_["levels"]) == 3
    assert build(boundary=g.boundary_, kernel="weg", similar=None).fit(X).graph_.points.shape == g.graph_.points.shape
    g = gpec.GPEC(curved, "exact", model_output="value", random_state=0, n_boundary=40, **gpec.PAPER).fit(X)
    assert g.explain(X[:2]).promise == "latent"


def test_given_attributions(build, X):
    given = build(explainer=None, kernel="weg").fit(X, attributions=slopes(X))
    assert given.explain(X[:3], attribution="posterior").shape == (3, 3)
    wrong = build(kernel="weg").fit(X, attributions=1e3 * slopes(X))
    with pytest.raises(InputError, match=r"differ by \d+% of their size.*in different units; pass the explainer"):
        wrong.explain(X[:2] + 0.1)


def test_a_second_fit_uses_the_first(build, X):
    g = build(kernel="weg", similar=None).fit(X)
    before = g.boundary_
    assert g.set_params(explainer=slopes).fit(X).boundary_ is before


@pytest.mark.parametrize(
    "build",
    [
        lambda: RandomForestRegressor(8, max_depth=4, random_state=0),
        lambda: xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1),
        lambda: make_pipeline(Ridge()),
    ],
    ids=["forest", "xgboost", "pipeline"],
)
def test_models_of_libraries(make_auto, X, build):
    model = build()
    g = make_auto(model.fit(X, curved(X)), slopes, kernel="weg").fit(X)
    np.testing.assert_allclose(g.explain(X[:3]).predictions, model.predict(X[:3]))


def test_a_torch_module(make_auto, X):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    e = make_auto(net, "captum:IntegratedGradients", model_output="value", kernel="weg").fit(X).explain(X[:3])
    assert np.isfinite(e.std).all()


def test_a_table_with_texts_and_missing_values(make_auto):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"town": rng.choice(["A", "B", "C"], 150), "rooms": rng.normal(5, 1, 150)})
    frame["age"] = np.where(rng.random(150) < 0.1, np.nan, rng.normal(40, 9, 150))
    value = 1e5 + 2e4 * (frame["town"] == "A") + 1e4 * frame["rooms"] * frame["age"].fillna(30.0) / 30
    coded = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(coded, xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1)).fit(frame, value)
    e = make_auto(model, "exact", kernel="weg").fit(frame).explain(frame[:4])
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, model.predict(frame[:4]), rtol=1e-5)


@pytest.mark.parametrize(
    "heavy",
    [
        lambda X: np.exp(6 * X[:, 0]) + X[:, 1],
        lambda X: np.tan(1.56 * np.tanh(X[:, 0])),
        lambda X: np.floor(2 * X[:, 0]),
    ],
    ids=["log-normal", "tangent", "counts"],
)
def test_outputs_of_every_shape(build, X, heavy):
    g = build(heavy).fit(X)
    for attribution in ("explainer", "posterior"):
        e = g.explain(X[:10], attribution=attribution)
        assert np.isfinite(e.upper).all()
        assert (e.lower <= e.values).all()
        assert (e.values <= e.upper).all()


def test_the_output_kernel_sees_standardised_values(fitted):
    rows = fitted._fitted.rows(fitted._fitted.observations.rows)
    kernel = Output(length=2.0).fit(fitted.graph_, rows)
    z = curved(rows.encoded) / curved(rows.encoded).std()
    d = np.abs(z[:, None] - z) / 2.0
    expected = (1 + np.sqrt(3) * d) * np.exp(-np.sqrt(3) * d)
    np.testing.assert_allclose(kernel.gram(rows), expected, atol=1e-9)


# What is shown


def test_pictures(fitted, X):
    e = fitted.explain(X[:12])
    for drawn in (e[0].plot(), e.plot(), e.plot("summary"), e.plot("scatter", feature=0), e[:, 0].plot()):
        assert drawn is not None
        plt.close("all")
    ax = gpec.plots.heatmap(fitted, 0, n_grid=8)
    assert "level set" in [text.get_text() for text in ax.get_legend().get_texts()]
    gpec.plots.boundary(fitted)
    ax = gpec.plots.similar(e[0], fitted.explain(fitted.similar_rows(X[:1])))
    assert "class" not in ax.get_xlabel()
    assert "attribution (output)" in e[0].plot().get_xlabel()
    with pytest.raises(InputError, match="output='1' chooses among classes, and a regressor has none"):
        gpec.plots.heatmap(fitted, 0, output="1")
    plt.close("all")


def test_report_and_notebook(fitted, X, tmp_path):
    pytest.importorskip("jinja2")
    e = fitted.explain(X[:6])
    e.to_html(tmp_path / "report.html", gpec=fitted)
    page = (tmp_path / "report.html").read_text()
    assert "Points on level sets" in page
    assert "Explained class" not in page
    assert "units of output" in e._repr_html_()


# What is refused


def test_the_report_speaks_of_no_classes(fitted, X, tmp_path):
    fitted.explain(X[:4]).to_html(tmp_path / "e.html", gpec=fitted)
    text = (tmp_path / "e.html").read_text()
    head = text[text.index("<body>") : text.index("</header>")]
    assert "4 rows, 3 features. Written" in head
    assert "decision boundary" not in text[text.index("<body>") : text.index("<script")]
    assert "answer changes around the row" in text


def test_a_constant_is_refused(build, X):
    with pytest.raises(
        BoundaryNotFoundError, match=r"The model predicts 7 for all \d+ rows tried, so it has no level sets"
    ):
        build(lambda X: np.full(len(X), 7.0), kernel="weg").fit(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(build, X, bad):
    with pytest.raises(ModelOutputError, match=rf"returned {bad} on call"):
        build(lambda X: np.where(X[:, 0] > 1, bad, X[:, 0])).fit(X)


def test_an_answer_that_changes(build, X):
    rng = np.random.default_rng(0)
    with pytest.raises(ModelOutputError, match="The model changed its answer to the same row"):
        build(lambda X: curved(X) + rng.normal(size=len(X)), explainer=slopes).fit(X)


def test_refused_before_the_first_call(build, counting, X):
    model = counting(curved)
    refused = {
        r"^threshold=0\.3 with a regressor": {"threshold": 0.3},
        r"^quantiles=\(\) must be a list": {"boundary": LevelSetSampler(())},
        "^boundary='planes' is not one of": {"boundary": "planes"},
    }
    for words, options in refused.items():
        with pytest.raises(InputError, match=words):
            build(model, **options).fit(X)
    assert model.n_calls == 0


def test_classes_are_no_levels(make_auto, X):
    with pytest.raises(InputError, match="LevelSetSampler needs a regressor"):
        make_auto(boundary="levels").fit(X)


def test_diagnostics_are_plain(fitted):
    json.dumps({key: fitted.diagnostics_[key] for key in ("levels", "regression", "boundary_points")})


def test_a_function_stands_for_the_regressor_that_was_fitted(make_auto, X, tmp_path):
    model = Ridge().fit(X, curved(X))
    g = make_auto(model, "exact").fit(X)
    g.save(tmp_path / "g.gpec")
    h = gpec.GPEC.load(tmp_path / "g.gpec", model=lambda rows: model.predict(rows))
    np.testing.assert_array_equal(h.explain(X[:3]).lower, g.explain(X[:3]).lower)


def test_a_network_of_which_nobody_says_that_it_predicts_numbers(make_auto, X):
    module = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Softplus())
    torch.nn.init.constant_(module[0].bias, 3.0)  # answers above 1, which no probability is
    with pytest.warns(FewBoundaryPointsWarning, match="If it predicts numbers, not classes, set model_output='value'"):
        make_auto(module, "kernelshap").fit(X)


def test_one_feature_warns_of_nothing(X, recwarn):
    small = {"n_explained": 40, "n_boundary": 20, "background": 8, "random_state": 0, "progress": False}
    gpec.GPEC(lambda X: np.sin(3 * X[:, 0]), "lime", model_output="value", **small).fit(X[:, :1])
    assert not [str(w.message) for w in recwarn if "column-vector" in str(w.message)]


def test_shap_that_reads_a_threshold_otherwise(make_auto, X, monkeypatch):
    """What it says of it names an argument that nobody can pass on."""

    def fails(*_, **__):
        raise ValueError("Additivity check failed in TreeExplainer! Please set check_additivity=False")

    forest = RandomForestRegressor(5, random_state=0).fit(X, curved(X))
    explainer = shap.TreeExplainer(forest, X[:5])
    monkeypatch.setattr(shap.TreeExplainer, "__call__", fails)
    with pytest.raises(ExplainerError, match=r"threshold of a tree.*use explainer='tree'"):
        make_auto(forest, explainer).fit(X)
