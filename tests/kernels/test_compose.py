"""Sums, products and multiples; what holds for every kernel."""

import numpy as np
import pytest
from sklearn.base import clone

from gpec.data import Rows
from gpec.errors import InputError, NotFittedError, ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, RBF, WEG, Kernel, Product, Scaled, Sum

POINTS = np.random.default_rng(0).normal(size=(80, 3))
X = np.random.default_rng(1).normal(size=(30, 3))
Y = np.random.default_rng(2).normal(size=(11, 3))

ALL = {
    "EG": lambda: EG(),
    "WEG": lambda: WEG(),
    "WEG plain": lambda: WEG(lam=1.0, rho=2.0, normalize=False),
    "RBF": lambda: RBF(),
    "sum": lambda: 0.5 * WEG() + 0.5 * RBF(),
    "product": lambda: WEG() * RBF(),
    "multiple": lambda: 3 * WEG(normalize=False),
    "nested": lambda: 2.0 * (WEG(rho=1.0) * RBF(2.0) + 0.1 * EG()) * RBF(),
}
GRAPHS = {
    "exact": GeodesicGraph.build(POINTS, n_neighbors=4),
    "landmarks": GeodesicGraph.build(POINTS, n_neighbors=4, n_landmarks=15),
}


@pytest.fixture(params=ALL)
def kernel(request):
    return ALL[request.param]()


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_gram_cross_diag_and_cross_to_belong_to_one_function(kernel, graph):
    kernel.fit(graph, X)
    K = kernel.gram(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, kernel.cross(X, X), atol=1e-13)
    np.testing.assert_allclose(np.diag(K), kernel.diag(X), atol=1e-13)
    np.testing.assert_allclose(np.diag(kernel.cross(X, X)), kernel.diag(X), atol=1e-13)
    cross, diagonal = kernel.cross_to(Rows.of(Y))(Rows.of(X))
    np.testing.assert_allclose(cross, kernel.cross(X, Y), atol=1e-13)
    np.testing.assert_allclose(cross, kernel.cross(Y, X).T, atol=1e-13)
    np.testing.assert_allclose(diagonal, kernel.diag(X), atol=1e-13)
    np.testing.assert_array_equal(kernel(X), K)
    np.testing.assert_array_equal(kernel(X, Y), kernel.cross(X, Y))
    joint = kernel.gram(np.vstack((X, Y)))
    np.testing.assert_allclose(joint[:30, 30:], kernel.cross(X, Y), atol=1e-13)
    spectrum = np.linalg.eigvalsh(joint)
    assert spectrum[0] >= -1e-10 * spectrum[-1]


def test_operators_give_what_they_say():
    w, r = WEG(lam=1.0, rho=2.0).fit(POINTS), RBF(1.5).fit()
    a, b = w.gram(X), r.gram(X)
    np.testing.assert_allclose((WEG(lam=1.0, rho=2.0) + RBF(1.5)).fit(POINTS).gram(X), a + b, atol=1e-14)
    np.testing.assert_allclose((WEG(lam=1.0, rho=2.0) * RBF(1.5)).fit(POINTS).gram(X), a * b, atol=1e-14)
    for factor in (0.25, 3, np.float64(0.25), np.int64(3)):
        for scaled in (factor * RBF(1.5), RBF(1.5) * factor):
            assert isinstance(scaled, Scaled)
            np.testing.assert_allclose(scaled.fit().gram(X), factor * b, atol=1e-14)
    kernel = (2.0 * (3.0 * RBF(1.5))).fit()
    np.testing.assert_allclose(kernel.diag(X), 6.0)
    assert kernel.diagnostics() == {"factor": 6.0, "lengthscale": 1.5}


def test_kinds():
    assert isinstance(WEG() + RBF(), Sum)
    assert isinstance(WEG() * RBF(), Product)
    assert isinstance(2 * WEG() * RBF(), Product)
    assert all(isinstance(make(), Kernel) for make in ALL.values())


def test_fitting_a_composed_kernel_leaves_its_parts_unfitted():
    part = WEG()
    twice = (part + part).fit(POINTS, X)
    with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
        part.gram(X)
    assert twice.first_ is not twice.second_
    np.testing.assert_allclose(twice.diag(X), 2.0)


def test_parts_choose_their_own_parameters():
    kernel = (WEG() + RBF()).fit(POINTS, X)
    diagnostics = kernel.diagnostics()
    assert diagnostics["first"] == WEG().fit(POINTS, X).diagnostics()
    assert diagnostics["second"] == RBF().fit(POINTS, X).diagnostics()
    assert set(diagnostics["first"]) == {"lam", "rho", "clipped_mass"}


def test_a_kernel_of_ones_own_needs_one_method():
    class Linear(Kernel):
        """``x'x'``."""

        def cross_to(self, Y, feature=None):
            return lambda X: (X.embedded @ Y.embedded.T, np.einsum("ij,ij->i", X.embedded, X.embedded))

    assert Linear().diagnostics() == {}
    assert Linear().theta.size == 0
    kernel = (2.0 * Linear() + RBF(1.0)).fit()
    np.testing.assert_allclose(kernel.gram(X), 2 * X @ X.T + RBF(1.0).fit().gram(X), atol=1e-12)
    np.testing.assert_allclose(Linear().gram(X), X @ X.T, atol=1e-12)
    np.testing.assert_allclose(Linear().diag(X), (X**2).sum(axis=1), atol=1e-12)


