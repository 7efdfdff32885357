"""Attributions together with the explainer's noise (Eq. 3)."""

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

__all__ = ["RESAMPLED", "check_noise", "check_noise_shape", "noise_variance", "observe"]

RESAMPLED = ("resample", "resample-paper")
_NAMES = ("auto", *RESAMPLED, "none")


def check_noise(noise: Any) -> None:
    """Refuse a ``noise`` that can never be used."""
    if isinstance(noise, str):
        if noise not in _NAMES:
            raise InputError(f"noise={noise!r} is not one of {_NAMES}, a number or an array.")
    elif isinstance(noise, (list, tuple)) or (hasattr(noise, "__array__") and not isinstance(noise, np.generic)):
        check_finite_array("noise", noise, least=0.0)
    else:
        check_positive("noise", noise, zero=True)


def check_noise_shape(noise: Any, n: int, d: int) -> None:
    """Refuse a ``noise`` array that fits attributions of ``n`` rows and ``d`` features for no number of classes."""
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

    With ``noise="resample"`` the values are the mean over ``n_resamples`` runs of distinct seeds and the variance is
    that of the mean: the runs' variance (ddof 1) divided by their number. With ``"resample-paper"`` the values are
    those of the first run and the variance is Eq. 3 as it stands: the mean squared deviation of the runs (ddof 0).

    An explainer that says it is deterministic runs once. Its variance is then its own, where it has one (resampling
    cannot see what training left open), else 0. One that does not know runs as often as one that is stochastic: whether
    two runs of a row agree may be chance, and must not depend on the rows beside it.
    """
    repeats = _resampled(noise) and explainer.stochastic is not False
    first = explainer.explain(Z, seed=seed, n_runs=n_resamples if repeats else 1, execution=execution)
    if not _resampled(noise):
        return first
    if not repeats:
        own = np.zeros_like(first.values) if first.variance is None else first.variance
        return Attribution(first.values, own, first.base_values)
    others = (explainer.explain(Z, seed=seed, run=run, execution=execution) for run in range(1, n_resamples))
    runs = np.stack((first.values, *(other.values for other in others)))
    same = (runs == first.values).all(axis=0)  # the mean of equal numbers may be off by a rounding
    if noise == "resample-paper":
        return Attribution(first.values, np.where(same, 0.0, runs.var(axis=0)), first.base_values)
    mean, variance = runs.mean(axis=0), runs.var(axis=0, ddof=1) / n_resamples
    return Attribution(np.where(same, first.values, mean), np.where(same, 0.0, variance), first.base_values)


def noise_variance(
    noise: Any, attribution: Attribution, explainer: Explainer | None, Z: FloatArray, seed: int
) -> tuple[FloatArray, str]:
    """``U (n, d, c)``, the noise variance of the attributions at the explained rows, and where it comes from."""
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
            "The explainer answers differently from run to run but gives no variance, so its noise is not part of the "
            "uncertainty; use noise='resample' to estimate it, or noise='none' to accept this.",
            StochasticExplainerWarning,
            stacklevel=4,  # the line that called fit, above the stage that observes
        )
        return np.zeros(shape), "none, though the explainer is stochastic"
    return np.zeros(shape), "none"


def _is_stochastic(explainer: Explainer, attribution: Attribution, Z: FloatArray, seed: int) -> bool:
    """What the explainer says of itself; where it does not know, one row explained again tells."""
    if explainer.stochastic is not None:
        return explainer.stochastic
    again = explainer.explain(Z[:1], seed=seed, run=1).values[0]
    size = float(np.abs(attribution.values).max())
    return bool(np.abs(again - attribution.values[0]).max() > 1e-9 * size)


def _resampled(noise: Any) -> bool:
    return isinstance(noise, str) and noise in RESAMPLED


def _source(noise: str, variance: FloatArray, explainer: Explainer | None) -> str:
    asked = None if explainer is None else explainer.stochastic
    if not _resampled(noise) or (asked is False and variance.any()):
        return "the explainer's own"
    return "resampled" if asked or variance.any() else "none, the explainer is deterministic"


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False
