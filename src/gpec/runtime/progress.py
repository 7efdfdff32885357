"""Progress bars, and the time spent by stage."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal

from tqdm.auto import tqdm


class Progress:
    """A progress bar for work that takes longer than a second.

    ``progress="auto"`` shows it only on a terminal, ``True`` always, ``False`` never.
    """

    def __init__(self, total: int, what: str, progress: Literal["auto"] | bool = "auto") -> None:
        disable = {"auto": None, True: False, False: True}[progress]
        self._bar = tqdm(total=total, desc=what, disable=disable, delay=1.0, leave=False)

    def __enter__(self) -> Progress:
        return self

    def advance(self, amount: int = 1) -> None:
        self._bar.update(amount)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


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
