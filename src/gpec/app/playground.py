"""The playground: move a slider, click the map, and see the error bars change."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import Input, Output, dcc, html, no_update
from flask import abort

from gpec._numbers import number, share_text
from gpec.app._controls import SLIDERS, choices, controls_from, dials
from gpec.app._datasets import DATASETS, FORMULA, MODELS, load_dataset
from gpec.app._drawing import colour_top, draw_surface
from gpec.app._requests import callback, distinct, number_in, one_of, pair, taking_turns, triggered, whole
from gpec.app._surface import ALIKE, MOST_ADDED, PAPER, SIMILAR, Reading, Surface, reading_at, surface_of

BALL, ADD = "ball", "add"
_INTRODUCTION = (
    "A model divides the map into two classes along the white line. An explainer gives each feature an attribution: "
    "how far it moves a row to one side. The colours show how wide the 95% interval of that attribution is: dark where "
    "the explanation is certain, bright where it is not."
)
_SIGNS = {
    "sign line": "decision boundary",
    "sign point": "boundary points found",
    "sign row": "explained rows",
    "sign added": "rows you added",
    "sign cross": "your point",
    "sign ball": "its similarity ball",
    "sign alike": "its similar rows",
}
# The value of a slider, written beside its name.
_SHOWN = (
    "function(drag, value) { const position = drag ?? value, n = %s;"
    " return n >= 100 ? n.toFixed(0) : String(Number(n.toPrecision(2))); }"
)


def layout() -> Any:
    """The parts of the playground."""
    introduction = html.P(_INTRODUCTION, className="introduction")
    stage = html.Div([_map(), _under()], className="stage")
    beside = html.Div(id="numbers", className="numbers")
    settings = html.Div([html.H2("Settings"), *choices(), *dials()], className="settings")
    stores = [dcc.Store(id="added", data=[]), dcc.Store(id="clicked"), dcc.Store(id="last")]
    return html.Div([introduction, html.Div([stage, beside, settings], className="playground"), *stores])


def _map() -> Any:
    modes = {BALL: "look at the point", ADD: "add an explained row"}
    question = html.Span("A click on the map means:", className="label")
    click = [question, dcc.RadioItems(modes, BALL, id="mode", inline=True)]
    graph = dcc.Graph(id="surface", responsive=True, config={"displayModeBar": False, "scrollZoom": False})
    return html.Div([html.Div(click, className="strip"), html.Div(graph, className="surface")], className="map")


def _under() -> Any:
    """Below the map: the legend, and buttons to undo."""
    signs = [html.Span([html.I(className=sign), text]) for sign, text in _SIGNS.items()]
    tools = [
        html.Button("Undo the last row", id="undo", className="quiet"),
        html.Button("Clear added rows", id="clear", className="quiet"),
        dcc.Checklist({"hold": "hold the colours while I move sliders"}, [], id="hold", inline=True),
    ]
    note = html.P(id="note", className="note", role="alert")
    return html.Div([note, html.Div(signs, className="key"), html.Div(tools, className="strip")], className="under")


def connect(app: Any) -> None:
    """Connect the playground's callbacks."""
    for dial in SLIDERS:
        app.clientside_callback(
            _SHOWN % ("Math.pow(10, position)" if dial.power else "position"),
            Output(f"{dial.name}-shown", "children"),
            Input(dial.name, "drag_value"),
            Input(dial.name, "value"),
        )

    @callback(app, "model.options model.value feature.options", "dataset.value", "model.value")
    def furnish(name: Any, model: Any) -> Any:
        dataset, model = load_dataset(one_of(name, DATASETS)), one_of(model, MODELS)
        features = [{"label": title, "value": j} for j, title in enumerate(dataset.names)]
        lacking = {FORMULA} if dataset.score is None else set()
        models = [{"label": title, "value": word, "disabled": word in lacking} for word, title in MODELS.items()]
        return models, "trees" if model in lacking else model, features

    @callback(
        app,
        "added.data clicked.data surface.clickData",
        "dataset.value surface.clickData undo.n_clicks clear.n_clicks",
        "mode.value added.data",
        prevent_initial_call=True,
    )
    def remember(_: Any, click: Any, __: Any, ___: Any, mode: Any, added: Any) -> Any:
        used, _ = triggered()
        if used == "dataset":
            return [], None, None
        added, mode = distinct(added, pair, MOST_ADDED + 1), one_of(mode, (BALL, ADD))
        if used == "undo":
            return added[:-1], no_update, no_update
        if used == "clear":
            return [], no_update, no_update
        if not click:
            return no_update, no_update, no_update
        point = _clicked(click)
        if mode == ADD and point not in added:
            return [*added, point][: MOST_ADDED + 1], point, None  # one more, about which there is a sentence
        return no_update, point, None

    sliders = " ".join(f"{dial.name}.value" for dial in SLIDERS)

    @callback(
        app,
        "surface.figure numbers.children note.children last.data",
        f"dataset.value model.value meaning.value feature.value {sliders} added.data clicked.data",
        "hold.value last.data",
        sorry=lambda text: (no_update, no_update, text, no_update),
    )
    def draw(dataset: Any, model: Any, meaning: Any, feature: Any, *others: Any) -> Any:
        *positions, added, clicked, hold, last = others
        chosen = {"dataset": one_of(dataset, DATASETS), "model": one_of(model, MODELS)}
        chosen["meaning"] = one_of(meaning, (PAPER, SIMILAR))
        by_slider = {dial.name: number_in(where) for dial, where in zip(SLIDERS, positions, strict=True)}
        feature, added = whole(feature, 1), distinct(added, pair, MOST_ADDED + 1)
        point = pair(clicked) if clicked else None
        if last is not None and not isinstance(last, dict):
            abort(400)
        last = None if last is None else {name: number_in(last.get(name)) for name in ("top", "median")}
        with taking_turns():
            controls = controls_from(chosen, by_slider, added)
            surface = surface_of(controls)
            reading = None if point is None else reading_at(controls, point, feature)
            top = last["top"] if hold and last is not None else colour_top(surface, feature)
            median = surface.median_width(feature)
            shown = numbers(surface, reading, feature, median, last)
            return draw_surface(surface, feature, top, reading), shown, "", {"top": top, "median": median}


