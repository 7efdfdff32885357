"""The exact posterior: against dense formulas, scikit-learn and many digits; kernels that differ by feature."""

import pickle

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, dense, dense_variance, learned, noise_kinds, problem, table
from sklearn.gaussian_process import GaussianProcessRegressor

import gpec.gp.posterior
from extras import mpmath
from gpec.gp import ExactPosterior, LowRankPosterior, Parameters, Prediction, fit_parameters, fixed_parameters
from gpec.gp.conditioning import make_posterior
from gpec.kernels import RBF, WEG

JITTER = 1e-12
BY_FEATURE = {"alike": RBF(1.0).fit(), "by feature": OwnColumn(0.7).fit()}


class TestDenseFormula:
    @pytest.mark.parametrize("kernel", BY_FEATURE.values(), ids=BY_FEATURE)
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("free_mean", [True, False])
    def test_mean_and_variance(self, free_mean, kind, kernel):
        p = problem(kernel=kernel)
        U, parameters = noise_kinds(p.U)[kind], learned(3, free_mean)
        posterior = ExactPosterior(p.kernel, p.X, p.Y, U, parameters)
        assert posterior.condition <= 1e5
        prediction = posterior.predict(p.Q)
        mean, variance = dense_variance(p.kernel, p.X, p.Q, p.Y, U, parameters)
        np.testing.assert_allclose(prediction.mean, mean, atol=1e-9 * np.abs(p.Y).max(), rtol=0)
        np.testing.assert_allclose(
            prediction.variance / parameters.scale, variance / parameters.scale, atol=1e-10, rtol=0
        )
        _, boundary = dense_variance(p.kernel, p.X, p.Q, p.Y, np.zeros_like(U), parameters)
        np.testing.assert_allclose(
            prediction.model_variance / parameters.scale, boundary / parameters.scale, atol=1e-10, rtol=0
        )

    @pytest.mark.parametrize("scale", [1.0, 0.3, 25.0])
    @pytest.mark.parametrize("kind", ["varying", "constant over rows"])
    def test_fixed_scale_is_the_formula_of_the_paper(self, kind, scale):
        p = problem(1)
        U = noise_kinds(p.U)[kind] * scale
        prediction = ExactPosterior(p.kernel, p.X, p.Y, U, fixed_parameters(scale, 3)).predict(p.Q)
        K, k = p.kernel.gram(p.X), p.kernel.cross(p.Q, p.X)
        for f in range(3):
            A = scale * K + np.diag(U[:, f])
            expected = scale - np.einsum("ij,ji->i", scale * k, np.linalg.solve(A, scale * k.T))
            np.testing.assert_allclose(prediction.variance[:, f] / scale, expected / scale, atol=1e-10, rtol=0)
            np.testing.assert_allclose(
                prediction.mean[:, f], scale * k @ np.linalg.solve(A, p.Y[:, f]), atol=1e-9 * np.abs(p.Y).max(), rtol=0
            )

    @pytest.mark.parametrize("varying", [False, True])
    @pytest.mark.parametrize("nugget", [1e-6, 1e-4])
    def test_ill_conditioned_matrices_against_50_digits(self, nugget, varying):
        # A long lengthscale: K is nearly all ones, and the nugget is all that keeps it apart from singular.
        p = problem(2, N=24, n=4, d=1, lengthscale=8.0)
        U = p.U * 1e-3 if varying else np.zeros_like(p.U)
        parameters = Parameters(np.ones(1), np.array([nugget]), free_mean=True)
        posterior = ExactPosterior(p.kernel, p.X, p.Y, U, parameters)
        assert posterior.condition > 1e5
        prediction = posterior.predict(p.Q)
        with mpmath.workdps(50):
            A = mpmath.matrix(p.kernel.gram(p.X).tolist())
            for i in range(24):
                A[i, i] += mpmath.mpf(nugget) + mpmath.mpf(float(U[i, 0])) + mpmath.mpf(JITTER)
            ones = mpmath.ones(24, 1)
            solved_ones = mpmath.lu_solve(A, ones)
            precision = (ones.T * solved_ones)[0]
            for i, row in enumerate(p.kernel.cross(p.Q, p.X)):
                c = mpmath.matrix(row.tolist())
                expected = 1 + nugget - (c.T * mpmath.lu_solve(A, c))[0]
                expected += (1 - (c.T * solved_ones)[0]) ** 2 / precision
                assert abs(float(prediction.variance[i, 0] - expected)) <= posterior.condition * 1e-15

    @pytest.mark.parametrize("noise", [1e-3, 0.3])
    def test_scikit_learn(self, noise):
        rng = np.random.default_rng(3)
        points, X, Q = rng.normal(size=(80, 3)), rng.normal(size=(40, 3)), rng.normal(size=(20, 3))
        kernel = WEG().fit(points, X)
        Y = rng.normal(size=(40, 2))
        ours = ExactPosterior(kernel, X, Y, np.full((40, 2), noise), fixed_parameters(1.0, 2))
        prediction = ours.predict(Q)
        mean, std = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, Y).predict(Q, return_std=True)
        # Means scale with A^-1 y, variances are in units of k(x, x).
        np.testing.assert_allclose(prediction.mean, mean, atol=1e-8, rtol=1e-8)
        np.testing.assert_allclose(prediction.variance, std**2, atol=1e-8, rtol=0)

    def test_the_means_uncertainty_is_that_of_the_best_linear_unbiased_predictor(self):
        p = problem(4, N=8)
        parameters = learned(3)
        prediction = ExactPosterior(p.kernel, p.X, p.Y, p.U, parameters).predict(p.Q)
        K, k = p.kernel.gram(p.X), p.kernel.cross(p.Q, p.X)
        for f in range(3):
            s, g = parameters.scale[f], parameters.nugget[f]
            A = s * (K + g * np.eye(8)) + np.diag(p.U[:, f])
            # Weights a minimise the error's variance subject to sum(a) = 1 (Lagrange).
            system = np.block([[A, np.ones((8, 1))], [np.ones((1, 8)), np.zeros((1, 1))]])
            for i, c in enumerate(s * k):
                a = np.linalg.solve(system, np.append(c, 1.0))[:8]
                assert a.sum() == pytest.approx(1.0)
                assert prediction.mean[i, f] == pytest.approx(a @ p.Y[:, f], abs=1e-9)
                error = a @ A @ a - 2 * a @ c + s * (1 + g)
                assert prediction.variance[i, f] == pytest.approx(error, abs=1e-10)

    def test_one_explained_row(self):
        kernel, row, queries = table(np.ones((1, 1)), np.array([[0.8], [0.0]]), np.ones(2))
        posterior = ExactPosterior(kernel, row, np.array([[2.0]]), np.array([[0.5]]), fixed_parameters(1.0, 1))
        prediction = posterior.predict(queries)
        np.testing.assert_allclose(prediction.mean[:, 0], [0.8 * 2 / 1.5, 0.0], atol=1e-12)
        np.testing.assert_allclose(prediction.variance[:, 0], [1 - 0.64 / 1.5, 1.0], atol=1e-11)

    def test_far_from_all_rows_the_prior_remains(self):
        p = problem(6)
        parameters = learned(3)
        posterior = ExactPosterior(p.kernel, p.X, p.Y, p.U, parameters)
        prediction = posterior.predict(np.full((1, 3), 1e3))
        np.testing.assert_allclose(prediction.mean[0], posterior.mean, atol=1e-12)
        assert (prediction.model_variance[0] > parameters.scale * (1 + parameters.nugget)).all()


