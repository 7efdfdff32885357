"""An explanation in a notebook: a small table with bars and intervals, built as a tree so that all text is escaped."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np

from gpec._explained import Explained
from gpec.report._numbers import decimals_for, show, signed
from gpec.trust import trust_words
from gpec.typing import FloatArray

__all__ = ["notebook_table"]

_LINES = 12  # of a table
_ROWS, _EACH = 4, 3  # rows of several, and lines for each
_UP, _DOWN = "#D55E00", "#0072B2"  # Okabe and Ito's vermillion and blue
_OPACITY = {"firm": "1", "likely": "0.6", "unclear": "0.25"}
_CELL = "padding:2px 8px;text-align:{side};white-space:nowrap;background:none"
_NAME = "max-width:22em;overflow:hidden;text-overflow:ellipsis"


def notebook_table(e: Explained) -> str:
    """HTML of at most a dozen attributions of an explanation; it needs no other file and suits light and dark pages."""
    root = ElementTree.Element("div", {"class": "gpec", "style": "font-size:90%"})
    _add(root, "div", _size_of(e), style="margin-bottom:4px;opacity:0.8")
    if e.values.size:
        of_rows = "row" in e.axes
        _add_table(root, e[:_LINES] if of_rows else e, len(e) if of_rows else 1)
        _add(root, "div", e.statement(), style="margin-top:4px;max-width:60em;opacity:0.8")
    return ElementTree.tostring(root, encoding="unicode", method="html")


def _size_of(e: Explained) -> str:
    counts = [f"{size:,} {name if size == 1 else name + 's'}" for name, size in zip(e.axes, e.shape, strict=True)]
    unit = e.diagnostics.get("unit")
    return f"Explanation: {', '.join(counts) or 'one value'}" + (f"; attributions in units of {unit}" if unit else "")


def _add_table(root: ElementTree.Element, e: Explained, n: int) -> None:
    """Of the first rows ``e`` of ``n``."""
    shown, left_out = _chosen(e, n)
    lower, upper, words = e.lower, e.upper, trust_words(e)
    ends = np.array([[min(lower[at], 0.0), max(upper[at], 0.0)] for at in shown])
    decimals = decimals_for(np.array([e.values[at] for at in shown]))
    low, span = float(ends.min()), float(ends.max() - ends.min()) or 1.0
    table = _add(root, "table", style="border-collapse:collapse;color:inherit;background:none")
    named = [axis for axis in ("row", "feature", "output") if axis in e.axes]
    titles = [{"output": "class"}.get(axis, axis) for axis in named]
    head = _add(_add(table, "thead"), "tr", style="background:none")
    for title in [*titles, "value", "attribution", f"{100 * e.confidence_level:.4g}% interval", "", "sign"]:
        _add(head, "th", title, style=_CELL.format(side="left" if title in (*titles, "sign") else "right"), scope="col")
    body, before = _add(table, "tbody"), None
    for at in shown:
        line = _add(body, "tr", style="background:none")
        for axis in named:
            name = _name(e, axis, at)
            repeated = axis == "row" and name == before
            _add(line, "td", "" if repeated else name, style=f"{_CELL.format(side='left')};{_NAME}", title=name)
            before = name if axis == "row" else before
        _add(line, "td", _value(e, at), style=_CELL.format(side="right"))
        _add(line, "td", signed(float(e.values[at]), decimals), style=_CELL.format(side="right"))
        bounds = f"{signed(float(lower[at]), decimals)} to {signed(float(upper[at]), decimals)}"
        _add(line, "td", bounds, style=_CELL.format(side="right"))
        places = [(float(number) - low) / span for number in (0.0, e.values[at], lower[at], upper[at])]
        _add_bar(_add(line, "td", style=_CELL.format(side="left")), places, str(words[at]))
        _add(line, "td", str(words[at]), style=_CELL.format(side="left"))
    for text in left_out:
        _add(root, "div", text, style="margin-top:2px;opacity:0.8")


def _chosen(e: Explained, n: int) -> tuple[list[tuple[int, ...]], list[str]]:
    """Where the attributions to show stand, and sentences on those that are left out."""
    sizes = np.abs(e.values)
    if e.axes == ("row",):
        return [(i,) for i in range(len(e))], [f"and {n - len(e):,} more rows"] if n > len(e) else []
    if "row" not in e.axes or n == 1:
        shown = _largest(sizes, _LINES)
        rest = sizes.size - len(shown)
        return shown, [f"and {rest:,} smaller ones"] if rest else []
    left_out = []
    if sizes[0].size > _EACH:
        left_out.append(f"The {_EACH} largest of {sizes[0].size:,} attributions of each row.")
    if n > _ROWS:
        left_out.append(f"and {n - _ROWS:,} more rows; e[i] shows one, e.to_html(path) all of them")
    return [(i, *at) for i in range(min(n, _ROWS)) for at in _largest(sizes[i], _EACH)], left_out


def _largest(sizes: FloatArray, k: int) -> list[tuple[int, ...]]:
    order = np.argsort(-sizes.ravel(), kind="stable")[:k]
    return [tuple(int(i) for i in np.unravel_index(flat, sizes.shape)) for flat in order]


def _name(e: Explained, axis: str, at: tuple[int, ...]) -> str:
    i = at[e.axes.index(axis)]
    if axis == "row":
        return str(i) if e.row_names is None else show(e.row_names[i])
    return str((e.feature_names if axis == "feature" else e.output_names)[i])


def _value(e: Explained, at: tuple[int, ...]) -> str:
    of_data = tuple(i for i, axis in zip(at, e.axes, strict=True) if axis != "output")
    return show(e.data[of_data])


def _add_bar(cell: ElementTree.Element, places: list[float], word: str) -> None:
    """A bar from zero to the value and the interval over it, at shares of the width."""
    zero, value, lower, upper = places
    box = _add(cell, "div", style="position:relative;width:160px;height:14px")
    bar = f"position:absolute;top:2px;height:10px;background:{_UP if value >= zero else _DOWN}"
    _add(box, "div", style=f"{bar};opacity:{_OPACITY[word]};{_from_to(zero, value)}")
    _add(box, "div", style=f"position:absolute;top:6px;height:2px;background:currentColor;{_from_to(lower, upper)}")
    _add(box, "div", style=f"position:absolute;top:0;height:14px;width:1px;background:currentColor;left:{zero:.1%}")


def _from_to(one: float, other: float) -> str:
    return f"left:{min(one, other):.1%};width:{abs(other - one):.1%}"


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: Any) -> ElementTree.Element:
    child = ElementTree.SubElement(parent, tag, attributes)
    child.text = text
    return child
