"""The kernel of the boundary is as exact as its factor in single precision allows."""

import numpy as np
import pytest
from scipy.linalg import qr

from gpec.geometry import GeodesicGraph
from gpec.kernels import WEG
from gpec.kernels._factor import factorize


def surface(J, seed):
    points = np.random.default_rng(seed).normal(size=(J, 4))
    points[:, 0] = 0.4 * points[:, 1] ** 2
    return points


def in_double_precision(graph, lam):
    """``G`` as the module's docstring has it, with a QR decomposition and no rounding of ``B``."""
    C = np.exp(-lam * graph.distances).T
    a, V = np.linalg.eigh(C[graph.landmarks])
    keep = np.abs(a) > 1e-5 * a[-1]
    Q, R = qr(C @ V[:, keep] / np.sqrt(np.abs(a[keep])), mode="economic")
    a, V = np.linalg.eigh(R @ np.diag(np.sign(a[keep])) @ R.T)
    B = Q @ V[:, a > 0] * np.sqrt(a[a > 0])
    B /= np.maximum(np.linalg.norm(B, axis=1), 1.0)[:, None]
    G = B @ B.T
    np.fill_diagonal(G, 1.0)
    return G, -a[a < 0].sum() / np.abs(a).sum()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("times", [0.1, 1.0, 5.0])
def test_single_precision_moves_no_similarity_by_a_hundred_thousandth(seed, times):
    graph = GeodesicGraph.build(surface(900, seed), n_landmarks=300)
    lam = times / graph.median_distance
    factor, (G, clipped) = factorize(graph, lam), in_double_precision(graph, lam)
    found = factor.dense()
    assert np.abs(found - G).max() < 1e-5
    assert np.abs(np.diag(found) - 1.0).max() < 1e-12
    assert factor.clipped_mass == pytest.approx(clipped, rel=1e-5, abs=1e-9)


def test_weights_and_gram_are_of_double_precision():
    """The factor's digits are those of single precision; what is computed with it is not."""
    points = np.random.default_rng(3).normal(size=(700, 3))
    points[:, 0] = 0.0
    kernel = WEG().fit(GeodesicGraph.build(points, n_landmarks=280), points[:50])
    X = np.random.default_rng(4).normal(size=(30, 3))
    W = kernel.weights(X)
    G = kernel.B_ @ kernel.B_.T + np.diag(kernel.r_)
    K = W @ G @ W.T
    scale = np.sqrt(np.diag(K))
    np.testing.assert_allclose(kernel.gram(X), K / np.outer(scale, scale), atol=1e-12)
    np.testing.assert_array_equal(kernel.B_, kernel.B_.astype(np.float32))
