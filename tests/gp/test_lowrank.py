"""The posterior from kernel features is the dense one."""

import numpy as np
import pytest
from gp_helpers import OwnColumn
from scipy.linalg.lapack import dpstrf

from gpec.gp import ExactPosterior, LowRankPosterior, Parameters, fit_parameters, fixed_parameters
from gpec.kernels import RBF, WEG

N, D, d = 400, 3, 3
RNG = np.random.default_rng(0)
POINTS, X = RNG.normal(size=(150, D)), RNG.normal(size=(N, D))
Q = np.vstack((RNG.normal(size=(40, D)), X[:20], 10 * X[:5]))
Y = np.column_stack((np.sin(X[:, 0]), 10 * X[:, 1], X[:, 2] ** 2)) + 0.1 * RNG.normal(size=(N, d)) + [3.0, 0.0, -1.0]

KERNELS = {
    "WEG": WEG(),
    "WEG plain": WEG(normalize=False),
    "RBF": RBF(),
    "RBF of full rank": RBF(0.2),
    "composed": 2.0 * WEG() + 0.5 * RBF(2.0),
    "by feature": OwnColumn(0.5),
    "composed by feature": 0.5 * WEG() + OwnColumn(1.0),
}
VARYING = RNG.uniform(0, 0.1, size=(N, d))
NOISE = {
    "none": np.zeros((N, d)),
    "constant": np.tile([0.01, 0.5, 1e-3], (N, 1)),
    "varying": VARYING,
    "mixed": np.column_stack((np.full(N, 0.05), VARYING[:, 1], VARYING[:, 1])),
    "one column without": VARYING * [1.0, 0.0, 1.0],
}


def both(kernel, U, parameters, *, values=Y, **options):
    dense = ExactPosterior(kernel, X, values, U, parameters)
    low = LowRankPosterior(kernel, X, values, U, parameters, seed=1, **options)
    return dense, low


def pivots_of(kernel, **options):
    """The rows that a posterior of low rank rests on: those that its kernel is asked about."""
    met = []

    class Watched(type(kernel)):
        def cross_to(self, Y, feature=None):
            met.append(Y.embedded)
            return super().cross_to(Y, feature)

    low = LowRankPosterior(
        Watched(**kernel.get_params()).fit(), X, Y, NOISE["none"], fixed_parameters(1.0, d), **options
    )
    low.predict(Q)
    return low, met[-1]


@pytest.fixture(scope="module", params=KERNELS)
def kernel(request):
    return KERNELS[request.param].__sklearn_clone__().fit(POINTS, X)


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("free_mean", [True, False])
def test_it_equals_the_dense_posterior(kernel, noise, free_mean):
    parameters = Parameters(np.array([1.0, 50.0, 2.0]), np.array([1e-2, 1e-3, 0.3]), free_mean)
    dense, low = both(kernel, NOISE[noise], parameters)
    assert low.residual <= 1e-9
    a, b = dense.predict(Q), low.predict(Q)
    # A residual of 1e-9 is 1e-6 of the least nugget here.
    unit = np.sqrt(parameters.scale)
    np.testing.assert_allclose(low.mean / unit, dense.mean / unit, atol=1e-4)
    np.testing.assert_allclose(b.mean / unit, a.mean / unit, atol=2e-4)
    np.testing.assert_allclose(b.model_variance, a.model_variance, rtol=1e-4)
    np.testing.assert_allclose(b.noise_variance, a.noise_variance, rtol=1e-3, atol=1e-6)
    assert (b.noise_variance >= 0).all()
    assert b.n_clamped == 0
    if kernel.varies_by_feature:  # the dense one takes a bound by row sums
        assert low.condition * (1 - 1e-6) <= dense.condition <= 2 * low.condition
    else:
        assert low.condition == pytest.approx(dense.condition, rel=1e-6)


@pytest.mark.parametrize("noise", ["none", "constant", "varying"])
def test_weg_has_fewer_features_than_boundary_points_and_no_residual(noise):
    kernel = WEG().fit(POINTS, X)
    dense, low = both(kernel, NOISE[noise], fit_parameters(kernel.gram(X), Y, NOISE[noise]))
    assert low.n_pivots <= len(POINTS)
    assert low.residual < 1e-9
    a, b = dense.predict(Q), low.predict(Q)
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    np.testing.assert_allclose(b.model_variance, a.model_variance, rtol=1e-6)
    np.testing.assert_allclose(b.noise_variance, a.noise_variance, rtol=1e-5, atol=1e-9)


