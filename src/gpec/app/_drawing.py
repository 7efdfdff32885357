"""The playground's plot."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from gpec._colors import GREY, INK, PALETTE, UNCERTAINTY, UP
from gpec._numbers import shorten
from gpec.app._surface import ALIKE, Reading, Surface
from gpec.typing import FloatArray

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TOP = 0.98  # quantile of the widths that gets the brightest colour


def plain(text: Any, longest: int = 34) -> str:
    """Text with plotly's markup escaped."""
    return shorten(text, longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Layout shared by all plots of the page; a click selects a point, never zooms."""
    return {
        "xaxis": {"fixedrange": True, **x},
        "yaxis": {"fixedrange": True, **y},
        "font": {"family": _FONT, "size": 13, "color": INK},
        "plot_bgcolor": "white",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"font": {"family": _FONT}},
        **more,
    }


def colour_top(surface: Surface, feature: int) -> float:
    """The width that gets the brightest colour."""
    return max(float(np.quantile(surface.width[..., feature], _TOP)), 1e-9)


def draw_surface(surface: Surface, feature: int, top: float, reading: Reading | None = None) -> Any:
    """Widths of one feature's intervals as colours, with boundary, explained rows and the point that was clicked."""
    x, y = surface.dataset.axes(len(surface.width))
    half = {"start": 0.5, "end": 0.5, "size": 1, "coloring": "none"}
    traces = [
        go.Heatmap(
            x=x,
            y=y,
            z=surface.width[..., feature],
            zmin=0.0,
            zmax=top,
            zsmooth="fast",
            colorscale=UNCERTAINTY,
            colorbar={"title": {"text": "width", "side": "top"}, "thickness": 12, "outlinewidth": 0, "xpad": 6},
            hovertemplate="%{x:.3g}, %{y:.3g}<br>interval %{z:.3g} wide<extra></extra>",
        ),
        _contour(surface, surface.probability, half, _edge(4.0)),  # a dark edge, visible on bright colours
        _contour(surface, surface.probability, half, _edge(2.0, "white")),
    ]
    if reading is not None:
        alike = {"type": "constraint", "operation": "<", "value": ALIKE}  # plotly fills the rest
        dotted = {**_edge(2.5, "white"), "dash": "dot"}
        traces.append(_contour(surface, reading.ball, alike, dotted, fillcolor="rgba(255, 255, 255, 0.28)"))
    first = len(surface.explained) - surface.n_added
    traces += [
        _dots(surface.boundary, "boundary points found", 4, "white", _edge(0.5)),
        _dots(surface.explained[:first], "explained rows", 9, UP, _edge(1, "white")),
    ]
    if surface.n_added:
        traces.append(_dots(surface.explained[first:], "rows you added", 12, UP, _edge(1.5), "diamond"))
    if reading is not None:
        if len(reading.similar):
            traces.append(_dots(reading.similar, "its similar rows", 9, PALETTE[4], _edge(1)))
        traces.append(_dots(np.array([reading.point]), "your point", 14, "white", _edge(1.5), "x"))
    look = {"showgrid": False, "zeroline": False, "ticks": "outside", "tickcolor": GREY}
    axes = [
        {"title": {"text": plain(name), "standoff": 8}, "range": [float(values[0]), float(values[-1])], **look}
        for name, values in zip(surface.dataset.names, (x, y), strict=True)
    ]
    margin = {"l": 54, "r": 4, "t": 6, "b": 44}
    return go.Figure(traces, layout(*axes, margin=margin, showlegend=False, uirevision="same"))


def _edge(width: float, colour: str = INK) -> dict[str, Any]:
    return {"width": width, "color": colour}


def _contour(surface: Surface, z: FloatArray, contours: dict[str, Any], line: dict[str, Any], **more: Any) -> Any:
    """A line over the fine grid."""
    x, y = surface.dataset.axes(len(z))
    return go.Contour(x=x, y=y, z=z, contours=contours, line=line, showscale=False, hoverinfo="skip", **more)


def _dots(points: FloatArray, name: str, size: int, color: str, line: dict[str, Any], symbol: str = "circle") -> Any:
    marker = {"size": size, "color": color, "line": line, "symbol": symbol}
    return go.Scatter(x=points[:, 0], y=points[:, 1], mode="markers", marker=marker, name=name, hoverinfo="skip")
