"""The exact posterior: against dense formulas, its split, its honesty about rounding, its coverage."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor

from gpec.errors import NumericalError
from gpec.gp import ExactPosterior, Parameters, Prediction, fit_parameters, fixed_parameters
from gpec.gp.evidence import LEAST_NUGGET
from gpec.kernels import RBF, WEG

JITTER = 1e-12


def problem(seed=0, N=50, n=12, d=3, D=3, lengthscale=1.0):
    """Kernel matrices of random rows, attributions, and noise by row and feature."""
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(N, D)), rng.normal(size=(n, D))
    kernel = RBF(lengthscale).fit()
    k, diagonal = kernel.against(X)(Q)
    Y = rng.normal(size=(N, d)) * 10.0 ** rng.uniform(-1, 1, size=d) + rng.normal(size=d)
    return kernel.gram(X), k, diagonal, Y, rng.uniform(0.05, 0.5, size=(N, d))


def learned(d, free_mean=True, seed=0):
    rng = np.random.default_rng(seed)
    return Parameters(rng.uniform(0.3, 3, size=d), rng.uniform(0.01, 0.2, size=d), free_mean)


def dense(K, k, diagonal, Y, U, parameters):
    """Mean and variance as the module's docstring and Eq. 2 have them, one feature at a time."""
    N, d = Y.shape
    ones = np.ones(N)
    mean, variance = np.empty((len(k), d)), np.empty((len(k), d))
    for f in range(d):
        s, g = parameters.scale[f], parameters.nugget[f]
        A = s * (K + g * np.eye(N)) + np.diag(U[:, f])
        c = s * k
        m = 0.0
        variance[:, f] = s * (diagonal + g) - np.einsum("ij,ji->i", c, np.linalg.solve(A, c.T))
        if parameters.free_mean:
            precision = ones @ np.linalg.solve(A, ones)
            m = ones @ np.linalg.solve(A, Y[:, f]) / precision
            variance[:, f] += (1 - c @ np.linalg.solve(A, ones)) ** 2 / precision
        mean[:, f] = m + c @ np.linalg.solve(A, Y[:, f] - m)
    return mean, variance


def noise_kinds(U):
    mixed = U.copy()
    mixed[:, 0] = 0.2
    two_alike = U.copy()
    two_alike[:, 1] = two_alike[:, 2]
    return {
        "varying": U,
        "constant over rows": np.broadcast_to(U[0], U.shape).copy(),
        "one column constant": mixed,
        "two columns alike": two_alike,
        "some rows without": U * (np.arange(len(U)) % 2)[:, None],
    }


KINDS = list(noise_kinds(np.ones((2, 3))))


