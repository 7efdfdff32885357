"""The page without a browser: what it serves, to whom, and what it says when it cannot."""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from page_helpers import Callbacks, served

import gpec.app
from explanation_helpers import explanation
from gpec.app import make_app
from gpec.errors import GPECError, InputError, MissingExtraError

SLIDERS = {"lam", "rho", "n_boundary", "regularisation", "noise", "step"}


@pytest.fixture(scope="module")
def page():
    with served() as address:
        yield address


def get(address, host=None):
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return answer.read().decode()


def components(node):
    """All components of a layout as dictionaries."""
    if isinstance(node, dict):
        if "props" in node:
            yield node
        for value in node.values():
            yield from components(value)
    elif isinstance(node, list):
        for value in node:
            yield from components(value)


def test_everything_comes_from_this_machine(page):
    html = get(page)
    addresses = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert len(addresses) > 5
    assert all(address.startswith("/") for address in addresses)
    for address in [address for address in addresses if "/assets/" in address]:
        assert "http" not in get(page.rstrip("/") + address)


def test_every_control_says_what_it_does(page):
    found = list(components(json.loads(get(f"{page}_dash-layout"))))
    controls = [list(components(c["props"]["children"])) for c in found if c["props"].get("className") == "control"]
    helps = [c["props"]["children"] for parts in controls for c in parts if c["props"].get("className") == "help"]
    assert len(helps) == len(controls) == len(set(helps)) == 4 + len(SLIDERS)
    assert all(3 < len(text.split()) < 20 for text in helps)
    assert {c["props"]["id"] for c in found if c["type"] == "Slider"} == SLIDERS
    ids = [c["props"]["id"] for c in found if "id" in c["props"]]
    assert len(ids) == len(set(ids))
    assert {"dataset", "model", "meaning", "feature", "surface", "upload", *SLIDERS} <= set(ids)


def test_debugging_is_off(page):
    config = json.loads(re.search(r'id="_dash-config"[^>]*>([^<]+)<', get(page))[1])
    assert not config["ui"]
    assert not config.get("hot_reload")


def test_too_much_at_once_is_refused(monkeypatch):
    monkeypatch.setattr("gpec.app._requests.LARGEST_UPLOAD", 1000)
    answer = make_app().server.test_client().post("/_dash-update-component", json={"x": "y" * 1_100_000})
    assert answer.status_code == 413


def test_files_of_the_command_line_are_open(tmp_path):
    path = tmp_path / "mine.gpec"
    explanation().save(path)
    with served([path]) as address:
        found = list(components(json.loads(get(f"{address}_dash-layout"))))
    (chosen,) = [c["props"] for c in found if c["props"].get("id") == "file"]
    assert [option["label"] for option in chosen["options"]] == ["mine.gpec"]
    assert chosen["value"] == chosen["options"][0]["value"]


def test_a_damaged_file_of_the_command_line(tmp_path):
    path = tmp_path / "bad.gpec"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(GPECError, match=r"bad\.gpec is not a file of gpec"):
        make_app([path])


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}.*choose another port"):
            gpec.app.run(port=port)


def test_without_dash(monkeypatch):
    monkeypatch.setitem(sys.modules, "dash", None)
    with pytest.raises(MissingExtraError, match=r'pip install "gpec\[app\]"'):
        make_app()


def test_run_says_where_the_page_is_and_ends_when_told(one_process_environment):
    code = "import gpec.app; gpec.app.run(port=0)"
    environment = {**one_process_environment, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)  # noqa: S603
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        assert "gpec" in get(address)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def open_file(key):
    """The answer of the page when the file with this key is chosen."""
    return Callbacks(make_app()).call("..file-about", {"file": key})[1]


def test_errors_become_sentences(caplog, monkeypatch):
    assert "This file is no longer open; open it again." in open_file("unknown")

    def fail(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("gpec.app.FileCache.get", fail)
    with caplog.at_level(logging.ERROR):
        shown = open_file("some key")
    assert "An unexpected error occurred" in shown
    assert "secret" not in shown
    assert "ZeroDivisionError" in caplog.text


def test_the_limit_of_the_script_is_that_of_the_server():
    script = os.path.join(os.path.dirname(gpec.app.__file__), "assets", "upload.js")
    with open(script, encoding="utf-8") as file:
        (product,) = re.findall(r"largest = (\d+) \* 1024 \* 1024", file.read())
    assert int(product) * 2**20 == gpec.app._files.LARGEST_UPLOAD
