"""A classifier or regressor on a server with the Open Inference Protocol, version 2 over HTTP.

The client is the standard library's ``http.client``. The protocol needs only two kinds of JSON requests and a
connection that stays open, so no package has to be installed. Redirects and proxies are not followed.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from gpec.errors import InputError, ModelCallError
from gpec.models._tensors import TensorSpec, choose_output, columns_of, tensors

__all__ = ["RemoteModel"]

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
_DEFAULT_INPUT = TensorSpec("input-0", np.float64, 2)  # for servers that do not state their inputs


class RemoteModel:
    """A function ``X -> (n, classes)`` that calls a model server.

    Rows are sent as one tensor ``[n, d]``, or as one tensor for each column, as stated in the server's metadata, in
    blocks of ``batch_rows``. If the connection breaks or the server is busy, the request is repeated after a longer
    and longer wait.

    Parameters
    ----------
    address : str
        ``http://host:port``, or ``http://host:port/v2/models/NAME``; https too.
    model_name : str, optional
        Name of the model on the server, if the address does not end with it.
    output : str, optional
        The output tensor with the probabilities or values; by default it is found by name and type.
    batch_rows : int
        Largest number of rows in one request.
    timeout : float
        Seconds to wait for an answer.
    waits : tuple of float
        Seconds to wait before each repetition.

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
        waits: tuple[float, ...] = (0.1, 0.4, 1.2),
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{address!r} is not an address such as http://localhost:8080/v2/models/NAME.")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = _model_path(parts.path, model_name, address)
        self.address = f"{parts.scheme}://{parts.netloc}{self._path}"
        self._batch_rows, self._timeout, self._waits = batch_rows, timeout, waits
        self._local = threading.local()  # a connection for each thread
        try:
            metadata = self._request("GET", self._path, None)
            self._inputs = [_spec(tensor) for tensor in metadata.get("inputs") or []] or [_DEFAULT_INPUT]
            known = [_spec(tensor) for tensor in metadata.get("outputs") or []]
        except (OSError, RuntimeError) as error:
            raise ModelCallError(str(error)) from error
        except (AttributeError, KeyError, TypeError) as error:
            raise ModelCallError(f"{self.address} does not describe a model of the Open Inference Protocol.") from error
        self._output = choose_output(known, output, self.address)
        self.feature_names_in_, self.n_features_in_ = columns_of(self._inputs)

    def __call__(self, rows: Any) -> npt.NDArray[Any]:
        given = list(tensors(rows, self._inputs))
        n = len(given[0][1])
        blocks = [slice(start, start + self._batch_rows) for start in range(0, n, self._batch_rows)]
        return np.concatenate([self._infer([(spec, values[block]) for spec, values in given]) for block in blocks])

    def _infer(self, given: list[tuple[TensorSpec, npt.NDArray[Any]]]) -> npt.NDArray[Any]:
        request: dict[str, Any] = {"inputs": [_tensor(spec, values) for spec, values in given]}
        if self._output is not None:
            request["outputs"] = [{"name": self._output}]
        answer = self._request("POST", f"{self._path}/infer", json.dumps(request, allow_nan=False).encode())
        try:
            return _probabilities(answer["outputs"], self._output, len(given[0][1]))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise RuntimeError(f"{self.address} gave an answer that cannot be read ({error})") from error

    def _request(self, method: str, path: str, body: bytes | None) -> Any:
        """The server's answer to one request, which is repeated if it fails."""
        for wait in (*self._waits, None):
            try:
                status, content = self._send(method, path, body)
                if status not in _RETRIED or wait is None:
                    return self._read(status, content)
            except (OSError, http.client.HTTPException) as error:
                self._close()
                if wait is None:
                    reason = str(error) or type(error).__name__
                    tries = len(self._waits) + 1
                    raise ConnectionError(f"{self.address} did not answer {tries} tries ({reason})") from error
            time.sleep(wait or 0.0)
        raise AssertionError  # the last try returns or raises

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        if getattr(self._local, "handle", None) is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            self._local.handle = _Connection(kind(self._host, self._port, timeout=self._timeout))
        connection = self._local.handle.connection
        connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()

    def _close(self) -> None:
        self._local.handle = None

    def _read(self, status: int, content: bytes) -> Any:
        if status != 200:
            words = " ".join(_error_text(content).split())[:_LONGEST_MESSAGE]
            raise RuntimeError(f"{self.address} answered with status {status}" + (f" ({words})" if words else ""))
        try:
            return json.loads(content)
        except ValueError as error:
            raise RuntimeError(f"{self.address} answered with something that is not JSON") from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())


class _Connection:
    """A connection that is closed when it is no longer used."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection

    def __del__(self) -> None:
        self.connection.close()


def _model_path(path: str, model_name: str | None, address: str) -> str:
    path = path.rstrip("/").removesuffix("/infer")
    if re.search(r"/v2/models/[^/]+(/versions/[^/]+)?$", path):
        return path
    if model_name is None:
        raise InputError(
            f"{address} does not name a model; write {address.rstrip('/')}/v2/models/NAME, or give its name "
            "(--model-name)."
        )
    return f"{path.removesuffix('/v2')}/v2/models/{model_name}"


def _spec(tensor: dict[str, Any]) -> TensorSpec:
    shape = [int(size) for size in tensor["shape"]]
    width = shape[1] if len(shape) == 2 and shape[1] > 0 else None
    return TensorSpec(str(tensor["name"]), _DTYPES.get(tensor["datatype"]), len(shape), width)


def _tensor(spec: TensorSpec, values: npt.NDArray[Any]) -> dict[str, Any]:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError("the protocol's JSON cannot carry missing or infinite numbers; impute them")
    name = next(word for word, dtype in _DTYPES.items() if np.dtype(dtype) == values.dtype)
    return {"name": spec.name, "shape": list(values.shape), "datatype": name, "data": values.ravel().tolist()}


def _probabilities(outputs: list[dict[str, Any]], wanted: str | None, n: int) -> npt.NDArray[Any]:
    """The probabilities among the tensors of an answer, ``(n, classes)`` or ``(n,)``."""
    specs = [_spec(tensor) for tensor in outputs]
    name = choose_output(specs, wanted, "The answer")
    tensor = {tensor["name"]: tensor for tensor in outputs}[name]
    values = np.asarray(tensor["data"], dtype=np.float64).reshape([int(size) for size in tensor["shape"]])
    return values.reshape(n, -1) if values.ndim > 1 else values


def _error_text(content: bytes) -> str:
    """The server's own error message."""
    text = content.decode(errors="replace")
    try:
        answer = json.loads(text)
        return str(answer["error"] if "error" in answer else answer.get("detail", text))
    except (ValueError, TypeError, AttributeError):
        return text
