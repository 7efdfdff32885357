"""A classifier or regressor on a server with the Open Inference Protocol, version 2 over HTTP.

The client is the standard library's ``http.client``. The protocol needs only two kinds of JSON requests and a
connection that stays open, so no package has to be installed. Redirects and proxies are not followed. The server is
not trusted: the size, the time, and the shape of its answers are limited. One that is busy, late or away is asked again
for a while.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import re
import secrets
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import count
from math import prod
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt

from gpec.errors import InputError, ModelCallError
from gpec.models._tensors import TensorSpec, choose_output, columns_of, tensors
from gpec.runtime.deadline import Deadline, DeadlineReader

_DTYPES: dict[str, npt.DTypeLike] = {
    "BOOL": np.bool_,
    "BYTES": object,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    **{f"{sign}INT{bits}": np.dtype(f"{sign.lower()}int{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
_RETRIED = (429, 502, 503, 504)  # worth another try
_LONGEST_MESSAGE = 300  # characters of a server's own message that are shown
_LARGEST = 2**20  # bytes of an answer, besides those of its values
_BYTES_OF_VALUE = 64  # of a number in JSON, with blanks
_MOST_VALUES = 1_000  # of a row, while it is not known how many there are
_PIECE = 2**16
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 10.0  # seconds before a request is repeated, unless the server says more
_FIRST_TRIES = 4  # of the first request: the address may be wrong
_JITTER = secrets.SystemRandom()  # so that many clients do not come back together
_DEFAULT_INPUT = TensorSpec("input-0", np.float64, 2)  # for servers that do not state their inputs


class RemoteModel:
    """A function ``X -> (n, classes)`` that calls a model server.

    Rows are sent as one tensor ``[n, d]``, or as one tensor for each column, as stated in the server's metadata. If the
    connection breaks, or the server is busy (status 429, 502, 503, 504) or late, the request is repeated after a longer
    and longer wait, at least as long as its Retry-After says. Any other answer is an error at once.

    Parameters
    ----------
    address : str
        ``http://host:port``, or ``http://host:port/v2/models/NAME``; https too. ``user:password@`` before the host is
        sent as basic authentication, and never printed.
    model_name : str, optional
        Name of the model on the server, if the address does not end with it.
    output : str, optional
        The output tensor with the probabilities or values; by default it is found by name and type.
    batch_rows : int
        Largest number of rows in one request, except in :meth:`ask`.
    timeout : float
        Seconds that one try of a request may take.
    patience : float
        Seconds that a request may take with all its repetitions.

    Attributes
    ----------
    feature_names_in_, n_features_in_
        The columns, if the server states them.
    """

    def __init__(
        self,
        address: str,
        *,
        model_name: str | None = None,
        output: str | None = None,
        batch_rows: int = 1_000,
        timeout: float = 30.0,
        patience: float = 120.0,
    ) -> None:
        self._secure, self._host, self._port, path, self._headers = _parse(address)
        scheme, default = ("https", 443) if self._secure else ("http", 80)
        host = f"[{self._host}]" if ":" in self._host else self._host
        origin = f"{scheme}://{host}" + (f":{self._port}" if self._port != default else "")
        self._path = _model_path(path, model_name, f"{origin}{path}")
        self.address = f"{origin}{self._path}"
        self.batch_rows, self._timeout, self._patience = batch_rows, timeout, patience
        self._idle: list[_Connection] = []  # open, and not used by any thread
        try:
            metadata = self._request("GET", self._path, None, _LARGEST, _FIRST_TRIES)
            self._inputs = [_spec(tensor) for tensor in metadata.get("inputs") or []] or [_DEFAULT_INPUT]
            outputs = metadata.get("outputs") or []
            known = [_spec(tensor) for tensor in outputs]
            self._output = choose_output(known, output, self.address)
            # values of a row, as stated by the server or as in its first answer
            self._width = next((_width(tensor) for tensor in outputs if tensor["name"] == self._output), None)
        except InputError:
            raise
        except (OSError, RuntimeError) as error:
            raise ModelCallError(str(error)) from error
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ModelCallError(
                f"{self.address} does not describe a model of the Open Inference Protocol; check the address."
            ) from error
        _require_known(self._inputs, self.address)
        self.feature_names_in_, self.n_features_in_ = columns_of(self._inputs)

    def __call__(self, rows: Any) -> npt.NDArray[Any]:
        starts = range(0, len(rows), self.batch_rows)
        return np.concatenate([self.ask(rows[start : start + self.batch_rows]) for start in starts])

    def ask(self, rows: Any) -> npt.NDArray[Any]:
        """The answers to all rows by one request."""
        given = list(tensors(rows, self._inputs))
        request: dict[str, Any] = {"inputs": [_tensor(spec, values) for spec, values in given]}
        if self._output is not None:
            request["outputs"] = [{"name": self._output}]
        n = len(given[0][1])
        limit = _LARGEST + _BYTES_OF_VALUE * n * (self._width or _MOST_VALUES)
        answer = self._request("POST", f"{self._path}/infer", json.dumps(request, allow_nan=False).encode(), limit)
        try:
            values = _probabilities(answer["outputs"], self._output)
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RuntimeError(f"{self.address} gave an answer that cannot be read ({_shown(str(error))})") from error
        shape, width = values.shape, prod(values.shape[1:])
        if shape[:1] != (n,) or (self._width is not None and width != self._width):
            expected = f"({n}, {self._width or '...'})"
            raise RuntimeError(
                f"{self.address} gave an answer of shape {shape} to {n} rows, where {expected} was expected"
            )
        self._width = width
        return values.reshape(n, -1) if values.ndim > 1 else values

    def _request(self, method: str, path: str, body: bytes | None, limit: int, most: int | None = None) -> Any:
        """The server's answer of at most ``limit`` bytes to one request, tried ``most`` times, or for some time."""
        end, wait, seconds = Deadline(self._patience), _FIRST_WAIT, self._timeout
        for tries in count(1):
            asked, cause = 0.0, None
            try:
                seconds = min(self._timeout, end.left())
                status, content, header = self._send(method, path, body, limit, Deadline(seconds))
                if status not in _RETRIED:
                    return self._read(status, content)
                asked = _seconds_to_wait(header)
                reason = f"status {status}" + (f", try again in {asked:,.0f} s" if asked else "")
                reason += f": {words}" if (words := _shown(_error_text(content))) else ""
            except (OSError, http.client.HTTPException) as error:
                cause = error
                late = f"timed out after {seconds:.3g} s; fewer rows in a call, batch_size, take less time"
                reason = late if isinstance(error, TimeoutError) else _shown(str(error) or repr(error))
            pause = max(asked, wait * _JITTER.uniform(0.5, 1.0))
            if tries == most or not end.allows(pause):
                raise ConnectionError(
                    f"{self.address} did not answer {tries} tries within {self._patience:g} s ({reason})"
                ) from cause
            _sleep_aside(pause)
            wait = min(2 * wait, _LONGEST_WAIT)
        raise AssertionError  # the last try returns or raises

    def _send(
        self, method: str, path: str, body: bytes | None, limit: int, deadline: Deadline
    ) -> tuple[int, bytes | bytearray, str | None]:
        """Status and content of an answer, and when to come again; the connection is kept if all went well."""
        try:
            used = self._idle.pop()
        except IndexError:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            used = _Connection(kind(self._host, self._port))
        connection = used.connection
        connection.timeout = deadline.left()
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(deadline.left())
        connection.response_class = partial(_Response, deadline=deadline)  # type: ignore[assignment]
        connection.request(method, path, body, self._headers)
        response = connection.getresponse()
        content = bytearray()
        while piece := response.read(_PIECE):
            content += piece
            if len(content) > limit:
                raise RuntimeError(
                    f"{self.address} sent more than the {limit:,} bytes that an answer can have; check the address"
                )
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        self._idle.append(used)
        return response.status, content, response.getheader("Retry-After")

    def _read(self, status: int, content: bytes | bytearray) -> Any:
        if status != 200:
            words = _shown(_error_text(content))
            raise RuntimeError(f"{self.address} answered with status {status}" + (f" ({words})" if words else ""))
        try:
            return json.loads(content)
        except (ValueError, RecursionError) as error:
            raise RuntimeError(f"{self.address} answered with something that is not JSON") from error

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_idle": []}


