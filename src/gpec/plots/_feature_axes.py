"""Plots with one line for each feature: axes, bars, whiskers and legends."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from gpec._colors import DOWN, GREY, INK, UP
from gpec.intervals.protocol import Explained
from gpec.intervals.trust import SIGN_WORDS
from gpec.plots._style import label, new_axes
from gpec.typing import FloatArray, IntArray

_PALE = 0.45
_LEGEND = 0.27  # inches for each line of the legend
_CHARACTERS = 56  # of the labels in one line of the legend


def names_and_values(e: Explained) -> list[str]:
    """The labels of one row's features."""
    return [label(name, value) for name, value in zip(e.feature_names, e.data, strict=True)]


def feature_axes(ax: Axes | None, names: list[str], width: float, each: float, more: float) -> tuple[Axes, IntArray]:
    """Axes with a line for each name, and the heights of the lines, the highest first.

    A new figure is ``width`` inches wide and wider for long names; each line takes ``each`` inches, all else ``more``.
    """
    room = 0.08 * max(max(map(len, names)) - 20, 0)
    ax = new_axes(ax, (width + room, each * len(names) + more))
    place = np.arange(len(names))[::-1]
    ax.set_yticks(place, names)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.xaxis.set_major_locator(MaxNLocator(6))  # few ticks, so that labels do not overlap
    return ax, place


def bar(ax: Axes, start: float, step: float, y: float, word: str) -> None:
    """A bar from ``start``, with a colour for its sign and a fill for its firmness."""
    ax.barh(y, step, left=start, height=0.65, **_fill(word, UP if step >= 0 else DOWN))


def _fill(word: str, color: str) -> dict[str, Any]:
    """Firm: full; likely: pale; unclear: white with lines."""
    faces = {"firm": color, "likely": (color, _PALE), "unclear": "white"}
    hatch = "////" if word == "unclear" else None
    return {"facecolor": faces[word], "edgecolor": color, "linewidth": 0.8, "hatch": hatch}


def whiskers(ax: Axes, lower: FloatArray, upper: FloatArray, y: FloatArray | IntArray) -> None:
    """A line from the lower to the upper bound at each height, with ticks at its ends."""
    ax.hlines(y, lower, upper, color=INK, linewidth=1.1, zorder=3)
    for end in (lower, upper):
        ax.vlines(end, y - 0.13, y + 0.13, color=INK, linewidth=1.1, zorder=3)


def zero_line(ax: Axes, rows: int, *, at: float = 0.0, color: str = INK) -> None:
    """A thin line behind ``rows`` lines at the heights 0, 1, ..., that stops above the legend."""
    ax.vlines(at, -0.6, rows - 0.4, color=color, linewidth=0.8, zorder=0.5)


def firmness_legend(ax: Axes, rows: int) -> None:
    """Explain the fills of bars."""
    handles = [Rectangle((0, 0), 1, 1, **_fill(word, GREY)) for word in SIGN_WORDS]
    legend_below(ax, rows, handles, [f"sign {word}" for word in SIGN_WORDS])


def legend_below(ax: Axes, rows: int, handles: list[Any], labels: list[str]) -> None:
    """A legend in free space below ``rows`` lines at the heights 0, 1, ..."""
    columns = max(min(len(labels), 3, _CHARACTERS // max(map(len, labels))), 1)
    needed = _LEGEND * -(-len(labels) // columns)
    height = ax.bbox.height / ax.figure.dpi
    slot = rows * needed / max(height - needed, needed)
    ax.set_ylim(-0.6 - slot, rows - 0.4)
    ax.legend(handles, labels, loc="lower center", ncols=columns, fontsize="small", frameon=False, borderpad=0.1)


def shown_of(e: Explained, shown: int) -> str:
    """How many of the features are shown, if not all."""
    total = e.shape[e.axes.index("feature")]
    return f"; {shown} of {total:,} features" if shown < total else ""
