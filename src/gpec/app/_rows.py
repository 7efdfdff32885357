"""The rows of an open file: a page of them in order, and some side by side, as bars and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go
from dash import dcc, html

from gpec._colors import FAINT, GREY, INK, PALETTE
from gpec._numbers import answer_text, number, share_text, value_text
from gpec.app._drawing import layout, plain
from gpec.app._files import OpenFile
from gpec.explanation import Explanation
from gpec.intervals.trust import shown_words
from gpec.typing import IntArray

ORDERS = {"least": "smallest firm share first", "most": "largest firm share first", "file": "as in the file"}
PAGE = 20
_PATTERNS = ("", "/", ".", "x")  # so that rows differ in black and white, too
MOST_COMPARED = len(_PATTERNS)
_MOST_FEATURES = 12


def selected_rows(file: OpenFile, output: int, text: str, order: str) -> IntArray:
    """Rows that contain every word of ``text``, in this order."""
    firm = file.of_output(output)[1]
    words = text.lower().split()
    rows = np.flatnonzero([all(word in row for word in words) for row in file.texts])
    if order == "file":
        return rows
    sign = 1.0 if order == "least" else -1.0
    return np.asarray(rows[np.argsort(sign * firm[rows], kind="stable")])


def rows_table(file: OpenFile, output: int, rows: IntArray, picked: list[int]) -> Any:
    """One line for each row, with a button to select it."""
    e, firm = file.of_output(output)
    answered = e.predictions is not None
    head = ["", "row", "firm share" * file.has_intervals, "answer" * answered, "largest attribution"]
    body = []
    for i in rows.tolist():
        largest = int(np.abs(e.values[i]).argmax())
        answer = "" if e.predictions is None else answer_text(e.predictions[i], e.output_names is not None)
        chosen = i in picked
        spoken: Any = {"aria-label": f"compare row {file.labels[i]}", "aria-pressed": str(chosen).lower()}
        look = "pick chosen" if chosen else "pick"
        button = html.Button("✓" if chosen else "compare", id={"pick": i}, className=look, **spoken)
        cells = [
            html.Td(button),
            html.Td(file.labels[i], className="name"),
            html.Td(share_text(firm[i]) if file.has_intervals else "", className="firm"),
            html.Td(answer),
            html.Td(f"{value_text(e.feature_names[largest])} {number(e.values[i, largest], sign=True)}"),
        ]
        body.append(html.Tr(cells, className="chosen" if chosen else ""))
    return html.Table([html.Thead(html.Tr([html.Th(title) for title in head])), html.Tbody(body)], className="rows")


def side_by_side(file: OpenFile, output: int, picked: list[int]) -> Any:
    """Bars and table of the rows picked."""
    rows = file.of_output(output)[0][picked]
    labels = [file.labels[i] for i in picked]
    features = compared_features(rows)
    total = rows.shape[1]
    note = f"The {len(features)} largest of {total:,} features." if len(features) < total else ""
    figure = draw_comparison(rows, labels, features)
    graph = dcc.Graph(id="bars", figure=figure, config={"displayModeBar": False}, responsive=True)
    framed = html.Div(graph, style={"height": f"{figure.layout.height}px"})
    in_numbers = table(rows, labels, features, has_intervals=file.has_intervals)
    return [html.H2("Side by side"), framed, html.P(note, className="help"), in_numbers]


def compared_features(rows: Explanation) -> IntArray:
    """The features that matter most to any of the rows, the largest first."""
    size = np.abs(rows.values).max(axis=0)
    return np.argsort(-size, kind="stable")[:_MOST_FEATURES].astype(np.int64)


def draw_comparison(rows: Explanation, labels: list[str], features: IntArray) -> Any:
    """One bar for each row and feature, with its interval."""
    shown = rows[:, features]
    lower, upper = shown.interval()
    above, below, whisker = upper - shown.values, shown.values - lower, {"color": INK, "thickness": 1.2, "width": 3}
    bars = [
        go.Bar(
            x=shown.values[i],
            y=np.arange(len(features)),
            orientation="h",
            name=f"row {plain(label)}",
            marker={"color": PALETTE[i], "pattern": {"shape": _PATTERNS[i], "fgcolor": "white", "size": 6}},
            error_x={"type": "data", "array": above[i], "arrayminus": below[i], **whisker},
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
