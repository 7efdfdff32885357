"""Decision Boundary Point Search: bisection of many pairs of rows with opposite classes, all at the same time."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from gpec._validation import check_choice, check_count, check_positive
from gpec.boundary._jitter import Jitter
from gpec.boundary._pairs import PairStream
from gpec.boundary._search import Collection, SearchScale, bisect
from gpec.boundary._walk import walk
from gpec.boundary.base import LEAST_POINTS, BoundarySample, Sampler, require_every_class
from gpec.data import Schema, same_values
from gpec.errors import BoundaryNotFoundError, FewBoundaryPointsWarning, InputError
from gpec.models import Model
from gpec.runtime.progress import progress_bar
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

_LEAST_PAIRS = 64
_MAX_EMPTY_ROUNDS = 5
_BOX_ROUNDS = 20
_CHECKS = 7  # model rows for each pair, on average
_DIRECTION_ROWS = 256  # that the jitter looks at, if it needs no second look


@dataclass(eq=False, repr=False)
class BisectionSampler(Sampler):
    """Sample a decision boundary by bisection between rows of opposite predicted class (DBPS).

    Parameters
    ----------
    pairing : {"nearest", "random"}
        "nearest" pairs each row with the nearest row of the other class, which samples the boundary near the data. When
        these pairs are used up, further partners follow, then random pairs. "random" pairs rows randomly.
    rows : {"data", "box"}
        Take the rows from the data, or draw them uniformly from its bounding box.
    tolerance : float
        Longest final bracket, in standardised units; without standardisation, as a fraction of the spread of the data.
    n_walk : int
        Number of random steps that move each partner towards its row before bisection (:mod:`gpec.boundary._walk`). In
        many dimensions this finds boundary points closer to the data. Each step costs one model row for each pair. 0
        bisects between the unchanged rows.

    Notes
    -----
    A value that is missing in both rows of a pair is missing on the whole path; one that is missing in one row switches
    like a category. With one feature there are few boundary points: one for each change of class between neighbouring
    values.

    All pairs advance together, with one model call for each step. With nearest pairs about 1 standardised unit apart, a
    point costs about 24 model rows at the default tolerance, and 4 more to check it. At most
    ``max(10 * n_boundary, 20_000)`` rows of the data are used, unless they all have the same class.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.boundary import BisectionSampler
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> sample = BisectionSampler().sample(lambda X: (X[:, 0] > 0.25) * 1.0, X, 50, random_state=0)
    >>> len(sample), bool(np.allclose(sample.points[:, 0], 0.25, atol=1e-6))
    (50, True)
    """

    pairing: Literal["nearest", "random"] = "nearest"
    rows: Literal["data", "box"] = "data"
    tolerance: float = 1e-6
    n_walk: int = 0

    def check(self) -> None:
        check_choice("pairing", self.pairing, ("nearest", "random"))
        check_choice("rows", self.rows, ("data", "box"))
        check_positive("tolerance", self.tolerance)
        check_count("n_walk", self.n_walk, least=0)

    def draw(
        self, model: Model, Z: FloatArray, n_boundary: int, *, seed: int, progress: Literal["auto"] | bool = "auto"
    ) -> BoundarySample:
        self.check()
        refuse_values(self, model)
        rows_before = model.n_rows
        search_scale = SearchScale.of(model.schema, Z, self.tolerance)
        candidates, labels = self._candidates(model, Z, n_boundary, search_scale, stream(seed, "boundary rows"))
        _require_classes(model, labels)
        found = self._between(model, candidates, labels, n_boundary, search_scale, seed, progress)
        return replace(found, n_model_rows=model.n_rows - rows_before)

    def model_rows(self, model: Model, Z: FloatArray, n_boundary: int) -> float:
        """Halvings of each bracket to the tolerance, and a few to check it; with several classes points are shared."""
        pairs = n_boundary if model.n_outputs == 1 else 2 * n_boundary * model.n_outputs // 3
        each = self.n_walk + max(0.0, -np.log2(self.tolerance)) + _CHECKS
        return float(min(len(Z), _enough_rows(n_boundary)) + _DIRECTION_ROWS + max(pairs, _LEAST_PAIRS) * each)

    def _between(
        self,
        model: Model,
        candidates: FloatArray,
        labels: IntArray,
        n_boundary: int,
        search_scale: SearchScale,
        seed: int,
        progress: Literal["auto"] | bool,
        where: str = "",
        key: tuple[int, ...] = (),
    ) -> BoundarySample:
        """Points between candidates of different labels; ``where`` names the boundary, ``key`` its random stream."""
        embedded = model.schema.embed(candidates)
        varying = np.flatnonzero(~same_values(candidates, candidates[:1]).all(axis=0))
        one_column = len(varying) == 1
        line = candidates[:, varying[0]] if one_column and varying[0] in model.schema.continuous else None
        sources = [
            PairStream(
                embedded,
                np.flatnonzero(labels == y),
                np.flatnonzero(labels != y),
                nearest=self.pairing == "nearest",
                rng=stream(seed, "boundary pairs", y, *key),
                line=line,
            )
            for y in range(model.n_outputs)
        ]
        rng = stream(seed, "boundary search", *key)
        found = Collection(model, search_scale, n_boundary)
        empty_rounds = 0
        with progress_bar(n_boundary * model.n_outputs, "boundary", progress) as bar:
            while empty_rounds < _MAX_EMPTY_ROUNDS:
                # after a round without a new point, try more pairs
                least = _LEAST_PAIRS * 2**empty_rounds
                pairs = [(y, sources[y].take(max(count, least))) for y, count in found.missing().items()]
                if not any(len(pair) for _, pair in pairs):
                    break
                first, second = np.concatenate([pair for _, pair in pairs]).T
                label = np.concatenate([np.full(len(pair), y) for y, pair in pairs])
                A, B = candidates[first], candidates[second]
                if self.n_walk:
                    B = walk(model, A, B, label, self.n_walk, rng)
                gained = found.add(*bisect(model, A, B, label, search_scale, rng))
                bar.update(gained)
                empty_rounds = 0 if gained else empty_rounds + 1
        count, scarce = found.scarcest()
        where, least = where or scarce, 1 if one_column else LEAST_POINTS
        if count < least:
            raise BoundaryNotFoundError(
                f"Only {count} distinct boundary points were found{where}, but at least {least} are needed; pass more "
                f"rows on both sides of it, or use boundary={type(self).__name__}(rows='box')."
            )
        if count < n_boundary and not one_column:  # which has no further points
            warnings.warn(
                f"Found {count} distinct boundary points{where} instead of n_boundary={n_boundary}, because further "
                "pairs of rows give no new ones; pass more rows, or reduce n_boundary.",
                FewBoundaryPointsWarning,
                stacklevel=3,
            )
        return found.sample()

    def _candidates(
        self, model: Model, Z: FloatArray, n_boundary: int, search_scale: SearchScale, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """Rows to pair, with their predicted classes."""
        if self.rows == "box":
            rows, labels = np.empty((0, Z.shape[1])), np.empty(0, dtype=np.int64)
            for _ in range(_BOX_ROUNDS):
                block = box_rows(model.schema, Z, n_boundary, rng)
                rows, labels = np.concatenate((rows, block)), np.append(labels, model.labels(block))
                if len(np.unique(labels)) == model.n_classes:
                    break
            return rows, labels
        rows, rest, jitter = jittered_rows(model, Z, n_boundary, search_scale, rng)
        labels = model.labels(rows)
        if len(rest) and len(np.unique(labels)) < (model.n_classes or 0):
            rest = jitter.moved(_distinct(rest), rng)
            rows, labels = np.concatenate((rows, rest)), np.append(labels, model.labels(rest))
        return rows, labels


_IF_NUMBERS = " If it predicts numbers, not classes, set model_output='value'."


def _require_classes(model: Model, labels: IntArray) -> None:
    if (labels == labels[0]).all():
        raise BoundaryNotFoundError(
            f"The model predicts class {model.class_name(labels[0])} for all {len(labels)} rows tried, so no boundary "
            "lies between them; pass rows of both classes, change threshold, or use "
            f"boundary=BisectionSampler(rows='box').{_IF_NUMBERS if model.is_guess else ''}"
        )
    require_every_class(model, labels)


def refuse_values(sampler: Sampler, model: Model) -> None:
    """Raise if the model is a regressor, which has no classes."""
    if model.is_regressor:
        raise InputError(
            f"{type(sampler).__name__} searches for a change of class, and the model is a regressor; use "
            "boundary=LevelSetSampler(), or boundary='auto', which selects it."
        )


def jittered_rows(
    model: Model, Z: FloatArray, n_boundary: int, search_scale: SearchScale, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, Jitter]:
    """Distinct rows of the data with jitter, as many as are needed; the rest of the data; and the jitter."""
    order = rng.permutation(len(Z))
    enough = _enough_rows(n_boundary)
    rows, rest = Z[order[:enough]], Z[order[enough:]]
    jitter = Jitter(model.schema, Z, search_scale.unit)
    jitter.choose_way(model, rows)
    return jitter.moved(_distinct(rows), rng), rest, jitter


def _enough_rows(n_boundary: int) -> int:
    return max(10 * n_boundary, 20_000)


def box_rows(schema: Schema, Z: FloatArray, n_boundary: int, rng: np.random.Generator) -> FloatArray:
    """Distinct random rows from the bounding box; each column has the same fraction of missing values as the data."""
    count = max(2 * n_boundary, 1_000)
    low, high = np.fmin.reduce(Z), np.fmax.reduce(Z)
    t = rng.random((count, Z.shape[1]))
    rows = np.clip((1 - t) * low + t * high, low, high)  # rounding can leave the range, mainly of a constant column
    for j in schema.categorical:
        seen = np.unique(Z[:, j])
        # a declared category may be unknown to the model
        rows[:, j] = rng.choice(seen[~np.isnan(seen)] if len(seen) > 1 else seen, size=count)
    for j in np.flatnonzero(schema.missing):
        rows[rng.random(count) < np.isnan(Z[:, j]).mean(), j] = np.nan
    return _distinct(rows)


def _distinct(Z: FloatArray) -> FloatArray:
    """Rows without duplicates, whose pairs would give the same points."""
    return np.asarray(Z[~pd.DataFrame(Z).duplicated().to_numpy()], dtype=np.float64)
