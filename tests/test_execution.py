"""Blocks of rows: in order, with the same bits wherever they run."""

import threading
import time
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gpec.errors import CheckpointError, ClusterError
from gpec.runtime.blocks import in_tiles, on_threads, one_blas_thread, run_blocks
from gpec.runtime.checkpoint import BlockCache
from gpec.runtime.payload import WorkerWatch

N_JOBS = [None, 1, 2, 3, -1]


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize(("n", "size", "count"), [(10, 4, 3), (8, 4, 2), (3, 4, 1), (1, 1, 1), (0, 4, 0)])
def test_blocks_cover_the_rows_in_order(n_jobs, n, size, count):
    blocks = list(run_blocks(lambda part: part, n, size, n_jobs=n_jobs))
    assert len(blocks) == count
    assert [row for part in blocks for row in range(n)[part]] == list(range(n))
    assert all(part.stop - part.start == size for part in blocks[:-1])
    assert not blocks or blocks[-1].stop == n


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_results_come_in_order_however_long_they_take(n_jobs):
    def work(part):
        time.sleep(0.02 * (part.start % 3 == 0))  # those that start first end last
        return part.start

    assert list(run_blocks(work, 9, 1, n_jobs=n_jobs)) == list(range(9))


def test_jobs_run_beside_each_other():
    """Two blocks that wait for each other end only if both run at once."""
    meeting = threading.Barrier(2, timeout=20)
    assert sorted(run_blocks(lambda part: meeting.wait(), 2, 1, n_jobs=2)) == [0, 1]


def test_same_bits_for_any_number_of_jobs():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(500, 300)), rng.normal(size=(300, 200))

    def digest(n_jobs, threads):
        with threadpool_limits(threads, "blas"):
            parts = run_blocks(lambda part: np.linalg.norm(A[part] @ B, axis=1), len(A), 64, n_jobs=n_jobs)
            return np.concatenate(list(parts)).tobytes()

    expected = digest(1, 1)
    for n_jobs in N_JOBS:
        for threads in (1, 2):
            assert digest(n_jobs, threads) == expected


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_one_blas_thread_in_each_block(n_jobs):
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        seen = list(run_blocks(lambda part: blas_threads(), 6, 2, n_jobs=n_jobs))
        assert seen == [{1}] * 3
        assert blas_threads() == before
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before


@pytest.mark.parametrize("n_jobs", N_JOBS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_error_in_a_block_comes_through(n_jobs, error):
    def work(part):
        if part.start == 4:
            raise error("block 2")
        return part.start

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(error, match="block 2"):
            list(run_blocks(work, 10, 2, n_jobs=n_jobs))
        assert blas_threads() == before


def test_blocks_share_memory():
    out = np.zeros(10)

    def work(part):
        out[part] = part.start

    list(run_blocks(work, 10, 5, n_jobs=2))
    assert out.tolist() == [0.0] * 5 + [5.0] * 5


def test_one_blas_thread_until_the_last_thread_leaves():
    """The number is the process's: who leaves first must not give threads to who is still computing."""
    inside, left = threading.Event(), threading.Event()
    seen = []

    def stay():
        with one_blas_thread():
            inside.set()
            assert left.wait(20)
            seen.append(blas_threads())

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        other = threading.Thread(target=stay)
        with one_blas_thread():
            other.start()
            assert inside.wait(20)
        left.set()
        other.join(20)
        assert seen == [{1}]
        assert blas_threads() == before


@pytest.mark.parametrize(("start", "stop", "count"), [(0, 1, 32), (5, 37, 32), (5, 38, 64), (1024, 2048, 1024)])
def test_blocks_are_filled_up_with_their_last_row(start, stop, count):
    rows = in_tiles(slice(start, stop))
    assert len(rows) == count
    assert rows[: stop - start].tolist() == list(range(start, stop))
    assert set(rows[stop - start :].tolist()) <= {stop - 1}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_can_be_kept_for_several_rounds(n_jobs):
    with on_threads(n_jobs) as mapped:
        for _ in range(3):
            assert list(mapped(str, range(5))) == ["0", "1", "2", "3", "4"]


def test_results_are_not_made_far_ahead_of_who_takes_them():
    begun = []
    with on_threads(2) as mapped:
        results = mapped(lambda i: begun.append(i), iter(range(100)))
        next(results)
        time.sleep(0.1)
        assert len(begun) <= 5


def test_an_error_does_not_wait_for_blocks_that_are_running():
    release = threading.Event()

    def work(part):
        if part.start == 0:
            raise ValueError("the first")
        release.wait(20)

    started = time.monotonic()
    try:
        with pytest.raises(ValueError, match="the first"):
            list(run_blocks(work, 2, 1, n_jobs=2))
        assert time.monotonic() - started < 10
    finally:
        release.set()


def test_threads_are_counted_as_joblib_counts_them():
    def threads(n_jobs=None):
        names = set()
        list(run_blocks(lambda part: (time.sleep(0.01), names.add(threading.get_ident())), 20, 1, n_jobs=n_jobs))
        return len(names)

    assert threads() == 1
    with joblib.parallel_config("threading", n_jobs=3):
        assert threads() > 1
    with pytest.raises(ValueError, match="n_jobs == 0"):
        threads(0)


def test_blocks_of_work_that_began_in_the_same_moment(tmp_path):
    """Of two processes with other settings, the second writes the identity anew while there is no block."""

    def block(checkpoint, answer):
        return checkpoint.cached("boundary", lambda _: answer, np.zeros((5, 2)))(slice(0, 5))

    first = BlockCache(tmp_path / "kept", "fit", {"n_boundary": "60"})
    second = BlockCache(tmp_path / "kept", "fit", {"n_boundary": "80"})
    for checkpoint, answer in ((first, 60), (second, 80)):
        with checkpoint:
            assert block(checkpoint, {"n": answer}) == {"n": answer}
    with BlockCache(tmp_path / "kept", "fit", {"n_boundary": "80"}) as third:
        assert block(third, {}) == {"n": 80}
    with pytest.raises(CheckpointError, match="differs in n_boundary"):
        BlockCache(tmp_path / "kept", "fit", {"n_boundary": "60"})


def test_the_wait_for_workers_begins_when_the_last_is_gone(monkeypatch):
    """And the scheduler is asked every five seconds only."""
    now, asked, workers = [0], [], {"tcp://a:1": 1}
    monkeypatch.setattr("gpec.runtime.payload.time", SimpleNamespace(monotonic=lambda: now[0]))
    scheduler = SimpleNamespace(address="tcp://s:1")
    watch = WorkerWatch(SimpleNamespace(scheduler=scheduler, nthreads=lambda: asked.append(now[0]) or workers))
    for now[0] in range(400):
        watch.check()
    assert asked == list(range(5, 400, 5))
    workers.clear()
    for now[0] in range(400, 700):
        watch.check()
    now[0] = 700
    with pytest.raises(ClusterError, match=r"^The cluster has had no workers for 305 seconds; .*tcp://s:1"):
        watch.check()
