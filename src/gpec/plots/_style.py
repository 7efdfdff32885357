"""What all pictures share: colours, labels, axes, and the sentences for explanations that cannot be drawn."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from gpec._explained import Explained
from gpec.errors import InputError
from gpec.typing import BoolArray

__all__ = [
    "DOWN",
    "FAINT",
    "GREY",
    "INK",
    "LOW_TO_HIGH",
    "PALETTE",
    "SMALL_PRINT",
    "UNCERTAINTY",
    "UP",
    "is_missing",
    "label",
    "new_axes",
    "plain",
    "promise_label",
    "require_axes",
    "shorten",
    "show_number",
    "tidy",
    "unit_label",
]

# The colours of Okabe and Ito, which the colour-blind can tell apart.
UP, DOWN = "#D55E00", "#0072B2"  # vermillion raises the model's answer, blue lowers it
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
INK, SMALL_PRINT, GREY, FAINT = "#222222", "#595959", "#888888", "#D9D9D9"
UNCERTAINTY = "cividis"  # dark is certain, bright is uncertain
LOW_TO_HIGH = LinearSegmentedColormap.from_list("low_to_high", ["#0072B2", "#CC79A7", "#E69F00"])  # dark is low

_REMEDIES = {
    ("feature",): "a single row of one class, for instance e[0] or e[0, :, 'class']",
    ("row",): "one feature of many rows and one class, for instance e[:, 'age'] or e[:, 'age', 'class']",
    ("row", "feature"): "many rows of one class, for instance e or e[:, :, 'class']",
    ("row", "feature", "output"): "many rows of several classes, as explain returns them",
}


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """``ax``, or where it is None the axes of a new figure of this size in inches, which leaves room for labels."""
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def require_axes(e: Explained, axes: tuple[str, ...], who: str) -> None:
    """Refuse an explanation with other axes than these, or without anything in it, and say what to select."""
    if e.axes != axes:
        got = " x ".join(e.axes) or "one value"
        raise InputError(f"{who} draws {_REMEDIES[axes]}; this explanation has the axes {got}.")
    if 0 in e.shape:
        empty = e.axes[e.shape.index(0)]
        raise InputError(f"{who} has nothing to draw: the explanation has no {empty}s.")


def plain(text: Any) -> str:
    """Any text on one line, drawn as it is: ``$`` starts no formula."""
    printable = "".join(character if character.isprintable() else " " for character in str(text))
    return " ".join(printable.split()).replace("$", r"\$")


def shorten(text: Any, width: int = 36) -> str:
    """The text with its middle left out where it is longer than ``width``; both ends tell names apart."""
    line = " ".join(str(text).split())
    if len(line) <= width:
        return line
    tail = (width - 1) // 3
    return f"{line[: width - 1 - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def show_number(value: Any) -> str:
    """A number with three digits or whole, texts as they are, "missing" for what is missing."""
    if _missing(value):
        return "missing"
    if isinstance(value, float | np.floating):
        number = float(value) + 0.0  # no minus before a zero
        whole = number.is_integer() or abs(number) >= 100
        return f"{number:.0f}" if whole and abs(number) < 1e5 else f"{number:.3g}"
    return str(value).removesuffix(" 00:00:00")  # of a date


def label(name: Any, value: Any = ..., *, width: int = 36) -> str:
    """A feature's name, with its value if one is given, of about ``width`` characters, ready to be drawn."""
    if value is ...:
        return plain(shorten(name, width))
    shown = shorten(show_number(value), max(width // 2, 8))
    return plain(f"{shorten(name, max(width - len(shown) - 3, width // 2))} = {shown}")


def unit_label(e: Explained) -> str:
    """What the numbers are: "attribution to malignant (probability)"."""
    unit = e.diagnostics.get("unit", "")
    return plain(f"attribution{_to_class(e.output_names)}" + (f" ({unit})" if unit else ""))


def _to_class(name: Any) -> str:
    """Of what the attributions are, where it is one class."""
    if not isinstance(name, str) or not name:
        return ""
    return f" to {'class ' if name.lstrip('-').isdigit() else ''}{shorten(name, 30)}"


def promise_label(e: Explained) -> str:
    """What the intervals are, in a few words; ``e.statement()`` says it in full."""
    words = {
        "similar rows": "intervals over similar rows",
        "value": "intervals for the explainer's answer",
        "latent": "intervals of the latent explanation (no coverage promised)",
    }
    return plain(f"{100 * e.confidence_level:.4g}% {words.get(e.promise, f'intervals ({e.promise})')}")


def tidy(ax: Axes) -> None:
    """No frame above and to the right."""
    ax.spines[["top", "right"]].set_visible(False)


def is_missing(data: Any) -> BoolArray:
    """Which entries are missing: NaN, None, NaT or pandas' NA."""
    return np.asarray(pd.isna(np.asarray(data)), dtype=bool)


def _missing(value: Any) -> bool:
    return np.ndim(value) == 0 and bool(pd.isna(value))
