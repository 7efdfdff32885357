"""The playground's numbers against other ways to get them."""

from dataclasses import replace
from itertools import combinations
from math import log10

import numpy as np
import pytest
from scipy.stats import kstest

import gpec
from gpec.app._controls import SLIDERS, controls_from
from gpec.app._datasets import DATASETS, FORMULA, MODELS, load_dataset, train
from gpec.app._shapley import noisy_shapley, shapley_of_two
from gpec.app._surface import ALIKE, PAPER, SIMILAR, Controls, fit_of, reading_at, surface_of
from gpec.datasets import linear_boundary
from gpec.errors import InputError

LINE = Controls(dataset="line", model=FORMULA, n_boundary=100)


def twisted(X):
    return np.tanh(X[:, 0] * X[:, 1] + 0.3 * X[:, 0])


def test_shapley_values_by_brute_force():
    rng = np.random.default_rng(0)
    X, background = rng.normal(size=(7, 2)), rng.normal(size=(5, 2))

    def worth(row, members):
        rows = background.copy()
        rows[:, members] = row[members]
        return twisted(rows).mean()

    expected = np.zeros_like(X)
    for i, row in enumerate(X):
        for j in (0, 1):
            for size in (0, 1):
                for others in combinations([1 - j], size):
                    gain = worth(row, [*others, j]) - worth(row, list(others))
                    expected[i, j] += gain / 2
    np.testing.assert_allclose(shapley_of_two(twisted, X, background), expected, atol=1e-12)


def test_values_shared_by_rows_are_asked_for_once():
    asked = []

    def predict(X):
        asked.append(len(X))
        return twisted(X)

    x = np.linspace(-1, 1, 10)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(x, x)])
    shapley_of_two(predict, grid, grid[:5])
    assert sum(asked) == 100 + 5 + 2 * 10 * 5


def test_noise_is_normal_and_belongs_to_the_row():
    X = np.random.default_rng(0).normal(size=(4000, 2))
    values, variance = noisy_shapley(twisted, X[:5], 0.3, seed=0)(X)
    noise = (values - shapley_of_two(twisted, X, X[:5])) / 0.3
    assert variance == pytest.approx(0.09)
    assert kstest(noise.ravel(), "norm").pvalue > 0.001
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.06
    again, _ = noisy_shapley(twisted, X[:5], 0.3, seed=0)(X[::-1])
    np.testing.assert_array_equal(again[::-1], values)


def test_the_explainer_is_the_exact_one():
    """At a point, without noise, the page shows what gpec's own exact explainer answers."""
    controls = replace(LINE, noise=0.0)
    fit, settings = fit_of(controls), {"kernel": "weg", "similar": None, "n_boundary": 50, "n_explained": 20}
    other = gpec.GPEC(fit.model, "exact", background=fit.background, random_state=0, progress=False, **settings)
    own = other.fit(load_dataset("line").X).explain(np.array([[1.0, -2.0]]))
    reading = reading_at(controls, (1.0, -2.0), 1)
    assert reading.e.values == pytest.approx(own.values[0, 1], abs=1e-9)


@pytest.mark.parametrize("meaning", [PAPER, SIMILAR])
def test_the_surface_and_the_reading_agree(meaning):
    controls = replace(LINE, meaning=meaning)
    surface = surface_of(controls)
    x, y = surface.dataset.axes(len(surface.width))
    i, j = 7, 11
    for feature in (0, 1):
        reading = reading_at(controls, (float(x[j]), float(y[i])), feature)
        assert reading.e.upper - reading.e.lower == pytest.approx(surface.width[i, j, feature], rel=1e-6)
        assert reading.e.lower <= reading.e.values <= reading.e.upper


def test_the_paper_s_interval_is_made_of_both_parts():
    reading = reading_at(replace(LINE, noise=0.05), (3.0, 1.0), 0)
    half = 1.959963984540054 * reading.e.std
    assert (reading.e.lower, reading.e.upper) == pytest.approx((reading.e.values - half, reading.e.values + half))


def test_distance_to_a_line():
    """The nearest point of x2 = x1, in standard deviations of both features, by plain geometry."""
    controls = replace(LINE, n_boundary=600)
    sd = load_dataset("line").X.std(axis=0)
    t = np.linspace(-10, 10, 20_001)
    point = (4.0, -3.0)
    expected = np.hypot((t - point[0]) / sd[0], (t - point[1]) / sd[1]).min()
    assert reading_at(controls, point, 0).distance == pytest.approx(expected, abs=0.02)


def test_the_ball_is_where_the_kernel_is_high():
    """Of a line the kernel has a closed form in the limit: a row stands for its foot, so the ball is a strip."""
    controls = replace(LINE, lam=1.0, rho=100.0, n_boundary=600)
    surface = surface_of(controls)
    reading = reading_at(controls, (0.0, 0.0), 0)
    sd = load_dataset("line").X.std(axis=0)
    x, y = surface.dataset.axes(len(surface.probability))
    X, Y = np.meshgrid(x / sd[0], y / sd[1])
    direction = np.array([1 / sd[0], 1 / sd[1]])
    foot = np.abs(X * direction[0] + Y * direction[1]) / np.linalg.norm(direction)
    inside = reading.ball >= ALIKE
    assert inside[foot < 0.03].all()
    assert not inside[foot > 0.35].any()


