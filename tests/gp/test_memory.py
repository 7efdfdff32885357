"""What a posterior keeps of a kernel that differs by feature is bounded, and so is what a fit keeps."""

import tracemalloc

import numpy as np
import pytest

import gpec
from gpec.gp import ExactPosterior, LowRankPosterior, Parameters, conditioning, make_posterior
from gpec.kernels import RBF, Matern, Own, Rest

N, D = 400, 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D))
Y = np.sin(X) @ RNG.normal(size=(D, D))
KERNEL = Matern(Own(1.0), Rest(9.0)).fit(None, X)
PARAMETERS = Parameters(np.ones(D), np.full(D, 1e-2), True)
MATRICES = 8 * N * N * D  # bytes of one for each feature


def memory(make):
    """Bytes that remain and the most there were, of what a function makes."""
    make()
    tracemalloc.start()
    try:
        found = make()
        return found, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("noise", "factors"), [(0.0, 1), (1e-3, 2)])
def test_factors_are_kept_but_not_the_matrices_they_come_from(noise, factors):
    U = np.full(Y.shape, noise)
    found, kept, most = memory(lambda: make_posterior(KERNEL, X, Y, U, "evidence", 0))
    assert isinstance(found, ExactPosterior)
    assert kept < 1.1 * factors * MATRICES
    assert most < (factors + 1) * MATRICES  # a few matrices besides
    np.testing.assert_array_equal(found.leave_one_out().residual, found.leave_one_out().residual)


def test_features_in_any_order_have_their_own_matrix():
    covariances = conditioning.feature_grams(KERNEL, conditioning.Rows.of(X), D)[0][1].covariances
    for feature in (0, 1, 5, 2, D - 1, D - 1, 0):
        K = KERNEL.cross_to(conditioning.Rows.of(X), feature)(conditioning.Rows.of(X))[0]
        np.testing.assert_allclose(covariances.matrix(feature), K, rtol=1e-12)


@pytest.mark.parametrize(("noise", "n_outputs"), [(0.0, 3), (1e-3, 1)])
def test_factors_with_noise_and_of_several_outputs_count(monkeypatch, noise, n_outputs):
    monkeypatch.setattr(conditioning, "_NUMBERS", 1.5 * N * N * D)
    U = np.full(Y.shape, noise)
    alone = make_posterior(KERNEL, X, Y, 0 * U, 1.0, 0)
    assert isinstance(alone, ExactPosterior)
    found, kept, _ = memory(lambda: make_posterior(KERNEL, X, Y, U, 1.0, 0, n_outputs=n_outputs))
    assert isinstance(found, LowRankPosterior)
    assert kept < 1.12 * 1.5 * MATRICES / n_outputs


def test_the_rank_is_bounded_where_noise_varies(monkeypatch):
    monkeypatch.setattr(conditioning, "_NUMBERS", 0.4 * N * N * D)
    U = RNG.uniform(1e-3, 2e-3, Y.shape)
    found, kept, _ = memory(lambda: make_posterior(KERNEL, X, Y, U, "evidence", 0, PARAMETERS))
    assert found.n_pivots == int(N * np.sqrt(0.1))
    assert kept < 1.1 * 0.4 * MATRICES


def test_factors_of_varying_noise_count_where_features_share_a_kernel(monkeypatch):
    monkeypatch.setattr(conditioning, "_NUMBERS", 0.5 * N * N * D)
    kernel, U = RBF(3.0).fit(None, X), RNG.uniform(1e-3, 2e-3, Y.shape)
    assert isinstance(make_posterior(kernel, X, Y, 0 * U + 1e-3, "evidence", 0, PARAMETERS), ExactPosterior)
    found, kept, _ = memory(lambda: make_posterior(kernel, X, Y, U, "evidence", 0, PARAMETERS))
    assert isinstance(found, LowRankPosterior)
    assert kept < 0.5 * MATRICES


def test_nothing_else_keeps_the_matrices_of_a_fit(monkeypatch):
    monkeypatch.setattr(conditioning, "_NUMBERS", 0.4 * N * N * D)
    g = gpec.GPEC(lambda Z: Z[:, 0], np.sin, mode="predict", model_output="value", n_explained=N, progress=False)
    tracemalloc.start()
    try:
        g.fit(X)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(g.posterior_, LowRankPosterior)
    assert kept < MATRICES
