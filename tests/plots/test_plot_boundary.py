"""Boundary points, the way along them and similarity balls against closed forms."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import gpec
from gpec.boundary import BoundarySample
from gpec.errors import InputError, ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels import RBF, WEG
from gpec.plots import boundary

LINE = np.column_stack((np.linspace(-5, 5, 201), np.zeros(201)))
ANGLE = np.linspace(0, np.pi, 100)
HALF_CIRCLE = np.column_stack((np.cos(ANGLE), np.sin(ANGLE)))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    """Three features; the boundary is x1 = x0."""
    X = np.random.default_rng(0).uniform(-2, 2, size=(150, 3)) * [1.0, 1.0, 10.0]
    return gpec.GPEC(
        lambda X: expit(3 * (X[:, 1] - X[:, 0])),
        lambda X: X,
        n_boundary=60,
        n_explained=20,
        background=10,
        n_neighbors=20,
        components="bridge",
        random_state=0,
    ).fit(X)


def named(ax, name):
    return next(artist for artist in [*ax.lines, *ax.collections] if artist.get_label().startswith(name))


def balls(ax):
    """Outlines of the balls, one array of vertices for each."""
    found = [c for c in ax.collections if type(c).__name__ == "QuadContourSet" and not c.filled]
    return [np.vstack([path.vertices for path in c.get_paths()]) for c in found]


class TestPoints:
    @pytest.mark.parametrize("made", [np.asarray, BoundarySample.from_points, GeodesicGraph.build])
    def test_points_may_come_in_any_form(self, made):
        ax = boundary(made(HALF_CIRCLE))
        np.testing.assert_array_equal(np.column_stack(named(ax, "boundary points").get_data()), HALF_CIRCLE)

    def test_a_gpec_shows_its_own_boundary_in_the_units_of_the_rows(self, fitted):
        x, y = named(boundary(fitted), "boundary points").get_data()
        np.testing.assert_allclose(y, x, atol=1e-3)
        z, y = named(boundary(fitted, features=("x2", "x1")), "boundary points").get_data()
        np.testing.assert_array_equal(np.sort(z), np.sort(fitted.boundary_.points[:, 2]))
        assert np.ptp(z) > 10

    def test_it_draws_where_it_is_told(self):
        _, axes = plt.subplots(1, 2)
        assert boundary(LINE, ax=axes[1], title="$5_$") is axes[1]
        assert axes[1].get_title() == r"\$5_\$"

    def test_of_several_classes_one_is_drawn(self, X, models):
        g = gpec.GPEC(models.three_classes, models.slopes_of_three, n_boundary=60, n_explained=20, random_state=0)
        g.fit(X)
        with pytest.raises(InputError, match="choose it by output="):
            boundary(g)
        with pytest.raises(InputError, match="choose it by output="):
            boundary(g.boundary_)
        expected = g.boundary_.points[g.boundary_.label == 2]
        for given in (g, g.boundary_):
            points = np.column_stack(named(boundary(given, output="2"), "boundary points").get_data())
            np.testing.assert_allclose(np.sort(points, axis=0), np.sort(expected[:, :2], axis=0))


class TestWay:
    def test_the_way_on_half_a_circle_is_as_long_as_pi(self):
        ax = boundary(GeodesicGraph.build(HALF_CIRCLE, n_neighbors=2), ends=[[1.2, 0.0], [-1.2, 0.0]])
        x, y = named(ax, "path along it").get_data()
        # both neighbours of an end lie on one side of it: the way goes straight to the second
        np.testing.assert_allclose(np.column_stack((x, y)), np.delete(HALF_CIRCLE, [1, 98], axis=0))
        assert [t.get_text() for t in ax.get_legend().get_texts()][1:3] == ["path along it: 3.14", "straight: 2.00"]

    def test_the_way_of_a_gpec_goes_through_its_points(self, fitted):
        ends = fitted.X_explained_[:2]
        ax = boundary(fitted, ends=ends)
        way = np.column_stack(named(ax, "path along it").get_data())
        points = fitted.boundary_.points
        assert all((np.abs(points[:, :2] - step).max(axis=1) == 0).any() for step in way)
        scale = fitted._require_fitted().context.schema.scale
        for end, step in zip(ends, way[[0, -1]], strict=True):
            nearest = points[np.linalg.norm((points - end) / scale, axis=1).argmin()]
            np.testing.assert_array_equal(step, nearest[:2])

    def test_pieces_are_not_joined(self):
        pieces = np.vstack((LINE, LINE + np.array([0, 100])))
        with pytest.raises(InputError, match="different pieces"):
            boundary(pieces, ends=[[0, 0], [0, 100]])


class TestBalls:
    def test_along_a_line_the_ball_is_a_strip_across_it(self):
        # the weights of points on the line do not depend on the height above it
        ax = boundary(LINE, centers=[[1.0, 0.5]], kernel=WEG(lam=1.0, rho=10.0), limits=((-2, 4), (-1, 2)))
        (outline,) = balls(ax)
        left, right = outline[outline[:, 0] < 1.0], outline[outline[:, 0] > 1.0]
        assert np.ptp(left[:, 0]) < 1e-3
        assert np.ptp(right[:, 0]) < 1e-3
        assert 1.0 - left[0, 0] == pytest.approx(right[0, 0] - 1.0, rel=1e-2)

    def test_on_the_outline_the_similarity_is_the_level(self):
        kernel = WEG(lam=1.0, rho=2.0).fit(HALF_CIRCLE)
        center = np.array([0.5, 0.5])
        fine = {"limits": [(-4, 4)] * 2, "n_grid": 300}
        ax = boundary(HALF_CIRCLE, centers=[center], kernel=WEG(lam=1.0, rho=2.0), level=0.8, **fine)
        (outline,) = balls(ax)
        np.testing.assert_allclose(kernel(outline, center[None]), 0.8, atol=2e-3)
        low, high = outline.min(axis=0), outline.max(axis=0)
        assert ((low < center) & (center < high)).all()
        np.testing.assert_array_equal(named(ax, "centres").get_offsets(), [center])

    def test_a_kernel_that_is_not_normalised_is_1_for_a_row_and_itself(self):
        plain, normal = (
            balls(boundary(HALF_CIRCLE, centers=[[0.5, 0.5]], kernel=WEG(1.0, 2.0, normalize=word)))
            for word in (False, True)
        )
        np.testing.assert_allclose(plain[0], normal[0])

    def test_rbf_balls_are_circles_in_the_units_of_the_gpec(self):
        X = np.random.default_rng(0).uniform(-2, 2, size=(100, 2)) * [1.0, 10.0]
        g = gpec.GPEC(
            lambda X: expit(X[:, 0]), lambda X: X, kernel=RBF(1.5), n_boundary=40, n_explained=20, random_state=0
        )
        g.fit(X)
        (outline,) = balls(boundary(g, centers=[[0.0, 0.0]], limits=((-2, 2), (-20, 20)), level=0.9))
        scale = g._require_fitted().context.schema.scale
        radius = np.linalg.norm(outline / scale, axis=1)
        np.testing.assert_allclose(radius, 1.5 * np.sqrt(-2 * np.log(0.9)), rtol=1e-2)

    def test_with_more_features_a_ball_lies_in_the_plane_of_its_row(self, fitted):
        rows = fitted.X_explained_[:2]
        ax = boundary(fitted, centers=rows, kernel=WEG(), limits=((-3, 3), (-3, 3)), level=0.97)
        schema = fitted._require_fitted().context.schema
        kernel = WEG().fit(fitted.graph_, schema.embed(fitted.X_explained_))
        outlines = balls(ax)
        assert outlines
        for outline in outlines:
            full = [np.column_stack((outline, np.full(len(outline), row[2]))) for row in rows]
            gap = [
                np.abs(kernel(schema.embed(cells), schema.embed(row[None])) - 0.97).max()
                for cells, row in zip(full, rows, strict=True)
            ]
            assert min(gap) < 5e-3

    def test_a_kernel_that_differs_by_feature_asks_which(self, fitted):
        with pytest.raises(InputError, match=r"say feature=, or kernel=WEG\(\)"):
            boundary(fitted, centers=fitted.X_explained_[:1])
        first, second = (
            balls(boundary(fitted, centers=fitted.X_explained_[:1], feature=name, level=0.99)) for name in ("x0", "x1")
        )
        assert len(first) == len(second) == 1
        assert first[0].shape != second[0].shape or not np.allclose(first[0], second[0])

    def test_centres_are_always_in_the_picture(self):
        ax = boundary(LINE, centers=[[0.0, 30.0]], kernel=WEG(1.0, 1.0))
        assert ax.get_ylim()[1] > 30

    def test_a_ball_of_a_category_fills_its_cell(self):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(
            {"city": rng.choice(["a", "b", "c"], 100), "x": rng.uniform(-2, 2, 100), "z": rng.uniform(-2, 2, 100)}
        )
        g = gpec.GPEC(
            lambda X: expit((X["x"] + X["z"]).to_numpy(float)),
            lambda X: X[["x", "x", "z"]].to_numpy(float),
            kernel=RBF(1.0),
            n_boundary=40,
            n_explained=20,
            random_state=0,
        ).fit(X)
        ax = boundary(g, centers=pd.DataFrame({"city": ["b"], "x": [0.0], "z": [0.0]}), limits=(None, (-2, 2)))
        (outline,) = balls(ax)
        assert outline[:, 0].min() == pytest.approx(0.5, abs=0.01)
        assert outline[:, 0].max() == pytest.approx(1.5, abs=0.01)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("given", "wrong", "error", "match"),
    [
        (LINE[:, :1], {}, InputError, "only one"),
        ("points", {}, ParameterTypeError, "boundary draws a fitted GPEC"),
        (LINE, {"output": 1}, InputError, "an array of points has none"),
        (LINE, {"ends": [[0, 0]]}, InputError, "ends has 1 rows; give the two"),
        (LINE, {"centers": [[0, 0, 0]]}, InputError, "centers has 3 features"),
        (LINE, {"level": 1.0}, InputError, "level=1.0"),
        (LINE, {"n_grid": 1}, InputError, "n_grid=1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given, wrong, error, match):
    with pytest.raises(error, match=match):
        boundary(given, **wrong)


def test_in_mode_explain_the_boundary_is_sampled_for_the_plot(make_exact, X):
    g = make_exact().fit(X)
    ax = boundary(g, centers=X[:1], n_grid=5)
    points = g.boundary_.points[:, :2]
    drawn = next(line for line in ax.lines if line.get_label() == "boundary points")
    assert {tuple(point) for point in np.transpose(drawn.get_data())} <= {tuple(point) for point in points}
