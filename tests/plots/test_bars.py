import matplotlib as mpl
import numpy as np
import pytest

from gpec import Explanation
from gpec.errors import InputError
from gpec.plots import bars

mpl.use("Agg")


@pytest.fixture
def row():
    values = np.array([[0.1, -0.5, 0.3, 0.0]])
    return Explanation(
        values=values,
        boundary_variance=np.full((1, 4), 0.01),
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
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b = red", "c = 3.14", "a = 1"]
    assert sorted(patch.get_width() for patch in ax.patches) == pytest.approx([-0.5, 0.1, 0.3])
    ends = sorted(line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 2)
    assert ends == pytest.approx(sorted(row.lower[0, [0, 1, 2]]))
    assert "probability" in ax.get_xlabel()


def test_bars_draw_where_they_are_told(row):
    _, ax = mpl.pyplot.subplots()
    assert bars(row[0], ax, legend=False) is ax
    assert ax.get_legend() is None


def test_bars_refuse_several_rows_with_a_remedy(row):
    with pytest.raises(InputError, match=r"select one.*explanation\[0\]"):
        bars(row)
