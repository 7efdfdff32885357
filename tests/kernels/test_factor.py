"""The factor of the geodesic matrix: positive semi-definite by construction, and near to what it stands for."""

import gc
import weakref

import numpy as np
import pytest
from scipy.linalg import qr

from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, WEG, _factor
from gpec.kernels._factor import factorize


def dense(factor):
    """``G`` in full."""
    return factor.B @ factor.B.T + np.diag(factor.r)


def surface(J=500, seed=0):
    points = np.random.default_rng(seed).normal(size=(J, 3))
    points[:, 0] = 0.4 * points[:, 1] ** 2
    return points


def least_eigenvalue(K):
    """As a share of the largest."""
    spectrum = np.linalg.eigvalsh(K)
    return spectrum[0] / spectrum[-1]


def test_1000_random_graphs_are_positive_semi_definite():
    indefinite, least = 0, np.inf
    for seed in range(1_000):
        rng = np.random.default_rng(seed)
        J, D = int(rng.integers(5, 61)), int(rng.integers(2, 5))
        points = rng.normal(size=(J, D))
        points[:, 0] = 0.0  # pieces of a plane
        graph = GeodesicGraph.build(
            points,
            n_neighbors=int(rng.integers(2, 7)),
            n_landmarks="auto" if seed % 3 else max(J // 3, 1),
            components="bridge" if seed % 5 == 0 else "separate",
        )
        lam = 10 ** rng.uniform(-1.5, 0.5) / graph.median_distance
        factor = factorize(graph, lam)
        G = dense(factor)
        np.testing.assert_allclose(np.diag(G), 1.0, atol=1e-12)
        assert (factor.r >= 0).all()
        least = min(least, least_eigenvalue(G))
        if seed % 10 == 0:
            kernel = WEG(lam=lam, rho=10 ** rng.uniform(-1, 2), normalize=bool(seed % 20)).fit(graph)
            least = min(least, least_eigenvalue(kernel.gram(np.vstack((rng.normal(size=(30, D)), points)))))
        if graph.is_exact:
            # The repair is reported exactly when there was something to repair.
            raw = np.linalg.eigvalsh(np.exp(-lam * graph.distances))
            assert factor.clipped_mass == pytest.approx(-raw[raw < 0].sum() / np.abs(raw).sum(), abs=1e-12)
            indefinite += raw[0] < -1e-8 * raw[-1]
    assert indefinite >= 50
    assert least >= -1e-10


def test_nothing_is_repaired_where_nothing_need_be():
    t = np.sort(np.random.default_rng(1).uniform(0, 5, size=150))
    graph = GeodesicGraph.build(np.column_stack((t, np.zeros(150))), n_neighbors=12)
    assert graph.n_components == 1
    for lam in (0.1, 1.0, 20.0):
        factor = factorize(graph, lam)
        np.testing.assert_allclose(dense(factor), np.exp(-lam * np.abs(t[:, None] - t)), atol=1e-12)
        assert 0 <= factor.clipped_mass < 1e-12
        assert not factor.r.any()


def test_the_repair_clips_eigenvalues_and_restores_the_unit_diagonal():
    points = np.random.default_rng(2).normal(size=(150, 3))
    points[:, 0] = 0.0
    graph = GeodesicGraph.build(points, n_neighbors=5, components="bridge")
    lam = 0.3 / graph.median_distance
    G = np.exp(-lam * graph.distances)
    a, V = np.linalg.eigh(G)
    assert a[0] < -1e-4
    clipped = (V * np.maximum(a, 0)) @ V.T
    scale = np.sqrt(np.diag(clipped))
    factor = factorize(graph, lam)
    np.testing.assert_allclose(dense(factor), clipped / np.outer(scale, scale), atol=1e-10)
    assert factor.clipped_mass == pytest.approx(-a[a < 0].sum() / np.abs(a).sum(), rel=1e-6)


def test_landmarks_of_a_definite_matrix_give_nystrom_and_a_diagonal():
    t = np.linspace(0, 5, 120)
    graph = GeodesicGraph.build(np.column_stack((t, np.zeros(120))), n_neighbors=4, n_landmarks=25)
    full = np.exp(-np.abs(t[:, None] - t))
    C = full[:, graph.landmarks]
    nystrom = C @ np.linalg.solve(C[graph.landmarks], C.T)
    factor = factorize(graph, 1.0)
    # B is rounded to single precision
    np.testing.assert_allclose(factor.B @ factor.B.T, nystrom, atol=1e-6)
    np.testing.assert_allclose(factor.r, 1 - np.diag(nystrom), atol=1e-6)
    np.testing.assert_allclose(factor.r[graph.landmarks], 0.0, atol=1e-6)
    assert factor.r.max() > 0.01
    assert factor.clipped_mass < 1e-12


@pytest.mark.parametrize(("n_landmarks", "most"), [(60, 0.10), (150, 0.02), (300, 0.003), (499, 1e-5)])
def test_landmarks_come_close_to_all_points(n_landmarks, most):
    points = surface()
    X = np.random.default_rng(3).normal(size=(60, 3))
    full = GeodesicGraph.build(points)
    exact = WEG().fit(full, X)
    some = WEG(lam=exact.lam_, rho=exact.rho_).fit(GeodesicGraph.build(points, n_landmarks=n_landmarks), X)
    K = exact.gram(X)
    error = np.abs(some.gram(X) - K)
    assert error.max() < most
    if n_landmarks == 150:  # the diagonal residual is what makes it work
        some.r_ = np.zeros_like(some.r_)
        assert np.abs(some.gram(X) - K).mean() > 1.3 * error.mean()


def test_landmarks_where_much_is_clipped():
    # In 12 dimensions a sixth of the spectrum is negative; landmarks and all points agree less well, but on average.
    points = np.random.default_rng(4).normal(size=(600, 12))
    points[:, 0] = 0.3 * points[:, 1] ** 2
    X = np.random.default_rng(5).normal(size=(60, 12))
    exact = WEG().fit(GeodesicGraph.build(points), X)
    some = WEG(lam=exact.lam_, rho=exact.rho_).fit(GeodesicGraph.build(points, n_landmarks=375), X)
    assert exact.clipped_mass_ > 0.05
    assert some.clipped_mass_ > 0.05
    error = np.abs(some.gram(X) - exact.gram(X))
    assert error.mean() < 0.015
    assert error.max() < 0.12


def test_rounding_in_indefinite_landmark_blocks_does_not_break_the_unit_diagonal():
    # A landmark block with negative eigenvalues: rows of B may come out longer than 1.
    longest = 0.0
    for seed in range(30):
        points = np.random.default_rng(seed).normal(size=(120, 3))
        points[:, 0] = 0.0
        graph = GeodesicGraph.build(points, n_neighbors=4, n_landmarks=100, components="bridge")
        factor = factorize(graph, 0.2 / graph.median_distance)
        longest = max(longest, factor.clipped_mass)
        np.testing.assert_allclose(np.diag(dense(factor)), 1.0, atol=1e-12)
        assert least_eigenvalue(dense(factor)) >= -1e-10
    assert longest > 1e-4


@pytest.mark.parametrize("seed", range(4))
def test_single_precision_does_not_break_the_unit_diagonal(seed):
    graph = GeodesicGraph.build(np.random.default_rng(seed).normal(size=(120, 3)), n_neighbors=6, n_landmarks=40)
    factor = factorize(graph, 1.0)
    np.testing.assert_array_equal(factor.B, factor.B.astype(np.float32))
    np.testing.assert_allclose(np.diag(dense(factor)), 1.0, atol=1e-14)


def test_pieces_stay_apart():
    points = np.vstack((surface(60), surface(60, seed=1) + 100.0))
    for n_landmarks in (120, 20):
        graph = GeodesicGraph.build(points, n_neighbors=12, n_landmarks=n_landmarks)
        apart = graph.component[:, None] != graph.component
        assert apart.any()
        np.testing.assert_allclose(dense(factorize(graph, 0.1))[apart], 0.0, atol=1e-9)


def test_one_point():
    factor = factorize(GeodesicGraph.build([[0.0, 0.0]]), 1.0)
    np.testing.assert_allclose(dense(factor), [[1.0]])
    assert factor.clipped_mass == 0.0


class TestMemory:
    """The latest factor of a graph is remembered, for kernels that share it."""

    @pytest.fixture
    def made(self, monkeypatch):
        calls, original = [], _factor._factorize
        monkeypatch.setattr(_factor, "_factorize", lambda graph, lam: calls.append(lam) or original(graph, lam))
        return calls

    def test_it_is_made_once_for_each_graph_and_decay(self, made):
        graph, other = GeodesicGraph.build(surface(40)), GeodesicGraph.build(surface(40, seed=1))
        first = factorize(graph, 1.0)
        assert factorize(graph, 1.0) is first
        assert made == [1.0]
        different = factorize(other, 1.0)
        assert not np.allclose(dense(different), dense(first))
        assert factorize(graph, 1.0) is first
        np.testing.assert_array_equal(dense(factorize(graph, 2.0)).shape, (40, 40))
        assert not np.allclose(dense(factorize(graph, 2.0)), dense(first))
        assert made == [1.0, 1.0, 2.0]

    def test_kernels_on_one_graph_share_it(self, made):
        graph = GeodesicGraph.build(surface(40))
        (WEG(1.0, 2.0) + EG(1.0) * WEG(1.0, 5.0)).fit(graph)
        assert made == [1.0]

    def test_it_does_not_keep_the_graph(self):
        graph = GeodesicGraph.build(surface(40))
        factorize(graph, 1.0)
        kept = weakref.ref(graph)
        del graph
        gc.collect()
        assert kept() is None


# As exact as single precision allows


def in_four_dimensions(J, seed):
    points = np.random.default_rng(seed).normal(size=(J, 4))
    points[:, 0] = 0.4 * points[:, 1] ** 2
    return points


def in_double_precision(graph, lam):
    """``G`` as the module's docstring has it, with a QR decomposition and no rounding of ``B``."""
    C = np.exp(-lam * graph.distances).T
    a, V = np.linalg.eigh(C[graph.landmarks])
    keep = np.abs(a) > 1e-5 * a[-1]
    Q, R = qr(C @ V[:, keep] / np.sqrt(np.abs(a[keep])), mode="economic")
    a, V = np.linalg.eigh(R @ np.diag(np.sign(a[keep])) @ R.T)
    B = Q @ V[:, a > 0] * np.sqrt(a[a > 0])
    B /= np.maximum(np.linalg.norm(B, axis=1), 1.0)[:, None]
    G = B @ B.T
    np.fill_diagonal(G, 1.0)
    return G, -a[a < 0].sum() / np.abs(a).sum()


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("times", [0.1, 1.0, 5.0])
def test_single_precision_moves_no_similarity_by_a_hundred_thousandth(seed, times):
    graph = GeodesicGraph.build(in_four_dimensions(900, seed), n_landmarks=300)
    lam = times / graph.median_distance
    factor, (G, clipped) = factorize(graph, lam), in_double_precision(graph, lam)
    found = dense(factor)
    assert np.abs(found - G).max() < 1e-5
    assert np.abs(np.diag(found) - 1.0).max() < 1e-12
    assert factor.clipped_mass == pytest.approx(clipped, rel=1e-5, abs=1e-9)


def test_weights_and_gram_are_of_double_precision():
    """The factor's digits are those of single precision; what is computed with it is not."""
    points = np.random.default_rng(3).normal(size=(700, 3))
    points[:, 0] = 0.0
    kernel = WEG().fit(GeodesicGraph.build(points, n_landmarks=280), points[:50])
    X = np.random.default_rng(4).normal(size=(30, 3))
    W = kernel.weights(X)
    G = kernel.B_ @ kernel.B_.T + np.diag(kernel.r_)
    K = W @ G @ W.T
    scale = np.sqrt(np.diag(K))
    np.testing.assert_allclose(kernel.gram(X), K / np.outer(scale, scale), atol=1e-12)
    np.testing.assert_array_equal(kernel.B_, kernel.B_.astype(np.float32))


@pytest.mark.parametrize(("size", "steps"), [(1e9, 8), (70 * 20 * 4 * 11.5, 4), (1.0, 2)])
def test_fewer_values_where_memory_is_short(size, steps, monkeypatch):
    graph = GeodesicGraph.build(surface(70), n_landmarks=20)
    monkeypatch.setattr(_factor, "_BYTES_OF_GRID", size)
    grid = _factor.FactorGrid(graph, 1.0, 30.0)
    assert grid.steps == steps
    parts = grid.parts(1.0)
    assert len(parts) == 3
    for place, (_, _, factor) in zip((0, -1, 1), parts, strict=True):
        assert factor.B.dtype == np.float32
        np.testing.assert_array_equal(factor.B, factorize(graph, np.exp(place * np.log(30) / steps)).B)
