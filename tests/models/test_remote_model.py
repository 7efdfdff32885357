"""A model behind the Open Inference Protocol answers as the model itself."""

import gc
import pickle
import time
import traceback
import warnings
from email.utils import formatdate
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.errors import InputError, ModelCallError
from gpec.models import load_model, match_columns
from inference_server import FLOATS, PROBABILITIES, Server, logistic, serving

X = np.random.default_rng(0).normal(size=(90, 3))


def direct(rows):
    return logistic({"rows": rows})["proba"]


def quick(server, *, output=None, **options):
    """The model of a server or at an address, which is not waited for long."""
    address = server if isinstance(server, str) else f"{server.address}/v2/models/m"
    defaults = {"model_name": None, "output": None, "batch_rows": 1_000, "timeout": 5.0, "patience": 0.6}
    with mock.patch("gpec.models._remote.RemoteModel.__init__.__kwdefaults__", {**defaults, **options}):
        return load_model(address, output_name=output)


@pytest.mark.parametrize("tail", ["/v2/models/m", "/v2/models/m/", "/v2/models/m/infer"])
def test_answers_are_those_of_the_model(tail):
    with serving(Server()) as server:
        model = load_model(server.address + tail)
        np.testing.assert_array_equal(model(X), direct(X))
        assert model.n_features_in_ == 3
        assert server.requests[0]["outputs"] == [{"name": "proba"}]  # labels are not asked for


def test_name_of_the_model():
    with serving(Server()) as server:
        model = load_model(server.address, model_name="m")
        np.testing.assert_array_equal(model(X), direct(X))
        with pytest.raises(InputError, match="does not name a model"):
            load_model(server.address)
        with pytest.raises(ModelCallError, match=r"status 404 \(no such model\)"):
            load_model(server.address, model_name="other")


def test_blocks_share_one_connection():
    with serving(Server()) as server:
        model = quick(server, batch_rows=40)
        np.testing.assert_array_equal(model(X), direct(X))
        assert [request["inputs"][0]["shape"] for request in server.requests] == [[40, 3], [40, 3], [10, 3]]
        assert server.connections == 1


def test_a_connection_held_by_a_cycle_is_closed():
    with serving(Server()) as server:
        for _ in range(30):  # the order in which a cycle's members are finalised varies
            cycle = [quick(server)]
            cycle[0](X)
            cycle.append(cycle)
            vars(cycle[0])["self"] = cycle
            del cycle
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                gc.collect()
            assert not caught


def test_one_tensor_for_each_column():
    inputs = [
        {"name": "age", "datatype": "FP32", "shape": [-1, 1]},
        {"name": "town", "datatype": "BYTES", "shape": [-1]},
        {"name": "rooms", "datatype": "INT64", "shape": [-1, 1]},
    ]

    def predict(tensors):
        assert tensors["town"].shape == (4,)
        p = 0.1 * (tensors["town"] == "ulm") + 0.2 * (tensors["rooms"][:, 0] == 2) + 0.3 * (tensors["age"][:, 0] > 40)
        return {"p": p.astype(float)}

    table = pd.DataFrame(
        {"rooms": [2, 2, 3, 2.4], "label": 1, "town": ["ulm", "bonn", "ulm", "ulm"], "age": [50, 50, 30, 30]}
    )
    outputs = [{"name": "p", "datatype": "FP64", "shape": [-1]}]
    with serving(Server(predict, inputs, outputs)) as server:
        model = quick(server)
        rows, left_out = match_columns(model, table)
        assert list(rows.columns) == ["age", "town", "rooms"]
        assert left_out == ["label"]
        np.testing.assert_allclose(model(rows), [0.6, 0.5, 0.1, 0.3])


def test_a_server_that_does_not_say_what_it_takes():
    with serving(Server(inputs=[], outputs=[])) as server:
        np.testing.assert_array_equal(quick(server)(X), direct(X))
        only_labels = Server(lambda tensors: {"predict": logistic(tensors)["label"]}, inputs=[], outputs=[])
    with serving(only_labels) as server, pytest.raises(InputError, match="but none holds probabilities"):
        quick(server)(X)


