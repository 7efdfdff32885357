r"""The correlation between features, learned from attributions by marginal likelihood.

The attributions of ``d`` features at ``N`` rows follow, jointly,

    vec(Y) ~ N(m (x) 1, S (x) K + H (x) I),   S = D T D,   D = diag(root of each output scale),   H = diag(noise),

with a flat prior on the means ``m``, or ``m = 0``. Noise that varies over the rows is
replaced by its mean. See :class:`gpec.gp._linalg.Kronecker` for the algebra.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, log

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import squareform

from gpec.gp._gram import Gram
from gpec.gp._linalg import FlatMean, Kronecker, Spectral
from gpec.gp._reml import LEAST_NUGGET
from gpec.gp.evidence import LARGEST_NOISE, Parameters
from gpec.typing import FloatArray, IntArray

_MOST_PARTITIONS = 12
_MOST_FACTORS = 5
_WEIGHTS = np.linspace(0.0, 1.0, 11)
_TRIED_WEIGHTS = (0.5, 0.75, 1.0)
_ITERATIONS = 50  # of principal axis factoring


@dataclass(frozen=True, eq=False)
class Learned:
    """A correlation ``(d, d)`` and its penalty in nats: it is used only if it adds more to the log marginal likelihood.

    The penalty is half the logarithm of the number of rows for each parameter (Schwarz's criterion), plus the logarithm
    of the number of choices.
    """

    matrix: FloatArray
    penalty: float


def mix(T: FloatArray, weight: float) -> FloatArray:
    """``(1 - w) I + w T``, for a correlation ``T``."""
    mixed = weight * T
    np.fill_diagonal(mixed, 1.0)
    return mixed


class JointEvidence:
    """Log marginal likelihood of all features together as a function of the correlation between them.

    Features whose attributions do not vary are excluded.
    """

    def __init__(self, gram: Gram, Y: FloatArray, U: FloatArray, parameters: Parameters) -> None:
        self.varies = np.flatnonzero(parameters.scale > 0)
        varying = parameters.of(self.varies)
        with np.errstate(over="ignore"):
            noise = np.minimum((U[:, self.varies] / varying.scale).mean(axis=0), LARGEST_NOISE)
        self.h = np.maximum(varying.nugget + noise, LEAST_NUGGET)
        self.spectrum, self.free_mean, self.n_rows = gram.spectrum, varying.free_mean, len(Y)
        self._z = self.spectrum.Q.T @ (Y[:, self.varies] / np.sqrt(varying.scale))
        freedom = self.n_rows - varying.free_mean
        self._constant = freedom * float((np.log(2 * np.pi * self.h) + np.log(varying.scale)).sum())

    def __call__(self, T: FloatArray) -> float:
        """The log marginal likelihood at the correlation ``T`` of all features, in nats."""
        if not len(self.varies):
            return 0.0
        P = Kronecker(self.spectrum, T[np.ix_(self.varies, self.varies)], self.h, self.free_mean)
        return -0.5 * (self._constant + float((P.logdet() + P.inv_quad(self._z @ P.W)).sum()))

    def best_weight(self, T: FloatArray) -> tuple[float, float]:
        """The weight of ``T`` against independence with the highest marginal likelihood, and its logarithm."""
        values = [self(mix(T, weight)) for weight in _WEIGHTS]
        best = int(np.argmax(values))
        low, high = _WEIGHTS[max(best - 1, 0)], _WEIGHTS[min(best + 1, len(_WEIGHTS) - 1)]
        found = minimize_scalar(
            lambda w: -self(mix(T, float(w))), bounds=(low, high), method="bounded", options={"xatol": 1e-4}
        )
        return (float(found.x), -float(found.fun)) if -found.fun > values[best] else (_WEIGHTS[best], values[best])

    def correlation(self) -> FloatArray:
        """An estimate of the correlation between the features that vary.

        One step of Fisher scoring from independence. The i-th entries of ``Q' y`` of two features have the expected
        product ``q_i T_fg``; the estimate is the mean of these products, weighted by their Fisher information. It is
        shrunk towards independence as by one more observation.
        """
        A, q = Spectral(self.spectrum, self.h), self.spectrum.values[:, None]
        product, information = np.sqrt(q) * A.w * FlatMean(A, self.free_mean).residual(self._z), q * A.w
        found = (product.T @ product) / (information.T @ information + 1.0)
        np.fill_diagonal(found, 1.0)
        return np.asarray(np.clip(found, -1.0, 1.0))


def learn_matrix(kind: str, evidence: JointEvidence, d: int) -> Learned:
    """The correlation of the given kind with the highest log marginal likelihood minus its penalty."""
    C, varies = np.eye(d), evidence.varies
    C[np.ix_(varies, varies)] = evidence.correlation()
    of_parameter = penalty_of_parameter(evidence)
    candidates = _partitions(C, of_parameter) if kind == "clusters" else _factors(C, of_parameter)

    def criterion(candidate: Learned) -> float:
        return max(evidence(mix(candidate.matrix, weight)) for weight in _TRIED_WEIGHTS) - candidate.penalty

    return max(candidates, key=criterion, default=Learned(np.eye(d), 0.0))


def penalty_of_parameter(evidence: JointEvidence) -> float:
    return 0.5 * float(np.log(evidence.n_rows))


def _partitions(C: FloatArray, of_parameter: float) -> Iterable[Learned]:
    """Features in clusters, from few to many, with one correlation for each cluster."""
    d = len(C)
    if d < 2:
        return
    tree = linkage(squareform(1.0 - np.abs(C), checks=False), "average")
    for n_clusters in np.unique(np.linspace(1, d - 1, min(_MOST_PARTITIONS, d - 1)).round().astype(int)):
        labels = fcluster(tree, n_clusters, "maxclust")
        clusters = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        clusters = [cluster for cluster in clusters if len(cluster) > 1]
        choices = sum(log(comb(d, len(cluster))) + (len(cluster) - 1) * log(2) for cluster in clusters)
        yield Learned(_blocks(C, clusters), len(clusters) * of_parameter + choices)


def _blocks(C: FloatArray, clusters: list[IntArray]) -> FloatArray:
    """One correlation within each cluster, none between clusters; features may have negative signs."""
    T = np.eye(len(C))
    for cluster in clusters:
        inside = C[np.ix_(cluster, cluster)]
        sign = np.where(np.linalg.eigh(inside)[1][:, -1] < 0, -1.0, 1.0)
        signs = np.outer(sign, sign)
        pairs = len(cluster) * (len(cluster) - 1)
        mean = ((signs * inside).sum() - len(cluster)) / pairs
        T[np.ix_(cluster, cluster)] = np.clip(mean, 0.0, 1.0) * signs
    np.fill_diagonal(T, 1.0)
    return T


def _factors(C: FloatArray, of_parameter: float) -> Iterable[Learned]:
    """Low rank plus diagonal (principal axis factoring), with one factor up to five."""
    d = len(C)
    for rank in range(1, min(_MOST_FACTORS, d - 1) + 1):
        shared = np.abs(C - np.eye(d)).max(axis=1)  # communalities
        for _ in range(_ITERATIONS):
            reduced = C.copy()
            np.fill_diagonal(reduced, shared)
            values, V = np.linalg.eigh(reduced)
            loadings = V[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0))
            loadings /= np.maximum(np.linalg.norm(loadings, axis=1, keepdims=True), 1.0)
            shared = (loadings**2).sum(axis=1)
        T = loadings @ loadings.T
        np.fill_diagonal(T, 1.0)
        yield Learned(T, (rank * d - rank * (rank - 1) // 2) * of_parameter)
