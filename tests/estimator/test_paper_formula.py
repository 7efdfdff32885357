"""The variance against Algorithms 1 and 2 of the paper, written down once more."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import expit

from gpec import GPEC, PAPER
from gpec.kernels import WEG


def test_paper_settings():
    assert PAPER == {
        "mode": "predict",
        "kernel": "weg",
        "similar": None,
        "standardize": False,
        "lam": 1.0,
        "rho": 0.1,
        "output_scale": 1.0,
        "noise": 1e-4,
        "n_neighbors": 5,
        "draw": "uniform",
        "fit_samples": "full",
    }


def geodesics(M, k):
    """Shortest paths over the k-nearest-neighbour graph, by Floyd and Warshall."""
    D = cdist(M, M)
    paths = np.full_like(D, np.inf)
    np.fill_diagonal(paths, 0.0)
    for i in range(len(M)):
        for j in np.argsort(D[i])[1 : k + 1]:
            paths[i, j] = paths[j, i] = D[i, j]
    for m in range(len(M)):
        paths = np.minimum(paths, paths[:, [m]] + paths[[m], :])
    return paths


def algorithms_1_and_2(M, X, E, x, *, lam, rho, noise, k, normalize=True):
    """Mean and variance at rows ``x``, as the paper writes them (normalised: Eq. 9)."""
    G = np.exp(-lam * geodesics(M, k))
    assert np.linalg.eigvalsh(G).min() > 1e-6  # else the paper's formula has no meaning

    def weights(rows):
        w = np.exp(-rho * cdist(rows, M, "sqeuclidean"))
        return w / w.sum(axis=1, keepdims=True)

    def kernel(a, b):
        K = weights(a) @ G @ weights(b).T
        if not normalize:
            return K
        own = [np.sqrt(np.einsum("ij,jk,ik->i", weights(r), G, weights(r))) for r in (a, b)]
        return K / np.outer(*own)

    A = kernel(X, X) + noise * np.eye(len(X))
    kx = kernel(X, x)
    variance = np.diag(kernel(x, x)) - np.einsum("ij,ij->j", kx, np.linalg.solve(A, kx))
    return kx.T @ np.linalg.solve(A, E), variance


BOUNDARIES = {
    "line": lambda X: expit(X[:, 0] - 2 * X[:, 1] + 0.2),
    "parabola": lambda X: expit(X[:, 1] - 0.5 * X[:, 0] ** 2 + 0.3),
    "circle": lambda X: expit(1.2 - (X**2).sum(axis=1)),
}


@pytest.mark.parametrize("model", BOUNDARIES)
@pytest.mark.parametrize("changes", [{}, {"rho": 5.0}, {"lam": 3.0, "noise": 1e-2}, {"rho": 2.0, "n_neighbors": 8}])
def test_paper_formula(models, model, changes):
    X = np.random.default_rng(0).normal(2.0, 3.0, size=(120, 2)) - 2.0
    settings = {**PAPER, **changes}
    g = GPEC(BOUNDARIES[model], models.slopes, **settings, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert len(g.boundary_) == 50
    e = g.explain(X[:30], attribution="posterior")
    mean, variance = algorithms_1_and_2(
        g.boundary_.points,
        g.X_explained_,
        models.slopes(g.X_explained_),
        X[:30],
        lam=settings["lam"],
        rho=settings["rho"],
        noise=settings["noise"],
        k=settings["n_neighbors"],
    )
    # one kernel for all features and noise that is the same everywhere: one variance for all features
    np.testing.assert_allclose(e.variance, np.repeat(variance[:, None], 2, axis=1), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(e.values, mean, rtol=1e-4, atol=1e-5)
    assert np.ptp(variance) > 1e-5  # there was something to compare


def test_unnormalised_paper_formula(models):
    X = np.random.default_rng(0).normal(size=(120, 2))
    kernel = WEG(1.0, 2.0, normalize=False)
    g = GPEC(BOUNDARIES["parabola"], models.slopes, **PAPER, n_boundary=50, n_explained=20, random_state=0)
    g.set_params(kernel=kernel).fit(X)
    _, variance = algorithms_1_and_2(
        g.boundary_.points,
        g.X_explained_,
        models.slopes(g.X_explained_),
        X[:30],
        lam=1.0,
        rho=2.0,
        noise=1e-4,
        k=5,
        normalize=False,
    )
    np.testing.assert_allclose(g.explain(X[:30]).variance[:, 0], variance, rtol=1e-5, atol=1e-9)


def test_paper_and_default_differ(models, X):
    paper = GPEC(models.curved, models.slopes, **PAPER, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert paper.posterior_.parameters.free_mean is False
    assert (paper.posterior_.parameters.scale == 1.0).all()
    assert (paper.posterior_.parameters.nugget == 0.0).all()
    default = GPEC(models.curved, models.slopes, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert default.posterior_.parameters.free_mean is True
    assert len(np.unique(default.posterior_.parameters.scale)) == 3