def test_output_by_name():
    def predict(tensors):
        p = logistic(tensors)["proba"]
        return {"first": p, "second": p[:, ::-1].copy()}

    outputs = [{"name": name, "datatype": "FP64", "shape": [-1, 2]} for name in ("first", "second")]
    with serving(Server(predict, outputs=outputs)) as server:
        with pytest.raises(InputError, match=r"\['first', 'second'\]; name the one"):
            quick(server)
        np.testing.assert_array_equal(quick(server, output="second")(X), direct(X)[:, ::-1])
        with pytest.raises(InputError, match="no output 'third'"):
            quick(server, output="third")


# Faults


@pytest.mark.parametrize("failure", ["hang up", (503, {"error": "busy"}), (502, b"bad gateway")])
def test_a_passing_fault_is_tried_again(failure):
    with serving(Server(fail=lambda k: failure if k in (0, 1) else None)) as server:
        np.testing.assert_array_equal(quick(server)(X), direct(X))
        assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_says_when_to_come_again(status, monkeypatch):
    waited = []
    monkeypatch.setattr("gpec.models._remote.time.sleep", waited.append)
    soon = formatdate(time.time() + 40, usegmt=True)
    says = ["7", soon, "soon", "-1", formatdate(time.time() - 1e6, usegmt=True), None]

    def fail(k):
        headers = [("Retry-After", says[k])] if k < len(says) and says[k] else []
        return (status, b"<html>busy", headers) if k < len(says) else None

    with serving(Server(fail=fail)) as server:
        np.testing.assert_array_equal(quick(server, patience=60.0)(X), direct(X))
    least = [7, 35, 0.1, 0.2, 0.4, 0.8]  # otherwise the waits double, less up to a half
    most = [7, 41, 0.2, 0.4, 0.8, 1.6]
    assert len(waited) == 6
    assert all(low <= seconds <= high for low, seconds, high in zip(least, waited, most, strict=True))


@pytest.mark.parametrize("says", ["3600", "9" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_server_that_is_busy_for_too_long_is_given_up_at_once(says):
    with serving(Server(fail=lambda k: (503, {"error": "later"}, [("Retry-After", says)]))) as server:
        words = r"did not answer 1 tries within 0\.6 s \(status 503, try again in [\d,]+ s: later\)$"
        with pytest.raises(ConnectionError, match=words):
            quick(server)(X)
        assert len(server.requests) == 1


def test_a_late_answer_is_tried_again():
    def sleepy(tensors):
        time.sleep(1.0 if len(server.requests) < 3 else 0.0)
        return logistic(tensors)

    with serving(Server(sleepy)) as server:
        model = quick(server, timeout=0.2, patience=5.0)
        np.testing.assert_array_equal(model(X), direct(X))
        assert len(server.requests) == 3


def test_a_lasting_fault_is_one_sentence():
    with serving(Server(fail=lambda k: "hang up")) as server:
        model = quick(server)
        with pytest.raises(
            ConnectionError, match=r"http://127\.0\.0\.1:\d+/v2/models/m did not answer \d tries within 0\.6 s"
        ) as fault:
            model(X)
        assert "\n" not in str(fault.value)
        assert 3 <= len(server.requests) <= 5  # the waits double, give or take
    words = r"did not answer \d tries within 0\.6 s \(status 503: busy\)"
    with (
        serving(Server(fail=lambda k: (503, {"error": "busy"}))) as server,
        pytest.raises(ConnectionError, match=words),
    ):
        quick(server)(X)


def test_a_refusal_is_not_tried_again():
    with serving(Server(fail=lambda k: (400, {"error": "wrong\nshape"}))) as server:
        with pytest.raises(RuntimeError, match=r"status 400 \(wrong shape\)"):
            quick(server)(X)
        assert len(server.requests) == 1


@pytest.mark.parametrize("answer", [b"<html>", {"outputs": []}, {"outputs": [{"name": "proba"}]}, {}, []])
def test_an_answer_that_is_none(answer):
    words = "gave an answer that cannot be read|answered with something that is not JSON"
    with serving(Server(fail=lambda k: (200, answer))) as server, pytest.raises(RuntimeError, match=words):
        quick(server)(X)


def test_a_server_that_is_not_there():
    with serving(Server()) as server:
        address = server.address
    begin = time.monotonic()
    with pytest.raises(ModelCallError, match=r"did not answer 4 tries within 120 s \(.*refused"):
        load_model(f"{address}/v2/models/m")
    assert time.monotonic() - begin < 10


def test_a_server_without_encryption_is_not_spoken_to_as_if_it_had_some():
    with serving(Server()) as server, pytest.raises(ModelCallError, match=r"did not answer \d tries .*SSL"):
        quick(server.address.replace("http", "https") + "/v2/models/m")


def test_a_slow_server_is_given_up():
    def sleepy(tensors):
        time.sleep(1.0)
        return logistic(tensors)

    with serving(Server(sleepy)) as server:
        model = quick(server, timeout=0.2)
        with pytest.raises(ConnectionError, match="timed out"):
            model(X)


def test_missing_values_are_refused():
    with serving(Server()) as server, pytest.raises(ValueError, match="cannot carry missing"):
        quick(server)(np.where(X > 1, np.nan, X))


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http:///v2/models/m",
        "http://host:99999/v2/models/m",
        "http://host:0/v2/models/m",
        "http://host:http/v2/models/m",
        "http://[::1/v2/models/m",
        "http://::1:8080/v2/models/m",
        "http://a b/v2/models/m",
        f"http://{'a' * 70}/v2/models/m",
        "http://" + "\u00e4" * 70 + "/v2/models/m",
    ],
)
def test_wrong_addresses(address):
    with pytest.raises(InputError, match="is not an address"):
        quick(address)


