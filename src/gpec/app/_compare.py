"""Some rows side by side: their attributions with intervals, as bars and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec.app._drawing import BLUE, FONT, GREY, INK, ORANGE, plain
from gpec.app._words import number
from gpec.explanation import Explanation
from gpec.trust import trust_levels
from gpec.typing import IntArray

__all__ = ["MOST_COMPARED", "compared_features", "draw_comparison", "table"]

MOST_COMPARED = 4
_MOST_FEATURES = 12
# Okabe and Ito's colours and patterns, so that rows are told apart in print, too.
_LOOKS = ((BLUE, ""), (ORANGE, "/"), ("#009E73", "."), ("#CC79A7", "x"))


def compared_features(rows: Explanation) -> IntArray:
    """The features that matter most to any of the rows, the largest first."""
    size = np.abs(rows.values).max(axis=0)
    return np.argsort(-size, kind="stable")[:_MOST_FEATURES].astype(np.int64)


def draw_comparison(rows: Explanation, labels: list[str], features: IntArray) -> Any:
    """One bar for each row and feature, with its interval."""
    import plotly.graph_objects as go

    places = np.arange(len(features))
    lower, upper = rows.interval()
    bars = [
        go.Bar(
            x=rows.values[i, features],
            y=places,
            orientation="h",
            name=f"row {plain(labels[i])}",
            marker={"color": colour, "pattern": {"shape": pattern, "fgcolor": "white", "size": 6}},
            error_x={
                "type": "data",
                "array": upper[i, features] - rows.values[i, features],
                "arrayminus": rows.values[i, features] - lower[i, features],
                "color": INK,
                "thickness": 1.2,
                "width": 3,
            },
            hovertemplate="%{x:.3g}<extra>%{fullData.name}</extra>",
        )
        for i, (colour, pattern) in enumerate(_LOOKS[: len(labels)])
    ]
    names = [plain(rows.feature_names[j], 22) for j in features]
    height = 110 + len(features) * (16 + 14 * len(labels))
    return go.Figure(bars, _layout(names, height))


def _layout(names: list[str], height: int) -> dict[str, Any]:
    return {
        "barmode": "group",
        "bargap": 0.28,
        "height": height,
        "yaxis": {
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "autorange": "reversed",
            "automargin": True,
            "fixedrange": True,
        },
        "xaxis": {
            "title": {"text": "attribution", "standoff": 6},
            "zerolinecolor": GREY,
            "nticks": 5,
            "tickangle": 0,
            "gridcolor": "#e6e6e6",
            "fixedrange": True,
        },
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 8, "r": 16, "t": 36, "b": 44},
        "plot_bgcolor": "white",
        "paper_bgcolor": "rgba(0,0,0,0)",
    }


def table(rows: Explanation, labels: list[str], features: IntArray, *, judged: bool = True) -> Any:
    """The same in numbers: the row's value, its attribution, and the interval with a word on its sign, or the noise."""
    from dash import html

    lower, upper = rows.interval()
    words = trust_levels(rows)
    head = html.Tr([html.Th("feature"), *(html.Th(f"row {label}") for label in labels)])
    lines = [
        html.Tr(
            [
                html.Th(str(rows.feature_names[j]), scope="row"),
                *(
                    html.Td(
                        [
                            html.Div(f"{number(rows.values[i, j], signed=True)}", className="attribution"),
                            html.Div(
                                f"{number(lower[i, j], signed=True)} to {number(upper[i, j], signed=True)}"
                                if judged
                                else f"noise ± {number(rows.std[i, j])}"
                            ),
                            html.Small(f"value {_value(rows.data[i, j])}" + judged * f", trust {words[i, j]}"),
                        ]
                    )
                    for i in range(len(labels))
                ),
            ]
        )
        for j in features
    ]
    return html.Table([html.Thead(head), html.Tbody(lines)], className="compared")


def _value(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return "missing" if np.isnan(value) else number(float(value))
    return str(value)