class TestSharing:
    """What features have in common is computed once."""

    @pytest.fixture
    def n_factors(self, monkeypatch):
        """How many Cholesky factors a posterior takes."""
        calls, original = [], gpec.gp.posterior.Cholesky
        monkeypatch.setattr(gpec.gp.posterior, "Cholesky", lambda *a: calls.append(1) or original(*a))

        def count(*arguments):
            calls.clear()
            ExactPosterior(*arguments)
            return len(calls)

        return count

    def test_features_with_the_same_noise_share_a_factor(self, n_factors):
        p = problem(5)
        kinds = noise_kinds(p.U)
        equal = Parameters(np.ones(3), np.full(3, 0.1), free_mean=True)
        assert n_factors(p.kernel, p.X, p.Y, kinds["constant over rows"], learned(3)) == 0
        assert n_factors(p.kernel, p.X, p.Y, kinds["varying"], equal) == 3
        assert n_factors(p.kernel, p.X, p.Y, kinds["two columns alike"], equal) == 2
        assert n_factors(p.kernel, p.X, p.Y, kinds["one column constant"], learned(3)) == 2


class TestByFeature:
    """A kernel that differs by feature gives each feature the posterior of its own kernel."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
    def test_it_is_one_posterior_for_each_feature(self, posterior, kind):
        p = problem(7, kernel=OwnColumn(0.7).fit())
        U, parameters = noise_kinds(p.U)[kind], learned(3)
        mean, covariance = dense(p.kernel, p.X, p.Q, p.Y, U, parameters)
        together = posterior(p.kernel, p.X, p.Y, U, parameters)
        prediction = together.predict(p.Q)
        np.testing.assert_allclose(prediction.mean, mean, atol=1e-9 * np.abs(p.Y).max(), rtol=0)
        # the kernel is of nearly full rank: the features leave less than 1e-9 of it unexplained
        atol = 1e-10 if posterior is ExactPosterior else 1e-8
        np.testing.assert_allclose(prediction.variance, np.einsum("iif->if", covariance), atol=atol, rtol=0)
        assert together.mean.shape == (3,)
        # and the features do differ
        other = RBF(0.7).fit()
        assert np.abs(dense(other, p.X, p.Q, p.Y, U, parameters)[0] - mean).max() > 1e-2

    def test_evidence_learns_from_each_features_own_matrix(self):
        p = problem(8, N=60, kernel=OwnColumn(0.5).fit())
        zero = np.zeros_like(p.Y)
        rng = np.random.default_rng(9)
        for f in range(3):
            root = np.linalg.cholesky(p.kernel.gram(p.X, f) + 0.01 * np.eye(60))
            p.Y[:, f] = root @ rng.normal(size=60)
        found = make_posterior(p.kernel, p.X, p.Y, zero, "evidence", seed=0).parameters
        for f in range(3):  # of a minimum half of the digits can be known
            alone = fit_parameters(p.kernel.gram(p.X, f), p.Y[:, [f]], zero[:, [f]])
            assert found.scale[f] == pytest.approx(alone.scale[0], rel=1e-6)
            assert found.nugget[f] == pytest.approx(alone.nugget[0], rel=1e-6)
        foreign = fit_parameters(p.kernel.gram(p.X, 0), p.Y, zero)
        assert (np.abs(np.log(foreign.nugget[1:] / found.nugget[1:])) > 0.5).all()


class TestExtremes:
    @pytest.mark.parametrize("size", [1e-150, 1e-75, 1e75, 1e150])
    @pytest.mark.parametrize("varying", [False, True])
    def test_attributions_of_any_size(self, size, varying):
        p = problem(19)
        U = p.U if varying else np.broadcast_to(p.U[0], p.U.shape).copy()
        predictions = []
        for unit in (1.0, size):
            parameters = fit_parameters(p.kernel.gram(p.X), p.Y * unit, U * unit**2)
            predictions.append(ExactPosterior(p.kernel, p.X, p.Y * unit, U * unit**2, parameters).predict(p.Q))
        plain, scaled = predictions
        np.testing.assert_allclose(scaled.mean / size, plain.mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(scaled.variance / size / size, plain.variance, rtol=1e-3)

    def test_prediction_adds_its_parts(self):
        one = np.ones((2, 3))
        np.testing.assert_array_equal(Prediction(one, 2 * one, 3 * one, 0).variance, 5 * one)


@pytest.mark.parametrize("kernel", BY_FEATURE.values(), ids=BY_FEATURE)
@pytest.mark.parametrize("kind", ["varying", "constant over rows"])
@pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
def test_a_posterior_can_be_pickled(posterior, kind, kernel):
    p = problem(20, kernel=kernel)
    U = noise_kinds(p.U)[kind]
    original = posterior(p.kernel, p.X, p.Y, U, learned(3))
    before = original.predict(p.Q)
    again = pickle.loads(pickle.dumps(original))
    for name in ("mean", "model_variance", "noise_variance"):
        np.testing.assert_allclose(getattr(again.predict(p.Q), name), getattr(before, name), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(again.leave_one_out().residual, original.leave_one_out().residual)
