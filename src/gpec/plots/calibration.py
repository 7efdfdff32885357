"""Calibration plot: nominal against actual coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from gpec._colors import FAINT, GREY, INK
from gpec._numbers import counted
from gpec._validation import check_count, check_finite_array, check_level
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.plots._plane import choose_output
from gpec.plots._style import kind_of_intervals, label, look, new_axes, require_axes
from gpec.typing import FloatArray

_LEVELS = np.round(np.arange(0.05, 0.96, 0.05), 2)
_ROUNDING = 1e-9
_BAND = 0.95  # of draws lie inside the band


def calibration(
    e: Explained,
    truth: Any,
    *,
    ax: Axes | None = None,
    levels: Any = None,
    output: Any = None,
    by_feature: bool = False,
    max_features: int = 6,
    title: str | None = None,
) -> Axes:
    """Draw the actual coverage of intervals for every level.

    On the diagonal the promise holds; below it intervals are too narrow, above it too wide. The grey band holds
    95% of what chance alone would show, were the intervals right and the rows drawn independently. Values of one row
    depend on each other, so it counts rows.

    Parameters
    ----------
    e : Explanation
        For two or more rows, which neither ``fit`` nor ``calibrate`` used.
    truth : array
        True attributions, of the shape of ``e.values``; or with one more axis after the rows, ``(n, K, d)``
        or ``(n, K, d, c)``, those of ``K`` similar rows of each row.
    ax : Axes, optional
        Where to draw; by default a new figure.
    levels : array, optional
        Confidence levels; by default 0.05, 0.10 and so on up to 0.95, as far as the explanation supports them.
    output : str or int, optional
        The class; by default all classes are counted together.
    by_feature : bool
        Draw a line for each feature, too.
    max_features : int
        Number of features with a colour and a name, furthest from the diagonal first; the others are thin and grey.
    title : str, optional
        By default the kind of intervals.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    check_count("max_features", max_features, least=0)
    several = e.axes == ("row", "feature", "output")
    if not several:
        require_axes(e, ("row", "feature"), "calibration")
    turned_out = _truth(truth, e.shape)
    if output is not None:
        chosen = choose_output(output, e.output_names, "calibration")
        if several:
            e, turned_out = e[:, :, chosen], turned_out[..., chosen]
    known = _levels(e, levels)
    held = np.stack([_held(e, turned_out, level) for level in known])  # (levels, features)
    ax = new_axes(ax, (5.2, 5.0))
    _band(ax, len(e))
    if by_feature:
        _draw_features(ax, known, held, e.feature_names, max_features)
    style: dict[str, Any] = {"color": INK, "marker": "o", "markersize": 4, "linewidth": 1.6, "zorder": 5}
    ax.plot(known, held.mean(axis=1), label="all features", **style)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="promised", ylabel="actual share inside", aspect="equal")
    ax.set_title(label(kind_of_intervals(e) if title is None else title, width=60))
    ax.legend(loc="upper left" if not by_feature else "lower right", frameon=False, fontsize="small")
    return ax


def _truth(truth: Any, shape: tuple[int, ...]) -> FloatArray:
    """The truth, with an axis for the similar rows after that of the rows."""
    array = check_finite_array("truth", truth)
    if array.shape == shape:
        return array[:, None]
    if array.ndim == len(shape) + 1 and (array.shape[0], *array.shape[2:]) == shape and array.shape[1]:
        return array
    similar = f"({shape[0]}, K, {', '.join(map(str, shape[1:]))})"
    raise InputError(f"truth has the shape {array.shape}; expected {shape}, or {similar} for K similar rows.")


def _levels(e: Explained, levels: Any) -> FloatArray:
    """The given levels; else all default levels that the explanation has intervals for."""
    if levels is not None:
        given = np.unique(check_finite_array("levels", levels).ravel())
        if not len(given):
            raise InputError("levels is empty; give at least one confidence level.")
        return np.array([check_level(float(level), "levels") for level in given])
    known = _LEVELS[[abs(e.rule.attainable(level) - level) < _ROUNDING for level in _LEVELS]]
    if not len(known):
        raise InputError("The explanation was calibrated on too few rows for any level; calibrate on more.")
    return known


def _held(e: Explained, truth: FloatArray, level: float) -> FloatArray:
    """Share of true attributions that lie inside, for each feature."""
    lower, upper = (bound[:, None] for bound in e.interval(level))
    inside = (lower <= truth) & (truth <= upper)
    return np.asarray(inside.mean(axis=tuple(axis for axis in range(inside.ndim) if axis != 2)))


def _band(ax: Axes, n: int) -> None:
    promised = np.linspace(0.0, 1.0, 41)
    low, high = (binom.ppf(tail, n, promised) / n for tail in ((1 - _BAND) / 2, (1 + _BAND) / 2))
    low[0] = high[0] = 0.0
    ax.fill_between(promised, low, high, color=FAINT, linewidth=0, label=f"chance, {counted(n, 'row')}", zorder=1)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, zorder=2)


def _draw_features(ax: Axes, levels: FloatArray, held: FloatArray, names: Any, most: int) -> None:
    away = np.abs(held - levels[:, None]).mean(axis=0)
    for rank, j in enumerate(np.argsort(-away, kind="stable")):
        if rank < most:
            style = {**look(rank), "markersize": 3.5, "linewidth": 1, "zorder": 4}
            ax.plot(levels, held[:, j], label=label(names[j], width=28), **style)
        else:
            ax.plot(levels, held[:, j], color=GREY, linewidth=0.6, alpha=0.6, zorder=3)
