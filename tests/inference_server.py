"""A small server of the Open Inference Protocol, that can be told to fail."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

FLOATS = [{"name": "rows", "datatype": "FP64", "shape": [-1, 3]}]
PROBABILITIES = [
    {"name": "label", "datatype": "INT64", "shape": [-1]},
    {"name": "proba", "datatype": "FP64", "shape": [-1, 2]},
]


def logistic(tensors):
    """Probabilities of two classes from one tensor with three columns."""
    (X,) = tensors.values()
    p = 1 / (1 + np.exp(-(X[:, 0] - X[:, 1] + 0.5 * X[:, 2] ** 2 - 0.5)))
    return {"label": (p > 0.5).astype(int), "proba": np.column_stack([1 - p, p])}


class Server:
    """What the server knows and has seen; ``fail`` may answer a request instead of the model, by its number.

    Its answer is ``"hang up"``, status, content and any headers, or a function that writes to the connection itself.
    """

    def __init__(self, predict=logistic, inputs=FLOATS, outputs=PROBABILITIES, fail=None):
        self.predict, self.inputs, self.outputs, self.fail = predict, inputs, outputs, fail
        self.requests, self.connections, self.headers = [], 0, None
        self.address = ""

    def infer(self, request):
        self.requests.append(request)
        dtypes = {"FP64": float, "FP32": np.float32, "INT64": np.int64, "BYTES": object, "BOOL": bool}
        tensors = {
            tensor["name"]: np.array(tensor["data"], dtype=dtypes[tensor["datatype"]]).reshape(tensor["shape"])
            for tensor in request["inputs"]
        }
        wanted = [tensor["name"] for tensor in request.get("outputs", [])]
        answer = []
        for name, values in self.predict(tensors).items():
            if not wanted or name in wanted:
                kind = "FP64" if values.dtype.kind == "f" else "INT64"
                data = values.ravel().tolist()
                answer.append({"name": name, "datatype": kind, "shape": list(values.shape), "data": data})
        return {"model_name": "m", "outputs": answer}


@contextmanager
def serving(state: Server, host="127.0.0.1"):
    """The server on a free port of this machine, at ``state.address``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open
        disable_nagle_algorithm = True  # else an answer comes 40 ms after its head

        def setup(self):
            super().setup()
            state.connections += 1

        def log_message(self, *_):
            pass

        def reply(self, status, content, headers=()):
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            state.headers = self.headers
            if self.path != "/v2/models/m":
                self.reply(404, {"error": "no such model"})
                return
            described = {"name": "m", "platform": "test", "inputs": state.inputs, "outputs": state.outputs}
            self.reply(200, state.inputs if isinstance(state.inputs, bytes) else described)

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            failure = state.fail(len(state.requests)) if state.fail else None
            if failure == "hang up":
                state.requests.append(None)
                self.close_connection = True
                self.connection.close()
            elif callable(failure):
                state.requests.append(None)
                self.close_connection = True
                failure(self.connection)
            elif failure is not None:
                state.requests.append(None)
                self.reply(*failure)
            else:
                self.reply(200, state.infer(request))

    class Listener(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Listener((host, 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a connection that we closed ourselves
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    state.address = f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
