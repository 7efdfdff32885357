"""Bisection: from pairs of rows to points on the boundary between them.

Each pair defines a path ``x(t)``, ``0 <= t <= 1``: numbers move along a straight line, categories switch one at a time
at fixed random positions. A value that is missing at both ends is missing on the whole path. A value that is missing at
one end switches like a category, and is constant before and after. At ``t0`` of the bracket ``[t0, t1]`` the model
predicts the class of the first row, and at ``t1`` another class. A bracket shorter than the tolerance is a boundary
point, whatever the probability is there: tree ensembles are piecewise constant and can jump over 0.5.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from gpec.boundary.base import BoundarySample, join
from gpec.data import Schema, same_values
from gpec.models import Model
from gpec.typing import FloatArray, IntArray

_MAX_STEPS = 100
_MAX_SLIVERS = 4
_CLEAR = 1e-4
_ROWS_FOR_SPREAD = 2_000


@dataclass(frozen=True)
class SearchScale:
    """Lengths that the search compares with, in units of the spread of the data.

    Attributes
    ----------
    unit : float
        1 for standardised columns; else a typical distance of a number from the median of its column.
    tolerance : float
        Longest final bracket.
    clear : float
        A stretch of a path with one class is a sliver if it is shorter than half of this, and not if it is longer than
        this.
    """

    unit: float
    tolerance: float
    clear: float

    @classmethod
    def of(cls, schema: Schema, Z: FloatArray, tolerance: float) -> SearchScale:
        """The lengths for encoded rows ``Z``; ``tolerance`` is in units."""
        numbers = [j for j in schema.continuous.tolist() if j not in schema.origins]  # dates are in days
        standardised = schema.center.any() or (schema.scale[numbers] != 1).any()
        unit = 1.0 if standardised else _spread(schema, Z[:: max(len(Z) // _ROWS_FOR_SPREAD, 1)])
        return cls(unit, tolerance * unit, _CLEAR * unit)


def _spread(schema: Schema, Z: FloatArray) -> float:
    """Median distance of rows from the column medians (rows at distance 0 left out), divided by ``sqrt(columns)``."""
    numbers = schema.continuous
    Z = Z[:, numbers] / schema.scale[numbers]
    Z = Z[:, ~np.isnan(Z).all(axis=0)]
    offset = np.nan_to_num(Z - np.nanmedian(Z, axis=0))
    largest = float(np.abs(offset).max(initial=0.0))
    if largest == 0:
        return 1.0
    length = np.linalg.norm(offset / largest, axis=1)  # squares of raw numbers may overflow or vanish
    return float(np.median(length[length > 0])) * largest / float(np.sqrt(Z.shape[1]))


def bisect(
    model: Model, A: FloatArray, B: FloatArray, label: IntArray, search_scale: SearchScale, rng: np.random.Generator
) -> tuple[BoundarySample, IntArray]:
    """One boundary point on the path from each row of ``A`` (of class ``label``) to that of ``B``."""
    paths = Paths(model.schema, A, B, rng)
    t0, t1 = np.zeros(len(A)), np.ones(len(A))
    # a switch is not a sliver, however short it is
    step = np.minimum(0.5 * search_scale.clear / np.maximum(paths.length, search_scale.clear), paths.longest_step)
    _narrow(model, paths, t0, t1, label, search_scale.tolerance, rng)
    unclear = np.arange(len(A))
    for _ in range(_MAX_SLIVERS):
        # A class on a stretch shorter than ``clear`` is a sliver between two thresholds: search beyond it.
        lower, upper = np.maximum(t0 - step, 0.0)[unclear], np.minimum(t1 + step, 1.0)[unclear]
        beyond = model.labels(paths.at(upper, unclear)) == label[unclear]
        before = (model.labels(paths.at(lower, unclear)) != label[unclear]) & ~beyond
        t0[unclear[beyond]], t1[unclear[beyond]] = upper[beyond], 1.0
        t0[unclear[before]], t1[unclear[before]] = 0.0, lower[before]
        unclear = unclear[beyond | before]
        if len(unclear) == 0:
            break
        _narrow(model, paths, t0, t1, label, search_scale.tolerance, rng)
    return _verified(model, paths.sample(t0, t1, label), label)


def _narrow(
    model: Model,
    paths: Paths,
    t0: FloatArray,
    t1: FloatArray,
    label: IntArray,
    tolerance: float,
    rng: np.random.Generator,
) -> None:
    """Bisect all brackets, in place, until each is shorter than the tolerance and holds at most one switch."""
    # The first split is not the middle. Halfway between two rows of whole numbers several columns can be at a
    # threshold, and there rounding decides the answer of a tree.
    split = 0.4 + 0.2 * rng.random(len(t0))
    for _ in range(_MAX_STEPS):
        active = np.flatnonzero((paths.length * (t1 - t0) > tolerance) | (t1 - t0 > paths.longest_step))
        if len(active) == 0:
            break
        middle = t0[active] + split[active] * (t1[active] - t0[active])
        split[active] = 0.5
        inside = model.labels(paths.at(middle, active)) == label[active]
        t0[active[inside]] = middle[inside]
        t1[active[~inside]] = middle[~inside]


class Paths:
    """The paths between pairs of rows: straight lines for numbers, switches for all other values."""

    def __init__(self, schema: Schema, A: FloatArray, B: FloatArray, rng: np.random.Generator) -> None:
        self.schema, self.A, self.B = schema, A, B
        self.numbers = schema.continuous
        self.length = self._distance(A, B)
        absent = np.isnan(A) | np.isnan(B)
        self.switching = np.union1d(schema.categorical, np.flatnonzero(absent.any(axis=0)))
        some = self.switching
        self.switches = ~same_values(A[:, some], B[:, some]) & (absent[:, some] | np.isin(some, schema.categorical))
        n_switches = np.maximum(self.switches.sum(axis=1), 1)
        # Differing columns switch in random order, at least 0.5 / n_switches apart.
        draw = rng.random(self.switches.shape)
        rank = np.where(self.switches, draw, 2.0).argsort(axis=1).argsort(axis=1)
        self.switch_at = (rank + 0.25 + 0.5 * rng.random(draw.shape)) / n_switches[:, None]
        self.longest_step = np.where(self.switches.any(axis=1), 0.25 / n_switches, 1.0)

    def at(self, t: FloatArray, rows: IntArray) -> FloatArray:
        points = self.A[rows].copy()
        numbers, some = self.numbers, self.switching
        first, second = points[:, numbers], self.B[np.ix_(rows, numbers)]
        # A weighted sum of the ends cannot overflow as their difference could; rounding must not leave their range.
        between = (1 - t[:, None]) * first + t[:, None] * second
        points[:, numbers] = np.clip(between, np.minimum(first, second), np.maximum(first, second))
        if len(some):
            values = np.where(
                t[:, None] >= self.switch_at[rows], self.B[np.ix_(rows, some)], self.A[np.ix_(rows, some)]
            )
            points[:, some] = np.where(self.switches[rows], values, points[:, some])
        return points

    def sample(self, t0: FloatArray, t1: FloatArray, label: IntArray) -> BoundarySample:
        every = np.arange(len(t0))
        before, beyond = self.at(t0, every), self.at(t1, every)
        bracket = self._distance(before, beyond)
        points, direction = before.copy(), np.zeros_like(before)
        numbers = self.numbers
        step = np.nan_to_num(beyond[:, numbers] - before[:, numbers])
        points[:, numbers] += step / 2
        moved = bracket > 0
        direction[np.ix_(moved, numbers)] = step[moved] / bracket[moved, None]
        switched, switched_to = np.full(len(points), -1, dtype=np.int64), np.full(len(points), -1.0)
        crossed = self.switches & (t0[:, None] < self.switch_at) & (self.switch_at <= t1[:, None])
        rows, place = np.nonzero(crossed)
        switched[rows] = self.switching[place]
        switched_to[rows] = beyond[rows, switched[rows]]
        return BoundarySample(points, direction, bracket / 2, label, 0, switched, switched_to)

    def _distance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Distance that the numbers move, in standardised units."""
        scale = self.schema.scale[self.numbers]
        difference = np.nan_to_num(B[:, self.numbers] / scale - A[:, self.numbers] / scale)
        largest = np.abs(difference).max(axis=1, initial=np.finfo(np.float64).tiny)  # its square may vanish
        return np.asarray(np.linalg.norm(difference / largest[:, None], axis=1) * largest)


