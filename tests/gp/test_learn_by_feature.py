"""Kernels that differ by feature: lengths and a nugget shared by all features are learned, idle terms switched off."""

import numpy as np
import pytest
from gp_helpers import OwnColumn
from scipy.spatial.distance import cdist

from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.gp import fit_parameters, learn_kernel
from gpec.gp.learning import each_feature
from gpec.kernels import RBF, WEG, Kernel, Matern, Output, Own, Rest

POINTS = np.random.default_rng(100).normal(size=(60, 3))
KERNELS = {
    "own kernel": lambda: OwnColumn("evidence"),
    "composed": lambda: 0.5 * WEG() + OwnColumn("evidence"),
    "two terms": lambda: Matern(Own(), Rest()),
    "four terms": lambda: Matern(Own(), Rest(), Output(), WEG()),
    "a kernel learned inside": lambda: Matern(Own(), RBF("evidence")),
}


def rows_of(X):
    return Rows(X, X, outputs=X[:, :1] * 2.0 + X[:, 1:2] ** 2)


def matern(squared):
    d = np.sqrt(3 * squared)
    return (1 + d) * np.exp(-d)


def drawn(n=60, d=3, noise=0.03, lengths=(1.0, 3.0), seed=0):
    """Rows, and attributions drawn from the Matern of own value and rest with these lengths."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    whole, Y = cdist(X, X, "sqeuclidean"), np.empty((n, d))
    for f in range(d):
        own = cdist(X[:, [f % 3]], X[:, [f % 3]], "sqeuclidean")
        K = matern(own / lengths[0] ** 2 + np.maximum(whole - own, 0.0) / lengths[1] ** 2)
        Y[:, f] = np.linalg.cholesky(K + noise * np.eye(n)) @ rng.normal(size=n)
    return X, Y


def dense(kernel, X, Y, U, nugget, scales):
    """-2 log p, summed over the features, in full matrices; a scale of None is the best."""
    n, total = len(X), 0.0
    for f, s in enumerate(scales):
        K, ones = kernel.gram(X, f) + nugget * np.eye(n), np.ones(n)

        def deviance(s, K=K, ones=ones, f=f):
            A = s * K + np.diag(U[:, f])
            inverse = np.linalg.inv(A)
            precision = ones @ inverse @ ones
            P = inverse - np.outer(inverse @ ones, inverse @ ones) / precision
            return Y[:, f] @ P @ Y[:, f] + np.linalg.slogdet(A)[1] + np.log(precision)

        if s is None:
            inverse = np.linalg.inv(K)
            P = inverse - np.outer(inverse @ ones, inverse @ ones) / (ones @ inverse @ ones)
            s = Y[:, f] @ P @ Y[:, f] / (n - 1)
        total += deviance(s)
    return total


NOISES = {
    "none": lambda n: np.zeros((n, 3)),
    "equal": lambda n: np.tile([0.1, 0.3, 0.05], (n, 1)),
    "by row": lambda n: np.random.default_rng(1).uniform(0.0, 0.4, (n, 3)),
    "of one feature": lambda n: np.random.default_rng(1).uniform(0.0, 0.4, (n, 3)) * [0.0, 1.0, 0.0],
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kernel", KERNELS)
class TestObjective:
    def made(self, kernel, noise):
        X, Y = drawn(n=25)
        U = NOISES[noise](25)
        rows = rows_of(X)
        fitted = KERNELS[kernel]().fit(POINTS, rows)
        noisy = U.any(axis=0)
        objective = each_feature(fitted, rows, Y, U, np.arange(3), noisy)
        rng = np.random.default_rng(2)
        here = np.concatenate((fitted.theta, [np.log(0.05)], np.zeros(noisy.sum())))
        return fitted, rows, Y, U, objective, here + rng.uniform(-0.6, 0.6, size=(2, len(here)))

    def test_its_gradient_is_that_of_central_differences(self, kernel, noise):
        *_, objective, points = self.made(kernel, noise)
        for x in points:
            gradient = objective(x)[1]
            assert objective(x, gradient=False)[0] == pytest.approx(objective(x)[0], rel=1e-7)
            for p, unit in enumerate(np.eye(len(x))):
                single, double = (
                    (objective(x + step * unit)[0] - objective(x - step * unit)[0]) / (2 * step)
                    for step in (1e-3, 2e-3)
                )
                assert gradient[p] == pytest.approx((4 * single - double) / 3, rel=1e-4, abs=1e-4)

    def test_its_differences_are_those_of_full_matrices(self, kernel, noise):
        fitted, rows, Y, U, objective, points = self.made(kernel, noise)
        gaps = []
        for x in points:
            p = fitted.n_dims
            scales = iter(np.exp(x[p + 1 :]))
            each = [next(scales) if any(u) else None for u in U.T]
            gaps.append(objective(x)[0] - dense(fitted.with_theta(x[:p]), rows, Y, U, np.exp(x[p]), each))
        assert abs(np.diff(gaps)[0]) < 1e-4


def test_features_that_are_left_out_do_not_count():
    X, Y = drawn(n=25)
    fitted, zero = Matern(Own(), Rest()).fit(None, X), np.zeros((25, 3))
    x = np.append(fitted.theta, np.log(0.05))
    both = each_feature(fitted, Rows.of(X), Y[:, [0, 2]], zero[:, [0, 2]], [0, 2], zero.any(axis=0)[[0, 2]])(x)[0]
    alone = [each_feature(fitted, Rows.of(X), Y[:, [f]], zero[:, [f]], [f], [False])(x)[0] for f in (0, 2)]
    assert both == pytest.approx(sum(alone))


def best_over_nuggets(kernel, X, Y):
    """The least deviance of a kernel without noise over a grid of shared nuggets."""
    zero = np.zeros_like(Y)
    return min(dense(kernel, X, Y, zero, g, [None] * 3) for g in np.geomspace(1e-5, 1.0, 21))


class TestOptimum:
    @pytest.mark.parametrize("kernel", ["own kernel", "composed"])
    def test_no_length_of_a_fine_grid_is_better(self, kernel):
        X, Y = drawn(n=40)
        zero = np.zeros_like(Y)
        fitted = KERNELS[kernel]().fit(POINTS, X)
        learned = learn_kernel(fitted, X, Y, zero)
        grid = np.linspace(np.log(0.1), np.log(30.0), 15)
        least = min(best_over_nuggets(fitted.with_theta(np.array([theta])), X, Y) for theta in grid)
        assert best_over_nuggets(learned, X, Y) <= least + 0.2  # of the grid of nuggets
        assert learned.theta[0] != pytest.approx(fitted.theta[0], abs=0.1)  # it did learn

    def test_no_pair_of_lengths_of_a_grid_is_better(self):
        X, Y = drawn(n=40)
        zero = np.zeros_like(Y)
        fitted = Matern(Own(), Rest()).fit(None, X)
        learned = learn_kernel(fitted, X, Y, zero)
        assert learned.off_ == []
        lengths = np.log(np.geomspace(0.2, 20.0, 9))
        nuggets = np.geomspace(1e-4, 0.5, 8)
        least = min(
            dense(fitted.with_theta(np.array([a, b])), X, Y, zero, g, [None] * 3)
            for a in lengths
            for b in lengths
            for g in nuggets
        )
        assert best_over_nuggets(learned, X, Y) <= least + 0.1

    @pytest.mark.parametrize("noise", ["none", "by row"])
    def test_lengths_are_found_again(self, noise):
        X, Y = drawn(n=140, lengths=(0.8, 4.0))
        U = NOISES[noise](140)
        Y = Y + np.random.default_rng(5).normal(size=Y.shape) * np.sqrt(U)
        learned = learn_kernel(Matern(Own(), Rest()).fit(None, X), X, Y, U)
        assert learned.terms_["own"].length_ == pytest.approx(0.8, rel=0.4)
        assert learned.terms_["rest"].length_ == pytest.approx(4.0, rel=0.4)

    def test_units_of_attributions_and_constant_features_do_not_matter(self):
        X, Y = drawn(n=50)
        fitted, zero = Matern(Own(), Rest()).fit(None, X), np.zeros_like(Y)
        expected = learn_kernel(fitted, X, Y, zero).theta
        scaled = learn_kernel(fitted, X, Y * [1e5, 1.0, 1e-9] + [0.0, 3.0, 0.0], zero).theta
        np.testing.assert_allclose(scaled, expected, atol=0.02)
        alone = learn_kernel(fitted, X, np.column_stack((Y[:, :2], np.full(50, 0.3))), zero).theta
        pair = each_feature(fitted, Rows.of(X), Y[:, :2], zero[:, :2], [0, 1], [False, False])
        nuggets = np.log(np.geomspace(1e-6, 1.0, 30))
        least = [min(pair(np.append(theta, g))[0] for g in nuggets) for theta in (alone, expected)]
        assert least[0] < least[1]


class TestTerms:
    def test_a_term_of_pure_noise_is_switched_off_and_named(self):
        """Attributions that depend on their own value alone."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 3))
        Y = np.sin(2 * X) + 0.01 * rng.normal(size=X.shape)
        rows = rows_of(X)
        fitted = Matern(Own(), Rest(), WEG()).fit(POINTS, rows)
        learned = learn_kernel(fitted, rows, Y, np.zeros_like(Y))
        assert list(learned.terms_) == ["own"]
        assert set(learned.off_) == {"rest", "weg"}
        assert learned.nats_ == {}  # there is no kernel without its only term
        assert learned.diagnostics()["off"] == learned.off_
        assert list(fitted.terms_) == ["own", "rest", "weg"]  # as it was

    def test_without_own_one_matrix_serves_all(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(80, 3))
        answer = 2 * X[:, :1] + X[:, 1:2] ** 2  # what the model says
        Y = np.hstack((np.sin(answer), np.cos(answer), answer)) + 0.01 * rng.normal(size=X.shape)
        rows = rows_of(X)
        learned = learn_kernel(Matern(Own(), Output()).fit(POINTS, rows), rows, Y, np.zeros_like(Y))
        assert list(learned.terms_) == ["output"]
        assert learned.off_ == ["own"]
        assert not learned.varies_by_feature

    def test_the_others_add_nats(self):
        X, Y = drawn(n=80, lengths=(0.8, 3.0))
        zero, fitted = np.zeros_like(Y), Matern(Own(), Rest()).fit(None, X)
        learned = learn_kernel(fitted, X, Y, zero)
        assert learned.off_ == []
        assert list(learned.nats_) == ["own", "rest"]
        assert min(learned.nats_.values()) > 1
        # what a search for the best kernel without the term says
        for name, kernel in (("own", Matern(Rest())), ("rest", Matern(Own()))):
            alone = kernel.fit(None, X)
            thetas = np.linspace(*np.log([0.2, 20.0]), 12)
            lacking = min(best_over_nuggets(alone.with_theta(np.array([t])), X, Y) for t in thetas)
            exact = (lacking - best_over_nuggets(learned, X, Y)) / 2
            assert learned.nats_[name] == pytest.approx(exact, rel=0.1, abs=2.0)

    def test_files_keep_what_was_learned(self):
        X, Y = drawn(n=40)
        learned = learn_kernel(Matern(Own(), Rest()).fit(None, X), X, Y, np.zeros_like(Y))
        again = Kernel.from_state(learned.state())
        assert (again.nats_, again.off_) == (learned.nats_, learned.off_)
        np.testing.assert_array_equal(again.gram(X, 1), learned.gram(X, 1))


