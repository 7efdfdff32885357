"""A million rows in Parquet files: one process, two workers, a worker killed, the scheduler killed, memory.

``python -m benchmarks.distributed 20000`` tries it with fewer rows.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost

import gpec
from gpec.distributed import explain_parquet
from paper import data as datasets

ROWS, FILES = 1_000_000, 100
JITTERED = ("Age", "Hours per week", "Capital Gain", "Capital Loss")


def fitted(mode="predict"):
    """A fit of Census with an XGBoost model of one thread, on seed 30."""
    data = datasets.census()
    X, y = data.X, np.asarray(data.y)
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1, random_state=0).fit(X, y)
    rows = X.sample(8_300, random_state=30)
    g = gpec.GPEC(model, "tree", mode=mode, background=25, random_state=30, progress=False).fit(rows[:8_000])
    return g if mode == "explain" else g.calibrate(rows[8_000:]), X


def write_rows(X, folder, n, files, first=0):
    """Rows of Census drawn with replacement; four columns of numbers are moved by up to 2%, so that rows differ."""
    rng = np.random.default_rng([31, first])
    folder.mkdir(parents=True)
    each = n // files
    for i in range(first, first + files):
        some = X.iloc[rng.integers(len(X), size=each)].reset_index(drop=True)
        for name in JITTERED:
            some[name] *= rng.uniform(0.98, 1.02, each)
        some.index = pd.RangeIndex(i * each, (i + 1) * each)
        some.to_parquet(folder / f"part.{i:04d}.parquet")


@contextmanager
def cluster(n_workers=2, **environment):
    """A scheduler and workers of one thread, as processes of their own; the client, and the scheduler's process."""
    from distributed import Client

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        start = [sys.executable, "-m", "dask"]
        # a session each: Linux shares the processor between sessions first
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, "start_new_session": True}
        quiet["env"] = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])} | environment  # workers import it
        where = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file), "--port", "0"]
        scheduler = subprocess.Popen([*start, "scheduler", *where], **quiet)
        worker = [*start, "worker", "--nthreads", "1", "--no-dashboard", "--scheduler-file", str(file)]
        workers = [subprocess.Popen([*worker, "--name", f"w{i}"], **quiet) for i in range(n_workers)]
        try:
            while not file.exists():
                time.sleep(0.1)
            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(n_workers, timeout=120)
                yield client, scheduler
        finally:
            for process in (*workers, scheduler):
                process.terminate()
            for process in (*workers, scheduler):
                process.wait(30)


def finished(folder):
    return len(list(folder.rglob("*.parquet"))) if folder.exists() else 0


def when(folder, n, do):
    """Do something once so many files are there."""

    def watch():
        while finished(folder) < n:
            time.sleep(0.05)
        do()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def seconds(work):
    started, own = time.perf_counter(), time.process_time()
    found = work()
    return found, time.perf_counter() - started, time.process_time() - own


def cpu_and_peak():
    """Of this process: seconds of processor time, and the most memory that it had, in MB."""
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    return time.process_time(), peak


