"""Scale, mean and nugget by restricted marginal likelihood."""

import numpy as np
import pytest
from gp_helpers import table
from scipy.linalg import null_space
from scipy.optimize import minimize

from gpec.gp import ExactPosterior, Parameters, fit_parameters, fixed_parameters
from gpec.gp.evidence import LEAST_NUGGET
from gpec.kernels import RBF, WEG


def reml(K, y, u, s, g):
    """-2 log likelihood of the contrasts B'y, which do not depend on the mean (up to a constant)."""
    N = len(y)
    B = null_space(np.ones((1, N)))
    A = B.T @ (s * (K + g * np.eye(N)) + np.diag(np.broadcast_to(u, N))) @ B
    z = B.T @ y
    return z @ np.linalg.solve(A, z) + np.linalg.slogdet(A)[1]


def standard_errors(K, u, s, g):
    """Of log s and log g, from the expected information of the restricted likelihood."""
    N = len(K)
    B = null_space(np.ones((1, N)))
    A = B.T @ (s * (K + g * np.eye(N)) + np.diag(np.broadcast_to(u, N))) @ B
    parts = [B.T @ part @ B for part in (s * (K + g * np.eye(N)), s * g * np.eye(N))]
    solved = [np.linalg.solve(A, part) for part in parts]
    information = 0.5 * np.array([[np.sum(a * b.T) for b in solved] for a in solved])
    return np.sqrt(np.diag(np.linalg.inv(information)))


def rows(N, seed=0, lengthscale=0.5):
    """Random rows and their kernel matrix."""
    X = np.random.default_rng(seed).uniform(-2, 2, size=(N, 2))
    return X, RBF(lengthscale).fit().gram(X)


def draw(K, s, g, u, d, seed=1, mean=0.0):
    rng = np.random.default_rng(seed)
    N = len(K)
    root = np.linalg.cholesky(K + (g + 1e-12) * np.eye(N))
    noise = np.sqrt(np.broadcast_to(np.reshape(u, (-1, 1)), (N, d))) * rng.normal(size=(N, d))
    return np.sqrt(s) * root @ rng.normal(size=(N, d)) + noise + mean


class TestRecovery:
    @pytest.mark.parametrize(
        ("N", "draws", "s", "g", "noise"),
        [
            (150, 100, 1.0, 0.1, "none"),
            (150, 100, 400.0, 0.5, "none"),
            (150, 100, 1e-4, 0.2, "constant"),
            (80, 30, 3.0, 0.2, "varying"),
        ],
    )
    def test_scale_and_nugget_of_simulated_data(self, N, draws, s, g, noise):
        _, K = rows(N)
        share = {"none": 0.0, "constant": 0.1, "varying": np.random.default_rng(2).uniform(0, 0.2, size=N)}[noise]
        u = np.broadcast_to(s * share, N)
        Y = draw(K, s, g, u, draws, mean=7.0)
        parameters = fit_parameters(K, Y, np.repeat(u[:, None], draws, axis=1))
        assert parameters.free_mean
        of_scale, of_nugget = standard_errors(K, u, s, g)
        for found, true, error in ((parameters.scale, s, of_scale), (parameters.nugget, g, of_nugget)):
            logs = np.log(found / true)
            # Medians: exp is monotone and the nugget's likelihood is skewed; 1.25 is what a median costs.
            assert abs(np.median(logs)) < 3.5 * 1.25 * error / np.sqrt(draws) + 0.25 * error**2
            spread = np.subtract(*np.quantile(logs, [0.75, 0.25])) / 1.349
            assert 0.6 * error < spread < 1.6 * error

    def test_the_scale_is_not_biased_for_few_rows(self):
        # Without integrating out the mean it would be (n - 1) / n of the truth: 20% less at 5 rows.
        Y = draw(np.eye(5), 2.0, 1e-6, 0.0, 500)
        found = fit_parameters(np.eye(5), Y, np.zeros_like(Y))
        total = found.scale * (1 + found.nugget)  # with K = I only the sum is known
        assert total.mean() == pytest.approx(2.0, abs=4 * 2.0 * np.sqrt(2 / 4) / np.sqrt(500))
        np.testing.assert_allclose(total, Y.var(axis=0, ddof=1), rtol=1e-5)

    def test_units_and_shifts(self):
        _, K = rows(60)
        y, u = draw(K, 2.0, 0.1, 0.3, 1), np.full((60, 1), 0.3)
        plain = fit_parameters(K, y, u)
        moved = fit_parameters(K, 1e3 * y + 5e4, 1e6 * u)
        assert moved.scale[0] == pytest.approx(1e6 * plain.scale[0], rel=1e-4)
        assert moved.nugget[0] == pytest.approx(plain.nugget[0], rel=1e-3)


