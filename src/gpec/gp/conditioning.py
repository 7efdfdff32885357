"""From attributions to a posterior: what is learned, and which algebra is used."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gpec._randomness import derived_seed, stream
from gpec.data import Rows
from gpec.gp._gram import feature_grams
from gpec.gp.evidence import Parameters, fit_parameters, fixed_parameters
from gpec.gp.lowrank import LowRankPosterior
from gpec.gp.posterior import ExactPosterior, Posterior
from gpec.kernels import Kernel
from gpec.typing import FloatArray

__all__ = ["make_posterior"]

_DENSE_ROWS = 3_000  # explained rows up to which the posterior is dense
_EVIDENCE_ROWS = 1_000  # explained rows from which scales and nuggets are learned


def make_posterior(
    kernel: Kernel,
    X: Any,
    Y: FloatArray,
    U: FloatArray,
    output_scale: float | Literal["evidence"],
    seed: int,
    parameters: Parameters | None = None,
) -> Posterior:
    """The posterior given attributions ``Y (N, d)`` of noise variance ``U`` at the rows ``X``.

    Scales and nuggets are learned, from at most 1,000 rows, unless they are known. Each kernel matrix is made and
    factorised once for both. Beyond 3,000 rows the posterior goes through kernel features.
    """
    rows, (N, d) = Rows.of(X), Y.shape
    grams = feature_grams(kernel, rows, d)
    if parameters is None and not isinstance(output_scale, str):
        parameters = fixed_parameters(float(output_scale), d)
    elif parameters is None:
        some = np.sort(stream(seed, "evidence rows").permutation(N)[:_EVIDENCE_ROWS])
        seen = grams if len(some) == N else feature_grams(kernel, rows[some], d)
        parameters = fit_parameters(seen, Y[some], U[some], average=True)
    if N <= _DENSE_ROWS:
        return ExactPosterior(kernel, rows, Y, U, parameters, grams=grams)
    return LowRankPosterior(kernel, rows, Y, U, parameters, seed=derived_seed(seed, "posterior pivots"))
