"""Bounds of the page: what each callback takes, and the page under many connections."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from page_helpers import Callbacks, served

from altered_archives import peak, set_peak_back
from explanation_helpers import explanation
from gpec.app import make_app

SLIDERS = {"lam": 0.0, "rho": 1.0, "n_boundary": 200, "regularisation": 1.0, "noise": 0.02, "step": 0.5}
PLAY = {
    "dataset": "line", "model": "formula", "meaning": "paper", "feature": 0, "added": [], "clicked": None, "hold": [],
    "last": None, "mode": "ball", **SLIDERS,
}  # fmt: skip
LIST = {"output": 0, "search": "", "order": "least", "start": 0, "picked": []}
CLICK = {"points": [{"x": 1.0, "y": 2.0}]}
EVERYWHERE = "0.0.0.0"  # noqa: S104
LONG = "x" * 10_000


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "mine.gpec"
    explanation(n=50, classes=3).save(path)
    return Callbacks(make_app([path]))


VALID = {
    "receive": ("..file.options", {"upload": None}),
    "show": ("..file-about", {"file": "key"}),
    "turn": ("start.data", {"file": "key", **LIST}),
    "list": ("..rows.children", {"file": "key", **LIST}),
    "pick": ("picked.data", {"file": "key", "picked": []}),
    "compare": ("comparison", {"file": "key", "picked": [1, 4], "output": 2}),
    "furnish": ("..model.options", PLAY),
    "remember": ("..added.data", {**PLAY, "surface": CLICK}),
    "draw": ("..surface.figure", {**PLAY, "clicked": [1.0, 2.0]}),
}


def filled(page, values):
    return {name: page.key("mine.gpec") if value == "key" else value for name, value in values.items()}


@pytest.mark.parametrize("name", VALID)
def test_every_callback_answers_what_a_browser_sends(page, name):
    output, values = VALID[name]
    status, text = page.call(output, filled(page, values))
    assert status in (200, 204), text
    assert "An unexpected error" not in text


def test_every_callback_is_tried(page):
    assert len(VALID) == len([each for each in page.known if not each.get("clientside_function")])


UPLOAD = {"upload": "data:;base64,AAAA", "file": []}
BAD = [
    *(("list", {"search": value}) for value in (LONG, 3, ["a"], {"a": 1})),
    *(("list", {"order": value}) for value in ("upside down", None, [], LONG)),
    *(("list", {"start": value}) for value in (-20, "0", 1.5, 10**30, None, True)),
    *(("list", {"picked": value}) for value in ([0] * 9_999, list(range(5)), ["0"], [-1], [1, 1], 3, [[1]], [10**30])),
    *(("list", {"output": value}) for value in (3, -1, "0", None, 1.0)),
    *(("list", {"file": value}) for value in (LONG, 3, [], {"a": 1})),
    *(("show", {"file": value}) for value in (LONG, 3, [], {"a": 1})),
    *(("turn", {"start": value}) for value in (-20, "0", 1.5, 10**30, [0])),
    *(("compare", {"picked": value}) for value in ([0] * 9_999, list(range(5)), [50], [-1], ["1"], [True], {"a": 1})),
    *(("compare", {"output": value}) for value in (3, -1, "0", None)),
    *(("compare", {"file": value}) for value in (LONG, 3)),
    *(("furnish", {"dataset": value}) for value in ("nowhere", None, LONG, ["line"])),
    ("furnish", {"model": "oracle"}),
    *(("draw", {"dataset": value}) for value in ("nowhere", None, ["line"])),
    *(("draw", {"model": value}) for value in ("oracle", 1)),
    *(("draw", {"meaning": value}) for value in ("other", None)),
    *(("draw", {"feature": value}) for value in (2, -1, "0", None)),
    *(("draw", {name: value}) for name in SLIDERS for value in ("1", None, 1e300, [1])),
    *(("draw", {"added": value}) for value in ([[i, i] for i in range(32)], [[0, 0, 0]], [["0", 0]], [[1e300, 0]], 3)),
    *(("draw", {"clicked": value}) for value in ([0], [0, "0"], [1e300, 0], {"a": 1}, 3)),
    *(("draw", {"last": value}) for value in ([], {"top": 1}, {"top": "1", "median": 1}, 3)),
    *(("remember", {"surface": value}) for value in (3, {"points": []}, {"points": [{"x": 1}]}, {"points": 3})),
    *(("remember", {"added": value}) for value in ([[i, i] for i in range(40)], [[0]], "ab")),
    ("remember", {"mode": "other"}),
    *(("receive", {**UPLOAD, "upload": value}) for value in (3, ["a"], {"a": 1})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change"), BAD, ids=lambda value: str(value)[:50])
def test_what_no_browser_sends_is_refused(page, caplog, name, change):
    output, values = VALID[name]
    used = "surface.clickData" if name == "remember" else None
    status, text = page.call(output, {**filled(page, values), **change}, used)
    assert status == 400
    assert "Traceback" not in text
    assert not caplog.records


@pytest.mark.parametrize(
    "change", [{"filename": LONG}, {"filename": 3}, {"options": 3}, {"options": [{"value": LONG}]}]
)
def test_an_upload_with_an_odd_state_is_refused(page, change):
    request = page.request("..file.options", {"upload": "data:;base64,AAAA"})
    given = {"filename": "a.gpec", "options": [], **change}
    for part in request["state"]:
        part["value"] = given[part["property"]]
    assert page.post(request)[0] == 400


@pytest.mark.parametrize("used", ["{bad.n_clicks", '{"pick":[1]}.n_clicks', '{"pick":-1}.n_clicks', "x", ".", 3, None])
def test_an_odd_button_is_refused(page, used):
    request = page.request("picked.data", filled(page, VALID["pick"][1]))
    request["changedPropIds"] = [used]
    request["inputs"][1] = [{"id": {"pick": -1}, "property": "n_clicks", "value": 1}]
    status, text = page.post(request)
    assert status in (200, 204, 400)  # what names no button picks nothing
    assert status != 200 or json.loads(text)["response"].get("picked", {"data": []})["data"] == []


@pytest.mark.parametrize("lost", ["output", "outputs", "inputs"])
@pytest.mark.parametrize("value", [..., None, 3, "x", [], {}, [[]]], ids=str)
def test_a_request_that_is_none(page, caplog, lost, value):
    request = page.request(*VALID["furnish"])
    del request[lost]
    if value is not ...:
        request[lost] = value
    status, text = page.post(request)
    assert status == 400
    assert "Traceback" not in text
    assert not caplog.records


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[" * 19_000, b"[" * 50_000, b"[],", b"[" + b"[]," * 10**6, b"\xff\xfe"], ids=len
)
def test_a_body_that_is_no_request(page, caplog, content):
    answer = page.client.post("/_dash-update-component", data=content, content_type="application/json")
    assert answer.status_code == 400
    assert not caplog.records


def test_json_of_very_many_values_takes_little_memory(page):
    """Empty lists take thirty times the memory of their text."""
    content = b'{"a": [' + b"[]," * (10 * 2**20) + b"0]}"
    set_peak_back()
    before = peak()
    answer = page.client.post("/_dash-update-component", data=content, content_type="application/json")
    assert answer.status_code == 400
    assert peak() - before < 200 * 2**20


def test_very_many_added_rows_get_a_sentence(page):
    """The row beyond the limit is named; a click more changes nothing."""
    added = [[float(i), 0.0] for i in range(31)]
    status, text = page.call("..surface.figure", {**PLAY, "added": added})
    assert status == 200
    assert "At most 30 rows can be added" in text
    status, text = page.call(
        "..added.data", {**PLAY, "added": added, "surface": CLICK, "mode": "add"}, "surface.clickData"
    )
    assert len(json.loads(text)["response"]["added"]["data"]) == 31


# Connections


@pytest.fixture(scope="module")
def address():
    with served() as address:
        yield address


def ask(address, host=None, path="", data=None):
    headers = {"Content-Type": "application/json"} | ({} if host is None else {"Host": host})
    request = urllib.request.Request(address + path, data, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return answer.status, answer.headers, answer.read()


def connect(address):
    host, _, port = address.removeprefix("http://").strip("/").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def closed(connection, seconds):
    """Whether the other side closes a connection within this time, and sends nothing before."""
    connection.settimeout(seconds)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_many_half_open_connections_and_clients(page, address):
    before, begin = threading.active_count(), time.monotonic()
    with ExitStack() as stack:
        for i in range(200):
            connection = stack.enter_context(connect(address))
            connection.sendall((b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")[i % 3])
        drawing = json.dumps(page.request(*VALID["draw"])).encode()
        requests = [("_dash-update-component", drawing), *[("_dash-layout", None)] * 4] * 20
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda each: ask(address, path=each[0], data=each[1]), requests))
        assert threading.active_count() - before <= 128
    assert [status for status, _, _ in answers] == [200] * 100
    assert time.monotonic() - begin < 20


def test_a_slow_request_is_given_up(monkeypatch, capfd):
    """Before its head has arrived, or before its body has: each byte would start a socket's own timeout anew."""
    monkeypatch.setattr("gpec.app._server._HEAD_SECONDS", 0.5)
    monkeypatch.setattr("gpec.app._server._BODY_SECONDS", 0.5)
    head = b"POST /_dash-update-component HTTP/1.0\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    with served() as address, connect(address) as silent, connect(address) as slow, connect(address) as slow_body:
        slow_body.sendall(head)
        end = time.monotonic() + 2.0
        for connection in (slow, slow_body):
            connection.settimeout(0.05)
        ended = set()
        while time.monotonic() < end and len(ended) < 2:
            for connection in {slow, slow_body} - ended:
                try:
                    connection.sendall(b"G")
                    if connection.recv(1) in (b"", b"H"):
                        ended.add(connection)
                except TimeoutError:
                    pass
                except ConnectionError:
                    ended.add(connection)
        assert len(ended) == 2
        assert closed(silent, 2.0)
    assert "Traceback" not in capfd.readouterr().err