class TestStarts:
    def test_the_same_comes_out_again(self):
        X, Y = drawn(n=50)
        runs = [learn_kernel(Matern(Own(), Rest()).fit(None, X), X, Y, np.zeros_like(Y)) for _ in range(2)]
        assert runs[0].theta.tobytes() == runs[1].theta.tobytes()
        assert runs[0].nats_ == runs[1].nats_

    def test_from_a_kernel_learned_before(self):
        X, Y = drawn(n=50)
        zero, fitted = np.zeros_like(Y), Matern(Own(), Rest()).fit(None, X)
        first = learn_kernel(fitted, X, Y, zero)
        warm = learn_kernel(fitted, X, Y, zero, start=first)
        np.testing.assert_allclose(warm.theta, first.theta, atol=0.02)
        # from one that had switched a term off, and from one of another kind
        for start in (first.without("rest"), RBF("evidence").fit(None, X), WEG().fit(POINTS, X)):
            other = learn_kernel(fitted, X, Y, zero, start=start)
            assert best_over_nuggets(other, X, Y) <= best_over_nuggets(first, X, Y) + 1.0

    def test_the_search_does_not_depend_on_where_the_kernel_stands(self):
        X, Y = drawn(n=50)
        zero, fitted = np.zeros_like(Y), Matern(Own(), Rest()).fit(None, X)
        expected = best_over_nuggets(learn_kernel(fitted, X, Y, zero), X, Y)
        for away in ([2.0, -2.0], [-2.0, 2.0]):
            moved = fitted.with_theta(fitted.theta + away)
            assert best_over_nuggets(learn_kernel(moved, X, Y, zero), X, Y) == pytest.approx(expected, abs=0.5)


