"""Everything given to ``fit``, checked before the first model call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpec.boundary import BisectionSampler, BoundarySample, Sampler
from gpec.errors import InputError, ParameterTypeError
from gpec.explainers import Attribution, Explainer, make_explainer
from gpec.explainers.noise import check_noise
from gpec.kernels import RBF, WEG, Kernel
from gpec.model import Model
from gpec.table import FloatArray, Table
from gpec.validation import check_choice, check_count, check_finite_array, check_positive, make_seed, spawn

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
    kernel, sampler = make_kernel(g), make_sampler(g.boundary)
    explainer = None if g.explainer is None else make_explainer(g.explainer)
    seed = make_seed(g.random_state)
    table, Z = Table.learn(X, categorical_features=g.categorical_features, standardize=bool(g.standardize))
    if X_explained is not None:
        explained = table.encode(X_explained, "X_explained")
        table.embed(explained, "X_explained")
    elif attributions is not None or len(Z) <= g.n_explained:
        explained = Z
    else:
        explained = Z[spawn(seed, 10).permutation(len(Z))[: g.n_explained]]
    given = _given_attribution(g, attributions, variance, (len(explained), table.n_features))
    if given is None and explainer is None:
        raise InputError("explainer=None needs attributions: pass fit(X, attributions=...).")
    if g.output_scale == "evidence" and len(explained) < 3:
        raise InputError(
            f"output_scale='evidence' needs at least 3 explained rows, got {len(explained)}; explain more rows or "
            "give a number."
        )
    if isinstance(sampler, BoundarySample) and sampler.points.shape[1] != table.n_features:
        raise InputError(f"boundary has {sampler.points.shape[1]} features, but X has {table.n_features}.")
    model = Model(g.model, table, model_output=g.model_output, threshold=g.threshold)
    background = _background_rows(g.background, table, Z, seed)
    return Job(table, model, kernel, sampler, explainer, Z, explained, background, given, seed)


def check_parameters(g: GPEC) -> None:
    """Refuse parameters that can never be used."""
    check_count("n_boundary", g.n_boundary, least=10)
    check_count("n_neighbors", g.n_neighbors)
    if g.n_landmarks != "auto":
        check_count("n_landmarks", g.n_landmarks)
    check_choice("components", g.components, ("separate", "bridge"))
    check_count("n_explained", g.n_explained)
    check_noise(g.noise)
    check_count("n_resamples", g.n_resamples, least=2)
    check_choice("standardize", g.standardize, (True, False))
    check_choice("progress", g.progress, ("auto", True, False))
    if isinstance(g.output_scale, str):
        check_choice("output_scale", g.output_scale, ("evidence",))
    else:
        check_positive("output_scale", g.output_scale)
    for name, value in (("lam", g.lam), ("rho", g.rho)):
        if isinstance(value, str):
            check_choice(name, value, ("auto",))
        else:
            check_positive(name, value, zero=name == "rho")
    if g.n_jobs is not None and (not isinstance(g.n_jobs, (int, np.integer)) or g.n_jobs == 0):
        raise InputError(f"n_jobs={g.n_jobs!r} must be None or a whole number other than 0.")


def make_kernel(g: GPEC) -> Kernel:
    """The kernel meant by the parameter ``kernel``, not fitted."""
    if isinstance(g.kernel, Kernel):
        return g.kernel
    if isinstance(g.kernel, str) and g.kernel in ("weg", "rbf"):
        return WEG(g.lam, g.rho) if g.kernel == "weg" else RBF()
    raise InputError(f"kernel={g.kernel!r} is not 'weg', 'rbf' or a kernel of gpec.kernels.")


def make_sampler(boundary: Any) -> Sampler | BoundarySample:
    """The sampler meant by the parameter ``boundary``, or the sample itself."""
    if isinstance(boundary, (Sampler, BoundarySample)):
        return boundary
    if isinstance(boundary, str):
        check_choice("boundary", boundary, ("auto",))
        return BisectionSampler()
    if boundary is None or np.ndim(boundary) != 2:
        raise ParameterTypeError(
            "boundary must be 'auto', a sampler of gpec.boundary, a BoundarySample or an array of points (J, d), got "
            f"{type(boundary).__name__}."
        )
    return BoundarySample.from_points(boundary)


def _given_attribution(g: GPEC, attributions: Any, variance: Any, shape: tuple[int, int]) -> Attribution | None:
    if variance is not None:
        if attributions is None:
            raise InputError("attribution_variance is given without attributions.")
        if not (isinstance(g.noise, str) and g.noise == "auto"):
            raise InputError(
                f"attribution_variance is given together with noise={g.noise!r}; leave noise='auto' to use it."
            )
    if attributions is None:
        return None
    arrays = [check_finite_array("attributions", attributions)]
    if variance is not None:
        arrays.append(check_finite_array("attribution_variance", variance, least=0.0))
    for name, array in zip(("attributions", "attribution_variance"), arrays, strict=False):
        if array.ndim not in (2, 3) or array.shape[:2] != shape:
            raise InputError(
                f"{name} has shape {array.shape}; expected {shape} or {(*shape, 'classes')}, one row for each row of "
                "X_explained."
            )
    return Attribution(*arrays)


def _background_rows(background: Any, table: Table, Z: FloatArray, seed: int) -> FloatArray:
    if isinstance(background, (int, np.integer)) and not isinstance(background, bool):
        count = check_count("background", background)
        return Z if count >= len(Z) else Z[spawn(seed, 11).permutation(len(Z))[:count]]
    return table.encode(background, "background")
