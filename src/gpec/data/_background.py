"""The background rows of explainers, and the row whose values replace masked features."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec._validation import check_count
from gpec.data.schema import Schema
from gpec.errors import ParameterTypeError
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray


def check_background(background: Any, schema: Schema, Z: FloatArray, seed: int, usual: int = 100) -> FloatArray:
    """Encoded background rows: a number of random rows of ``Z``, ``usual`` for "auto"; or the given rows."""
    if isinstance(background, str) and background == "auto":
        background = usual
    if isinstance(background, (int, np.integer)) and not isinstance(background, bool):
        count = check_count("background", background)
        return Z if count >= len(Z) else Z[stream(seed, "background").permutation(len(Z))[:count]]
    if isinstance(background, (bool, float, str)):
        raise ParameterTypeError(f"background={background!r} must be 'auto', a whole number of rows, or the rows.")
    return schema.encode(background, "background")


def typical_row(background: FloatArray, schema: Schema) -> FloatArray:
    """The mean of each numeric column and the most frequent category of each other column, as an encoded row ``(d,)``.

    Missing numbers are ignored, unless all are missing. The most frequent category can be a missing value.
    """
    row = np.asarray(background.mean(axis=0), dtype=np.float64)
    absent = np.isnan(background)
    for j in np.flatnonzero(absent.any(axis=0) & ~absent.all(axis=0)):
        row[j] = background[~absent[:, j], j].mean()
    for j in schema.categorical:
        counts = np.bincount(background[~absent[:, j], j].astype(np.int64), minlength=1)
        row[j] = counts.argmax() if counts.max() >= absent[:, j].sum() else np.nan
    return row
