"""The kernels inside scikit-learn's Gaussian process."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

from gpec.gp import ExactPosterior, Parameters, fixed_parameters
from gpec.kernels import EG, RBF, WEG

RNG = np.random.default_rng(0)
POINTS, X, Q = RNG.normal(size=(100, 3)), RNG.normal(size=(60, 3)), RNG.normal(size=(15, 3))
KERNELS = {
    "EG": EG(),
    "WEG": WEG(),
    "WEG plain": WEG(normalize=False),
    "RBF": RBF(),
    "composed": 0.5 * WEG() + 0.5 * RBF(),
}


@pytest.fixture(params=KERNELS)
def kernel(request):
    return KERNELS[request.param].__sklearn_clone__().fit(POINTS, X)


def draw(kernel, noise, seed=1):
    rng = np.random.default_rng(seed)
    spectrum, basis = np.linalg.eigh(kernel.gram(X))
    latent = basis @ (np.sqrt(np.maximum(spectrum, 0)) * rng.normal(size=60))
    return latent + np.sqrt(noise) * rng.normal(size=60)


@pytest.mark.parametrize("noise", [1e-2, 0.3])
def test_prediction_agrees_with_ours(kernel, noise):
    y = draw(kernel, noise)
    theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    mean, std = theirs.predict(Q, return_std=True)
    ours = ExactPosterior(kernel.gram(X), y[:, None], np.full((60, 1), noise), fixed_parameters(1.0, 1))
    prediction = ours.predict(*kernel.against(X)(Q))
    np.testing.assert_allclose(prediction.mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance[:, 0], std**2, atol=1e-8)


def test_prediction_agrees_with_ours_when_noise_varies(kernel):
    noise = np.random.default_rng(2).uniform(0.01, 0.5, size=60)
    y = draw(kernel, noise)
    theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    mean, std = theirs.predict(Q, return_std=True)
    ours = ExactPosterior(kernel.gram(X), y[:, None], noise[:, None], fixed_parameters(1.0, 1))
    prediction = ours.predict(*kernel.against(X)(Q))
    np.testing.assert_allclose(prediction.mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance[:, 0], std**2, atol=1e-8)


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
def test_composed_with_theirs(kernel, order):
    scale, noise = 2.5, 0.2
    y = draw(kernel, noise)
    if order == "ours first":
        composed = kernel * ConstantKernel(scale, "fixed") + WhiteKernel(noise, "fixed")
    else:
        composed = WhiteKernel(noise, "fixed") + ConstantKernel(scale, "fixed") * kernel
    np.testing.assert_allclose(composed(X), scale * kernel.gram(X) + noise * np.eye(60), atol=1e-12)
    np.testing.assert_allclose(composed(Q, X), scale * kernel.cross(Q, X), atol=1e-12)
    np.testing.assert_allclose(composed.diag(Q), scale * kernel.diag(Q) + noise, atol=1e-12)
    theirs = GaussianProcessRegressor(composed, alpha=0.0, optimizer=None).fit(X, y)
    mean, std = theirs.predict(Q, return_std=True)
    # Their white noise also stands at the query; so does our nugget.
    ours = ExactPosterior(
        kernel.gram(X),
        y[:, None],
        np.zeros((60, 1)),
        Parameters(np.array([scale]), np.array([noise / scale]), free_mean=False),
    )
    prediction = ours.predict(*kernel.against(X)(Q))
    np.testing.assert_allclose(prediction.mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance[:, 0], std**2, atol=1e-8)


def test_scikit_learn_learns_the_hyperparameters_of_its_own_kernels():
    kernel = RBF(1.0).fit()
    y = 3.0 * draw(kernel, 0.05)
    model = GaussianProcessRegressor(ConstantKernel(1.0) * kernel + WhiteKernel(0.5), alpha=0.0).fit(X, y)
    assert model.kernel_.theta.shape == (2,)
    scale, noise = np.exp(model.kernel_.theta)
    assert 2 < scale < 40
    assert 0.1 < noise < 2
    A = scale * kernel.gram(X) + noise * np.eye(60)
    expected = scale * kernel.cross(Q, X) @ np.linalg.solve(A, y)
    np.testing.assert_allclose(model.predict(Q), expected, atol=1e-8)


def test_the_model_clones_and_refits(kernel):
    y = draw(kernel, 0.1)
    model = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None)
    first, second = model.fit(X, y).predict(Q), clone(model).fit(X, y).predict(Q)
    np.testing.assert_array_equal(first, second)
    assert model.kernel_ is not kernel
    assert np.isfinite(model.log_marginal_likelihood())


def test_it_has_no_free_hyperparameters(kernel):
    K, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_array_equal(K, kernel.gram(X))
    assert gradient.shape == (60, 60, 0)
    assert kernel.theta.size == 0
    assert not kernel.is_stationary()
    assert (kernel + 2.0)(X)[0, 1] == pytest.approx(K[0, 1] + 2.0)
    assert (2.0 + kernel)(X)[0, 1] == pytest.approx(K[0, 1] + 2.0)
    assert (kernel**2)(X)[0, 1] == pytest.approx(K[0, 1] ** 2)