def test_an_ipv6_address():
    with serving(Server(), "::1") as server:
        model = quick(server)
        assert model.address.startswith("http://[::1]:")
        np.testing.assert_array_equal(model(X), direct(X))


@pytest.mark.parametrize(
    "address",
    [
        "{}/v2/models/m",
        "{}",
        "{}:99999/v2/models/m",
        "{}/v2/models/other",
        "{}/a@b",
        "{}/v2/models/m?key=hunter2",
        "{}\u2100/v2/models/m",
    ],  # not even in the cause of the error
)
def test_credentials_are_sent_and_not_printed(address):
    with serving(Server()) as server:
        secret = server.address.replace("//", "//ann:hunter2@")
        try:
            model = quick(address.format(secret))
            shown = f"{model!r} {model.address}"
        except (InputError, ModelCallError) as error:
            shown = "".join(traceback.format_exception(error))
        assert "hunter2" not in shown
        assert "ann:" not in shown
        if server.headers is not None:
            assert server.headers["Authorization"] == "Basic YW5uOmh1bnRlcjI="


# A server that is not to be trusted


def answer(values, shape):
    return 200, {"outputs": [{"name": "proba", "datatype": "FP64", "shape": shape, "data": values}]}


@pytest.mark.parametrize("outputs", [PROBABILITIES, []])
@pytest.mark.parametrize("shape", [[2, 90], [180], [180, 1], [1, 90, 2], [-1, 2], [], [45, 4]])
def test_an_answer_whose_first_axis_is_not_the_rows(shape, outputs):
    failure = answer([0.5] * 180, shape)
    with serving(Server(outputs=outputs, fail=lambda k: failure)) as server:
        with pytest.raises(RuntimeError, match=r"gave an answer (of shape .* to 90 rows|that cannot be read)"):
            quick(server)(X)
        assert len(server.requests) == 1


@pytest.mark.parametrize(("outputs", "first"), [(PROBABILITIES, True), ([], False)])
def test_an_answer_of_another_width_than_before(outputs, first):
    """The width is stated in the metadata, or that of the answer before."""
    wide = answer([0.25] * 360, [90, 4])
    with serving(Server(outputs=outputs, fail=lambda k: wide if first or k else None)) as server:
        model = quick(server)
        if not first:
            model(X)
        with pytest.raises(RuntimeError, match=r"shape \(90, 4\) to 90 rows, where \(90, 2\) was expected"):
            model(X)


def test_an_answer_without_end():
    sent = []

    def pour(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            connection.sendall(b"0," * 2**15)
            sent.append(2**16)

    with serving(Server(fail=lambda k: pour)) as server:
        with pytest.raises(RuntimeError, match=r"sent more than the 1,060,096 bytes"):
            quick(server)(X)
        assert sum(sent) < 16 * 2**20  # with the buffers of both sockets
        assert len(server.requests) == 1


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_an_answer_that_comes_byte_by_byte(begin):
    def drip(connection):
        connection.sendall(begin)
        while True:
            connection.sendall(b"1")
            time.sleep(0.05)

    with serving(Server(fail=lambda k: drip)) as server:
        model = quick(server, timeout=0.5, patience=0.5)
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match=r"did not answer 1 tries within 0\.5 s \(timed out after 0\.5 s"):
            model(X)
        assert time.monotonic() - begun < 2.0
        assert len(server.requests) == 1