def test_large_requests_are_read_one_after_the_other(monkeypatch):
    monkeypatch.setattr("gpec.app._requests._SMALL", 100)
    monkeypatch.setattr("gpec.app._requests._WAIT", 0.2)
    head = b"POST /_dash-update-component HTTP/1.0\r\nHost: localhost\r\nContent-Length: 500\r\n\r\n"
    body = b'"' + b"x" * 498 + b'"'
    with served() as address:
        with connect(address) as first:
            first.sendall(head)
            time.sleep(0.1)
            with pytest.raises(urllib.error.HTTPError, match="503"):
                ask(address, path="_dash-update-component", data=body)
        time.sleep(0.1)
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(address, path="_dash-update-component", data=body)


def test_what_a_browser_may_run(address):
    _, headers, content = ask(address)
    policy = "; ".join(headers.get_all("Content-Security-Policy"))
    assert "frame-ancestors 'none'" in policy
    scripts = policy.partition("script-src ")[2].partition(";")[0]
    assert "unsafe" not in scripts
    assert scripts.count("'sha256-") > len(SLIDERS)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert b"<script" in content


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost:1", True), ("127.0.0.1", True), ("[::1]:8050", True), ("192.0.2.7:8050", True), ("analysis", True),
        ("evil.example", False), ("localhost.evil.example:8050", False), ("[::1", False), ("", False), ("a,b", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("listens", ["127.0.0.1", "::1", EVERYWHERE])
def test_names_of_others_are_refused(serving, listens, host, known):
    address = serving[listens]
    if known:
        assert ask(address, host)[0] == 200
    else:
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(address, host)


@pytest.fixture(scope="module")
def serving():
    with ExitStack() as stack:
        yield {
            host: stack.enter_context(served(host=host, names=["Analysis"])).replace(EVERYWHERE, "127.0.0.1")
            for host in ("127.0.0.1", "::1", EVERYWHERE)
        }


def test_a_wide_file_is_compared_in_little_memory(tmp_path):
    path = tmp_path / "wide.gpec"
    explanation(n=5, d=20_000, feature_names=[f"f{i}" for i in range(20_000)], data=np.zeros((5, 20_000))).save(path)
    app = Callbacks(make_app([path]))
    status, text = app.call("comparison", {"file": app.key("wide.gpec"), "picked": [0, 1, 2, 3], "output": 0})
    assert status == 200
    assert len(text) < 10**6
