"""Decision Boundary Point Search: pairs of rows of opposite class, bisected all together.

Each pair spans a path ``x(t)``, ``0 <= t <= 1``: numbers move along a straight line, categories switch one at a time at
fixed random positions. The bracket ``[t0, t1]`` keeps the class of its first row at ``t0`` and another at ``t1``. A
bracket shorter than the tolerance *is* a boundary point, whatever the probability jumps to there: tree ensembles are
piecewise constant and pass 0.5 without ever being near it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from gpec.boundary.base import LEAST_POINTS, BoundarySample, Sampler, join
from gpec.boundary.pairs import PairStream
from gpec.errors import BoundaryNotFoundError, FewBoundaryPointsWarning
from gpec.model import Model
from gpec.progress import Progress
from gpec.table import FloatArray, IntArray, Table
from gpec.validation import check_choice, check_positive, spawn

__all__ = ["BisectionSampler"]

_MAX_STEPS = 100
_LEAST_PAIRS = 64
_NUDGE = 1e-3
_CLEAR = 1e-4
_MAX_SLIVERS = 4
_MAX_EMPTY_ROUNDS = 5
_BOX_ROUNDS = 20


class BisectionSampler(Sampler):
    """Sample a decision boundary by bisection between rows of opposite predicted class (DBPS).

    Parameters
    ----------
    pairing : {"nearest", "random"}
        "nearest" pairs each row with the nearest row of the other class and so samples the boundary near the data;
        when these pairs run out, further partners follow, then random pairs. "random" pairs rows at random.
    rows : {"data", "box"}
        Take the rows from the data, or draw them uniformly from its bounding box.
    tolerance : float
        Longest last bracket, in standardised units.

    Notes
    -----
    All pairs advance together, one model call a step. With nearest pairs about 1 standardised unit apart a point costs
    some 24 rows at the default tolerance, and 4 more to check it. At most ``max(10 * n_boundary, 20_000)`` rows of the
    data are looked at, unless these are of a single class.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.boundary import BisectionSampler
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> sample = BisectionSampler().sample(lambda X: (X[:, 0] > 0.25) * 1.0, X, 50, random_state=0)
    >>> len(sample), bool(np.allclose(sample.points[:, 0], 0.25, atol=1e-6))
    (50, True)
    """

    def __init__(
        self,
        pairing: Literal["nearest", "random"] = "nearest",
        rows: Literal["data", "box"] = "data",
        tolerance: float = 1e-6,
    ) -> None:
        self.pairing = pairing
        self.rows = rows
        self.tolerance = tolerance

    def check(self) -> None:
        check_choice("pairing", self.pairing, ("nearest", "random"))
        check_choice("rows", self.rows, ("data", "box"))
        check_positive("tolerance", self.tolerance)

    def draw(
        self,
        model: Model,
        Z: FloatArray,
        n_boundary: int,
        *,
        seed: int,
        progress: Literal["auto"] | bool = "auto",
    ) -> BoundarySample:
        self.check()
        rows_before = model.n_rows
        candidates, labels = self._candidates(model, Z, n_boundary, spawn(seed, 0))
        classes = range(1) if model.is_binary else range(int(model.n_classes or 0))
        self._require_classes(model, labels, classes)
        embedded = model.table.embed(candidates)
        streams = {
            y: PairStream(
                embedded,
                np.flatnonzero(labels == y),
                np.flatnonzero(labels != y),
                nearest=self.pairing == "nearest",
                rng=spawn(seed, 1, y),
            )
            for y in classes
        }
        rng = spawn(seed, 2)
        found = _Collection(model.table, self.tolerance, n_boundary, len(classes))
        empty_rounds = 0
        with Progress(n_boundary * len(classes), "boundary", progress) as bar:
            while empty_rounds < _MAX_EMPTY_ROUNDS:
                # after a round without a new point try harder
                least = _LEAST_PAIRS * 2**empty_rounds
                pairs = {y: streams[y].take(max(count, least)) for y, count in found.missing().items() if count > 0}
                first = np.concatenate([p[:, 0] for p in pairs.values()] or [np.empty(0, np.int64)])
                if len(first) == 0:
                    break
                second = np.concatenate([p[:, 1] for p in pairs.values()])
                label = np.concatenate([np.full(len(p), y) for y, p in pairs.items()])
                points, other = self._bisect(model, candidates[first], candidates[second], label, rng)
                gained = found.add(points, other)
                bar.advance(gained)
                empty_rounds = 0 if gained else empty_rounds + 1
        sample = replace(found.sample(), n_model_rows=model.n_rows - rows_before)
        self._report_shortage(model, sample, n_boundary, classes)
        return sample

    def _candidates(
        self, model: Model, Z: FloatArray, n_boundary: int, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """Rows to pair, with their predicted classes."""
        if self.rows == "box":
            rows, labels = np.empty((0, Z.shape[1])), np.empty(0, dtype=np.int64)
            for _ in range(_BOX_ROUNDS):
                block = _distinct(_uniform_rows(model.table, Z, max(2 * n_boundary, 1_000), rng))
                rows, labels = np.concatenate((rows, block)), np.append(labels, model.labels(block))
                if len(np.unique(labels)) == model.n_classes:
                    break
            return rows, labels
        order = rng.permutation(len(Z))
        enough = max(10 * n_boundary, 20_000)
        low, high = Z.min(axis=0), Z.max(axis=0)
        rows, rest = Z[order[:enough]], Z[order[enough:]]
        rows = _nudged(model.table, _distinct(rows), low, high, rng)
        labels = model.labels(rows)
        if len(rest) and len(np.unique(labels)) < (model.n_classes or 0):
            rest = _nudged(model.table, _distinct(rest), low, high, rng)
            rows, labels = np.concatenate((rows, rest)), np.append(labels, model.labels(rest))
        return rows, labels

    def _require_classes(self, model: Model, labels: IntArray, classes: range) -> None:
        present = np.unique(labels)
        if len(present) == 1:
            raise BoundaryNotFoundError(
                f"The model predicts class {_class_name(model, present[0])} for all {len(labels)} rows tried, so no "
                "boundary lies between them; pass rows of both classes, change threshold, or use "
                "boundary=BisectionSampler(rows='box')."
            )
        absent = sorted(set(classes) - set(present.tolist()))
        if absent and not model.is_binary:
            raise BoundaryNotFoundError(
                f"The model never predicts class {_class_name(model, absent[0])} for the {len(labels)} rows tried, so "
                "its boundary cannot be sampled; pass rows that it predicts as this class."
            )

    def _report_shortage(self, model: Model, sample: BoundarySample, n_boundary: int, classes: range) -> None:
        counts = np.bincount(sample.label, minlength=len(classes))
        worst = int(counts.argmin())
        whose = "" if model.is_binary else f" for class {_class_name(model, worst)}"
        if counts[worst] < LEAST_POINTS:
            raise BoundaryNotFoundError(
                f"Only {counts[worst]} distinct boundary points were found{whose}, but at least {LEAST_POINTS} are "
                "needed; pass more rows of both classes, or use boundary=BisectionSampler(rows='box')."
            )
        if counts[worst] < n_boundary:
            warnings.warn(
                f"Found {counts[worst]} distinct boundary points{whose} instead of n_boundary={n_boundary}, because "
                "further pairs of rows give no new ones; pass more rows, or ask for fewer points.",
                FewBoundaryPointsWarning,
                stacklevel=2,
            )

    def _bisect(
        self, model: Model, A: FloatArray, B: FloatArray, label: IntArray, rng: np.random.Generator
    ) -> tuple[BoundarySample, IntArray]:
        """One boundary point on the path from each row of ``A`` (of class ``label``) to that of ``B``."""
        path = _Path(model.table, A, B, rng)
        t0, t1 = np.zeros(len(A)), np.ones(len(A))
        # a switch of category is no sliver, however short
        step = np.minimum(0.5 * _CLEAR / np.maximum(path.length, _CLEAR), path.longest_step)
        self._narrow(model, path, t0, t1, label, rng)
        unclear = np.arange(len(A))
        for _ in range(_MAX_SLIVERS):
            # A class that lasts for less than _CLEAR is a sliver between two thresholds: look for the change beyond it.
            lower, upper = np.maximum(t0 - step, 0.0)[unclear], np.minimum(t1 + step, 1.0)[unclear]
            beyond = model.labels(path.at(upper, unclear)) == label[unclear]
            before = (model.labels(path.at(lower, unclear)) != label[unclear]) & ~beyond
            t0[unclear[beyond]], t1[unclear[beyond]] = upper[beyond], 1.0
            t0[unclear[before]], t1[unclear[before]] = 0.0, lower[before]
            unclear = unclear[beyond | before]
            if len(unclear) == 0:
                break
            self._narrow(model, path, t0, t1, label, rng)
        return _verified(model, path.sample(t0, t1, label), label)

    def _narrow(
        self, model: Model, path: _Path, t0: FloatArray, t1: FloatArray, label: IntArray, rng: np.random.Generator
    ) -> None:
        """Bisect all brackets, in place, until each is shorter than the tolerance and holds at most one switch."""
        # The first split lies off the middle: halfway between two rows of whole numbers several columns meet their
        # thresholds at once, and there the answer of a tree is decided by rounding.
        split = 0.4 + 0.2 * rng.random(len(t0))
        for _ in range(_MAX_STEPS):
            active = np.flatnonzero((path.length * (t1 - t0) > self.tolerance) | (t1 - t0 > path.longest_step))
            if len(active) == 0:
                break
            middle = t0[active] + split[active] * (t1[active] - t0[active])
            split[active] = 0.5
            inside = model.labels(path.at(middle, active)) == label[active]
            t0[active[inside]] = middle[inside]
            t1[active[~inside]] = middle[~inside]


class _Path:
    """The paths between pairs of rows: lines for the numbers, switches for the categories."""

    def __init__(self, table: Table, A: FloatArray, B: FloatArray, rng: np.random.Generator) -> None:
        self.table, self.A, self.B = table, A, B
        self.numbers, self.categories = table.continuous, table.categorical
        self.length = self._distance(A, B)
        differs = A[:, self.categories] != B[:, self.categories]
        n_switches = np.maximum(differs.sum(axis=1), 1)
        # Differing columns switch in random order, at least 0.5 / n_switches apart.
        draw = rng.random(differs.shape)
        rank = np.where(differs, draw, 2.0).argsort(axis=1).argsort(axis=1)
        self.switch_at = (rank + 0.25 + 0.5 * rng.random(differs.shape)) / n_switches[:, None]
        self.longest_step = np.where(differs.any(axis=1), 0.25 / n_switches, 1.0)

    def at(self, t: FloatArray, rows: IntArray) -> FloatArray:
        points = self.A[rows].copy()
        numbers, categories = self.numbers, self.categories
        first, second = points[:, numbers], self.B[np.ix_(rows, numbers)]
        # A weighted sum of the ends cannot overflow where their difference could; rounding must not leave their range.
        between = (1 - t[:, None]) * first + t[:, None] * second
        points[:, numbers] = np.clip(between, np.minimum(first, second), np.maximum(first, second))
        if len(categories):
            switched = t[:, None] >= self.switch_at[rows]
            points[:, categories] = np.where(switched, self.B[np.ix_(rows, categories)], points[:, categories])
        return points

    def sample(self, t0: FloatArray, t1: FloatArray, label: IntArray) -> BoundarySample:
        every = np.arange(len(t0))
        before, beyond = self.at(t0, every), self.at(t1, every)
        bracket = self._distance(before, beyond)
        points, direction = before.copy(), np.zeros_like(before)
        numbers = self.numbers
        points[:, numbers] += (beyond[:, numbers] - before[:, numbers]) / 2
        moved = bracket > 0
        direction[np.ix_(moved, numbers)] = (beyond - before)[np.ix_(moved, numbers)] / bracket[moved, None]
        switched = np.full(len(points), -1, dtype=np.int64)
        switched_to = np.full(len(points), -1, dtype=np.int64)
        for j in self.categories:
            jump = before[:, j] != beyond[:, j]
            switched[jump], switched_to[jump] = j, beyond[jump, j].astype(np.int64)
        return BoundarySample(points, direction, bracket / 2, label, 0, switched, switched_to)

    def _distance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        difference = (
            B[:, self.numbers] / self.table.scale[self.numbers] - A[:, self.numbers] / self.table.scale[self.numbers]
        )
        return np.asarray(np.sqrt((difference**2).sum(axis=1)))


def _verified(model: Model, sample: BoundarySample, label: IntArray) -> tuple[BoundarySample, IntArray]:
    """The points whose two ends, as :meth:`BoundarySample.ends` gives them, differ in class; and the far class."""
    residual, beyond_label = sample.residual.copy(), np.full(len(sample), -1, dtype=np.int64)
    pending = np.arange(len(sample))
    # Rounding may move an end across the boundary by one bit; a longer step brings it back.
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
    kept = np.flatnonzero(beyond_label >= 0)
    return replace(sample, residual=residual).take(kept), beyond_label[kept]


class _Collection:
    """Distinct points found so far, by class."""

    def __init__(self, table: Table, tolerance: float, wanted: int, n_classes: int) -> None:
        self._table, self._quantum, self._wanted = table, 10 * tolerance, wanted
        self._counts = np.zeros(n_classes, dtype=np.int64)
        self._seen: set[bytes] = set()
        self._samples: list[BoundarySample] = []

    def missing(self) -> dict[int, int]:
        """Points still to find for each class; with several classes every point serves two of them."""
        missing = self._wanted - self._counts
        return dict(enumerate((missing if len(missing) == 1 else -(-missing // 2)).tolist()))

    def add(self, sample: BoundarySample, other: IntArray) -> int:
        """Keep the wanted points not seen before, for their class and (with several classes) for the one beyond."""
        sides = (sample, sample.flipped(other))
        owners = sample.label[:, None] if len(self._counts) == 1 else np.column_stack((sample.label, other))
        before, fresh = int(self._counts.sum()), []
        # A switch of category may have been found from its other side.
        for position, codes in enumerate(zip(*map(self._codes, sides), strict=True)):
            if self._seen.isdisjoint(codes) and (self._counts[owners[position]] < self._wanted).any():
                self._seen.update(codes)
                self._counts[owners[position]] += 1
                fresh.append(position)
        indices = np.array(fresh, dtype=np.int64)
        self._samples += [side.take(indices) for side in sides[: owners.shape[1]]]
        return int(self._counts.sum()) - before

    def _codes(self, sample: BoundarySample) -> list[bytes]:
        cells = np.rint(self._table.embed(sample.points) / self._quantum) + 0.0  # no negative zeros
        return [key.tobytes() for key in np.column_stack((cells, sample.switched, sample.switched_to))]

    def sample(self) -> BoundarySample:
        return join(self._samples)


def _distinct(Z: FloatArray) -> FloatArray:
    """Rows without repetitions, whose pairs would lead to the same points."""
    return np.asarray(Z[~pd.DataFrame(Z).duplicated().to_numpy()], dtype=np.float64)


def _nudged(table: Table, Z: FloatArray, low: FloatArray, high: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rows moved up by at most a thousandth of a standard deviation, within the range of the data.

    Trees put thresholds exactly where the data are. At a row of whole numbers many of them meet, and the class there
    may be that of a single point.
    """
    half_range = high / 2 - low / 2  # at least the standard deviation; without standardisation the scale is 1
    step = _NUDGE * np.minimum(table.scale, half_range)
    step[table.categorical] = 0.0
    return np.clip(Z + step * rng.uniform(0.5, 1.0, Z.shape), low, high)


def _uniform_rows(table: Table, Z: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    low, high = Z.min(axis=0), Z.max(axis=0)
    t = rng.random((count, Z.shape[1]))
    rows = np.clip((1 - t) * low + t * high, low, high)  # rounding may leave the range, of a constant column above all
    for j in table.categorical:
        rows[:, j] = rng.choice(np.unique(Z[:, j]), size=count)  # a declared category may be unknown to the model
    return np.asarray(rows, dtype=np.float64)


def _class_name(model: Model, index: int) -> str:
    return repr(model.classes.tolist()[index])
