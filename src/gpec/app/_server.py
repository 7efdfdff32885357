"""A small web server for the page; by default it serves this machine only.

Connections are limited in number and in time, so that slow or silent ones do not keep others waiting.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import logging
import socket
import threading
from collections.abc import Sequence
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

from gpec.errors import GPECError, InputError
from gpec.runtime.deadline import Deadline, DeadlineReader

MOST_CONNECTIONS = 128
_HEAD_SECONDS = 10.0  # until the head of a request has arrived
_BODY_SECONDS = 60.0  # until its body has arrived, and for each part of the answer


class _Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread of its own.

    If there are too many, the oldest connection without a request is closed, or else the oldest.
    """

    application: Any
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, *args: Any) -> None:
        self._asked: dict[socket.socket, bool] = {}  # whether a connection has sent the head of a request
        self._lock = threading.Lock()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._asked) >= MOST_CONNECTIONS:
                oldest = next((each for each, asked in self._asked.items() if not asked), next(iter(self._asked)))
                del self._asked[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._asked[request] = False
        super().process_request(request, client_address)

    def note_request(self, request: socket.socket) -> None:
        """The head of a request has arrived."""
        with self._lock:
            if request in self._asked:
                self._asked[request] = True

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._asked.pop(request, None)
        super().shutdown_request(request)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Answer(ServerHandler):
    def log_exception(self, exc_info: Any) -> None:
        """Log errors, but not connections that break or are too slow."""
        if not isinstance(exc_info[1], OSError):
            super().log_exception(exc_info)


class _Handler(WSGIRequestHandler):
    server: _Server
    rfile: Any

    def setup(self) -> None:
        super().setup()
        self._reader = DeadlineReader(self.rfile.detach(), self.connection, Deadline(_HEAD_SECONDS))
        self.rfile = io.BufferedReader(self._reader)

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # the connection broke, or was too slow
            self.raw_requestline = self.rfile.readline(2**16)
            if not self.parse_request():
                return
            self.server.note_request(self.connection)
            self._reader.deadline = Deadline(_BODY_SECONDS)
            self.connection.settimeout(_BODY_SECONDS)
            wfile: Any = self.wfile
            answer = _Answer(self.rfile, wfile, self.get_stderr(), self.get_environ())
            answer.request_handler = self  # type: ignore[attr-defined]
            answer.run(self.server.application)

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


def serve(application: Any, host: str, port: int, names: Sequence[str] = ()) -> WSGIServer:
    """Listen for a Flask application; ``serve_forever()`` answers requests. Port 0 is any free port.

    A request must name this machine by an IP address, as ``localhost``, or by one of ``host`` and ``names``, which
    prevents DNS rebinding.
    """
    try:
        server = make_server(host, port, application, _Server6 if ":" in host else _Server, _Handler)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"The page cannot listen on {host}:{port} ({reason}); choose another port or host.") from error
    known = {name.lower() for name in ("localhost", host, *names)}

    @application.before_request  # type: ignore[untyped-decorator]
    def refuse_other_names() -> Any:
        from flask import abort, request

        if not _is_known(request.headers.get("Host", ""), known):
            abort(400, "The page is not known by this name; give it with --host-name.")

    return server


def _is_known(host: str, known: set[str]) -> bool:
    """Whether the ``Host`` of a request is one of the known names, or an address: a name of others is neither."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name in known or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def sentence(error: Exception) -> str:
    """The error message for the page; unexpected errors go to the log and are not shown."""
    if isinstance(error, GPECError):
        return str(error)
    logging.getLogger("gpec.app").error("Unexpected error in the page.", exc_info=error)
    return "An unexpected error occurred; see the terminal that runs the page."
