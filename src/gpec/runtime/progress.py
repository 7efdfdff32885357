"""Progress bars, and the time spent by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tqdm.auto import tqdm


def progress_bar(total: int, what: str, progress: Literal["auto"] | bool = "auto") -> tqdm[Any]:
    """A progress bar for work that takes longer than a second; a context, in which ``update(n)`` counts.

    ``progress="auto"`` shows it only on a terminal, ``True`` always, ``False`` never.
    """
    disable = {"auto": None, True: False, False: True}[progress]
    return tqdm(total=total, desc=what, disable=disable, delay=1.0, leave=False)


class Clock:
    """Seconds spent, by stage."""

    def __init__(self, seconds: dict[str, float] | None = None) -> None:
        self.seconds = dict(seconds or {})

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - started
