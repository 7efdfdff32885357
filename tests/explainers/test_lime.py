"""LIME, BayesLIME and BayesSHAP against the lime package, exact Shapley values and closed forms."""

import inspect

import numpy as np
import pytest
from explainer_helpers import SLOPES, linear, recorded, shapley_by_definition
from scipy.special import expit
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import gpec
from archive_helpers import tree_through_file
from extras import lime_tabular
from gpec.errors import InputError, ModelCallError, NotFittedError, ParameterTypeError
from gpec.explainers import TreeShap
from gpec.explainers.lime import BayesLime, BayesShap, Lime

SMALL = {"lime": Lime(300), "bayeslime": BayesLime(100), "bayesshap": BayesShap(60)}
FOCUSED = {
    "bayeslime focused": BayesLime(120, sampling="focused"),
    "bayesshap focused": BayesShap(80, sampling="focused"),
    "bayeslime width": BayesLime(60, target_width=0.05),
    "bayesshap width": BayesShap(60, target_width=0.03),
}
EVERY = SMALL | FOCUSED


def fitted(explainer, model, X, **options):
    return clone(explainer).fit(model, X, **options)


def bumpy(X):
    return expit(X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) - 0.5 * X[:, 3] + 0.2 * X[:, 0] * X[:, 3] ** 2)


@pytest.fixture(scope="module")
def wide():
    return np.random.default_rng(3).normal(size=(60, 4))


# LIME against the lime package


@pytest.mark.parametrize("around", ["data", "row"])
def test_many_samples_agree_with_limes_own(coded, around):
    X, model = coded
    explainer = Lime(20_000, around=around).fit(model, X, categorical_features=[1, 3])
    found = explainer(X[:3])
    package = lime_tabular.LimeTabularExplainer(
        X,
        categorical_features=[1, 3],
        discretize_continuous=False,
        feature_selection="none",
        sample_around_instance=around == "row",
        random_state=0,
    )
    for i in range(3):
        answer = package.explain_instance(
            X[i], lambda X: np.column_stack((1 - model(X), model(X))), num_samples=20_000, num_features=4
        )
        theirs = np.array([dict(answer.as_map()[1])[j] for j in range(4)])
        error = np.sqrt(2 * found.variance[i])
        assert (np.abs(found.values[i] - theirs) < 4 * error).all()
        assert (error < 0.1 * np.abs(theirs).max()).all()  # or the comparison says nothing


def test_limes_defaults():
    package = inspect.signature(lime_tabular.LimeTabularExplainer.explain_instance).parameters
    assert Lime().n_samples == package["num_samples"].default
    assert Lime().alpha == 1.0
    X = np.random.default_rng(0).normal(size=(50, 16))
    found, expected = (Lime(200, kernel_width=width).fit(linear, X)(X[:2]).values for width in ("auto", 3.0))
    np.testing.assert_array_equal(found, expected)


def test_order_is_that_of_the_columns(wide):
    for explainer in SMALL.values():
        for j in range(4):
            values = fitted(explainer, lambda X, j=j: expit(2 * X[:, j]), wide)(wide[:5]).values
            assert (np.abs(values).argmax(axis=1) == j).mean() >= 0.8


@pytest.mark.parametrize("categorical", [[], [1, 3]])
def test_limes_variance_is_the_spread_over_seeds(coded, categorical):
    X, model = coded
    explainer = Lime(400).fit(model, X, categorical_features=categorical)
    Z = explainer.model_.schema.encode(X[:6])
    runs = [explainer.explain(Z, seed=0, run=run) for run in range(200)]
    spread = np.var([run.values for run in runs], axis=0, ddof=1)
    claimed = np.mean([run.variance for run in runs], axis=0)
    assert 1 / 1.25 < claimed.sum() / spread.sum() < 1.25
    assert 1 / 1.5 < (claimed / spread).min() < (claimed / spread).max() < 1.5


# Closed forms and exact values


def test_linear_model_lime(wide):
    X = wide * [1.0, 3.0, 1.0, 1.0]
    for explainer in (Lime(3_000, alpha=1e-6), BayesLime(3_000, prior=1e-6)):
        found = fitted(explainer, linear, X)(X[:3])
        expected = SLOPES[:4] * X.std(axis=0)
        np.testing.assert_allclose(found.values, np.tile(expected, (3, 1)), atol=1e-6)
        assert found.variance.max() < 1e-8
        assert found.base_values is None


