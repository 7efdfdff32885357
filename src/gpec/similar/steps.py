"""What similar means in the units of the data: how far similar rows lie from a row, feature by feature."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from gpec._numbers import rough_text, share_text
from gpec.data import Schema, same_values
from gpec.data._dates import day_of
from gpec.runtime.state import MAY_BE_MISSING, Limits, Shape
from gpec.similar.base import SimilaritySampler
from gpec.typing import FloatArray

_ROWS = 200
_NUMBERS = 2**20  # of similar rows
_DAYS = {"days": 1.0, "hours": 1 / 24, "minutes": 1 / 1440, "seconds": 1 / 86400}


@dataclass(frozen=True, eq=False)
class TypicalSteps:
    """How far similar rows typically lie from their row.

    Attributes
    ----------
    step : array of shape (d,)
        Median absolute change of the numbers that change, which a few far rows do not move; of dates in units of the
        column. NaN for columns that never change or that switch: categories, and 0/1 columns.
    share : array of shape (d,)
        Share of similar rows in which the column changes.
    """

    step: Annotated[FloatArray, Shape("column"), MAY_BE_MISSING, Limits(least=0)]
    share: Annotated[FloatArray, Shape("column"), Limits(0, 1)]

    @classmethod
    def measure(cls, schema: Schema, sampler: SimilaritySampler, Z: FloatArray) -> TypicalSteps:
        """Between encoded rows, or the first of them if they are many, and their similar rows."""
        most = _NUMBERS // sampler.rows(Z[:1]).size
        Z = Z[: min(max(most, 1), _ROWS)]
        similar = sampler.rows(Z)
        two = np.ascontiguousarray(similar.reshape(-1, schema.n_features).T)
        one = np.repeat(Z.T, similar.shape[1], axis=1)
        changed = ~same_values(one, two)
        step = np.full(schema.n_features, np.nan)
        for j in schema.continuous:
            ends = np.array([one[j, changed[j]], two[j, changed[j]]])
            ends = ends[:, ~np.isnan(ends).any(axis=0)]
            if not np.isin(ends, (0, 1)).all():
                with np.errstate(over="ignore"):
                    step[j] = min(np.median(np.abs(ends[1] - ends[0])), np.finfo(np.float64).max)
        return cls(step, changed.mean(axis=1))

    def frame(self, schema: Schema) -> pd.DataFrame:
        """One line for each column; steps of dates in days."""
        step, words = self.step.copy(), self.words(schema)
        for j in schema.origins:
            step[j] /= day_of(schema.dtypes[j])
        index = pd.Index(schema.names, name="feature")
        texts = [words.get(name, "unchanged") for name in schema.names]
        return pd.DataFrame({"step": step, "share": self.share, "words": texts}, index=index)

    def words(self, schema: Schema, order: Iterable[int] | None = None) -> dict[str, str]:
        """For each column that changes: "±3", "±2,000 in 12%", "switches in 22%"."""
        found = {}
        for j in range(schema.n_features) if order is None else order:
            share = share_text(self.share[j])
            if np.isnan(self.step[j]):
                text = f"switches in {share}"
            else:
                days = self.step[j] / day_of(schema.dtypes[j]) if j in schema.origins else None
                size = rough_text(self.step[j]) if days is None else _duration(days)
                text = f"±{size}" if self.share[j] >= 0.5 else f"±{size} in {share}"
            if self.share[j] > 0:
                found[schema.names[j]] = text
        return found


def _duration(days: float) -> str:
    unit = next((unit for unit, length in _DAYS.items() if days >= length), "seconds")
    count = rough_text(days / _DAYS[unit])
    return f"{count} {unit.removesuffix('s') if count == '1' else unit}"
