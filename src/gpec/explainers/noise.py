"""Attributions and the explainer's noise variance (Eq. 3)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gpec._validation import check_finite_array, check_positive
from gpec.errors import InputError, StochasticExplainerWarning
from gpec.explainers.attribution import Attribution
from gpec.explainers.base import Explainer
from gpec.runtime.blocks import Execution
from gpec.typing import FloatArray

RESAMPLED = ("resample", "resample-paper")
_NAMES = ("auto", *RESAMPLED, "none")


def check_noise(noise: Any) -> None:
    """Raise for an invalid ``noise``."""
    if isinstance(noise, str):
        if noise not in _NAMES:
            raise InputError(f"noise={noise!r} is not one of {_NAMES}, a number or an array.")
    elif isinstance(noise, (list, tuple)) or (hasattr(noise, "__array__") and not isinstance(noise, np.generic)):
        check_finite_array("noise", noise, least=0.0)
    else:
        check_positive("noise", noise, zero=True)


def check_noise_shape(noise: Any, n: int, d: int) -> None:
    """Raise for a ``noise`` array that does not fit attributions of ``n`` rows and ``d`` features."""
    if isinstance(noise, str):
        return
    shape = np.shape(noise)
    if len(shape) > 3 or not _broadcasts(shape[:2], (n, d)):
        raise InputError(
            f"noise has shape {shape}, which does not fit attributions of shape ({n}, {d}) or ({n}, {d}, classes)."
        )


def observe(
    explainer: Explainer,
    Z: FloatArray,
    *,
    noise: Any,
    n_resamples: int,
    seed: int,
    execution: Execution | None = None,
) -> Attribution:
    """Attributions ``(n, d, c)`` of encoded rows, and their variance if the explainer or resampling gives one.

    With ``noise="resample"`` the values are the mean over ``n_resamples`` runs with distinct seeds. The variance is
    that of the mean: the variance of the runs (ddof 1) divided by their number. With ``"resample-paper"`` the values
    are those of the first run, and the variance is Eq. 3: the mean squared deviation of the runs (ddof 0).

    A deterministic explainer (``stochastic`` is False) runs once. Its variance is then its own, if it has one
    (resampling does not show the uncertainty from training), else 0. An explainer with ``stochastic=None`` runs as
    often as a stochastic one: two equal runs of a row can be a coincidence, and the number of runs must not depend on
    the other rows.
    """
    runs_each = n_runs(explainer, noise, n_resamples)
    first = explainer.explain(Z, seed=seed, n_runs=runs_each, execution=execution)
    if not _resampled(noise):
        return first
    if runs_each == 1:
        own = np.zeros_like(first.values) if first.variance is None else first.variance
        return Attribution(first.values, own, first.base_values)
    others = (explainer.explain(Z, seed=seed, run=run, execution=execution) for run in range(1, n_resamples))
    runs = np.stack((first.values, *(other.values for other in others)))
    same = (runs == first.values).all(axis=0)  # the mean of equal numbers can have a rounding error
    if noise == "resample-paper":
        return Attribution(first.values, np.where(same, 0.0, runs.var(axis=0)), first.base_values)
    mean, variance = runs.mean(axis=0), runs.var(axis=0, ddof=1) / n_resamples
    return Attribution(np.where(same, first.values, mean), np.where(same, 0.0, variance), first.base_values)


def n_runs(explainer: Explainer, noise: Any, n_resamples: int) -> int:
    """How often :func:`observe` runs the explainer on each row."""
    return n_resamples if _resampled(noise) and explainer.stochastic is not False else 1


def noise_variance(
    noise: Any, attribution: Attribution, explainer: Explainer | None, Z: FloatArray, seed: int
) -> tuple[FloatArray, str]:
    """``U (n, d, c)``, the noise variance of the attributions of the explained rows, and its source."""
    shape = attribution.values.shape
    if not isinstance(noise, str):
        given = np.asarray(noise, dtype=np.float64)
        if given.ndim <= 2:
            given = given[..., None]  # the same for all classes
        if not _broadcasts(given.shape, shape):
            raise InputError(
                f"noise has shape {np.shape(noise)}, which does not fit the attributions' shape "
                f"{attribution.squeeze_single_output().values.shape}."
            )
        return np.broadcast_to(given, shape).copy(), "given"
    if _resampled(noise) and explainer is None:
        raise InputError(
            f"noise={noise!r} runs the explainer again, but attributions are given; give their variance too."
        )
    if noise != "none" and attribution.variance is not None:
        return attribution.variance, _source(noise, attribution.variance, explainer)
    if noise == "auto" and explainer is not None and _is_stochastic(explainer, attribution, Z, seed):
        warnings.warn(
            "The explainer's attributions change from run to run but have no variance, so its noise is not part of the "
            "uncertainty; use noise='resample' to estimate it, or noise='none' to accept this.",
            StochasticExplainerWarning,
            stacklevel=4,  # the line that called fit
        )
        return np.zeros(shape), "none, though the explainer is stochastic"
    return np.zeros(shape), "none"


def _is_stochastic(explainer: Explainer, attribution: Attribution, Z: FloatArray, seed: int) -> bool:
    """Whether the explainer is stochastic; if it does not state it, one row is explained again."""
    if explainer.stochastic is not None:
        return explainer.stochastic
    second = explainer.explain(Z[:1], seed=seed, run=1).values[0]
    size = float(np.abs(attribution.values).max())
    return bool(np.abs(second - attribution.values[0]).max() > 1e-9 * size)


def _resampled(noise: Any) -> bool:
    return isinstance(noise, str) and noise in RESAMPLED


def _source(noise: str, variance: FloatArray, explainer: Explainer | None) -> str:
    stochastic = None if explainer is None else explainer.stochastic
    if not _resampled(noise) or (stochastic is False and variance.any()):
        return "the explainer's own"
    return "resampled" if stochastic or variance.any() else "none, the explainer is deterministic"


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False
