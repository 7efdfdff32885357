"""Posterior of the latent explanation (Eq. 2): a kernel, the explained rows, and what they say of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.gp._gram import Gram, feature_grams
from gpec.gp._one_feature import OneFeatureSolver
from gpec.gp._solver import JITTER, CrossCovariance, DenseSolver, PairPosterior, Prediction, Solver
from gpec.gp.evidence import Parameters
from gpec.kernels import Kernel
from gpec.typing import FloatArray, IntArray

__all__ = ["JITTER", "ExactPosterior", "LeaveOneOut", "Posterior"]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """What the other rows say of each explained row; both ``(N, d)``.

    ``residual`` is the attribution less its prediction, ``variance`` that of the residual, noise and nugget included.
    """

    residual: FloatArray
    variance: FloatArray


class Posterior(ABC):
    """Gaussian processes of ``d`` features, conditioned on attributions ``Y`` with noise variance ``U``.

    Parameters
    ----------
    kernel : Kernel
        A fitted kernel. One that does not differ by feature costs one factorisation for all.
    rows : Rows or array of shape (N, D)
        The explained rows.
    Y, U : arrays of shape (N, d)
        Their attributions and noise variance.
    parameters : Parameters
        Scale, nugget and whether the mean is free.

    Attributes
    ----------
    mean, scale : arrays of shape (d,)
        The constant mean and the output scale of each feature.
    condition : float
        Largest condition number of a matrix that was inverted.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Any,
        Y: FloatArray,
        U: FloatArray,
        parameters: Parameters,
        *,
        grams: list[tuple[IntArray, Gram]] | None = None,
    ) -> None:
        self.kernel, self.rows, self.Y, self.U, self.parameters = kernel, Rows.of(rows), Y, U, parameters
        # kernel matrices that were made already are used again
        grams = feature_grams(kernel, self.rows, Y.shape[1]) if grams is None else grams
        self._solvers = [self._solver(features, gram) for features, gram in grams]

    @abstractmethod
    def _solver(self, features: IntArray, gram: Gram) -> Solver:
        """The algebra of some features that share a kernel matrix."""

    @property
    def mean(self) -> FloatArray:
        return self._gather([solver.mean for solver in self._solvers])

    @property
    def scale(self) -> FloatArray:
        return self.parameters.scale

    @property
    def condition(self) -> float:
        return max(solver.condition for solver in self._solvers)

    def predict(self, X: Any) -> Prediction:
        """Mean and variance of the latent explanation at other rows."""
        parts = [solver.predict(*near) for solver, near in self._near(Rows.of(X))]
        return Prediction(
            self._gather([part.mean for part in parts]),
            self._gather([part.boundary_variance for part in parts]),
            self._gather([part.noise_variance for part in parts]),
            np.sum([part.clamped for part in parts], axis=0),
        )

    def covariance(self, X: Any) -> FloatArray:
        """Joint covariance ``(n, n, d)`` of the latent explanations of a few rows, without the nugget.

        With the nugget, ``scale * nugget``, on its diagonal, that is the variance of :meth:`predict`.
        """
        rows = Rows.of(X)
        return self._gather(
            [solver.covariance(k, self.kernel.gram(rows, solver.feature)) for solver, (k, _) in self._near(rows)]
        )

    def pairs(self, X: Any, similar: Any, *, noisy: bool = True) -> PairPosterior:
        """Rows ``X`` and the ``K`` rows similar to each: ``similar`` has ``n K`` rows, those of the first row first.

        ``noisy=False`` gives what would be known if the explained rows had no noise, at the same parameters.
        """
        rows, others = Rows.of(X), Rows.of(similar, "similar")
        parts = [
            solver.pairs(here, there, self.kernel.paired(rows, others, solver.feature), noisy)
            for (solver, here), (_, there) in zip(self._near(rows), self._near(others), strict=True)
        ]
        return PairPosterior(
            *(self._gather([getattr(part, field.name) for part in parts]) for field in fields(PairPosterior))
        )

    def leave_one_out(self) -> LeaveOneOut:
        """Residuals of the explained rows, each predicted from all others at the same parameters."""
        parts = [solver.left_out() for solver in self._solvers]
        weighted, precision = (self._gather([part[i] for part in parts]) for i in (0, 1))
        flat = self.scale == 0
        residual, variance = weighted / precision, np.where(flat, 1.0, self.scale) / precision
        residual[:, flat] = 0.0  # equal attributions: nothing is unknown of one but the noise
        variance[:, flat] = self.U[:, flat] + _variance_of_others(self.U[:, flat])
        return LeaveOneOut(residual, variance)

    def _near(self, rows: Rows) -> Iterator[tuple[Solver, CrossCovariance]]:
        """Each solver with the kernel between the rows and those explained, which solvers of one matrix share."""
        cross, near = None, None
        for solver in self._solvers:
            if near is None or solver.cross is not cross:
                cross = solver.cross
                near = cross(rows)
            yield solver, near

    def _gather(self, parts: list[FloatArray]) -> FloatArray:
        """Arrays whose last axis are the features of each solver, as one."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _variance_of_others(U: FloatArray) -> FloatArray:
    """Variance of the weighted mean of all rows but one, for each row."""
    with np.errstate(divide="ignore", over="ignore"):
        precision = np.pad(1.0 / U, ((1, 1), (0, 0)))
        return np.asarray(1.0 / (precision.cumsum(axis=0)[:-2] + precision[::-1].cumsum(axis=0)[-3::-1]))


class ExactPosterior(Posterior):
    """Exact posterior from the dense kernel matrix."""

    def _solver(self, features: IntArray, gram: Gram) -> Solver:
        kind = DenseSolver if gram.feature is None else OneFeatureSolver
        return kind(gram, self.Y[:, features], self.U[:, features], self.parameters.of(features))
