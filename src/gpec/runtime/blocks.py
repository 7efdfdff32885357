"""Execution of blocks of rows on threads or on a cluster.

Work on many rows is divided into blocks of a fixed size, and each block is computed with one BLAS thread. So the bits
of the result do not depend on the number of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing.pool import ThreadPool
from threading import Lock
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
from joblib.parallel import get_active_backend
from threadpoolctl import OpenBLASController, ThreadpoolController

from gpec.errors import ClusterError
from gpec.runtime.checkpoint import BlockCache
from gpec.runtime.payload import (
    Payload,
    WorkerWatch,
    one_at_a_time,
    picklable_errors,
    scheduler_lost,
    send,
)
from gpec.runtime.progress import progress_bar
from gpec.typing import FloatArray, IntArray

BlockFunction = Callable[[slice], dict[str, Any]]
S = TypeVar("S")
T = TypeVar("T")

_TILE = 32  # rows; a multiple of what products compute together
_LIMITING = Lock()
_limited: list[Any] = []  # one entry for each thread inside one_blas_thread; the first holds the previous limits


@dataclass(frozen=True, eq=False)
class Execution:
    """How blocks of rows run in one call: on how many threads, with which progress bars, and with which cache."""

    n_jobs: int | None = None
    progress: Literal["auto"] | bool = False
    cache: BlockCache | None = None

    def run(
        self, stage: str, function: BlockFunction, rows: FloatArray, size: int, *, label: str | None = None
    ) -> Iterator[tuple[slice, dict[str, Any]]]:
        """Blocks of at most ``size`` rows and the result of ``function`` for each, in order.

        ``stage`` is the name in the cache and, unless there is a ``label``, of the progress bar.
        """
        cached = self.cached(stage, function, rows)

        def block(part: slice) -> tuple[slice, dict[str, Any]]:
            return part, cached(part)

        return run_blocks(block, len(rows), size, n_jobs=self.n_jobs, what=label or stage, progress=self.progress)

    def cached(self, stage: str, function: BlockFunction, rows: FloatArray) -> BlockFunction:
        """``function`` of a block of ``rows``, with the cache around it if there is one."""
        return function if self.cache is None else self.cache.cached(stage, function, rows)


def run_blocks(
    work: Callable[[slice], T],
    n: int,
    size: int,
    *,
    n_jobs: int | None = None,
    what: str = "",
    progress: Literal["auto"] | bool = False,
) -> Iterator[T]:
    """``work`` for each block of at most ``size`` of ``n`` rows, in order; threads share memory.

    ``what`` is the name of the progress bar.
    """
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    with (
        one_blas_thread(),
        progress_bar(len(blocks), what, progress) as bar,
        on_threads(n_jobs) as mapped,
    ):
        for result in mapped(work, blocks):
            bar.update()
            yield result


class Mapped(Protocol):
    """A function like :func:`map`, which may use threads."""

    def __call__(self, work: Callable[[S], T], items: Iterable[S], /) -> Iterator[T]: ...


@contextmanager
def on_threads(n_jobs: int | None, *, ahead: int | None = None) -> Iterator[Mapped]:
    """:func:`map` on ``n_jobs`` threads, with joblib's meaning of ``n_jobs``; results come in order.

    At most ``ahead`` items, by default two for each thread, are computed ahead. joblib itself checks only every 10 ms
    whether a thread has finished, and blocks can be shorter. An error or Ctrl-C does not wait for blocks that are still
    running.
    """
    backend, usual = get_active_backend(require="sharedmem")
    n = backend.effective_n_jobs(usual if n_jobs is None else n_jobs)
    if n == 1:
        yield map
        return
    with ThreadPool(n) as pool:

        def mapped(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
            def caught(item: S) -> tuple[T | None, BaseException | None]:
                try:
                    return work(item), None
                except BaseException as error:  # Ctrl-C would silently end the thread of the pool
                    return None, error

            pending: deque[Any] = deque()
            for item in items:
                if len(pending) == (ahead or 2 * n):
                    yield _result_or_raise(*pending.popleft().get())
                pending.append(pool.apply_async(caught, (item,)))
            while pending:
                yield _result_or_raise(*pending.popleft().get())

        yield mapped


def _result_or_raise(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return result


def on_cluster(
    work: Callable[[slice], T], n_jobs: int | None, *, alone: bool, **parts: Any
) -> tuple[Callable[[slice], T], int | None]:
    """Inside ``parallel_config("dask")``: ``work`` as a function that runs on workers, and the number of their threads.

    Elsewhere both are returned unchanged. With ``alone``, the threads of a worker run one at a time. ``parts`` names
    the parts of the work for the error if they cannot be sent.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        return work, n_jobs
    from distributed import KilledWorker

    sent, watch = send(client, Payload.of(**parts, work=work)), WorkerWatch(client)

    def run_on_worker(part: slice) -> T:
        future = None
        try:
            future = client.submit(_run_on_worker, sent, part, alone, pure=False)
            result: T = watch.result(future)
            return result
        except ClusterError as error:
            error.add_note("fit(..., checkpoint=path) stores finished blocks, and a second call resumes from them.")
            raise
        except KilledWorker as error:
            raise ClusterError(
                f"Several workers died while they explained the rows {part.start} to {part.stop - 1}, most likely for "
                "lack of memory; give workers more memory or fewer threads. fit(..., checkpoint=path) stores finished "
                "blocks, and a second call resumes from them."
            ) from error
        except Exception as error:
            if (future is not None and future.status == "error") or not scheduler_lost(client, error):
                raise
            raise ClusterError(
                "The scheduler of the cluster was lost; start the cluster again. fit(..., checkpoint=path) stores "
                "finished blocks, and a second call resumes from them."
            ) from error

    return run_on_worker, max(1, sum(client.nthreads().values()))