def test_the_papers_parameters(kernel):
    dense, low = both(kernel, np.full((N, d), 1e-4), fixed_parameters(1.0, d))
    a, b = dense.predict(Q), low.predict(Q)
    np.testing.assert_allclose(b.variance, a.variance, rtol=1e-3)
    np.testing.assert_allclose(b.mean, a.mean, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(low.mean, 0.0)


@pytest.mark.parametrize("noise", ["none", "constant", "varying"])
def test_constant_columns(noise):
    kernel = WEG().fit(POINTS, X)
    values = Y.copy()
    values[:, 1] = 4.5
    U = NOISE[noise]
    dense, low = both(kernel, U, fit_parameters(kernel.gram(X), values, U), values=values)
    a, b = dense.predict(Q), low.predict(Q)
    np.testing.assert_allclose(b.mean[:, 1], 4.5, rtol=1e-8)
    np.testing.assert_array_equal(b.model_variance[:, 1], 0.0)
    np.testing.assert_array_equal(b.noise_variance[:, 1], a.noise_variance[:, 1])


class TestResidual:
    def test_it_is_the_largest_variance_left_unexplained(self):
        kernel = RBF(0.5).fit()
        low, pivots = pivots_of(kernel, max_rank=60, seed=2)
        assert len(pivots) == len(np.unique(pivots, axis=0)) == low.n_pivots == 60
        C = kernel.cross(X, pivots)
        left = 1.0 - np.einsum("ij,ji->i", C, np.linalg.solve(kernel.gram(pivots), C.T))
        assert low.residual == pytest.approx(left.max(), rel=1e-9)
        assert low.residual > 0.1

    @pytest.mark.parametrize("rank", [40, 150])
    def test_too_few_features_never_understate_the_variance(self, rank):
        rng = np.random.default_rng(5)
        rows, queries = rng.normal(size=(300, 3)), 1.2 * rng.normal(size=(100, 3))
        kernel = RBF(0.5).fit()
        values = rng.multivariate_normal(np.zeros(300), kernel.gram(rows), size=2, method="eigh").T
        noise, unit = np.full((300, 2), 1e-4), fixed_parameters(1.0, 2)
        dense = ExactPosterior(kernel, rows, values, noise, unit).predict(queries)
        few = LowRankPosterior(kernel, rows, values, noise, unit, seed=6, max_rank=rank).predict(queries)
        assert (few.variance >= 0.999 * dense.variance).all()
        assert (np.abs(few.mean - dense.mean) <= 4 * np.sqrt(few.variance)).all()

    def test_it_falls_with_the_rank(self):
        kernel = RBF(3.0).fit()
        residuals = [
            LowRankPosterior(kernel, X, Y, NOISE["none"], fixed_parameters(1.0, d), seed=2, max_rank=rank).residual
            for rank in (10, 40, 160)
        ]
        assert residuals[0] > 2 * residuals[1] > 4 * residuals[2]

    @pytest.mark.parametrize("tolerance", [1e-2, 1e-5])
    def test_tolerance_stops_the_search(self, tolerance):
        kernel = RBF(1.0).fit()
        low = LowRankPosterior(kernel, X, Y, NOISE["none"], fixed_parameters(1.0, d), seed=3, tolerance=tolerance)
        assert low.residual <= tolerance
        assert low.n_pivots < N

    def test_several_blocks_of_pivots(self, monkeypatch):
        # Blocks of 16: features of a later block are orthogonal to the earlier ones.
        monkeypatch.setattr("gpec.gp.lowrank._BLOCK", 16)
        kernel = WEG().fit(POINTS, X)
        dense, low = both(kernel, NOISE["varying"], fit_parameters(kernel.gram(X), Y, NOISE["varying"]))
        assert low.n_pivots > 48
        a, b = dense.predict(Q), low.predict(Q)
        np.testing.assert_allclose(b.mean, a.mean, atol=1e-4)
        np.testing.assert_allclose(b.model_variance, a.model_variance, rtol=1e-4)
        np.testing.assert_allclose(b.noise_variance, a.noise_variance, rtol=1e-3, atol=1e-7)

    def test_what_the_features_leave_out_at_a_query_stays_in_its_variance(self):
        kernel = RBF(0.5).fit()
        low = both(kernel, NOISE["constant"], fixed_parameters(1.0, d), max_rank=40)[1]
        pivots = pivots_of(kernel, max_rank=40, seed=1)[1]
        k = kernel.cross(Q, pivots)
        left_out = 1.0 - np.einsum("ij,ji->i", k, np.linalg.solve(kernel.gram(pivots), k.T))
        assert left_out.max() > 0.5
        assert (low.predict(Q).model_variance >= left_out[:, None] - 1e-9).all()

    def test_copies_of_a_row_are_one_feature(self):
        kernel = RBF(1.0).fit()
        copies = np.repeat(X[:30], 10, axis=0)
        values, U = np.repeat(Y[:30], 10, axis=0), np.full((300, d), 0.1)
        low = LowRankPosterior(kernel, copies, values, U, fixed_parameters(1.0, d), seed=4)
        assert low.n_pivots <= 30
        dense = ExactPosterior(kernel, copies, values, U, fixed_parameters(1.0, d))
        np.testing.assert_allclose(low.predict(Q).variance, dense.predict(Q).variance, atol=1e-7)


@pytest.mark.parametrize("tolerance", [1e-9, 1e-16, 0.0])
@pytest.mark.parametrize("lengthscale", [10.0, 1_000.0])
def test_the_search_for_pivots_ends_where_only_rounding_is_left(tolerance, lengthscale, monkeypatch):
    """Sums of squares leave a little of the diagonal that the block itself does not have."""
    blocks = []

    def counted(*arguments, **options):
        blocks.append(len(arguments[0]))
        assert len(blocks) < 200, "the search goes on without finding a pivot"
        return dpstrf(*arguments, **options)

    monkeypatch.setattr("gpec.gp.lowrank.dpstrf", counted)
    kernel = RBF(lengthscale).fit()
    for seed in range(10):
        rows = np.random.default_rng(seed).normal(size=(60, 2))
        seen = (kernel, rows, rows, np.full((60, 2), 1e-3), fixed_parameters(1.0, 2))
        dense, low = ExactPosterior(*seen), LowRankPosterior(*seen, seed=seed, tolerance=tolerance)
        assert 0 <= low.residual <= max(tolerance, 1e-14)
        assert low.n_pivots < 60
        np.testing.assert_allclose(low.predict(rows).variance, dense.predict(rows).variance, rtol=1e-4)


def test_it_repeats_with_the_seed():
    kernel = RBF(0.5).fit()
    parameters = fixed_parameters(1.0, d)
    once, again, other = (
        LowRankPosterior(kernel, X, Y, NOISE["constant"], parameters, seed=seed, max_rank=40).predict(Q)
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(once.mean, again.mean)
    np.testing.assert_array_equal(once.variance, again.variance)
    assert not np.allclose(once.mean, other.mean)


@pytest.mark.parametrize("varying", [False, True])
def test_20000_rows(varying):
    """Against Bayesian regression on the explicit features of WEG, of which there are as many as boundary points."""
    rng = np.random.default_rng(6)
    n = 20_000
    rows = rng.normal(size=(n, D))
    kernel = WEG().fit(POINTS, rows)
    Phi = _explicit_features(kernel, rows)
    weights = rng.normal(size=Phi.shape[1])
    y = (Phi @ weights + 0.3 * rng.normal(size=n))[:, None]
    u = rng.uniform(0.01, 0.1, size=(n, 1)) if varying else np.full((n, 1), 0.05)
    parameters = Parameters(np.ones(1), np.array([0.04]), free_mean=False)
    low = LowRankPosterior(kernel, rows, y, u, parameters, seed=6)
    assert low.n_pivots <= len(POINTS)
    prediction = low.predict(Q)
    phi = _explicit_features(kernel, Q)
    precision = 1 / (0.04 + u)
    S = np.eye(Phi.shape[1]) + Phi.T @ (precision * Phi)
    np.testing.assert_allclose(
        prediction.mean[:, 0], phi @ np.linalg.solve(S, Phi.T @ (precision * y))[:, 0], atol=1e-6
    )
    expected = 0.04 + np.einsum("ij,ji->i", phi, np.linalg.solve(S, phi.T))
    np.testing.assert_allclose(prediction.variance[:, 0], expected, rtol=1e-6)
    assert (prediction.noise_variance > 0).all()


def _explicit_features(kernel, R):
    F = kernel.weights(R) @ kernel.B_
    return F / np.linalg.norm(F, axis=1, keepdims=True)