def test_linear_model_shap(wide):
    found = BayesShap(500, prior=1e-6, n_background=30).fit(linear, wide, background=wide[:20])(wide[:3])
    expected = (wide[:3] - wide[:20].mean(axis=0)) * SLOPES[:4]
    np.testing.assert_allclose(found.values, expected, atol=4e-3)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, linear(wide[:3]), atol=2e-3)
    one = BayesShap(50, prior=1e-6).fit(linear, wide, background=wide[:1])(wide[:3])  # nothing left to chance
    np.testing.assert_allclose(one.values, (wide[:3] - wide[0]) * SLOPES[:4], atol=1e-6)


def test_bayesshap_estimates_shapley_values(wide):
    background = wide[:15]
    truth = np.array([shapley_by_definition(bumpy, x, background) for x in wide[:8]])
    explainer = BayesShap(200).fit(bumpy, wide, background=background)
    runs = [explainer.explain(wide[:8], seed=0, run=run).squeeze_single_output() for run in range(40)]
    values = np.array([run.values for run in runs])
    variance = np.mean([run.variance for run in runs], axis=0)
    assert np.sqrt(np.mean((values.mean(axis=0) - truth) ** 2)) < 0.006  # of a typical size of 0.1
    assert 1 / 1.4 < variance.sum() / values.var(axis=0, ddof=1).sum() < 1.4
    half = 1.972 * np.sqrt(variance)
    assert 0.9 < (np.abs(values - truth) < half).mean() < 0.99
    more = BayesShap(20_000).fit(bumpy, wide, background=background)(wide[:8])
    np.testing.assert_allclose(more.values, truth, atol=0.01)  # the ends have a weight, not all of it


def test_half_width_is_that_of_student_t(models, X):
    for explainer in (BayesLime(50), BayesShap(50)):
        explainer.fit(models.curved, X)
        posterior, found = explainer.posterior(X[:5]), explainer(X[:5])
        np.testing.assert_array_equal(found.values, posterior.coefficients[..., 0])
        np.testing.assert_array_equal(found.variance, posterior.variance[..., 0])
        expected = 2.008559 * np.sqrt(found.variance * 48 / 50)  # the 97.5% point for 50 degrees of freedom
        np.testing.assert_allclose(explainer.half_width(X[:5]), expected, rtol=1e-6)
        assert (explainer.half_width(X[:5], 0.5) < 0.4 * expected).all()


