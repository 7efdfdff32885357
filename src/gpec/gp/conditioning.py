"""From attributions to a posterior: learning of scales and nuggets, and the choice between exact and low rank."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from gpec.data import Rows
from gpec.gp._gram import feature_grams
from gpec.gp.evidence import Parameters, fit_parameters, fixed_parameters
from gpec.gp.lowrank import LowRankPosterior
from gpec.gp.posterior import ExactPosterior, Posterior
from gpec.kernels import Kernel
from gpec.runtime.randomness import derived_seed, stream
from gpec.typing import FloatArray

__all__ = ["make_posterior"]

_DENSE_ROWS = 3_000  # explained rows up to which the posterior is dense
_DENSE_NUMBERS = 1.5e8  # entries of the matrices of a kernel that differs by feature
_EVIDENCE_ROWS = 1_000  # explained rows from which scales and nuggets are learned
_EVIDENCE_ROWS_BY_FEATURE = 500  # the same if each feature needs its own eigendecomposition


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

    Scales and nuggets are learned from at most 1,000 rows (500 if the kernel differs by feature), unless they are
    given. Learning and posterior share the kernel matrices. With more than 3,000 rows, or if the matrices of a kernel
    that differs by feature would take more than about a gigabyte, the posterior is of low rank.
    """
    rows, (N, d) = Rows.of(X), Y.shape
    by_feature = kernel.varies_by_feature
    dense = N <= _DENSE_ROWS and (not by_feature or N * N * d <= _DENSE_NUMBERS)
    grams = feature_grams(kernel, rows, d)
    if parameters is None and not isinstance(output_scale, str):
        parameters = fixed_parameters(float(output_scale), d)
    elif parameters is None:
        most = _EVIDENCE_ROWS_BY_FEATURE if by_feature else _EVIDENCE_ROWS
        some = np.sort(stream(seed, "evidence rows").permutation(N)[:most])
        sample = grams if len(some) == N else feature_grams(kernel, rows[some], d)
        parameters = fit_parameters(sample, Y[some], U[some], average=True)
    if dense:
        return ExactPosterior(kernel, rows, Y, U, parameters, grams=grams)
    return LowRankPosterior(kernel, rows, Y, U, parameters, seed=derived_seed(seed, "posterior pivots"))
