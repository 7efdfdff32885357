"""The neighbour graph: closed forms, pieces, bridges, landmarks, and what it refuses."""

import numpy as np
import pytest
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist

from archive_helpers import from_tree, through_file, tree_of
from gpec.errors import CorruptFileError, InputError, ParameterTypeError
from gpec.geometry import GeodesicGraph


def two_clusters(gap=10.0, n=40, D=2, seed=0):
    rng = np.random.default_rng(seed)
    return np.vstack((rng.normal(size=(n, D)), rng.normal(size=(n, D)) + gap))


def relative_errors(graph, true, least=0.1):
    """Of all but the shortest distances, where a single edge is the answer."""
    far = true > least
    return graph.distances[far] / true[far] - 1.0


class TestNeighbours:
    @pytest.mark.parametrize("D", [3, 30])  # a tree, and all pairs
    def test_each_point_has_k_neighbours_besides_itself(self, D):
        points = np.random.default_rng(0).normal(size=(120, D))
        gap = cdist(points, points)
        np.fill_diagonal(gap, np.inf)
        nearest = np.argsort(gap, axis=1)[:, :4]
        expected = np.zeros((120, 120), dtype=bool)
        expected[np.arange(120)[:, None], nearest] = True
        expected |= expected.T  # an edge where either is a neighbour of the other
        adjacency = GeodesicGraph.build(points, n_neighbors=4).adjacency.toarray()
        np.testing.assert_array_equal(adjacency > 0, expected)
        np.testing.assert_allclose(adjacency[expected], gap[expected], rtol=1e-12)
        np.testing.assert_array_equal(adjacency, adjacency.T)

    def test_one_neighbour_means_one_and_not_the_point_itself(self):
        graph = GeodesicGraph.build([[0.0], [1.0], [10.0], [11.0]], n_neighbors=1)
        np.testing.assert_array_equal(graph.component, [0, 0, 1, 1])
        assert graph.adjacency.nnz == 4

    def test_more_neighbours_than_points_gives_the_complete_graph(self):
        points = np.random.default_rng(1).normal(size=(6, 2))
        graph = GeodesicGraph.build(points, n_neighbors=50)
        np.testing.assert_allclose(graph.distances, cdist(points, points), rtol=1e-12)

    def test_a_single_point_is_a_graph(self):
        graph = GeodesicGraph.build([[1.0, 2.0]])
        assert (len(graph), graph.n_components, graph.median_distance) == (1, 1, 1.0)
        np.testing.assert_array_equal(graph.distances, [[0.0]])

    @pytest.mark.parametrize("D", [3, 20])
    def test_a_shift_changes_nothing(self, D):
        # Raw inputs may hold dates as seconds; |a|^2 + |b|^2 - 2 a'b loses all digits there.
        points = np.round(np.random.default_rng(2).normal(size=(600, D)) * 2**20) / 2**20
        here = GeodesicGraph.build(points, n_neighbors=5, n_landmarks=50)
        there = GeodesicGraph.build(points + 2.0**30, n_neighbors=5, n_landmarks=50)
        np.testing.assert_array_equal(here.landmarks, there.landmarks)
        np.testing.assert_allclose(here.distances, there.distances, rtol=1e-6)


