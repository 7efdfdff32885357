"""The radial basis function kernel."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import kernels as sklearn_kernels

from gpec.data import Rows
from gpec.errors import InputError, NotFittedError
from gpec.kernels import RBF


@pytest.mark.parametrize("lengthscale", [0.1, 1.0, 30.0])
def test_it_is_scikit_learns(lengthscale):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(20, 4)), rng.normal(size=(9, 4))
    ours, theirs = RBF(lengthscale).fit(), sklearn_kernels.RBF(lengthscale)
    np.testing.assert_allclose(ours.cross(X, Y), theirs(X, Y), atol=1e-14)
    np.testing.assert_allclose(ours.gram(X), theirs(X), atol=1e-14)
    np.testing.assert_array_equal(ours.diag(X), np.ones(20))


def test_auto_is_the_median_distance_between_different_rows():
    X = np.random.default_rng(1).normal(size=(80, 3))
    assert RBF().fit(None, X).lengthscale_ == pytest.approx(np.median(pdist(X)), rel=1e-12)
    copies = np.array([[0.0], [0.0], [0.0], [2.0]])
    assert RBF().fit(None, copies).lengthscale_ == 2.0
    assert RBF().fit(None, np.zeros((4, 2))).lengthscale_ == 1.0
    many = np.random.default_rng(2).normal(size=(5_000, 3))
    some = many[np.linspace(0, 4_999, 500).round().astype(int)]
    assert RBF().fit(None, many).lengthscale_ == pytest.approx(np.median(pdist(some)), rel=1e-12)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_scales(size):
    X = np.random.default_rng(3).uniform(-1, 1, size=(30, 3))
    np.testing.assert_allclose(RBF().fit(None, X * size).gram(X * size), RBF().fit(None, X).gram(X), rtol=1e-9)


def test_bad_input():
    X = np.eye(3)
    for use in (RBF(1.0).gram, RBF(1.0).diag, lambda X: RBF(1.0).cross_to(Rows.of(X))):
        with pytest.raises(NotFittedError, match="This RBF kernel is not fitted yet"):
            use(X)
    for use in (RBF(1.0).diagnostics, lambda: RBF("evidence").theta, lambda: RBF("evidence").bounds):
        with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
            use()
    with pytest.raises(InputError, match=r"needs rows: call fit\(boundary, X\)"):
        RBF().fit(X)
    with pytest.raises(InputError, match="lengthscale='long' must be"):
        RBF("long").fit(X, X)
    with pytest.raises(InputError, match=r"lengthscale=0\.0 must be"):
        RBF(0.0).fit()
    with pytest.raises(InputError, match="X has 2 features but Y has 3"):
        RBF(1.0).fit().cross(np.eye(2), X)


def test_evidence_starts_at_the_median_and_has_bounds_around_it():
    X = np.random.default_rng(4).normal(size=(40, 3))
    kernel, median = RBF("evidence").fit(None, X), RBF().fit(None, X).lengthscale_
    assert kernel.lengthscale_ == median
    assert [h.name for h in kernel.hyperparameters] == ["lengthscale"]
    np.testing.assert_allclose(np.exp(kernel.theta), [median])
    np.testing.assert_allclose(np.exp(kernel.bounds), [[0.01 * median, 100 * median]])
    for fixed in (RBF().fit(None, X), RBF(2.0).fit()):
        assert fixed.theta.shape == (0,)
        assert fixed.bounds.shape == (0, 2)


def test_with_theta_is_a_kernel_of_that_length():
    X = np.random.default_rng(5).normal(size=(20, 3))
    kernel = RBF("evidence").fit(None, X)
    before = kernel.lengthscale_
    np.testing.assert_allclose(kernel.with_theta(np.log([0.3])).gram(X), RBF(0.3).fit().gram(X), atol=1e-14)
    assert kernel.lengthscale_ == before
    kernel.theta = np.log([0.7])
    assert kernel.lengthscale_ == pytest.approx(0.7)
    with pytest.raises(ValueError, match="zip"):
        kernel.with_theta(np.zeros(2))
