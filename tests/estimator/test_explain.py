"""What ``explain`` answers: values, variances, levels; blocks of rows; and what it refuses to answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from threadpoolctl import threadpool_info, threadpool_limits

from gpec.errors import InputError, NumericalError
from gpec.explainers import ShapleySampling
from gpec.gp import ExactPosterior, LowRankPosterior, conditioning
from gpec.kernels import RBF


def test_values_are_the_explainers(make, models, X):
    e = make().fit(X).explain(X[:7])
    np.testing.assert_array_equal(e.values, models.slopes(X[:7]))
    np.testing.assert_array_equal(e.data, X[:7])
    assert e.feature_names == ["x0", "x1", "x2"]
    assert e.output_names == "1"


@pytest.mark.parametrize("classes", [2, 3])
def test_variance_is_the_same_for_both_attributions(make, models, X, classes):
    if classes == 2:
        g = make(noise=0.01).fit(X)
    else:
        g = make(models.three_classes, models.slopes_of_three, noise=0.01).fit(X)
    a, b = g.explain(X[:6]), g.explain(X[:6], attribution="posterior")
    np.testing.assert_array_equal(a.model_variance, b.model_variance)
    np.testing.assert_array_equal(a.noise_variance, b.noise_variance)
    assert np.abs(a.values - b.values).max() > 1e-6
    for e in (a, b):
        np.testing.assert_array_equal(e.model_variance + e.noise_variance, e.variance)
        assert (e.model_variance >= 0).all()
        assert (e.noise_variance >= 0).all()
        assert (e.variance > 0).all()
        assert (e.lower <= e.values).all()
        assert (e.values <= e.upper).all()


def test_posterior_needs_no_explainer_and_no_model(make, models, counting, X):
    calls = []

    def explainer(X):
        calls.append(len(X))
        return models.slopes(X)

    model = counting(models.curved)
    g = make(model, explainer).fit(X)
    calls.clear()
    model.n_calls = 0
    e = g.explain(X[:6], attribution="posterior")
    assert calls == []
    assert model.n_calls == 0
    assert e.base_values is None
    assert e.explainer_variance is None
    assert e.diagnostics["model_rows"] == 0
    assert e.diagnostics["attribution"] == "posterior"


def test_posterior_mean_passes_through_the_explained_rows(make, models, X):
    g = make(noise=1e-6, output_scale=1.0, n_explained=15, kernel="rbf").fit(X)
    e = g.explain(g.X_explained_, attribution="posterior")
    np.testing.assert_allclose(e.values, models.slopes(g.X_explained_), atol=1e-3)
    assert e.variance.max() < 1e-5


def test_far_from_the_explained_rows_less_is_known(make, X):
    # explained rows at one end of a straight boundary, queries at both
    g = make(lambda X: expit(X[:, 0]), lam=2.0, rho=5.0, output_scale=1.0, standardize=False, n_neighbors=6, noise=1e-4)
    rows = np.random.default_rng(0).uniform(-1, 1, (400, 2)) * [1.0, 5.0]
    g.set_params(n_boundary=200, explainer=lambda X: X).fit(rows, X_explained=rows[rows[:, 1] < -3])
    near, far = g.explain([[0.1, -4.0], [0.1, 4.0]]).variance[:, 0]
    assert near < 0.1 * far
    assert far > 0.5


def test_confidence_level(make, X):
    g = make().fit(X)
    a, b = g.explain(X[:4], confidence_level=0.5), g.explain(X[:4])
    assert b.confidence_level == 0.95
    np.testing.assert_array_equal(a.lower, b.interval(0.5)[0])
    assert (a.width < b.width).all()


def test_failed_explain_leaves_it_fitted(make, models, X):
    g = make().fit(X)
    expected = g.explain(X[:3]).variance
    with pytest.raises(InputError, match=r"^X has 2 features, but 3 are expected"):
        g.explain(X[:3, :2])
    np.testing.assert_array_equal(g.explain(X[:3]).variance, expected)


def test_settings_of_fit_are_those_of_explain(make, X):
    """But for ``n_jobs`` and ``progress``, what is set after ``fit`` waits for the next one."""
    g = make(explainer=ShapleySampling(2), n_explained=5, noise="resample", n_resamples=3).fit(X)
    expected = g.explain(X[:4])
    later = {
        "noise": "none",
        "n_resamples": 7,
        "output_scale": 1.0,
        "lam": 0.1,
        "threshold": 0.9,
        "background": X[:2],
        "random_state": 5,
        "explainer": lambda X: X,
        "model": lambda X: X[:, 0] > 0,
        "n_jobs": 2,
    }
    for name, value in later.items():
        found = g.set_params(**{name: value}).explain(X[:4])
        for part in ("values", "model_variance", "noise_variance", "explainer_variance", "base_values"):
            assert getattr(found, part).tobytes() == getattr(expected, part).tobytes(), (name, part)
        assert found.diagnostics["settings"] == expected.diagnostics["settings"]
    assert expected.explainer_variance.any()
    assert not np.array_equal(g.fit(X).explain(X[:4]).values, expected.values)  # they do count then


# Blocks, classes and many rows


def test_blocks_do_not_matter(make, X, monkeypatch):
    g = make(noise=0.01).fit(X)
    whole = g.explain(X)
    monkeypatch.setattr("gpec.pipeline.explain._BLOCK", 7)
    for n_jobs in (None, 1, 2, -1):
        parts = g.set_params(n_jobs=n_jobs).explain(X)
        np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-10)
        np.testing.assert_allclose(parts.noise_variance, whole.noise_variance, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("noise", [0.01, "varying"])
def test_many_explained_rows(make, models, X, monkeypatch, noise):
    if noise == "varying":
        noise = 0.01 + 0.1 * np.random.default_rng(0).random((15, 3))
    g = make(noise=noise, n_explained=15)
    dense = g.fit(X).explain(X[:9], attribution="posterior")
    assert isinstance(g.posterior_, ExactPosterior)
    monkeypatch.setattr(conditioning, "_DENSE_ROWS", 14)
    low = g.fit(X).explain(X[:9], attribution="posterior")
    assert isinstance(g.posterior_, LowRankPosterior)
    np.testing.assert_allclose(low.variance, dense.variance, rtol=1e-4)
    np.testing.assert_allclose(low.values, dense.values, atol=1e-4)


@pytest.fixture
def spied(monkeypatch):
    """``spied(change)``: every posterior's prediction goes through ``change(rows, prediction)``."""
    real = ExactPosterior.predict

    def install(change):
        monkeypatch.setattr(ExactPosterior, "predict", lambda self, rows: change(rows, real(self, rows)))

    return install


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_clamps_are_counted_over_blocks_and_classes(make, models, X, monkeypatch, spied, classes, n_jobs):
    g = make() if classes == 2 else make(models.three_classes, models.slopes_of_three)
    g.set_params(n_jobs=n_jobs).fit(X)
    assert g.explain(X[:10]).diagnostics["clamped"] == 0
    monkeypatch.setattr("gpec.pipeline.explain._BLOCK", 4)
    spied(lambda rows, answer: replace(answer, clamped=np.full(len(rows), 2)))
    assert g.explain(X[:10]).diagnostics["clamped"] == 10 * 2 * (1 if classes == 2 else 3)


def test_one_blas_thread_in_each_block(make, X, spied):
    seen = []

    def look(rows, answer):
        seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return answer

    g = make().fit(X)
    spied(look)
    with threadpool_limits(2, "blas"):
        g.explain(X[:3])
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("part", ["mean", "model_variance", "noise_variance"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_posterior_that_is_not_finite(make, X, spied, part, value):
    g = make().fit(X)

    def broken(rows, answer):
        getattr(answer, part)[1, 1] = value
        return answer

    spied(broken)
    with pytest.raises(NumericalError, match="not finite"):
        g.explain(X[:3], attribution="posterior")


class Overconfident(RBF):
    """Claims less variance at a row than its values towards the other rows leave possible."""

    def cross_to(self, Y, feature=None):
        honest = super().cross_to(Y, feature)

        def cross(X):
            k, diagonal = honest(X)
            return k, diagonal if len(X) == len(Y) else 0.5 * diagonal  # not while it is fitted

        return cross


def test_negative_variance_is_an_error(make, X):
    """Beyond rounding it is raised, not hidden."""
    g = make(kernel=Overconfident(2.0), output_scale=1.0, noise=0.01).fit(X)
    with pytest.raises(NumericalError, match="variance of feature"):
        g.explain(X)
