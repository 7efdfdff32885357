"""Each row is asked once where calls are slow or paid, and what was answered is kept."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import gpec
from gpec.data import Schema
from gpec.errors import InputError, ModelCallError, ModelOutputError
from gpec.explainers import KernelShap
from gpec.models import Model, load_model
from inference_server import FLOATS, Server, logistic, serving

X = np.random.default_rng(0).normal(size=(60, 3)).round(1)  # some masked rows are equal
SMALL = {"explainer": "kernelshap", "n_explained": 20, "background": 5, "random_state": 0, "progress": False}
PROBED = 20  # rows asked again, to see whether the model is the same and answers the same
CHECKED = 200  # rows on both sides of the boundary, asked again before it is used again


def direct(rows):
    return logistic({"rows": rows})["proba"]


class Counting:
    """A model that remembers the rows of each call; ``stop`` raises on calls from this one on."""

    def __init__(self, stop=None, seconds=0.0):
        self.calls, self.stop, self.seconds = [], stop, seconds
        self.now = self.most_at_once = 0
        self._lock = threading.Lock()

    def __call__(self, rows):
        with self._lock:
            self.now += 1
            self.most_at_once = max(self.most_at_once, self.now)
            if self.stop is not None and len(self.calls) >= self.stop:
                self.now -= 1
                raise ConnectionError("gone")
            self.calls.append(np.array(rows))
        time.sleep(self.seconds)
        with self._lock:
            self.now -= 1
        return direct(rows)

    @property
    def sizes(self):
        return [len(call) for call in self.calls]


def times_asked(*calls):
    return Counter(row.tobytes() for call in calls for row in call + 0.0)


def model_of(function, **options):
    return Model(function, Schema.learn(X)[0], **options)


def test_each_row_once_in_batches():
    asked = Counting()
    model = model_of(asked, batch_size=7)
    rows = np.concatenate((X[:10], X[:10], X[5:30], -0.0 * X[:3], 0.0 * X[:3]))
    np.testing.assert_array_equal(model.answers(rows), direct(rows)[:, 1:])
    assert max(asked.sizes) == 7
    assert set(times_asked(*asked.calls).values()) == {1}
    assert model.n_rows == sum(asked.sizes) == len(np.unique(rows + 0.0, axis=0))
    n_calls = len(asked.calls)
    np.testing.assert_array_equal(model.log_odds(rows[::-1]), model_of(direct).log_odds(rows[::-1]))
    assert len(asked.calls) == n_calls


def test_answers_are_not_shared_with_what_users_change():
    model = model_of(direct, batch_size=7)
    first = model.answers(X)
    first[:] = -1.0
    np.testing.assert_array_equal(model.answers(X), direct(X)[:, 1:])


@pytest.mark.parametrize("several", [False, True])
def test_bits_are_those_without(several):
    def function(rows):
        p = np.column_stack((direct(rows), direct(-rows)))
        return p / 2 if several else direct(rows)

    plain = gpec.GPEC(function, **SMALL).fit(X)
    kept = gpec.GPEC(function, **SMALL, batch_size=33, n_jobs=3).fit(X)
    np.testing.assert_array_equal(plain.attributions_.values, kept.attributions_.values)
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(plain.explain(X[:7]), name), getattr(kept.explain(X[:7]), name))


def test_a_fit_and_what_follows_ask_each_row_once():
    asked = Counting()
    g = gpec.GPEC(asked, **SMALL, batch_size=50).fit(X)
    counts = times_asked(*asked.calls)
    again = [n for n in counts.values() if n > 1]
    assert len(again) <= PROBED
    assert max(again) == 2
    g.explain(X[:7])
    n_calls = len(asked.calls)
    g.explain(X[:7])
    assert len(asked.calls) == n_calls
    g.set_params(n_boundary=30).fit(X)
    more = times_asked(*asked.calls[n_calls:])
    assert len(more.keys() & counts.keys()) <= PROBED + CHECKED
    assert len(more.keys() - counts.keys()) > 100


def test_the_batch_size_is_that_of_each_call_to_gpec():
    asked = Counting()
    g = gpec.GPEC(asked, **SMALL, batch_size=50).fit(X)
    assert max(asked.sizes) == 50
    n_calls = len(asked.calls)
    g.set_params(batch_size=8).explain(X[:30])
    assert max(asked.sizes[n_calls:]) == 8
    with pytest.raises(InputError, match="batch_size=0"):
        gpec.GPEC(direct, batch_size=0).fit(X)


@pytest.mark.parametrize("n_jobs", [1, 4])
def test_calls_at_a_time(n_jobs):
    asked = Counting(seconds=0.002)
    gpec.GPEC(asked, **SMALL, batch_size=20, n_jobs=n_jobs).fit(X)
    assert asked.most_at_once == n_jobs


def test_a_standalone_explainer_asks_several_calls_at_a_time():
    with serving(Server(lambda tensors: (time.sleep(0.02), logistic(tensors))[1])) as server:
        model = load_model(f"{server.address}/v2/models/m")
        model.batch_rows = 40
        explainer = KernelShap().fit(model, X, background=10)
        before = server.connections
        answer = explainer(X[:20], n_jobs=3)
    assert server.connections - before == 2  # besides the one that was open
    np.testing.assert_array_equal(answer.values, KernelShap().fit(direct, X, background=10)(X[:20]).values)


def test_the_oldest_are_dropped():
    asked = Counting()
    model = model_of(asked, batch_size=10)
    with mock.patch("gpec.models._answers._MOST_BYTES", 30 * 208):  # of 30 rows
        for rows in (X[:20], X[20:40], X[20:40]):
            np.testing.assert_array_equal(model.answers(rows), direct(rows)[:, 1:])
        assert model.n_rows == 40
        model.answers(X[10:20])
        assert model.n_rows == 40
        np.testing.assert_array_equal(model.answers(X[:40]), direct(X[:40])[:, 1:])
        assert model.n_rows == 50


def test_an_error_names_the_row_and_keeps_what_was_answered():
    bad = X[41]

    def function(rows):
        return np.where((rows == bad).all(axis=1), np.nan, direct(rows)[:, 1])

    asked = Counting()
    model = model_of(lambda rows: (asked(rows), function(rows))[1], batch_size=10)
    model.answers(X[:20])
    with pytest.raises(ModelOutputError, match=r"returned nan on call \d+, row 41;"):
        model.answers(X)
    n_rows = model.n_rows
    model.answers(X[:40])
    assert model.n_rows == n_rows


# Slow models in this process


def test_a_slow_model_is_not_asked_the_same_call_again(monkeypatch):
    monkeypatch.setattr("gpec.models.model._SLOW", 0.0)
    asked = Counting(seconds=0.1)
    model = model_of(asked)
    first = model.answers(X[:40])
    np.testing.assert_array_equal(model.answers(X[:40]), first)
    assert asked.sizes == [40]
    model.answers(X[:20])  # other batches could be rounded otherwise
    assert asked.sizes == [40, 20]
    with model.asked_anew():
        model.answers(X[:20])
    assert asked.sizes == [40, 20, 20]


def test_a_fast_model_is_asked_as_before():
    asked = Counting()
    model = model_of(asked)
    model.answers(X)
    model.answers(X)
    assert asked.sizes == [60, 60]


def test_a_model_that_changes_its_mind_is_found_out():
    n_calls = 0

    def fickle(rows):
        nonlocal n_calls
        n_calls += 1
        return np.clip(direct(rows)[:, 1] + 0.01 * np.sin(n_calls), 0, 1)

    with pytest.raises(ModelOutputError, match="changed its answer to the same row"):
        gpec.GPEC(fickle, **SMALL, batch_size=50).fit(X)


def test_a_model_changed_in_place_is_asked_anew():
    scale = 1.0
    g = gpec.GPEC(lambda rows: direct(scale * rows), **SMALL, batch_size=50).fit(X)
    before, scale = g.attributions_.values, 2.0
    g.fit(X)
    fresh = gpec.GPEC(lambda rows: direct(2.0 * rows), **SMALL).fit(X)
    np.testing.assert_array_equal(g.attributions_.values, fresh.attributions_.values)
    assert not np.array_equal(before, g.attributions_.values)


# In a checkpoint


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("call", ["fit", "calibrate", "explain"])
def test_a_stop_keeps_every_answer(tmp_path, call, n_jobs):
    options = {**SMALL, "batch_size": 25, "n_jobs": n_jobs}

    def work(model, folder):
        g = gpec.GPEC(model, **options)
        if call == "fit":
            return g.fit(X, checkpoint=folder).attributions_.values
        rows, calls = np.flip(X, axis=1) + 0.05, model.calls
        model.stop, stop, model.calls = None, model.stop, []
        g.fit(X)
        model.calls, model.stop = calls, stop
        if call == "calibrate":
            g.calibrate(rows, checkpoint=folder)
            return g.explain(X[:3]).upper
        return g.explain(rows, checkpoint=folder).upper

    whole = Counting()
    expected = work(whole, None)
    for part in (3, 0.5):
        stop = part if part > 1 else int(part * len(whole.calls))
        folder = tmp_path / str(part)
        first, second = Counting(stop=stop), Counting()
        with pytest.raises(ModelCallError, match="gone"):
            work(first, folder)
        assert len(first.calls) == stop
        np.testing.assert_array_equal(work(second, folder), expected)
        once = times_asked(*whole.calls)
        both = times_asked(*first.calls, *second.calls)
        probe = times_asked(X[:PROBED])
        assert (both - once).keys() <= probe.keys()
        assert sum((both - once).values()) <= 2 * PROBED  # one at the beginning of each call
        assert once.keys() <= both.keys()


def test_a_journal_that_was_cut_short_or_altered(tmp_path):
    asked = Counting(stop=30)
    with pytest.raises(ModelCallError):
        gpec.GPEC(asked, **SMALL, batch_size=25).fit(X, checkpoint=tmp_path / "c")
    (journal,) = (tmp_path / "c").glob("answers-*.log")
    content = journal.read_bytes()
    expected = gpec.GPEC(direct, **SMALL).fit(X).attributions_.values
    rng = np.random.default_rng(0)
    for k in (10, 32, 40, len(content) // 2, len(content) - 1):
        for altered in (content[:k], content[:k] + bytes([content[k] ^ 255]) + content[k + 1 :], rng.bytes(k)):
            journal.write_bytes(altered)
            again = Counting()
            g = gpec.GPEC(again, **SMALL, batch_size=25).fit(X, checkpoint=tmp_path / "c")
            np.testing.assert_array_equal(g.attributions_.values, expected)
            for path in Path(tmp_path / "c").glob("[ab]*"):
                if path != journal:
                    path.unlink()


# Behind an endpoint


@contextmanager
def endpoint(*, fails=True, seconds=0.0, kill=None):
    """A server that says "later" to one call in 20, and ``kill`` is called after some calls."""

    def predict(tensors):
        time.sleep(seconds)
        if kill is not None:
            kill(sum(request is not None for request in server.requests))
        return logistic(tensors)

    def fail(k):
        return (503, b"<html>later</html>", [("Retry-After", "0")]) if fails and k % 20 == 7 else None

    with serving(Server(predict, inputs=FLOATS, fail=fail)) as server:
        yield server


def rows_at(server):
    return [
        np.reshape(request["inputs"][0]["data"], request["inputs"][0]["shape"])
        for request in server.requests
        if request is not None
    ]


def test_an_endpoint_that_fails_one_call_in_20():
    expected = gpec.GPEC(direct, **SMALL).fit(X).explain(X[:5])
    with endpoint() as server:
        model = load_model(f"{server.address}/v2/models/m")
        found = gpec.GPEC(model, **SMALL, batch_size=40, n_jobs=4).fit(X).explain(X[:5])
    assert server.requests.count(None) > 5
    for name in ("values", "lower", "upper"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    calls = rows_at(server)
    assert max(map(len, calls)) == 40
    counts = times_asked(*calls)
    assert sum(n - 1 for n in counts.values()) <= PROBED
    assert server.connections <= 4 + server.requests.count(None)  # shared by all calls


def test_a_killed_fit_at_an_endpoint_loses_only_the_calls_under_way(tmp_path):
    n_jobs, size = 3, 40
    expected = gpec.GPEC(direct, **SMALL).fit(X).attributions_.values
    child = f"""
