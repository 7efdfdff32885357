"""A kernel of one's own is one short class: it is learned, composed, saved and loaded like the others."""

import inspect

import numpy as np
import pytest

import gpec
from gpec.gp import ExactPosterior, fit_parameters, learn_kernel
from gpec.kernels import WEG, Kernel


class Periodic(Kernel):
    """``exp(-2 sum_j sin^2(pi (x_j - x'_j) / period))``."""

    def __init__(self, period="evidence"):
        self.period = period

    def _fit(self, graph, rows):
        self.period_ = 4.0 if self.period == "evidence" else float(self.period)

    def _free(self):
        return {"period": (1.5, 6.0)} if self.period == "evidence" else {}

    def cross_to(self, Y, feature=None):
        def cross_and_diagonal(X):
            phase = np.pi * (X.embedded[:, None] - Y.embedded) / self.period_
            return np.exp(-2 * (np.sin(phase) ** 2).sum(axis=2)), np.ones(len(X))

        return cross_and_diagonal


KERNELS = {
    "alone": Periodic(),
    "in a sum": 0.5 * WEG() + Periodic(),
    "in a product": WEG() * Periodic(),
    "given": Periodic(2.5),
}


def waves(X):
    """Attributions of period 2.5 in each feature."""
    X = np.asarray(X, dtype=float)
    return np.sin(2 * np.pi * X / 2.5) + 0.1 * np.cos(2 * np.pi * X[:, :1] / 2.5)


@pytest.fixture
def fit(make, X):
    def fitted(kernel, **parameters):
        small = {"n_explained": 80, "standardize": False, **parameters}
        return make(explainer=waves, kernel=kernel, **small).fit(X)

    return fitted


def test_it_takes_at_most_30_lines():
    assert len(inspect.getsource(Periodic).splitlines()) <= 30


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_explains(fit, X, kernel):
    g = fit(kernel)
    found = g.explain(X[:30])
    expected = ExactPosterior(
        g.kernel_, g.X_explained_, g.attributions_.values, np.zeros((80, 3)), g.posterior_.parameters
    ).predict(X[:30])
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-9)
    assert (found.variance > 0).all()


@pytest.mark.parametrize("name", ["alone", "in a sum", "in a product"])
def test_its_parameter_is_learned(fit, X, name):
    g = fit(KERNELS[name])
    kernel = g.kernel_
    assert kernel.n_dims == 1
    Y, zero = g.attributions_.values, np.zeros((80, 3))

    def lack(kernel):
        """-2 log likelihood up to a constant, in full matrices."""
        K, total = kernel.gram(g.X_explained_), 0.0
        parameters = fit_parameters(K, Y, zero)
        for y, s, nugget in zip(Y.T, parameters.scale, parameters.nugget, strict=True):
            inverse = np.linalg.inv(s * (K + nugget * np.eye(80)))
            ones = inverse.sum(axis=1)
            P = inverse - np.outer(ones, ones) / ones.sum()
            total += y @ P @ y - np.linalg.slogdet(inverse)[1] + np.log(ones.sum())
        return total

    start = kernel.with_theta(np.log([4.0]))
    assert lack(kernel) < lack(start) - 10
    if name == "alone":
        assert kernel.period_ == pytest.approx(2.5, rel=0.02)
        assert g.diagnostics_["kernel"] == [{}]  # it has not said what to report
    again = learn_kernel(start, g.X_explained_, Y, zero)
    np.testing.assert_allclose(again.theta, kernel.theta, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_is_saved_and_loaded_with_the_same_bits(fit, models, X, kernel, tmp_path):
    g = fit(kernel)
    g.save(tmp_path / "g.gpec")
    loaded = gpec.GPEC.load(tmp_path / "g.gpec", model=models.curved, explainer=waves)
    assert loaded.kernel_ == g.kernel_
    for attribution in ("explainer", "posterior"):
        a, b = (each.explain(X[:40], attribution=attribution) for each in (g, loaded))
        for name in ("values", "model_variance", "noise_variance"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    # and what was loaded can be fitted again
    np.testing.assert_array_equal(
        loaded.fit(X).explain(X[:5]).variance, g.explain(X[:5]).variance, err_msg="fitted again"
    )


@pytest.mark.parametrize("period", [1.0, 2.0, 3.0])
def test_its_gradient_by_differences_is_the_analytic_one(X, period):
    kernel = Periodic().fit().with_theta(np.log([period]))
    K, gradient = kernel.gram_gradient(X[:40])
    phase = np.pi * (X[:40, None] - X[:40]) / period
    np.testing.assert_allclose(gradient[:, :, 0], 2 * K * (phase * np.sin(2 * phase)).sum(axis=2), rtol=1e-5, atol=1e-7)
    assert np.abs(gradient).max() > 1


def test_given_parameters_are_not_free():
    assert Periodic(2.0).fit().theta.size == 0
    assert Periodic(2.0).fit().gram_gradient(np.eye(3))[1].shape == (3, 3, 0)