class TestSmall:
    @pytest.mark.parametrize("u", [0.0, 0.2])
    def test_two_features_of_five_rows(self, u):
        rng = np.random.default_rng(0)
        X, Y = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
        fitted = Matern(Own(), Rest()).fit(None, X)
        learned = learn_kernel(fitted, X, Y, np.full((5, 2), u))
        assert np.isfinite(learned.gram(X, 0)).all()
        for part in learned.terms_.values():
            assert 0.03 * part.median_ * (1 - 1e-9) <= part.length_ <= 300 * part.median_ * (1 + 1e-9)

    def test_it_stays_within_the_bounds(self):
        rng = np.random.default_rng(3)
        X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 3))
        kernel = OwnColumn("evidence").fit()
        learned = learn_kernel(kernel, X, Y, np.zeros_like(Y))
        assert kernel.bounds[0, 0] - 1e-12 <= learned.theta[0] <= kernel.bounds[0, 1] + 1e-12

    @pytest.mark.parametrize(
        ("X", "Y"),
        [
            (np.random.default_rng(0).normal(size=(20, 2)), np.full((20, 2), 0.4)),
            (np.zeros((20, 2)), np.random.default_rng(0).normal(size=(20, 2))),
            (np.eye(2), np.eye(2)),
        ],
        ids=["constant", "one place", "two rows"],
    )
    def test_nothing_to_learn(self, X, Y):
        kernel = Matern(Own(), Rest()).fit(None, X)
        assert learn_kernel(kernel, X, Y, np.zeros_like(Y)) is kernel

    def test_rows_that_repeat(self):
        """Equal rows make the matrix singular but for the nugget."""
        X, Y = drawn(n=20)
        X, Y = np.vstack((X, X)), np.vstack((Y, Y))
        learned = learn_kernel(Matern(Own(), Rest()).fit(None, X), X, Y, np.zeros_like(Y))
        assert np.isfinite(learned.theta).all()