def _clicked(click: Any) -> tuple[float, float]:
    """The point of plotly's description of a click."""
    try:
        return pair([click["points"][0][axis] for axis in "xy"])
    except (LookupError, TypeError):
        abort(400)


def numbers(surface: Surface, reading: Reading | None, feature: int, median: float, last: Any) -> list[Any]:
    """The numbers beside the plot."""
    name = surface.dataset.names[feature]
    was = "" if last is None or number(last["median"]) == number(median) else f"was {number(last['median'])}"
    count = len(surface.explained)
    of_map = [
        ("Median width of the interval", number(median), was, "median-width"),
        ("Boundary points found", f"{len(surface.boundary):,}", "", "n-points"),
        ("Explained rows", f"{count}", f"{surface.n_added} of them yours" if surface.n_added else "", "n-explained"),
    ]
    parts = [html.H2("The map"), _list(of_map), html.P(surface.statement, className="help", id="statement")]
    if reading is None:
        return [*parts, html.H2("Your point"), html.P("Click the map to look at a point.", className="help")]
    e = reading.e
    ends = [e.values, e.lower, e.upper]
    value, low, high = (number(end, ends, sign=True) for end in ends)
    of_point = [
        ("Where", f"{number(reading.point[0])}, {number(reading.point[1])}", "", "point-where"),
        (f"Model: chance of {surface.dataset.positive}", share_text(reading.probability), "", "point-probability"),
        (f"Attribution of {name}", value, "", "point-value"),
        ("95% interval", f"{low} to {high}", "", "point-interval"),
        ("Deviation by the model", f"± {number(np.sqrt(e.model_variance))}", "", "point-boundary"),
        ("Deviation by the noise", f"± {number(np.sqrt(e.noise_variance))}", "", "point-noise"),
        ("Distance to the boundary", number(reading.distance), "", "point-distance"),
    ]
    ball = (
        "Deviations are standard deviations of the attribution; the distance is in standard deviations of the "
        f"features. The dotted line encloses rows with a boundary kernel of at least {ALIKE:g}."
    )
    return [*parts, html.H2("Your point"), _list(of_point), html.P(ball, className="help")]


def _list(entries: list[tuple[str, str, str, str]]) -> Any:
    values = [(title, html.Dd([html.Span(value, id=name), html.Small(more)])) for title, value, more, name in entries]
    return html.Dl([html.Div([html.Dt(title), value]) for title, value in values])
