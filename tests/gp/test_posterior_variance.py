"""The variance of the exact posterior: its split, features that do not vary, rounding, coverage."""

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, learned, noise_kinds, problem, table
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from gpec.errors import NumericalError
from gpec.gp import ExactPosterior, LowRankPosterior, Parameters, fit_parameters, fixed_parameters
from gpec.gp.evidence import LEAST_NUGGET
from gpec.kernels import RBF, WEG


class TestSplit:
    @pytest.mark.parametrize("kind", KINDS)
    def test_boundary_part_is_the_same_formula_without_noise_at_the_same_parameters(self, kind):
        p = problem(7)
        U, parameters = noise_kinds(p.U)[kind], learned(3)
        with_noise = ExactPosterior(p.kernel, p.X, p.Y, U, parameters).predict(p.Q)
        without = ExactPosterior(p.kernel, p.X, p.Y, np.zeros_like(U), parameters).predict(p.Q)
        np.testing.assert_allclose(with_noise.model_variance, without.variance, rtol=1e-12)
        np.testing.assert_array_equal(without.noise_variance, 0.0)
        np.testing.assert_array_equal(with_noise.variance, with_noise.model_variance + with_noise.noise_variance)
        assert (with_noise.noise_variance > 0).all()

    def test_a_feature_without_noise_has_no_noise_part(self):
        p = problem(8)
        p.U[:, 1] = 0.0
        prediction = ExactPosterior(p.kernel, p.X, p.Y, p.U, learned(3)).predict(p.Q)
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
        p = problem(seed, N=N, n=6, d=2, lengthscale=lengthscale)
        U = p.U if varying else np.broadcast_to(p.U[0], p.U.shape).copy()
        parameters = Parameters(np.full(2, 10.0**scale), np.full(2, nugget), free_mean)
        posterior = ExactPosterior(p.kernel, p.X, p.Y, U * 10.0**level * 10.0**scale, parameters)
        # At the explained rows themselves too, where the variance is least.
        for queries in (p.Q, p.X):
            prediction = posterior.predict(queries)
            assert (prediction.noise_variance >= 0).all()
            assert (prediction.model_variance >= 0).all()
            assert np.isfinite(prediction.mean).all()
            assert np.isfinite(prediction.variance).all()

    def test_rounding_does_not_make_the_noise_part_negative(self):
        # Noise of 1e-13 of the nugget: the two parts come from different factorisations and differ by rounding.
        p = problem(21, N=80, n=200, lengthscale=5.0)
        parameters = Parameters(np.ones(3), np.full(3, 1e-2), free_mean=True)
        noise = ExactPosterior(p.kernel, p.X, p.Y, 1e-15 * p.U, parameters).predict(p.Q).noise_variance
        assert (noise >= 0).all()
        assert 0.1 < (noise == 0).mean() < 1.0  # these would have been negative; how many, processors differ in

    def test_more_noise_never_means_less_variance(self):
        p = problem(9)
        parameters = learned(3)
        variances = [
            ExactPosterior(p.kernel, p.X, p.Y, c * p.U, parameters).predict(p.Q).variance for c in (0, 0.1, 1, 10)
        ]
        assert (np.diff(variances, axis=0) > 0).all()


