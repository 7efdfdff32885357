"""Bars, whiskers and notes that several pictures draw alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from gpec._explained import Explained
from gpec.plots._style import DOWN, GREY, INK, SMALL_PRINT, UP
from gpec.typing import FloatArray, IntArray

__all__ = [
    "axis_note",
    "bar",
    "count_rows",
    "extra_width",
    "few_ticks",
    "firmness_legend",
    "largest",
    "legend_below",
    "rounded",
    "shown_of",
    "signed",
    "whiskers",
    "zero_line",
]

_PALE = 0.45
_LEGEND = 0.27  # inches that a line of legend takes
_CHARACTERS = 56  # of the labels in one line of it
_WORDS = ("firm", "likely", "unclear")


def largest(sizes: FloatArray, count: int) -> IntArray:
    """Places of the largest sizes, largest first; of equal ones the first comes first."""
    return np.argsort(-np.asarray(sizes), kind="stable")[:count].astype(np.int64)


def bar(ax: Axes, start: float, step: float, y: float, word: str) -> None:
    """A bar from ``start`` that is coloured by its sign and filled by how firm that sign is."""
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


def firmness_legend(ax: Axes, rows: int) -> None:
    """Explain the fills of bars."""
    handles = [Rectangle((0, 0), 1, 1, **_fill(word, GREY)) for word in _WORDS]
    legend_below(ax, rows, handles, [f"sign {word}" for word in _WORDS])


def legend_below(ax: Axes, rows: int, handles: list[Any], labels: list[str]) -> None:
    """A legend below the lowest of ``rows`` lines at the heights 0, 1, ..., where nothing else stands."""
    columns = max(min(len(labels), 3, _CHARACTERS // max(map(len, labels))), 1)
    needed = _LEGEND * -(-len(labels) // columns)
    height = ax.bbox.height / ax.figure.dpi
    slot = rows * needed / max(height - needed, needed)
    ax.set_ylim(-0.6 - slot, rows - 0.4)
    ax.legend(handles, labels, loc="lower center", ncols=columns, fontsize="small", frameon=False, borderpad=0.1)


def axis_note(ax: Axes, name: str, note: str) -> None:
    """The name of the horizontal axis, and below it in small letters what the reader should know."""
    ax.set_xlabel(name)
    ax.annotate(
        note,
        xy=(1.0, 0.0),
        xycoords=("axes fraction", ax.xaxis.label),
        xytext=(0, -1),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize="x-small",
        color=SMALL_PRINT,
        annotation_clip=False,
    )


def zero_line(ax: Axes, rows: int, *, at: float = 0.0, color: str = INK) -> None:
    """A thin line behind ``rows`` lines at the heights 0, 1, ..., that stops above the legend."""
    ax.vlines(at, -0.6, rows - 0.4, color=color, linewidth=0.8, zorder=0.5)


def few_ticks(ax: Axes) -> None:
    """So few ticks on the horizontal axis that their labels do not touch."""
    ax.xaxis.set_major_locator(MaxNLocator(6))


def signed(number: float, scale: float) -> str:
    """A number with its sign, with as many decimals as give ``scale`` three digits."""
    return rounded(number, scale, sign="+")


def rounded(number: float, scale: float, *, sign: str = "-") -> str:
    """A number with as many decimals as give ``scale`` three digits, and a true minus; "0" if it rounds to that."""
    decimals = int(np.clip(2 - np.floor(np.log10(scale)), 0, 12)) if scale > 0 else 0
    text = f"{number:{sign}.{decimals}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else "0"


def extra_width(labels: list[str]) -> float:
    """Inches that a new figure needs for long labels at its left."""
    return 0.08 * max(max(map(len, labels)) - 20, 0)


def count_rows(e: Explained, name: str = "row") -> str:
    """How many rows, in words."""
    return f"{len(e):,} {name}{'s' if len(e) != 1 else ''}"


def shown_of(e: Explained, shown: int) -> str:
    """How many of the features are to be seen, if not all."""
    axis = e.axes.index("feature")
    total = e.shape[axis]
    return f"; {shown} of {total:,} features" if shown < total else ""
