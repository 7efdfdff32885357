"""The surface of uncertainty: colours, boundary and rows against what is known of them."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import gpec
from gpec.errors import InputError, NotFittedError
from gpec.plots import heatmap

SMALL = {"n_boundary": 60, "n_explained": 20, "background": 10, "random_state": 0, "progress": False}
PAPER = {**gpec.PAPER, "lam": "auto", "rho": "auto"}


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def above_the_line(X):
    """Two or three features; the boundary is x1 = x0 + x2, where x2 counts as 0 if there is none."""
    X = np.asarray(X, dtype=float)
    return expit(3 * (X[:, 1] - X[:, 0] - X[:, 2:].sum(axis=1)))


def explainer(X):
    X = np.asarray(X, dtype=float)
    return np.tanh(X)


def fitted(d, model=above_the_line, **settings):
    X = np.random.default_rng(0).uniform(-2, 2, size=(150, d))
    return gpec.GPEC(model, explainer, **{**SMALL, **PAPER, **settings}).fit(X)


@pytest.fixture(scope="module")
def two():
    return fitted(2)


@pytest.fixture(scope="module")
def three():
    return fitted(3)


def mesh_of(ax):
    (mesh,) = [child for child in ax.collections if type(child).__name__ == "QuadMesh"]
    return mesh


def named(ax, name):
    return next(artist for artist in [*ax.lines, *ax.collections] if artist.get_label() == name)


def centers(low, high, n):
    return low + (high - low) * (np.arange(n) + 0.5) / n


class TestColours:
    @pytest.mark.parametrize("quantity", ["width", "std", "model_variance", "noise_variance", "value"])
    def test_each_cell_shows_its_row(self, two, quantity):
        ax = heatmap(two, "x1", quantity=quantity, limits=((-2, 2), (-1, 3)), n_grid=5)
        rows = np.array([(x, y) for y in centers(-1, 3, 5) for x in centers(-2, 2, 5)])
        e = two.explain(rows, attribution="posterior")
        expected = {"value": e.values}.get(quantity, getattr(e, quantity, None))[:, 1].reshape(5, 5)
        np.testing.assert_allclose(mesh_of(ax).get_array(), expected, rtol=1e-7, atol=1e-12)
        edges = mesh_of(ax).get_coordinates()
        np.testing.assert_allclose(edges[0, [0, -1], 0], [-2, 2])
        np.testing.assert_allclose(edges[[0, -1], 0, 1], [-1, 3])

    def test_other_features_are_held_at_the_row_given(self, three):
        row = [0.3, -0.4, 1.2]
        ax = heatmap(three, 0, features=("x2", "x0"), data=row, limits=((-1, 1), (-2, 2)), n_grid=4)
        rows = np.array([(y, -0.4, x) for y in centers(-2, 2, 4) for x in centers(-1, 1, 4)])
        expected = three.explain(rows, attribution="posterior").width[:, 0].reshape(4, 4)
        np.testing.assert_allclose(mesh_of(ax).get_array(), expected, rtol=1e-7, atol=1e-12)
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x2", "x0")

    def test_the_explainer_is_run_if_asked_for(self, two):
        ax = heatmap(two, "x0", quantity="value", attribution="explainer", limits=((-2, 2), (-2, 2)), n_grid=4)
        np.testing.assert_allclose(mesh_of(ax).get_array(), np.tile(np.tanh(centers(-2, 2, 4)), (4, 1)))

    def test_a_function_draws_another_method(self, two):
        ax = heatmap(two, "x0", quantity=lambda X: X[:, 0] + 10 * X[:, 1], limits=((0, 2), (0, 2)), n_grid=2)
        np.testing.assert_allclose(mesh_of(ax).get_array(), [[5.5, 6.5], [15.5, 16.5]])
        with pytest.raises(InputError, match=r"shape \(4, 2\).*one number for each of 4 rows"):
            heatmap(two, "x0", quantity=lambda X: X, n_grid=2)

    def test_values_are_coloured_alike_on_both_sides_of_0(self, two):
        mesh = mesh_of(heatmap(two, "x0", quantity="value", n_grid=5))
        assert mesh.norm.vmin == -mesh.norm.vmax == -np.abs(mesh.get_array()).max()

    def test_colours_can_be_shared_by_several_pictures(self, two):
        assert mesh_of(heatmap(two, "x0", color_limits=(0, 7), n_grid=3)).get_clim() == (0, 7)
        with pytest.raises(InputError, match="low < high"):
            heatmap(two, "x0", color_limits=(1, 1), n_grid=3)

    @pytest.mark.parametrize("constant", [0.0, 0.25])
    def test_a_constant_has_a_colour_bar(self, two, constant):
        mesh = mesh_of(heatmap(two, "x0", quantity=lambda X: np.full(len(X), constant), n_grid=3))
        assert mesh.norm.vmin == 0.0
        assert mesh.norm.vmax > constant

    def test_the_bar_says_what_it_shows_and_in_which_unit(self):
        g = fitted(2)
        ax = heatmap(g, "x0", confidence_level=0.8, n_grid=3)
        bar = ax.figure.axes[-1].get_ylabel()
        unit = g.diagnostics_["unit"]
        assert bar == f"width of the 80% interval ({unit})"
        words = heatmap(g, "x0", n_grid=3, bar_label="$4 or $5").figure.axes[-1].get_ylabel()
        assert words == r"\$4 or \$5"


class TestBoundaryAndRows:
    def test_sampled_points_lie_on_the_line(self, two):
        x, y = named(heatmap(two, "x0", n_grid=3), "sampled boundary").get_data()
        assert len(x) == len(two.boundary_)
        np.testing.assert_allclose(y, x, atol=1e-3)

    def test_with_more_features_the_line_is_that_of_the_slice(self, three):
        ax = heatmap(three, "x0", features=("x0", "x1"), data=[0.0, 0.0, 0.5], n_grid=40)
        lines = [c for c in ax.collections if type(c).__name__ == "QuadContourSet"]
        assert len(lines) == 2  # white below black
        for line in lines:
            vertices = np.vstack([path.vertices for path in line.get_paths()])
            np.testing.assert_allclose(vertices[:, 1], vertices[:, 0] + 0.5, atol=0.02)
            assert np.ptp(vertices[:, 0]) > 2

    def test_a_slice_without_a_change_has_no_line(self, three):
        ax = heatmap(three, "x0", features=("x0", "x1"), data=[0.0, 0.0, -2.0], limits=((-1, 0), (1, 2)), n_grid=5)
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["explained rows"]

    def test_explained_rows_are_where_they_are(self, two, three):
        np.testing.assert_array_equal(
            named(heatmap(two, 0, n_grid=3), "explained rows").get_offsets(), two.X_explained_
        )
        ax = heatmap(three, 0, features=("x2", "x1"), n_grid=3)
        np.testing.assert_array_equal(named(ax, "explained rows").get_offsets(), three.X_explained_[:, [2, 1]])

    def test_both_can_be_left_out(self, two):
        ax = heatmap(two, "x0", boundary=False, explained=False, n_grid=3)
        assert len(ax.collections) == 1
        assert not ax.lines
        assert ax.get_legend() is None

    def test_it_draws_where_it_is_told(self, two):
        _, axes = plt.subplots(1, 2)
        assert heatmap(two, "x0", ax=axes[1], n_grid=3) is axes[1]
        assert not axes[0].collections


class TestAxes:
    def test_two_features_keep_their_order_whichever_is_asked_about(self, two):
        for feature in ("x0", "x1"):
            ax = heatmap(two, feature, n_grid=3)
            assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("x0", "x1", feature)

    def test_with_more_the_second_is_the_one_with_the_largest_attributions(self, X):
        g = gpec.GPEC(above_the_line, lambda X: X * [1.0, 0.1, 9.0], **{**SMALL, **PAPER}).fit(X)
        assert heatmap(g, "x1", n_grid=3).get_ylabel() == "x2"
        assert heatmap(g, "x2", n_grid=3).get_ylabel() == "x0"

    def test_a_few_rows_far_away_do_not_squeeze_the_others(self):
        X = np.random.default_rng(0).uniform(-2, 2, size=(500, 2))
        X[0] = [1e6, 0.0]
        g = gpec.GPEC(above_the_line, explainer, **{**SMALL, "n_explained": 10}).fit(X)
        low, high = heatmap(g, "x0", n_grid=3).get_xlim()
        assert -3 < low < -1.9
        assert 1.9 < high < 3

    def test_categories_have_cells_and_names_and_walls(self):
        names = ["$a$_1", "b", "Saint Petersburg, Florida, United States"]
        rng = np.random.default_rng(0)
        X = pd.DataFrame({"city_$": rng.choice(names, 150), "x": rng.uniform(-2, 2, 150), "z": rng.uniform(-2, 2, 150)})

        def model(X):  # beyond 1 in b, beyond 0 elsewhere
            return expit(5 * (X["x"].to_numpy(float) - (X["city_$"] == "b")))

        g = gpec.GPEC(model, lambda X: X[["x", "x", "z"]].to_numpy(float), **{**SMALL, **PAPER}).fit(X)
        ax = heatmap(g, "x", features=("city_$", "x"), n_grid=41)
        assert mesh_of(ax).get_array().shape == (41, 3)
        assert ax.get_xlabel() == r"city_\$"
        shown = [tick.get_text() for tick in ax.get_xticklabels()]
        assert shown[:2] == [
            r"\$a\$_1" if name.startswith("$") else "Saint Petersb…States" for name in sorted(names)[:2]
        ]
        line = next(c for c in ax.collections if type(c).__name__ == "QuadContourSet")
        vertices = np.vstack([path.vertices for path in line.get_paths()])
        place = sorted(names).index("b")
        inside = np.abs(vertices[:, 0] - place) < 0.49
        outside = np.abs(vertices[:, 0] - place) > 0.51
        np.testing.assert_allclose(vertices[inside, 1], 1.0, atol=0.06)
        np.testing.assert_allclose(vertices[outside, 1], 0.0, atol=0.06)
        cells = np.rint(named(ax, "explained rows").get_offsets()[:, 0])
        codes = [sorted(names).index(city) for city in g.X_explained_["city_$"]]
        np.testing.assert_array_equal(cells, codes)
        ax.figure.savefig(io.BytesIO())  # names that are no formulas

    def test_dates_are_read_and_written_as_dates(self):
        rng = np.random.default_rng(0)
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, 150), unit="D")
        X = pd.DataFrame({"when": days, "x": rng.uniform(-2, 2, 150)})

        def model(X):
            return expit(X["x"].to_numpy(float))

        g = gpec.GPEC(model, lambda X: X[["x", "x"]].to_numpy(float), **{**SMALL, **PAPER}).fit(X)
        ax = heatmap(g, "x", limits=((pd.Timestamp("2020-03-01"), pd.Timestamp("2020-09-01")), None), n_grid=4)
        ax.figure.canvas.draw()
        shown = [pd.Timestamp(tick.get_text()) for tick in ax.get_xticklabels() if tick.get_text()]
        assert len(shown) >= 3
        assert all(date.year == 2020 for date in shown)
        offsets = named(ax, "explained rows").get_offsets()[:, 0]
        days_shown = np.ptp(g.X_explained_["when"]).days
        assert np.ptp(ax.get_xlim()) / np.ptp(offsets) == pytest.approx(184 / days_shown)  # March to August

    def test_one_row_may_come_in_any_form(self, mixed):
        g = gpec.GPEC(mixed.model, lambda X: np.zeros((len(X), 5)) + X[["price"]].to_numpy(), **{**SMALL, **PAPER})
        g.fit(mixed.frame)
        pictures = [
            mesh_of(heatmap(g, "price", features=("price", "weight"), data=row, n_grid=3)).get_array()
            for row in (mixed.frame.iloc[7], mixed.frame.iloc[[7]])
        ]
        np.testing.assert_array_equal(*pictures)
        with pytest.raises(InputError, match="data has 2 rows; give one row"):
            heatmap(g, "price", data=mixed.frame.head(2))

    def test_several_classes_are_drawn_one_at_a_time(self, X, models):
        g = gpec.GPEC(models.three_classes, models.slopes_of_three, **{**SMALL, **PAPER}).fit(X)
        with pytest.raises(InputError, match=r"choose it by output=, from \['0', '1', '2'\]"):
            heatmap(g, "x0")
        ax = heatmap(g, "x0", output=2, features=("x0", "x1"), data=X[0], limits=((-1, 1), (-1, 1)), n_grid=3)
        assert ax.get_title() == "x0, class 2"
        rows = np.array([(x, y, X[0, 2]) for y in centers(-1, 1, 3) for x in centers(-1, 1, 3)])
        expected = g.explain(rows, attribution="posterior").width[:, 0, 2].reshape(3, 3)
        np.testing.assert_allclose(mesh_of(ax).get_array(), expected, rtol=1e-7, atol=1e-12)

    def test_a_group_is_drawn_over_a_column_of_its_own(self, X):
        g = gpec.GPEC(above_the_line, explainer, groups={"both": ["x0", "x2"]}, **{**SMALL, **PAPER}).fit(X)
        ax = heatmap(g, "both", n_grid=3)
        assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("both", "x0", "x1")


class TestRefusals:
    def test_one_feature_is_refused_with_a_remedy(self):
        X = np.linspace(-2, 2, 60)[:, None]
        g = gpec.GPEC(lambda X: expit(X[:, 0]), explainer, **{**SMALL, **PAPER}).fit(X)
        with pytest.raises(InputError, match=r"two features, and the rows have only one; use gpec\.plots\.scatter"):
            heatmap(g, "x0")

    def test_what_is_not_fitted_is_refused(self):
        with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
            heatmap(gpec.GPEC(above_the_line), "x0")

    @pytest.mark.parametrize(
        ("wrong", "match"),
        [
            ({"feature": "y"}, "feature='y' is not one of"),
            ({"feature": 7}, "feature=7 is not one of"),
            ({"features": ("x0",)}, "two columns"),
            ({"features": "x0"}, "two columns"),
            ({"features": ("x0", "x0")}, "one column twice"),
            ({"features": ("x0", "y")}, "not a column of X"),
            ({"quantity": "variance"}, "quantity='variance' is not one of"),
            ({"attribution": "mean"}, "attribution='mean' is not one of"),
            ({"n_grid": 1}, "n_grid=1 must be at least 2"),
            ({"limits": ((0, 1),)}, "two pairs"),
            ({"limits": ((1, 0), None)}, "low < high"),
            ({"limits": ((0, "a"), None)}, "low < high"),
            ({"limits": ((0, 1, 2), None)}, "low < high"),
            ({"output": "3"}, "output='3' is not one of"),
        ],
    )
    def test_wrong_words_are_refused(self, three, wrong, match):
        with pytest.raises(InputError, match=match):
            heatmap(three, **{"feature": "x0", **wrong})


@pytest.mark.parametrize("d", [2, 3])
def test_mode_explain_runs_the_explainer_in_each_cell(d):
    X = np.random.default_rng(0).uniform(-2, 2, size=(150, d))
    g = gpec.GPEC(above_the_line, explainer, mode="explain", **SMALL).fit(X)
    ax = heatmap(g, 1, features=[0, 1], data=np.zeros(d), n_grid=4, limits=[(-2, 2), (-2, 2)])
    across, up = np.meshgrid(centers(-2, 2, 4), centers(-2, 2, 4))
    cells = np.column_stack([across.ravel(), up.ravel(), *np.zeros((d - 2, 16))])
    np.testing.assert_allclose(mesh_of(ax).get_array().ravel(), g.explain(cells).width[:, 1], rtol=1e-12)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == (["sampled boundary"] if d == 2 else ["decision boundary"])  # no rows to learn from
    assert g.diagnostics_["mode"] == "explain"