class TestFlatFeatures:
    """Attributions that do not vary have a scale of 0: nothing is uncertain but the noise."""

    def test_constant_columns(self):
        p = problem(10)
        p.Y[:, 1] = 7.25
        p.Y[:, 2] = 0.0
        zero = np.zeros_like(p.U)
        parameters = fit_parameters(p.kernel.gram(p.X), p.Y, zero)
        np.testing.assert_array_equal(parameters.scale[1:], 0.0)
        prediction = ExactPosterior(p.kernel, p.X, p.Y, zero, parameters).predict(p.Q)
        np.testing.assert_allclose(prediction.mean[:, 1], 7.25, rtol=1e-9)
        np.testing.assert_array_equal(prediction.mean[:, 2], 0.0)
        np.testing.assert_array_equal(prediction.variance[:, 1:], 0.0)
        assert (prediction.variance[:, 0] > 0).all()

    @pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
    @pytest.mark.parametrize("varying", [False, True])
    def test_the_noise_of_a_constant_is_that_of_a_weighted_mean(self, varying, posterior):
        p = problem(11)
        U = p.U if varying else np.broadcast_to(p.U[0], p.U.shape).copy()
        p.Y[:, 1] = -3.0
        parameters = fit_parameters(p.kernel.gram(p.X), p.Y, U)
        assert parameters.scale[1] == 0
        found = posterior(p.kernel, p.X, p.Y, U, parameters)
        prediction = found.predict(p.Q)
        np.testing.assert_allclose(prediction.mean[:, 1], -3.0, rtol=1e-9)
        np.testing.assert_array_equal(prediction.model_variance[:, 1], 0.0)
        np.testing.assert_allclose(prediction.noise_variance[:, 1], 1 / (1 / U[:, 1]).sum(), rtol=1e-12)
        # the same unknown constant stands at all rows
        np.testing.assert_allclose(found.covariance(p.Q)[:, :, 1], 1 / (1 / U[:, 1]).sum(), rtol=1e-12)

    @pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
    @pytest.mark.parametrize("noisy", [False, True])
    def test_what_the_others_say_of_one_row_of_a_constant(self, noisy, posterior):
        p = problem(11)
        U = p.U * noisy
        p.Y[:, 1] = -3.0
        parameters = fit_parameters(p.kernel.gram(p.X), p.Y, U)
        left_out = posterior(p.kernel, p.X, p.Y, U, parameters).leave_one_out()
        np.testing.assert_allclose(left_out.residual[:, 1], 0.0, atol=1e-9)
        expected = np.zeros(50)
        if noisy:
            weight = 1 / U[:, 1]
            expected = U[:, 1] + 1 / (weight.sum() - weight)
        np.testing.assert_allclose(left_out.variance[:, 1], expected, rtol=1e-9)

    @pytest.mark.parametrize("u", [0.0, 1e-310, 1e-200, 1e200])
    def test_noise_of_any_size_on_a_constant(self, u):
        p = problem(20)
        p.Y[:, 0] = 4.0
        U = np.zeros_like(p.U)
        U[:, 0] = u
        prediction = ExactPosterior(p.kernel, p.X, p.Y, U, fit_parameters(p.kernel.gram(p.X), p.Y, U)).predict(p.Q)
        np.testing.assert_allclose(prediction.mean[:, 0], 4.0, rtol=1e-9)
        np.testing.assert_allclose(prediction.variance[:, 0], u / 50, rtol=1e-9, atol=1e-300)


