"""Everything given to ``fit``, checked before the first model call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpec.boundary import BisectionSampler, BoundarySample, Sampler
from gpec.boundary.base import LEAST_POINTS
from gpec.errors import InputError, ParameterTypeError
from gpec.explainers import Attribution, Explainer, make_explainer
from gpec.explainers.noise import RESAMPLED, check_noise, check_noise_shape
from gpec.kernels import RBF, WEG, Kernel
from gpec.model import Model
from gpec.table import FloatArray, Table
from gpec.validation import (
    check_auto,
    check_background,
    check_choice,
    check_count,
    check_finite_array,
    make_seed,
    spawn,
)

if TYPE_CHECKING:
    from gpec.estimator import GPEC

__all__ = ["Job", "check_parameters", "prepare"]


@dataclass(frozen=True, eq=False)
class Job:
    """What ``fit`` works on. Rows are encoded."""

    table: Table
    model: Model
    kernel: Kernel
    sampler: Sampler | BoundarySample
    explainer: Explainer | None
    rows: FloatArray
    explained: FloatArray
    background: FloatArray
    given: Attribution | None  # attributions computed elsewhere
    seed: int


def prepare(g: GPEC, X: Any, X_explained: Any, attributions: Any, variance: Any) -> Job:
    """Check parameters and rows of ``fit``."""
    check_parameters(g)
    kernel = make_kernel(g)
    kernel.check()
    explainer = None if g.explainer is None else make_explainer(g.explainer)
    seed = make_seed(g.random_state)
    table, Z = Table.learn(X, categorical_features=g.categorical_features, standardize=bool(g.standardize))
    sampler = make_sampler(g.boundary, table)
    if isinstance(sampler, Sampler):
        sampler.check()
    if X_explained is not None:
        explained = table.encode(X_explained, "X_explained")
        table.embed(explained, "X_explained")
    elif attributions is not None or len(Z) <= g.n_explained:
        explained = Z
    else:
        explained = Z[spawn(seed, 10).permutation(len(Z))[: g.n_explained]]
    given = _given_attribution(g, attributions, variance, len(explained), table)
    check_noise_shape(g.noise, len(explained), table.n_features)
    if given is None and explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    if g.output_scale == "evidence" and len(explained) < 3:
        raise InputError(
            f"output_scale='evidence' needs at least 3 explained rows, got {len(explained)}; explain more rows or "
            "give a number."
        )
    model = Model(g.model, table, model_output=g.model_output, threshold=g.threshold)
    background = check_background(g.background, table, Z, seed)
    return Job(table, model, kernel, sampler, explainer, Z, explained, background, given, seed)


def check_parameters(g: GPEC) -> None:
    """Refuse parameters that can never be used."""
    check_count("n_boundary", g.n_boundary, least=10)
    check_count("n_neighbors", g.n_neighbors)
    check_auto("n_landmarks", g.n_landmarks)
    if not isinstance(g.n_landmarks, str):
        check_count("n_landmarks", g.n_landmarks)
    check_choice("components", g.components, ("separate", "bridge"))
    check_count("n_explained", g.n_explained)
    check_noise(g.noise)
    check_count("n_resamples", g.n_resamples, least=2)
    check_choice("standardize", g.standardize, (True, False))
    check_choice("progress", g.progress, ("auto", True, False))
    check_auto("output_scale", g.output_scale, word="evidence")
    check_auto("lam", g.lam)
    check_auto("rho", g.rho, zero=True)
    if g.n_jobs is not None and (
        isinstance(g.n_jobs, bool) or not isinstance(g.n_jobs, (int, np.integer)) or g.n_jobs == 0
    ):
        raise InputError(f"n_jobs={g.n_jobs!r} must be None or a whole number other than 0.")
    if g.categorical_features is not None and not isinstance(g.categorical_features, Iterable):
        raise ParameterTypeError(
            f"categorical_features={g.categorical_features!r} must be 'auto', None or a list of columns."
        )


def make_kernel(g: GPEC) -> Kernel:
    """The kernel meant by the parameter ``kernel``, not fitted."""
    if isinstance(g.kernel, Kernel):
        return g.kernel
    if isinstance(g.kernel, str) and g.kernel in ("weg", "rbf"):
        return WEG(g.lam, g.rho) if g.kernel == "weg" else RBF("evidence")
    raise InputError(f"kernel={g.kernel!r} is not 'weg', 'rbf' or a kernel of gpec.kernels.")


def make_sampler(boundary: Any, table: Table) -> Sampler | BoundarySample:
    """The sampler meant by the parameter ``boundary``, or the sample itself."""
    if isinstance(boundary, Sampler):
        return boundary
    if isinstance(boundary, str):
        check_choice("boundary", boundary, ("auto",))
        return BisectionSampler()
    if isinstance(boundary, BoundarySample):
        sample = boundary
    elif isinstance(boundary, pd.DataFrame):
        sample = BoundarySample.from_points(table.encode(boundary, "boundary"))
    elif isinstance(boundary, (list, tuple)) or hasattr(boundary, "__array__"):
        sample = BoundarySample.from_points(boundary)
    else:
        raise ParameterTypeError(
            f"boundary={boundary!r} must be 'auto', a sampler of gpec.boundary, a BoundarySample or an array of points "
            "(J, d)."
        )
    _check_sample(sample, table)
    return sample


def _check_sample(sample: BoundarySample, table: Table) -> None:
    if sample.points.shape[1] != table.n_features:
        raise InputError(f"boundary has {sample.points.shape[1]} features, but X has {table.n_features}.")
    if len(sample) < LEAST_POINTS:
        raise InputError(
            f"boundary has {len(sample)} points, but at least {LEAST_POINTS} are needed; pass more, or use "
            "boundary='auto'."
        )
    for j in table.categorical:
        codes, count = sample.points[:, j], len(table.categories[int(j)])
        bad = ~np.isin(codes, np.arange(count))
        if bad.any():
            raise InputError(
                f"boundary has {codes[bad][0]} in the categorical column '{table.names[j]}'; expected its codes 0 to "
                f"{count - 1}, or pass a DataFrame."
            )
    table.embed(sample.points, "boundary")


def _given_attribution(g: GPEC, attributions: Any, variance: Any, n: int, table: Table) -> Attribution | None:
    if variance is not None:
        if attributions is None:
            raise InputError("attribution_variance is given without attributions.")
        if not (isinstance(g.noise, str) and g.noise == "auto"):
            raise InputError(
                f"attribution_variance is given together with noise={g.noise!r}; leave noise='auto' to use it."
            )
    if attributions is None:
        return None
    if isinstance(g.noise, str) and g.noise in RESAMPLED:
        raise InputError(
            f"noise={g.noise!r} runs the explainer again, but attributions are given; pass their attribution_variance "
            "with noise='auto', or a number."
        )
    shape = (n, table.n_features)
    arrays = [check_finite_array("attributions", _aligned("attributions", attributions, table))]
    if variance is not None:
        variance = _aligned("attribution_variance", variance, table)
        arrays.append(check_finite_array("attribution_variance", variance, least=0.0))
    for name, array in zip(("attributions", "attribution_variance"), arrays, strict=False):
        if array.ndim not in (2, 3) or array.shape[:2] != shape:
            raise InputError(
                f"{name} has shape {array.shape}; expected {shape} or ({n}, {table.n_features}, classes), one row for "
                "each row of X_explained, by default X."
            )
    return Attribution(*arrays)


def _aligned(name: str, values: Any, table: Table) -> Any:
    """Columns of a DataFrame in the order of X's, if they have names."""
    if not isinstance(values, pd.DataFrame) or table.labels is None:
        return values
    columns: list[Any] = list(values.columns)
    if columns == list(range(table.n_features)):  # numbered, not named
        return values
    if len(columns) != table.n_features or set(columns) != set(table.labels):
        raise InputError(f"{name} has the columns {columns}, but X has {list(table.labels)}.")
    return values[list(table.labels)]