class TestDenseFormula:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("free_mean", [True, False])
    def test_mean_and_variance(self, free_mean, kind):
        K, k, diagonal, Y, U = problem()
        U, parameters = noise_kinds(U)[kind], learned(3, free_mean)
        posterior = ExactPosterior(K, Y, U, parameters)
        assert posterior.condition <= 1e5
        prediction = posterior.predict(k, diagonal)
        mean, variance = dense(K, k, diagonal, Y, U, parameters)
        np.testing.assert_allclose(prediction.mean, mean, atol=1e-9 * np.abs(Y).max(), rtol=0)
        np.testing.assert_allclose(
            prediction.variance / parameters.scale, variance / parameters.scale, atol=1e-10, rtol=0
        )
        _, boundary = dense(K, k, diagonal, Y, np.zeros_like(U), parameters)
        np.testing.assert_allclose(
            prediction.boundary_variance / parameters.scale, boundary / parameters.scale, atol=1e-10, rtol=0
        )

    @pytest.mark.parametrize("scale", [1.0, 0.3, 25.0])
    @pytest.mark.parametrize("kind", ["varying", "constant over rows"])
    def test_fixed_scale_is_the_formula_of_the_paper(self, kind, scale):
        K, k, diagonal, Y, U = problem(1)
        U = noise_kinds(U)[kind] * scale
        prediction = ExactPosterior(K, Y, U, fixed_parameters(scale, 3)).predict(k, diagonal)
        for f in range(3):
            A = scale * K + np.diag(U[:, f])
            expected = scale * diagonal - np.einsum("ij,ji->i", scale * k, np.linalg.solve(A, scale * k.T))
            np.testing.assert_allclose(prediction.variance[:, f] / scale, expected / scale, atol=1e-10, rtol=0)
            np.testing.assert_allclose(
                prediction.mean[:, f], scale * k @ np.linalg.solve(A, Y[:, f]), atol=1e-9 * np.abs(Y).max(), rtol=0
            )

    @pytest.mark.parametrize("varying", [False, True])
    @pytest.mark.parametrize("nugget", [1e-6, 1e-4])
    def test_ill_conditioned_matrices_against_50_digits(self, nugget, varying):
        # A long lengthscale: K is nearly all ones, and the nugget is all that keeps it apart from singular.
        K, k, diagonal, Y, U = problem(2, N=24, n=4, d=1, lengthscale=8.0)
        U = U * 1e-3 if varying else np.zeros_like(U)
        parameters = Parameters(np.ones(1), np.array([nugget]), free_mean=True)
        posterior = ExactPosterior(K, Y, U, parameters)
        assert posterior.condition > 1e5
        prediction = posterior.predict(k, diagonal)
        with mpmath.workdps(50):
            A = mpmath.matrix(K.tolist())
            for i in range(24):
                A[i, i] += mpmath.mpf(nugget) + mpmath.mpf(float(U[i, 0])) + mpmath.mpf(JITTER)
            ones = mpmath.ones(24, 1)
            solved_ones = mpmath.lu_solve(A, ones)
            precision = (ones.T * solved_ones)[0]
            for i, row in enumerate(k):
                c = mpmath.matrix(row.tolist())
                expected = diagonal[i] + nugget - (c.T * mpmath.lu_solve(A, c))[0]
                expected += (1 - (c.T * solved_ones)[0]) ** 2 / precision
                assert abs(float(prediction.variance[i, 0] - expected)) <= posterior.condition * 1e-15

    @pytest.mark.parametrize("noise", [1e-3, 0.3])
    def test_scikit_learn(self, noise):
        rng = np.random.default_rng(3)
        points, X, Q = rng.normal(size=(80, 3)), rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
        kernel = WEG().fit(points, X)
        Y = rng.normal(size=(40, 2))
        ours = ExactPosterior(kernel.gram(X), Y, np.full((40, 2), noise), fixed_parameters(1.0, 2))
        prediction = ours.predict(*kernel.against(X)(Q))
        mean, std = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, Y).predict(Q, return_std=True)
        # Means scale with A^-1 y, variances are in units of k(x, x).
        np.testing.assert_allclose(prediction.mean, mean, atol=1e-8, rtol=1e-8)
        np.testing.assert_allclose(prediction.variance, std**2, atol=1e-8, rtol=0)

    def test_the_means_uncertainty_is_that_of_the_best_linear_unbiased_predictor(self):
        K, k, diagonal, Y, U = problem(4, N=8)
        parameters = learned(3)
        prediction = ExactPosterior(K, Y, U, parameters).predict(k, diagonal)
        for f in range(3):
            s, g = parameters.scale[f], parameters.nugget[f]
            A = s * (K + g * np.eye(8)) + np.diag(U[:, f])
            # Weights a minimise the error's variance subject to sum(a) = 1 (Lagrange).
            system = np.block([[A, np.ones((8, 1))], [np.ones((1, 8)), np.zeros((1, 1))]])
            for i, c in enumerate(s * k):
                a = np.linalg.solve(system, np.append(c, 1.0))[:8]
                assert a.sum() == pytest.approx(1.0)
                assert prediction.mean[i, f] == pytest.approx(a @ Y[:, f], abs=1e-9)
                error = a @ A @ a - 2 * a @ c + s * (diagonal[i] + g)
                assert prediction.variance[i, f] == pytest.approx(error, abs=1e-10)

    def test_features_with_the_same_noise_share_a_factor(self):
        K, _, _, Y, U = problem(5)
        kinds = noise_kinds(U)
        same = learned(3)
        equal = Parameters(np.ones(3), np.full(3, 0.1), free_mean=True)
        assert len(ExactPosterior(K, Y, kinds["constant over rows"], same).groups) == 0
        assert len(ExactPosterior(K, Y, kinds["varying"], equal).groups) == 3
        assert [list(g) for g in ExactPosterior(K, Y, kinds["two columns alike"], equal).groups] in (
            [[0], [1, 2]],
            [[1, 2], [0]],
        )
        posterior = ExactPosterior(K, Y, kinds["one column constant"], same)
        np.testing.assert_array_equal(posterior.shared, [0])
        assert len(posterior.groups) == 2

    def test_one_explained_row(self):
        prediction = ExactPosterior(
            np.ones((1, 1)), np.array([[2.0]]), np.array([[0.5]]), fixed_parameters(1.0, 1)
        ).predict(np.array([[0.8], [0.0]]), np.ones(2))
        np.testing.assert_allclose(prediction.mean[:, 0], [0.8 * 2 / 1.5, 0.0], atol=1e-12)
        np.testing.assert_allclose(prediction.variance[:, 0], [1 - 0.64 / 1.5, 1.0], atol=1e-11)

    def test_far_from_all_rows_the_prior_remains(self):
        K, _, _, Y, U = problem(6)
        parameters = learned(3)
        posterior = ExactPosterior(K, Y, U, parameters)
        prediction = posterior.predict(np.zeros((1, 50)), np.ones(1))
        np.testing.assert_allclose(prediction.mean[0], posterior.mean, atol=1e-12)
        assert (prediction.boundary_variance[0] > parameters.scale * (1 + parameters.nugget)).all()


