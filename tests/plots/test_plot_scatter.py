import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from drawn import constant, dots_of, draw_all, made, mixed, notes, tick_texts
from gpec.errors import InputError
from gpec.plots import scatter


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def places(ax):
    return np.asarray(dots_of(ax)[0].get_offsets())


def with_column(column, n=None):
    n = len(column) if n is None else n
    data = np.asarray(column, dtype=object)[:, None]
    return made(n, 1, data=data)


def test_values_against_attributions():
    e = made(30, 3)
    ax = draw_all(scatter(e, "x1"))
    order = np.argsort(e.width[:, 1], kind="stable")
    assert places(ax) == pytest.approx(np.column_stack([e.data[order, 1], e.values[order, 1]]))
    assert ax.get_xlabel() == "x1"
    assert ax.get_ylabel() == "attribution to sick (probability)"
    assert notes(ax) == ["30 rows; 95% intervals of the latent explanation (no coverage promised)"]


def test_colours_are_widths_and_the_uncertain_lie_above():
    e = made(30, 3)
    dots = dots_of(scatter(e, 1))[0]
    assert np.asarray(dots.get_array()) == pytest.approx(np.sort(e.width[:, 1]))
    assert dots.get_clim() == pytest.approx((e.width[:, 1].min(), np.quantile(e.width[:, 1], 0.95)))


def test_intervals_if_asked_for():
    e = made(30, 3)
    lines = [c for c in scatter(e, 0, intervals=True).collections if isinstance(c, mpl.collections.LineCollection)]
    ends = np.array([path.vertices for path in lines[0].get_paths()])
    assert ends[:, 0] == pytest.approx(np.column_stack([e.data[:, 0], e.lower[:, 0]]))
    assert ends[:, 1] == pytest.approx(np.column_stack([e.data[:, 0], e.upper[:, 0]]))
    assert not [c for c in scatter(e, 0).collections if isinstance(c, mpl.collections.LineCollection)]


def test_the_feature_is_chosen_before_or_here():
    e = made(30, 3, 2)
    expected = np.sort(e.values[:, 1, 0])
    for ax in (scatter(e[:, 1, 0]), scatter(e[:, :, 0], "x1"), scatter(e[:, [1], 0])):
        assert np.sort(places(ax)[:, 1]) == pytest.approx(expected)


def test_missing_numbers_stand_at_the_side():
    column = [0.0, 10.0, 5.0, np.nan, None, 2.0]
    ax = draw_all(scatter(with_column(column)))
    x = np.sort(places(ax)[:, 0])
    assert x[2:] == pytest.approx([0.0, 2.0, 5.0, 10.0])
    assert np.all(np.abs(x[:2] - -1.4) <= 0.3)
    assert tick_texts(ax, "x")[:3] == ["missing", "0", "2"]
    assert [line.get_xdata()[0] for line in ax.lines][-1] == pytest.approx(-0.7)


def test_categories_get_an_axis_of_their_own():
    e = mixed()
    ax = draw_all(scatter(e, 1))
    assert tick_texts(ax, "x") == ["missing", r"\$5_a^b\$", "blue", "red"]
    found = {}
    for (x, y), place in zip(places(ax), np.round(places(ax)[:, 0]), strict=True):
        assert abs(x - place) <= 0.35
        found.setdefault(int(place), []).append(y)
    for place, name in enumerate([None, "$5_a^b$", "blue", "red"]):
        assert np.sort(found[place]) == pytest.approx(np.sort(e.values[e.data[:, 1] == name, 1]))


def test_a_category_called_none_is_not_missing():
    ax = scatter(with_column(["None", None, "nan", np.nan, "a", "None"]))
    assert tick_texts(ax, "x") == ["missing", "None", "a", "nan"]
    assert np.bincount(np.round(places(ax)[:, 0]).astype(int)).tolist() == [2, 2, 1, 1]


def test_truth_values_are_categories():
    assert tick_texts(scatter(mixed(), 3), "x") == ["False", "True"]


def test_rare_categories_are_joined():
    column = [f"c{i:02d}" for i in range(14) for _ in range(20 - i)]
    ax = draw_all(scatter(with_column(column)))
    assert tick_texts(ax, "x") == [*(f"c{i:02d}" for i in range(12)), "2 others"]
    assert np.sum(np.round(places(ax)[:, 0]) == 12) == 8 + 7
    assert len(tick_texts(scatter(with_column(column[:-7])), "x")) == 13  # a single one stands by itself


def test_dates():
    days = [*pd.date_range("2021-03-01", periods=30), pd.NaT]
    ax = draw_all(scatter(with_column(days)))
    texts = tick_texts(ax, "x")
    assert texts[0] == "missing"
    assert all(text.startswith("2021-03-") for text in texts[1:])
    assert len(texts) > 2
    assert places(ax)[:, 0].max() == mpl.dates.date2num(pd.Timestamp("2021-03-30"))


def test_dots_that_would_cover_each_other_lie_side_by_side():
    e = made(20, 1, values=np.full((20, 1), 0.3), data=np.full((20, 1), "same", dtype=object))
    assert len(np.unique(places(scatter(e))[:, 0])) == 20


@pytest.mark.parametrize(
    "e",
    [
        constant(0.0)[:, 0],
        constant(0.1)[:, 0],
        made(1, 1),
        made(5, 1, data=np.full((5, 1), np.nan)),
        made(5, 1, data=np.array([[3.0], [3.0], [np.nan], [3.0], [3.0]])),
        made(5, 1, data=np.full((5, 1), None, dtype=object)),
    ],
)
def test_odd_columns(e):
    ax = draw_all(scatter(e))
    assert np.all(np.isfinite(places(ax)))


def test_intervals_all_alike_need_no_colour_bar():
    ax = scatter(constant(0.1)[:, 0])
    assert len(ax.figure.axes) == 1
    assert notes(ax)[0].endswith("all 0.00 wide")
    assert len(scatter(made(9, 1)).figure.axes) == 2
    assert len(scatter(made(9, 1), legend=False).figure.axes) == 1


def test_wrong_use_gets_a_sentence():
    with pytest.raises(InputError, match=r"one feature; name it, for instance scatter\(e, 'x0'\)"):
        scatter(made())
    with pytest.raises(InputError, match="No feature is called 'age'"):
        scatter(made(), "age")
    with pytest.raises(InputError, match=r"cannot choose feature='x0' among .*leave it out"):
        scatter(made()[:, 1], "x0")
    with pytest.raises(InputError, match=r"one feature of many rows and one class, for instance .*row x output"):
        scatter(made(5, 3, 2), "x0")
    with pytest.raises(InputError, match="no rows"):
        scatter(made()[:0], 0)
