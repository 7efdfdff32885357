"""Many rows: a dot for each attribution, coloured by the feature's value, fainter for a wider interval."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgba
from matplotlib.lines import Line2D

from gpec._colors import GREY, INK
from gpec._numbers import counted, number
from gpec._validation import check_count
from gpec.intervals.protocol import Explained
from gpec.plots._feature_axes import feature_axes, legend_below, shown_of, zero_line
from gpec.plots._style import LOW_TO_HIGH, axis_note, color_bar, label, largest, promise_label, require_axes, unit_label
from gpec.plots._values import MANY, dot_size, numbers_of, spread
from gpec.typing import FloatArray

_FAINTEST = 0.18


def beeswarm(e: Explained, *, ax: Axes | None = None, max_features: int = 12, legend: bool = True) -> Axes:
    """Draw the attributions of many rows, one line of dots for each feature.

    A dot's place is its attribution. Its colour is the feature's value, from low (dark blue) to high (orange) between
    the 5% and 95% quantiles of that feature; texts and missing values are grey. Its transparency is the uncertainty:
    full where the interval is narrow, faint where it is wide, in proportion to the width between its 5% and 95%
    quantiles over all dots. Features are ordered by their mean size.

    Parameters
    ----------
    e : Explanation
        Of many rows and a single class: ``e`` or ``e[:, :, "class"]``.
    ax : Axes, optional
        Where to draw; by default a new figure.
    max_features : int
        How many features to show, largest first.
    legend : bool
        Explain colour and transparency.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    require_axes(e, ("row", "feature"), "beeswarm")
    chosen = largest(np.abs(e.values).mean(axis=0), check_count("max_features", max_features))
    shown = e[:, chosen]
    ax, place = feature_axes(ax, [label(name) for name in shown.feature_names], 7.4, 0.42, 1.9)
    width = shown.width
    narrow, wide = np.quantile(width, [0.05, 0.95])
    alpha = _opacity(width, narrow, wide)
    low, high = float(shown.values.min()), float(shown.values.max())
    for j, y in enumerate(place):
        x = shown.values[:, j]
        colors = _colors(shown.data[:, j])
        colors[:, 3] = alpha[:, j]
        across = y + 0.4 * spread(x, low, high, bins=100)
        order = np.argsort(colors[:, 3], kind="stable")  # certain ones on top
        dots: dict[str, Any] = {"s": dot_size(11.0, len(x)), "linewidths": 0, "rasterized": len(x) > MANY, "zorder": 2}
        ax.scatter(x[order], across[order], c=colors[order], **dots)
    zero_line(ax, len(chosen))
    ax.hlines(place, 0, 1, transform=ax.get_yaxis_transform(), color=GREY, linewidth=0.3, zorder=0)
    axis_note(ax, unit_label(e), _note(shown, e))
    if legend:
        _color_bar(ax)
        if wide > narrow:
            _width_legend(ax, len(chosen), narrow, wide)
    return ax


def _note(shown: Explained, e: Explained) -> str:
    columns = [numbers_of(column)[0] for column in shown.data.T]
    grey = any(numbers is None or np.isnan(numbers).any() for numbers in columns)
    text = "; grey: text or missing" if grey else ""
    return f"{counted(len(e), 'row')}{shown_of(e, shown.shape[1])}{text}; faint: wide {promise_label(e)}"


def _opacity(width: FloatArray, narrow: float, wide: float) -> FloatArray:
    """Opacity from 1 for narrow intervals to faint for wide ones; 1 if all are alike."""
    if not wide > narrow:
        return np.ones_like(width)
    return np.asarray(1.0 - (1.0 - _FAINTEST) * np.clip((width - narrow) / (wide - narrow), 0.0, 1.0))


def _colors(column: Any) -> FloatArray:
    """Red, green, blue and opacity of each value."""
    numbers, _ = numbers_of(column)
    if numbers is None or np.isnan(numbers).all():
        return np.tile(to_rgba(GREY), (len(column), 1))
    low, high = np.nanquantile(numbers, [0.05, 0.95])
    if low == high:  # nearly constant: the few others are still visible
        low, high = np.nanmin(numbers), np.nanmax(numbers)
    share = Normalize(low, high, clip=True)(numbers) if high > low else 0.5 + 0.0 * numbers
    return np.asarray(LOW_TO_HIGH.with_extremes(bad=GREY)(share))


def _color_bar(ax: Axes) -> None:
    bar = color_bar(ax, ScalarMappable(Normalize(0, 1), LOW_TO_HIGH), "", ticks=[0, 1])
    bar.ax.set_yticklabels(["low", "high"])
    bar.set_label("feature's value", fontsize="small", labelpad=-6)
    bar.outline.set_visible(False)


def _width_legend(ax: Axes, rows: int, narrow: float, wide: float) -> None:
    widths = np.array([narrow, (narrow + wide) / 2, wide])
    handles = [
        Line2D([], [], marker="o", linestyle="none", markersize=5, markeredgewidth=0, color=INK, alpha=float(alpha))
        for alpha in _opacity(widths, narrow, wide)
    ]
    legend_below(ax, rows, handles, [f"width {number(width, widths)}" for width in widths])
