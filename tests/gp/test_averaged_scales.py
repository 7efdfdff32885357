"""The scales over which the mean is taken."""

import numpy as np
import pytest

from gpec.gp.evidence import _average_scale

GRID = np.geomspace(1e-4, 10.0, 24)


@pytest.mark.parametrize("best", [1e-6, 1e-4, 10.0, 37.0])
def test_a_best_scale_beyond_the_range_leaves_the_grid_as_it_is(best):
    """Where nothing is known of the scale, its root is equally likely to be anything."""
    seen = []

    def flat(t, nugget):
        seen.append(t)
        return np.zeros(1)

    mean, _ = _average_scale(flat, np.array([best]), np.ones(1))
    np.testing.assert_allclose(np.concatenate(seen), GRID)
    np.testing.assert_allclose(mean, (GRID**1.5).sum() / (GRID**0.5).sum())


@pytest.mark.parametrize("best", [2e-4, 0.3, 9.0])
def test_a_best_scale_within_the_range_is_one_of_the_grid(best):
    seen = []

    def flat(t, nugget):
        seen.append(t)
        return np.zeros(1)

    _average_scale(flat, np.array([best]), np.ones(1))
    nodes = np.concatenate(seen)
    assert np.abs(nodes / best - 1).min() < 1e-12
    np.testing.assert_allclose(nodes[1:] / nodes[:-1], GRID[1] / GRID[0])


def test_a_sharp_likelihood_leaves_its_best_scale():
    best = np.array([0.3, 0.02])
    mean, nugget = _average_scale(lambda t, _: 1e6 * np.log(t / best) ** 2, best, np.array([0.5, 2.0]))
    np.testing.assert_allclose(mean, best)
    np.testing.assert_allclose(nugget, [0.5, 2.0])
