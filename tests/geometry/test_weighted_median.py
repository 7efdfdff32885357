"""The weighted median is that of the numbers repeated, however many there are."""

import numpy as np
import pytest

from gpec.geometry._geodesic import weighted_median

RNG = np.random.default_rng(0)
NUMBERS = {
    "few": RNG.normal(size=101),
    "many": RNG.exponential(size=30_001),
    "an even number": RNG.normal(size=40_000),
    "ties": RNG.integers(0, 5, 30_000).astype(float),
    "two values": np.repeat([1.0, 2.0], 15_000),
    "all the same": np.full(25_000, 3.0),
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("largest", [1, 2, 30])
def test_it_is_the_median_of_repeated_numbers(numbers, largest):
    values = NUMBERS[numbers]
    weights = np.random.default_rng(largest).integers(1, largest + 1, len(values)).astype(float)
    assert weighted_median(values, weights) == np.median(np.repeat(values, weights.astype(int)))


def test_numbers_whose_evenly_spaced_part_misleads():
    values = np.where(np.arange(30_000) % 3 == 0, 1.0, 10.0) + np.random.default_rng(1).uniform(size=30_000)
    assert weighted_median(values, np.ones(30_000)) == np.median(values)
    assert weighted_median(-values, np.ones(30_000)) == np.median(-values)


def test_one_heavy_number():
    values, weights = np.random.default_rng(2).normal(size=30_000), np.ones(30_000)
    weights[17] = 1e6
    assert weighted_median(values, weights) == values[17]