class _Connection:
    """A connection that is closed when it is no longer used, also where a cycle of references held it."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        weakref.finalize(self, connection.close)  # __del__ may come after that of the socket


class _Response(http.client.HTTPResponse):
    """An answer that is read until a deadline."""

    def __init__(self, sock: Any, *args: Any, deadline: Deadline, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(DeadlineReader(self.fp.detach(), sock, deadline))


_turn = threading.local()  # the semaphore that this thread holds while it calls


@contextmanager
def calling(most: threading.BoundedSemaphore) -> Iterator[None]:
    """A context of which so many run at a time, except while a request waits before it is repeated."""
    with most:
        _turn.held = most
        try:
            yield
        finally:
            _turn.held = None


def _sleep_aside(seconds: float) -> None:
    """Sleep, and let another thread call meanwhile."""
    held = getattr(_turn, "held", None)
    if held is None:
        time.sleep(seconds)
        return
    held.release()
    try:
        time.sleep(seconds)
    finally:
        held.acquire()


def _seconds_to_wait(header: str | None) -> float:
    """What a Retry-After header says, as seconds or a date; 0 if it says nothing that can be read."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0


def _parse(address: str) -> tuple[bool, str, int, str, dict[str, str]]:
    """Whether an address is encrypted, its host, port and path, and the headers of requests to it."""
    try:
        parts = urlsplit(address)
        secure = {"http": False, "https": True}[parts.scheme]
        port = parts.port if parts.port is not None else 443 if secure else 80
        host = parts.hostname or ""
        if not host.isascii():
            host = host.encode("idna").decode()
        if not (port > 0 and re.fullmatch(r"[\w.:%-]+", host) and max(map(len, host.split("."))) < 64):
            raise ValueError(host)
    except (KeyError, ValueError):
        shown = re.sub(r"(?s)(?<=//).*@", "", address).partition("?")[0]
        raise InputError(
            f"{shown!r} is not an address such as http://localhost:8080/v2/models/NAME, with a port from 1 to 65535 "
            "if it has one; write an IPv6 address in brackets, as in http://[::1]:8080/v2/models/NAME."
        ) from None  # the cause has the whole address
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if parts.username is not None:
        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"
    return secure, host, port, quote(parts.path, safe="/%:@!$&'()*+,;=~"), headers