class TestSplit:
    @pytest.mark.parametrize("kind", KINDS)
    def test_boundary_part_is_the_same_formula_without_noise_at_the_same_parameters(self, kind):
        K, k, diagonal, Y, U = problem(7)
        U, parameters = noise_kinds(U)[kind], learned(3)
        with_noise = ExactPosterior(K, Y, U, parameters).predict(k, diagonal)
        without = ExactPosterior(K, Y, np.zeros_like(U), parameters).predict(k, diagonal)
        np.testing.assert_array_equal(with_noise.boundary_variance, without.variance)
        np.testing.assert_array_equal(without.noise_variance, 0.0)
        np.testing.assert_array_equal(with_noise.variance, with_noise.boundary_variance + with_noise.noise_variance)
        assert (with_noise.noise_variance > 0).all()

    def test_a_feature_without_noise_has_no_noise_part(self):
        K, k, diagonal, Y, U = problem(8)
        U[:, 1] = 0.0
        prediction = ExactPosterior(K, Y, U, learned(3)).predict(k, diagonal)
        np.testing.assert_array_equal(prediction.noise_variance[:, 1], 0.0)
        assert (prediction.noise_variance[:, [0, 2]] > 0).all()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 10_000),
        N=st.integers(1, 25),
        lengthscale=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
        level=st.floats(-14, 3),
        varying=st.booleans(),
        free_mean=st.booleans(),
        nugget=st.sampled_from([0.0, LEAST_NUGGET, 1e-2, 10.0]),
        scale=st.floats(-6, 6),
    )
    def test_noise_part_is_never_negative(self, seed, N, lengthscale, level, varying, free_mean, nugget, scale):
        K, k, diagonal, Y, U = problem(seed, N=N, n=6, d=2, lengthscale=lengthscale)
        U = U if varying else np.broadcast_to(U[0], U.shape).copy()
        parameters = Parameters(np.full(2, 10.0**scale), np.full(2, nugget), free_mean)
        posterior = ExactPosterior(K, Y, U * 10.0**level * 10.0**scale, parameters)
        # At the explained rows themselves too, where the variance is least.
        for cross, kxx in ((k, diagonal), (K, np.ones(N))):
            prediction = posterior.predict(cross, kxx)
            assert (prediction.noise_variance >= 0).all()
            assert (prediction.boundary_variance >= 0).all()
            assert np.isfinite(prediction.mean).all()
            assert np.isfinite(prediction.variance).all()

    def test_rounding_does_not_make_the_noise_part_negative(self):
        # Noise of 1e-13 of the nugget: the two parts come from different factorisations and differ by rounding.
        K, k, diagonal, Y, U = problem(21, N=80, n=200, lengthscale=5.0)
        parameters = Parameters(np.ones(3), np.full(3, 1e-2), free_mean=True)
        posterior = ExactPosterior(K, Y, 1e-15 * U, parameters)
        assert len(posterior.groups) == 3
        assert (posterior._variance(k, diagonal, "total")[0] < posterior._variance(k, diagonal, "boundary")[0]).any()
        assert (posterior.predict(k, diagonal).noise_variance >= 0).all()

    def test_more_noise_never_means_less_variance(self):
        K, k, diagonal, Y, U = problem(9)
        parameters = learned(3)
        variances = [ExactPosterior(K, Y, c * U, parameters).predict(k, diagonal).variance for c in (0, 0.1, 1, 10)]
        assert (np.diff(variances, axis=0) > 0).all()


