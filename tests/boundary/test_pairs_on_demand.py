"""Pairs are drawn when they are asked for, not before."""

import numpy as np
import pytest

from gpec.boundary import _pairs
from gpec.boundary._pairs import PairStream

SIDES = np.arange(20), np.arange(20, 40)


@pytest.mark.parametrize(("count", "batches"), [(1, 1), (7, 1), (8, 2), (50, 8)])
def test_no_more_batches_than_are_needed(monkeypatch, count, batches):
    """Of seven pairs each, so that the number asked for is rarely met exactly."""
    drawn = []

    def by_seven(inside, outside, rng):
        for i in range(20):
            drawn.append(i)
            yield np.column_stack((np.full(7, inside[i]), outside[:7]))

    monkeypatch.setattr(_pairs, "_random_pairs", by_seven)
    source = PairStream(np.zeros((40, 1)), *SIDES, nearest=False, rng=np.random.default_rng(0))
    taken = source.take(count)
    assert len(taken) == count
    assert len(drawn) == batches
    further = source.take(batches * 7 - count)  # what is left of the last batch comes next
    assert len(drawn) == batches
    assert len({(int(a), int(b)) for a, b in np.concatenate((taken, further))}) == batches * 7