class TestDuplicates:
    def test_copies_are_one_node_and_are_counted(self):
        graph = GeodesicGraph.build([[2.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [2.0, -0.0]], n_neighbors=1)
        np.testing.assert_array_equal(graph.points, [[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
        np.testing.assert_array_equal(graph.multiplicity, [3, 1, 1])
        assert len(graph) == 3

    def test_many_copies_do_not_split_the_graph(self):
        line = np.column_stack((np.arange(30.0), np.zeros(30)))
        graph = GeodesicGraph.build(np.repeat(line, 25, axis=0), n_neighbors=2)
        assert graph.n_components == 1
        np.testing.assert_array_equal(graph.multiplicity, np.full(30, 25))
        np.testing.assert_allclose(graph.distances[0], np.arange(30.0), rtol=1e-12)

    def test_points_a_rounding_apart_are_one(self):
        points = np.array([[1.0, 1.0], [1.0 + 2e-16, 1.0], [1.0 - 2e-16, 1.0], [2.0, 1.0]])
        graph = GeodesicGraph.build(points, n_neighbors=3)
        np.testing.assert_array_equal(graph.points, points[[0, 3]])  # the first stands for all
        np.testing.assert_array_equal(graph.multiplicity, [3, 1])
        assert graph.distances[0, 1] == 1.0

    def test_points_whose_distance_underflows_are_one(self):
        graph = GeodesicGraph.build([[0.0, 0.0], [1e-200, 0.0], [1.0, 0.0], [1.0, 1e-200]], n_neighbors=1)
        np.testing.assert_array_equal(graph.points, [[0.0, 0.0], [1.0, 0.0]])
        np.testing.assert_array_equal(graph.multiplicity, [2, 2])

    @pytest.mark.parametrize("noise", [0.0, 1e-14, 1e-11])
    @pytest.mark.parametrize("D", [2, 40])
    def test_near_copies_do_not_split_the_graph(self, noise, D):
        rng = np.random.default_rng(20)
        line = np.linspace(0, 3, 56)[:, None] * np.ones(D) / np.sqrt(D)
        copies = np.repeat(line, 12, axis=0)
        order = rng.permutation(len(copies))
        graph = GeodesicGraph.build((copies + noise * rng.normal(size=copies.shape))[order], n_neighbors=5)
        assert graph.n_components == 1
        np.testing.assert_array_equal(graph.multiplicity, np.full(56, 12))
        place = np.argsort(graph.points[:, 0])
        np.testing.assert_allclose(graph.distances[place[0], place], np.linspace(0, 3, 56), atol=1e-8)

    def test_copies_on_both_sides_of_a_cell_wall_are_one(self):
        """Wherever the points lie, a pair within reach is joined, and one beyond it is not."""
        rng = np.random.default_rng(21)
        points = rng.normal(size=(300, 3))
        spread = np.quantile(np.linalg.norm(points - np.median(points, axis=0), axis=1), 0.9)
        way = rng.normal(size=points.shape)
        way *= 1e-9 * spread / np.linalg.norm(way, axis=1, keepdims=True)
        joined = GeodesicGraph.build(np.vstack((points, points + 0.9 * way)))
        np.testing.assert_array_equal(joined.points, points)
        np.testing.assert_array_equal(joined.multiplicity, np.full(300, 2))
        assert len(GeodesicGraph.build(np.vstack((points, points + 3.0 * way)))) == 600

    def test_a_far_point_does_not_draw_the_others_together(self):
        points = np.vstack((np.random.default_rng(22).normal(size=(100, 2)), [[1e12, 0.0]]))
        assert len(GeodesicGraph.build(points)) == 101

    def test_points_of_whole_numbers_stay_apart(self):
        points = np.array([[a, b, c] for a in range(12) for b in range(12) for c in range(12)], dtype=float)
        graph = GeodesicGraph.build(points, n_landmarks=5)
        np.testing.assert_array_equal(graph.points, points)

    def test_copies_of_a_single_point(self):
        graph = GeodesicGraph.build(np.full((7, 2), 0.1))
        assert (len(graph), graph.multiplicity.tolist(), graph.median_distance) == (1, [7], 1.0)

    def test_the_order_of_points_is_kept(self):
        points = np.random.default_rng(4).normal(size=(50, 2))
        graph = GeodesicGraph.build(points, n_neighbors=6)
        np.testing.assert_array_equal(graph.points, points)
        order = np.random.default_rng(5).permutation(50)
        moved = GeodesicGraph.build(points[order], n_neighbors=6)
        np.testing.assert_array_equal(moved.points, points[order])
        np.testing.assert_allclose(moved.distances, graph.distances[np.ix_(order, order)], rtol=1e-12)


class TestPieces:
    def test_separate_pieces_are_infinitely_far_apart(self):
        graph = GeodesicGraph.build(two_clusters(), n_neighbors=5)
        assert graph.n_components == 2
        same = graph.component[:, None] == graph.component
        np.testing.assert_array_equal(np.isfinite(graph.distances), same)

    def test_bridges_are_the_shortest_edges_between_pieces(self):
        rng = np.random.default_rng(6)
        centers = np.array([[0.0, 0.0], [9.0, 0.0], [20.0, 3.0], [4.0, 14.0], [30.0, 30.0]])
        points = np.vstack([center + rng.normal(size=(20, 2)) for center in centers])
        apart = GeodesicGraph.build(points, n_neighbors=6)
        joined = GeodesicGraph.build(points, n_neighbors=6, components="bridge")
        assert (apart.n_components, joined.n_components) == (5, 1)
        before, after = apart.adjacency.toarray(), joined.adjacency.toarray()
        np.testing.assert_array_equal(after[before > 0], before[before > 0])
        gap = cdist(points, points)
        between = np.array(
            [[gap[np.ix_(apart.component == a, apart.component == b)].min() for b in range(5)] for a in range(5)]
        )
        tree = minimum_spanning_tree(between)
        bridges = np.sort(after[np.triu((after > 0) & (before == 0))])
        np.testing.assert_allclose(bridges, np.sort(tree.data), rtol=1e-12)

    def test_bridges_join_many_pieces(self):
        points = np.arange(0.0, 200.0, 2.0)[:, None].repeat(2, axis=1)
        points = np.vstack((points, points + 0.1))
        apart = GeodesicGraph.build(points, n_neighbors=1)
        joined = GeodesicGraph.build(points, n_neighbors=1, components="bridge")
        assert (apart.n_components, joined.n_components) == (100, 1)
        assert np.isfinite(joined.distances).all()
        np.testing.assert_allclose(joined.distances, cdist(points, points), rtol=1e-9, atol=1e-9)

    def test_bridging_one_piece_changes_nothing(self):
        points = np.random.default_rng(7).normal(size=(60, 2))
        plain, bridged = (GeodesicGraph.build(points, components=how) for how in ("separate", "bridge"))
        np.testing.assert_array_equal(plain.adjacency.toarray(), bridged.adjacency.toarray())


class TestShortestPaths:
    def test_they_are_those_of_floyd_and_warshall(self):
        points = two_clusters(n=30)
        graph = GeodesicGraph.build(points, n_neighbors=3)
        expected = graph.adjacency.toarray()
        expected[expected == 0] = np.inf
        np.fill_diagonal(expected, 0.0)
        for middle in range(60):
            expected = np.minimum(expected, expected[:, [middle]] + expected[middle])
        np.testing.assert_allclose(graph.distances, expected, rtol=1e-12)

    @pytest.mark.parametrize("n_landmarks", [1, 7, 70])  # 70: more than one chunk of sources
    def test_distances_from_landmarks_are_rows_of_all_distances(self, n_landmarks):
        points = np.random.default_rng(8).normal(size=(150, 3))
        full = GeodesicGraph.build(points, n_neighbors=6)
        some = GeodesicGraph.build(points, n_neighbors=6, n_landmarks=n_landmarks)
        assert full.is_exact
        assert not some.is_exact
        assert some.distances.shape == (n_landmarks, 150)
        np.testing.assert_array_equal(some.distances, full.distances[some.landmarks])

    def test_median_distance_is_of_finite_distances_between_different_points(self):
        graph = GeodesicGraph.build([[0.0], [1.0], [3.0], [100.0], [100.5]], n_neighbors=1)
        # pieces {0, 1, 3} and {100, 100.5}: distances 1, 2, 3 and 0.5
        assert graph.median_distance == 1.5

    def test_each_landmark_counts_as_often_as_it_is_the_nearest(self):
        graph = GeodesicGraph.build(np.random.default_rng(23).normal(size=(90, 2)), n_landmarks=9)
        D = graph.distances
        nearest = D.argmin(axis=0)
        repeated = np.concatenate([row[row > 0] for row in D[nearest]])
        assert graph.median_distance == np.median(repeated)

    @pytest.mark.parametrize("n_landmarks", [40, 150, 600])
    def test_landmarks_tell_the_median_of_all_points(self, n_landmarks):
        """They lie further apart than the points; here their own median is a fifth to a half too great."""
        rng = np.random.default_rng(24)
        dense = rng.exponential(size=(1_500, 2)) ** 1.5
        points = np.vstack((dense, rng.normal(size=(60, 2)) + 40.0))  # and a piece of its own
        D = GeodesicGraph.build(points, n_landmarks=len(points)).distances
        true = np.median(D[np.isfinite(D) & (D > 0)])
        some = GeodesicGraph.build(points, n_landmarks=n_landmarks)
        own = some.distances[np.isfinite(some.distances) & (some.distances > 0)]
        assert np.median(own) > 1.15 * true
        assert abs(some.median_distance / true - 1) < 0.03

    def test_a_part_of_many_distances_tells_the_median(self, monkeypatch):
        graph = GeodesicGraph.build(np.random.default_rng(25).normal(size=(400, 2)))
        true = np.median(graph.distances[graph.distances > 0])
        monkeypatch.setattr("gpec.geometry.graph._ENTRIES_FOR_MEDIAN", 20_000)
        assert graph.median_distance != true
        assert abs(graph.median_distance / true - 1) < 0.02

    def test_the_bar_counts_each_source(self, monkeypatch):
        bars = []

        class Bar:
            def __init__(self, **options):
                self.options, self.done = options, 0
                bars.append(self)

            def update(self, amount):
                self.done += amount

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        monkeypatch.setattr("gpec.runtime.progress.tqdm", Bar)
        graph = GeodesicGraph.build(np.random.default_rng(9).normal(size=(100, 2)), progress=True)
        assert graph.distances.shape == (100, 100)
        graph.distances  # noqa: B018  computed once
        (bar,) = bars
        assert (bar.options["total"], bar.options["desc"], bar.options["disable"]) == (100, "geodesics", False)
        assert bar.done == 100


class TestLandmarks:
    def test_all_points_up_to_1250_unless_told(self):
        points = np.random.default_rng(10).normal(size=(1_251, 2))
        assert len(GeodesicGraph.build(points[:1_250]).landmarks) == 1_250
        assert len(GeodesicGraph.build(points).landmarks) == 1_250
        assert len(GeodesicGraph.build(points, n_landmarks=1_251).landmarks) == 1_251
        assert len(GeodesicGraph.build(points, n_landmarks=100).landmarks) == 100

    def test_each_piece_has_at_least_one(self):
        rng = np.random.default_rng(11)
        large = rng.normal(size=(500, 2))
        # Pieces so small and near that one landmark alone falls into the large one.
        small = [np.array([[6.0 + 2 * i, 0.0]]) + 1e-3 * rng.normal(size=(3, 2)) for i in range(6)]
        graph = GeodesicGraph.build(np.vstack((large, *small)), n_neighbors=2, n_landmarks=1)
        assert graph.n_components >= 7
        np.testing.assert_array_equal(np.unique(graph.component[graph.landmarks]), np.arange(graph.n_components))
        assert np.isfinite(graph.distances).any(axis=0).all()

    def test_they_are_sorted_distinct_and_cover_better_than_chance(self):
        points = np.random.default_rng(12).exponential(size=(1_500, 2)) ** 2
        graph = GeodesicGraph.build(points, n_landmarks=60)
        assert (np.diff(graph.landmarks) > 0).all()

        def reach(landmarks):  # how far the worst served points are from their landmark
            return np.quantile(cdist(points, points[landmarks]).min(axis=1), 0.99)

        chance = [reach(np.random.default_rng(s).permutation(1_500)[:60]) for s in range(20)]
        assert reach(graph.landmarks) < 0.7 * min(chance)

    @pytest.mark.parametrize(("wanted", "n"), [(4_999, 4_999), (5_000, 5_000), (5_001, 5_000), (100_000, 5_000)])
    def test_never_more_than_5000(self, monkeypatch, wanted, n):
        """Choosing so many takes long, so that the first ones are taken here."""
        first = lambda points, count, random_state: (None, np.arange(count))  # noqa: E731
        monkeypatch.setattr("gpec.geometry.graph.kmeans_plusplus", first)
        points = np.random.default_rng(0).normal(size=(5_001, 2))
        assert len(GeodesicGraph.build(points, n_neighbors=3, n_landmarks=wanted).landmarks) == n

    def test_they_repeat_with_the_seed_and_leave_the_global_generator_alone(self):
        points = np.random.default_rng(13).normal(size=(300, 2))
        before = np.random.get_state()[1].copy()
        once, again, other = (GeodesicGraph.build(points, n_landmarks=20, random_state=s) for s in (3, 3, 4))
        np.testing.assert_array_equal(np.random.get_state()[1], before)
        np.testing.assert_array_equal(once.landmarks, again.landmarks)
        assert not np.array_equal(once.landmarks, other.landmarks)


class TestState:
    @pytest.mark.parametrize("options", [{}, {"n_landmarks": 30}, {"n_neighbors": 3, "components": "bridge"}])
    def test_round_trip(self, options):
        graph = GeodesicGraph.build(np.repeat(two_clusters(), 2, axis=0), **options)
        twin = through_file(GeodesicGraph, graph)
        for name in ("points", "component", "landmarks", "multiplicity", "distances"):
            one, two = getattr(graph, name), getattr(twin, name)
            assert (one.dtype, one.shape, one.tobytes()) == (two.dtype, two.shape, two.tobytes()), name
        assert (graph.adjacency != twin.adjacency).nnz == 0
        assert twin.median_distance == graph.median_distance

    def test_what_was_computed_is_not_kept(self):
        graph = GeodesicGraph.build(two_clusters())
        before = set(tree_of(graph))
        assert graph.distances.shape == (80, 80)
        assert set(tree_of(graph)) == before

    def test_arrays_that_do_not_fit_are_refused(self):
        state = tree_of(GeodesicGraph.build(two_clusters()))
        with pytest.raises(CorruptFileError, match=r"GeodesicGraph\.landmarks is missing"):
            from_tree(GeodesicGraph, {name: value for name, value in state.items() if name != "landmarks"})
        with pytest.raises(CorruptFileError, match=r"GeodesicGraph\.adjacency cannot be read: .*index"):
            from_tree(GeodesicGraph, {**state, "points": state["points"][:-1]})


class TestClosedForms:
    def test_line(self):
        rng = np.random.default_rng(14)
        t = rng.uniform(0, 10, size=300)
        direction = np.array([0.6, 0.0, 0.8])
        graph = GeodesicGraph.build(t[:, None] * direction + 5.0, n_neighbors=8)
        assert graph.n_components == 1
        np.testing.assert_allclose(graph.distances, np.abs(t[:, None] - t), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize(("n", "k", "most"), [(500, 10, 1e-3), (2_000, 20, 2e-4)])
    def test_circle(self, n, k, most):
        angle = np.random.default_rng(15).uniform(0, 2 * np.pi, size=n)
        graph = GeodesicGraph.build(np.column_stack((np.cos(angle), np.sin(angle))), n_neighbors=k, n_landmarks=100)
        gap = np.abs(angle[graph.landmarks][:, None] - angle)
        errors = relative_errors(graph, np.minimum(gap, 2 * np.pi - gap))
        assert np.abs(errors).max() < most

    def sphere(self, n, k):
        points = np.random.default_rng(16).normal(size=(n, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        graph = GeodesicGraph.build(points, n_neighbors=k, n_landmarks=100)
        return relative_errors(graph, np.arccos(np.clip(points[graph.landmarks] @ points.T, -1, 1))).mean()

    def test_sphere_at_2000_points_and_20_neighbours_is_within_2_percent(self):
        assert 0 < self.sphere(2_000, 20) <= 0.02

    def test_sphere_error_falls_when_k_grows_with_n(self):
        errors = [self.sphere(n, k) for n, k in ((500, 10), (2_000, 20), (8_000, 40))]
        assert errors[1] < 0.5 * errors[0]
        assert errors[2] < 0.5 * errors[1]

    def test_sphere_error_stays_at_fixed_k(self):
        # The documented limit of Isomap's graph: more points alone do not help.
        few, many = self.sphere(500, 5), self.sphere(4_000, 5)
        assert min(few, many) > 0.10


class TestBadInput:
    @pytest.mark.parametrize(
        ("points", "error", "message"),
        [
            ([1.0, 2.0], InputError, r"points must have shape \(points, dimensions\).*\(2,\)"),
            (np.zeros((0, 3)), InputError, r"\(0, 3\)"),
            (np.zeros((3, 0)), InputError, r"\(3, 0\)"),
            (np.zeros((2, 2, 2)), InputError, r"\(2, 2, 2\)"),
            ([[0.0, 1.0], [np.nan, 1.0]], InputError, r"points has .*nan.* at index \(1, 0\)"),
            ([[0.0, np.inf]], InputError, r"points has .*inf.* at index \(0, 1\)"),
            ([["a", "b"]], ParameterTypeError, "points must be an array of real numbers"),
            ([[1j, 2.0]], ParameterTypeError, "points must be an array of real numbers"),
            (np.array([[0.0], [1e160]]), InputError, "rescale them to between 1e-150 and 1e150"),
            (np.array([[-1e308], [1e308], [1.2e308]]), InputError, "rescale them"),
            (np.array([[0.0], [1e-160]]), InputError, "rescale them"),
        ],
    )
    def test_points(self, points, error, message):
        with pytest.raises(error, match=message):
            GeodesicGraph.build(points)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"n_neighbors": 0}, InputError, "n_neighbors=0 must be at least 1"),
            ({"n_neighbors": 2.5}, ParameterTypeError, r"n_neighbors=2\.5 must be a whole number"),
            ({"n_neighbors": True}, ParameterTypeError, "n_neighbors=True must be a whole number"),
            ({"n_landmarks": 0}, InputError, "n_landmarks=0 must be at least 1"),
            ({"n_landmarks": "all"}, ParameterTypeError, "n_landmarks='all' must be a whole number"),
            ({"components": "join"}, InputError, "components='join' is not one of 'separate', 'bridge'"),
            ({"random_state": "x"}, ParameterTypeError, "random_state='x'"),
            ({"random_state": -1}, InputError, "random_state=-1 must not be negative"),
        ],
    )
    def test_options(self, options, error, message):
        with pytest.raises(error, match=message):
            GeodesicGraph.build(np.eye(3), **options)

    def test_the_callers_array_stays_as_it_was(self):
        points = np.random.default_rng(17).normal(size=(30, 2))
        before = points.tobytes()
        points.flags.writeable = False
        graph = GeodesicGraph.build(points)
        assert points.tobytes() == before
        assert not np.shares_memory(graph.points, points)

    @pytest.mark.parametrize("size", [1e-150, 1e-100, 1e100, 1e150])
    @pytest.mark.parametrize("D", [3, 20])
    def test_extreme_scales_give_the_same_graph(self, size, D):
        points = np.random.default_rng(18).uniform(-1, 1, size=(100, D))
        plain = GeodesicGraph.build(points, n_neighbors=4, n_landmarks=20, components="bridge")
        scaled = GeodesicGraph.build(points * size, n_neighbors=4, n_landmarks=20, components="bridge")
        assert scaled.n_components == 1
        np.testing.assert_array_equal(plain.landmarks, scaled.landmarks)
        np.testing.assert_allclose(scaled.distances / size, plain.distances, rtol=1e-9)
