"""A plain implementation of the paper's kernel: networkx shortest paths, dense J x J products.

Written from Algorithms 1 and 2, with nothing of gpec. ``G`` is used as it comes; ``repaired`` clips its negative
eigenvalues, without which the "variances" may be negative.
"""

import time

import networkx
import numpy as np
from scipy.linalg import eigh
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits


def geodesics(points, k, n_sources):
    """Distances from ``n_sources`` of the points ``(n_sources, J)``, these points, and the seconds that all would take.

    The sources are alike: ``all_pairs_dijkstra_path_length`` is one such search from each. Seconds are of processor
    time, of the one core that this takes, so that other work on the machine does not count against it.
    """
    started = time.process_time()
    graph = networkx.from_scipy_sparse_array(kneighbors_graph(points, k, mode="distance"))
    built = time.process_time()
    sources = np.linspace(0, len(points) - 1, n_sources).astype(int)
    distances = np.full((n_sources, len(points)), np.inf)
    for i, source in enumerate(sources.tolist()):
        for target, length in networkx.single_source_dijkstra_path_length(graph, source).items():
            distances[i, target] = length
    return distances, sources, built - started + (time.process_time() - built) * len(points) / n_sources


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
