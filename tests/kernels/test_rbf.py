"""The radial basis function kernel."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

from gpec.errors import InputError, NotFittedError
from gpec.gp import fit_parameters
from gpec.kernels import RBF
from gpec.kernels.archive import kernel_from_state, kernel_state
from gpec.kernels.rbf import _lack_with_free_scale


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
    assert RBF().fit(None, many).lengthscale_ == pytest.approx(np.median(pdist(many[::10])), rel=1e-12)


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_scales(size):
    X = np.random.default_rng(3).uniform(-1, 1, size=(30, 3))
    np.testing.assert_allclose(RBF().fit(None, X * size).gram(X * size), RBF().fit(None, X).gram(X), rtol=1e-9)


def test_bad_input():
    X = np.eye(3)
    for use in (RBF(1.0).gram, RBF(1.0).diag, RBF(1.0).against):
        with pytest.raises(NotFittedError, match="This RBF kernel is not fitted yet"):
            use(X)
    for use in (RBF(1.0).diagnostics, RBF(1.0).fitted_state):
        with pytest.raises(NotFittedError):
            use()
    with pytest.raises(InputError, match=r"needs rows: call fit\(boundary, X\)"):
        RBF().fit(X)
    with pytest.raises(InputError, match="lengthscale='long' must be"):
        RBF("long").fit(X, X)
    with pytest.raises(InputError, match=r"lengthscale=0\.0 must be"):
        RBF(0.0).fit()
    with pytest.raises(InputError, match="X has 2 features but Y has 3"):
        RBF(1.0).fit().cross(np.eye(2), X)


# The lengthscale by evidence


def drawn(lengthscale, n=120, d=4, noise=1e-4, seed=0):
    """Rows, and functions drawn from a Gaussian process of that lengthscale, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    K = RBF(lengthscale).fit().gram(X) + noise * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.normal(size=(n, d))


def dense_evidence(X, Y, U, lengthscale):
    """Sum over the features of log p, the formula of gpec.gp.evidence in full matrices."""
    K, n, total = RBF(lengthscale).fit().gram(X), len(X), 0.0
    parameters = fit_parameters(K, Y, U)
    for f in range(Y.shape[1]):
        A = parameters.scale[f] * (K + parameters.nugget[f] * np.eye(n)) + np.diag(U[:, f])
        inverse, ones = np.linalg.inv(A), np.ones(n)
        precision = ones @ inverse @ ones
        P = inverse - np.outer(inverse @ ones, inverse @ ones) / precision
        total -= (Y[:, f] @ P @ Y[:, f] + np.linalg.slogdet(A)[1] + np.log(precision)) / 2
    return total


@pytest.mark.parametrize("lengthscale", [0.5, 2.0])
def test_given_scale_agrees_with_scikit_learn(lengthscale):
    X, Y = drawn(lengthscale)
    theirs = GaussianProcessRegressor(sklearn_kernels.RBF(lengthscale), alpha=1e-4).fit(X, Y).kernel_.length_scale
    tuned = RBF("evidence").fit(None, X).tune(X, Y, np.full(Y.shape, 1e-4), output_scale=1.0)
    assert tuned.lengthscale_ == pytest.approx(theirs, rel=0.01)
    assert tuned.lengthscale_ == pytest.approx(lengthscale, rel=0.1)


@pytest.mark.parametrize("u", [0.0, 1e-4, 0.3])
def test_free_scale_has_the_most_evidence(u):
    X, Y = drawn(1.0, noise=max(u, 1e-4))
    Y = 3.0 + Y * [1.0, 10.0, 0.1, 1e-3]
    U = np.tile(u * np.array([1.0, 100.0, 0.01, 1e-6]), (len(Y), 1))
    found = RBF("evidence").fit(None, X).tune(X, Y, U).lengthscale_
    most = dense_evidence(X, Y, U, found)
    for factor in (0.1, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 10.0):
        assert dense_evidence(X, Y, U, found * factor) < most + 1e-3
    assert found == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize("u", [0.0, 0.3, 3.0])
