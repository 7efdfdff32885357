"""What ``fit`` learned, and the posterior at new rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from gpec.boundary import BoundarySample
from gpec.errors import InputError
from gpec.explainers import Attribution, Explainer
from gpec.geometry import GeodesicGraph
from gpec.gp import ExactPosterior, LowRankPosterior, Parameters, Posterior, Prediction
from gpec.kernels import Kernel
from gpec.kernels.base import Against
from gpec.model import Model
from gpec.progress import Progress
from gpec.table import FloatArray, Table
from gpec.validation import spawn

__all__ = ["Fitted", "Layer", "bound", "predict"]

_BLOCK = 1_024
_DENSE_ROWS = 3_000  # explained rows up to which the posterior is dense


@dataclass(frozen=True, eq=False)
class Layer:
    """The Gaussian processes of one class's boundary."""

    graph: GeodesicGraph
    kernel: Kernel
    posterior: Posterior
    rows: FloatArray  # explained rows or pivots, embedded

    @cached_property
    def against(self) -> Against:
        """Function of rows ``x`` that gives ``k(x, rows)`` and ``k(x, x)``."""
        return self.kernel.against(self.rows)

    def __getstate__(self) -> dict[str, Any]:  # a function cannot be pickled, but made again
        return {name: value for name, value in vars(self).items() if name != "against"}

    @classmethod
    def condition(
        cls,
        graph: GeodesicGraph,
        kernel: Kernel,
        parameters: Parameters,
        E: FloatArray,
        Y: FloatArray,
        U: FloatArray,
        seed: int,
    ) -> Layer:
        """Condition on attributions ``Y`` with noise ``U`` at embedded rows ``E``."""
        if len(E) <= _DENSE_ROWS:
            layer = cls(graph, kernel, ExactPosterior(kernel.gram(E), Y, U, parameters), E)
        else:
            posterior = LowRankPosterior(kernel, E, Y, U, parameters, rng=spawn(seed, 14))
            layer = cls(graph, kernel, posterior, E[posterior.pivots])
        layer.against  # noqa: B018  computed on demand; asked for here so that the first explain is as fast as others
        return layer


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that ``fit`` learned; rows are encoded."""

    table: Table
    model: Model
    explainer: Explainer | None
    learned: dict[str, Any]  # by the explainer
    background: FloatArray
    explained: FloatArray
    observed: Attribution
    U: FloatArray
    boundary: BoundarySample
    layers: list[Layer]
    probe: FloatArray
    answer: FloatArray
    seed: int


def bound(fitted: Fitted) -> Explainer:
    """The explainer, introduced to the model when it is first needed."""
    explainer = fitted.explainer
    if explainer is None:
        raise InputError("There is no explainer; pass attribution='posterior', or an explainer to GPEC or load.")
    if not hasattr(explainer, "model_"):
        explainer.bind(fitted.model, fitted.background)
        if explainer.learns:
            explainer.restore(fitted.learned)
    return explainer


def predict(layers: list[Layer], E: FloatArray, n_jobs: int | None, progress: Literal["auto"] | bool) -> Prediction:
    """Posterior at embedded rows, ``(n, d)`` or ``(n, d, c)``.

    Rows are worked on in fixed blocks with one BLAS thread each, so that the bits do not depend on ``n_jobs``.
    """
    several, d = len(layers) > 1, len(layers[0].posterior.scale)
    shape = (len(E), d, *((len(layers),) if several else ()))
    mean, boundary, noise = np.empty(shape), np.empty(shape), np.empty(shape)

    def block(start: int) -> int:
        rows, clamped = slice(start, start + _BLOCK), 0
        for c, layer in enumerate(layers):
            part = layer.posterior.predict(*layer.against(E[rows]))
            into = (rows, slice(None), c) if several else (rows, slice(None))
            mean[into], boundary[into], noise[into] = part.mean, part.boundary_variance, part.noise_variance
            clamped += part.n_clamped
        return clamped

    starts, clamped = range(0, len(E), _BLOCK), 0
    with threadpool_limits(1, "blas"), Progress(len(starts), "posterior", progress) as bar:
        jobs = (delayed(block)(start) for start in starts)
        for count in Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(jobs):
            clamped += count
            bar.advance()
    return Prediction(mean, boundary, noise, clamped)
