"""The kernels inside scikit-learn's Gaussian process."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as TheirRBF  # noqa: N811
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
    ours = ExactPosterior(kernel, X, y[:, None], np.full((60, 1), noise), fixed_parameters(1.0, 1))
    prediction = ours.predict(Q)
    np.testing.assert_allclose(prediction.mean[:, 0], mean, atol=1e-8)
    np.testing.assert_allclose(prediction.variance[:, 0], std**2, atol=1e-8)


def test_prediction_agrees_with_ours_when_noise_varies(kernel):
    noise = np.random.default_rng(2).uniform(0.01, 0.5, size=60)
    y = draw(kernel, noise)
    theirs = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y)
    mean, std = theirs.predict(Q, return_std=True)
    ours = ExactPosterior(kernel, X, y[:, None], noise[:, None], fixed_parameters(1.0, 1))
    prediction = ours.predict(Q)
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
        kernel,
        X,
        y[:, None],
        np.zeros((60, 1)),
        Parameters(np.array([scale]), np.array([noise / scale]), free_mean=False),
    )
    prediction = ours.predict(Q)
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
    np.testing.assert_allclose(K, kernel.gram(X), rtol=1e-15, atol=1e-16)  # a sum rounds in another order
    assert gradient.shape == (60, 60, 0)
    assert kernel.theta.size == 0
    assert not kernel.is_stationary()
    assert (kernel + 2.0)(X)[0, 1] == pytest.approx(K[0, 1] + 2.0)
    assert (2.0 + kernel)(X)[0, 1] == pytest.approx(K[0, 1] + 2.0)
    assert (kernel**2)(X)[0, 1] == pytest.approx(K[0, 1] ** 2)


class TestFreeParameters:
    """Scikit-learn optimises what stands at "evidence"."""

    @pytest.mark.parametrize(
        "make",
        [lambda: RBF("evidence"), lambda: 0.5 * WEG() + RBF("evidence"), lambda: WEG() * RBF("evidence")],
        ids=["RBF", "sum", "product"],
    )
    def test_it_finds_a_length_of_more_likelihood(self, make):
        kernel = make().fit(POINTS, X).with_theta(np.log([0.6]))
        true = kernel.with_theta(np.log([1.2]))
        model = GaussianProcessRegressor(kernel, alpha=1e-2).fit(X, draw(true, 1e-2, seed=3))
        assert model.kernel_.theta.shape == (1,)
        before, after = (model.log_marginal_likelihood(theta) for theta in (kernel.theta, model.kernel_.theta))
        assert after > before + 5
        assert after >= model.log_marginal_likelihood(true.theta)
        assert np.exp(model.kernel_.theta[0]) == pytest.approx(1.2, rel=0.3)
        np.testing.assert_allclose(np.exp(kernel.theta), 0.6)  # ours was left alone

    def test_as_it_comes(self):
        kernel = RBF("evidence").fit(None, X)  # starts at the median distance, 2.2
        model = GaussianProcessRegressor(kernel, alpha=1e-2).fit(X, draw(RBF(3.5).fit(), 1e-2))
        assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(kernel.theta) + 1
        assert model.kernel_.lengthscale_ == pytest.approx(3.5, rel=0.3)

    def test_it_is_their_own_kernels_optimum(self):
        y = draw(RBF(1.2).fit(), 1e-2, seed=3)
        kernel = RBF("evidence").fit(None, X).with_theta(np.log([0.6]))
        ours = GaussianProcessRegressor(kernel, alpha=1e-2).fit(X, y)
        theirs = GaussianProcessRegressor(TheirRBF(0.6), alpha=1e-2).fit(X, y)
        assert ours.kernel_.lengthscale_ == pytest.approx(theirs.kernel_.length_scale, rel=1e-3)
        assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, abs=1e-4)
        np.testing.assert_allclose(ours.predict(Q), theirs.predict(Q), atol=1e-3)

    def test_inside_theirs(self):
        y = 3.0 * draw(RBF(1.2).fit(), 1e-2, seed=3)
        composed = ConstantKernel(1.0) * RBF("evidence").fit(None, X) + WhiteKernel(0.5)
        model = GaussianProcessRegressor(composed, alpha=0.0).fit(X, y)
        assert model.kernel_.theta.shape == (3,)
        assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(composed.theta) + 1
        value, gradient = model.log_marginal_likelihood(composed.theta, eval_gradient=True)
        for p, step in enumerate(1e-5 * np.eye(3)):
            ahead, behind = (model.log_marginal_likelihood(composed.theta + sign * step) for sign in (1, -1))
            assert gradient[p] == pytest.approx((ahead - behind) / 2e-5, rel=1e-5)
        assert np.isfinite(value)
