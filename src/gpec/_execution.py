"""Where blocks of rows run.

Work on many rows is cut into blocks of a fixed size, and each block is computed with one BLAS thread, wherever it runs:
so the bits of the result depend neither on the number of threads nor on which one took which block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

from gpec._progress import Progress
from gpec.typing import FloatArray

__all__ = ["Execution", "Kept", "one_blas_thread", "run_blocks"]

T = TypeVar("T")


class Kept(Protocol):
    """Where finished blocks of rows and finished stages are kept, so that nobody computes them again."""

    def remember(
        self, stage: str, work: Callable[[slice], dict[str, Any]], rows: FloatArray | None = None
    ) -> Callable[[slice], dict[str, Any]]: ...

    def once(self, stage: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]: ...

    def other(self, *names: str) -> Exception: ...


@dataclass(frozen=True, eq=False)
class Execution:
    """How blocks of rows run in one call: on how many threads, with which bars, and where finished ones are kept."""

    n_jobs: int | None = None
    progress: Literal["auto"] | bool = False
    kept: Kept | None = None

    def run(
        self, stage: str, work: Callable[[slice], dict[str, Any]], n: int, size: int
    ) -> Iterator[tuple[slice, dict[str, Any]]]:
        """Blocks of rows and what ``work`` found for each, in order."""
        found = work if self.kept is None else self.kept.remember(stage, work)

        def block(part: slice) -> tuple[slice, dict[str, Any]]:
            return part, found(part)

        return run_blocks(block, n, size, n_jobs=self.n_jobs, what=stage, progress=self.progress)


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


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which products take one thread: their bits then do not depend on the number of cores."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries() -> ThreadpoolController:
    """NumPy's and SciPy's, which are loaded by now; looking for them takes milliseconds, so it is done once."""
    return ThreadpoolController()