class TestFreeParameters:
    """Sums, products and multiples pass on the free parameters of their parts."""

    @staticmethod
    def nested():
        return (Scaled("evidence", WEG()) + RBF("evidence") * (0.5 * RBF("evidence"))).fit(POINTS, X)

    def test_names_values_and_bounds(self):
        kernel, median = self.nested(), RBF().fit(None, X).lengthscale_
        assert [h.name for h in kernel.hyperparameters] == [
            "first__factor",
            "second__first__lengthscale",
            "second__second__kernel__lengthscale",
        ]
        np.testing.assert_allclose(kernel.theta, np.log([1.0, median, median]), atol=1e-12)
        np.testing.assert_allclose(
            kernel.bounds, np.log([[1e-4, 1e4], [0.01 * median, 100 * median], [0.01 * median, 100 * median]])
        )
        assert kernel.n_dims == 3

    def test_other_values(self):
        kernel = self.nested()
        before = kernel.gram(X)
        other = kernel.with_theta(np.log([3.0, 0.7, 2.0]))
        expected = 3 * WEG().fit(POINTS, X).gram(X) + 0.5 * RBF(0.7).fit().gram(X) * RBF(2.0).fit().gram(X)
        np.testing.assert_allclose(other.gram(X), expected, atol=1e-12)
        np.testing.assert_allclose(np.exp(other.theta), [3.0, 0.7, 2.0])
        np.testing.assert_array_equal(kernel.gram(X), before)
        diagnostics = other.diagnostics()
        assert diagnostics["first"]["factor"] == pytest.approx(3.0)
        assert diagnostics["second"]["first"]["lengthscale"] == pytest.approx(0.7)

    def test_numbers_are_not_free(self):
        kernel = (2.0 * WEG(lam=1.0, rho=2.0) + RBF(1.5) * RBF()).fit(POINTS, X)
        assert kernel.n_dims == 0
        assert kernel.bounds.shape == (0, 2)
        assert kernel.hyperparameters == []

    def test_they_are_known_after_fitting(self):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            _ = (WEG() + RBF("evidence")).theta

    def test_a_factor_that_is_neither_a_number_nor_learned(self):
        with pytest.raises(InputError, match="factor='best' must be 'evidence' or a number"):
            Scaled("best", WEG()).fit(POINTS)


@pytest.mark.parametrize("compose", [lambda a, b: a + b, lambda a, b: b * a, lambda a, b: a + 2.0 * (b * a)])
def test_a_part_that_differs_by_feature_makes_the_whole_differ(compose):
    class First(Kernel):
        varies_by_feature = True

        def cross_to(self, Y, feature=None):
            return lambda X: (X.own(feature) @ Y.own(feature).T, X.own(feature)[:, 0] ** 2)

    kernel = compose(RBF(1.0), First()).fit()
    assert kernel.varies_by_feature
    assert not compose(RBF(1.0), RBF(2.0)).varies_by_feature
    b = RBF(1.0).fit().gram(X)
    for f in range(3):
        own = np.outer(X[:, f], X[:, f])
        np.testing.assert_allclose(kernel.gram(X, f), compose(b, own), atol=1e-12)
        np.testing.assert_allclose(kernel.diag(X, f), np.diag(kernel.gram(X, f)), atol=1e-12)
    np.testing.assert_allclose(kernel.cross(X, Y, 1), kernel.gram(np.vstack((X, Y)), 1)[:30, 30:], atol=1e-12)


def test_clone_keeps_what_was_learned_and_stands_on_its_own(kernel):
    kernel.fit(POINTS, X)
    before = kernel.gram(X)
    copied = clone(kernel)
    assert copied is not kernel
    np.testing.assert_array_equal(copied.gram(X), before)
    copied.fit(POINTS[:40] * 2, X * 2)
    assert not np.allclose(copied.gram(X), before)
    np.testing.assert_array_equal(kernel.gram(X), before)


def test_clone_of_an_unfitted_kernel_is_unfitted(kernel):
    with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
        clone(kernel).gram(X)
    assert clone(kernel) == kernel


def test_not_fitted(kernel):
    for use in (lambda: kernel.gram(X), lambda: kernel.diag(X), kernel.diagnostics, lambda: kernel.cross(X, Y)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            use()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: 0 * WEG(), InputError, "factor=0 must be a finite number greater than 0"),
        (lambda: WEG() * -2.0, InputError, r"factor=-2\.0 must be"),
        (lambda: WEG() * "2", ParameterTypeError, "factor='2' must be a number"),
        (lambda: Sum(WEG(), 3.0).fit(POINTS), ParameterTypeError, "second must be a kernel of gpec.kernels, got float"),
        (lambda: Product("a", WEG()).fit(POINTS), ParameterTypeError, "first must be a kernel"),
        (lambda: Scaled(2.0, "a").fit(POINTS), ParameterTypeError, "kernel must be a kernel of gpec.kernels, got str"),
        (lambda: Scaled(-1.0, WEG()).fit(POINTS), InputError, r"factor=-1\.0"),
        (lambda: (WEG() + RBF("long")).fit(POINTS), InputError, "lengthscale='long' must be"),
    ],
)
def test_bad_parts(make, error, message):
    with pytest.raises(error, match=message):
        make()