def test_an_explained_row_more_narrows_every_interval_of_the_paper():
    before = surface_of(LINE)
    after = surface_of(replace(LINE, added=((2.0, 7.0),)))
    assert len(after.explained) == len(before.explained) + 1
    assert after.n_added == 1
    np.testing.assert_array_equal(after.explained[-1], [2.0, 7.0])
    assert (after.width <= before.width + 1e-9).all()
    assert after.median_width(0) < before.median_width(0)


@pytest.mark.parametrize(
    ("meaning", "change"),
    [
        (PAPER, {"lam": 5.0}),
        (PAPER, {"rho": 100.0}),
        (PAPER, {"n_boundary": 50}),
        (PAPER, {"noise": 0.1}),
        (PAPER, {"regularisation": 3.0}),
        (SIMILAR, {"lam": 5.0}),
        (SIMILAR, {"rho": 100.0}),
        (SIMILAR, {"step": 0.9}),
        (SIMILAR, {"noise": 0.1}),
    ],
    ids=str,
)
def test_every_control_moves_the_picture(meaning, change):
    before = surface_of(replace(LINE, meaning=meaning))
    after = surface_of(replace(LINE, meaning=meaning, **change))
    assert np.abs(after.width - before.width).max() > 0.02 * before.width.max()


def test_noise_widens_intervals():
    widths = [surface_of(replace(LINE, noise=noise)).median_width(0) for noise in (0.0, 0.05, 0.1)]
    assert widths[0] < widths[1] < widths[2]


def test_a_slider_that_does_not_matter_runs_nothing_twice():
    """The model and the boundary are kept when lam moves."""
    first, second = (fit_of(replace(LINE, lam=lam)) for lam in (0.5, 0.7))
    assert first.model is second.model
    assert first.boundary_ is second.boundary_


def test_similar_rows_go_the_way_of_the_step():
    point = (1.5, -4.0)
    near, far = (reading_at(replace(LINE, meaning=SIMILAR, step=step), point, 0).similar for step in (0.25, 0.5))
    np.testing.assert_allclose(far - point, 2 * (near - point), atol=1e-9)
    assert len(reading_at(LINE, point, 0).similar) == 0


@pytest.mark.parametrize("name", DATASETS)
def test_every_place_has_two_classes_and_a_model(name):
    dataset = load_dataset(name)
    assert dataset.X.shape == (len(dataset.y), 2)
    assert set(dataset.y) == {0, 1}
    kind = FORMULA if dataset.score is not None else "svm"
    labels = (train(dataset, kind, 1.0).predict_proba(dataset.X)[:, 1] > 0.5).astype(int)
    assert (labels == dataset.y).mean() > (0.999 if kind == FORMULA else 0.85)


@pytest.mark.parametrize("kind", list(MODELS)[1:])
def test_regularisation_makes_models_smoother(kind):
    """Less of the noise in the labels is learned by heart."""
    dataset = load_dataset("moons")
    flipped = np.random.default_rng(0).random(len(dataset.y)) < 0.15
    noisy = replace(dataset, y=np.where(flipped, 1 - dataset.y, dataset.y))
    by_heart = [
        ((train(noisy, kind, strength).predict_proba(dataset.X)[:, 1] > 0.5) == noisy.y).mean()
        for strength in (0.0, 4.0)
    ]
    assert by_heart[0] > by_heart[1] + 0.02


def test_the_line_is_that_of_the_data_sets():
    X = np.random.default_rng(1).uniform(-9, 9, (50, 2))
    expected = linear_boundary(10, sharpness=1.0).model.predict_proba(X)
    np.testing.assert_allclose(train(load_dataset("line"), FORMULA, 1.0).predict_proba(X), expected, atol=1e-12)


def test_a_model_without_a_boundary():
    with pytest.raises(InputError, match="no boundary; lower the regularisation"):
        surface_of(Controls(dataset="iris", model="forest", regularisation=4.0))


def test_a_table_has_no_formula():
    with pytest.raises(InputError, match="no formula"):
        train(load_dataset("iris"), FORMULA, 1.0)


def test_too_many_added_rows_are_refused():
    with pytest.raises(InputError, match="30"):
        Controls(added=((0.0, 0.0),) * 31)


def test_sliders_say_what_they_stand_for():
    positions = {dial.name: dial.shown(getattr(Controls(), dial.name)) for dial in SLIDERS}
    chosen = {"dataset": "line", "model": "svm", "meaning": PAPER}
    controls = controls_from(chosen, {**positions, "lam": log10(2.0), "n_boundary": 150.0}, [[1, 2]])
    assert controls.lam == pytest.approx(2.0)
    assert controls.n_boundary == 150
    assert controls.added == ((1.0, 2.0),)
    assert (controls.rho, controls.noise, controls.step) == pytest.approx((10.0, 0.02, 0.5))


@pytest.mark.parametrize("dial", SLIDERS, ids=lambda dial: dial.name)
def test_sliders_stay_in_their_range(dial):
    assert dial.meant(1e9) == dial.meant(dial.most)
    assert dial.meant(-1e9) == dial.meant(dial.least)
    assert dial.least <= dial.shown(getattr(Controls(), dial.name)) <= dial.most
