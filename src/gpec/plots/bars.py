"""One row's attributions as bars, with their intervals."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gpec.errors import InputError
from gpec.explanation import Explanation
from gpec.trust import trust_words

__all__ = ["bars"]

_COLORS = {"firm": "#1f5f8b", "likely": "#86b3d1", "unclear": "#c9c9c9"}


def bars(explanation: Explanation, ax: Axes | None = None, *, max_features: int = 8, legend: bool = True) -> Axes:
    """Draw the largest attributions of one row with their intervals.

    Parameters
    ----------
    explanation : Explanation
        Of a single row (and a single class): ``e[0]`` or ``e[0, :, "class"]``.
    ax : Axes, optional
        Where to draw; by default a new figure.
    max_features : int
        How many features to show, largest first.
    legend : bool
        Explain the colours.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    if explanation.axes != ("feature",):
        raise InputError(
            f"bars draws a single row and class, got an explanation with the axes {explanation.axes}; select one "
            "first, for instance explanation[0]."
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 0.4 * min(max_features, len(explanation)) + 1.2))
    shown = explanation[np.argsort(-np.abs(explanation.values), kind="stable")[:max_features]]
    words = trust_words(shown)
    lower, upper = shown.interval()
    position = np.arange(len(shown))[::-1]
    ax.barh(position, shown.values, color=[_COLORS[word] for word in words], height=0.65)
    for y, low, high in zip(position, lower, upper, strict=True):
        ax.plot([low, high], [y, y], color="black", linewidth=1.1, solid_capstyle="butt")
        for end in (low, high):
            ax.plot([end, end], [y - 0.13, y + 0.13], color="black", linewidth=1.1)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(position, [_label(name, value) for name, value in zip(shown.feature_names, shown.data, strict=True)])
    unit = explanation.diagnostics.get("unit", "")
    ax.set_xlabel("attribution" + (f" ({unit})" if unit else ""))
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend:
        handles = [Rectangle((0, 0), 1, 1, color=color) for color in _COLORS.values()]
        ax.legend(handles, [f"sign {word}" for word in _COLORS], fontsize="small", frameon=False)
    return ax


def _label(name: Any, value: Any) -> str:
    shown = f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)
    return f"{name} = {shown}"