class TestOptimum:
    @pytest.mark.parametrize("noise", ["none", "constant", "too large", "varying", "varying too large"])
    @pytest.mark.parametrize("seed", range(4))
    def test_no_other_parameters_are_better(self, seed, noise):
        rng = np.random.default_rng(seed)
        _, K = rows(40, seed)
        y = draw(K, 1.0, 0.1, 0.2, 1, seed)
        u = {
            "none": np.zeros(40),
            "constant": np.full(40, 0.2),
            "too large": np.full(40, 0.9),
            "varying": rng.uniform(0, 0.4, size=40),
            "varying too large": rng.uniform(0, 2.0, size=40),
        }[noise]
        found = fit_parameters(K, y, u[:, None])
        s, g = found.scale[0], found.nugget[0]
        assert LEAST_NUGGET * (1 - 1e-9) <= g <= 1e4

        def value(theta):
            return reml(K, y[:, 0], u, np.exp(theta[0]), max(np.exp(theta[1]), LEAST_NUGGET))

        best = min(
            minimize(value, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-7}).fun
            for start in ((0.0, -2.0), (0.0, -10.0), (-3.0, 0.0), np.log([s, g]))
        )
        assert value(np.log([s, g])) <= best + 1e-3

    @pytest.mark.parametrize(("g", "u"), [(0.2, 0.1), (0.2, 1.0), (1e-6, 0.5)])
    def test_constant_noise_is_a_case_of_varying_noise(self, g, u):
        _, K = rows(60)
        Y = draw(K, 1.0, g, u, 4)
        nearly = np.full((60, 4), u)
        nearly[::2] *= 1 + 1e-9
        short, general = fit_parameters(K, Y, np.full((60, 4), u)), fit_parameters(K, Y, nearly)
        for f, y in enumerate(Y.T):
            a, b = (reml(K, y, u, found.scale[f], found.nugget[f]) for found in (short, general))
            assert a == pytest.approx(b, abs=1e-3)
            assert short.scale[f] == pytest.approx(general.scale[f], rel=0.02)
            assert short.nugget[f] == pytest.approx(general.nugget[f], rel=0.05, abs=2e-3)