class TestFlatFeatures:
    """Attributions that do not vary have a scale of 0: nothing is uncertain but the noise."""

    def test_constant_columns(self):
        K, k, diagonal, Y, U = problem(10)
        Y[:, 1] = 7.25
        Y[:, 2] = 0.0
        parameters = fit_parameters(K, Y, np.zeros_like(U))
        np.testing.assert_array_equal(parameters.scale[1:], 0.0)
        prediction = ExactPosterior(K, Y, np.zeros_like(U), parameters).predict(k, diagonal)
        np.testing.assert_allclose(prediction.mean[:, 1], 7.25, rtol=1e-9)
        np.testing.assert_array_equal(prediction.mean[:, 2], 0.0)
        np.testing.assert_array_equal(prediction.variance[:, 1:], 0.0)
        assert (prediction.variance[:, 0] > 0).all()

    @pytest.mark.parametrize("varying", [False, True])
    def test_the_noise_of_a_constant_is_that_of_a_weighted_mean(self, varying):
        K, k, diagonal, Y, U = problem(11)
        U = U if varying else np.broadcast_to(U[0], U.shape).copy()
        Y[:, 1] = -3.0
        parameters = fit_parameters(K, Y, U)
        assert parameters.scale[1] == 0
        prediction = ExactPosterior(K, Y, U, parameters).predict(k, diagonal)
        np.testing.assert_allclose(prediction.mean[:, 1], -3.0, rtol=1e-9)
        np.testing.assert_array_equal(prediction.boundary_variance[:, 1], 0.0)
        np.testing.assert_allclose(prediction.noise_variance[:, 1], 1 / (1 / U[:, 1]).sum(), rtol=1e-12)

    @pytest.mark.parametrize("u", [0.0, 1e-310, 1e-200, 1e200])
    def test_noise_of_any_size_on_a_constant(self, u):
        K, k, diagonal, Y, U = problem(20)
        Y[:, 0] = 4.0
        U = np.zeros_like(U)
        U[:, 0] = u
        prediction = ExactPosterior(K, Y, U, fit_parameters(K, Y, U)).predict(k, diagonal)
        np.testing.assert_allclose(prediction.mean[:, 0], 4.0, rtol=1e-9)
        np.testing.assert_allclose(prediction.variance[:, 0], u / 50, rtol=1e-9, atol=1e-300)


class TestRounding:
    def test_negative_beyond_rounding_is_an_error_that_names_feature_and_row(self):
        K, k, diagonal, Y, U = problem(12)
        posterior = ExactPosterior(K, Y, U, learned(3, free_mean=False))
        diagonal[5] -= 3.0
        with pytest.raises(NumericalError, match=r"variance of feature \d at row 5 came out as -.*condition"):
            posterior.predict(k, diagonal)

    def test_the_limit_is_ten_times_condition_times_epsilon(self):
        K, k, _, Y, U = problem(13, n=1)
        parameters = Parameters(np.ones(3), np.zeros(3), free_mean=False)
        posterior = ExactPosterior(K, Y, np.zeros_like(U), parameters)
        explained = posterior.predict(k, np.ones(1)).variance[0, 0]
        slack = 10 * posterior.condition * np.finfo(float).eps
        barely = posterior.predict(k, np.ones(1) - explained - 0.5 * slack)
        assert barely.n_clamped == 3
        np.testing.assert_array_equal(barely.variance, 0.0)
        with pytest.raises(NumericalError):
            posterior.predict(k, np.ones(1) - explained - 2 * slack)

    def test_rounding_is_clamped_and_counted(self):
        K, k, diagonal, Y, U = problem(14)
        posterior = ExactPosterior(K, Y, np.zeros_like(U), fixed_parameters(2.0, 3))
        plain = posterior.predict(k, diagonal)
        assert plain.n_clamped == 0
        some = diagonal.copy()
        some[[2, 7]] -= plain.variance[[2, 7], 0] / 2.0 + 1e-13  # as if rounding had taken them below 0
        prediction = posterior.predict(k, some)
        assert prediction.n_clamped == 2 * 3
        np.testing.assert_array_equal(prediction.variance[[2, 7]], 0.0)
        assert (np.delete(prediction.variance, [2, 7], axis=0) > 0).all()

    def test_both_parts_are_counted(self):
        K, k, diagonal, Y, U = problem(15, n=1, d=1)
        U = np.full_like(U, 1e-12)  # noise below the floor: both parts are the same
        posterior = ExactPosterior(K, Y, U, fixed_parameters(1.0, 1))
        least = posterior.predict(k, diagonal).variance[0]
        assert posterior.predict(k, diagonal - least - 1e-13).n_clamped == 2

    def test_a_matrix_that_is_not_positive_definite_is_refused(self):
        K, _, _, Y, U = problem(16)
        with pytest.raises(NumericalError, match="not positive definite; add noise"):
            ExactPosterior(K - 2 * np.eye(50), Y, U, learned(3))

    @pytest.mark.parametrize("kind", ["paper", "evidence", "evidence with noise"])
    @pytest.mark.parametrize("flat", [True, False])
    def test_jitter_moves_no_variance_by_a_percent(self, flat, kind):
        rng = np.random.default_rng(17)
        points, X = rng.normal(size=(100, 3)), rng.normal(size=(150, 3))
        if flat:  # moving along the normal of a flat boundary keeps the weights: K is nearly singular
            points[:, 0] = 0.0
        kernel = WEG().fit(points, X)
        K = kernel.gram(X)
        spectrum, basis = np.linalg.eigh(K)
        Y = basis @ (np.sqrt(np.maximum(spectrum, 0))[:, None] * rng.normal(size=(150, 2)))
        U = rng.uniform(0, 0.1, size=(150, 2)) if kind == "evidence with noise" else np.zeros((150, 2))
        parameters = fixed_parameters(1.0, 2) if kind == "paper" else fit_parameters(K, Y, U)
        Q = np.vstack((X[:50], rng.normal(size=(50, 3)), 20 * rng.normal(size=(20, 3))))
        at = kernel.against(X)(Q)
        low, high = (ExactPosterior(K, Y, U, parameters, jitter).predict(*at) for jitter in (1e-12, 1e-8))
        assert (low.boundary_variance > 0).all()
        np.testing.assert_allclose(high.variance, low.variance, rtol=0.01)
        np.testing.assert_allclose(high.boundary_variance, low.boundary_variance, rtol=0.01)
        assert low.n_clamped == high.n_clamped == 0


