"""Two worker processes: the bits of the local call, whoever dies."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import gpec
from extras import torch, xgboost
from gpec.distributed import explain_parquet
from gpec.errors import ClusterError, ClusterWarning
from small_models import curved, slopes

dd = pytest.importorskip("dask.dataframe")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

# The workers of a scheduler that is gone end by themselves.
CLUSTER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@contextmanager
def after_one_file(folder, do):
    """Do something as soon as the first file is there."""
    ended = threading.Event()

    def watch():
        while not any(folder.glob("*.parquet")) and not ended.is_set():
            time.sleep(0.01)
        do()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def slow(make_auto, rows):
    """A GPEC whose model takes its time."""

    def thoughtful(X):
        time.sleep(0.1)
        return curved(X)

    return make_auto(thoughtful, slopes).fit(rows)


@pytest.fixture
def many(tmp_path, rows):
    """A folder of ten files."""
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(10):
        rows[10 * i : 10 * i + 10].to_parquet(folder / f"part.{i}.parquet")
    return folder


def test_frames_and_folders(fitted, rows, parquet, tmp_path, client):
    local = fitted.explain(rows)
    lazy = fitted.explain(dd.from_pandas(rows, npartitions=4))
    found = client.compute(lazy).result()
    pd.testing.assert_frame_equal(found.reset_index(drop=True), local.to_frame(), check_exact=True)
    explain_parquet(fitted, parquet, tmp_path / "here", scheduler="synchronous")
    run = explain_parquet(fitted, parquet, tmp_path / "there", scheduler=client)
    assert (run.n_rows, run.n_resumed) == (101, 0)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    again = explain_parquet(
        fitted, parquet, tmp_path / "there", scheduler=client.scheduler.address, resume=True, overwrite=False
    )
    assert again.n_resumed == 4


def models(X, y):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, xgboost.DMatrix(X, y), 10)
    return {"torch": net.train(), "xgboost": booster, "sklearn": LogisticRegression().fit(X, y)}


@pytest.mark.parametrize("kind", ["torch", "xgboost", "sklearn"])
def test_models_survive_the_trip(make_auto, rows, client, kind):
    model = models(rows, curved(rows) > 0.5)[kind]
    g = make_auto(model, "shapley_sampling", n_explained=6, n_boundary=40, noise="none").fit(rows)
    for attribution in ("explainer", "posterior"):
        lazy = g.explain(dd.from_pandas(rows[:20], npartitions=2), attribution=attribution)
        found = client.compute(lazy).result().reset_index(drop=True)
        parts = [g.explain(rows[part], attribution=attribution) for part in (slice(0, 10), slice(10, 20))]
        expected = pd.concat([part.to_frame() for part in parts], ignore_index=True)
        pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_errors_come_back_with_their_names(fitted, rows, tmp_path, client):
    source = tmp_path / "holes"
    source.mkdir()
    rows.assign(b=rows["b"].where(rows.index != 1_007)).to_parquet(source / "a.parquet")
    with pytest.raises(gpec.errors.InputError, match=r"^Partition 0 \(a.parquet\), row 7 \(labelled 1007\): X has a"):
        explain_parquet(fitted, source, tmp_path / "raised", scheduler=client)
    run = explain_parquet(fitted, source, tmp_path / "kept", scheduler=client, errors="keep")
    assert (run.n_rows, run.n_failed) == (101, 1)


def test_a_worker_killed_midway(slow, many, rows, tmp_path, client):
    pid = min(client.run(os.getpid).values())
    explain_parquet(slow, many, tmp_path / "whole", scheduler="synchronous", attribution="posterior")
    with after_one_file(tmp_path / "killed", lambda: os.kill(pid, signal.SIGKILL)):
        run = explain_parquet(slow, many, tmp_path / "killed", scheduler=client, attribution="posterior")
    assert (run.n_partitions, run.n_rows) == (10, 100)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob(".*"))


@contextmanager
def cluster_to_kill(tmp_path):
    """A cluster in a process of its own, and the address of its scheduler."""
    (tmp_path / "cluster.py").write_text(CLUSTER)
    with subprocess.Popen(  # noqa: S603  our own program
        [sys.executable, str(tmp_path / "cluster.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_the_scheduler_killed_midway(slow, many, tmp_path, caplog):
    explain_parquet(slow, many, tmp_path / "whole", scheduler="synchronous", attribution="posterior")
    with (
        cluster_to_kill(tmp_path) as (process, address),
        after_one_file(tmp_path / "lost", process.kill),
        pytest.raises(ClusterError, match=rf"The scheduler at {address} was lost; start the cluster again") as caught,
    ):
        explain_parquet(slow, many, tmp_path / "lost", scheduler=address, attribution="posterior")
    assert re.match(r"\d+ of 10 partitions are done and kept in .*; pass resume=True", caught.value.__notes__[0])
    assert not [record for record in caplog.records if record.exc_info]  # no traceback before the sentence
    kept = contents(tmp_path / "lost")
    assert 0 < len(kept) < 10
    run = explain_parquet(slow, many, tmp_path / "lost", scheduler="synchronous", attribution="posterior", resume=True)
    assert (run.n_resumed, run.n_rows) == (len(kept), 100)
    assert contents(tmp_path / "lost") == contents(tmp_path / "whole")


def test_the_connection_breaks_before_the_client_notices(fitted, parquet, tmp_path, client, monkeypatch):
    def broken(future, timeout=None):
        raise distributed.comm.CommClosedError("Connection reset by peer")

    monkeypatch.setattr(distributed.Future, "result", broken)
    with pytest.raises(ClusterError, match="was lost; start the cluster again") as caught:
        explain_parquet(fitted, parquet, tmp_path / "out", scheduler=client)
    assert re.match(r"\d of 4 partitions are done", caught.value.__notes__[0])
    assert client.status == "running"


def test_an_error_of_a_task_is_not_taken_for_a_lost_scheduler(fitted, parquet, tmp_path, client, monkeypatch):
    def broken(job, task):
        raise distributed.comm.CommClosedError("a connection of its own")

    monkeypatch.setattr("gpec.distributed._scheduler._explain_there", broken)
    with pytest.raises(distributed.comm.CommClosedError, match="a connection of its own"):
        explain_parquet(fitted, parquet, tmp_path / "out", scheduler=client)


def test_the_scheduler_killed_while_fitting(make_auto, rows, tmp_path):
    begun = tmp_path / "begun"

    def thoughtful(X):
        begun.touch()
        time.sleep(60)

    with (
        cluster_to_kill(tmp_path) as (process, address),
        distributed.Client(address, timeout=5, set_as_default=False) as own,
    ):

        def kill():
            while not begun.exists():
                time.sleep(0.01)
            process.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with (
            joblib.parallel_config("dask", client=own),
            pytest.raises(ClusterError, match=r"The scheduler of the cluster was lost.*fit\(..., checkpoint=path\)"),
        ):
            make_auto(curved, thoughtful).fit(rows)
        killer.join()


def test_a_cluster_without_workers_says_that_it_waits(fitted, parquet, tmp_path):
    with (
        distributed.LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):

        def hire(message, *_):
            assert re.search(
                r"has no workers; the work waits 300 seconds until one starts \('dask worker tcp://", str(message)
            )
            cluster.scale(1)

        with warnings.catch_warnings():
            warnings.simplefilter("always", ClusterWarning)
            warnings.showwarning = hire
            run = explain_parquet(fitted, parquet, tmp_path / "out", scheduler=client, attribution="posterior")
    assert run.n_rows == sum(len(pd.read_parquet(file)) for file in parquet.glob("*.parquet"))


@pytest.fixture
def short_wait(monkeypatch):
    monkeypatch.setattr("gpec.runtime.payload.WAIT_FOR_WORKERS", 1.0)
    monkeypatch.setattr("gpec.runtime.payload.ASKED_EVERY", 0.2)


@contextmanager
def a_worker_at_last(cluster):
    """Starts a worker after a minute: where nobody gives up, the test fails instead of waiting for ever."""
    timer = threading.Timer(60, cluster.scale, [1])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_all_workers_gone(slow, many, tmp_path, short_wait):
    """An error after the stated time; what was finished is kept, and used by the next call."""
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
        a_worker_at_last(cluster),
        after_one_file(tmp_path / "out", lambda: cluster.scale(0)),
        pytest.raises(ClusterError, match=r"no workers for \d+ seconds; start workers") as caught,
    ):
        explain_parquet(slow, many, tmp_path / "out", scheduler=own, attribution="posterior")
    assert re.match(r"\d+ of 10 partitions are done and kept in .*; pass resume=True", caught.value.__notes__[0])
    kept = contents(tmp_path / "out")
    assert 0 < len(kept) < 10
    run = explain_parquet(slow, many, tmp_path / "out", scheduler="synchronous", attribution="posterior", resume=True)
    assert (run.n_resumed, run.n_rows) == (len(kept), 100)


def test_all_workers_gone_while_fitting(make_auto, rows, tmp_path, short_wait):
    begun = tmp_path / "begun"

    def thoughtful(X):
        begun.touch()
        time.sleep(5)
        return slopes(X)

    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
    ):

        def dismiss():
            while not begun.exists():
                time.sleep(0.01)
            cluster.scale(0)

        thread = threading.Thread(target=dismiss)
        thread.start()
        with (
            joblib.parallel_config("dask", client=own),
            a_worker_at_last(cluster),
            pytest.raises(ClusterError, match=r"no workers for \d+ seconds") as caught,
        ):
            make_auto(curved, thoughtful).fit(rows)
        thread.join()
    assert "checkpoint=path" in caught.value.__notes__[0]


def test_workers_with_another_version_are_not_used(fitted, parquet, tmp_path, client, monkeypatch):
    monkeypatch.setattr("gpec.runtime.payload.__version__", "9.9.9")
    with pytest.raises(ClusterError, match=r"^This process has gpec 9.9.9, but the worker tcp://\S+ has gpec \d.*same"):
        explain_parquet(fitted, parquet, tmp_path / "out", scheduler=client)


@pytest.mark.parametrize(("scheduler", "who"), [(True, "the scheduler"), (False, "the worker tcp://b:2")])
def test_a_cluster_without_the_package(fitted, parquet, tmp_path, client, monkeypatch, scheduler, who):
    def run_on_scheduler(client, function):
        if scheduler:
            raise ModuleNotFoundError("No module named 'gpec'")
        return function()

    def run(client, function, on_error):
        lacks = function() if scheduler else Exception("ModuleNotFoundError(\"No module named 'gpec'\")")
        return {"tcp://a:1": OSError("gone"), "tcp://b:2": lacks}

    monkeypatch.setattr(type(client), "run_on_scheduler", run_on_scheduler)
    monkeypatch.setattr(type(client), "run", run)
    with pytest.raises(ClusterError, match=rf"but {who} cannot use gpec \(.*No module named 'gpec'.*; install"):
        explain_parquet(fitted, parquet, tmp_path / "out", scheduler=client)


def test_no_scheduler_there(fitted, parquet, tmp_path, monkeypatch):
    monkeypatch.setattr("gpec.distributed._scheduler._SECONDS", 0.5)
    with pytest.raises(ClusterError, match=r"^No scheduler answers at tcp://127.0.0.1:9 .*'dask scheduler'"):
        explain_parquet(fitted, parquet, tmp_path / "out", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("explainer", ["shapley_sampling", slopes])
def test_fit_explains_its_rows_there(make_auto, rows, client, monkeypatch, explainer):
    monkeypatch.setattr("gpec.explainers.base._MODEL_ROWS_AT_ONCE", 200)  # several blocks
    how = {"n_explained": 6, "n_boundary": 40, "noise": "none"}
    here = make_auto(curved, explainer, **how).fit(rows)
    there = make_auto(curved, explainer, **how)
    with joblib.parallel_config("dask", client=client):
        there.fit(rows)
    assert np.array_equal(there.attributions_.values, here.attributions_.values)
    a, b = there.explain(rows), here.explain(rows)
    for name in ("values", "lower", "upper", "model_variance"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


def test_the_explainer_runs_on_the_workers(make_auto, rows, client):
    def who(X):
        return np.full(np.shape(X), float(os.getpid()))

    g = make_auto(curved, who, similar=None, kernel="weg")
    with joblib.parallel_config("dask", client=client):
        g.fit(rows)
    assert set(g.attributions_.values.ravel()) <= set(map(float, client.run(os.getpid).values()))


def test_the_error_of_an_explainer_there(make_auto, rows, client):
    def broken(X):
        raise ValueError("boom")

    with (
        joblib.parallel_config("dask", client=client),
        pytest.raises(gpec.errors.ExplainerError, match="The explainer raised ValueError on rows 0 to 24 of 25: boom"),
    ):
        make_auto(curved, broken).fit(rows)


class Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, X):
        return curved(X)


def test_a_model_that_cannot_be_sent_for_a_fit(make_auto, rows, client):
    with (
        joblib.parallel_config("dask", client=client),
        pytest.raises(gpec.errors.ParameterTypeError, match=r"^The model \(Locked\) cannot be sent to other processes"),
    ):
        make_auto(Locked(), slopes).fit(rows)


def test_a_model_that_ends_its_worker(make_auto, rows, tmp_path):
    def deadly(X):
        if np.asarray(X)[:, 0].max() > 1e3:
            os._exit(1)
        return curved(X)

    source = tmp_path / "deadly"
    source.mkdir()
    rows.assign(a=1e6).to_parquet(source / "a.parquet")
    with (
        # the first death counts, and the second worker serves the second part: none need be started again
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
    ):
        g = make_auto(deadly, slopes).fit(rows)
        with pytest.raises(ClusterError, match=r"Partition 0 \(a.parquet\) was with several workers when they died"):
            explain_parquet(g, source, tmp_path / "out", scheduler=own, attribution="posterior")

        def deadly_explainer(X):
            os._exit(1)

        with (
            joblib.parallel_config("dask", client=own),
            pytest.raises(ClusterError, match=r"Several workers died while they explained the rows 0 to \d+, most"),
        ):
            make_auto(curved, deadly_explainer).fit(rows)


def test_a_worker_that_cannot_import_the_model(make_auto, rows, tmp_path, client, monkeypatch):
    (tmp_path / "only_here.py").write_text("from small_models import curved\ndef rate(X):\n    return curved(X)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    g = make_auto(gpec.models.load_model("only_here:rate"), slopes).fit(rows)
    (tmp_path / "rows").mkdir()
    rows.to_parquet(tmp_path / "rows" / "a.parquet")
    with pytest.raises(ClusterError, match=r"cannot import what the model or the explainer needs .*only_here"):
        explain_parquet(g, tmp_path / "rows", tmp_path / "out", scheduler=client)