def _verified(model: Model, sample: BoundarySample, label: IntArray) -> tuple[BoundarySample, IntArray]:
    """The points whose two ends, as :meth:`BoundarySample.ends` gives them, differ in class; and the far class."""
    residual, beyond_label = sample.residual.copy(), np.full(len(sample), -1, dtype=np.int64)
    pending = np.arange(len(sample))
    # Rounding can move an end across the boundary by one bit; a longer step moves it back.
    for widen in (1.0, 2.0, 4.0, 8.0):
        residual[pending] = sample.residual[pending] * widen
        part = replace(sample, residual=residual).take(pending)
        before, beyond = part.ends()
        near, far = np.split(model.labels(np.concatenate((before, beyond))), 2)
        good = (near == label[pending]) & (far != label[pending])
        beyond_label[pending[good]] = far[good]
        pending = pending[~good]
        if len(pending) == 0:
            break
    verified = np.flatnonzero(beyond_label >= 0)
    return replace(sample, residual=residual).take(verified), beyond_label[verified]


class Collection:
    """Distinct points found so far, by class."""

    def __init__(self, model: Model, search_scale: SearchScale, wanted: int) -> None:
        self._model, self._quantum, self._wanted = model, 10 * search_scale.tolerance, wanted
        self._counts = np.zeros(model.n_outputs, dtype=np.int64)
        self._seen: set[bytes] = set()
        self._samples: list[BoundarySample] = []

    def missing(self) -> dict[int, int]:
        """Number of points still to find, by class; with several classes every point counts for two of them."""
        missing = self._wanted - self._counts
        halves = missing if len(missing) == 1 else -(-missing // 2)
        return {label: count for label, count in enumerate(halves.tolist()) if count > 0}

    def scarcest(self) -> tuple[int, str]:
        """Number of points of the class with the fewest, and text that names this class if there are several."""
        label = int(self._counts.argmin())
        return int(self._counts[label]), "" if self._model.is_binary else f" for class {self._model.class_name(label)}"

    def add(self, sample: BoundarySample, other: IntArray) -> int:
        """Add points that are new and still needed, for their class and (with several classes) for the far class."""
        sides = (sample, sample.flipped(other))
        owners = sample.label[:, None] if len(self._counts) == 1 else np.column_stack((sample.label, other))
        before, fresh = int(self._counts.sum()), []
        for position, code in enumerate(self._codes(*sides)):
            if code not in self._seen and (self._counts[owners[position]] < self._wanted).any():
                self._seen.add(code)
                self._counts[owners[position]] += 1
                fresh.append(position)
        indices = np.array(fresh, dtype=np.int64)
        self._samples += [side.take(indices) for side in sides[: owners.shape[1]]]
        return int(self._counts.sum()) - before

    def _codes(self, near: BoundarySample, far: BoundarySample) -> list[bytes]:
        """Codes that are equal for points at the same place, also for a switch found from its other side."""
        cells = [np.rint(self._model.schema.embed(side.points) / self._quantum) + 0.0 for side in (near, far)]
        pairs = (sorted((one.tobytes(), two.tobytes())) for one, two in zip(*cells, strict=True))
        return [hashlib.blake2b(b"".join(pair), digest_size=16).digest() for pair in pairs]

    def sample(self) -> BoundarySample:
        return join(self._samples)
