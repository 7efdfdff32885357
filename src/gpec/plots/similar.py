"""One row and its similar rows: how attributions change."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D

from gpec._colors import DOWN, FAINT, GREY, INK
from gpec._numbers import answer_text, counted
from gpec._validation import check_count
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.plots._feature_axes import feature_axes, legend_below, names_and_values, shown_of, zero_line
from gpec.plots._style import LOW_TO_HIGH, axis_note, color_bar, largest, promise_label, require_axes, unit_label
from gpec.typing import BoolArray, FloatArray


def similar(
    e: Explained, others: Explained, *, ax: Axes | None = None, max_features: int = 8, legend: bool = True
) -> Axes:
    """Draw the attributions of one row, their intervals, and the attributions of rows similar to it.

    The line in the middle of a band is the row's own attribution, the band its interval, each dot a similar row, at the
    same height in every band. A cross lies outside the band. Colours show the model's answers for the similar rows,
    where they are known: attributions often change where the answer does.

    Parameters
    ----------
    e : Explanation
        Of a single row and a single class: ``e[0]`` or ``e[0, :, "class"]``.
    others : Explanation
        Of the rows similar to it: ``g.explain(g.similar_rows(X[:1]))``. With several classes the row's own is used.
    ax : Axes, optional
        Where to draw; by default a new figure.
    max_features : int
        How many features to show: those whose attribution, of the row or of a similar one, is largest.
    legend : bool
        Explain marks and colours.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    require_axes(e, ("feature",), "similar")
    others = _of_the_same(e, others)
    lower, upper = e.interval()
    outside = (others.values < lower) | (others.values > upper)
    reach = np.maximum(np.abs(e.values), np.abs(others.values).max(axis=0))
    chosen = largest(reach, check_count("max_features", max_features))
    shown = e[chosen]
    ax, place = feature_axes(ax, names_and_values(shown), 7.2, 0.5, 1.9)
    ax.barh(place, (upper - lower)[chosen], left=lower[chosen], height=0.72, color=FAINT, zorder=1)
    ax.vlines(e.values[chosen], place - 0.36, place + 0.36, color=INK, linewidth=2, zorder=2)
    ax.use_sticky_edges = False
    _dots(ax, others, others.values[:, chosen], outside[:, chosen], place)
    zero_line(ax, len(chosen))
    count = f"{outside.sum():,} of {outside.size:,} attributions of {counted(len(others), 'similar row')} outside"
    axis_note(ax, unit_label(e), f"{promise_label(e)}; {count}{shown_of(e, len(chosen))}")
    ax.set_title(_answers(e, others), fontsize="medium")
    if legend:
        _legend(ax, len(chosen), others)
    return ax


def _of_the_same(e: Explained, others: Explained) -> Explained:
    """The similar rows' attributions for the class of the row, validated."""
    if others.axes == ("row", "feature", "output") and isinstance(e.output_names, str):
        others = others[:, :, e.output_names]
    if others.axes != ("row", "feature"):
        raise InputError(
            "similar needs others of many rows and the class of e: others=g.explain(g.similar_rows(X[:1]))."
        )
    if not len(others):
        raise InputError("similar has nothing to compare with: others has no rows.")
    if list(others.feature_names) != list(e.feature_names):
        raise InputError(
            "similar: others must have the features of e, in the same order; explain both with the same g."
        )
    return others


def _dots(ax: Axes, others: Explained, values: FloatArray, outside: BoolArray, place: np.ndarray) -> None:
    n = len(values)
    height = np.linspace(0.27, -0.27, n) if n > 1 else np.zeros(1)
    y = place[None, :] + height[:, None]
    answers = None if others.predictions is None else np.broadcast_to(others.predictions[:, None], values.shape)
    for marker, size, part in (("o", 18, ~outside), ("X", 42, outside)):
        style: dict[str, Any] = {"color": DOWN}
        if answers is not None:
            style = {"c": answers[part], "cmap": LOW_TO_HIGH, "norm": _norm(answers, others)}
        ax.scatter(values[part], y[part], s=size, marker=marker, edgecolors=INK, linewidths=0.5, zorder=3, **style)


def _norm(answers: FloatArray, e: Explained) -> Normalize:
    """Colours for probabilities run from 0 to 1, so that small differences look small."""
    low, high = float(answers.min()), float(answers.max())
    if low >= 0.0 and high <= 1.0 and e.output_names is not None:
        return Normalize(0.0, 1.0)
    return Normalize(low, high) if high > low else Normalize(low - 0.5, high + 0.5)


def _answers(e: Explained, others: Explained) -> str:
    """The model's answers in words."""
    if others.predictions is None:
        return ""
    of_class = e.output_names is not None
    low, high = (answer_text(end, of_class) for end in (others.predictions.min(), others.predictions.max()))
    near = f"similar rows {low}" + (f" to {high}" if high != low else "")
    return near if e.predictions is None else f"model's answer {answer_text(e.predictions, of_class)}; {near}"


def _legend(ax: Axes, rows: int, others: Explained) -> None:
    def mark(marker: str, size: float) -> Line2D:
        return Line2D([], [], marker=marker, linestyle="none", markersize=size, color=GREY, markeredgecolor=INK)

    handles = [Line2D([], [], marker="|", linestyle="none", markersize=10, markeredgewidth=2, color=INK)]
    handles += [mark("o", 5), mark("X", 7)]
    legend_below(ax, rows, handles, ["this row", "similar row", "outside"])
    if others.predictions is not None:
        colors = ScalarMappable(_norm(others.predictions, others), LOW_TO_HIGH)
        color_bar(ax, colors, "model's answer for the similar row")
