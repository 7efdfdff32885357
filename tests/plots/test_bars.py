import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

from drawn import bars_of, constant, draw_all, made, notes, tick_texts, whiskers_of
from gpec import Explanation
from gpec.errors import InputError
from gpec.intervals.rules import Latent
from gpec.plots import bars


@pytest.fixture
def row():
    values = np.array([[0.1, -0.5, 0.3, 0.0]])
    return Explanation(
        values=values,
        model_variance=np.full((1, 4), 0.01),
        noise_variance=np.zeros((1, 4)),
        explainer_variance=None,
        base_values=None,
        data=np.array([[1.0, "red", 3.14159, True]], dtype=object),
        feature_names=["a", "b", "c", "d"],
        output_names="1",
        diagnostics={"unit": "probability"},
    )


@pytest.fixture(autouse=True)
def _close():
    yield
    mpl.pyplot.close("all")


def test_bars_show_the_largest_attributions_with_their_intervals(row):
    ax = bars(row[0], max_features=3)
    assert tick_texts(ax) == ["b = red", "c = 3.14", "a = 1"]
    assert [width for _, width in bars_of(ax)] == pytest.approx([-0.5, 0.3, 0.1])
    half = 1.959964 * 0.1
    expected = [(-0.5 - half, -0.5 + half), (0.3 - half, 0.3 + half), (0.1 - half, 0.1 + half)]
    assert np.ravel(whiskers_of(ax)) == pytest.approx(np.ravel(expected))
    assert ax.get_xlabel() == "attribution to class 1 (probability)"


def test_the_promise_and_what_is_left_out_are_said(row):
    assert any(
        "95% intervals of the latent explanation (no coverage promised); 3 of 4 features" in n
        for n in notes(bars(row[0], max_features=3))
    )


def test_sign_is_shown_by_side_and_colour_and_firmness_by_the_fill():
    values = np.array([[0.5, -0.5, 0.15, -0.15, 0.05]])  # 5, 1.5 and 0.5 deviations: firm, likely, unclear
    e = made(1, 5, values=values, model_variance=np.full((1, 5), 0.01), noise_variance=np.zeros((1, 5)))[0]
    assert list(e.firmness) == ["firm", "firm", "likely", "likely", "unclear"]
    patches = [patch for container in bars(e).containers for patch in container]
    assert [to_hex(patch.get_edgecolor()).upper() for patch in patches] == [
        "#D55E00",
        "#0072B2",
        "#D55E00",
        "#0072B2",
        "#D55E00",
    ]
    assert [patch.get_facecolor()[3] for patch in patches] == [1.0, 1.0, 0.45, 0.45, 1.0]
    assert [patch.get_hatch() for patch in patches] == [None, None, None, None, "////"]
    assert to_hex(patches[4].get_facecolor()) == "#ffffff"


def test_bars_draw_where_they_are_told(row):
    _, ax = mpl.pyplot.subplots()
    assert bars(row[0], ax=ax, legend=False) is ax
    assert ax.get_legend() is None
    assert mpl.pyplot.get_fignums() == [1]


def test_the_legend_covers_no_bar():
    for d in (1, 3, 8):
        ax = draw_all(bars(made(1, d)[0]))
        box = ax.get_legend().get_window_extent()
        lowest = min(patch.get_window_extent().y0 for container in ax.containers for patch in container)
        assert box.y1 <= lowest


def test_all_of_a_long_label_is_inside_the_figure():
    e = made(1, 3, feature_names=["a_very_long_name_" * 5, "b" * 80, "c"])
    ax = draw_all(bars(e[0]))
    for text in [*ax.get_yticklabels(), *ax.texts]:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= ax.figure.bbox.width


def test_bars_refuse_several_rows_with_a_remedy(row):
    with pytest.raises(InputError, match=r"a single row of one class, for instance e\[0\].*row x feature"):
        bars(row)
    with pytest.raises(InputError, match="no features"):
        bars(row[0, []])


@pytest.mark.parametrize("value", [0.0, 0.1, -1e-30, 1e30])
def test_bars_of_constant_values(value):
    e = constant(value)[0]
    assert isinstance(e.rule, Latent)
    ax = draw_all(bars(e))
    assert [width for _, width in bars_of(ax)] == pytest.approx([value] * 4)