def test_bayeslime_is_the_regression_of_its_perturbations(models, X):
    asked = []
    explainer = BayesLime(80, prior=0.5, kernel_width=2.0).fit(recorded(models.curved, asked), X)
    asked.clear()
    found = explainer(X[:1])
    (rows,) = asked
    features = (rows - X.mean(axis=0)) / X.std(axis=0)
    weights = np.exp(-((features - features[0]) ** 2).sum(axis=1) / 8.0)
    Z, y = np.column_stack((np.ones(80), features)), models.curved(rows)
    V = np.linalg.inv((Z.T * weights) @ Z + 0.5 * np.eye(4))
    phi = V @ (Z.T * weights) @ y
    squares = weights @ (y - Z @ phi) ** 2 + 0.5 * phi @ phi
    np.testing.assert_allclose(found.values[0], phi[1:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.variance[0], squares / 78 * np.diag(V)[1:], rtol=0, atol=1e-12)


# Perturbations to go, focused sampling


@pytest.mark.parametrize("explainer", [BayesLime(100, target_width=0.01), BayesShap(100, target_width=0.01)])
def test_target_width(models, X, explainer):
    explainer.fit(models.curved, X)
    posterior = explainer.posterior(X[:20])
    width = posterior.half_width().max(axis=(1, 2))
    assert (width <= 0.01).all()
    assert np.median(width) > 0.0085  # not many more than were needed
    assert posterior.count.min() < posterior.count.max()  # each row as many as it needs
    plain = clone(explainer).set_params(target_width=None).fit(models.curved, X).posterior(X[:20])
    np.testing.assert_allclose(np.median(plain.samples_needed(0.01) / posterior.count), 1.0, atol=0.15)


def test_target_width_stops_at_max_samples(models, X):
    explainer = BayesLime(100, target_width=1e-9, max_samples=370).fit(models.curved, X)
    assert explainer.posterior(X[:4]).count.tolist() == [350] * 4
    wide = BayesLime(100, target_width=10.0).fit(models.curved, X)
    assert wide.posterior(X[:4]).count.tolist() == [100] * 4


def test_cost_in_model_rows(models, X, counting):
    for explainer, rows in ((BayesLime(100), 100), (BayesShap(100, n_background=3), 300), (Lime(100), 100)):
        explainer.fit(models.curved, X)
        before = explainer.model_.n_rows
        explainer(X[:5])
        assert explainer.model_.n_rows - before == 5 * rows


@pytest.mark.parametrize(
    ("explainer", "rows"), [(BayesShap(60), 100), (BayesShap(60, n_background=150), 100), (TreeShap(), 1_000)]
)
def test_background_rows_of_auto(explainer, rows):
    """The background rows of a coalition are another number."""
    X = np.random.default_rng(5).normal(size=(1_200, 2))
    model = DecisionTreeClassifier(max_depth=2).fit(X, X[:, 0] > 0)
    assert len(clone(explainer).fit(model, X).background_) == rows
    g = gpec.GPEC(model, clone(explainer), n_explained=5, n_boundary=20, random_state=0, progress=False)
    assert len(g.fit(X)._fitted.context.background) == rows


@pytest.fixture(scope="module")
def broad():
    return np.random.default_rng(4).normal(size=(100, 10))


def test_focused_sampling_narrows_the_intervals(broad):
    for plain in (BayesLime(200), BayesShap(200, temperature=1e-3)):
        plain.fit(bumpy, broad)
        focused = clone(plain).set_params(sampling="focused").fit(bumpy, broad)
        assert (focused.posterior(broad[:3]).count == 200).all()
        assert focused.half_width(broad[:30]).mean() < 0.98 * plain.half_width(broad[:30]).mean()


def test_a_high_temperature_does_not_focus(broad):
    for plain in (BayesLime(200), BayesShap(200)):
        plain.fit(bumpy, broad)
        hot = clone(plain).set_params(sampling="focused", temperature=1e3).fit(bumpy, broad)
        ratio = hot.half_width(broad[:30]).mean() / plain.half_width(broad[:30]).mean()
        assert 0.95 < ratio < 1.05


# What every one of them must do


@pytest.mark.parametrize("name", EVERY)
def test_seeds_and_runs(models, X, name):
    explainer = fitted(EVERY[name], models.curved, X)
    first = explainer.explain(X[:4], seed=3).values
    np.testing.assert_array_equal(explainer.explain(X[:4], seed=3).values, first)
    assert np.abs(explainer.explain(X[:4], seed=4).values - first).min() > 0
    assert np.abs(explainer.explain(X[:4], seed=3, run=1).values - first).min() > 0
    assert explainer.stochastic is True


@pytest.mark.parametrize("name", EVERY)
def test_three_classes_in_one_pass(models, X, name):
    explainer = fitted(EVERY[name], models.three_classes, X)
    before = explainer.model_.n_calls
    found = explainer(X[:3])
    assert found.values.shape == found.variance.shape == (3, 3, 3)
    if name in SMALL:
        assert explainer.model_.n_calls == before + 1
        for k in range(3):
            one = fitted(EVERY[name], lambda X, k=k: models.three_classes(X)[:, k], X)(X[:3])
            np.testing.assert_allclose(found.values[..., k], one.values, rtol=0, atol=1e-12)
            np.testing.assert_allclose(found.variance[..., k], one.variance, rtol=0, atol=1e-12)
            if one.base_values is not None:
                np.testing.assert_allclose(found.base_values[:, k], one.base_values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_a_model_of_data_frames(mixed, name):
    explainer = fitted(EVERY[name], mixed.model, mixed.frame)
    found = explainer(mixed.frame[:30])
    assert found.values.shape == (30, 5)
    assert (found.variance > 0).all()
    red = (mixed.frame["colour"][:30] == "red").to_numpy()
    assert found.values[red, 0].mean() > 0.05 + found.values[~red, 0].mean()  # red is for yes


@pytest.mark.parametrize("name", SMALL)
def test_extreme_tables(models, name):
    rng = np.random.default_rng(0)
    one = rng.normal(size=(40, 1))
    assert fitted(SMALL[name], models.curved, one)(one[:2]).values.shape == (2, 1)
    constant = np.column_stack((one[:, 0], np.full(40, 7.0)))
    found = fitted(SMALL[name], lambda X: expit(X[:, 0] + X[:, 1] - 7), constant)(constant[:2])
    assert np.isfinite(found.values).all()
    huge = 1e200 * rng.normal(size=(40, 2))
    found = fitted(SMALL[name], lambda X: expit(X[:, 0] / 1e200), huge)(huge[:2])
    assert (np.abs(found.values[:, 0]) > np.abs(found.values[:, 1])).all()
    far = fitted(SMALL[name], models.curved, one)(one[:2] + 1e6)  # all weights but one vanish
    assert np.isfinite(far.values).all()
    assert np.isfinite(far.variance).all()


@pytest.mark.parametrize("name", SMALL)
def test_constant_models_have_no_attributions(X, name):
    found = fitted(SMALL[name], lambda X: np.full(len(X), 0.3), X, background=10)(X[:3])
    assert np.abs(found.values).max() < 0.02  # the prior draws the intercept to 0, and the others follow a little


@pytest.mark.parametrize("name", EVERY)
def test_state_is_saved(mixed, name):
    first = fitted(EVERY[name], mixed.model, mixed.frame)
    second = clone(EVERY[name])
    second.bind(first.model_, first.background_)
    second.restore(tree_through_file(first.fitted_state()))
    Z = first.model_.schema.encode(mixed.frame[:4])
    np.testing.assert_array_equal(second.explain(Z, seed=1).values, first.explain(Z, seed=1).values)


@pytest.mark.parametrize("name", SMALL)
def test_failing_model_names_the_row(models, X, name, counting):
    def before(call, rows):
        if (rows == X[2, 0]).any() and len(rows) > 100:
            raise ValueError("model is tired")

    explainer = fitted(SMALL[name], counting(models.curved, before=before), X, background=X[50:60])
    explainer.rows_at_once = 2 if name == "lime" else 5
    with pytest.raises(ModelCallError, match=r"model is tired.*while explaining rows \d to \d") as error:
        explainer.explain(np.tile(X[:3], (4, 1)), seed=0)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("name", SMALL)
def test_with_gpec(make, X, name):
    g = make(explainer=clone(SMALL[name])).fit(X)
    answer = g.explain(X[:4])
    assert answer.values.shape == (4, 3)
    assert (answer.noise_variance > 0).all()
    assert g.diagnostics_["noise"] == "the explainer's own"
    assert "probability" in g.diagnostics_["unit"]


@pytest.mark.parametrize("name", SMALL)
def test_saved_with_gpec(make, models, X, name, tmp_path):
    explainer = clone(SMALL[name])
    g = make(explainer=explainer).fit(X)
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=clone(explainer))
    np.testing.assert_allclose(again.explain(X[:3]).values, g.explain(X[:3]).values, rtol=0, atol=1e-12)


def test_memory_is_bounded(models):
    X = np.random.default_rng(0).normal(size=(30, 3))
    assert BayesLime().fit(models.curved, X).rows_at_once == 1_024
    assert BayesLime(1_000, sampling="focused").fit(models.curved, X).rows_at_once == 66
    big = BayesShap(10_000, n_background=50, sampling="focused").fit(models.curved, X)
    assert big.rows_at_once == 1


# Faults


FAULTS = [
    (BayesLime(2), InputError, "n_samples=2 must be at least 3"),
    (BayesLime("many"), ParameterTypeError, "n_samples='many' must be a whole number"),
    (BayesLime(kernel_width="broad"), InputError, "kernel_width='broad' must be 'auto' or a number"),
    (BayesLime(kernel_width=0.0), InputError, "kernel_width=0.0"),
    (BayesLime(around="mean"), InputError, "around='mean' is not one of 'data', 'row'"),
    (BayesLime(sampling="sharp"), InputError, "sampling='sharp' is not one of 'plain', 'focused'"),
    (BayesLime(prior=0.0), InputError, "prior=0.0 must be"),
    (BayesLime(temperature=-1.0), InputError, "temperature=-1.0"),
    (BayesLime(target_width=0.0), InputError, "target_width=0.0"),
    (BayesLime(300, target_width=0.1, max_samples=200), InputError, "max_samples=200 is less than n_samples=300"),
    (BayesShap(n_background=0), InputError, "n_background=0 must be at least 1"),
    (BayesShap(1), InputError, "n_samples=1"),
    (Lime(1), InputError, "n_samples=1"),
    (Lime(alpha=-1.0), InputError, "alpha=-1.0"),
    (Lime(kernel_width=np.inf), InputError, "kernel_width=inf"),
]  # fmt: skip


@pytest.mark.parametrize(("explainer", "error", "message"), FAULTS, ids=range(len(FAULTS)))
def test_faults(models, X, counting, explainer, error, message):
    model = counting(models.curved)
    with pytest.raises(error, match=message):
        explainer.fit(model, X)
    assert model.n_calls == 0


def test_not_fitted(X):
    for explainer in (BayesLime(), BayesShap()):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call fit\(model, X\) first"):
            explainer.half_width(X)
