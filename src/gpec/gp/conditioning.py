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

LARGEST_RANK = 4_096
_DENSE_ROWS = 3_000  # explained rows up to which the posterior is dense
_NUMBERS = 1.5e8  # in the factors that are kept for all features and outputs: 1.2 GB
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
    n_outputs: int = 1,
) -> Posterior:
    """The posterior given attributions ``Y (N, d)`` of noise variance ``U`` at the rows ``X``.

    Scales and nuggets are learned from at most 1,000 rows (500 if the kernel differs by feature), unless they are
    given. With more than 3,000 rows, or if the factors of all features and ``n_outputs`` would take more than 1.2 GB,
    the posterior is of low rank; its rank is bounded so that it takes no more either.
    """
    rows, (N, d) = Rows.of(X), Y.shape
    by_feature = kernel.varies_by_feature
    # each feature has factors of its own, with noise and without, or only if its noise varies
    factors = n_outputs * (d * (1 + bool(U.any())) if by_feature else int((np.ptp(U, axis=0) > 0).sum()))
    dense = N <= _DENSE_ROWS and N * N * factors <= _NUMBERS
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
    max_rank = int(min(LARGEST_RANK, np.sqrt(_NUMBERS / (2 * max(factors, 1)))))  # two matrices take a factor's place
    pivots = derived_seed(seed, "posterior pivots")
    return LowRankPosterior(kernel, rows, Y, U, parameters, seed=pivots, max_rank=max_rank)
