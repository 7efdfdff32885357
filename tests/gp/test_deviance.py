"""The likelihood is the one that is stated, and its search finds the best parameters."""

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import OptimizeResult, approx_fprime
from scipy.stats import multivariate_normal

from gpec.gp import _reml, fit_parameters
from gpec.gp._gram import Spectrum
from gpec.gp._reml import LEAST_NUGGET, EqualNoiseREML, _minimize_each
from gpec.gp.evidence import _average_scale
from gpec.kernels import RBF


def matrix(n, seed=0, lengthscale=0.5):
    return RBF(lengthscale).fit().gram(np.random.default_rng(seed).uniform(-2, 2, size=(n, 2)))


def draw(K, g, u, d, seed=1):
    """Attributions of mean 0 and spread 1, and the noise in their units ``(n, d)``."""
    rng = np.random.default_rng(seed)
    n = len(K)
    u = np.broadcast_to(np.reshape(u, (-1, 1)), (n, d))
    y = np.linalg.cholesky(K + (g + 1e-10) * np.eye(n)) @ rng.normal(size=(n, d))
    y = y + np.sqrt(u) * rng.normal(size=(n, d))
    return (y - y.mean(axis=0)) / y.std(axis=0), u / y.std(axis=0) ** 2


def minus_two_log(y, A, free_mean):
    """-2 log density of ``y``; a mean of enormous variance stands for one that is integrated out."""
    vague = 1e5 * np.ones_like(A) if free_mean else 0.0
    return -2 * multivariate_normal.logpdf(y, cov=A + vague)


def contrasts(K, y, u):
    """A function of many ``(s, g)`` that gives -2 log density of what does not depend on the mean."""
    B = null_space(np.ones((1, len(y))))
    z, Kb, Ub = B.T @ y, B.T @ K @ B, (B.T * u) @ B

    def value(s, g):
        s, g = np.atleast_1d(s)[:, None, None], np.atleast_1d(g)[:, None, None]
        L = np.linalg.cholesky(s * (Kb + g * np.eye(len(z))) + Ub)
        white = np.linalg.solve(L, np.broadcast_to(z[:, None], (*L.shape[:2], 1)))
        return (white**2).sum(axis=(1, 2)) + 2 * np.log(np.einsum("kii->ki", L)).sum(axis=1)

    return value


