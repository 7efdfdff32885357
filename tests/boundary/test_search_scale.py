"""The unit of raw rows is taken from a part of them where there are many."""

import numpy as np
import pytest

from gpec.boundary._search_scale import SearchScale
from gpec.data import Schema


@pytest.mark.parametrize("n", [500, 2_000, 4_100, 10_000, 40_000])
def test_the_unit_is_that_of_all_rows(n):
    X = 7.0 * np.random.default_rng(n).normal(size=(n, 3)) + 100.0
    schema, Z = Schema.learn(X, standardize=False)
    search_scale = SearchScale.of(schema, Z, 1e-6)
    unit = np.median(np.linalg.norm(X - np.median(X, axis=0), axis=1)) / np.sqrt(3)
    assert search_scale.unit == pytest.approx(unit, rel=0.05 if n > 2_000 else 1e-9)
    assert search_scale.tolerance == pytest.approx(1e-6 * search_scale.unit)
    assert SearchScale.of(Schema.learn(X)[0], Z, 1e-6).unit == 1.0
