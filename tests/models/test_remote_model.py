"""A model behind the Open Inference Protocol answers as the model itself."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.errors import InputError, ModelCallError
from gpec.models import load_model, match_columns
from gpec.models._remote import RemoteModel
from inference_server import FLOATS, Server, logistic, serving

X = np.random.default_rng(0).normal(size=(90, 3))


def direct(rows):
    return logistic({"rows": rows})["proba"]


def quick(server, **options):
    return RemoteModel(f"{server.address}/v2/models/m", waits=(0.01, 0.02), timeout=5.0, **options)


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


def test_a_lasting_fault_is_one_sentence():
    with serving(Server(fail=lambda k: "hang up")) as server:
        model = quick(server)
        with pytest.raises(
            ConnectionError, match=r"http://127\.0\.0\.1:\d+/v2/models/m did not answer 3 tries"
        ) as fault:
            model(X)
        assert "\n" not in str(fault.value)
        assert len(server.requests) == 3
    with serving(Server(fail=lambda k: (503, {"error": "busy"}))) as server, pytest.raises(RuntimeError, match="503"):
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
    with pytest.raises(ModelCallError, match=r"did not answer 4 tries \(.*refused"):
        load_model(f"{address}/v2/models/m")
    assert time.monotonic() - begin < 10


def test_a_server_without_encryption_is_not_spoken_to_as_if_it_had_some():
    with serving(Server()) as server, pytest.raises(ModelCallError, match=r"did not answer 2 tries \(.*SSL"):
        RemoteModel(server.address.replace("http", "https") + "/v2/models/m", waits=(0.0,), timeout=5.0)


def test_a_slow_server_is_given_up():
    def sleepy(tensors):
        time.sleep(1.0)
        return logistic(tensors)

    with serving(Server(sleepy)) as server:
        model = RemoteModel(f"{server.address}/v2/models/m", waits=(), timeout=0.2)
        with pytest.raises(ConnectionError, match="timed out"):
            model(X)


def test_missing_values_are_refused():
    with serving(Server()) as server, pytest.raises(ValueError, match="cannot carry missing"):
        quick(server)(np.where(X > 1, np.nan, X))


@pytest.mark.parametrize("address", ["http://", "ftp://host/v2/models/m", "http:///v2/models/m"])
def test_wrong_addresses(address):
    with pytest.raises(InputError, match="is not an address"):
        RemoteModel(address)


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