class TestEqualNoise:
    @pytest.mark.parametrize("free_mean", [True, False])
    def test_it_is_the_normal_density_up_to_a_constant(self, free_mean):
        K = matrix(30)
        y, _ = draw(K, 0.1, 0.0, 3)
        y = y + np.array([0.0, 1.0, -2.0])
        curve = EqualNoiseREML(Spectrum(K), y, free_mean)
        rng = np.random.default_rng(2)
        settings = 10.0 ** rng.uniform(-1.5, 1.5, size=(8, 2, 3))  # s and h of each feature
        gaps = [
            [
                curve.deviance(s, h)[f] - minus_two_log(y[:, f], s[f] * (K + h[f] * np.eye(30)), free_mean)
                for f in range(3)
            ]
            for s, h in settings
        ]
        np.testing.assert_allclose(gaps, gaps[0][0], rtol=0, atol=1e-3 if free_mean else 1e-9)
        if not free_mean:
            assert gaps[0][0] == pytest.approx(-30 * np.log(2 * np.pi), rel=1e-9)

    @pytest.mark.parametrize("free_mean", [True, False])
    def test_its_derivative_by_the_matrix(self, free_mean):
        n = 12
        K = matrix(n)
        y, _ = draw(K, 0.1, 0.0, 2)
        s, h = np.array([0.7, 2.0]), np.array([0.3, 0.05])
        found = EqualNoiseREML(Spectrum(K), y, free_mean).by_matrix(s, h)
        rng = np.random.default_rng(3)
        for _ in range(5):
            step = rng.normal(size=(n, n))
            step = 1e-6 * (step + step.T)
            values = [EqualNoiseREML(Spectrum(K + sign * step), y, free_mean).deviance(s, h).sum() for sign in (1, -1)]
            assert (values[0] - values[1]) / 2 == pytest.approx((found * step).sum(), rel=1e-5)

    @pytest.mark.parametrize("u", [0.0, 0.05, 0.4, 0.9, 4.0])
    @pytest.mark.parametrize("n", [10, 60])
    def test_best_is_best(self, n, u):
        """Against all scales and nuggets of a grid, for several features at once."""
        K = matrix(n)
        y, _ = draw(K, 0.05, 0.3, 6)
        noise = u * np.linspace(0.5, 1.5, 6)
        curve = EqualNoiseREML(Spectrum(K), y, free_mean=True)
        s, h = curve.best(noise)
        assert (h >= LEAST_NUGGET + noise / s - 1e-12).all()
        assert ((h - noise / s) <= 1e4 * (1 + 1e-9)).all()
        found = curve.deviance(s, h)
        grid = np.full(6, np.inf)
        for log_s in np.linspace(np.log(1e-4), np.log(1e3), 100):
            for log_g in np.linspace(np.log(LEAST_NUGGET), np.log(1e4), 80):
                scale = np.full(6, np.exp(log_s))
                grid = np.minimum(grid, curve.deviance(scale, np.exp(log_g) + noise / scale))
        assert (found <= grid + 2e-3).all()  # the nugget ends at 1e4
        assert (found >= grid - 0.2).all()  # and is not better than it can be

    @pytest.mark.parametrize(("seed", "lengthscale", "u"), [(224, 1.1, 0.07), (247, 2.0, 0.1)])
    def test_a_second_minimum_that_leaves_room_for_the_noise(self, seed, lengthscale, u):
        """The least of all minima would leave less than the noise; the best that is allowed is another one."""
        K = matrix(10, seed, lengthscale)
        y, _ = draw(K, 1e-3, u, 8, seed)
        curve = EqualNoiseREML(Spectrum(K), y, free_mean=True)
        found = curve.deviance(*curve.best(np.full(8, u)))
        for s in np.geomspace(0.05, 1e3, 60):
            for g in np.geomspace(LEAST_NUGGET, 1e2, 60):
                assert (found <= curve.deviance(np.full(8, s), np.full(8, g + u / s)) + 1e-3).all()


class TestVaryingNoise:
    @pytest.mark.parametrize("seed", range(3))
    def test_value_and_gradient(self, seed, monkeypatch):
        rng = np.random.default_rng(seed)
        K = matrix(30, seed)
        y, u = (array[:, 0] for array in draw(K, 0.1, rng.uniform(0, 0.5, size=30), 1, seed))
        caught = []

        def catch(objective, x0, **options):
            caught.append((objective, options))
            return OptimizeResult(x=x0, fun=objective(x0)[0])

        monkeypatch.setattr(_reml, "minimize", catch)
        _reml.VaryingNoiseREML(K, y, u).best(np.array([1.0, 0.1]))
        objective, options = caught[0]
        assert options["jac"] is True
        value = contrasts(K, y, u)
        gaps = []
        for theta in rng.uniform([-3, -8], [3, 3], size=(6, 2)):
            found, gradient = objective(theta)
            s, g = np.exp(theta)
            # log|A| + log(1'A^-1 1) = log|B'AB| + log N
            assert found == pytest.approx(value(s, g)[0] + np.log(30), rel=1e-10)
            gaps.append(found - minus_two_log(y, s * (K + g * np.eye(30)) + np.diag(u), True))
            numeric = approx_fprime(theta, lambda t: objective(t)[0], 1e-6)
            np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)
        assert np.ptp(gaps) < 1e-3

    @staticmethod
    def lack(n, lengthscale, g, level, spread, seed):
        """How much the parameters found lack to the best of a grid, in -2 log likelihood."""
        K = matrix(n, seed, lengthscale)
        y, u = draw(K, g, level * np.exp(spread * np.random.default_rng(seed).normal(size=n)), 1, seed)
        found = fit_parameters(K, y, u)
        value = contrasts(K, y[:, 0], u[:, 0])
        grid = np.meshgrid(np.geomspace(1e-5, 1e2, 36), np.geomspace(LEAST_NUGGET, 1e4, 24))
        least = np.concatenate([value(*part) for part in zip(*(axis.ravel() for axis in grid), strict=True)]).min()
        return value(found.scale, found.nugget)[0] - least

    @pytest.mark.parametrize(
        ("n", "g", "level", "spread"),
        [(80, 1e-3, 1.0, 0.3), (80, 0.1, 1.0, 1.0), (80, 1e-6, 3.0, 1.0), (30, 0.3, 0.3, 2.0), (30, 1e-3, 10.0, 0.3)],
    )
    def test_the_optimum_where_noise_is_as_large_as_the_signal(self, n, g, level, spread):
        for seed in range(3):
            assert -1.0 <= self.lack(n, 0.8, g, level, spread, seed) <= 0.02

    @pytest.mark.parametrize(
        ("n", "lengthscale", "g", "level", "spread", "seed"),
        [
            (30, 2.5, 2e-3, 2.9, 2.0, 1),
            (80, 0.24, 7e-5, 0.2, 2.0, 13),
            (30, 2.8, 0.12, 3.1, 2.0, 44),
            (30, 1.9, 5e-4, 9.5, 0.3, 59),
            (80, 0.25, 2e-4, 0.6, 2.0, 99),
            (80, 0.23, 1e-5, 1.9, 2.0, 115),
        ],
    )
    def test_where_a_search_from_one_place_would_miss_it(self, n, lengthscale, g, level, spread, seed):
        """From the best parameters for the mean noise it misses by up to 200."""
        assert -1.0 <= self.lack(n, lengthscale, g, level, spread, seed) <= 0.02