def _run_on_worker(payload: Payload, part: slice, alone: bool) -> Any:
    with picklable_errors(), one_blas_thread(), one_at_a_time(alone):
        return payload.open()["work"](part)


class Lazy(Generic[S, T]):
    """:func:`functools.cached_property` without the lock that all objects of a class share in Python 3.11."""

    def __init__(self, compute: Callable[[S], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: S, owner: type | None = None) -> T:
        if one is None:  # accessed on the class
            return self  # type: ignore[return-value]
        value: T = vars(one).setdefault(self._name, self._compute(one))
        return value


def in_tiles(part: slice) -> IntArray:
    """Indices of the rows of a block, padded with the last one to a multiple of 32.

    A matrix product rounds the last rows differently if their number is not a multiple of its tile. With padding, the
    bits of a row's result do not depend on the number of rows in its block.
    """
    n = part.stop - part.start
    filled = np.arange(part.start, part.start + -(-n // _TILE) * _TILE)
    return np.asarray(np.minimum(filled, part.stop - 1), dtype=np.int64)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which matrix products use one thread, so that their bits do not depend on the number of cores.

    The limit holds for the whole process. The previous limit is restored when the last thread leaves the context.
    """
    inside = False
    try:  # Ctrl-C can interrupt any line
        with _LIMITING:
            _let_this_thread_decide()
            _limited.append(None if _limited else _libraries().limit(limits=1, user_api="blas"))
            inside = True
        yield
    finally:
        if inside:
            with _LIMITING:
                before = _limited[0] if len(_limited) == 1 else None
                _limited.pop()
                if before is not None:
                    _let_this_thread_decide()
                    before.restore_original_limits()


def _let_this_thread_decide() -> None:
    """Newer threadpoolctl obeys only the thread that set the first limit, which may not be the last to leave."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS libraries of NumPy and SciPy; the search takes milliseconds, so it is done once."""
    return ThreadpoolController()
