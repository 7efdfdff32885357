"""Some rows side by side: their attributions with intervals, as bars and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import html

from gpec._colors import FAINT, GREY, INK, PALETTE
from gpec._numbers import number, value_text
from gpec.app._drawing import layout, plain
from gpec.explanation import Explanation
from gpec.intervals.trust import shown_words
from gpec.typing import IntArray

_PATTERNS = ("", "/", ".", "x")  # so that rows differ in black and white, too
MOST_COMPARED = len(_PATTERNS)
_MOST_FEATURES = 12


def compared_features(rows: Explanation) -> IntArray:
    """The features that matter most to any of the rows, the largest first."""
    size = np.abs(rows.values).max(axis=0)
    return np.argsort(-size, kind="stable")[:_MOST_FEATURES].astype(np.int64)


def draw_comparison(rows: Explanation, labels: list[str], features: IntArray) -> Any:
    """One bar for each row and feature, with its interval."""
    shown = rows[:, features]
    lower, upper = shown.interval()
    bars = [
        go.Bar(
            x=shown.values[i],
            y=np.arange(len(features)),
            orientation="h",
            name=f"row {plain(label)}",
            marker={"color": PALETTE[i], "pattern": {"shape": _PATTERNS[i], "fgcolor": "white", "size": 6}},
            error_x={
                "type": "data",
                "array": upper[i] - shown.values[i],
                "arrayminus": shown.values[i] - lower[i],
                "color": INK,
                "thickness": 1.2,
                "width": 3,
            },
            hovertemplate="%{x:.3g}<extra>%{fullData.name}</extra>",
        )
        for i, label in enumerate(labels)
    ]
    names = {"tickvals": np.arange(len(features)), "ticktext": [plain(name, 22) for name in shown.feature_names]}
    return go.Figure(
        bars,
        layout(
            {"title": {"text": "attribution"}, "zerolinecolor": GREY, "nticks": 5, "tickangle": 0, "gridcolor": FAINT},
            {**names, "autorange": "reversed", "automargin": True},
            margin={"l": 8, "r": 16, "t": 36, "b": 44},
            barmode="group",
            bargap=0.28,
            height=110 + len(features) * (16 + 14 * len(labels)),
            legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        ),
    )


def table(rows: Explanation, labels: list[str], features: IntArray, *, has_intervals: bool = True) -> Any:
    """The same in numbers: the row's value, its attribution, and the interval with a word on its sign, or the noise."""
    shown = rows[:, features]
    (lower, upper), words = shown.interval(), shown_words(shown)

    def cell(i: int, j: int) -> Any:
        value, low, high = (number(array[i, j], shown.values, sign=True) for array in (shown.values, lower, upper))
        return html.Td(
            [
                html.Div(value, className="attribution"),
                html.Div(f"{low} to {high}" if has_intervals else f"noise ± {number(shown.std[i, j], shown.values)}"),
                html.Small(f"value {value_text(shown.data[i, j])}" + has_intervals * f", sign {words[i, j]}"),
            ]
        )

    head = html.Tr([html.Th("feature"), *(html.Th(f"row {label}") for label in labels)])
    body = [
        html.Tr([html.Th(value_text(name), scope="row"), *(cell(i, j) for i in range(len(labels)))])
        for j, name in enumerate(shown.feature_names)
    ]
    return html.Table([html.Thead(head), html.Tbody(body)], className="compared")
