"""Your data: a saved explanation or fit, its rows searched, sorted by firm share and compared."""

from __future__ import annotations

from typing import Any

from dash import dcc, html, no_update
from flask import abort

from gpec.app._controls import drop_down
from gpec.app._files import LARGEST_UPLOAD, FileCache, OpenFile
from gpec.app._requests import callback, distinct, one_of, taking_turns, text, triggered, whole
from gpec.app._rows import MOST_COMPARED, ORDERS, PAGE, rows_table, selected_rows, side_by_side

_LONGEST_SEARCH = 200  # characters
_LONGEST_NAME = 255
_MOST = 10**9  # rows
_MOST_OPTIONS = 1_000  # files, most of them no longer open
_SINGLE = [{"label": "the only class", "value": 0}]  # a list without its value would lose it
_NO_FILTERS = (_SINGLE, 0, True, True, "")  # values of their parts, where no file is shown
_NO_PAGES = ("", True, True, True)
_INVITATION = (
    "Open a file of e.save or g.save. The file stays on this machine, and nothing in it is executed. A sign is "
    "firm if the 95% interval lies on one side of zero, likely if the 80% interval does, else unclear. A row's firm "
    "share is the part of its attribution, by size, whose sign is firm."
)


def layout(files: list[tuple[str, str]]) -> Any:
    """The parts of the page; ``files`` are keys and names of those already open."""
    options = [{"label": name, "value": key} for key, name in files]
    invitation = html.Span(["Drop a file or ", html.B("choose one"), f" (up to {LARGEST_UPLOAD >> 20} MB)"])
    upload = dcc.Upload(invitation, id="upload", max_size=LARGEST_UPLOAD, className="upload")
    file = drop_down(options, files[0][0] if files else None, "file", placeholder="No file is open")
    search = dcc.Input(
        id="search", type="text", placeholder="Search rows: a name, age=42, …", debounce=0.2, maxLength=_LONGEST_SEARCH
    )
    output = html.Div(drop_down(_SINGLE, 0, "output"), id="outputs")
    earlier, later = (html.Button(word, id=word.lower(), className="quiet") for word in ("Earlier", "Later"))
    turning = html.Div([earlier, html.Span(id="page-number"), later], className="strip", id="turning")
    return html.Div(
        [
            html.P(_INVITATION, className="introduction"),
            html.Div([upload, file], className="opening"),
            html.P(id="file-note", className="note", role="alert"),
            html.Div(id="file-about"),
            html.Div([search, drop_down(ORDERS, "least", "order"), output], className="filters", id="filters"),
            html.Div([html.Div([html.Div(id="rows"), turning]), html.Div(id="comparison")], className="reading"),
            dcc.Store(id="picked", data=[]),
            dcc.Store(id="start", data=0),
        ]
    )


def connect(app: Any, cache: FileCache) -> None:
    """Connect the page's callbacks."""
    filters = "file.value output.value search.value order.value"

    @callback(
        app,
        "file.options file.value file-note.children upload.contents",
        "upload.contents",
        "upload.filename file.options",
        prevent_initial_call=True,
        sorry=lambda error: (no_update, no_update, error, None),
    )
    def receive(contents: Any, name: Any, options: Any) -> Any:
        if not contents:
            return no_update, no_update, no_update, no_update
        contents, name = text(contents, 2 * LARGEST_UPLOAD), text(name, _LONGEST_NAME)
        shown = distinct(options, _option, _MOST_OPTIONS)
        with taking_turns():
            key, name = cache.open_upload(contents, name)
        still_open = [option for option in shown if option["value"] in cache]
        return [*still_open, {"label": name, "value": key}], key, "", None

    @callback(
        app,
        "file-about.children output.options output.value outputs.hidden filters.hidden filters.className",
        "file.value",
        sorry=lambda error: (_note(error), *_NO_FILTERS),
    )
    def show(key: Any) -> Any:
        if key is None:
            return [], *_NO_FILTERS
        file = cache.get(text(key))
        classes = [{"label": f"class {name}", "value": c} for c, name in enumerate(file.outputs)]
        look = "filters" if file.has_intervals else "filters unjudged"
        return about(file), classes or _SINGLE, 0, not classes, False, look

    @callback(app, "start.data", f"{filters} earlier.n_clicks later.n_clicks", "start.data")
    def turn(*given: Any) -> int:
        start = whole(given[-1] or 0, _MOST)
        step = {"earlier": -PAGE, "later": PAGE}.get(str(triggered()[0]))
        return 0 if step is None else max(start + step, 0)

    @callback(
        app,
        "rows.children page-number.children earlier.disabled later.disabled turning.hidden",
        f"{filters} start.data picked.data",
        sorry=lambda error: (_note(error), *_NO_PAGES),
    )
    def list_rows(key: Any, output: Any, words: Any, order: Any, start: Any, picked: Any) -> Any:
        if key is None:
            return [], *_NO_PAGES
        key, words, start, picked = text(key), text(words or "", _LONGEST_SEARCH), whole(start, _MOST), _rows(picked)
        order, file = one_of(order, ORDERS), cache.get(key)
        output = _class(file, output)
        matches = selected_rows(file, output, words, order if file.has_intervals else "file")
        if not len(matches):
            return _note("No row matches; use fewer words.", "help"), *_NO_PAGES
        shown = matches[start : start + PAGE]
        where = f"{start + 1:,} to {start + len(shown):,} of {len(matches):,} rows"
        last = start + PAGE >= len(matches)
        return rows_table(file, output, shown, picked), where, start == 0, last, False

    @callback(app, "picked.data", "file.value pick.n_clicks", "picked.data", prevent_initial_call=True)
    def pick(_: Any, clicks: Any, picked: Any) -> Any:
        button, clicked = triggered()
        if not isinstance(button, dict):
            return []
        if not clicked:  # a new button, not clicked yet
            return no_update
        row, picked = whole(button.get("pick"), _MOST), _rows(picked)
        return [other for other in picked if other != row] if row in picked else [*picked, row][-MOST_COMPARED:]

    @callback(app, "comparison.children", "picked.data output.value", "file.value", sorry=_note)
    def compare(picked: Any, output: Any, key: Any) -> Any:
        if key is None:
            return []
        key, picked = text(key), _rows(picked)
        if not picked:
            return _note(f"Choose up to {MOST_COMPARED} rows to see them side by side.", "help")
        file = cache.get(key)
        rows = [whole(row, len(file.labels) - 1) for row in picked]
        return side_by_side(file, _class(file, output), rows)


def _option(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        abort(400)
    return {"label": text(value.get("label"), _LONGEST_NAME), "value": text(value.get("value"))}


def _rows(picked: Any) -> list[int]:
    return distinct(picked, lambda row: whole(row, _MOST), MOST_COMPARED)


def _class(file: OpenFile, output: Any) -> int:
    return whole(output, max(len(file.outputs), 1) - 1)


def about(file: OpenFile) -> Any:
    """Facts of the file, and what its intervals promise."""
    facts = html.Dl([html.Div([html.Dt(title), html.Dd(text)]) for title, text in file.facts], className="facts")
    return [*(html.P(text, className="promise") for text in file.statements), facts]


def _note(text: str, kind: str = "note") -> Any:
    return html.P(text, className=kind)