def _model_path(path: str, model_name: str | None, address: str) -> str:
    path = path.rstrip("/").removesuffix("/infer")
    if re.search(r"/v2/models/[^/]+(/versions/[^/]+)?$", path):
        return path
    if model_name is None:
        raise InputError(
            f"{address} does not name a model; write {address.rstrip('/')}/v2/models/NAME, or give its name "
            "(--model-name)."
        )
    return f"{path.removesuffix('/v2')}/v2/models/{quote(model_name, safe='')}"


def _spec(tensor: dict[str, Any]) -> TensorSpec:
    shape = [int(size) for size in tensor["shape"]]
    width = shape[1] if len(shape) == 2 and shape[1] > 0 else None
    return TensorSpec(str(tensor["name"]), _DTYPES.get(tensor["datatype"]), len(shape), width)


def _width(tensor: dict[str, Any]) -> int | None:
    """Number of values for each row, if the shape of an output states it, as ``[-1, 2]`` does."""
    rows, *sizes = (int(size) for size in tensor["shape"])
    return prod(sizes) if rows < 0 and all(size > 0 for size in sizes) else None


def _require_known(inputs: list[TensorSpec], address: str) -> None:
    names = [spec.name for spec in inputs]
    if len(set(names)) < len(names):
        raise ModelCallError(f"{address} states two inputs of the same name; correct its metadata.")
    for spec in inputs:
        if spec.dtype is None:
            raise ModelCallError(
                f"{address} states an input {spec.name!r} of a datatype that gpec cannot send; use one of "
                f"{list(_DTYPES)}."
            )


def _tensor(spec: TensorSpec, values: npt.NDArray[Any]) -> dict[str, Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("the protocol's JSON cannot carry missing or infinite numbers; impute them")
    name = next(word for word, dtype in _DTYPES.items() if np.dtype(dtype) == values.dtype)
    return {"name": spec.name, "shape": list(values.shape), "datatype": name, "data": values.ravel().tolist()}


def _probabilities(outputs: list[dict[str, Any]], wanted: str | None) -> npt.NDArray[Any]:
    """The probabilities among the tensors of an answer, in the shape that it states."""
    specs = [_spec(tensor) for tensor in outputs]
    name = choose_output(specs, wanted, "The answer")
    tensor = {tensor["name"]: tensor for tensor in outputs}[name]
    shape = [int(size) for size in tensor["shape"]]
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shape}")
    return np.asarray(tensor["data"], dtype=np.float64).reshape(shape)


def _shown(text: str) -> str:
    """A server's words in one line that can be printed, shortened."""
    text = "".join(letter if letter.isprintable() else " " for letter in text[: 10 * _LONGEST_MESSAGE])
    return " ".join(text.split())[:_LONGEST_MESSAGE]


def _error_text(content: bytes | bytearray) -> str:
    """The server's own error message."""
    text = content.decode(errors="replace")
    try:
        answer = json.loads(text)
        return str(answer["error"] if "error" in answer else answer.get("detail", text))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return text
