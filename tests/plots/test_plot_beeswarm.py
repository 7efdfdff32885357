import time

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgba

from drawn import constant, dots_of, draw_all, made, mixed, notes, tick_texts
from gpec.errors import InputError
from gpec.plots import beeswarm


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def of(dots):
    """Places, heights and colours of the dots, by place."""
    offsets, colors = np.asarray(dots.get_offsets()), dots.get_facecolors()
    order = np.argsort(offsets[:, 0], kind="stable")
    return offsets[order, 0], offsets[order, 1], colors[order]


def test_each_attribution_is_a_dot_on_the_line_of_its_feature():
    e = made(30, 4)
    ax = draw_all(beeswarm(e, max_features=3))
    order = np.argsort(-np.abs(e.values).mean(axis=0))[:3]
    assert tick_texts(ax) == [f"x{j}" for j in order]
    for y, j, dots in zip((2, 1, 0), order, dots_of(ax), strict=True):
        x, heights, _ = of(dots)
        assert x == pytest.approx(np.sort(e.values[:, j]))
        assert np.abs(heights - y).max() <= 0.4
    assert any("30 rows; 3 of 4 features; faint: wide 95% intervals" in note for note in notes(ax))


def test_opacity_falls_with_the_width_of_the_interval():
    n = 101
    values = np.linspace(-1.0, 1.0, n)[:, None]
    width = np.linspace(0.0, 2.0, n)[:, None]  # by place
    variance = (width / 2 / 1.959964) ** 2
    e = made(n, 1, values=values, model_variance=variance, noise_variance=np.zeros((n, 1)))
    _, _, colors = of(dots_of(beeswarm(e))[0])
    expected = 1 - (1 - 0.18) * np.clip((width[:, 0] - 0.1) / 1.8, 0, 1)
    assert colors[:, 3] == pytest.approx(expected, abs=1e-5)


def test_certain_dots_lie_above_uncertain_ones():
    for dots in dots_of(beeswarm(made())):
        assert np.all(np.diff(dots.get_facecolors()[:, 3]) >= 0)


def test_each_feature_has_its_own_widths():
    variance = np.zeros((20, 2))
    variance[:, 1] = 0.04
    e = made(20, 2, model_variance=variance, noise_variance=np.zeros((20, 2)))
    narrow, wide = dots_of(beeswarm(e))
    assert np.all(narrow.get_facecolors()[:, 3] == 1.0)
    assert narrow.get_facecolors().shape == wide.get_facecolors().shape == (20, 4)
    assert wide.get_facecolors()[:, 3] == pytest.approx(0.18)


def test_the_legend_shows_opacities_with_their_widths():
    ax = beeswarm(made())
    low, high = np.quantile(made().width, [0.05, 0.95])
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [f"width {width:.2f}" for width in (low, (low + high) / 2, high)]
    assert [line.get_alpha() for line in ax.get_legend().get_lines()] == pytest.approx([1.0, 0.59, 0.18])
    assert beeswarm(made(), legend=False).get_legend() is None


def test_colours_are_values_between_the_outer_quantiles():
    n = 41
    data = np.linspace(0.0, 1.0, n)[:, None]
    zero = np.zeros((n, 1))
    e = made(n, 1, values=data.copy(), data=data, model_variance=zero, noise_variance=zero)
    _, _, colors = of(dots_of(beeswarm(e))[0])
    low_to_high = LinearSegmentedColormap.from_list("low to high", ["#0072B2", "#CC79A7", "#E69F00"])
    assert colors == pytest.approx(low_to_high(np.clip((data[:, 0] - 0.05) / 0.9, 0, 1)), abs=0.01)
    assert to_hex(colors[0]).upper() == "#0072B2"
    assert to_hex(colors[-1]).upper() == "#E69F00"
    assert np.all(colors[:, 3] == 1.0)


