"""Nearest neighbours: exact, and by a forest of random projections."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gpec.geometry._neighbors import approximate_neighbors, exact_neighbors


def brute_force(points, k):
    gap = cdist(points, points)
    np.fill_diagonal(gap, np.inf)
    return np.argsort(gap, axis=1)[:, :k], np.sort(gap, axis=1)[:, :k]


def recall(found, true):
    return np.mean([np.isin(a, b).mean() for a, b in zip(found, true, strict=True)])


@pytest.mark.parametrize("D", [2, 12, 30])  # 30: scikit-learn leaves its trees for brute force
def test_exact_neighbors_are_the_k_nearest_besides_the_point_itself(D):
    points = np.random.default_rng(D).normal(size=(300, D))
    indices, distances = exact_neighbors(points, 7)
    true_indices, true_distances = brute_force(points, 7)
    assert indices.shape == distances.shape == (300, 7)
    assert not (indices == np.arange(300)[:, None]).any()
    np.testing.assert_array_equal(np.sort(indices, axis=1), np.sort(true_indices, axis=1))
    np.testing.assert_allclose(distances, true_distances, rtol=1e-7)


def test_approximate_neighbors_recall_on_a_surface_in_12_dimensions():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(8_000, 12))
    points[:, 0] = 0.3 * points[:, 1] ** 2 - 0.2 * points[:, 2]  # a boundary: one equation holds
    true, _ = exact_neighbors(points, 10)
    found, distances = approximate_neighbors(points, 10, np.random.default_rng(0))
    assert recall(found, true) >= 0.95
    np.testing.assert_allclose(distances, np.linalg.norm(points[found] - points[:, None], axis=2), rtol=1e-6)


def test_approximate_neighbors_are_distinct_sorted_and_not_the_point_itself():
    points = np.random.default_rng(2).normal(size=(1_300, 5))
    indices, distances = approximate_neighbors(points, 8, np.random.default_rng(0))
    assert (np.diff(distances, axis=1) >= 0).all()
    assert np.isfinite(distances).all()
    assert not (indices == np.arange(1_300)[:, None]).any()
    assert all(len(set(row)) == 8 for row in indices.tolist())


def test_more_trees_find_more():
    points = np.random.default_rng(3).normal(size=(3_000, 12))
    true, _ = exact_neighbors(points, 10)
    few, many = (recall(approximate_neighbors(points, 10, np.random.default_rng(0), n)[0], true) for n in (1, 6))
    assert few < many - 0.1


def test_the_look_at_neighbours_of_neighbours_pays(monkeypatch):
    points = np.random.default_rng(4).normal(size=(3_000, 12))
    true, _ = exact_neighbors(points, 10)
    refined = recall(approximate_neighbors(points, 10, np.random.default_rng(0), 3)[0], true)
    monkeypatch.setattr("gpec.geometry._neighbors._refine", lambda points, indices, distances, k: (indices, distances))
    plain = recall(approximate_neighbors(points, 10, np.random.default_rng(0), 3)[0], true)
    assert plain < refined - 0.05


@pytest.mark.parametrize(("J", "k"), [(20, 5), (20, 19), (511, 5), (512, 65), (512, 128), (512, 300), (700, 150)])
def test_few_points_or_many_neighbours_are_searched_exactly(J, k):
    points = np.random.default_rng(5).normal(size=(J, 3))
    indices, distances = approximate_neighbors(points, k, np.random.default_rng(0))
    true_indices, true_distances = brute_force(points, k)
    np.testing.assert_array_equal(np.sort(indices, axis=1), np.sort(true_indices, axis=1))
    np.testing.assert_allclose(distances, true_distances, rtol=1e-9)


def test_approximate_neighbors_repeat_with_the_seed():
    points = np.random.default_rng(6).normal(size=(900, 4))
    once, again = (approximate_neighbors(points, 6, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(once[0], again[0])
    np.testing.assert_array_equal(once[1], again[1])
