"""The posterior at rows and at the rows similar to each, and between them."""

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, dense, learned, noise_kinds, problem

from gpec.gp import ExactPosterior, LowRankPosterior, Parameters
from gpec.kernels import RBF, Matern, Own, Rest

K = 4
KERNELS = {"alike": RBF(1.0).fit(), "by feature": OwnColumn(0.7).fit()}
# The features of the low-rank posterior leave up to 1e-9 of the kernel unexplained.
ATOL = {ExactPosterior: 1e-10, LowRankPosterior: 1e-7}


def similar_to(Q, seed=0):
    """``K`` rows near each row, the first row's first; one of them is the row itself."""
    near = Q[:, None] + 0.3 * np.random.default_rng(seed).normal(size=(len(Q), K, Q.shape[1]))
    near[2, 1] = Q[2]
    return near.reshape(-1, Q.shape[1])


def by_covariance(posterior, Q, similar):
    """The same, from the joint covariance of all of them."""
    n = len(Q)
    joint = posterior.covariance(np.vstack((Q, similar)))
    variance = np.einsum("iif->if", joint)
    covariance = np.array([joint[i, n + K * i : n + K * (i + 1)] for i in range(n)])
    return variance[:n], variance[n:].reshape(n, K, -1), covariance


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("posterior", ATOL)
def test_it_is_part_of_the_joint_covariance(posterior, free_mean, kind, kernel):
    p = problem(1, kernel=kernel)
    U, parameters, similar = noise_kinds(p.U)[kind], learned(3, free_mean), similar_to(p.Q)
    found = posterior(p.kernel, p.X, p.Y, U, parameters)
    pairs = found.pairs(p.Q, similar)[0]
    assert pairs.covariance.shape == pairs.similar_mean.shape == pairs.similar_variance.shape == (12, K, 3)
    variance, of_similar, covariance = by_covariance(found, p.Q, similar)
    np.testing.assert_allclose(pairs.variance, variance, atol=1e-10)
    np.testing.assert_allclose(pairs.similar_variance, of_similar, atol=1e-10)
    np.testing.assert_allclose(pairs.covariance, covariance, atol=1e-10)
    np.testing.assert_allclose(pairs.mean, found.predict(p.Q).mean, atol=1e-10)
    np.testing.assert_allclose(pairs.similar_mean.reshape(-1, 3), found.predict(similar).mean, atol=1e-10)
    # and of the dense formula
    mean, joint = dense(p.kernel, p.X, np.vstack((p.Q, similar)), p.Y, U, parameters)
    np.testing.assert_allclose(pairs.mean, mean[:12], atol=100 * ATOL[posterior])
    for i, k in ((0, 0), (5, 3), (11, 2)):
        np.testing.assert_allclose(pairs.covariance[i, k], joint[i, 12 + K * i + k], atol=ATOL[posterior])


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("kind", ["varying", "constant over rows", "some rows without"])
@pytest.mark.parametrize("posterior", ATOL)
def test_as_if_there_were_no_noise(posterior, kind, kernel):
    """Variances are those of a posterior without noise; means are still those of the noisy one."""
    p = problem(2, kernel=kernel)
    U, similar = noise_kinds(p.U)[kind], similar_to(p.Q)
    noisy = posterior(p.kernel, p.X, p.Y, U, learned(3))
    quiet = posterior(p.kernel, p.X, p.Y, np.zeros_like(U), learned(3))
    found, expected = noisy.pairs(p.Q, similar)[1], quiet.pairs(p.Q, similar)[0]
    for name in ("variance", "similar_variance", "covariance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=ATOL[posterior])
    with_noise = noisy.pairs(p.Q, similar)[0]
    assert (with_noise.variance > found.variance).all()
    np.testing.assert_allclose(found.mean, with_noise.mean, atol=1e-12)


def test_a_row_is_fully_correlated_with_itself():
    p = problem(3)
    pairs = ExactPosterior(p.kernel, p.X, p.Y, p.U, learned(3)).pairs(p.Q, similar_to(p.Q))[0]
    np.testing.assert_allclose(pairs.covariance[2, 1], pairs.variance[2], atol=1e-10)
    np.testing.assert_allclose(pairs.similar_mean[2, 1], pairs.mean[2], atol=1e-10)
    bound = np.sqrt(pairs.variance[:, None] * pairs.similar_variance)
    assert (np.abs(pairs.covariance) <= bound + 1e-10).all()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("u", [0.0, 0.3])
def test_a_feature_that_does_not_vary_is_one_constant(kernel, u):
    p = problem(4, kernel=kernel)
    p.Y[:, 1] = 0.7
    U = np.full_like(p.U, u)
    parameters = Parameters(np.array([1.0, 0.0, 1.0]), np.full(3, 0.1), True)
    pairs = ExactPosterior(p.kernel, p.X, p.Y, U, parameters).pairs(p.Q, similar_to(p.Q))[0]
    np.testing.assert_allclose(pairs.mean[:, 1], 0.7)
    np.testing.assert_allclose(pairs.similar_mean[:, :, 1], 0.7)
    for found in (pairs.variance[:, 1], pairs.similar_variance[:, :, 1], pairs.covariance[:, :, 1]):
        np.testing.assert_allclose(found, u / 50, atol=1e-15)  # the variance of a mean of 50


def test_rows_one_at_a_time_say_the_same():
    p = problem(5)
    kernel = Matern(Own(1.0), Rest(2.0)).fit(None, p.X)
    posterior = ExactPosterior(kernel, p.X, p.Y, p.U, learned(3))
    similar = similar_to(p.Q)
    whole = posterior.pairs(p.Q, similar)[0]
    for i in range(12):
        alone = posterior.pairs(p.Q[i : i + 1], similar[K * i : K * (i + 1)])[0]
        np.testing.assert_allclose(alone.covariance[0], whole.covariance[i], atol=1e-10)
        np.testing.assert_allclose(alone.similar_mean[0], whole.similar_mean[i], atol=1e-10)


@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("noise", ["none", "varying"])
def test_the_condition_of_one_feature_is_an_upper_bound(noise, free_mean):
    """Also where a kernel has negative values, whose row sums are small."""

    class Cosine(OwnColumn):
        def cross_to(self, Y, feature=None):
            def unit(rows):
                return rows.embedded / np.linalg.norm(rows.embedded, axis=1, keepdims=True)

            towards = unit(Y)
            return lambda X: (unit(X) @ towards.T, np.ones(len(X)))

    p = problem(6)
    p.X = np.vstack((p.X[:25], -p.X[:25]))
    parameters = Parameters(np.ones(3), np.full(3, 1e-3), free_mean)
    U = p.U if noise == "varying" else np.zeros_like(p.U)
    for kernel in (Cosine().fit(), OwnColumn().fit()):
        true = max(np.linalg.cond(kernel.gram(p.X, f) + 1e-3 * np.eye(50)) for f in range(3))
        found = ExactPosterior(kernel, p.X, p.Y, U, parameters).condition
        assert true * (1 - 1e-6) <= found <= 3 * true
