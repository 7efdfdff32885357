"""Where blocks of rows run.

Work on many rows is cut into blocks of a fixed size, and each block is computed with one BLAS thread, wherever it runs:
so the bits of the result depend neither on the number of threads nor on which one took which block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from gpec._progress import Progress

__all__ = ["one_blas_thread", "run_blocks"]

T = TypeVar("T")


def run_blocks(
    work: Callable[[slice], T],
    n: int,
    size: int,
    *,
    n_jobs: int | None = None,
    what: str = "rows",
    progress: Literal["auto"] | bool = False,
) -> Iterator[T]:
    """``work`` on each block of at most ``size`` of ``n`` rows, in order; threads share memory."""
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    with one_blas_thread(), Progress(len(blocks), what, progress) as bar:
        for result in Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
            delayed(work)(block) for block in blocks
        ):
            bar.advance()
            yield result


def one_blas_thread() -> threadpool_limits:
    """A context in which products take one thread: their bits then do not depend on the number of cores."""
    return threadpool_limits(1, "blas")
