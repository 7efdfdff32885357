"""SIGKILL at random moments: the same call goes on, and the result is the same to the bit.

A fit and an explanation of two classes here; ``make soak`` takes 50 of each, half of them of three classes.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time

import numpy as np
import pytest

import killed_work
from archive_helpers import bits
from gpec.explainers import KernelShap
from small_models import curved

TIMES = int(os.environ.get("GPEC_KILLS", "1"))


@pytest.fixture(scope="module")
def processes():
    """Processes that start at once, because all that they need is loaded."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed_work"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # where the server looks for it
        process = context.Process(target=print)
        process.start()
        process.join()
    return context


def start(processes, *arguments):
    process = processes.Process(target=killed_work.work, args=arguments)
    process.start()
    return process


@pytest.mark.parametrize("case", killed_work.CASES)
@pytest.mark.parametrize("several", [False, True] if TIMES > 1 else [False])
def test_killed_at_random_moments(processes, tmp_path, case, several):
    """Each time in a folder of its own, killed one to three times, then left to end."""
    out = tmp_path / "digest"

    def whole(n_jobs, folder):
        out.unlink(missing_ok=True)
        started = time.perf_counter()
        process = start(processes, case, several, n_jobs, folder, out)
        process.join()
        assert process.exitcode == 0
        return out.read_text(), time.perf_counter() - started

    if case == "explain":
        whole(1, None)  # makes the fit
    expected, seconds = whole(1, None)
    rng, kills, half_done = np.random.default_rng(7), 0, 0
    times = -(-TIMES // 2)  # for each number of classes
    for trial in range(times):
        folder = tmp_path / f"kept {trial}"
        left, longest = int(rng.integers(1, 4)), seconds
        while left:
            process = start(processes, case, several, int(rng.integers(1, 3)), folder, out)
            process.join(rng.uniform(0.0, longest))
            process.kill()
            process.join()
            if process.exitcode == -signal.SIGKILL:
                left, kills = left - 1, kills + 1
            else:  # it had ended: begin anew, and be quicker
                shutil.rmtree(folder)
                longest *= 0.7
        half_done += bool(list(folder.glob("blocks-*.gpec")))
        assert whole(int(rng.integers(1, 3)), folder)[0] == expected, trial
    print(f"\n{case}, {3 if several else 2} classes: {times} of {times} the same, {kills} kills, {half_done} resumed")
    assert half_done > 0 or times == 1


@pytest.fixture
def python_handles_ctrl_c():
    """Whatever tests before this one made of SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_while_a_block_takes_long(make, X, tmp_path, n_jobs, monkeypatch, python_handles_ctrl_c):
    """It ends at once, with what is done kept, though a thread may still wait for the model."""
    monkeypatch.setattr(KernelShap, "rows_at_once", 2)
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 0.0)
    pressed, ended, first = [], threading.Event(), threading.Lock()

    def press():
        time.sleep(0.3)
        pressed.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def model(rows):
        if len(list((tmp_path / "kept").glob("blocks-explainer*"))) >= 3 and not ended.is_set():
            if first.acquire(blocking=False):
                threading.Thread(target=press).start()
            ended.wait(20)
        return curved(rows)

    expected = bits(make(curved, "kernelshap").fit(X))
    with pytest.raises(KeyboardInterrupt):
        make(model, "kernelshap", n_jobs=n_jobs).fit(X, checkpoint=tmp_path / "kept")
    assert time.perf_counter() - pressed[0] < 2.0
    ended.set()
    again = make(curved, "kernelshap").fit(X, checkpoint=tmp_path / "kept")
    assert bits(again) == expected
    assert again.diagnostics_["rows_resumed"]["boundary"] > 0
    assert again.diagnostics_["rows_resumed"]["explainer 0"] >= 6