class TestCoverage:
    @pytest.mark.parametrize("noise", ["none", "constant", "varying"])
    @pytest.mark.parametrize("free_mean", [True, False])
    def test_90_percent_intervals_on_2000_draws_from_the_stated_process(self, free_mean, noise):
        rng = np.random.default_rng(18)
        N, n, draws, scale, nugget = 40, 8, 2_000, 2.0, 0.05
        rows = rng.normal(size=(N + n, 2))
        kernel = RBF(1.0).fit()
        root = np.linalg.cholesky(scale * (kernel.gram(rows) + nugget * np.eye(N + n)))
        mean = 5.0 * rng.normal(size=draws) if free_mean else np.zeros(draws)
        latent = root @ rng.normal(size=(N + n, draws)) + mean
        u = {"none": np.zeros(N), "constant": np.full(N, 0.4), "varying": rng.uniform(0, 1, size=N)}[noise]
        Y = latent[:N] + np.sqrt(u)[:, None] * rng.normal(size=(N, draws))
        parameters = Parameters(np.full(draws, scale), np.full(draws, nugget), free_mean)
        posterior = ExactPosterior(kernel.gram(rows[:N]), Y, np.repeat(u[:, None], draws, axis=1), parameters)
        prediction = posterior.predict(*kernel.against(rows[:N])(rows[N:]))
        half = norm.ppf(0.95) * np.sqrt(prediction.variance)
        covered = np.abs(latent[N:] - prediction.mean) <= half
        assert abs(covered.mean() - 0.90) <= 0.015
        assert np.abs(covered.mean(axis=1) - 0.90).max() <= 0.03  # at every query, 4.5 standard errors
        # The variance is not only wide enough: it is the variance of the error.
        squared = ((latent[N:] - prediction.mean) ** 2 / prediction.variance).mean()
        assert squared == pytest.approx(1.0, abs=0.03)


class TestExtremes:
    @pytest.mark.parametrize("size", [1e-150, 1e-75, 1e75, 1e150])
    @pytest.mark.parametrize("varying", [False, True])
    def test_attributions_of_any_size(self, size, varying):
        K, k, diagonal, Y, U = problem(19)
        U = U if varying else np.broadcast_to(U[0], U.shape).copy()
        predictions = []
        for unit in (1.0, size):
            parameters = fit_parameters(K, Y * unit, U * unit**2)
            predictions.append(ExactPosterior(K, Y * unit, U * unit**2, parameters).predict(k, diagonal))
        plain, scaled = predictions
        np.testing.assert_allclose(scaled.mean / size, plain.mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(scaled.variance / size / size, plain.variance, rtol=1e-3)

    def test_prediction_adds_its_parts(self):
        one = np.ones((2, 3))
        np.testing.assert_array_equal(Prediction(one, 2 * one, 3 * one, 0).variance, 5 * one)
