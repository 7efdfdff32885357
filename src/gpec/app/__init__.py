"""A page for the browser: a playground, and a viewer of saved explanations."""

from __future__ import annotations

import contextlib
import os
import webbrowser
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gpec._colors import LIGHT, css
from gpec._validation import check_installed
from gpec.app._files import FileCache
from gpec.app._server import serve

__all__ = ["make_app", "run"]

_PAGES = {"playground": "Playground", "your-data": "Your data"}
_TURN = (
    "function(page) { window.setTimeout(() => window.dispatchEvent(new Event('resize')), 50);"
    " return [page !== 'playground', page !== 'your-data']; }"
)


def make_app(files: Sequence[str | os.PathLike[str]] = ()) -> Any:
    """The page as a ``dash.Dash``; ``files`` are saved explanations or fits to show.

    Everything it needs comes from this machine. It never unpickles: only gpec archives are accepted.
    """
    check_installed("dash", "The page", '"gpec[app]"')
    from dash import Dash, Input, Output, dcc, html

    from gpec.app import playground, your_data
    from gpec.app._requests import protect

    cache = FileCache()
    names = [cache.open_path(path) for path in files]
    app: Any = Dash(
        "gpec",
        title="gpec",
        update_title="",
        assets_folder=os.path.join(os.path.dirname(__file__), "assets"),
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
        serve_locally=True,
    )
    app.index_string = app.index_string.replace("{%css%}", f"<style>:root {{ {css(LIGHT)} }}</style>{{%css%}}")
    motto = html.Span("an honest error bar on every feature attribution", className="motto")
    start = "your-data" if names else "playground"
    app.layout = html.Div(
        [
            html.Header([html.H1("gpec"), motto]),
            dcc.RadioItems(_PAGES, start, id="page", inline=True, className="switch"),
            html.Main(playground.layout(), id="page-playground"),
            html.Main(your_data.layout(names), id="page-your-data"),
        ],
        className="page",
    )
    hidden = [Output(f"page-{page}", "hidden") for page in _PAGES]
    app.clientside_callback(_TURN, *hidden, Input("page", "value"))
    playground.connect(app)
    your_data.connect(app, cache)
    protect(app)
    return app


def run(
    files: Sequence[str | os.PathLike[str]] = (),
    *,
    host: str = "127.0.0.1",
    host_names: Sequence[str] = (),
    port: int = 8050,
    open_browser: bool = False,
) -> None:
    """Show the page until Ctrl-C.

    Parameters
    ----------
    files : paths
        Saved explanations (``e.save(path)``) or fits (``g.save(path)``) to look at.
    host : str
        Address to listen on; by default only this machine can reach the page. ``"0.0.0.0"`` and ``"::"`` are all
        addresses of this machine.
    host_names : list of str
        Names of this machine under which browsers may ask for the page, besides its addresses, ``localhost`` and
        ``host``.
    port : int
        0 takes any free port.
    open_browser : bool
        Open the page in the browser of this machine.
    """
    app = make_app(files)
    with serve(app.server, host, port, host_names) as server, contextlib.suppress(KeyboardInterrupt):
        address = f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/"
        Console().print(f"The page is at {address} (Ctrl-C ends it).", soft_wrap=True)
        if open_browser:
            webbrowser.open(address)  # the server is listening already
        server.serve_forever()