def test_one_kernel_for_all_features_with_noise_by_row():
    X, Y = drawn(n=60)
    U = NOISES["by row"](60)
    K = RBF(1.0).fit(None, X).gram(X)
    together = fit_parameters(K, Y, U)
    for f in range(3):
        alone = fit_parameters(K, Y[:, [f]], U[:, [f]])
        np.testing.assert_allclose(together.scale[f], alone.scale[0], rtol=1e-3)
        np.testing.assert_allclose(together.nugget[f], alone.nugget[0], rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("by_feature", [True, False])
def test_a_feature_that_varies_in_few_rows_spoils_nothing(by_feature):
    """Starts and nats are sought on some of the rows, among which it may not vary at all."""
    n, rng = 400, np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    Y = np.sin(2 * X) + 0.3 * X * X[:, [1, 2, 3, 0]]
    used = set(evenly_spaced(n, 100)) | set(evenly_spaced(n, 200)) | set(evenly_spaced(n, 300)[::3])
    Y[:, 3] = 0.0
    Y[[i for i in range(n) if i not in used][5::40], 3] = 1.0
    terms = (Own(), Rest()) if by_feature else (Rest(),)

    def learned(Y):
        return learn_kernel(Matern(*terms).fit(None, X), X, Y, 0 * Y)

    plain, spoiled = learned(Y[:, :3]), learned(Y)
    assert spoiled.off_ == plain.off_ == []
    np.testing.assert_allclose(spoiled.theta, plain.theta, atol=0.7)


def test_the_gradient_without_a_feature_that_does_not_vary():
    rng = np.random.default_rng(1)
    X, noisy = rng.normal(size=(60, 4)), np.array([True, False, False, True])
    Y = np.where(np.arange(4) == 3, 0.0, np.sin(2 * X))
    kernel = Matern(Own(), Rest()).fit(None, X)
    objective = each_feature(kernel, Rows.of(X), Y, 0.01 * noisy * np.ones((60, 4)), np.arange(4), noisy)
    x = np.append(kernel.theta, [-3.0, 0.1, 0.2])
    slope = objective(x)[1]
    numeric = [(objective(x + step)[0] - objective(x - step)[0]) / 2e-5 for step in 1e-5 * np.eye(len(x))]
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-4)
    assert np.abs(slope[:-1]).min() > 1e-3
    assert slope[-1] == 0.0
