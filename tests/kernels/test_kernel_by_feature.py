"""A kernel that differs by feature, in a whole GPEC: each feature has its own similarity."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gpec
from gpec.gp import ExactPosterior, LowRankPosterior
from gpec.kernels import RBF, WEG, Kernel


class Own(Kernel):
    """An RBF of the coordinates of the feature itself."""

    varies_by_feature = True

    def __init__(self, lengthscale=1.0):
        self.lengthscale = lengthscale

    def _fit(self, graph, rows):
        self.lengthscale_ = 1.0 if self.lengthscale == "evidence" else float(self.lengthscale)

    def _free(self):
        return {"lengthscale": (1e-2, 1e2)} if self.lengthscale == "evidence" else {}

    def cross_to(self, Y, feature=None):
        def cross_and_diagonal(X):
            squares = cdist(X.own(feature), Y.own(feature), "sqeuclidean")
            return np.exp(-0.5 * squares / self.lengthscale_**2), np.ones(len(X))

        return cross_and_diagonal


KERNELS = {"alone": Own(), "learned": Own("evidence"), "in a sum": 0.5 * WEG() + Own("evidence")}


def by_hand(g, f, n=20):
    """Mean and variance of one feature at the first explained rows by the dense formula, no noise."""
    X = g.posterior_.rows
    Q = X[:n]
    s, nugget = g.posterior_.parameters.scale[f], g.posterior_.parameters.nugget[f]
    y, ones = g.attributions_.values[:, f], np.ones(len(X))
    A = s * (g.kernel_.gram(X, f) + (nugget + 1e-12) * np.eye(len(X)))
    c = s * g.kernel_.cross(Q, X, f)
    precision = ones @ np.linalg.solve(A, ones)
    m = ones @ np.linalg.solve(A, y) / precision
    variance = s * (g.kernel_.diag(Q, f) + nugget) - np.einsum("ij,ji->i", c, np.linalg.solve(A, c.T))
    variance += (1 - c @ np.linalg.solve(A, ones)) ** 2 / precision
    return m + c @ np.linalg.solve(A, y - m), variance


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_each_feature_has_its_own_process(make, X, kernel):
    g = make(kernel=kernel).fit(X)
    assert isinstance(g.posterior_, ExactPosterior)
    found = g.explain(g.X_explained_[:20], attribution="posterior")
    for f in range(3):
        mean, variance = by_hand(g, f)
        np.testing.assert_allclose(found.values[:, f], mean, atol=1e-6)
        np.testing.assert_allclose(found.variance[:, f], variance, rtol=1e-5, atol=1e-10)


def test_only_its_own_column_matters_to_a_feature(make, X):
    g = make(kernel=Own()).fit(X)
    moved = X[:10].copy()
    moved[:, 1] += 1.0
    a, b = (g.explain(rows, attribution="posterior") for rows in (X[:10], moved))
    np.testing.assert_array_equal(a.variance[:, [0, 2]], b.variance[:, [0, 2]])
    assert (a.variance[:, 1] != b.variance[:, 1]).any()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_files(make, models, X, kernel, tmp_path):
    g = make(kernel=kernel).fit(X)
    g.save(tmp_path / "g.gpec")
    loaded = gpec.GPEC.load(tmp_path / "g.gpec", model=models.curved)
    a, b = (each.explain(X[:20], attribution="posterior") for each in (g, loaded))
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.variance, b.variance)


def test_categories_are_one_feature_of_several_coordinates(make, mixed):
    frame = mixed.frame

    def explainer(rows):
        return np.column_stack([rows["weight"] * (k + 1) + (rows["colour"] == "red") for k in range(5)])

    g = make(mixed.model, explainer, kernel=Own()).fit(frame)
    found = g.explain(frame[:20], attribution="posterior")
    # rows of the same colour are the same to that feature
    red = (frame["colour"][:20] == "red").to_numpy()
    assert 1 < red.sum() < 20
    assert np.ptp(found.variance[red, 0]) < 1e-12
    assert np.ptp(found.values[red, 0]) < 1e-12
    assert np.ptp(found.variance[:, 4]) > 1e-6
    found = g.explain(g.X_explained_[:20], attribution="posterior")
    mean, variance = by_hand(g, 1)
    np.testing.assert_allclose(found.values[:, 1], mean, atol=1e-6)
    np.testing.assert_allclose(found.variance[:, 1], variance, rtol=1e-5)


def test_three_classes(make, models, X):
    g = make(models.three_classes, models.slopes_of_three, kernel=Own()).fit(X)
    found = g.explain(X[:10])
    assert found.variance.shape == (10, 3, 3)
    moved = X[:10].copy()
    moved[:, 1] += 1.0
    np.testing.assert_array_equal(g.explain(moved).variance[:, 0], found.variance[:, 0])


def test_many_rows(make, X, monkeypatch):
    """The low-rank posterior is the dense one."""
    dense = make(kernel=Own(), n_explained=100).fit(X)
    monkeypatch.setattr("gpec.gp.conditioning._DENSE_ROWS", 50)
    low = make(kernel=Own(), n_explained=100).fit(X)
    assert isinstance(low.posterior_, LowRankPosterior)
    a, b = (g.explain(X[:30], attribution="posterior") for g in (dense, low))
    np.testing.assert_allclose(b.values, a.values, atol=2e-3)
    np.testing.assert_allclose(b.variance, a.variance, rtol=2e-3)


def test_it_is_not_the_kernel_of_all_columns(make, X):
    a, b = (make(kernel=kernel).fit(X).explain(X[:20]).variance for kernel in (Own(1.0), RBF(1.0)))
    assert (np.abs(np.log(a / b)) > 0.1).any()
