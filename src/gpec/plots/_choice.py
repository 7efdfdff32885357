"""Chooses the plot for an explanation."""

from __future__ import annotations

from typing import Any

from gpec import plots
from gpec._validation import check_choice
from gpec.errors import InputError
from gpec.intervals.protocol import Explained

_KINDS = ("bars", "beeswarm", "calibration", "image", "scatter", "similar", "summary", "waterfall")
_OF_ONE_ROW = ("bars", "similar", "waterfall")


def draw(e: Explained, kind: str | None, options: dict[str, Any]) -> Any:
    """Draw an explanation with the named plot, or with the default plot for its axes."""
    if kind is None:
        kind = _suitable(e)
    check_choice("kind", kind, _KINDS)
    if kind in _OF_ONE_ROW and e.axes[:1] == ("row",) and len(e) == 1:
        e = e[0]
    return getattr(plots, kind)(e, **options)


def _suitable(e: Explained) -> str:
    if e.axes == ("feature",) or (e.axes == ("row", "feature") and len(e) == 1):
        return "bars" if e.base_values is None else "waterfall"
    if e.axes == ("row",) or (e.axes == ("row", "feature") and e.shape[1] == 1):
        return "scatter"
    if e.axes == ("row", "feature"):
        return "beeswarm"
    if e.axes == ("row", "feature", "output"):
        return "summary"
    if "output" in e.axes and len(e.axes) > 1:
        first = "0" if e.axes[0] == "feature" else ":"
        second = ":" if e.axes[0] == "feature" else repr(str(e.feature_names))
        raise InputError(
            f"This explanation has {e.shape[-1]} classes; select one, for instance "
            f"e[{first}, {second}, {str(e.output_names[0])!r}].plot()."
        )
    raise InputError("A single attribution cannot be plotted; select a row, for instance e[0].plot().")