def test_all_tries_together_have_one_time_limit():
    """Each try would have ended in time."""

    def hang_up_late(connection):
        time.sleep(0.3)
        connection.close()

    with serving(Server(fail=lambda k: hang_up_late)) as server:
        model = quick(server, timeout=0.5, patience=0.5)
        begun = time.monotonic()
        with pytest.raises(ConnectionError, match=r"did not answer \d tries within 0\.5 s"):
            model(X)
        assert time.monotonic() - begun < 1.0
        assert len(server.requests) <= 2


def test_an_answer_cut_short_is_tried_again():
    def cut(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}")

    with serving(Server(fail=lambda k: None if k else cut)) as server:
        np.testing.assert_array_equal(quick(server)(X), direct(X))
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "inputs",
    [
        b"null",
        b"[" * 100_000,
        b" " * 2**21,
        [{"name": "a", "datatype": "FP64", "shape": ["x", 3]}],
        [{"name": "a", "datatype": "FP64", "shape": [1e999, 3]}],
        [{"name": "a", "datatype": "FP64", "shape": None}],
        [{"name": "a", "datatype": "BF16", "shape": [-1, 3]}],
        [{"name": "a", "datatype": "FP64", "shape": [-1]}] * 2,
        3,
    ],
    ids=lambda inputs: str(inputs)[:30],
)
def test_odd_metadata(inputs):
    words = "does not describe a model|not JSON|sent more than|cannot send|same name"
    with serving(Server(inputs=inputs)) as server, pytest.raises(ModelCallError, match=words) as fault:
        quick(server)
    assert len(str(fault.value)) < 400
    assert "\n" not in str(fault.value)


def test_metadata_without_end():
    with (
        serving(Server(inputs=b" " * 2**21)) as server,
        pytest.raises(ModelCallError, match=r"more than the 1,048,576 "),
    ):
        quick(server)


@pytest.mark.parametrize("value", [10**400, "\x1b[31m" * 1000, {}], ids=["large", "text", "object"])
def test_odd_values(value):
    failure = answer([value] * 180, [90, 2])
    with serving(Server(fail=lambda k: failure)) as server, pytest.raises(RuntimeError, match=r"^http://127") as fault:
        quick(server)(X)
    assert len(str(fault.value)) < 400


def test_words_of_a_server_are_printable():
    server = Server(fail=lambda k: (400, {"error": "\x1b[2Jno"}))
    with serving(server), pytest.raises(RuntimeError, match=r"status 400 \(\[2Jno\)$"):
        quick(server)(X)


def test_words_of_a_server_are_few():
    server = Server(fail=lambda k: (400, {"error": "no " * 9_999}))
    with serving(server), pytest.raises(RuntimeError, match=r"status 400 \(no no") as fault:
        quick(server)(X)
    assert len(str(fault.value)) < 400


def test_copies_connect_anew():
    with serving(Server()) as server:
        model = quick(server)
        model(X)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(X), direct(X))


# Explained


def test_explained_as_the_model_itself():
    settings = {"explainer": "kernelshap", "n_boundary": 60, "n_explained": 20, "background": 10, "random_state": 0}
    with serving(Server(inputs=FLOATS)) as server:
        remote = gpec.GPEC(quick(server), **settings, progress=False).fit(X).explain(X[:5])
    local = gpec.GPEC(direct, **settings, progress=False).fit(X).explain(X[:5])
    np.testing.assert_array_equal(remote.values, local.values)
    np.testing.assert_array_equal(remote.upper, local.upper)


def test_a_server_that_dies_is_the_cause_of_the_error():
    with serving(Server(fail=lambda k: "hang up" if k > 3 else None)) as server:
        g = gpec.GPEC(quick(server), n_boundary=60, n_explained=20, background=10, random_state=0, progress=False)
        with pytest.raises(ModelCallError, match="did not answer") as fault:
            g.fit(X)
    assert isinstance(fault.value.__cause__, ConnectionError)
