"""Bounds of what a browser sends: every value is checked before a callback uses it, else the answer is status 400."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from dash import ALL, Input, Output, State, ctx
from dash.exceptions import PreventUpdate
from flask import abort, g, request
from werkzeug.exceptions import HTTPException

from gpec.app._files import LARGEST_UPLOAD
from gpec.app._server import sentence
from gpec.errors import InputError

_T = TypeVar("_T")
_SMALL = 2**20  # bytes of a request that may be read beside others
_MOST_PARTS = 20_000  # of the JSON of a request: a value takes a hundred times the memory of its text
_WAIT = 60.0  # seconds
_LARGEST = 1e12  # of a number
_LONGEST_KEY = 100
_turn = threading.Lock()


def protect(app: Any) -> None:
    """Limit the requests of a page and say with each answer what a browser may run; after all callbacks."""
    server, large = app.server, threading.Lock()
    server.config["MAX_CONTENT_LENGTH"] = LARGEST_UPLOAD * 4 // 3 + _SMALL  # as text a file grows by a third
    policy = (
        f"default-src 'self'; script-src 'self' {' '.join(app.csp_hashes())}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"  # no other page may show this one in a frame
    )

    @server.before_request  # type: ignore[untyped-decorator]
    def read() -> None:
        if request.method != "POST":
            return
        if (request.content_length or 0) > _SMALL:  # one after the other, since each takes several times its size
            if not large.acquire(timeout=_WAIT):
                abort(503)
            g.large = True
        try:
            content = request.get_data()
        except OSError:  # broken, or too slow
            abort(408)
        if sum(content.count(mark) for mark in (b"[", b"{", b",")) > _MOST_PARTS:
            abort(400)
        try:
            request.get_json()  # kept for dash
        except RecursionError:
            abort(400)

    @server.teardown_request  # type: ignore[untyped-decorator]
    def release(_: Any) -> None:
        if g.pop("large", False):
            large.release()

    @server.errorhandler(Exception)  # type: ignore[untyped-decorator]
    def refuse(error: Exception) -> Any:
        """Callbacks handle their own errors; what remains is a request that dash cannot read."""
        return error if isinstance(error, HTTPException) else ("This request cannot be read.", 400)

    @server.after_request  # type: ignore[untyped-decorator]
    def add_headers(response: Any) -> Any:
        response.headers["Content-Security-Policy"] = policy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response


@contextmanager
def taking_turns() -> Iterator[None]:
    """Expensive work of the page is done one after the other: equal requests then share one computation."""
    if not _turn.acquire(timeout=_WAIT):
        raise InputError("The page is busy; try again later.")
    try:
        yield
    finally:
        _turn.release()


def callback(
    app: Any, outputs: str, inputs: str, state: str = "", *, sorry: Callable[[str], Any] | None = None, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Connect a callback; its places are named by part and property, such as ``"file.options file.value"``.

    The part "pick" stands for every button that picks a row. ``sorry`` makes the answer from the sentence of an error;
    without it the answer is status 500.
    """
    places = [
        kind({"pick": ALL} if part == "pick" else part, of_part)
        for kind, names in ((Output, outputs), (Input, inputs), (State, state))
        for part, _, of_part in (name.partition(".") for name in names.split())
    ]

    def connect(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def answer(*given: Any) -> Any:
            try:
                return function(*given)
            except (HTTPException, PreventUpdate):
                raise
            except Exception as error:
                words = sentence(error)
                return abort(500) if sorry is None else sorry(words)

        app.callback(*places, **options)(answer)
        return answer

    return connect


def whole(value: Any, most: int) -> int:
    """An integer from 0 to ``most``."""
    return value if type(value) is int and 0 <= value <= most else abort(400)


def number_in(value: Any) -> float:
    """A finite number."""
    return float(value) if type(value) in (int, float) and abs(value) <= _LARGEST else abort(400)


def text(value: Any, longest: int = _LONGEST_KEY) -> str:
    """A text."""
    return value if isinstance(value, str) and len(value) <= longest else abort(400)


def one_of(value: Any, allowed: Collection[str]) -> str:
    """One of the words."""
    return value if isinstance(value, str) and value in allowed else abort(400)


def distinct(values: Any, check: Callable[[Any], _T], most: int) -> list[_T]:
    """A list of at most ``most`` different values, each of them checked; None is an empty one."""
    if not isinstance(values, list | None) or len(values or []) > most:
        abort(400)
    checked = [check(value) for value in values or []]
    if any(value in checked[:i] for i, value in enumerate(checked)):
        abort(400)
    return checked


def pair(value: Any) -> tuple[float, float]:
    """A point of the map."""
    if not isinstance(value, list) or len(value) != 2:
        abort(400)
    return number_in(value[0]), number_in(value[1])


def triggered() -> Any:
    """The name of the part of the page that was used, and its value."""
    try:
        return ctx.triggered_id, ctx.triggered[0]["value"] if ctx.triggered else None
    except Exception:  # whatever dash raises on a name that is none
        abort(400)
