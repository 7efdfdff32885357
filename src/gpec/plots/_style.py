"""What all plots share: styles, labels, axes, and errors for explanations that cannot be drawn."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from gpec._colors import PALETTE, SOFT
from gpec._numbers import level_text, shorten, value_text
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.typing import FloatArray, IntArray

LOW_TO_HIGH = LinearSegmentedColormap.from_list("low_to_high", [PALETTE[0], PALETTE[3], PALETTE[1]])  # dark is low
_STYLES, _MARKERS = ("-", "--", "-.", ":"), "sD^vP<>X"
_REMEDIES = {
    ("feature",): "a single row of one class, for instance e[0] or e[0, :, 'class']",
    ("row",): "one feature of many rows and one class, for instance e[:, 'age'] or e[:, 'age', 'class']",
    ("row", "feature"): "many rows of one class, for instance e or e[:, :, 'class']",
    ("row", "feature", "output"): "many rows of several classes, as explain returns them",
}
_PROMISES = {
    "similar rows": "intervals over similar rows",
    "value": "intervals for the explainer's answer",
    "latent": "intervals of the latent explanation (no coverage promised)",
}


def look(rank: int) -> dict[str, Any]:
    """Colour, line and marker of one of several curves; 28 differ without markers, 32 without colours."""
    marker = _MARKERS[(rank + rank // len(_MARKERS)) % len(_MARKERS)]
    return {"color": PALETTE[rank % 7], "linestyle": _STYLES[rank % len(_STYLES)], "marker": marker}


def new_axes(ax: Axes | None, size: tuple[float, float], *, framed: bool = False) -> Axes:
    """``ax``, or if it is None the axes of a new figure of this size in inches, with room for labels.

    Unless ``framed``, there is no line above and to the right.
    """
    ax = plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax
    if not framed:
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def require_axes(e: Explained, axes: tuple[str, ...], who: str) -> None:
    """Raise if an explanation has other axes or is empty; the error says what to select."""
    if e.axes != axes:
        got = " x ".join(e.axes) or "one value"
        raise InputError(f"{who} draws {_REMEDIES[axes]}; this explanation has the axes {got}.")
    if 0 in e.shape:
        empty = e.axes[e.shape.index(0)]
        raise InputError(f"{who} has nothing to draw: the explanation has no {empty}s.")


def largest(sizes: FloatArray, count: int) -> IntArray:
    """Positions of the largest sizes, largest first; ties in their order."""
    return np.argsort(-np.asarray(sizes), kind="stable")[:count].astype(np.int64)


def plain(text: Any) -> str:
    """Text on one line, without mathtext: ``$`` is escaped."""
    printable = "".join(character if character.isprintable() else " " for character in str(text))
    return " ".join(printable.split()).replace("$", r"\$")


def label(name: Any, value: Any = ..., *, width: int = 36) -> str:
    """A feature's name, with its value if given, shortened to about ``width`` characters."""
    if value is ...:
        return plain(shorten(name, width))
    shown = shorten(value_text(value, digits=3), max(width // 2, 8))
    return plain(f"{shorten(name, max(width - len(shown) - 3, width // 2))} = {shown}")


def unit_label(e: Explained) -> str:
    """Label of the attribution axis: "attribution to malignant (probability)"."""
    unit, name = e.diagnostics.get("unit", ""), e.output_names
    of_class = ""
    if isinstance(name, str) and name:
        of_class = f" to {'class ' if name.lstrip('-').isdigit() else ''}{shorten(name, 30)}"
    return plain(f"attribution{of_class}" + (f" ({unit})" if unit else ""))


def promise_label(e: Explained) -> str:
    """A short name of the intervals; ``e.statement()`` has the full sentence."""
    return plain(f"{level_text(e.confidence_level)} {kind_of_intervals(e)}")


def kind_of_intervals(e: Explained) -> str:
    """What the intervals are about, in a few words."""
    return _PROMISES.get(e.promise, f"intervals ({e.promise})")


def axis_note(ax: Axes, name: str, note: str) -> None:
    """The name of the horizontal axis, and a note in small type below it."""
    ax.set_xlabel(name)
    ax.annotate(
        note, xy=(1.0, 0.0), xycoords=("axes fraction", ax.xaxis.label), xytext=(0, -1), textcoords="offset points",
        ha="right", va="top", fontsize="x-small", color=SOFT, annotation_clip=False,
    )  # fmt: skip


def color_bar(ax: Axes, colors: Any, text: str, **options: Any) -> Any:
    """A slim colour bar beside the axes."""
    bar = ax.figure.colorbar(colors, ax=ax, aspect=30, pad=0.02, **options)
    bar.set_label(text)
    return bar
