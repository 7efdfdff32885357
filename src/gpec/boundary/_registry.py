"""The sampler or sample that the parameter ``boundary`` selects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from gpec._validation import check_choice
from gpec.boundary.adversarial import AdversarialSampler
from gpec.boundary.base import BoundarySample, Sampler
from gpec.boundary.bisection import BisectionSampler
from gpec.boundary.levels import LevelSetSampler
from gpec.data import Schema
from gpec.data._output_kind import OutputKind
from gpec.errors import InputError, ParameterTypeError

_SAMPLERS: dict[str, type[Sampler]] = {
    "auto": BisectionSampler,
    "bisection": BisectionSampler,
    "adversarial": AdversarialSampler,
    "levels": LevelSetSampler,
}


def make_sampler(boundary: Any, schema: Schema, kind: OutputKind | None = None) -> Sampler | BoundarySample:
    """The sampler with a given name, or the given sampler or sample itself."""
    if isinstance(boundary, Sampler):
        return boundary
    if isinstance(boundary, str):
        check_choice("boundary", boundary, tuple(_SAMPLERS))
        return _SAMPLERS[kind.sampler if boundary == "auto" and kind is not None else boundary]()
    if isinstance(boundary, BoundarySample):
        sample = boundary
    elif isinstance(boundary, pd.DataFrame):
        sample = BoundarySample.from_points(schema.encode(boundary, "boundary"))
    elif isinstance(boundary, (list, tuple)) or hasattr(boundary, "__array__"):
        sample = BoundarySample.from_points(boundary)
    else:
        raise ParameterTypeError(
            f"boundary={boundary!r} must be 'auto', a sampler of gpec.boundary, a BoundarySample or an array of points "
            "(J, d)."
        )
    if sample.points.shape[1] != schema.n_features:
        raise InputError(f"boundary has {sample.points.shape[1]} features, but X has {schema.n_features}.")
    least = sample.least_points(schema)
    if len(sample) < least:
        raise InputError(
            f"boundary has {len(sample)} points, but at least {least} are needed; pass more, or use boundary='auto'."
        )
    for j in schema.categorical.tolist():
        codes, count = sample.points[:, j], len(schema.categories[j])
        bad = ~(np.isin(codes, np.arange(count)) | np.isnan(codes))
        if bad.any():
            raise InputError(
                f"boundary has {codes[bad][0]} in the categorical column '{schema.names[j]}'; expected its codes 0 to "
                f"{count - 1}, or pass a DataFrame."
            )
    schema.embed(sample.points, "boundary")  # raises if distances would overflow
    return sample
