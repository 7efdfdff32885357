"""The points on a shortest way: a circle, all ways of small graphs, pieces, and what is refused."""

import itertools

import numpy as np
import pytest

from gpec.errors import InputError, ParameterTypeError
from gpec.geometry import GeodesicGraph


@pytest.fixture(scope="module")
def circle():
    angle = 2 * np.pi * np.arange(40) / 40
    return GeodesicGraph.build(np.column_stack((np.cos(angle), np.sin(angle))), n_neighbors=2)


def test_the_way_on_a_circle_is_the_shorter_arc(circle):
    np.testing.assert_array_equal(circle.path(3, 9), np.arange(3, 10))
    np.testing.assert_array_equal(circle.path(9, 3), np.arange(3, 10)[::-1])
    np.testing.assert_array_equal(circle.path(2, 37), [2, 1, 0, 39, 38, 37])


def test_the_way_from_a_point_to_itself_is_that_point(circle):
    np.testing.assert_array_equal(circle.path(7, 7), [7])


def test_no_other_way_through_a_small_graph_is_shorter():
    points = np.random.default_rng(0).normal(size=(7, 2))
    graph = GeodesicGraph.build(points, n_neighbors=2, components="bridge")
    edge = np.where(graph.adjacency.toarray() > 0, graph.adjacency.toarray(), np.inf)
    for start, stop in itertools.permutations(range(7), 2):
        between = [p for p in range(7) if p not in (start, stop)]
        ways = [(start, *w, stop) for k in range(6) for w in itertools.permutations(between, k)]
        shortest = min(ways, key=lambda way: sum(edge[a, b] for a, b in itertools.pairwise(way)))
        assert tuple(graph.path(start, stop).tolist()) == shortest


def test_the_way_is_as_long_as_the_distance_also_where_landmarks_are_few():
    points = np.random.default_rng(1).normal(size=(300, 3))
    graph = GeodesicGraph.build(points, n_neighbors=6, n_landmarks=5)
    start = int(graph.landmarks[0])
    for stop in (10, 150, 299):
        way = graph.path(start, stop)
        length = np.linalg.norm(np.diff(points[way], axis=0), axis=1).sum()
        assert length == pytest.approx(graph.distances[0, stop], rel=1e-12)


def test_points_of_different_pieces_have_no_way():
    graph = GeodesicGraph.build([[0.0], [1.0], [10.0], [11.0]], n_neighbors=1)
    with pytest.raises(InputError, match=r"0 and 2 lie on different pieces.*one piece"):
        graph.path(0, 2)


@pytest.mark.parametrize(
    ("ends", "error"), [((0, 40), InputError), ((-1, 3), InputError), ((0.5, 3), ParameterTypeError)]
)
def test_what_is_no_point_is_refused(circle, ends, error):
    with pytest.raises(error, match=r"start|stop"):
        circle.path(*ends)