def same(a, b):
    names, others = (sorted(path.relative_to(folder) for path in folder.rglob("*.parquet")) for folder in (a, b))
    return names == others and all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def one_and_two(g, X, work, n, files, how, **environment):
    """Seconds of one process and of two workers for the same rows, each half in turn."""
    source, halves = work / "rows", ("a", "b")
    for i, half in enumerate(halves):
        write_rows(X, source / half, n // 2, files // 2, i * (files // 2))
    x = {"rows": n, "files": files, "one": 0.0, "one_cpu": 0.0, "two": 0.0}
    for name in ("one", "two"):
        (work / name).mkdir()
    with cluster(**environment) as (client, _):
        write_rows(X, work / "few", 200, 2)
        for name, where in (("first", "synchronous"), ("start", client)):  # what is imported is imported here
            x[name] = seconds(partial(explain_parquet, g, work / "few", work / name, scheduler=where, **how))[1]
        before = client.run(cpu_and_peak)
        for half in halves:  # in turn, because the machine is faster at some times than at others
            for name, where in (("one", "synchronous"), ("two", client)):
                given = (g, source / half, work / name / half)
                _, took, worked = seconds(partial(explain_parquet, *given, scheduler=where, **how))
                x[name] += took
                x["one_cpu"] += worked if name == "one" else 0.0
            print(x, flush=True)
        after = client.run(cpu_and_peak)
        x["two_cpu"] = sum(after[w][0] - before[w][0] for w in after)
    x["two_same"] = same(work / "one", work / "two")
    shutil.rmtree(work / "two")
    print(x, flush=True)
    return x


def measure(g, X, work, n, files):
    source, how = work / "rows", {"attribution": "posterior"}
    x = one_and_two(g, X, work, n, files, how)
    with cluster() as (client, _):
        pids = client.run(os.getpid)
        killing = when(work / "killed", files // 4, lambda: os.kill(min(pids.values()), signal.SIGKILL))
        run, x["killed"], _ = seconds(lambda: explain_parquet(g, source, work / "killed", scheduler=client, **how))
        killing.join()
    x["killed_same"] = same(work / "one", work / "killed") and run.n_rows == n
    shutil.rmtree(work / "killed")
    print(x, flush=True)
    with cluster() as (client, scheduler):
        killing = when(work / "lost", files // 4, scheduler.kill)
        try:
            explain_parquet(g, source, work / "lost", scheduler=client, **how)
        except gpec.errors.ClusterError as error:
            x["message"] = str(error).replace(str(work.resolve()), "...").replace(client.scheduler.address, "ADDRESS")
        killing.join()
    x["kept"] = finished(work / "lost")
    with cluster() as (client, _):
        run = explain_parquet(g, source, work / "lost", scheduler=client, resume=True, **how)
    x["resumed"], x["resumed_same"] = run.n_resumed, same(work / "one", work / "lost") and run.n_rows == n
    return x


def memory(g, X, work, files, each):
    """Peak memory of the workers, in MB, before and after so many files."""
    source = work / f"rows{files}"
    write_rows(X, source, files * each, files)
    with cluster() as (client, _):
        explain_parquet(g, source, work / f"memory{files}", scheduler=client, attribution="posterior")
        return {"files": files, "rows": files * each, "peaks": [peak for _, peak in client.run(cpu_and_peak).values()]}


def run(n=ROWS, files=FILES, each=2_000):
    g, X = fitted()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        x = measure(g, X, work, n, files)
        x["memory"] = [memory(g, X, work, count, each) for count in (10, 100)]
    x["exact"] = exact(n, files)
    print(x, flush=True)
    return x


def exact(n=ROWS, files=FILES):
    """Intervals of mode "explain".

    Dask tells its workers to give freed memory back at once, and large arrays are then slow to make; they keep 128 MB.
    """
    with tempfile.TemporaryDirectory() as folder:
        given = (*fitted("explain"), Path(folder), n, files, {"attribution": "explainer"})
        return one_and_two(*given, MALLOC_TRIM_THRESHOLD_=str(2**27))


def _exact_lines(x, word):
    speed = {name: f"{x[name]:.0f} s, {x['rows'] / x[name]:,.0f} rows a second" for name in ("one", "two")}
    return [
        f'| mode "explain", {x["rows"]:,} rows with exact intervals, one process | {speed["one"]} | |',
        f'| mode "explain", two workers with MALLOC_TRIM_THRESHOLD_ of 128 MB | {speed["two"]}: '
        f"**{x['one'] / x['two']:.2f} times** one process; {word(x['two_same'])} | 1.6 |",
    ]


def report(x):
    few, many = x["memory"]

    def word(good):
        return "the same bytes" if good else "**other bytes**"

    return [
        f"{x['rows']:,} rows of Census in {x['files']} Parquet files (rows drawn with replacement; age, hours, gains "
        'and losses moved by up to 2%), XGBoost, `attribution="posterior"`, 200 explained rows; reading and writing '
        "included. A worker is a process with one thread; Dask's settings are its defaults. One process and two "
        "workers take half of the rows in turn, both after a first folder of 200 rows. For that one the workers take "
        f"{x['start'] - x['first']:.1f} s longer, to import what is needed.",
        "",
        "| what | measured | target |",
        "|---|---|---|",
        f"| one process | {x['one']:.0f} s ({x['one_cpu']:.0f} s of processor time) | |",
        f"| two workers | {x['two']:.0f} s ({x['two_cpu']:.0f} s of processor time): "
        f"**{x['one'] / x['two']:.2f} times** one process; {word(x['two_same'])} | 1.6 |",
        f"| a worker killed after a quarter | {x['killed']:.0f} s; every row once, {word(x['killed_same'])} | "
        "the same |",
        f"| the scheduler killed after a quarter | {x['kept']} files kept, {x['resumed']} of them taken over by the "
        f"second run; {word(x['resumed_same'])} | the same |",
        f"| peak memory of a worker, {few['files']} and {many['files']} files of {few['rows'] // few['files']:,} rows "
        f"| {max(few['peaks']):.0f} and {max(many['peaks']):.0f} MB | independent of the number |",
        *(_exact_lines(x["exact"], word) if "exact" in x else []),
        "",
        f"The error when the scheduler is gone: *{x['message']}*",
    ]


if __name__ == "__main__":
    print("\n".join(report(run(int(sys.argv[1]), 20, 200))))
