"""One row's attributions as bars, with their intervals."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from gpec._validation import check_count
from gpec.intervals.protocol import Explained
from gpec.plots._feature_axes import bar, feature_axes, firmness_legend, names_and_values, shown_of, whiskers, zero_line
from gpec.plots._style import axis_note, largest, promise_label, require_axes, unit_label


def bars(e: Explained, *, ax: Axes | None = None, max_features: int = 8, legend: bool = True) -> Axes:
    """Draw the largest attributions of one row with their intervals.

    A bar to the right raises the model's answer, one to the left lowers it. A full bar has a firm sign, a pale one a
    likely sign and a hatched one an unclear sign; see :func:`gpec.intervals.firmness`.

    Parameters
    ----------
    e : Explanation
        Of a single row and a single class: ``e[0]`` or ``e[0, :, "class"]``.
    ax : Axes, optional
        Where to draw; by default a new figure.
    max_features : int
        How many features to show, largest first.
    legend : bool
        Explain the fills.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    require_axes(e, ("feature",), "bars")
    chosen = largest(np.abs(e.values), check_count("max_features", max_features))
    shown = e[chosen]
    ax, place = feature_axes(ax, names_and_values(shown), 6.4, 0.36, 1.5)
    for y, value, word in zip(place, shown.values, shown.firmness, strict=True):
        bar(ax, 0.0, float(value), float(y), word)
    whiskers(ax, *shown.interval(), place)
    zero_line(ax, len(chosen))
    axis_note(ax, unit_label(e), promise_label(e) + shown_of(e, len(chosen)))
    if legend:
        firmness_legend(ax, len(chosen))
    return ax
