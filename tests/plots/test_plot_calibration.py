"""Promised against actual coverage: counted by hand, and right by construction."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.stats import binom, norm

import gpec
from explanation_helpers import explanation
from gpec.errors import InputError
from gpec.plots import calibration
from gpec.similar import MeasurementError


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def line(ax, name="all features"):
    return next(line for line in ax.lines if line.get_label() == name).get_data()


def counted(e, truth, level):
    """Share inside, one by one; ``truth`` has an axis for similar rows."""
    lower, upper = e.interval(level)
    inside = [
        lower[i, j] <= truth[i, k, j] <= upper[i, j]
        for i in range(truth.shape[0])
        for k in range(truth.shape[1])
        for j in range(truth.shape[2])
    ]
    return np.mean(inside)


def test_points_are_counted_coverage():
    e, truth = explanation(n=30), np.random.default_rng(1).normal(size=(30, 3))
    promised, actual = line(calibration(e, truth, levels=[0.9, 0.5]))
    np.testing.assert_array_equal(promised, [0.5, 0.9])
    np.testing.assert_allclose(actual, [counted(e, truth[:, None], level) for level in (0.5, 0.9)])


def test_similar_rows_have_an_axis_of_their_own():
    e, truth = explanation(n=20), np.random.default_rng(1).normal(size=(20, 4, 3))
    promised, actual = line(calibration(e, truth))
    np.testing.assert_allclose(promised, np.arange(1, 20) / 20)
    np.testing.assert_allclose(actual, [counted(e, truth, level) for level in promised])


def test_truth_drawn_from_the_intervals_lies_on_the_diagonal_and_in_the_band():
    rng = np.random.default_rng(2)
    shape = (4_000, 3)
    std = np.exp(rng.normal(size=shape))
    values = rng.normal(size=shape)
    parts = {"explainer_variance": None, "base_values": None, "data": np.zeros(shape)}
    e = explanation(values=values, model_variance=std**2, noise_variance=np.zeros(shape), **parts)
    right, narrow = (line(calibration(e, values + wide * std * rng.normal(size=shape)))[1] for wide in (1.0, 2.0))
    promised = np.arange(1, 20) / 20
    np.testing.assert_allclose(right, promised, atol=0.02)
    np.testing.assert_allclose(narrow, 2 * norm.cdf(norm.isf((1 - promised) / 2) / 2) - 1, atol=0.02)


def test_the_band_is_binomial_over_rows():
    ax = calibration(explanation(n=25), np.zeros((25, 3)))
    (band,) = ax.collections
    vertices = band.get_paths()[0].vertices
    at_half = np.unique(vertices[np.isclose(vertices[:, 0], 0.5), 1])
    np.testing.assert_allclose(at_half, [binom.ppf(0.025, 25, 0.5) / 25, binom.ppf(0.975, 25, 0.5) / 25])
    assert band.get_label() == "chance, 25 rows"


def test_features_furthest_from_the_diagonal_are_named():
    e = explanation(n=40, feature_names=["right", "$never$_inside", "also right"])
    rng = np.random.default_rng(3)
    truth = e.values + e.std * rng.normal(size=e.shape)
    truth[:, 1] += 1e3
    ax = calibration(e, truth, by_feature=True, max_features=1, levels=[0.5, 0.8])
    named = [text.get_text() for text in ax.get_legend().get_texts()]
    assert named == ["chance, 40 rows", r"\$never\$_inside", "all features"]
    np.testing.assert_array_equal(line(ax, r"\$never\$_inside")[1], [0.0, 0.0])
    grey = [line for line in ax.lines if line.get_label().startswith("_") and len(line.get_xdata()) == 2][1:]
    assert len(grey) == 2
    np.testing.assert_allclose(
        np.sort([g.get_ydata()[0] for g in grey]),
        np.sort([counted(e[:, [j]], truth[:, None, [j]], 0.5) for j in (0, 2)]),
    )


def test_no_two_features_look_alike():
    e = explanation(6, 20, feature_names=[f"x{i}" for i in range(20)])
    ax = calibration(e, e.values, by_feature=True, max_features=20, levels=[0.5])
    curves = [line for line in ax.lines if line.get_label().startswith("x")]
    assert len(curves) == 20
    assert len({(line.get_marker(), line.get_linestyle()) for line in curves}) == 20


def test_classes_are_counted_together_or_one_is_chosen():
    e, truth = explanation(n=10, classes=4), np.random.default_rng(4).normal(size=(10, 3, 4))
    each = [counted(e[:, :, c], truth[:, None, :, c], 0.7) for c in range(4)]
    assert line(calibration(e, truth, levels=[0.7]))[1][0] == pytest.approx(np.mean(each))
    assert line(calibration(e, truth, levels=[0.7], output="virginica"))[1][0] == pytest.approx(each[2])


def test_levels_beyond_the_calibration_are_left_out(X, make_auto):
    g = make_auto().fit(X[:80])
    g.calibrate(X[80:90])  # ten rows know of levels up to 10 / 11
    e = g.explain(X[90:], confidence_level=0.5)
    promised, _ = line(calibration(e, e.values))
    assert promised.max() == pytest.approx(0.9)
    with pytest.raises(InputError, match="rows"):
        calibration(e, e.values, levels=[0.95])


def test_it_draws_where_it_is_told():
    _, ax = plt.subplots()
    assert calibration(explanation(), np.zeros((5, 3)), ax=ax, title="a$b_") is ax
    assert ax.get_title() == r"a\$b_"


def test_the_title_says_what_the_intervals_are_about(X, make_auto):
    g = make_auto().fit(X)
    e = g.explain(X[:5])
    assert calibration(e, e.values).get_title() == "intervals over similar rows"
    assert (
        calibration(g.explain(X[:5], attribution="posterior"), e.values).get_title()
        == "intervals for the explainer's answer"
    )


@pytest.mark.parametrize(
    ("truth", "wrong", "match"),
    [
        (np.zeros((5, 2)), {}, r"shape \(5, 2\); expected \(5, 3\), or \(5, K, 3\)"),
        (np.zeros((5, 0, 3)), {}, "expected"),
        (np.zeros((3, 5, 3)), {}, "expected"),
        (np.full((5, 3), np.nan), {}, "truth has nan"),
        (np.zeros((5, 3)), {"levels": []}, "levels is empty"),
        (np.zeros((5, 3)), {"levels": [0.5, 1.0]}, "levels=1.0"),
        (np.zeros((5, 3)), {"output": "rose"}, "output='rose'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(truth, wrong, match):
    with pytest.raises(InputError, match=match):
        calibration(explanation(), truth, **wrong)


def test_a_single_row_is_refused_with_a_remedy():
    with pytest.raises(gpec.errors.InputError, match="many rows"):
        calibration(explanation()[0], np.zeros(3))


def test_levels_are_those_that_explained_similar_rows_give(make_exact, X):
    g = make_exact().fit(X)
    e = g.explain(X[:20])
    truth = e.similar_values
    promised, actual = line(calibration(e, truth))
    assert len(promised) == 19
    assert (actual >= promised - 1e-12).all()  # they hold all of them
    bare = g.explain(X[:20], keep_similar=False)
    np.testing.assert_allclose(line(calibration(bare, truth))[0], [0.8, 0.95])
    few = make_exact(similar=MeasurementError({0: 0.5}, n_draws=19)).fit(X).explain(X[:20], confidence_level=0.9)
    assert line(calibration(few, few.similar_values))[0].max() == pytest.approx(0.9)
