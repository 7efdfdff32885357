"""Scale, mean and nugget by restricted marginal likelihood."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import OptimizeResult, approx_fprime, minimize

from gpec.gp import ExactPosterior, Parameters, evidence, fit_parameters, fixed_parameters
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
        Y = draw(np.eye(5), 2.0, 1e-6, 0.0, 4_000)
        _, Q = np.linalg.eigh(np.eye(5))
        scales = [evidence._constant_noise(np.ones(5), Q.T @ y, Q.sum(axis=0), 0.0) for y in Y.T[:500]]
        total = np.array([s * (1 + g) for s, g in scales])  # with K = I only the sum is known
        assert total.mean() == pytest.approx(2.0, abs=4 * 2.0 * np.sqrt(2 / 4) / np.sqrt(500))
        np.testing.assert_allclose(total, Y.T[:500].var(axis=1, ddof=1), rtol=1e-5)

    def test_units_and_shifts(self):
        _, K = rows(60)
        y, u = draw(K, 2.0, 0.1, 0.3, 1), np.full((60, 1), 0.3)
        plain = fit_parameters(K, y, u)
        moved = fit_parameters(K, 1e3 * y + 5e4, 1e6 * u)
        assert moved.scale[0] == pytest.approx(1e6 * plain.scale[0], rel=1e-4)
        assert moved.nugget[0] == pytest.approx(plain.nugget[0], rel=1e-3)


class TestObjective:
    """The search works on the likelihood it says it does."""

    @pytest.mark.parametrize("seed", range(3))
    def test_varying_noise_value_and_gradient(self, seed, monkeypatch):
        rng = np.random.default_rng(seed)
        _, K = rows(30, seed)
        y, u = draw(K, 1.0, 0.1, 0.2, 1, seed)[:, 0], rng.uniform(0, 0.5, size=30)
        caught = []

        def catch(objective, x0, **options):
            caught.append((objective, options))
            return OptimizeResult(x=x0, fun=objective(x0)[0])

        monkeypatch.setattr(evidence, "minimize", catch)
        evidence._varying_noise(K, y, u, (1.0, 0.1))
        objective, options = caught[0]
        assert options["jac"] is True
        for theta in rng.uniform([-3, -8], [3, 3], size=(6, 2)):
            value, gradient = objective(theta)
            # log|A| + log(1'A^-1 1) = log|B'AB| + log N
            assert value == pytest.approx(reml(K, y, u, *np.exp(theta)) + np.log(30), rel=1e-10)
            numeric = approx_fprime(theta, lambda t: objective(t)[0], 1e-6)
            np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)

    @pytest.mark.parametrize("u", [0.0, 0.3])
    def test_constant_noise_value(self, u, monkeypatch):
        _, K = rows(30)
        y = draw(K, 1.0, 1e-6, u, 1)[:, 0]
        spectrum, Q = np.linalg.eigh(K)
        caught = []
        real = evidence._minimize_on

        def catch(function, low, high):
            caught.append(function)
            return real(function, low, high)

        monkeypatch.setattr(evidence, "_minimize_on", catch)
        # Stated noise far above the truth leaves nothing for the nugget: both searches run.
        evidence._constant_noise(np.maximum(spectrum, 0), Q.T @ y, Q.sum(axis=0), max(u, 5.0))
        profile, at_least_nugget = caught
        for log_h in (-6.0, -1.0, 1.0):
            h = np.exp(log_h)
            B = null_space(np.ones((1, 30)))
            z, M = B.T @ y, B.T @ (K + h * np.eye(30)) @ B
            s = z @ np.linalg.solve(M, z) / 29  # the best scale at this h
            offset = 29 * (np.log(29) - 1)
            assert profile(log_h) == pytest.approx(reml(K, y, 0.0, s, h) + np.log(30) + offset, rel=1e-9)
        for log_s in (-2.0, 0.0, 2.0):
            expected = reml(K, y, max(u, 5.0), np.exp(log_s), LEAST_NUGGET) + np.log(30)
            assert at_least_nugget(log_s) == pytest.approx(expected, rel=1e-9)

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
        spectrum, Q = np.linalg.eigh(K)
        for y in draw(K, 1.0, g, u, 4).T:
            y = (y - y.mean()) / y.std()
            start = evidence._constant_noise(np.maximum(spectrum, 0), Q.T @ y, Q.sum(axis=0), 0.0)
            short = evidence._constant_noise(np.maximum(spectrum, 0), Q.T @ y, Q.sum(axis=0), u)
            general = evidence._varying_noise(K, y, np.full(60, u), start)
            assert reml(K, y, u, *short) == pytest.approx(reml(K, y, u, *general), abs=1e-3)
            assert short[0] == pytest.approx(general[0], rel=0.02)
            assert short[1] == pytest.approx(general[1], rel=0.05, abs=2e-3)


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
            prediction = ExactPosterior(K, Y, U, parameters).predict(K, np.ones(N))
            assert np.isfinite(parameters.scale).all()
            assert (parameters.scale >= 0).all()
            assert np.isfinite(prediction.variance).all()

    @pytest.mark.parametrize("smooth", ["in the kernel's span", "linear", "step"])
    def test_a_deterministic_explainer_does_not_blow_up_the_scale(self, smooth):
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
        low, high = (
            ExactPosterior(K, y, U, parameters, jitter).predict(*kernel.against(X)(Q)) for jitter in (1e-12, 1e-8)
        )
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
        with pytest.raises(AttributeError):
            parameters.scale = np.ones(1)
        assert isinstance(parameters, Parameters)

    def test_the_callers_arrays_stay_as_they_were(self):
        _, K = rows(30)
        Y = draw(K, 1.0, 0.1, 0.1, 2)
        U = np.random.default_rng(8).uniform(0, 0.2, size=(30, 2))
        before = [array.tobytes() for array in (K, Y, U)]
        fit_parameters(K, Y, U)
        assert [array.tobytes() for array in (K, Y, U)] == before


def test_the_search_finds_the_lower_of_two_minima():
    def two_wells(x):
        return min((x + 3) ** 2, 5 * (x - 6.2) ** 2 - 1)

    assert evidence._minimize_on(two_wells, -10, 10) == pytest.approx(6.2, abs=1e-4)
    # and minima at the ends
    assert evidence._minimize_on(lambda x: x, -1, 1) == pytest.approx(-1, abs=1e-4)
    assert evidence._minimize_on(lambda x: -x, -1, 1) == pytest.approx(1, abs=1e-4)


def test_equal_columns_are_learned_once(monkeypatch):
    rng = np.random.default_rng(8)
    points = rng.normal(size=(40, 2))
    K = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    Y, U = rng.normal(size=(40, 3)), rng.uniform(0.1, 0.2, size=(40, 3))
    expected = fit_parameters(K, Y, U)
    calls = []
    original = evidence._varying_noise
    monkeypatch.setattr(evidence, "_varying_noise", lambda *args: calls.append(1) or original(*args))
    order = [0, 1, 0, 2, 1, 0]
    found = fit_parameters(K, Y[:, order], U[:, order])
    assert len(calls) == 3
    assert np.array_equal(found.scale, expected.scale[order])
    assert np.array_equal(found.nugget, expected.nugget[order])
    # the same values with other noise are another feature
    fit_parameters(K, Y[:, [0, 0]], U[:, [0, 1]])
    assert len(calls) == 5