class TestSearch:
    def test_the_lower_of_two_minima(self):
        def two_wells(x):
            return np.minimum((x + 3) ** 2, 5 * (x - 6.2) ** 2 - 1)

        np.testing.assert_allclose(_minimize_each(two_wells, -10, 10, 1), [6.2], atol=1e-4)
        # and minima at the ends
        np.testing.assert_allclose(_minimize_each(lambda x: x, -1, 1, 1), [-1], atol=1e-4)
        np.testing.assert_allclose(_minimize_each(lambda x: -x, -1, 1, 1), [1], atol=1e-4)

    def test_several_functions_at_once(self):
        centers = np.array([-3.3, 0.0, 1.7, 9.9])
        np.testing.assert_allclose(_minimize_each(lambda x: (x - centers) ** 2, -10, 10, 4), centers, atol=1e-4)

    def test_values_that_are_not_allowed(self):
        found = _minimize_each(lambda x: np.where(x > 0.35, (x + 1) ** 2, np.inf), -10, 10, 2)
        np.testing.assert_allclose(found, 0.35, atol=1e-4)


# The scales over which the mean is taken


GRID = np.geomspace(1e-4, 10.0, 24)


@pytest.mark.parametrize("best", [1e-6, 1e-4, 10.0, 37.0])
def test_a_best_scale_beyond_the_range_leaves_the_grid_as_it_is(best):
    """Where nothing is known of the scale, its root is equally likely to be anything."""
    seen = []

    def flat(t, nugget):
        seen.append(t)
        return np.zeros(1)

    mean, _ = _average_scale(flat, np.array([best]), np.ones(1))
    np.testing.assert_allclose(np.concatenate(seen), GRID)
    np.testing.assert_allclose(mean, (GRID**1.5).sum() / (GRID**0.5).sum())


@pytest.mark.parametrize("best", [2e-4, 0.3, 9.0])
def test_a_best_scale_within_the_range_is_one_of_the_grid(best):
    seen = []

    def flat(t, nugget):
        seen.append(t)
        return np.zeros(1)

    _average_scale(flat, np.array([best]), np.ones(1))
    nodes = np.concatenate(seen)
    assert np.abs(nodes / best - 1).min() < 1e-12
    np.testing.assert_allclose(nodes[1:] / nodes[:-1], GRID[1] / GRID[0])


def test_a_sharp_likelihood_leaves_its_best_scale():
    best = np.array([0.3, 0.02])
    mean, nugget = _average_scale(lambda t, _: 1e6 * np.log(t / best) ** 2, best, np.array([0.5, 2.0]))
    np.testing.assert_allclose(mean, best)
    np.testing.assert_allclose(nugget, [0.5, 2.0])
