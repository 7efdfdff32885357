"""The free parameters of any kernel, alone or composed, are learned by evidence."""

import numpy as np
import pytest
from gp_helpers import OwnColumn
from scipy.optimize import OptimizeResult
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sklearn_kernels

from gpec.errors import InputError, NotFittedError
from gpec.gp import fit_parameters, learn_kernel, learning
from gpec.kernels import RBF, WEG, Kernel, Scaled

POINTS = np.random.default_rng(100).normal(size=(60, 2))
KERNELS = {
    "RBF": lambda: RBF("evidence"),
    "sum": lambda: 0.5 * WEG() + RBF("evidence"),
    "product": lambda: WEG() * RBF("evidence"),
    "factor": lambda: Scaled("evidence", WEG()) + RBF("evidence"),
    "two lengths": lambda: RBF("evidence") + Scaled("evidence", RBF("evidence") * WEG()),
}
BY_FEATURE = {  # with a free scale they are learned in another way: see test_learn_by_feature.py
    "by feature": lambda: OwnColumn("evidence"),
    "composed by feature": lambda: 0.5 * WEG() + OwnColumn("evidence"),
}


def drawn(lengthscale, n=120, d=4, noise=1e-4, seed=0):
    """Rows, and functions drawn from a Gaussian process of that lengthscale, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    K = RBF(lengthscale).fit().gram(X) + noise * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.normal(size=(n, d))


def dense_evidence(kernel, X, Y, U):
    """Sum over the features of log p, the formula of gpec.gp.evidence in full matrices."""
    K, n, total = kernel.gram(X), len(X), 0.0
    parameters = fit_parameters(K, Y, U)
    for y, u, s, g in zip(Y.T, U.T, parameters.scale, parameters.nugget, strict=True):
        A = s * (K + g * np.eye(n)) + np.diag(u)
        inverse, ones = np.linalg.inv(A), np.ones(n)
        precision = ones @ inverse @ ones
        P = inverse - np.outer(inverse @ ones, inverse @ ones) / precision
        total -= (y @ P @ y + np.linalg.slogdet(A)[1] + np.log(precision)) / 2
    return total


def dense_with_given_scale(kernel, X, Y, U, scale):
    total = 0.0
    for f in range(Y.shape[1]):
        A = scale * kernel.gram(X, f) + np.diag(U[:, f])
        total -= (Y[:, f] @ np.linalg.solve(A, Y[:, f]) + np.linalg.slogdet(A)[1]) / 2
    return total


@pytest.fixture
def objective_of(monkeypatch):
    """``objective_of(kernel, ...)``: the function that ``learn_kernel`` hands to the search, and its bounds."""

    def catch(*arguments):
        caught = []

        def instead(objective, x0, **options):
            caught.append((objective, options))
            return OptimizeResult(x=x0, fun=objective(x0)[0])

        with monkeypatch.context() as patch:
            patch.setattr(learning, "minimize", instead)
            learn_kernel(*arguments)
        assert caught[0][1]["jac"] is True
        return caught[0][0]

    return catch


class TestObjective:
    @pytest.mark.parametrize(
        ("kernel", "scale", "u"),
        [
            *((kernel, "evidence", u) for kernel in KERNELS for u in (0.0, 0.3)),
            *((kernel, 2.0, 0.03) for kernel in (*KERNELS, *BY_FEATURE)),
        ],
    )
    def test_its_gradient_is_that_of_central_differences(self, objective_of, kernel, scale, u):
        X, Y = drawn(0.8, n=25, d=2, noise=0.05)
        fitted = {**KERNELS, **BY_FEATURE}[kernel]().fit(POINTS, X)
        objective = objective_of(fitted, X, Y, np.full_like(Y, u), scale)
        rng = np.random.default_rng(1)
        for theta in fitted.theta + rng.uniform(-0.7, 0.7, size=(2, fitted.n_dims)):
            gradient = objective(theta)[1]
            for p, unit in enumerate(np.eye(len(theta))):
                single, double = (
                    (objective(theta + step * unit)[0] - objective(theta - step * unit)[0]) / (2 * step)
                    for step in (2e-4, 4e-4)
                )
                assert gradient[p] == pytest.approx((4 * single - double) / 3, rel=1e-5, abs=1e-5)

    @pytest.mark.parametrize("kernel", KERNELS)
    @pytest.mark.parametrize("u", [0.0, 0.3, 3.0])
    def test_its_differences_are_those_of_full_matrices(self, objective_of, kernel, u):
        X, Y = drawn(1.0, n=40, d=2, noise=0.01)
        Y = Y + 2.0 * X[:, :1]
        U = np.full(Y.shape, u)
        fitted = KERNELS[kernel]().fit(POINTS, X)
        objective = objective_of(fitted, X, Y, U)
        thetas = fitted.theta + np.random.default_rng(2).uniform(-1.5, 1.5, size=(4, fitted.n_dims))
        gaps = [objective(theta)[0] + 2 * dense_evidence(fitted.with_theta(theta), X, Y, U) for theta in thetas]
        assert np.ptp(gaps) < 1e-4

    @pytest.mark.parametrize("kernel", ["RBF", "sum", "by feature"])
    def test_with_a_given_scale(self, objective_of, kernel):
        X, Y = drawn(1.0, n=40, d=2, noise=0.01)
        U = np.tile([0.05, 0.2], (40, 1))
        fitted = {**KERNELS, **BY_FEATURE}[kernel]().fit(POINTS, X)
        objective = objective_of(fitted, X, Y, U, 2.0)
        for theta in fitted.theta + np.random.default_rng(3).uniform(-1.5, 1.5, size=(4, fitted.n_dims)):
            dense = dense_with_given_scale(fitted.with_theta(theta), X, Y, U, 2.0)
            assert objective(theta)[0] == pytest.approx(-2 * dense, rel=1e-9)


class TestOptimum:
    @pytest.mark.parametrize("kernel", ["RBF", "sum", "product"])
    @pytest.mark.parametrize("u", [0.0, 0.1])
    def test_no_length_of_a_fine_grid_has_more_evidence(self, kernel, u):
        X, Y = drawn(0.6, n=40, d=2, noise=max(u, 1e-3))
        U = np.full(Y.shape, u)
        fitted = KERNELS[kernel]().fit(POINTS, X)
        learned = learn_kernel(fitted, X, Y, U)
        assert learned.n_dims == 1
        grid = np.linspace(*fitted.bounds[0], 60)
        most = max(dense_evidence(fitted.with_theta(np.array([theta])), X, Y, U) for theta in grid)
        assert dense_evidence(learned, X, Y, U) >= most - 1e-6
        assert learned.theta[0] != pytest.approx(fitted.theta[0], abs=0.1)  # it did learn

    def test_two_parameters(self):
        X, Y = drawn(0.6, n=40, d=2, noise=1e-2)
        U = np.zeros(Y.shape)
        fitted = KERNELS["factor"]().fit(POINTS, X)
        learned = learn_kernel(fitted, X, Y, U)
        most = max(
            dense_evidence(fitted.with_theta(np.array([factor, length])), X, Y, U)
            for factor in np.linspace(*fitted.bounds[0], 15)
            for length in np.linspace(*fitted.bounds[1], 15)
        )
        assert dense_evidence(learned, X, Y, U) >= most - 1e-6

    @pytest.mark.parametrize("kernel", ["RBF", "sum"])
    def test_where_a_search_from_the_median_would_run_to_the_bounds(self, kernel):
        """At the median the slope is so steep that the first step ends at the shortest length, where there is none."""
        rng = np.random.default_rng(6)
        X, points = rng.normal(size=(60, 3)), rng.normal(size=(60, 3))
        fitted = KERNELS[kernel]().fit(points, X)
        true = fitted.with_theta(np.log([1.2]))
        U = np.full((60, 2), 0.01)
        Y = np.linalg.cholesky(true.gram(X) + 0.01 * np.eye(60)) @ rng.normal(size=(60, 2))
        learned = learn_kernel(fitted, X, Y, U, 1.0)
        assert np.exp(learned.theta[0]) == pytest.approx(1.2, rel=0.2)
        assert dense_with_given_scale(learned, X, Y, U, 1.0) >= dense_with_given_scale(true, X, Y, U, 1.0)

    @pytest.mark.parametrize("kernel", ["sum", "product"])
    def test_a_length_inside_another_kernel_is_found(self, kernel):
        """Functions drawn from the composed kernel itself, of a length far from the median distance."""
        rng = np.random.default_rng(4)
        X = rng.normal(size=(150, 2))
        fitted = KERNELS[kernel]().fit(POINTS, X)
        true = fitted.with_theta(np.log([0.25]))
        Y = np.linalg.cholesky(true.gram(X) + 1e-3 * np.eye(150)) @ rng.normal(size=(150, 6))
        found = learn_kernel(fitted, X, Y, np.zeros(Y.shape))
        assert np.exp(found.theta[0]) == pytest.approx(0.25, rel=0.2)

    @pytest.mark.parametrize("lengthscale", [0.5, 2.0])
    def test_given_scale_agrees_with_scikit_learn(self, lengthscale):
        X, Y = drawn(lengthscale)
        theirs = GaussianProcessRegressor(sklearn_kernels.RBF(lengthscale), alpha=1e-4).fit(X, Y).kernel_.length_scale
        kernel = learn_kernel(RBF("evidence").fit(None, X), X, Y, np.full(Y.shape, 1e-4), 1.0)
        assert kernel.lengthscale_ == pytest.approx(theirs, rel=0.01)
        assert kernel.lengthscale_ == pytest.approx(lengthscale, rel=0.1)

    @pytest.mark.parametrize("u", [0.0, 1e-4, 0.3])
    def test_free_scale_has_the_most_evidence(self, u):
        X, Y = drawn(1.0, noise=max(u, 1e-4))
        Y = 3.0 + Y * [1.0, 10.0, 0.1, 1e-3]
        U = np.tile(u * np.array([1.0, 100.0, 0.01, 1e-6]), (len(Y), 1))
        found = learn_kernel(RBF("evidence").fit(None, X), X, Y, U).lengthscale_
        most = dense_evidence(RBF(found).fit(), X, Y, U)
        for factor in (0.1, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 10.0):
            assert dense_evidence(RBF(found * factor).fit(), X, Y, U) < most + 1e-3
        assert found == pytest.approx(1.0, rel=0.25)

    def test_stated_noise_matters(self):
        """Noise that is all there is leaves nothing to a short lengthscale."""
        X, Y = drawn(0.1, d=1)  # rough: nearly white at this density
        kernel = RBF("evidence").fit(None, X)
        rough = learn_kernel(kernel, X, Y, np.zeros(Y.shape), 1.0).lengthscale_
        assert rough == pytest.approx(0.1, rel=0.3)
        noisy = learn_kernel(kernel, X, Y, np.full(Y.shape, Y.var()), 1.0).lengthscale_
        assert noisy != pytest.approx(rough, rel=0.5)

    def test_units_and_constant_features_do_not_matter(self):
        X, Y = drawn(1.0)
        kernel = RBF("evidence").fit(None, X)
        zero = np.zeros(Y.shape)
        expected = learn_kernel(kernel, X, Y, zero).lengthscale_
        assert learn_kernel(kernel, X, 1e6 * Y + 7.0, zero).lengthscale_ == pytest.approx(expected, rel=1e-3)
        assert learn_kernel(kernel, X, 1e-120 * Y, zero).lengthscale_ == pytest.approx(expected, rel=1e-3)
        far = RBF("evidence").fit(None, 1e3 * X)
        assert learn_kernel(far, 1e3 * X, Y, zero).lengthscale_ == pytest.approx(1e3 * expected, rel=1e-3)
        padded = np.hstack((Y, np.full((len(Y), 2), 0.3)))
        assert learn_kernel(kernel, X, padded, np.zeros(padded.shape)).lengthscale_ == pytest.approx(expected, rel=1e-9)

    def test_many_rows_are_used_evenly(self):
        """Of 500 rows 300 are used; those at the end count as much as those at the start."""
        X, Y = drawn(0.5, n=500, d=1)
        Y[:300] = 0.0
        kernel = RBF("evidence").fit(None, X)
        assert learn_kernel(kernel, X, Y, np.zeros(Y.shape)) is not kernel


class TestWhatIsReturned:
    def test_a_new_kernel_and_only_where_something_is_free(self):
        X, Y = drawn(0.5)
        zero = np.zeros(Y.shape)
        kernel = RBF("evidence").fit(None, X)
        before = kernel.lengthscale_
        assert before == RBF().fit(None, X).lengthscale_
        learned = learn_kernel(kernel, X, Y, zero)
        assert learned is not kernel
        assert kernel.lengthscale_ == before != learned.lengthscale_
        assert learned.lengthscale == "evidence"
        assert learned.diagnostics() == {"lengthscale": learned.lengthscale_}
        again = Kernel.from_state(learned.state())
        np.testing.assert_array_equal(again.gram(X), learned.gram(X))
        for other in (RBF().fit(None, X), RBF(2.0).fit(), (WEG() + RBF(2.0)).fit(POINTS, X)):
            assert learn_kernel(other, X, Y, zero) is other

    def test_learning_a_composed_kernel_leaves_it_and_its_parts_alone(self):
        X, Y = drawn(0.5)
        kernel = KERNELS["two lengths"]().fit(POINTS, X)
        before, theta = kernel.gram(X), kernel.theta
        learned = learn_kernel(kernel, X, Y, np.zeros(Y.shape))
        np.testing.assert_array_equal(kernel.gram(X), before)
        np.testing.assert_array_equal(kernel.theta, theta)
        assert (np.abs(learned.theta - theta) > 1e-3).any()
        again = Kernel.from_state(learned.state())
        np.testing.assert_array_equal(again.theta, learned.theta)
        np.testing.assert_array_equal(again.gram(X), learned.gram(X))
        # fitted anew it starts where it had started
        np.testing.assert_array_equal(learned.fit(POINTS, X).theta, theta)

    def test_it_stays_within_the_bounds(self):
        X, Y = drawn(0.5, n=40, d=2)
        Y = np.random.default_rng(5).normal(size=Y.shape)  # nothing to be learned of the length
        for make in (*KERNELS.values(), *BY_FEATURE.values()):
            kernel = make().fit(POINTS, X)
            learned = learn_kernel(kernel, X, Y, np.zeros(Y.shape))
            assert (learned.theta >= kernel.bounds[:, 0] - 1e-12).all()
            assert (learned.theta <= kernel.bounds[:, 1] + 1e-12).all()

    @pytest.mark.parametrize(
        ("X", "Y"),
        [
            (np.random.default_rng(0).normal(size=(20, 2)), np.full((20, 3), 0.4)),  # nothing varies
            (np.zeros((20, 2)), np.random.default_rng(0).normal(size=(20, 3))),  # all rows equal
            (np.eye(2), np.eye(2)),
        ],
        ids=["constant", "one place", "two rows"],
    )
    def test_nothing_to_learn(self, X, Y):
        kernel = RBF("evidence").fit(None, X)
        assert learn_kernel(kernel, X, Y, np.zeros(Y.shape)) is kernel

    def test_it_needs_a_fitted_kernel(self):
        for kernel in (RBF("evidence"), 0.5 * WEG() + RBF("evidence")):
            with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
                learn_kernel(kernel, np.eye(3), np.eye(3), np.zeros((3, 3)))
        with pytest.raises(InputError, match="lengthscale='evidence' needs rows"):
            RBF("evidence").fit(np.eye(3))
