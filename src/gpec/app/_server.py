"""A small web server for the page; by default it serves this machine only."""

from __future__ import annotations

import logging
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from gpec.errors import GPECError, InputError

__all__ = ["LOOPBACK", "sentence", "serve"]

LOOPBACK = ("127.0.0.1", "localhost")


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 32


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


def serve(application: Any, host: str, port: int) -> WSGIServer:
    """Listen for a Flask application; ``serve_forever()`` answers requests. Port 0 is any free port.

    On the loopback address it accepts that host name only, which prevents DNS rebinding.
    """
    try:
        server = make_server(host, port, application, _Server, _Quiet)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"The page cannot listen on {host}:{port} ({reason}); choose another port or host.") from error
    if host in LOOPBACK:
        application.config["TRUSTED_HOSTS"] = list(LOOPBACK)
    return server


def sentence(error: Exception) -> str:
    """The error message for the page; unexpected errors go to the log and are not shown."""
    if isinstance(error, GPECError):
        return str(error)
    logging.getLogger("gpec.app").error("Unexpected error in the page.", exc_info=error)
    return "An unexpected error occurred; see the terminal that runs the page."
