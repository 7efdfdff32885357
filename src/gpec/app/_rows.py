"""The rows of an open file that are shown, and their order."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import html

from gpec._numbers import answer_text, number, share_text, value_text
from gpec.app._files import OpenFile
from gpec.typing import IntArray

ORDERS = {"least": "smallest firm share first", "most": "largest firm share first", "file": "as in the file"}
PAGE = 20


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
