"""Explanations to draw, and what was drawn, read back from the axes."""

import numpy as np

from gpec import Explanation

NASTY = [
    "number_of_times_the_applicant_was_more_than_ninety_days_late_in_the_last_two_years",
    "price in $ per $ of income_^2 {a}",
    r"$\frac{1}$",
    "<script>alert(1)</script>",
    "two\nlines\tand % signs %s",
]


def made(n=40, d=5, classes=None, **changes):
    """``n`` rows of ``d`` features, falling in size, for two classes or for several; ``changes`` replace parts."""
    rng = np.random.default_rng(0)
    shape = (n, d) if classes is None else (n, d, classes)
    scale = (0.6 ** np.arange(d))[None, :] if classes is None else (0.6 ** np.arange(d))[None, :, None]
    parts = {
        "values": rng.normal(size=shape) * scale,
        "model_variance": 0.1 * rng.random(shape) * scale**2,
        "noise_variance": 0.05 * rng.random(shape) * scale**2,
        "explainer_variance": None,
        "base_values": np.full((n,) if classes is None else (n, classes), 0.4),
        "data": rng.normal(size=(n, d)),
        "feature_names": [f"x{i}" for i in range(d)],
        "output_names": "sick" if classes is None else [f"kind {i}" for i in range(classes)],
        "diagnostics": {"unit": "probability"},
        "axes": ("row", "feature") if classes is None else ("row", "feature", "output"),
    }
    return Explanation(**{**parts, **changes})


def constant(value, n=20, d=4):
    """The same value everywhere, and no variance."""
    zero = np.zeros((n, d))
    return made(n, d, values=np.full((n, d), value), model_variance=zero, noise_variance=zero, data=np.ones((n, d)))


def mixed(n=40):
    """Texts, missing values, truth values and numbers, under names that are hard to draw."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=(n, 5)).astype(object)
    data[:, 1] = rng.choice(["red", "blue", "$5_a^b$"], n)
    data[::5, 1] = None
    data[::4, 2] = np.nan
    data[:, 3] = rng.random(n) < 0.5
    return made(n, 5, data=data, feature_names=NASTY)


def tick_texts(ax, axis="y"):
    labels = ax.get_yticklabels() if axis == "y" else ax.get_xticklabels()
    return [label.get_text() for label in labels]


def notes(ax):
    """All texts in and around the axes that are no tick labels."""
    return [text.get_text() for text in ax.texts]


def bars_of(ax):
    """Left end and width of each bar, from the highest to the lowest."""
    patches = [patch for container in ax.containers for patch in container]
    ordered = sorted(patches, key=lambda patch: -patch.get_y())
    return [(patch.get_x(), patch.get_width()) for patch in ordered]


def whiskers_of(ax):
    """Lower and upper end of each interval, from the highest to the lowest."""
    lines = [path.vertices for lines in _lines(ax) for path in lines.get_paths() if _lies(path.vertices)]
    ordered = sorted(lines, key=lambda ends: -ends[0, 1])
    return [(ends[0, 0], ends[1, 0]) for ends in ordered]


def _lies(ends):
    return len(ends) == 2 and ends[0, 1] == ends[1, 1]


def _lines(ax):
    from matplotlib.collections import LineCollection

    return [found for found in ax.collections if isinstance(found, LineCollection) and found.get_zorder() == 3]


def dots_of(ax):
    """The collections of dots."""
    from matplotlib.collections import PathCollection

    return [found for found in ax.collections if isinstance(found, PathCollection)]


def draw_all(ax):
    """Have matplotlib draw the picture, so that what only fails there fails."""
    ax.figure.canvas.draw()
    return ax
