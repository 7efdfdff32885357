"""A plain implementation of the paper's kernel: networkx shortest paths, dense J x J products.

Written from Algorithms 1 and 2, with nothing of gpec. ``G`` is used as it comes; ``repaired`` clips its negative
eigenvalues, without which the "variances" may be negative.
"""

import networkx
import numpy as np
from scipy.linalg import eigh
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits


def geodesics(points, k):
    graph = networkx.from_scipy_sparse_array(kneighbors_graph(points, k, mode="distance"))
    distances = np.full((len(points), len(points)), np.inf)
    for source, lengths in networkx.all_pairs_dijkstra_path_length(graph):
        for target, length in lengths.items():
            distances[source, target] = length
    return distances


def weights(X, points, rho):
    squared = ((X[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
    W = np.exp(-rho * (squared - squared.min(axis=1, keepdims=True)))
    return W / W.sum(axis=1, keepdims=True)


def variances(G, points, explained, queries, rho, noise):
    """Eq. 2 with the normalised kernel (Eq. 9)."""
    W, Q = weights(explained, points, rho), weights(queries, points, rho)
    K, k, diagonal = W @ G @ W.T, Q @ G @ W.T, ((Q @ G) * Q).sum(axis=1)
    scale = np.sqrt(np.diag(K))
    K, k = K / scale[:, None] / scale, k / np.sqrt(diagonal)[:, None] / scale
    return 1.0 - (k * np.linalg.solve(K + noise * np.eye(len(K)), k.T).T).sum(axis=1)


def repaired(G):
    with threadpool_limits(1, "blas"):  # a second thread stalls when the machine is busy
        eigenvalues, vectors = eigh((G + G.T) / 2, driver="evd")
        G = (vectors * np.maximum(eigenvalues, 0)) @ vectors.T
    scale = np.sqrt(np.diag(G))
    return G / scale[:, None] / scale