class TestRounding:
    """Queries whose ``k(x, x)`` is looked up, so that it can be put where rounding might have put it."""

    @staticmethod
    def looked_up(p, Y, U, parameters):
        """A function of ``k(x, x)`` of the queries that gives the prediction there."""
        K, k = p.kernel.gram(p.X), p.kernel.cross(p.Q, p.X)

        def predict(diagonal):
            kernel, numbers, queries = table(K, k, diagonal)
            return ExactPosterior(kernel, numbers, Y, U, parameters).predict(queries)

        return predict

    def test_negative_beyond_rounding_is_an_error_that_names_feature_and_row(self):
        p = problem(12)
        predict = self.looked_up(p, p.Y, p.U, learned(3, free_mean=False))
        diagonal = np.ones(12)
        diagonal[5] -= 3.0
        with pytest.raises(NumericalError, match=r"variance of feature \d at row 5 came out as -.*condition"):
            predict(diagonal)

    def test_the_feature_is_named_if_the_kernel_differs_by_feature(self):
        class Broken(OwnColumn):
            def cross_to(self, Y, feature=None):
                inner = super().cross_to(Y, feature)
                return lambda X: (inner(X)[0], inner(X)[1] - 3.0 * (feature == 2) * (X.embedded[:, 0] > 50))

        p = problem(12)
        posterior = ExactPosterior(Broken(0.7).fit(), p.X, p.Y, p.U, learned(3, free_mean=False))
        p.Q[1, 0] = 100.0
        with pytest.raises(NumericalError, match="variance of feature 2 at row 1 came out as -"):
            posterior.predict(p.Q)

    def test_the_limit_is_ten_times_condition_times_epsilon(self):
        p = problem(13, n=1)
        parameters = Parameters(np.ones(3), np.zeros(3), free_mean=False)
        zero = np.zeros_like(p.U)
        predict = self.looked_up(p, p.Y, zero, parameters)
        explained = predict(np.ones(1)).variance[0, 0]
        slack = 10 * ExactPosterior(p.kernel, p.X, p.Y, zero, parameters).condition * np.finfo(float).eps
        barely = predict(np.ones(1) - explained - 0.5 * slack)
        assert barely.n_clamped == 3
        np.testing.assert_array_equal(barely.variance, 0.0)
        with pytest.raises(NumericalError, match=r"^The variance of feature 0 at row 0 came out as -"):
            predict(np.ones(1) - explained - 2 * slack)

    def test_rounding_is_clamped_and_counted(self):
        p = problem(14)
        predict = self.looked_up(p, p.Y, np.zeros_like(p.U), fixed_parameters(2.0, 3))
        plain = predict(np.ones(12))
        assert plain.n_clamped == 0
        some = np.ones(12)
        some[[2, 7]] -= plain.variance[[2, 7], 0] / 2.0 + 1e-13  # as if rounding had taken them below 0
        prediction = predict(some)
        assert prediction.n_clamped == 2 * 3
        np.testing.assert_array_equal(prediction.variance[[2, 7]], 0.0)
        assert (np.delete(prediction.variance, [2, 7], axis=0) > 0).all()

    def test_both_parts_are_counted(self):
        p = problem(15, n=1, d=1)
        U = np.full_like(p.U, 1e-12)  # noise below the floor: both parts are the same
        predict = self.looked_up(p, p.Y, U, fixed_parameters(1.0, 1))
        least = predict(np.ones(1)).variance[0]
        assert predict(np.ones(1) - least - 1e-13).n_clamped == 2

    def test_a_matrix_that_is_not_positive_definite_is_refused(self):
        p = problem(16)
        kernel, numbers, _ = table(p.kernel.gram(p.X) - 2 * np.eye(50))
        with pytest.raises(NumericalError, match="not positive definite; add noise"):
            ExactPosterior(kernel, numbers, p.Y, p.U, learned(3))

    @pytest.mark.parametrize("kind", ["paper", "evidence", "evidence with noise"])
    @pytest.mark.parametrize("flat", [True, False])
    def test_jitter_moves_no_variance_by_a_percent(self, monkeypatch, flat, kind):
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
        low = ExactPosterior(kernel, X, Y, U, parameters).predict(Q)
        monkeypatch.setattr("gpec.gp.posterior.JITTER", 1e-8)
        high = ExactPosterior(kernel, X, Y, U, parameters).predict(Q)
        assert (low.model_variance > 0).all()
        np.testing.assert_allclose(high.variance, low.variance, rtol=0.01)
        np.testing.assert_allclose(high.model_variance, low.model_variance, rtol=0.01)
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
        posterior = ExactPosterior(kernel, rows[:N], Y, np.repeat(u[:, None], draws, axis=1), parameters)
        prediction = posterior.predict(rows[N:])
        half = norm.ppf(0.95) * np.sqrt(prediction.variance)
        covered = np.abs(latent[N:] - prediction.mean) <= half
        assert abs(covered.mean() - 0.90) <= 0.015
        assert np.abs(covered.mean(axis=1) - 0.90).max() <= 0.03  # at every query, 4.5 standard errors
        # The variance is not only wide enough: it is the variance of the error.
        squared = ((latent[N:] - prediction.mean) ** 2 / prediction.variance).mean()
        assert squared == pytest.approx(1.0, abs=0.03)