class TestEdges:
    def test_fixed_parameters_are_the_papers(self):
        parameters = fixed_parameters(2.5, 3)
        np.testing.assert_array_equal(parameters.scale, [2.5, 2.5, 2.5])
        np.testing.assert_array_equal(parameters.nugget, 0.0)
        assert not parameters.free_mean

    def test_constant_columns_have_scale_zero_and_leave_others_alone(self):
        _, K = rows(40)
        Y = draw(K, 1.0, 0.1, 0.0, 3)
        alone = fit_parameters(K, Y[:, [0]], np.zeros((40, 1)))
        Y[:, 1], Y[:, 2] = 0.1, 0.0
        parameters = fit_parameters(K, Y, np.zeros((40, 3)))
        np.testing.assert_array_equal(parameters.scale[1:], 0.0)
        assert parameters.scale[0] == pytest.approx(alone.scale[0], rel=1e-12)
        assert np.isfinite(parameters.nugget).all()

    def test_a_constant_up_to_rounding_is_a_constant(self):
        _, K = rows(40)
        y = 1e6 * (1 + 1e-16 * np.random.default_rng(3).integers(-2, 3, size=(40, 1)))
        assert fit_parameters(K, y, np.zeros((40, 1))).scale[0] == 0.0

    @pytest.mark.parametrize("N", [1, 2, 3])
    def test_few_rows(self, N):
        _, K = rows(N)
        Y = np.random.default_rng(4).normal(size=(N, 2))
        for U in (np.zeros((N, 2)), np.full((N, 2), 0.1), np.random.default_rng(5).uniform(0, 0.1, size=(N, 2))):
            parameters = fit_parameters(K, Y, U)
            kernel, numbers, _ = table(K)
            prediction = ExactPosterior(kernel, numbers, Y, U, parameters).predict(numbers)
            assert np.isfinite(parameters.scale).all()
            assert (parameters.scale >= 0).all()
            assert np.isfinite(prediction.variance).all()

    @pytest.mark.parametrize("smooth", ["in the kernel's span", "linear", "step"])
    def test_a_deterministic_explainer_does_not_blow_up_the_scale(self, monkeypatch, smooth):
        # Without a nugget the jitter would set the scale: 2.8e5 times the variance on Census.
        rng = np.random.default_rng(6)
        points, X = rng.normal(size=(150, 3)), rng.normal(size=(120, 3))
        points[:, 0] = 0.0
        kernel = WEG().fit(points, X)
        K = kernel.gram(X)
        y = {
            "in the kernel's span": K @ rng.normal(size=120),
            "linear": X @ [1.0, -2.0, 0.5],
            "step": np.sign(X[:, 0]) + X[:, 1],
        }[smooth][:, None]
        U = np.zeros_like(y)
        parameters = fit_parameters(K, y, U)
        assert parameters.nugget[0] >= LEAST_NUGGET * (1 - 1e-9)
        Q = np.vstack((X[:30], rng.normal(size=(30, 3))))
        low = ExactPosterior(kernel, X, y, U, parameters).predict(Q)
        monkeypatch.setattr("gpec.gp.posterior.JITTER", 1e-8)
        high = ExactPosterior(kernel, X, y, U, parameters).predict(Q)
        np.testing.assert_allclose(high.variance, low.variance, rtol=0.01)
        assert parameters.scale[0] * (parameters.nugget[0] + 1) < 1e3 * y.var()
        assert (low.variance[30:] < 100 * y.var()).all()
        if smooth == "in the kernel's span":
            assert parameters.nugget[0] < 1e-5
            np.testing.assert_allclose(low.mean[:30], y[:30], atol=0.02 * y.std())

    def test_pure_noise_is_all_nugget(self):
        _, K = rows(150, lengthscale=1.0)
        Y = np.random.default_rng(7).normal(size=(150, 20))
        parameters = fit_parameters(K, Y, np.zeros_like(Y))
        assert np.median(parameters.nugget) > 5
        np.testing.assert_allclose(parameters.scale * (parameters.nugget + 1), Y.var(axis=0), rtol=0.5)

    def test_stated_noise_that_explains_everything_leaves_the_least_nugget(self):
        _, K = rows(100)
        Y = draw(K, 1.0, 1e-6, 0.5, 10)
        parameters = fit_parameters(K, Y, np.full_like(Y, 0.9))
        assert np.median(parameters.nugget) == pytest.approx(LEAST_NUGGET, rel=1e-6)
        assert (parameters.scale < 2.5).all()
        assert (parameters.scale > 0).all()

    def test_parameters_are_frozen(self):
        parameters = fixed_parameters(1.0, 1)
        with pytest.raises(AttributeError, match="cannot assign to field 'scale'"):
            parameters.scale = np.ones(1)
        assert isinstance(parameters, Parameters)

    def test_the_callers_arrays_stay_as_they_were(self):
        _, K = rows(30)
        Y = draw(K, 1.0, 0.1, 0.1, 2)
        U = np.random.default_rng(8).uniform(0, 0.2, size=(30, 2))
        before = [array.tobytes() for array in (K, Y, U)]
        fit_parameters(K, Y, U)
        assert [array.tobytes() for array in (K, Y, U)] == before


def test_equal_columns_are_learned_once(monkeypatch):
    rng = np.random.default_rng(8)
    points = rng.normal(size=(40, 2))
    K = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    Y, U = rng.normal(size=(40, 3)), rng.uniform(0.1, 0.2, size=(40, 3))
    expected = fit_parameters(K, Y, U)
    calls = []
    monkeypatch.setattr(
        "gpec.gp._reml.minimize", lambda *args, **options: calls.append(1) or minimize(*args, **options)
    )
    fit_parameters(K, Y, U)
    once = len(calls)
    calls.clear()
    order = [0, 1, 0, 2, 1, 0]
    found = fit_parameters(K, Y[:, order], U[:, order])
    assert len(calls) == once > 0
    assert np.array_equal(found.scale, expected.scale[order])
    assert np.array_equal(found.nugget, expected.nugget[order])
    # the same values with other noise are another feature
    other = fit_parameters(K, Y[:, [0, 0]], U[:, [0, 1]])
    assert other.scale[0] == pytest.approx(expected.scale[0], rel=1e-6)
    assert other.scale[1] != other.scale[0]
