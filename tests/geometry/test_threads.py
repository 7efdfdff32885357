"""Geodesics on several threads: the same bits for any number, and those of SciPy."""

import numba
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from sklearn.cluster import kmeans_plusplus

from gpec.errors import InputError
from gpec.geometry import GeodesicGraph, _dijkstra
from gpec.geometry._geodesic import _spread_out, shortest_paths
from gpec.geometry._neighbors import exact_neighbors


def graphs():
    rng = np.random.default_rng(0)
    yield GeodesicGraph.build(rng.normal(size=(400, 4)), n_neighbors=5).adjacency
    pieces = np.vstack((rng.normal(size=(150, 3)), rng.normal(size=(70, 3)) + 30.0, [[99.0, 0.0, 0.0]]))
    yield GeodesicGraph.build(pieces, n_neighbors=3).adjacency
    yield GeodesicGraph.build(np.arange(300.0)[:, None], n_neighbors=2).adjacency  # ties, and a long way
    yield csr_array((1, 1), dtype=np.float64)


GRAPHS = list(graphs())


@pytest.fixture
def compiling(monkeypatch):
    monkeypatch.setattr(_dijkstra, "_WORTH_COMPILING", 0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_compiled_paths_have_the_bits_of_scipys(graph, compiling):
    sources = np.arange(graph.shape[0])[::-1].copy()
    found = shortest_paths(graph, sources)
    np.testing.assert_array_equal(found, dijkstra(graph, indices=sources))
    for n_jobs in (1, 2, 3):
        assert shortest_paths(graph, sources, n_jobs=n_jobs).tobytes() == found.tobytes()


@pytest.mark.parametrize("graph", GRAPHS)
def test_what_is_compiled_does_so_in_python_too(graph):
    sources = np.arange(0, graph.shape[0], 29)
    out = np.empty((len(sources), graph.shape[0]))
    _dijkstra.search(graph.data, graph.indices, graph.indptr, sources, out)
    np.testing.assert_array_equal(out, dijkstra(graph, indices=sources))


def test_a_graph_that_cannot_be_written_to(compiling):
    graph = GRAPHS[0].copy()
    for part in (graph.data, graph.indices, graph.indptr):
        part.setflags(write=False)
    np.testing.assert_array_equal(shortest_paths(graph, np.arange(3)), dijkstra(graph, indices=np.arange(3)))


def test_no_folder_for_compiled_code(compiling, monkeypatch):
    original = numba.njit

    def nowhere(signature, *, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return original(signature, **options)

    monkeypatch.setattr(numba, "njit", nowhere)
    _dijkstra._compiled.cache_clear()
    try:
        np.testing.assert_array_equal(
            shortest_paths(GRAPHS[0], np.arange(5)), dijkstra(GRAPHS[0], indices=np.arange(5))
        )
    finally:
        _dijkstra._compiled.cache_clear()


def test_few_sources_are_not_compiled(monkeypatch):
    monkeypatch.setattr(_dijkstra, "_compiled", lambda: pytest.fail("compiled"))
    shortest_paths(GRAPHS[0], np.arange(400))


@pytest.mark.parametrize("D", [3, 20])
def test_neighbours_do_not_depend_on_threads(D):
    points = np.random.default_rng(1).normal(size=(1_300, D))
    indices, distances = exact_neighbors(points, 6)
    for n_jobs in (1, 2, 3):
        some = exact_neighbors(points, 6, n_jobs)
        np.testing.assert_array_equal(some[0], indices)
        assert some[1].tobytes() == distances.tobytes()


def test_a_point_is_no_neighbour_of_its_own_where_distances_round_to_zero():
    points = np.random.default_rng(2).normal(size=(40, 3)) * 1e-170
    indices, distances = exact_neighbors(points, 4)
    assert indices.shape == (40, 4)
    assert not (indices == np.arange(40)[:, None]).any()
    assert not distances.any()


@pytest.mark.parametrize(("J", "D", "count"), [(500, 2, 50), (3_000, 12, 400)])
def test_landmarks_are_those_of_scikit_learn(J, D, count):
    points = np.random.default_rng(3).normal(size=(J, D))
    theirs = kmeans_plusplus(points, count, random_state=np.random.RandomState(5))[1]
    np.testing.assert_array_equal(_spread_out(points, count, np.random.RandomState(5)), theirs)


def test_a_graph_on_other_threads_keeps_what_it_knows(monkeypatch):
    graph = GeodesicGraph.build(np.random.default_rng(4).normal(size=(200, 3)), n_landmarks=50)
    assert graph.on_threads(None) is graph
    assert "distances" not in vars(graph.on_threads(2))
    distances, median = graph.distances, graph.median_distance
    twin = graph.on_threads(2)
    assert twin.n_jobs == 2
    assert twin.distances is distances
    assert vars(twin)["median_distance"] == median
    assert graph.n_jobs is None


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two", True])
def test_what_is_no_number_of_threads_is_refused(n_jobs):
    with pytest.raises(InputError, match=r"n_jobs=.* must be None or a whole number other than 0"):
        GeodesicGraph.build([[0.0], [1.0]], n_jobs=n_jobs)
