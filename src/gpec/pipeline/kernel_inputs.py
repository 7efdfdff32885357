"""The arrays of rows that kernels read: embedding, the model's outputs, and the effect of each feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gpec.data import Groups, Rows
from gpec.kernels import Kernel
from gpec.pipeline.context import ExplainedSample, FitContext
from gpec.runtime.blocks import one_blas_thread
from gpec.typing import FloatArray

_NUMBERS = 2**21  # that are sent to the model at once


def make_rows(context: FitContext, Z: FloatArray, *, outputs: bool, name: str = "X", n_jobs: int | None = 1) -> Rows:
    """Encoded rows with their embedding and, if wanted, the model's outputs, computed on ``n_jobs`` threads."""
    embedded, answers = context.schema.embed(Z, name), None
    if outputs:
        with one_blas_thread():  # the bits do not depend on the number of cores
            answers = context.model.on_threads(n_jobs).outputs(Z)
    coordinates = context.groups.coordinates(context.schema)
    return Rows(embedded, Z, coordinates, answers, kind=context.model.kind)


def explained_rows(context: FitContext, sample: ExplainedSample, kernels: list[Kernel]) -> Rows:
    """The explained rows with all that these kernels read.

    The model is called for the rows of each refinement apart, as ``refine`` did, so that the bits agree.
    """
    n_jobs = context.settings.n_jobs
    outputs = context.settings.similar is not None or any(kernel.needs_outputs for kernel in kernels)
    parts = [make_rows(context, Z, outputs=outputs, n_jobs=n_jobs) for Z in np.split(sample.rows, sample.refined)]
    return Rows.join([add_effects(context, part, sample, kernels, n_jobs) for part in parts])


def add_effects(
    context: FitContext, rows: Rows, sample: ExplainedSample, kernels: list[Kernel], n_jobs: int | None = 1
) -> Rows:
    """Rows with effects if one of the kernels reads them.

    The effect of a feature is the model's answer minus the mean of its answers when the feature takes the value that it
    has in some of the explained rows; see :class:`gpec.kernels.Effect`.
    """
    n = max((kernel.needs_effects for kernel in kernels), default=0)
    if not n:
        return rows
    with one_blas_thread():
        return _with_effects(rows, sample.evenly_spaced(n), context.model.on_threads(n_jobs).outputs, context.groups)


def _with_effects(
    rows: Rows, exchanged: FloatArray, outputs: Callable[[FloatArray], FloatArray], groups: Groups
) -> Rows:
    """Where a value stays the same the model is not called."""
    Z, d, b = rows.encoded, len(groups), len(exchanged)
    own = outputs(Z) if rows.outputs is None else rows.outputs
    effects, step = [], max(1, _NUMBERS // (d * b * Z.shape[1]))
    for start in range(0, len(Z), step):
        original, answers = Z[start : start + step, None, None], own[start : start + step]
        changed = np.repeat(np.repeat(original, d, axis=1), b, axis=2)
        for f, columns in enumerate(groups.members):
            changed[:, f, :, columns] = exchanged.T[columns][:, None]
        differs = ((changed != original) & ~(np.isnan(changed) & np.isnan(original))).any(axis=3)
        found = np.repeat(np.repeat(answers[:, None, None], d, axis=1), b, axis=2)
        if differs.any():
            found[differs] = outputs(changed[differs])
        mean = rows.kind.compared(found).mean(axis=2)
        effects.append(rows.kind.compared(answers)[:, None] - mean)
    return replace(rows, outputs=own, effects=np.concatenate(effects))
