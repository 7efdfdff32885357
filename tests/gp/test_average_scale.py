"""Scales averaged over what the likelihood leaves open, where noise is as large as the attributions vary."""

import numpy as np
import pytest

from gpec.gp import ExactPosterior, fit_parameters
from gpec.kernels import RBF


def draws(count, n, ratio, *, vary, seed, m=10):
    """Rows, attributions drawn from the prior with noise ``ratio`` times the scale, and the latent values at m more."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X = rng.normal(size=(n + m, 2))
        kernel = RBF(1.0).fit(None, X)
        latent = np.linalg.cholesky(kernel.gram(X) + 1e-9 * np.eye(n + m)) @ rng.normal(size=n + m)
        u = ratio * (rng.uniform(0.3, 1.7, n) if vary else np.ones(n))
        y = latent[:n] + np.sqrt(u) * rng.normal(size=n)
        yield kernel, X[:n], X[n:], y[:, None], u[:, None], latent[n:]


@pytest.mark.parametrize("vary", [True, False])
def test_intervals_hold_where_noise_is_three_times_the_scale(vary):
    inside = {True: [], False: []}
    for kernel, X, new, Y, U, latent in draws(150, 30, 3.0, vary=vary, seed=11):
        for average in inside:
            parameters = fit_parameters(kernel.gram(X), Y, U, average=average)
            found = ExactPosterior(kernel, X, Y, U, parameters).predict(new)
            inside[average].append(np.abs(latent - found.mean[:, 0]) <= 1.96 * np.sqrt(found.variance[:, 0]))
    assert np.mean(inside[False]) < 0.92  # the most likely scale alone is often far too small
    assert 0.94 <= np.mean(inside[True]) <= 0.99


@pytest.mark.parametrize("vary", [True, False])
def test_little_noise_leaves_the_optimum_nearly_as_it_is(vary):
    for kernel, X, _, Y, U, _ in draws(3, 120, 1e-4, vary=vary, seed=3):
        optimum, averaged = (fit_parameters(kernel.gram(X), Y, U, average=average) for average in (False, True))
        np.testing.assert_allclose(averaged.scale, optimum.scale, rtol=0.1)


def test_features_without_noise_are_left_alone():
    for kernel, X, _, Y, U, _ in draws(1, 40, 1.0, vary=True, seed=4):
        quiet = fit_parameters(kernel.gram(X), np.hstack((Y, Y)), np.hstack((0 * U, U)), average=True)
        loud = fit_parameters(kernel.gram(X), Y, 0 * U)
        np.testing.assert_allclose(quiet.scale[0], loud.scale[0], rtol=1e-4)
        assert abs(quiet.scale[1] / loud.scale[0] - 1) > 0.01


def test_digits_with_a_noisy_explainer_keep_their_scale():
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier

    import gpec

    X, y = load_digits(return_X_y=True)
    X = X[:, 16:40]
    model = RandomForestClassifier(60, random_state=0).fit(X, y >= 5)
    explainer = gpec.explainers.BayesShap(60, n_background=1)
    g = gpec.GPEC(model, explainer, n_explained=80, n_boundary=200, random_state=0, progress=False).fit(X)
    spread = g.attributions_.values.std(axis=0)
    deviation = np.sqrt(g.explain(X[:20]).model_variance).mean(axis=0)
    varies = spread > 0.02
    assert varies.sum() > 10
    assert (deviation[varies] > 0.005 * spread[varies]).all()  # it was a hundred-thousandth
