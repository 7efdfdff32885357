"""The page, served on a free port of this machine."""

import re
import threading
from contextlib import contextmanager

from gpec.app import make_app
from gpec.app._server import serve


@contextmanager
def served(files=(), host="127.0.0.1", names=()):
    """The address of the page while it is served."""
    with serve(make_app(files).server, host, 0, names) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
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
