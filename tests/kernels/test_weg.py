"""The exponential geodesic kernel and its weighted form, against the formulas of the paper."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from extras import mpmath
from gpec.data import Rows
from gpec.errors import InputError, NotFittedError, NumericalError, ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, WEG


def arc(n=60, seed=0):
    """Points of a curve: with two neighbours each its geodesic matrix is positive definite, nothing is repaired."""
    angle = np.linspace(0, 2.5, n) + np.random.default_rng(seed).uniform(-0.2, 0.2, size=n) * 2.5 / n
    return np.column_stack((np.cos(angle), np.sin(angle)))


def rows(n=25, D=2, seed=1):
    return np.random.default_rng(seed).normal(size=(n, D))


def paper_weights(X, points, rho):
    """Eq. 6 and 11 as they stand; only for rows near the boundary."""
    W = np.exp(-rho * ((X[:, None] - points) ** 2).sum(axis=2))
    return W / W.sum(axis=1, keepdims=True)


def exact_weights(x, points, rho, multiplicity=None):
    """Eq. 6 and 11 with 60 digits."""
    with mpmath.workdps(60):
        x = [mpmath.mpf(float(v)) for v in x]
        terms = [
            mpmath.exp(-mpmath.mpf(rho) * sum((a - mpmath.mpf(float(b))) ** 2 for a, b in zip(x, m, strict=True)))
            for m in points
        ]
        if multiplicity is not None:
            terms = [term * int(count) for term, count in zip(terms, multiplicity, strict=True)]
        total = mpmath.fsum(terms)
        return np.array([float(term / total) for term in terms])


class TestFormulas:
    @pytest.mark.parametrize("lam", [0.1, 1.0, 7.0])
    def test_eg_at_boundary_points_is_equation_5(self, lam):
        graph = GeodesicGraph.build(arc(), n_neighbors=2)
        kernel = EG(lam=lam).fit(graph)
        np.testing.assert_allclose(kernel.gram(graph.points), np.exp(-lam * graph.distances), atol=1e-12)

    def test_eg_off_the_boundary_stands_for_the_nearest_point(self):
        graph = GeodesicGraph.build(arc(), n_neighbors=2)
        X = rows()
        nearest = np.linalg.norm(X[:, None] - graph.points, axis=2).argmin(axis=1)
        expected = np.exp(-graph.distances[np.ix_(nearest, nearest)])
        np.testing.assert_allclose(EG(lam=1.0).fit(graph).gram(X), expected, atol=1e-12)

    @pytest.mark.parametrize(("lam", "rho"), [(1.0, 0.1), (0.3, 5.0), (4.0, 40.0), (1.0, 0.0)])
    def test_weg_is_equations_7_to_11(self, lam, rho):
        graph = GeodesicGraph.build(arc(), n_neighbors=2)
        X, Y = rows(), rows(7, seed=2)
        G = np.exp(-lam * graph.distances)
        Wx, Wy = paper_weights(X, graph.points, rho), paper_weights(Y, graph.points, rho)
        plain = WEG(lam=lam, rho=rho, normalize=False).fit(graph)
        np.testing.assert_allclose(plain.weights(X), Wx, atol=1e-12)
        np.testing.assert_allclose(plain.cross(X, Y), Wx @ G @ Wy.T, atol=1e-12)
        np.testing.assert_allclose(plain.diag(X), np.diag(Wx @ G @ Wx.T), atol=1e-12)

    def test_normalised_weg_is_equation_9(self):
        graph = GeodesicGraph.build(arc(), n_neighbors=2)
        X, Y = rows(), rows(7, seed=2)
        plain = WEG(lam=2.0, rho=3.0, normalize=False).fit(graph)
        star = WEG(lam=2.0, rho=3.0).fit(graph)
        expected = plain.cross(X, Y) / np.sqrt(np.outer(plain.diag(X), plain.diag(Y)))
        np.testing.assert_allclose(star.cross(X, Y), expected, atol=1e-12)
        np.testing.assert_array_equal(star.diag(X), np.ones(len(X)))
        np.testing.assert_array_equal(np.diag(star.gram(X)), np.ones(len(X)))
        assert star.cross(X, Y).min() >= 0
        assert star.cross(X, Y).max() <= 1 + 1e-12

    def test_rho_zero_makes_all_rows_alike(self):
        kernel = WEG(lam=1.0, rho=0.0).fit(arc())
        np.testing.assert_allclose(kernel.gram(rows()), 1.0, atol=1e-12)

    def test_separate_pieces_are_not_alike_at_all(self):
        points = np.vstack((arc(), arc() + 50.0))
        graph = GeodesicGraph.build(points, n_neighbors=2)
        assert graph.n_components == 2
        assert abs(WEG(lam=0.01, rho=1.0).fit(graph).cross([[0.0, 0.0]], [[50.0, 50.0]])[0, 0]) < 1e-12

    def test_large_inputs_are_worked_on_in_blocks(self):
        # More rows than a block of either side.
        X, Y = rows(1_100, seed=3), rows(600, seed=4)
        for normalize in (True, False):
            kernel = WEG(lam=1.0, rho=2.0, normalize=normalize).fit(arc())
            K, diagonal = kernel.cross_to(Rows.of(Y))(Rows.of(X))
            some = [0, 511, 512, 1_024, 1_099]
            for j in (0, 511, 512, 599):
                np.testing.assert_allclose(K[some, j], kernel.cross(X[some], Y[[j]])[:, 0], atol=1e-12)
            np.testing.assert_allclose(diagonal[some], kernel.diag(X[some]), atol=1e-12)


class TestWeights:
    @pytest.mark.parametrize("rho", [0.1, 1.0, 30.0])
    @pytest.mark.parametrize("D", [2, 12])
    @pytest.mark.parametrize("away", [0.0, 1.0, 1e3, 1e4, 1e5, 1e6])
    def test_far_rows_agree_with_60_digits(self, away, D, rho):
        # Straight out from a tilted flat boundary, where the weights stay spread over many points.
        rng = np.random.default_rng(D)
        tilt = np.linalg.qr(rng.normal(size=(D, D)))[0]
        flat = rng.normal(size=(40, D))
        flat[:, 0] = 0.0
        X = 0.5 * rng.normal(size=(3, D))
        X[:, 0] = away
        points, X = flat @ tilt.T + 3.0, X @ tilt.T + 3.0
        kernel = WEG(lam=1.0, rho=rho).fit(points)
        W = kernel.weights(X)
        assert W.max(axis=1).min() < 1 - 1e-6 or rho == 30.0  # the case is not trivial
        for x, w in zip(X, W, strict=True):
            np.testing.assert_allclose(w, exact_weights(x, points, rho), atol=1e-8, rtol=0)

    @pytest.mark.parametrize("away", [1e3, 1e6, 1e12])
    def test_far_rows_in_general_go_to_the_nearest_point_not_to_uniform_weights(self, away):
        points = arc()
        x = away * np.array([[0.6, 0.8]])
        W = WEG(lam=1.0, rho=10.0).fit(points).weights(x)
        assert W[0].argmax() == (points @ x[0]).argmax()
        np.testing.assert_allclose(W[0], exact_weights(x[0], points, 10.0), atol=1e-8, rtol=0)

    def test_they_sum_to_one_and_do_not_depend_on_a_shift(self):
        points, X = arc(), rows()
        W = WEG(lam=1.0, rho=3.0).fit(points).weights(X)
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-12)
        shifted = WEG(lam=1.0, rho=3.0).fit(points + 1e5).weights(X + 1e5)
        np.testing.assert_allclose(shifted, W, atol=1e-8)

    def test_duplicates_weigh_double(self):
        points = arc(20)
        twice = WEG(lam=1.0, rho=2.0).fit(np.vstack((points, points[[3, 7, 7]])))
        np.testing.assert_array_equal(twice.multiplicity_[[3, 7, 0]], [2, 3, 1])
        plain = WEG(lam=1.0, rho=2.0).fit(points)
        X = rows()
        expected = plain.weights(X) * twice.multiplicity_
        np.testing.assert_allclose(twice.weights(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
        far = np.array([[3e4, 1e4]])
        np.testing.assert_allclose(
            twice.weights(far)[0], exact_weights(far[0], points, 2.0, twice.multiplicity_), atol=1e-8, rtol=0
        )

    def test_the_rows_given_stay_as_they_were(self):
        X = rows()
        before = X.tobytes()
        kernel = WEG(lam=1.0, rho=1.0).fit(arc())
        kernel.gram(X), kernel.weights(X), kernel.diag(X)
        assert X.tobytes() == before


class TestChosenParameters:
    def test_lam_is_one_over_the_median_finite_geodesic(self):
        points = np.vstack((arc(), arc(30, seed=5) + 50.0))
        graph = GeodesicGraph.build(points, n_neighbors=4)
        finite = graph.distances[np.isfinite(graph.distances) & ~np.eye(len(points), dtype=bool)]
        for kind in (EG, WEG):
            kernel = kind().fit(graph)
            assert kernel.lam_ == pytest.approx(1 / np.median(finite), rel=1e-12)
            assert kernel.diagnostics()["lam"] == kernel.lam_
            assert kernel.lam == "auto"  # what the user said stays

    @pytest.mark.parametrize("J", [9, 100, 900])
    @pytest.mark.parametrize("D", [2, 12])
    def test_rho_makes_the_median_effective_number_the_square_root(self, J, D):
        rng = np.random.default_rng(J)
        points, X = rng.normal(size=(J, D)), rng.normal(size=(150, D))
        for given in (X, None):
            kernel = WEG().fit(points, given)
            W = kernel.weights(points if given is None else given)
            if given is None and J > 200:
                W = W[np.linspace(0, J - 1, 200).round().astype(int)]
            assert np.median(1 / (W**2).sum(axis=1)) == pytest.approx(np.sqrt(J), rel=0.01)
            assert kernel.diagnostics()["rho"] == kernel.rho_

    def test_rho_follows_the_units(self):
        points, X = arc(), rows()
        plain, tenfold = WEG().fit(points, X), WEG().fit(10 * points, 10 * X)
        assert tenfold.rho_ == pytest.approx(plain.rho_ / 100, rel=1e-2)
        np.testing.assert_allclose(tenfold.gram(10 * X), plain.gram(X), atol=1e-3)

    @pytest.mark.parametrize("points", [[[0.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]])
    def test_rho_where_no_number_will_do(self, points):
        # One point, or two that are equally near to every row.
        X = np.column_stack((np.arange(5.0), np.zeros(5)))
        kernel = WEG().fit(points, X)
        assert kernel.rho_ == 1.0
        assert np.isfinite(kernel.gram(X)).all()

    def test_rho_where_ties_bound_the_effective_number_from_below(self):
        # Two rings around the axis on which all rows lie: never fewer than 4 > sqrt(8) points count.
        ring = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        points = np.vstack([np.column_stack((ring, np.full(4, height))) for height in (0.0, 9.0)])
        X = np.column_stack((np.zeros((7, 2)), np.linspace(0, 8, 7)))
        kernel = WEG().fit(points, X)
        assert 0 < kernel.rho_ < np.inf
        assert np.isfinite(kernel.gram(X)).all()


class TestExtremes:
    @pytest.mark.parametrize("size", [1e-150, 1e-75, 1e75, 1e150])
    @pytest.mark.parametrize("n_landmarks", ["auto", 30])
    def test_scales(self, size, n_landmarks):
        rng = np.random.default_rng(0)
        points, X = rng.uniform(-1, 1, size=(100, 3)), rng.uniform(-1, 1, size=(20, 3))
        options = {"n_neighbors": 5, "n_landmarks": n_landmarks, "components": "bridge"}
        plain, scaled = GeodesicGraph.build(points, **options), GeodesicGraph.build(points * size, **options)
        for kind in (EG, WEG):
            np.testing.assert_allclose(
                kind().fit(scaled, X * size).gram(X * size), kind().fit(plain, X).gram(X), atol=1e-3
            )

    @pytest.mark.parametrize("lam", [1e-300, 1e-150, 1e150, 1e308])
    @pytest.mark.parametrize("rho", [0.0, 1e-300, 1e150])
    def test_extreme_parameters_give_finite_numbers(self, lam, rho):
        K = WEG(lam=lam, rho=rho).fit(arc()).gram(rows())
        assert np.isfinite(K).all()
        assert K.min() >= 0
        assert K.max() <= 1 + 1e-9

    def test_rows_at_1e300_still_find_their_nearest_point(self):
        x = 1e300 * np.array([[0.6, 0.8]])
        for kernel in (EG(lam=1.0), WEG(lam=1.0, rho=1.0)):
            assert kernel.fit(arc()).weights(x)[0].argmax() == (arc() @ x[0]).argmax()

    @pytest.mark.parametrize("kernel", [EG(lam=1.0), WEG(lam=1.0, rho=1.0)])
    def test_rows_beyond_double_precision_are_refused_by_name(self, kernel):
        fitted = kernel.fit(1e6 * arc())
        X = np.vstack((rows(2), [[1.7e308, 1.7e308]]))
        for use in (fitted.gram, fitted.diag, fitted.weights):
            if use == fitted.diag and kernel.normalize:
                continue  # 1 whatever the row
            with pytest.raises(NumericalError, match=r"row 2 .* too far from the boundary"):
                use(X)

    def test_rho_beyond_double_precision_is_refused_by_name(self):
        with pytest.raises(NumericalError, match=r"rho=1e\+308"):
            WEG(lam=1.0, rho=1e308).fit(100 * arc()).gram(100 * rows())


class TestBadInput:
    @pytest.mark.parametrize("kernel", [EG(), WEG(), WEG(lam=1.0, rho=1.0, normalize=False)])
    def test_not_fitted(self, kernel):
        X = rows(3)
        uses = [
            lambda: kernel.gram(X),
            lambda: kernel.cross(X, X),
            lambda: kernel.diag(X),
            lambda: kernel.cross_to(Rows.of(X)),
            lambda: kernel.weights(X),
            lambda: kernel(X),
            kernel.diagnostics,
        ]
        for use in uses:
            with pytest.raises(NotFittedError, match="not fitted yet; call fit") as caught:
                use()
            assert isinstance(caught.value, SklearnNotFittedError)

    @pytest.mark.parametrize(
        ("kernel", "error", "message"),
        [
            (WEG(lam="best"), InputError, "lam='best' must be 'auto', 'evidence' or a number"),
            (WEG(rho="best"), InputError, "rho='best' must be 'auto', 'evidence' or a number"),
            (EG(lam="best"), InputError, "lam='best'"),
            (WEG(lam=0.0), InputError, r"lam=0\.0 must be a finite number greater than 0"),
            (WEG(lam=-1), InputError, "lam=-1 must be"),
            (WEG(lam=np.inf), InputError, "lam=inf"),
            (WEG(rho=-1e-3), InputError, r"rho=-0\.001 must be a finite number of at least 0"),
            (WEG(rho=np.nan), InputError, "rho=nan"),
            (WEG(lam=None), ParameterTypeError, "lam=None must be a number"),
            (WEG(rho=[1.0]), ParameterTypeError, r"rho=\[1\.0\] must be a number"),
        ],
    )
    def test_parameters(self, kernel, error, message):
        with pytest.raises(error, match=message):
            kernel.fit(arc())

    def test_no_boundary(self):
        with pytest.raises(InputError, match="WEG needs boundary points"):
            WEG().fit()
        with pytest.raises(InputError, match="EG needs boundary points"):
            EG().fit(None, rows())

    def test_rows(self):
        kernel = WEG(lam=1.0, rho=1.0).fit(arc())
        with pytest.raises(InputError, match="has 3 features but the boundary points have 2"):
            kernel.gram(rows(D=3))
        with pytest.raises(InputError, match="Y has 3 features but the boundary points have 2"):
            kernel.cross(rows(), rows(D=3))
        with pytest.raises(InputError, match="X has 3 features but the boundary has 2"):
            kernel.fit(arc(), rows(D=3))
        with pytest.raises(InputError, match=r"X must have shape \(rows, features\).*\(2,\)"):
            kernel.diag([1.0, 2.0])
        with pytest.raises(InputError, match=r"at least one row, got shape \(0, 2\)"):
            kernel.gram(np.zeros((0, 2)))
        with pytest.raises(InputError, match=r"X has .*nan.* at index \(0, 1\)"):
            kernel.gram([[0.0, np.nan]])
