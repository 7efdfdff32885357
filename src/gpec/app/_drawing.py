"""The playground's picture."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec.app._surface import ALIKE, Reading, Surface
from gpec.typing import FloatArray

__all__ = ["BLUE", "FONT", "GREY", "INK", "ORANGE", "colour_top", "draw_surface", "plain"]

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#767676", "#1d2733"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TOP = 0.98  # quantile of the widths that gets the brightest colour
_LONGEST = 34


def plain(text: Any, longest: int = _LONGEST) -> str:
    """Text that plotly shows as it stands, where it would read markup; the end of a long one is cut."""
    shown = str(text)
    shown = shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def colour_top(surface: Surface, feature: int) -> float:
    """The width that gets the brightest colour."""
    return max(float(np.quantile(surface.width[..., feature], _TOP)), 1e-9)


def draw_surface(surface: Surface, feature: int, top: float, reading: Reading | None = None) -> Any:
    """Widths of one feature's intervals as colours, with boundary, explained rows and the point that was clicked."""
    import plotly.graph_objects as go

    traces = [
        _widths(go, surface, feature, top),
        _boundary_line(go, surface, INK, 4.0),  # an edge, so that it is seen on bright ground, too
        _boundary_line(go, surface, "white", 2.0),
    ]
    if reading is not None:
        traces.append(_ball(go, surface, reading))
    first = len(surface.explained) - surface.n_added
    traces += [
        _dots(go, surface.boundary, "boundary points found", {"size": 4, "color": "white", "line": _edge(0.5)}),
        _dots(go, surface.explained[:first], "explained rows", {"size": 9, "color": ORANGE, "line": _edge(1, "white")}),
    ]
    if surface.n_added:
        marker = {"size": 12, "symbol": "diamond", "color": ORANGE, "line": _edge(1.5)}
        traces.append(_dots(go, surface.explained[first:], "rows you added", marker))
    if reading is not None:
        if len(reading.similar):
            marker = {"size": 9, "color": "#56B4E9", "line": _edge(1)}
            traces.append(_dots(go, reading.similar, "its similar rows", marker))
        marker = {"size": 14, "symbol": "x", "color": "white", "line": _edge(1.5)}
        traces.append(_dots(go, np.array([reading.point]), "your point", marker))
    return go.Figure(traces, _layout(surface))


def _edge(width: float, colour: str = INK) -> dict[str, Any]:
    return {"width": width, "color": colour}


def _widths(go: Any, surface: Surface, feature: int, top: float) -> Any:
    return go.Heatmap(
        x=surface.x,
        y=surface.y,
        z=surface.width[..., feature],
        zmin=0.0,
        zmax=top,
        zsmooth="fast",
        colorscale="Cividis",
        colorbar={"title": {"text": "width", "side": "top"}, "thickness": 12, "outlinewidth": 0, "xpad": 6},
        hovertemplate="%{x:.3g}, %{y:.3g}<br>interval %{z:.3g} wide<extra></extra>",
    )


def _boundary_line(go: Any, surface: Surface, colour: str, width: float) -> Any:
    return go.Contour(
        x=surface.fine_x,
        y=surface.fine_y,
        z=surface.probability,
        contours={"start": 0.5, "end": 0.5, "size": 1, "coloring": "none"},
        line={"color": colour, "width": width},
        showscale=False,
        hoverinfo="skip",
    )


def _ball(go: Any, surface: Surface, reading: Reading) -> Any:
    return go.Contour(
        x=surface.fine_x,
        y=surface.fine_y,
        z=reading.ball,
        contours={"type": "constraint", "operation": "<", "value": ALIKE},  # plotly fills the rest
        fillcolor="rgba(255, 255, 255, 0.28)",
        line={"color": "white", "width": 2.5, "dash": "dot"},
        showscale=False,
        hoverinfo="skip",
    )


def _dots(go: Any, points: FloatArray, name: str, marker: dict[str, Any]) -> Any:
    return go.Scatter(x=points[:, 0], y=points[:, 1], mode="markers", marker=marker, name=name, hoverinfo="skip")


def _layout(surface: Surface) -> dict[str, Any]:
    place = surface.place
    axes = [
        {
            "title": {"text": plain(name), "standoff": 8},
            "range": [float(values[0]), float(values[-1])],
            "showgrid": False,
            "zeroline": False,
            "ticks": "outside",
            "tickcolor": GREY,
            "fixedrange": True,  # a click means a point, never a zoom
        }
        for name, values in zip(place.names, (surface.x, surface.y), strict=True)
    ]
    return {
        "xaxis": axes[0],
        "yaxis": axes[1],
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 54, "r": 4, "t": 6, "b": 44},
        "showlegend": False,
        "plot_bgcolor": "white",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "uirevision": "same",
        "hoverlabel": {"font": {"family": FONT}},
    }
