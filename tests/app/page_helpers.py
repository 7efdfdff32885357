"""The page, served on a free port of this machine."""

import queue
import re
import threading
from contextlib import contextmanager
from socketserver import BaseServer
from unittest import mock

from gpec.app import run


@contextmanager
def served(files=(), host="127.0.0.1", names=()):
    """The address of the page while it is served."""
    servers, serve_forever = queue.Queue(), BaseServer.serve_forever

    def noted(server):
        servers.put(server)
        serve_forever(server, poll_interval=0.05)

    thread = threading.Thread(target=run, args=(files,), kwargs={"host": host, "host_names": names, "port": 0})
    with mock.patch.object(BaseServer, "serve_forever", noted):
        thread.start()
        server = servers.get(timeout=60)
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()


class Callbacks:
    """Calls the callbacks of a page as a browser does; ``call`` returns status and text."""

    def __init__(self, app):
        self.client = app.server.test_client()
        self.known = self.client.get("/_dash-dependencies").get_json()

    def key(self, name):
        """The key of a file that was named on the command line."""
        layout = self.client.get("/_dash-layout").get_data(as_text=True)
        return re.search(rf'"label": ?"{re.escape(name)}", ?"value": ?"(\w+)"', layout)[1]

    def request(self, output, values, used=None):
        """The request to the callback whose outputs start with ``output``; ``values`` by id, in place of None."""
        (known,) = [each for each in self.known if each["output"].startswith(output)]
        names = known["output"].strip(".").split("...")
        outputs = [dict(zip(("id", "property"), name.split("."), strict=True)) for name in names]
        parts = {
            kind: [
                []
                if part["id"].startswith("{")
                else {"id": part["id"], "property": part["property"], "value": values.get(part["id"])}
                for part in known[kind]
            ]
            for kind in ("inputs", "state")
        }
        first = known["inputs"][0]
        used = used or f"{first['id']}.{first['property']}"
        outputs = outputs if known["output"].startswith("..") else outputs[0]
        return {"output": known["output"], "outputs": outputs, **parts, "changedPropIds": [used]}

    def post(self, request):
        answer = self.client.post("/_dash-update-component", json=request)
        return answer.status_code, answer.get_data(as_text=True)

    def call(self, output, values, used=None):
        return self.post(self.request(output, values, used))
