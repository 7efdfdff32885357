"""The page, served on a free port of this machine."""

import threading
from contextlib import contextmanager

from gpec.app import make_app
from gpec.app._server import serve


@contextmanager
def served(files=()):
    """The address of the page while it is served."""
    with serve(make_app(files).server, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
