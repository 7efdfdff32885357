"""For which lam the exponential geodesic kernel is positive definite."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from gpec.errors import InputError, ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, definite, positive_definite_range


def graph_of(edges):
    """The graph with these edge lengths ``(J, J)``; 0 is no edge."""
    J = len(edges)
    adjacency = csr_array(np.asarray(edges, dtype=float))
    component = connected_components(adjacency)[1]
    return GeodesicGraph(np.arange(J, dtype=float)[:, None], adjacency, component, np.arange(J), np.ones(J, dtype=int))


def bipartite(m, n, length=1.0):
    edges = np.zeros((m + n, m + n))
    edges[:m, m:] = length
    return edges + edges.T


def cycle(lengths):
    J = len(lengths)
    edges = np.zeros((J, J))
    edges[np.arange(J), (np.arange(J) + 1) % J] = lengths
    return edges + edges.T


def tree(J, seed):
    rng = np.random.default_rng(seed)
    edges = np.zeros((J, J))
    for i in range(1, J):
        edges[i, rng.integers(i)] = rng.exponential() + 0.01
    return edges + edges.T


def least_eigenvalue(graph, lam):
    return np.linalg.eigvalsh(np.exp(-lam * graph.distances))[0]


class TestAlways:
    """Distances of negative type: every lam will do."""

    def test_points_on_a_line(self):
        t = np.sort(np.random.default_rng(0).uniform(0, 5, size=80))
        graph = GeodesicGraph.build(np.column_stack((t, 0 * t)), n_neighbors=12)
        assert graph.n_components == 1
        found = positive_definite_range(graph, lam=0.7)
        assert found.always
        assert found.intervals == ((0.0, np.inf),)
        assert found.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(np.exp(-0.7 * np.abs(t[:, None] - t)))[0])
        assert 1e-9 in found
        assert 0.0 not in found

    @pytest.mark.parametrize("seed", range(5))
    def test_trees(self, seed):
        assert positive_definite_range(graph_of(tree(40, seed))).always

    @pytest.mark.parametrize("J", [3, 4, 5, 12, 31])
    def test_cycles(self, J):
        even = positive_definite_range(graph_of(cycle(np.ones(J))))
        uneven = positive_definite_range(graph_of(cycle(np.random.default_rng(J).exponential(size=J))))
        assert even.always
        assert uneven.always

    @pytest.mark.parametrize("J", [1, 2])
    def test_one_or_two_points(self, J):
        found = positive_definite_range(np.arange(float(J))[:, None], lam=2.0)
        assert found.always
        assert found.dominant_from == 0.0
        assert found.least_eigenvalue == pytest.approx(1.0 - (J - 1) * np.exp(-2.0))


class TestCompleteBipartite:
    """Distances 1 between the sides and 2 within. With ``q = exp(-lam)`` the eigenvalues are ``1 - q^2`` and those of

        [[1 + (m - 1) q^2, q sqrt(m n)], [q sqrt(m n), 1 + (n - 1) q^2]],

    whose determinant is ``(1 - q^2) (1 - (m - 1) (n - 1) q^2)``. So the matrix is positive definite for
    ``lam > log((m - 1) (n - 1)) / 2``.
    """

    @pytest.mark.parametrize(("m", "n"), [(2, 3), (3, 3), (4, 7)])
    @pytest.mark.parametrize("length", [1e-100, 1.0, 50.0])
    def test_threshold(self, m, n, length):
        found = positive_definite_range(graph_of(bipartite(m, n, length)))
        threshold = np.log((m - 1) * (n - 1)) / 2 / length
        assert not found.always
        ((low, high),) = found.intervals
        assert low == pytest.approx(threshold, rel=2e-4)
        assert high == np.inf
        assert 1.001 * threshold in found
        assert 0.999 * threshold not in found

    def test_two_by_two_is_a_cycle(self):
        assert positive_definite_range(graph_of(bipartite(2, 2))).always

    def test_dominance(self):
        """Of the larger side: m q + (n - 1) q^2 = 1, or n q + (m - 1) q^2 = 1, whichever needs the smaller q."""
        m, n = 3, 5
        found = positive_definite_range(graph_of(bipartite(m, n)))
        q = min(np.roots([n - 1, m, -1]).max(), np.roots([m - 1, n, -1]).max())
        assert -np.log(q) <= found.dominant_from <= -np.log(q) * 1.002
        assert found.intervals[-1][0] < found.dominant_from

    def test_the_least_eigenvalue_is_that_of_the_lam_asked_for(self):
        graph = graph_of(bipartite(3, 3))
        for lam, least in ((1.0, 1 + 2 * np.exp(-2) - 3 * np.exp(-1)), (0.3, 1 + 2 * np.exp(-0.6) - 3 * np.exp(-0.3))):
            found = positive_definite_range(graph, lam)
            assert found.lam == lam
            assert found.least_eigenvalue == pytest.approx(least, abs=1e-12)
            assert (lam in found) == (least > 0)
        assert positive_definite_range(graph).lam == 1 / graph.median_distance

    def test_the_piece_that_needs_the_largest_lam_decides(self):
        edges = block_diag(bipartite(3, 3), tree(6, 0), bipartite(2, 3, 0.1), [[0.0]])
        found = positive_definite_range(graph_of(edges))
        assert found.intervals[0][0] == pytest.approx(max(np.log(2), np.log(2) / 2 / 0.1), rel=2e-4)


class TestRandomGraphs:
    @pytest.mark.parametrize("seed", range(12))
    def test_eigenvalues_agree(self, seed):
        rng = np.random.default_rng(seed)
        points = rng.normal(size=(int(rng.integers(20, 60)), 3))
        graph = GeodesicGraph.build(points, n_neighbors=int(rng.integers(2, 6)))
        found = positive_definite_range(graph)
        for lam in found.lam * 10.0 ** np.linspace(-2, 2, 41):
            least = least_eigenvalue(graph, lam)
            if abs(least) > 1e-9:
                assert (lam in found) == (least > 0)
        # the theorem
        off = np.exp(-found.dominant_from * graph.distances) - np.eye(len(graph))
        assert 0.99 < off.sum(axis=1).max() < 1.0

    def test_indefinite_graphs_are_among_them(self):
        graph = GeodesicGraph.build(np.random.default_rng(0).normal(size=(60, 3)), n_neighbors=5)
        found = positive_definite_range(graph)
        assert not found.always
        low = found.intervals[0][0]
        assert least_eigenvalue(graph, 0.99 * low) < 0 < least_eigenvalue(graph, 1.01 * low)

    def test_where_it_is_positive_definite_nothing_is_repaired(self):
        graph = GeodesicGraph.build(np.random.default_rng(1).normal(size=(80, 3)), n_neighbors=5)
        low = positive_definite_range(graph).intervals[-1][0]
        assert EG(1.01 * low).fit(graph).clipped_mass_ < 1e-12
        assert EG(0.9 * low).fit(graph).clipped_mass_ > 1e-9

    @pytest.mark.parametrize("seed", range(3))
    def test_below_the_bound_it_is_indefinite(self, seed):
        graph = GeodesicGraph.build(np.random.default_rng(seed).normal(size=(50, 3)), n_neighbors=4)
        D = graph.distances
        pieces = [D[np.ix_(piece, piece)] for piece in (graph.component == c for c in range(graph.n_components))]
        bound = definite._indefinite_below(D)
        assert bound > 0
        for lam in (0.999 * bound, 0.1 * bound):
            assert min(np.linalg.eigvalsh(np.exp(-lam * piece))[0] for piece in pieces) < -1e-12


def test_points_that_coincide_count_once():
    points = np.random.default_rng(2).normal(size=(40, 3))
    once = positive_definite_range(points)
    twice = positive_definite_range(np.vstack((points, points[:15])))
    assert twice.n_points == once.n_points == 40
    np.testing.assert_allclose(twice.intervals, once.intervals, rtol=1e-9)
    assert twice.least_eigenvalue == pytest.approx(once.least_eigenvalue, rel=1e-9)
    # counted twice the matrix is singular, but no worse
    lam = 1.5 * once.intervals[-1][0]
    G = np.exp(-lam * GeodesicGraph.build(points).distances)
    doubled = np.block([[G, G[:, :15]], [G[:15], G[:15, :15]]])
    assert np.linalg.eigvalsh(doubled)[0] == pytest.approx(0.0, abs=1e-12)


class TestManyPoints:
    def test_all_distances_are_used_where_the_graph_has_landmarks_only(self):
        points = np.random.default_rng(3).normal(size=(90, 3))
        few, all_of_them = (GeodesicGraph.build(points, n_landmarks=n, n_neighbors=6) for n in (20, "auto"))
        assert not few.is_exact
        found = positive_definite_range(few, lam=1.0)
        assert found.is_exact
        assert found.n_points == 90
        expected = positive_definite_range(all_of_them, lam=1.0)
        np.testing.assert_allclose(found.intervals, expected.intervals, rtol=2e-4)
        assert found.least_eigenvalue == pytest.approx(expected.least_eigenvalue, rel=1e-9)

    def test_beyond_some_thousands_the_landmarks_speak_and_allow_more(self, monkeypatch):
        monkeypatch.setattr(definite, "_MOST_POINTS", 50)
        points = np.random.default_rng(3).normal(size=(90, 3))
        few, all_of_them = (GeodesicGraph.build(points, n_landmarks=n, n_neighbors=6) for n in (40, "auto"))
        found, full = positive_definite_range(few, lam=1.0), positive_definite_range(all_of_them, lam=1.0)
        assert (found.n_points, found.is_exact) == (len(few.landmarks), False)
        assert (full.n_points, full.is_exact) == (90, True)  # its distances are known
        block = all_of_them.distances[np.ix_(few.landmarks, few.landmarks)]
        assert found.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(np.exp(-block))[0], rel=1e-9)
        assert found.intervals[0][0] < full.intervals[0][0]


def test_several_intervals():
    """Values from 1 to 1.5 and their sums: 2 to 3, 3 to 4.5 and so on."""
    asked = []

    def holds(lam):
        asked.append(lam)
        return 1 <= lam <= 1.5 or lam >= 2

    first, second = definite._intervals(holds, 0.01, 1e6)
    np.testing.assert_allclose(first, (1, 1.5), rtol=2e-4)
    assert second == pytest.approx((2, np.inf), rel=2e-4)
    assert max(asked) < 5  # sums of what is found need no test


def test_bad_input():
    points = np.eye(3)
    with pytest.raises(InputError, match=r"lam=0 must be a finite number greater than 0"):
        positive_definite_range(points, lam=0)
    with pytest.raises(ParameterTypeError, match="lam='auto' must be a number"):
        positive_definite_range(points, lam="auto")
    with pytest.raises(InputError, match="points has nan"):
        positive_definite_range([[np.nan]])
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'lam'"):
        positive_definite_range(points).lam = 2.0
