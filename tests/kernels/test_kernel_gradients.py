"""The derivatives of every kernel's matrix by the logarithms of its free parameters."""

import numpy as np
import pytest

from gpec.kernels import EG, RBF, WEG, Kernel, Scaled

RNG = np.random.default_rng(0)
POINTS, X = RNG.normal(size=(50, 3)), RNG.normal(size=(25, 3))


class Rational(Kernel):
    """``(1 + |x - x'|^2 / (2 a l^2))^-a`` on the feature's own column, with no gradient of its own."""

    varies_by_feature = True

    def _fit(self, graph, rows):
        self.alpha_, self.length_ = 0.7, 1.3

    def _free(self):
        return {"alpha": (1e-2, 1e2), "length": (1e-2, 1e2)}

    def cross_to(self, Y, feature=None):
        def cross_and_diagonal(X):
            squares = (X.own(feature) - Y.own(feature).T) ** 2
            return (1 + squares / (2 * self.alpha_ * self.length_**2)) ** -self.alpha_, np.ones(len(X))

        return cross_and_diagonal


KERNELS = {
    "EG": lambda: EG(),
    "WEG": lambda: WEG(),
    "WEG plain": lambda: WEG(normalize=False),
    "RBF": lambda: RBF(),
    "RBF learned": lambda: RBF("evidence"),
    "own": lambda: Rational(),
    "multiple": lambda: 3.0 * RBF("evidence"),
    "learned multiple": lambda: Scaled("evidence", WEG()),
    "learned multiple of learned": lambda: Scaled("evidence", RBF("evidence")),
    "sum": lambda: 0.5 * WEG() + RBF("evidence"),
    "sum with own": lambda: RBF("evidence") + Rational(),
    "product": lambda: WEG() * RBF("evidence"),
    "product of two": lambda: RBF("evidence") * Rational(),
    "nested": lambda: Scaled("evidence", WEG() * RBF("evidence") + 0.1 * EG()) * (Rational() + RBF("evidence")),
}
FREE = {"EG": 0, "WEG": 0, "WEG plain": 0, "RBF": 0, "multiple": 1, "learned multiple of learned": 2, "nested": 5}


@pytest.mark.parametrize("feature", [None, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_central_differences(name, feature):
    kernel = KERNELS[name]().fit(POINTS, X)
    if feature is None and kernel.varies_by_feature:
        feature = 2
    kernel.theta = kernel.theta + np.random.default_rng(1).uniform(-0.5, 0.5, size=kernel.n_dims)
    K, gradient = kernel.gram_gradient(X, feature)
    np.testing.assert_allclose(K, kernel.gram(X, feature), atol=1e-14)
    assert gradient.shape == (25, 25, kernel.n_dims)
    assert kernel.n_dims == FREE.get(name, kernel.n_dims)

    def difference(unit, step):
        ahead, behind = (kernel.with_theta(kernel.theta + sign * step * unit).gram(X, feature) for sign in (1, -1))
        return (ahead - behind) / (2 * step)

    for p, unit in enumerate(np.eye(kernel.n_dims)):
        numeric = (4 * difference(unit, 1e-3) - difference(unit, 2e-3)) / 3
        np.testing.assert_allclose(gradient[:, :, p], numeric, rtol=1e-5, atol=1e-9)
        assert np.abs(gradient[:, :, p]).max() > 1e-3  # it does depend on the parameter
        np.testing.assert_allclose(gradient[:, :, p], gradient[:, :, p].T, atol=1e-11)


def test_the_call_of_scikit_learn_gives_the_same():
    kernel = KERNELS["sum"]().fit(POINTS, X)
    for ours, theirs in zip(kernel.gram_gradient(X), kernel(X, eval_gradient=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
