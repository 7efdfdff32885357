"""The picture of the regularisation test: widths against regularisation, by data set and method."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._published import LEVELS
from paper._regularised import OURS

__all__ = ["WORDS", "draw_slopes"]

WORDS = {"gamma": "gamma", "l2": "l2 penalty", "beta": "Softplus beta"}

# The colours of Okabe and Ito, and a mark for each method.
_LOOK = {
    "GPEC, as the paper prints it": ("#888888", "x", ":"),
    "GPEC, as published": ("#0072B2", "o", "--"),
    "GPEC": ("#0072B2", "o", "-"),
    "Naive-GP": ("#E69F00", "s", "-"),
    "BayesSHAP": ("#009E73", "^", "-"),
    "BayesLIME": ("#CC79A7", "v", "-"),
    "CXPlain": ("#56B4E9", "D", "-"),
    OURS: ("#D55E00", "P", "-"),
    "real change": ("#000000", "*", "-"),
}

_HIGHEST = 200  # percent that are shown


def draw_slopes(panels: list[tuple[str, str, dict[str, np.ndarray]]]) -> Any:
    """Width in percent of the width without regularisation; a panel is a data set, what is varied, and lines."""
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    size = (4.1 * columns, 3.6 * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=True)
    shown: dict[str, Any] = {}
    top = _top([line for _, _, numbers in panels for line in numbers.values()])
    for ax, (name, what, numbers) in zip(axes.flat, panels, strict=False):
        levels = LEVELS[name if (name, what) in LEVELS else "MNIST", what]
        for method in (method for method in _LOOK if method in numbers):
            shown[method] = _slope(ax, numbers[method], len(levels), list(_LOOK).index(method))
        ax.axhline(100, color="#888888", linewidth=0.8)
        ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        ax.set_xlabel(f"{WORDS[what]} (more regularised to the right)")
        ax.set_title(name)
        ax.set_ylim(0, top)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean width, % of the leftmost")
    order = [method for method in _LOOK if method in shown]
    named = [{"GPEC": "GPEC, scale learned"}.get(method, method) for method in order]
    figure.legend(
        [shown[method] for method in order],
        named,
        loc="outside lower center",
        ncols=5 if columns > 2 else 3,
        frameon=False,
    )
    return figure


def _top(lines: list[np.ndarray]) -> float:
    """The end of the axis: all means have room below it, unless one is out of all proportion."""
    highest = max(float((100 * by_draw / by_draw[:, :1]).mean(axis=0).max()) for by_draw in lines)
    return float(np.clip(1.1 * highest, 135, _HIGHEST))


def _slope(ax: Any, by_draw: np.ndarray, n_levels: int, place: int) -> Any:
    share = 100 * by_draw / by_draw[:, :1]
    error = share.std(axis=0, ddof=1) / np.sqrt(len(share)) if len(share) > 1 else None
    method = list(_LOOK)[place]
    color, mark, style = _LOOK[method]
    at = np.linspace(0, n_levels - 1, share.shape[1]) + 0.025 * (place - len(_LOOK) / 2)
    return ax.errorbar(
        at, share.mean(axis=0), yerr=error, color=color, marker=mark, markersize=5, capsize=2, linewidth=1.4,
        linestyle=style, markerfacecolor="white" if style == "--" else color,
    )  # fmt: skip