def test_evidence_of_two_lengthscales_differs_as_in_full_matrices(u):
    X, Y = drawn(1.0, n=40)
    Y = Y + 2.0 * X[:, :1]
    U = np.full(Y.shape, u)
    gaps = []
    for lengthscale in (0.3, 1.0, 4.0):
        spectrum, Q = np.linalg.eigh(RBF(lengthscale).fit().gram(X))
        lack = _lack_with_free_scale(np.maximum(spectrum, 0.0), Q.T @ Y, Q.sum(axis=0), U[0])
        gaps.append(lack + 2 * dense_evidence(X, Y, U, lengthscale))
    assert np.ptp(gaps) < 0.2  # the shares of noise are tried on a grid


def test_stated_noise_matters():
    """Noise that is all there is leaves nothing to a short lengthscale."""
    X, Y = drawn(0.1, d=1)  # rough: nearly white at this density
    kernel = RBF("evidence").fit(None, X)
    rough = kernel.tune(X, Y, np.zeros(Y.shape), output_scale=1.0).lengthscale_
    assert rough == pytest.approx(0.1, rel=0.3)
    assert kernel.tune(X, Y, np.full(Y.shape, Y.var()), output_scale=1.0).lengthscale_ != pytest.approx(rough, rel=0.5)


def test_units_and_constant_features_do_not_matter():
    X, Y = drawn(1.0)
    kernel = RBF("evidence").fit(None, X)
    zero = np.zeros(Y.shape)
    expected = kernel.tune(X, Y, zero).lengthscale_
    assert kernel.tune(X, 1e6 * Y + 7.0, zero).lengthscale_ == pytest.approx(expected, rel=1e-3)
    assert kernel.tune(X, 1e-120 * Y, zero).lengthscale_ == pytest.approx(expected, rel=1e-3)
    assert kernel.tune(1e3 * X, Y, zero).lengthscale_ == pytest.approx(1e3 * expected, rel=1e-3)
    padded = np.hstack((Y, np.full((len(Y), 2), 0.3)))
    assert kernel.tune(X, padded, np.zeros(padded.shape)).lengthscale_ == pytest.approx(expected, rel=1e-9)


def test_tuning_gives_a_new_kernel_and_only_where_asked():
    X, Y = drawn(0.5)
    kernel = RBF("evidence").fit(None, X)
    before = kernel.lengthscale_
    assert before == RBF().fit(None, X).lengthscale_
    tuned = kernel.tune(X, Y, np.zeros(Y.shape))
    assert tuned is not kernel
    assert kernel.lengthscale_ == before != tuned.lengthscale_
    assert tuned.lengthscale == "evidence"
    assert tuned.diagnostics() == {"lengthscale": tuned.lengthscale_}
    again = kernel_from_state(kernel_state(tuned))
    np.testing.assert_array_equal(again.gram(X), tuned.gram(X))
    for other in (RBF().fit(None, X), RBF(2.0).fit()):
        assert other.tune(X, Y, np.zeros(Y.shape)) is other


@pytest.mark.parametrize(
    ("X", "Y"),
    [
        (np.random.default_rng(0).normal(size=(20, 2)), np.full((20, 3), 0.4)),  # nothing varies
        (np.zeros((20, 2)), np.random.default_rng(0).normal(size=(20, 3))),  # all rows equal
        (np.eye(2), np.eye(2)),
    ],
    ids=["constant", "one place", "two rows"],
)
def test_nothing_to_tune(X, Y):
    kernel = RBF("evidence").fit(None, X)
    assert kernel.tune(X, Y, np.zeros(Y.shape)) is kernel


def test_tuning_needs_a_fitted_kernel():
    with pytest.raises(NotFittedError, match="This RBF kernel is not fitted yet"):
        RBF("evidence").tune(np.eye(3), np.eye(3), np.zeros((3, 3)))
    with pytest.raises(InputError, match="lengthscale='evidence' needs rows"):
        RBF("evidence").fit(np.eye(3))