def test_texts_and_missing_values_are_grey():
    e = mixed()
    ax = draw_all(beeswarm(e, legend=False))
    grey = to_rgba("#888888")[:3]
    by_name = dict(zip(tick_texts(ax), dots_of(ax), strict=True))
    texts, missing = by_name[r"price in \$ per \$ of income_^2 {a}"], by_name[r"\$\frac{1}\$"]
    assert np.all(texts.get_facecolors()[:, :3] == grey)
    _, _, colors = of(missing)
    gone = np.isnan(e.data[:, 2].astype(float))[np.argsort(e.values[:, 2], kind="stable")]
    assert np.array_equal(np.all(colors[:, :3] == grey, axis=1), gone)
    assert gone.sum() == 10
    assert any("grey: text or missing" in note for note in notes(ax))
    assert not any("grey" in note for note in notes(beeswarm(made())))


def test_nearly_constant_values_still_show_the_others():
    data = np.zeros((50, 1))
    data[7] = 1.0
    e = made(50, 1, data=data)
    colors = dots_of(beeswarm(e))[0].get_facecolors()
    assert {to_hex(color[:3]).upper() for color in colors} == {"#0072B2", "#E69F00"}


@pytest.mark.parametrize("e", [constant(0.0), constant(0.1), made(1, 6), made(30, 1), made(10, 300), made(1, 1)])
def test_odd_tables(e):
    ax = draw_all(beeswarm(e))
    assert len(dots_of(ax)) == min(e.shape[1], 12)


def test_ten_thousand_rows_are_drawn_at_once():
    e = made(10_000, 20, data=np.random.default_rng(0).normal(size=(10_000, 20)).astype(object))
    start = time.perf_counter()
    ax = draw_all(beeswarm(e))
    assert time.perf_counter() - start < 10.0  # about 1.2 s on a quiet core
    assert sum(len(dots.get_offsets()) for dots in dots_of(ax)) == 120_000
    assert all(dots.get_rasterized() for dots in dots_of(ax))


def test_wrong_shapes_get_a_sentence():
    for wrong in (made()[0], made(5, 3, 2)):
        with pytest.raises(InputError, match=r"beeswarm draws many rows of one class, for instance e or e\[:, :, 'c"):
            beeswarm(wrong)
    with pytest.raises(InputError, match="the explanation has no rows"):
        beeswarm(made()[:0])


# Positions and colours


def one_feature(values, data):
    """Explanation of one feature without variance."""
    zero = np.zeros((len(values), 1))
    data = np.asarray(data)[:, None]
    values = np.asarray(values, dtype=float)[:, None]
    return made(len(values), 1, values=values, data=data, model_variance=zero, noise_variance=zero)


def test_dots_of_one_bin_lie_side_by_side():
    values = [0.0, 0.0, 0.0, 1.0]
    _, heights, _ = of(dots_of(beeswarm(one_feature(values, values)))[0])
    assert sorted(heights[:3]) == pytest.approx([-0.4 / 6, 0.0, 0.4 / 6])
    assert heights[3] == 0.0
    _, crowd, _ = of(dots_of(beeswarm(one_feature(np.full(101, 0.5), np.zeros(101))))[0])
    assert np.sort(crowd) == pytest.approx(0.4 * np.arange(-50, 51) / 51, abs=1e-12)


DATES = [pd.Timestamp("1970-01-03"), pd.NaT, pd.Timestamp("1970-02-03")]
DAYS = np.array(["1970-01-02", "1970-01-04", "NaT"], dtype="datetime64[s]")


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        (np.array([1, 2.5, None, True, np.int64(3), pd.NA], dtype=object), [False, False, True, False, False, True]),
        (np.array([1.0, "a"], dtype=object), [True, True]),
        (np.array(["1", "2"]), [True, True]),
        (np.array(DATES, dtype=object), [False, True, False]),
        (DAYS, [False, False, True]),
    ],
    ids=["numbers", "mixed", "texts", "dates", "days"],
)
def test_numbers_and_dates_have_colours_and_texts_none(data, missing):
    _, _, colors = of(dots_of(beeswarm(one_feature(np.arange(len(data)), data), legend=False))[0])
    assert np.all(colors[:, :3] == to_rgba("#888888")[:3], axis=1).tolist() == missing
    if len(data) == 6:
        assert np.array_equal(colors[0], colors[3])  # True is 1
