"""Sums, products and multiples; what holds for every kernel."""

import numpy as np
import pytest
from sklearn.base import clone

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
def test_gram_cross_diag_and_against_belong_to_one_function(kernel, graph):
    kernel.fit(graph, X)
    K = kernel.gram(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, kernel.cross(X, X), atol=1e-13)
    np.testing.assert_allclose(np.diag(K), kernel.diag(X), atol=1e-13)
    np.testing.assert_allclose(np.diag(kernel.cross(X, X)), kernel.diag(X), atol=1e-13)
    cross, diagonal = kernel.against(Y)(X)
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
    with pytest.raises(NotFittedError):
        part.gram(X)
    assert twice.first_ is not twice.second_
    np.testing.assert_allclose(twice.diag(X), 2.0)


def test_parts_choose_their_own_parameters():
    kernel = (WEG() + RBF()).fit(POINTS, X)
    diagnostics = kernel.diagnostics()
    assert diagnostics["first"] == WEG().fit(POINTS, X).diagnostics()
    assert diagnostics["second"] == RBF().fit(POINTS, X).diagnostics()
    assert set(diagnostics["first"]) == {"lam", "rho", "clipped_mass"}


def test_a_kernel_of_ones_own_needs_few_methods():
    class Linear(Kernel):
        """``x'x'``."""

        def _fit(self, graph, X):
            self.fitted_ = True

        def against(self, Y):
            self._require_fitted("fitted_")
            return lambda X: (X @ Y.T, self.diag(X))

        def diag(self, X):
            return np.einsum("ij,ij->i", X, X)

        def fitted_state(self):
            return {}

        def restore(self, state):
            self.fitted_ = True
            return self

    assert Linear().diagnostics() == {}
    kernel = (2.0 * Linear() + RBF(1.0)).fit()
    np.testing.assert_allclose(kernel.gram(X), 2 * X @ X.T + RBF(1.0).fit().gram(X), atol=1e-12)
    with pytest.raises(NotFittedError, match="This Linear kernel is not fitted yet"):
        Linear().gram(X)


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
    with pytest.raises(NotFittedError):
        clone(kernel).gram(X)
    assert clone(kernel) == kernel


def test_not_fitted(kernel):
    for use in (lambda: kernel.gram(X), lambda: kernel.diag(X), kernel.diagnostics, kernel.fitted_state):
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
    ],
)
def test_bad_parts(make, error, message):
    with pytest.raises(error, match=message):
        make()
