"""Pictures compared with stored ones, without their texts, whose shapes differ between versions of the font library.

Texts and places are tested by content elsewhere. After a wanted change look at the new pictures, then run
``PYTHONPATH=tests python tests/plots/test_plot_pictures.py``.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text

from drawn import constant, made, mixed
from gpec.plots import bars, beeswarm, scatter, similar, summary, waterfall

STORED = Path(__file__).parent / "pictures"
TOLERANCE = 4.0  # root mean square over pixels, of 255

PICTURES = {
    "bars": lambda ax: bars(unsure(), ax=ax, legend=False),
    "bars_constant": lambda ax: bars(constant(0.1)[0], ax=ax, legend=False),
    "waterfall": lambda ax: waterfall(unsure(), ax=ax, max_features=4, legend=False),
    "waterfall_hundreds": lambda ax: waterfall(made(1, 300)[0], ax=ax, legend=False),
    "summary": lambda ax: summary(made(), ax=ax, legend=False),
    "summary_classes": lambda ax: summary(made(30, 4, 12), ax=ax, legend=False),
    "beeswarm": lambda ax: beeswarm(mixed(200), ax=ax, legend=False),
    "beeswarm_zero": lambda ax: beeswarm(constant(0.0), ax=ax, legend=False),
    "scatter": lambda ax: scatter(mixed(200), 2, ax=ax, intervals=True, legend=False),
    "scatter_categories": lambda ax: scatter(mixed(200), 1, ax=ax, legend=False),
    "similar": lambda ax: similar(
        unsure(), made(10, 8, predictions=np.linspace(0.1, 0.9, 10)), ax=ax, max_features=6, legend=False
    ),
}


def unsure():
    """A row with signs of all kinds of firmness."""
    values = np.array([[0.5, -0.45, 0.3, -0.25, 0.2, -0.15, 0.1, 0.05]])
    deviation = np.array([[0.1, 0.1, 0.2, 0.2, 0.25, 0.05, 0.09, 0.01]])
    return made(1, 8, values=values, model_variance=deviation**2, noise_variance=np.zeros((1, 8)))[0]


def save(name, path):
    with mpl.style.context("default"):
        figure = Figure(figsize=(4, 3))
        PICTURES[name](figure.add_axes((0.1, 0.1, 0.7, 0.8)))
        for text in figure.findobj(Text):
            text.set_visible(False)
        figure.savefig(path, dpi=60)
    return path


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_look_as_before(name, tmp_path):
    before = mpl.pyplot.get_fignums()
    difference = compare_images(str(STORED / f"{name}.png"), str(save(name, tmp_path / f"{name}.png")), TOLERANCE)
    assert difference is None, difference
    assert mpl.pyplot.get_fignums() == before, "a plot on given axes opened a figure"


def test_the_comparison_sees_a_changed_picture(tmp_path, monkeypatch):
    monkeypatch.setitem(PICTURES, "changed", lambda ax: bars(unsure()[::-1][1:], ax=ax, legend=False))
    changed = save("changed", tmp_path / "changed.png")
    assert compare_images(str(STORED / "bars.png"), str(changed), TOLERANCE) is not None


def test_no_picture_is_left_behind():
    assert {path.stem for path in STORED.glob("*.png")} == set(PICTURES)


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    for each in PICTURES:
        save(each, STORED / f"{each}.png")
