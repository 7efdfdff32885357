"""A dozen attributions of an explanation with their intervals: as text, and as HTML for a notebook."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree  # so that all text is escaped

import numpy as np
import pandas as pd

from gpec._colors import DOWN, UP
from gpec._numbers import counted, level_text, number, value_text
from gpec.intervals.protocol import Explained
from gpec.intervals.trust import shown_words

_LINES = 12  # of a table
_ROWS = 4  # shown, if there are several
_OPACITY = {"firm": "1", "likely": "0.6", "unclear": "0.25", "none": "0"}
_LEFT, _RIGHT = (f"padding:2px 8px;text-align:{side};white-space:nowrap;background:none" for side in ("left", "right"))
_NAME = f"{_LEFT};max-width:22em;overflow:hidden;text-overflow:ellipsis"
_ASIDE = "margin-top:4px;max-width:60em;opacity:0.8"
_NOT_STATED = "as the explainer gives them"  # the unit of explainers that name none


def text_table(e: Explained) -> str:
    """The text for ``print``, in ASCII."""
    spread = f"; mean std {float(np.mean(e.std)):.3g}" if e.values.size else ""
    summary = f"Explanation({_size_of(e)}{spread})"
    if not (e.axes and e.values.size):
        return summary
    e, shown, left_out = _chosen(e)
    columns = {axis: [_name(e, axis, at) for at in shown] for axis in e.axes}
    columns["data"] = [_value(e, at) for at in shown]
    lower, upper = e.interval()
    like = [e.values[at] for at in shown]
    for name, array in (("value", e.values), ("lower", lower), ("upper", upper)):
        columns[name] = [number(array[at], like, minus="-") for at in shown]
    return "\n".join([summary, pd.DataFrame(columns).to_string(index=False), *(f"... {text}" for text in left_out)])


def notebook_table(e: Explained) -> str:
    """The table in a notebook: HTML that needs no other file and suits light and dark pages."""
    root = ElementTree.Element("div", {"class": "gpec", "style": "font-size:90%"})
    about = f"Explanation: {_size_of(e)}{_unit_of(e)}"
    _add(root, "div", about, style="margin-bottom:4px;opacity:0.8")
    if e.values.size:
        _add_table(root, e)
        _add(root, "div", e.statement(), style=_ASIDE)
    return ElementTree.tostring(root, encoding="unicode", method="html")


def _unit_of(e: Explained) -> str:
    unit = e.diagnostics.get("unit")
    if unit == _NOT_STATED:
        return "; unit: not stated by the explainer"
    return f"; attributions in units of {unit}" if unit else ""


def _size_of(e: Explained) -> str:
    return ", ".join(counted(size, axis) for axis, size in zip(e.axes, e.shape, strict=True)) or "one value"


def _add_table(root: ElementTree.Element, e: Explained) -> None:
    e, shown, left_out = _chosen(e)
    (lower, upper), words = e.interval(), shown_words(e)
    like = [e.values[at] for at in shown]
    low, high = min(0.0, *(lower[at] for at in shown)), max(0.0, *(upper[at] for at in shown))
    span = (high - low) or 1.0
    table = _add(root, "table", style="border-collapse:collapse;color:inherit;background:none")
    titles = ["class" if axis == "output" else axis for axis in e.axes]
    head = _add(_add(table, "thead"), "tr", style="background:none")
    for title in [*titles, "value", "attribution", f"{level_text(e.confidence_level)} interval", "", "sign"]:
        _add(head, "th", title, style=_LEFT if title in (*titles, "sign") else _RIGHT, scope="col")
    body, before = _add(table, "tbody"), None
    for at in shown:
        line = _add(body, "tr", style="background:none")
        for axis in e.axes:
            name = _name(e, axis, at)
            repeated = axis == "row" and name == before
            _add(line, "td", "" if repeated else name, style=_NAME, title=name)
            before = name if axis == "row" else before
        _add(line, "td", _value(e, at), style=_RIGHT)
        ends = (e.values[at], lower[at], upper[at])
        value, *bounds = (number(end, like, sign=True) for end in ends)
        for text in (value, " to ".join(bounds)):
            _add(line, "td", text, style=_RIGHT)
        places = [(float(end) - low) / span for end in (0.0, *ends)]
        _add_bar(_add(line, "td", style=_LEFT), places, str(words[at]))
        _add(line, "td", str(words[at]), style=_LEFT)
    for text in left_out:
        _add(root, "div", text, style=_ASIDE)


def _chosen(e: Explained) -> tuple[Explained, list[tuple[int, ...]], list[str]]:
    """The first rows, the positions of the attributions to show, and sentences on those left out."""
    n = len(e) if e.axes[:1] == ("row",) else 1
    if "row" not in e.axes:
        rows, each = 1, _LINES
    elif e.axes == ("row",):
        rows, each = min(n, _LINES), 1
    else:
        rows = min(n, _ROWS)
        each = _LINES if n == 1 else _LINES // _ROWS
    e = e[:rows] if "row" in e.axes else e
    sizes = np.abs(e.values).reshape(rows, -1)
    order = np.argsort(-sizes, axis=1, kind="stable")[:, :each] + sizes.shape[1] * np.arange(rows)[:, None]
    shown = [tuple(int(i) for i in np.unravel_index(flat, e.shape)) for flat in order.ravel()]
    rest, left_out = sizes.shape[1] - each, []
    if rest > 0:
        left_out.append(f"and {rest:,} smaller ones" + (" of each row" if n > 1 else ""))
    if n > rows:
        left_out.append(f"and {counted(n - rows, 'more row')}; e[i] shows one, e.to_html(path) all of them")
    return e, shown, left_out


def _name(e: Explained, axis: str, at: tuple[int, ...]) -> str:
    i = at[e.axes.index(axis)]
    if axis == "row":
        return str(i) if e.row_names is None else value_text(e.row_names[i])
    return str((e.feature_names if axis == "feature" else e.output_names)[i])


def _value(e: Explained, at: tuple[int, ...]) -> str:
    of_data = tuple(i for i, axis in zip(at, e.axes, strict=True) if axis != "output")
    return value_text(e.data[of_data])


def _add_bar(cell: ElementTree.Element, places: list[float], word: str) -> None:
    """A bar from zero to the value with its interval, as shares of the width."""
    zero, value, lower, upper = places
    box = _add(cell, "div", style="position:relative;width:160px;height:14px")
    bar = f"position:absolute;top:2px;height:10px;background:{UP if value >= zero else DOWN}"
    _add(box, "div", style=f"{bar};opacity:{_OPACITY[word]};{_from_to(zero, value)}")
    _add(box, "div", style=f"position:absolute;top:6px;height:2px;background:currentColor;{_from_to(lower, upper)}")
    _add(box, "div", style=f"position:absolute;top:0;height:14px;width:1px;background:currentColor;left:{zero:.1%}")


def _from_to(one: float, other: float) -> str:
    return f"left:{min(one, other):.1%};width:{abs(other - one):.1%}"


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: Any) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child