import gpec
from gpec.models import load_model
from test_kept_answers import SMALL, X
gpec.GPEC(load_model({{!r}}), **SMALL, batch_size={size}, n_jobs={n_jobs}).fit(X, checkpoint={str(tmp_path / "c")!r})
"""
    process = None

    def kill(n_calls):
        if n_calls == 30:
            process.kill()

    with endpoint(kill=kill) as server:
        paths = os.pathsep.join((*sys.path, str(Path(__file__).parent)))
        code = child.format(f"{server.address}/v2/models/m")
        process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})  # noqa: S603
        assert process.wait(60) == -signal.SIGKILL
        n_first = len(rows_at(server))
        model = load_model(f"{server.address}/v2/models/m")
        g = gpec.GPEC(model, **SMALL, batch_size=size, n_jobs=n_jobs).fit(X, checkpoint=tmp_path / "c")
    assert n_first < len(rows_at(server))
    np.testing.assert_array_equal(g.attributions_.values, expected)
    again = sum(n - 1 for n in times_asked(*rows_at(server)).values())
    assert again <= 2 * PROBED + n_jobs * size


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ((200, b"<!DOCTYPE html><p>Sign in"), "answered with something that is not JSON"),
        ((200, {"outputs": [{"name": "proba", "datatype": "FP64", "shape": [1], "data": [1]}]}), "of shape"),
        ((200, b"1" * 2**22), "sent more than the"),
        (lambda connection: time.sleep(2.0), r"did not answer \d tries within 0\.5 s \(timed out"),
        ((503, b"<html>later"), r"did not answer \d tries within 0\.5 s \(status 503"),
        ((401, {"error": "who are you?"}), r"status 401 \(who are you\?\)"),
    ],
    ids=["HTML", "shape", "endless", "never", "busy", "refused"],
)
def test_a_bad_endpoint_is_one_sentence(fault, words):
    with serving(Server(inputs=FLOATS, fail=lambda k: fault if k > 30 else None)) as server:
        model = load_model(f"{server.address}/v2/models/m")
        model._patience = 0.5
        with pytest.raises(ModelCallError, match=words) as error:
            gpec.GPEC(model, **SMALL, batch_size=40, n_jobs=3).fit(X)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
