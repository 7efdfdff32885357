"""Kernels, problems and formulas that the tests of the Gaussian processes share."""

from types import SimpleNamespace

import numpy as np
from scipy.spatial.distance import cdist

from gpec.gp import Parameters
from gpec.kernels import RBF, Kernel


class Table(Kernel):
    """A kernel that looks up a given matrix; a row is its number in it."""

    def __init__(self, matrix):
        self.matrix = matrix

    def cross_to(self, Y, feature=None):
        columns = Y.embedded[:, 0].astype(int)

        def cross_and_diagonal(X):
            rows = X.embedded[:, 0].astype(int)
            return self.matrix[np.ix_(rows, columns)], np.diag(self.matrix)[rows].copy()

        return cross_and_diagonal


def table(K, k=None, diagonal=None):
    """The kernel that has ``K`` at the explained rows, and the numbers of those rows and of the queries.

    ``k`` is ``k(x, X)`` of the queries, ``diagonal`` their ``k(x, x)``.
    """
    N, n = len(K), 0 if k is None else len(k)
    matrix = np.zeros((N + n, N + n))
    matrix[:N, :N] = K
    if k is not None:
        matrix[N:, :N], matrix[:N, N:] = k, k.T
        matrix[range(N, N + n), range(N, N + n)] = diagonal
    numbers = np.arange(N + n, dtype=float)[:, None]
    return Table(matrix), numbers[:N], numbers[N:]


class OwnColumn(Kernel):
    """An RBF of the feature's own coordinates, plus a little of all of them: a kernel that differs by feature."""

    varies_by_feature = True

    def __init__(self, lengthscale=1.0):
        self.lengthscale = lengthscale

    def _fit(self, graph, rows):
        self.lengthscale_ = 1.0 if self.lengthscale == "evidence" else float(self.lengthscale)

    def _free(self):
        return {"lengthscale": (1e-2, 1e2)} if self.lengthscale == "evidence" else {}

    def cross_to(self, Y, feature=None):
        def cross_and_diagonal(X):
            own = np.exp(-0.5 * cdist(X.own(feature), Y.own(feature), "sqeuclidean") / self.lengthscale_**2)
            return 0.9 * own + 0.1 * np.exp(-0.5 * cdist(X.embedded, Y.embedded, "sqeuclidean")), np.ones(len(X))

        return cross_and_diagonal


def problem(seed=0, N=50, n=12, d=3, D=3, lengthscale=1.0, kernel=None):
    """A kernel, random rows and queries, attributions, and noise by row and feature."""
    rng = np.random.default_rng(seed)
    X, Q = rng.normal(size=(N, D)), rng.normal(size=(n, D))
    Y = rng.normal(size=(N, d)) * 10.0 ** rng.uniform(-1, 1, size=d) + rng.normal(size=d)
    kernel = RBF(lengthscale).fit() if kernel is None else kernel
    return SimpleNamespace(kernel=kernel, X=X, Q=Q, Y=Y, U=rng.uniform(0.05, 0.5, size=(N, d)))


def learned(d, free_mean=True, seed=0):
    rng = np.random.default_rng(seed)
    return Parameters(rng.uniform(0.3, 3, size=d), rng.uniform(0.01, 0.2, size=d), free_mean)


def noise_kinds(U):
    mixed = U.copy()
    mixed[:, 0] = 0.2
    two_alike = U.copy()
    two_alike[:, 1] = two_alike[:, 2]
    return {
        "varying": U,
        "constant over rows": np.broadcast_to(U[0], U.shape).copy(),
        "one column constant": mixed,
        "two columns alike": two_alike,
        "some rows without": U * (np.arange(len(U)) % 2)[:, None],
    }


KINDS = list(noise_kinds(np.ones((2, 3))))


def dense(kernel, X, Q, Y, U, parameters):
    """Mean and joint latent covariance as Eq. 2 has them with an unknown mean, one feature at a time.

    The nugget is a part of the latent explanation, one for each row.
    """
    N, d = Y.shape
    ones = np.ones(N)
    mean, covariance = np.empty((len(Q), d)), np.empty((len(Q), len(Q), d))
    for f in range(d):
        feature = f if kernel.varies_by_feature else None
        s, g = parameters.scale[f], parameters.nugget[f]
        A = s * (kernel.gram(X, feature) + g * np.eye(N)) + np.diag(U[:, f])
        c = s * kernel.cross(Q, X, feature)
        m = 0.0
        covariance[:, :, f] = s * (kernel.gram(Q, feature) + g * np.eye(len(Q))) - c @ np.linalg.solve(A, c.T)
        if parameters.free_mean:
            precision = ones @ np.linalg.solve(A, ones)
            m = ones @ np.linalg.solve(A, Y[:, f]) / precision
            gap = 1 - c @ np.linalg.solve(A, ones)
            covariance[:, :, f] += np.outer(gap, gap) / precision
        mean[:, f] = m + c @ np.linalg.solve(A, Y[:, f] - m)
    return mean, covariance


def dense_variance(*arguments):
    """Mean and variance ``(n, d)`` of :func:`dense`."""
    mean, covariance = dense(*arguments)
    return mean, np.einsum("iif->if", covariance)
