"""Pairs of rows with opposite predicted classes, the most useful for bisection first."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from sklearn.neighbors import NearestNeighbors

from gpec.typing import FloatArray, IntArray

_FURTHEST_PARTNER = 10
_ENUMERATED = 500_000
_CHUNK = 4_096


class PairStream:
    """Distinct pairs ``(inside, outside)``, drawn on demand.

    ``nearest``: every row with its nearest row on the other side, then with its second, third, ... partner, then random
    pairs. ``random``: random pairs only. No pair comes twice, and the stream ends when there are no more.

    Where only one numeric column varies, ``line`` holds its values. Then only neighbours on that line can lead to
    different points. A missing value is a neighbour of every number.
    """

    def __init__(
        self,
        E: FloatArray,
        inside: IntArray,
        outside: IntArray,
        *,
        nearest: bool,
        rng: np.random.Generator,
        line: FloatArray | None = None,
    ) -> None:
        if line is not None:
            batches: Iterator[IntArray] = iter((_line_pairs(line, inside, outside, rng),))
        else:
            near = _nearest_pairs(E, inside, outside, rng) if nearest else iter(())
            batches = chain(near, _random_pairs(inside, outside, rng))
        self._pairs = _distinct(batches)

    def take(self, count: int) -> IntArray:
        """Up to ``count`` further pairs; fewer only when the stream is exhausted."""
        return np.array(list(islice(self._pairs, count)), dtype=np.int64).reshape(-1, 2)


def _distinct(batches: Iterator[IntArray]) -> Iterator[tuple[int, ...]]:
    seen: set[tuple[int, ...]] = set()
    for batch in batches:
        for pair in map(tuple, batch.tolist()):
            if pair not in seen:
                seen.add(pair)
                yield pair


def _line_pairs(line: FloatArray, inside: IntArray, outside: IntArray, rng: np.random.Generator) -> IntArray:
    is_inside = np.zeros(len(line), dtype=bool)
    is_inside[inside] = True
    missing = np.flatnonzero(np.isnan(line))
    order = np.argsort(line)[: len(line) - len(missing)]
    left = np.concatenate((order[:-1], np.tile(order, len(missing))))
    right = np.concatenate((order[1:], np.repeat(missing, len(order))))
    across = is_inside[left] != is_inside[right]
    left, right = left[across], right[across]
    pairs = np.column_stack((np.where(is_inside[left], left, right), np.where(is_inside[left], right, left)))
    return rng.permutation(pairs)


def _nearest_pairs(E: FloatArray, inside: IntArray, outside: IntArray, rng: np.random.Generator) -> Iterator[IntArray]:
    sides = (inside, outside)
    search = [NearestNeighbors().fit(E[side]) for side in sides]
    side_of = np.zeros(len(E), dtype=np.int64)
    side_of[outside] = 1
    rows = rng.permutation(np.concatenate(sides))

    def partners(chunk: IntArray, rank: int) -> Iterator[IntArray]:
        for own in (0, 1):
            own_rows, other = chunk[side_of[chunk] == own], sides[1 - own]
            if len(own_rows) and rank < len(other):
                found = other[search[1 - own].kneighbors(E[own_rows], rank + 1, return_distance=False)[:, rank]]
                yield np.column_stack((own_rows, found) if own == 0 else (found, own_rows))

    for rank in range(_FURTHEST_PARTNER):
        for start in range(0, len(rows), _CHUNK):
            both = list(partners(rows[start : start + _CHUNK], rank))
            if both:
                yield rng.permutation(np.concatenate(both))


def _random_pairs(inside: IntArray, outside: IntArray, rng: np.random.Generator) -> Iterator[IntArray]:
    total = len(inside) * len(outside)
    if total <= _ENUMERATED:
        order = rng.permutation(total)
        for start in range(0, total, _CHUNK):
            first, second = np.divmod(order[start : start + _CHUNK], len(outside))
            yield np.column_stack((inside[first], outside[second]))
        return
    for _ in range(total // _CHUNK):
        yield np.column_stack((rng.choice(inside, _CHUNK), rng.choice(outside, _CHUNK)))
