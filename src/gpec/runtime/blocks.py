"""Where blocks of rows run.

Work on many rows is cut into blocks of a fixed size, and each block is computed with one BLAS thread, wherever it runs:
so the bits of the result depend neither on the number of threads nor on which one took which block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
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
from gpec.runtime.payload import Payload, errors_that_travel, in_turn, scheduler_lost, send, worker_killed
from gpec.runtime.progress import Progress
from gpec.typing import FloatArray, IntArray

__all__ = ["Execution", "Lazy", "in_tiles", "on_cluster", "on_threads", "one_blas_thread", "run_blocks"]

BlockFunction = Callable[[slice], dict[str, Any]]
S = TypeVar("S")
T = TypeVar("T")

_TILE = 32  # rows; a multiple of what products compute together
_LIMITING = Lock()
_limited: list[Any] = []  # one entry for each thread that is inside; the first holds what was before


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
    what: str | None = None,
    progress: Literal["auto"] | bool = False,
) -> Iterator[T]:
    """``work`` on each block of at most ``size`` of ``n`` rows, in order; threads share memory.

    What has a name, ``what``, has a bar.
    """
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    with (
        one_blas_thread(),
        nullcontext() if what is None else Progress(len(blocks), what, progress) as bar,
        on_threads(n_jobs) as mapped,
    ):
        for result in mapped(work, blocks):
            if bar is not None:
                bar.advance()
            yield result


class Mapped(Protocol):
    """What :func:`map` does, on threads or not."""

    def __call__(self, work: Callable[[S], T], items: Iterable[S], /) -> Iterator[T]: ...


@contextmanager
def on_threads(n_jobs: int | None) -> Iterator[Mapped]:
    """:func:`map` on ``n_jobs`` threads, counted as joblib does; results come in order, two for each thread ahead.

    joblib itself looks every 10 ms whether a thread is done, and blocks may take less. An error or Ctrl-C does not wait
    for blocks that are still running.
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
                except BaseException as error:  # a thread of the pool would end of Ctrl-C, and nobody hear of it
                    return None, error

            ahead: deque[Any] = deque()
            for item in items:
                if len(ahead) == 2 * n:
                    yield _raised_or_found(*ahead.popleft().get())
                ahead.append(pool.apply_async(caught, (item,)))
            while ahead:
                yield _raised_or_found(*ahead.popleft().get())

        yield mapped


def _raised_or_found(found: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return found


def on_cluster(
    work: Callable[[slice], T], n_jobs: int | None, *, alone: bool, **parts: Any
) -> tuple[Callable[[slice], T], int | None]:
    """``work`` done by workers, and threads enough to wait for all of them, inside ``parallel_config("dask")``.

    Elsewhere both are returned as they are. With ``alone`` the threads of a worker take turns. ``parts`` of the work
    are named by the error if they cannot be sent.
    """
    client = getattr(get_active_backend()[0], "client", None)
    if client is None:
        return work, n_jobs
    sent = send(client, Payload.of(**parts, work=work))

    def there(part: slice) -> T:
        future = None
        try:
            future = client.submit(_done_there, sent, part, alone, pure=False)
            found: T = future.result()
            return found
        except Exception as error:
            if worker_killed(error):
                raise ClusterError(
                    f"Rows {part.start} to {part.stop - 1} of those to explain were with several workers when they "
                    "died, most likely for lack of memory; give workers more memory or fewer threads. fit(..., "
                    "checkpoint=path) keeps what is done, and a second call goes on from there."
                ) from error
            if (future is not None and future.status == "error") or not scheduler_lost(client, error):
                raise
            raise ClusterError(
                "The scheduler of the cluster was lost; start the cluster again. fit(..., checkpoint=path) keeps what "
                "is done, and a second call goes on from there."
            ) from error

    return there, max(1, sum(client.nthreads().values()))


def _done_there(parcel: Payload, part: slice, alone: bool) -> Any:
    with errors_that_travel(), one_blas_thread(), in_turn(alone):
        return parcel.open()["work"](part)


class Lazy(Generic[S, T]):
    """:func:`functools.cached_property` without the lock by which Python 3.11 makes all objects of a class wait."""

    def __init__(self, compute: Callable[[S], T]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: S, owner: type | None = None) -> T:
        if one is None:  # asked of the class
            return self  # type: ignore[return-value]
        found: T = vars(one).setdefault(self._name, self._compute(one))
        return found


def in_tiles(part: slice) -> IntArray:
    """The rows of a block, the last one repeated until 32 divides their number.

    A product rounds the rows that are left over at its end otherwise than those before. With none left over, the bits
    of a row's answer do not depend on how many rows stand beside it.
    """
    n = part.stop - part.start
    filled = np.arange(part.start, part.start + -(-n // _TILE) * _TILE)
    return np.asarray(np.minimum(filled, part.stop - 1), dtype=np.int64)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which products take one thread: their bits then do not depend on the number of cores.

    The number is the process's: it is put back when the last of several threads leaves.
    """
    inside = False
    try:  # Ctrl-C may come at any line
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
    """Newer threadpoolctl heeds only the thread that first set a number, which may not be the last to leave."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@cache
def _libraries() -> ThreadpoolController:
    """NumPy's and SciPy's, which are loaded by now; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()
