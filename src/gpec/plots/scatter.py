"""One feature of many rows: its value against its attribution, coloured by the width of the interval."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib.dates as mdates
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator

from gpec._colors import GREY, INK, UNCERTAINTY
from gpec._numbers import MISSING, counted, is_missing, number, value_text
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.plots._style import axis_note, color_bar, label, largest, new_axes, promise_label, require_axes, unit_label
from gpec.plots._values import MANY, dot_size, numbers_of, spread
from gpec.typing import FloatArray

_CATEGORIES = 12
_SIDE = 0.14  # of the range, between the smallest number and the missing values


class _Axis(NamedTuple):
    """Positions of the rows, and the ticks with their labels; no ticks if matplotlib chooses them."""

    x: FloatArray
    ticks: list[float]
    labels: list[str]
    border: float | None  # between missing and other values


def scatter(
    e: Explained,
    feature: str | int | None = None,
    *,
    ax: Axes | None = None,
    intervals: bool = False,
    legend: bool = True,
) -> Axes:
    """Draw the value of one feature against its attribution, coloured by uncertainty.

    Dark dots have narrow intervals, bright ones wide ones, up to the 95% quantile of the widths; bright ones on top.
    Texts and truth values get a category axis, where dots that would cover each other lie side by side; beyond twelve
    categories the rarest are joined. Missing values stand apart at the left.

    Parameters
    ----------
    e : Explanation
        Of many rows and a single class: ``e``, ``e[:, :, "class"]`` or, for one feature, ``e[:, "age"]``.
    feature : str or int, optional
        Name or number of the feature; not needed if the explanation has only one.
    ax : Axes, optional
        Where to draw; by default a new figure.
    intervals : bool
        Draw each interval as a line.
    legend : bool
        Explain the colours.

    Returns
    -------
    Axes
        The axes drawn on.
    """
    e = _one_feature(e, feature)
    ax = new_axes(ax, (6.4, 4.2))
    numbers, dates = numbers_of(e.data)
    if numbers is None or _truth_values(e.data):
        axis = _category_axis(e.data, e.values)
    else:
        axis = _number_axis(numbers, e.values, dates=dates)
    width = e.width
    order = np.argsort(width, kind="stable")  # uncertain ones on top
    low, high = float(width.min()), float(np.quantile(width, 0.95))
    alike = np.ptp(width) <= 1e-9 * width.max()
    if intervals:
        ax.vlines(axis.x, *e.interval(), color=GREY, linewidth=0.5, alpha=0.6, zorder=1)
    dots = ax.scatter(
        axis.x[order],
        e.values[order],
        c=width[order],
        cmap=UNCERTAINTY,
        norm=Normalize(low, low + 1.0 if alike else high),
        s=dot_size(20.0, len(e)),
        edgecolors=INK,
        linewidths=0.3 if len(e) <= MANY else 0.1,
        rasterized=len(e) > MANY,
        zorder=2,
    )
    ax.axhline(0.0, color=INK, linewidth=0.8, zorder=0)
    if axis.border is not None:
        ax.axvline(axis.border, color=GREY, linewidth=0.8, linestyle=":")
    if axis.ticks:
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if sum(map(len, axis.labels)) > 45 else {}
        ax.set_xticks(axis.ticks, axis.labels, fontsize="small", **turned)
    ax.set_ylabel(unit_label(e))
    note = f"{counted(len(e), 'row')}; {promise_label(e)}" + (f", all {number(low)} wide" if alike else "")
    axis_note(ax, label(e.feature_names, width=60), note)
    if legend and not alike:
        color_bar(ax, dots, "width of the interval", extend="max" if width.max() > high else "neither")
    return ax


def _one_feature(e: Explained, feature: str | int | None) -> Explained:
    if feature is not None and "feature" in e.axes and "row" in e.axes:
        e = e[:, feature]
    elif feature is None and e.axes[1:2] == ("feature",) and e.shape[1] == 1:
        e = e[:, 0]
    elif feature is not None:
        raise InputError(f"scatter cannot choose feature={feature!r} among the axes {e.axes}; leave it out.")
    elif e.axes == ("row", "feature"):
        raise InputError(f"scatter draws one feature; name it, for instance scatter(e, {e.feature_names[0]!r}).")
    require_axes(e, ("row",), "scatter")
    return e


def _truth_values(column: Any) -> bool:
    present = np.asarray(column)[~is_missing(column)]
    return len(present) > 0 and all(isinstance(item, bool | np.bool_) for item in present)


def _number_axis(numbers: FloatArray, values: FloatArray, *, dates: bool) -> _Axis:
    """Numbers, with missing values to their left."""
    missing = np.isnan(numbers)
    if not missing.any() and not dates:
        return _Axis(numbers, [], [], None)
    low, high = (numbers[~missing].min(), numbers[~missing].max()) if not missing.all() else (0.0, 0.0)
    reach = float(high - low) or 1.0
    at = float(low) - _SIDE * reach
    x = numbers.copy()
    x[missing] = at + 0.03 * reach * spread(values[missing], values.min(), values.max(), bins=30)
    ticks, labels = ([], []) if missing.all() else _ticks(float(low), float(high), dates)
    if not missing.any():
        return _Axis(x, ticks, labels, None)
    border = None if missing.all() else (at + float(low)) / 2
    return _Axis(x, [at, *ticks], [MISSING, *labels], border)


def _ticks(low: float, high: float, dates: bool) -> tuple[list[float], list[str]]:
    """Positions and labels of the ticks."""
    days: Any = mdates.num2date  # untyped
    candidates: Any = [low]
    if low < high and dates:
        candidates = mdates.AutoDateLocator(maxticks=6).tick_values(*days([low, high]))  # type: ignore[no-untyped-call]
    elif low < high:
        candidates = MaxNLocator(6).tick_values(low, high)
    ticks = [float(tick) for tick in candidates if low <= tick <= high]
    return ticks, [day.strftime("%Y-%m-%d") for day in days(ticks)] if dates else [value_text(tick) for tick in ticks]


def _category_axis(column: Any, values: FloatArray) -> _Axis:
    """One position for each category, missing values first, the rarest of many joined at the end."""
    missing = is_missing(column)
    texts = np.array([str(item) for item in column], dtype=object)
    names, counts = np.unique(texts[~missing].astype(str), return_counts=True)
    named = names if len(names) <= _CATEGORIES + 1 else np.sort(names[largest(counts.astype(float), _CATEGORIES)])
    groups = [(MISSING, missing)] if missing.any() else []
    groups += [(label(name, width=18), ~missing & (texts == name)) for name in named]
    if len(named) < len(names):
        groups.append((f"{len(names) - len(named):,} others", ~missing & ~np.isin(texts.astype(str), named)))
    x = np.zeros(len(texts))
    for place, (_, members) in enumerate(groups):
        x[members] = place + 0.35 * spread(values[members], values.min(), values.max(), bins=30)
    border = 0.5 if missing.any() and len(groups) > 1 else None
    return _Axis(x, [float(place) for place in range(len(groups))], [name for name, _ in groups], border)
