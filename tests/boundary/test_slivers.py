"""Which changes of class along a path are boundary points: those between classes that last for a while."""

import numpy as np
import pytest

from gpec.boundary._search import bisect
from gpec.boundary._search_scale import SearchScale
from gpec.data import Schema
from gpec.models import Model

WIDTH, PERIOD, CHANGE = 0.05, 1.0, 6.03


def striped(rows):
    """The class changes at 6.03, and for a twentieth of a unit after each whole number away from it."""
    x = rows[:, 0]
    sliver = (np.mod(x, PERIOD) < WIDTH) & (np.abs(x - CHANGE) > 0.5)
    return ((x > CHANGE) ^ sliver) * 1.0


def crossings(clear, unit):
    """Where paths of length 10 are found to cross; all lengths times ``unit``."""
    rng = np.random.default_rng(0)
    A, B = (unit * np.column_stack((start + 0.3 * rng.random(300), np.zeros(300))) for start in (0.1, 10.1))
    schema, Z = Schema.learn(np.concatenate((A, B)), standardize=False)
    model = Model(lambda rows: striped(rows / unit), schema)
    model.labels(Z)
    search_scale = SearchScale(unit, 1e-6 * unit, clear * unit)
    sample, _ = bisect(model, A, B, np.zeros(300, dtype=np.int64), search_scale, rng)
    assert len(sample) == 300
    return sample.points[:, 0] / unit


@pytest.mark.parametrize("unit", [0.5, 1.0, 2.5, 1e-3])
@pytest.mark.parametrize("clear", [0.2, 0.4])
def test_slivers_of_less_than_half_that_length_are_passed_over(clear, unit):
    np.testing.assert_allclose(crossings(clear, unit), CHANGE, atol=1e-5)


@pytest.mark.parametrize("unit", [0.5, 1.0, 2.5, 1e-3])
@pytest.mark.parametrize("clear", [0.04, 1e-4])
def test_classes_that_last_longer_are_not(clear, unit):
    x = crossings(clear, unit)
    assert 0.02 < (np.abs(x - CHANGE) > 0.4).mean() < 0.5
    offset = np.mod(x + 0.5, PERIOD) - 0.5
    near = np.abs(x - CHANGE) < 1e-5
    assert (near | (np.abs(offset) < 1e-5) | (np.abs(offset - WIDTH) < 1e-5)).all()
