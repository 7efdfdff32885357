"""Jitter: rows moved slightly away from the thresholds of tree models.

Trees put thresholds at the values of the data, or between two of them. At a row of whole numbers many thresholds
coincide, and the class there may be the class of that single point only. Each number therefore moves by a small random
part of the gap to the next value. The order of the values stays the same, and few thresholds lie in between.

The direction depends on the model. A value on a threshold belongs to the values above it in XGBoost, and to those below
it in scikit-learn's histogram trees; LightGBM treats 0 as a value of its own. If the answers jump when a column moves
up, it moves down. If they jump both ways, the column stays as it is.
"""

from __future__ import annotations

import numpy as np

from gpec.data import Schema
from gpec.models import Model
from gpec.typing import BoolArray, FloatArray, IntArray

_OF_GAP = 1e-2
_OF_SPREAD = 1e-3
_TRIED_ROWS = 128
_TRIED_BY_COLUMN = 4_096  # rows for all columns together
_TRIED_STEP = 1e-2  # of the full jitter: an answer that is smooth in a column hardly changes
_JUMP = 1e-3  # in units of the answers


class Jitter:
    """How far each value of ``Z`` may move, and in which direction."""

    def __init__(self, schema: Schema, Z: FloatArray, unit: float) -> None:
        self._values: dict[int, FloatArray] = {}
        self._steps: dict[tuple[int, int], FloatArray] = {}
        for j in schema.continuous.tolist():
            values = np.unique(Z[~np.isnan(Z[:, j]), j])
            if len(values) > 1:
                most = _OF_SPREAD * unit * float(schema.scale[j])
                self._values[j] = values
                self._steps[j, 1] = _steps(values, most)
                self._steps[j, -1] = -_steps(-values[::-1], most)[::-1]
        self.way = np.zeros(schema.n_features, dtype=np.int64)  # up 1, down -1, or not at all
        self.way[list(self._values)] = 1

    def choose_way(self, model: Model, rows: FloatArray) -> None:
        """Choose the direction in which the model's answers to some rows of ``Z`` do not jump."""
        rows, columns = rows[:_TRIED_ROWS], self.way != 0
        if not columns.any():
            return
        moved = self._by(rows, self.way, _TRIED_STEP)
        answer, after = np.split(model.answers(np.concatenate((rows, moved))), 2)
        least = _JUMP * model.kind.unit(answer)
        if not _jumps(answer, after, least).any():
            return
        down = model.answers(self._by(rows, -self.way, _TRIED_STEP))
        if not _jumps(answer, down, least).any():
            self.way = -self.way
            return
        some = max(_TRIED_BY_COLUMN // int(columns.sum()), 8)
        for way in (1, -1):
            pending = np.flatnonzero(columns)
            if not len(pending):
                break
            tried = [self._by(rows[:some], way * (np.arange(rows.shape[1]) == j), _TRIED_STEP) for j in pending]
            each = np.split(model.answers(np.concatenate(tried)), len(pending))
            smooth = pending[[not _jumps(answer[:some], after, least).any() for after in each]]
            self.way[smooth] = way
            columns[smooth] = False
        self.way[columns] = 0

    def moved(self, rows: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Some rows of ``Z`` with jitter; a missing value stays missing."""
        return self._by(rows, self.way, rng.uniform(0.5, 1.0, rows.shape))

    def _by(self, rows: FloatArray, way: IntArray, part: FloatArray | float) -> FloatArray:
        moved, part = rows.copy(), np.broadcast_to(part, rows.shape)
        for j in np.flatnonzero(way).tolist():
            known = np.flatnonzero(~np.isnan(rows[:, j]))
            place = np.searchsorted(self._values[j], rows[known, j])
            moved[known, j] += part[known, j] * self._steps[j, int(way[j])][place]
        return moved


def _steps(values: FloatArray, most: float) -> FloatArray:
    """The longest step up of each value: a part of the smaller gap beside it, and 0 for the greatest value."""
    gap = np.diff(values)
    with np.errstate(over="ignore"):
        steps = np.minimum(_OF_GAP * np.minimum(gap, np.append(np.inf, gap[:-1])), most)
        # many models compute in single precision, where a step must not reach the next value either
        start, end, following = (v.astype(np.float32) for v in (values[:-1], values[:-1] + steps, values[1:]))
    steps[(start < following) & (end == following)] = 0.0
    return np.append(steps, 0.0)


def _jumps(before: FloatArray, after: FloatArray, least: float) -> BoolArray:
    return np.asarray((np.abs(after - before) > least).any(axis=1))
