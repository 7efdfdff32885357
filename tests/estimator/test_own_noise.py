"""Noise: the explainer's own at the row itself, noise that is too small to be used, and what is set after ``fit``."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import gpec
from gpec.errors import NoiseFloorWarning
from gpec.explainers import BayesShap, ExactShapley, ShapleySampling
from gpec.gp.evidence import LEAST_NUGGET


@pytest.fixture(scope="module")
def forest():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    model = RandomForestClassifier(30, max_depth=6, random_state=0).fit(X, y)
    rows, background = X[300:315], X[np.random.default_rng(0).permutation(len(X))[:8]]
    truth = ExactShapley().fit(model, background)(rows).values
    return SimpleNamespace(model=model, X=X, rows=rows, background=background, truth=truth)


def fit(forest, explainer, **changes):
    """With the paper's intervals, which are those of the latent explanation."""
    small = {"n_boundary": 200, "n_explained": 60, "random_state": 0, "progress": False}
    small |= {"kernel": "weg", "similar": None}
    return gpec.GPEC(forest.model, explainer, background=forest.background, **{**small, **changes}).fit(forest.X)


@pytest.mark.parametrize("n_background", [1, 4])
def test_intervals_of_bayesshap_cover_the_exact_values(forest, n_background):
    e = fit(forest, BayesShap(n_samples=100, n_background=n_background)).explain(forest.rows)
    assert (e.noise_variance >= e.explainer_variance).all()
    assert (e.explainer_variance > 0).all()
    share = gpec.metrics.coverage(forest.truth, e.lower, e.upper)
    assert share >= 0.9  # 0.98 and 1.0
    without = np.sqrt(e.variance - e.explainer_variance) * 1.96
    assert gpec.metrics.coverage(forest.truth, e.values - without, e.values + without) < share - 0.1


@pytest.mark.parametrize("noise", ["auto", "resample"])
def test_noise_at_the_row_is_added_once(forest, noise):
    g = fit(forest, ShapleySampling(20), noise=noise, n_resamples=3, n_explained=30)
    own, posterior = g.explain(forest.rows[:5]), g.explain(forest.rows[:5], attribution="posterior")
    np.testing.assert_array_equal(own.model_variance, posterior.model_variance)
    np.testing.assert_allclose(own.noise_variance, posterior.noise_variance + own.explainer_variance, rtol=1e-12)
    assert posterior.explainer_variance is None


@pytest.mark.parametrize("noise", ["none", 1e-4])
def test_noise_that_is_given_speaks_of_the_explained_rows(forest, noise):
    """A number is the user's word for all noise there is; "none" that there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpec.errors.StochasticExplainerWarning)
        g = fit(forest, ShapleySampling(20), noise=noise, n_explained=30)
    own, posterior = g.explain(forest.rows[:5]), g.explain(forest.rows[:5], attribution="posterior")
    np.testing.assert_array_equal(own.noise_variance, posterior.noise_variance)


# Noise below what a fixed output scale allows


@pytest.mark.parametrize("given", [False, True], ids=["explained", "given"])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_noise_below_the_floor(make, models, X, scale, given):
    more = {"X_explained": X[:25], "attributions": models.slopes(X[:25])} if given else {}
    with pytest.warns(NoiseFloorWarning, match=r"5e-07 of the output scale.*at least 1e-06"):
        g = make(noise=5e-7 * scale, output_scale=scale).fit(X, **more)
    assert g.diagnostics_["noise_floor"] == LEAST_NUGGET
    e = g.explain(X[:4], attribution="posterior")
    same = make(noise=1e-6 * scale, output_scale=scale).fit(X, **more).explain(X[:4], attribution="posterior")
    np.testing.assert_allclose(e.variance, same.variance, rtol=1e-6)


def test_noise_above_the_floor(make, X):
    """No warning: they are errors here. No noise at all is no noise that was replaced without a word."""
    for noise in (2e-6, 1e-4, 0.0, "none"):
        assert make(noise=noise, output_scale=1.0).fit(X).diagnostics_["noise_floor"] == LEAST_NUGGET
    for noise in (1e-9, 0.0, "auto"):
        assert make(noise=noise).fit(X).diagnostics_["noise_floor"] is None


@pytest.mark.parametrize(("before", "after"), [("auto", 0.5), (0.5, "auto"), ("resample", "none")])
def test_noise_set_after_fit_waits_for_the_next_fit(make, X, before, after):
    """``explain`` and ``diagnostics`` tell of the same noise."""
    g = make(explainer=ShapleySampling(8), noise=before, n_resamples=2, n_explained=8).fit(X)
    first = g.explain(X[:4])
    g.set_params(noise=after)
    later = g.explain(X[:4])
    np.testing.assert_array_equal(later.noise_variance, first.noise_variance)
    np.testing.assert_array_equal(later.values, first.values)
    assert later.diagnostics["noise"] == first.diagnostics["noise"] == g.diagnostics_["noise"]
    assert later.diagnostics["settings"]["noise"] == before
