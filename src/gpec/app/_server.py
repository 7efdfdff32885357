"""A small web server for the page: this machine only, unless told otherwise."""

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
        """Requests are no news."""


def serve(application: Any, host: str, port: int) -> WSGIServer:
    """A server of a Flask application that listens; ``serve_forever()`` answers. Port 0 is any that is free.

    On this machine's own address it answers to that name only, so that no foreign page can pass it off as its own.
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
    """What went wrong, for the page; what nobody foresaw goes to the log and is not shown."""
    if isinstance(error, GPECError):
        return str(error)
    logging.getLogger("gpec.app").error("The page met an unexpected error.", exc_info=error)
    return "Something unexpected went wrong; the terminal that runs the page says what."
