"""All rows: how large each feature's attributions are, and how often their sign is firm."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from gpec._colors import DOWN, FAINT, GREY, INK, PALETTE
from gpec._numbers import counted, level_text, share_text
from gpec._validation import check_count
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.intervals.trust import half_width_of_mean
from gpec.plots._feature_axes import feature_axes, legend_below, shown_of, whiskers
from gpec.plots._style import axis_note, label, largest, require_axes, unit_label
from gpec.typing import FloatArray

_CLASSES = 6  # drawn separately when stacked; the others are joined
_HATCHES = (None, "///", None, "\\\\\\", None, "...")


def summary(
    e: Explained,
    *,
    ax: Axes | None = None,
    output: str | int | None = None,
    max_features: int = 12,
    legend: bool = True,
) -> Axes:
    """Draw the mean size of each feature's attributions over all rows, and the share of rows whose sign is firm.

    Parameters
    ----------
    e : Explanation
        Of many rows, of one class or of several.
    ax : Axes, optional
        Where to draw; by default a new figure.
    output : str or int, optional
        The class to show. By default the sizes of all classes are stacked, and the share counts rows and classes.
    max_features : int
        How many features to show, largest first.
    legend : bool
        Name the stacked classes.

    Returns
    -------
    Axes
        The axes drawn on.

    Notes
    -----
    The line on a bar is an interval for the mean over rows like these, at the explanation's level: ``mean +- t s``,
    where ``s^2 = (v + u) / n`` with ``v`` the variance of the size between the ``n`` rows, ``u`` the mean over rows of
    the attribution's own variance (half of its interval's width over the normal quantile, squared), and ``t`` Student's
    quantile with ``n - 1`` degrees of freedom. So it shows whether the order of the features would hold for other rows;
    it shrinks with the number of rows, unlike the intervals of single attributions. Rows count as independent, and so
    do classes. There is none for a single row.

    A sign is firm where the 95% interval lies on one side of zero; see :func:`gpec.intervals.firmness`.
    """
    e = _of_output(e, output)
    require_axes(e, ("row", "feature", "output") if "output" in e.axes else ("row", "feature"), "summary")
    sizes = np.abs(e.values).reshape(*e.shape[:2], -1)
    mean = sizes.mean(axis=0)
    chosen = largest(mean.sum(axis=1), check_count("max_features", max_features))
    shown = e[:, chosen]
    ax, place = feature_axes(ax, [label(name) for name in shown.feature_names], 7.2, 0.36, 1.7)
    if sizes.shape[2] == 1:
        ax.barh(place, mean[chosen, 0], color=DOWN, height=0.65)
    else:
        _stack(ax, mean[chosen], place, list(e.output_names), legend)
    if len(e) > 1:
        total = mean[chosen].sum(axis=1)
        half = _half_width(shown, sizes[:, chosen].sum(axis=2))
        whiskers(ax, np.maximum(total - half, 0.0), total + half, place)
    _gauges(ax, (shown.firmness == "firm").reshape(sizes[:, chosen].shape).mean(axis=(0, 2)), place)
    ax.set_xlim(left=0.0)
    axis_note(ax, f"mean size of {unit_label(e)}", _note(e) + shown_of(e, len(chosen)))
    return ax


def _of_output(e: Explained, output: str | int | None) -> Explained:
    if output is None:
        return e
    if "output" not in e.axes:
        raise InputError(f"output={output!r} cannot be chosen: the explanation has one class only; leave it out.")
    return e[..., output]


def _half_width(e: Explained, sizes: FloatArray) -> FloatArray:
    """Half-width of the interval of the mean size, for each feature; variances of classes add."""
    half_widths = np.sqrt(((e.width / 2.0) ** 2).reshape(*e.shape[:2], -1).sum(axis=2))
    return half_width_of_mean(sizes, half_widths, e.confidence_level)


def _stack(ax: Axes, mean: FloatArray, place: Any, names: list[str], legend: bool) -> None:
    """Stacked bars of the classes, the largest first; the smallest of many classes joined."""
    order = largest(mean.sum(axis=0), mean.shape[1])
    apart = order if len(order) <= _CLASSES + 1 else order[:_CLASSES]
    parts = [(label(_class(names[k]), width=28), mean[:, k]) for k in apart]
    rest = order[len(apart) :]
    if len(rest):
        parts.append((f"{len(rest):,} other classes", mean[:, rest].sum(axis=1)))
    left = np.zeros(len(mean))
    handles = []
    for k, (_, size) in enumerate(parts):
        color, hatch = (PALETTE[k], _HATCHES[k]) if k < _CLASSES else (GREY, None)
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.3}
        handles.append(ax.barh(place, size, left=left, height=0.65, **style))
        left += size
    if legend:
        legend_below(ax, len(mean), handles, [name for name, _ in parts])


def _class(name: str) -> str:
    return f"class {name}" if name.isdigit() else name


def _gauges(ax: Axes, share: FloatArray, place: Any) -> None:
    """To the right of the axes, a small gauge and a number for each share."""
    across = ax.get_yaxis_transform()
    for y, part in zip(place, share, strict=True):
        for width, color in ((0.1, FAINT), (0.1 * part, INK)):
            ax.add_artist(
                Rectangle((1.02, y - 0.17), width, 0.34, transform=across, color=color, linewidth=0, clip_on=False)
            )
        ax.text(1.13, y, share_text(part), transform=across, va="center", fontsize="small", color=INK)
    ax.text(1.02, place[0] + 0.45, "sign firm", transform=across, va="bottom", fontsize="small", color=INK)


def _note(e: Explained) -> str:
    interval = f", {level_text(e.confidence_level)} interval of the mean" if len(e) > 1 else ""
    return f"{counted(len(e), 'row')}{interval}; sign firm: share of rows{' and classes' if 'output' in e.axes else ''}"
