"""Coverage in the worst region.

Good coverage over all rows may hide a region with poor coverage. Here the regions are slabs ``{x: a <= v'x <= b}``
(Cauchois, Gupta & Duchi 2021). The worst of many slabs looks bad by chance alone, so it is chosen on one half of the
rows and measured on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpec._validation import check_count, check_finite_array, check_positive
from gpec.errors import InputError
from gpec.metrics._arrays import check_weights, rows_first
from gpec.runtime.randomness import make_seed, stream
from gpec.typing import BoolArray, FloatArray, IntArray

_BLOCK = 2**20  # projections that are held at once
_ROUNDING = 1e-12  # coverages and weights that differ by less are equal
_ABOVE = 1e-9  # far more than rounding, far less than a coverage that matters


def worst_slab_coverage(
    X: Any,
    truth: Any,
    lower: Any,
    upper: Any,
    *,
    share: float = 0.2,
    n_directions: int = 1000,
    by_feature: bool = False,
    weights: Any = None,
    random_state: Any = 0,
) -> float | FloatArray:
    """Coverage among the rows of the worst slab, the set of rows x with ``a <= v'x <= b``.

    The rows are halved at random. Of all slabs that hold at least ``share`` of the first half, the one with the least
    coverage there is chosen, among equals the one with most rows; the result is its coverage in the second half. So
    intervals that cover equally well everywhere score their coverage, apart from chance. Average over several
    ``random_state`` for a steadier figure.

    Directions v are each column alone and ``n_directions`` random ones, for which columns are divided by their
    standard deviation.

    Parameters
    ----------
    X : array of shape (n, p)
        The rows, as finite numbers.
    truth, lower, upper : arrays of one shape, (n,), (n, d) or (n, d, c)
        True values and bounds. There is one slab for all of them, and its coverage is the share of all entries of its
        rows that lie between their bounds.
    share : float
        Share of the rows that a slab must hold, greater than 0 and at most 1.
    n_directions : int
        Number of random directions.
    by_feature : bool
        Let each feature and output have a worst slab of its own, as if it were given alone, and return an array of
        shape ``(d,)`` or ``(d, c)``.
    weights : array of shape (n,), optional
        Weight of each row, such as a count.
    random_state : int, Generator, RandomState or None
        Source of the halves and directions.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.metrics import coverage, worst_slab_coverage
    >>> x = np.arange(1000.0)
    >>> truth = np.where(x < 250, 2.0, 0.0)  # outside, for a quarter of the rows
    >>> lower, upper = np.full(1000, -1.0), np.full(1000, 1.0)
    >>> coverage(truth, lower, upper)
    0.75
    >>> worst_slab_coverage(x[:, None], truth, lower, upper)
    0.0
    """
    y, low, high = rows_first(truth=truth, lower=lower, upper=upper)
    rows = check_finite_array("X", X)
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(f"X has the shape {rows.shape}; it must have rows and columns.")
    if len(rows) != len(y):
        raise InputError(f"X has {len(rows)} rows and truth has {len(y)}; both need the same number.")
    if len(y) < 2:
        raise InputError("X has 1 row; at least 2 are needed, as the rows are halved.")
    if check_positive("share", share) > 1:
        raise InputError(f"share={share!r} must be greater than 0 and at most 1.")
    check_count("n_directions", n_directions, least=0)
    w = check_weights(weights, (len(y),))
    seed = make_seed(random_state)
    covered = ((low <= y) & (y <= high)).reshape(len(y), -1).astype(np.float64)
    hits = covered if by_feature else covered.mean(axis=1, keepdims=True)

    order = stream(seed, "slab halves").permutation(len(y))
    chosen, measured = order[: len(y) // 2], order[len(y) // 2 :]
    everything = w[chosen].sum()
    worst = [_Slab(_mean(column, w[chosen]), everything) for column in hits[chosen].T]
    inside = np.ones((len(worst), len(measured)), dtype=np.bool_)
    for projections in _projections(rows, n_directions, seed):
        lines = _sort(projections[:, chosen], w[chosen], share)
        places = projections[:, measured]
        for i, column in enumerate(hits[chosen].T):
            slab = _worst(lines, column, worst[i])
            if slab is not worst[i]:
                worst[i] = slab
                inside[i] = (slab.first <= places[slab.line]) & (places[slab.line] <= slab.last)
    result = [_mean(column, w[measured] * held) for column, held in zip(hits[measured].T, inside, strict=True)]
    return np.array(result).reshape(y.shape[1:]) if by_feature and y.ndim > 1 else result[0]


def _mean(values: FloatArray, weights: FloatArray) -> float:
    total = weights.sum()
    if total == 0:
        raise InputError("One half has no row of the slab; give more rows or a larger share.")
    return float((weights * values).sum() / total)


def _projections(rows: FloatArray, n_directions: int, seed: int) -> Iterator[FloatArray]:
    """Every row's place along each direction, ``(directions, n)``, a block of directions at a time."""
    distinct, row = np.unique(_standardised(rows), axis=0, return_inverse=True)
    p = rows.shape[1]
    random = stream(seed, "slab directions").normal(size=(n_directions if p > 1 else 0, p))
    directions = np.concatenate([np.eye(p), random])
    step = max(1, _BLOCK // len(rows))
    for first in range(0, len(directions), step):
        # Equal rows get the same place, to the last bit.
        yield (directions[first : first + step] @ distinct.T)[:, row.ravel()]


def _standardised(rows: FloatArray) -> FloatArray:
    """Columns of mean 0 and standard deviation 1; a constant column is 0."""
    greatest = np.abs(rows).max(axis=0)  # first, so that squares neither overflow nor vanish
    scaled = rows / np.where(greatest > 0, greatest, 1.0)
    scaled -= scaled.mean(axis=0)
    spread = scaled.std(axis=0)
    return np.asarray(scaled / np.where(spread > 0, spread, 1.0))


class _Slab(NamedTuple):
    coverage: float
    weight: float
    line: int = 0
    first: float = -np.inf
    last: float = np.inf

    def is_worse_than(self, other: _Slab) -> bool:
        """Less coverage, or as little in more rows."""
        same = abs(self.coverage - other.coverage) <= _ROUNDING
        return self.weight > other.weight * (1 + _ROUNDING) if same else self.coverage < other.coverage


@dataclass(frozen=True, eq=False)
class _Lines:
    """Rows sorted along some directions. Cut i lies before the i-th row; a slab is what lies between two cuts."""

    places: FloatArray  # (m, n)
    order: IntArray  # (m, n)
    weights: FloatArray  # (n,)
    before: FloatArray  # (m, n + 1), the weight before each cut
    possible: BoolArray  # (m, n + 1), False between rows at the same place
    latest: IntArray  # (m, n + 1), the last cut at which a slab that ends here may begin; -1 if there is none


def _sort(projections: FloatArray, weights: FloatArray, share: float) -> _Lines:
    order = np.argsort(projections, axis=1)
    places = np.take_along_axis(projections, order, axis=1)
    before = _sums(weights[order])
    apart = np.diff(places, axis=1) > 0
    ends = np.ones((len(places), 1), dtype=np.bool_)
    needed = share * weights.sum() * (1 - _ROUNDING)
    latest = np.array([np.searchsorted(line, line - needed, side="right") - 1 for line in before])
    return _Lines(places, order, weights, before, np.concatenate([ends, apart, ends], axis=1), latest)


def _sums(values: FloatArray) -> FloatArray:
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _worst(lines: _Lines, hits: FloatArray, known: _Slab) -> _Slab:
    """The worst slab along these lines, or the known one if none is worse.

    A slab covers less than some bound if ``hits - bound * weight`` is negative in it. The slab where this is least sets
    the next bound (Dinkelbach 1967), until none is worse; a few rounds suffice. The bound lies a little above the least
    coverage known, so that a greater slab which is equally bad is found too.
    """
    hit = _sums((lines.weights * hits)[lines.order])
    ends = lines.possible & (lines.latest >= 0)
    while True:
        excess = hit - (known.coverage + _ABOVE) * lines.before
        starts = np.where(lines.possible, excess, -np.inf)
        highest = np.take_along_axis(np.maximum.accumulate(starts, axis=1), np.maximum(lines.latest, 0), axis=1)
        line, end = np.unravel_index(np.argmin(np.where(ends, excess - highest, np.inf)), ends.shape)
        start = np.argmax(starts[line, : lines.latest[line, end] + 1])
        weight = lines.before[line, end] - lines.before[line, start]
        coverage = (hit[line, end] - hit[line, start]) / weight
        first, last = lines.places[line, [start, end - 1]]
        candidate = _Slab(float(coverage), float(weight), int(line), float(first), float(last))
        if not candidate.is_worse_than(known):
            return known
        known = candidate
