"""The answers of a model that is slow or paid by the call, kept so that nothing is asked twice.

Models behind an endpoint are asked *by row*: each distinct row once, in batches that go out on several threads. Other
models that turn out to be slow are asked as always, and a *call* with the same rows is not repeated; so the time that
a model takes decides no bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import BoundedSemaphore, Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from gpec.data._equality import contents_of
from gpec.models._remote import calling
from gpec.runtime.blocks import on_threads
from gpec.runtime.checkpoint import BlockCache
from gpec.typing import FloatArray, IntArray

Ask = Callable[[IntArray], FloatArray]

_MOST_BYTES = 256 * 2**20
_WAITING = 4  # threads for each call at a time: some wait before they try again
_BYTES_OF_ENTRY = 200  # in the dict, besides the numbers


class Answers:
    """Answers by the content of what was asked; the oldest are dropped beyond 256 MB.

    Parameters
    ----------
    endpoint_rows : int or None
        Rows that a call of an endpoint takes; None for a model in this process.
    batch_size : int or None
        Rows in one call, as the user wants it.
    """

    def __init__(self, endpoint_rows: int | None = None, batch_size: int | None = None) -> None:
        self.endpoint_rows, self.batch_size = endpoint_rows, batch_size
        self.n_jobs: int | None = 1
        self._checkpoint: BlockCache | None = None
        self._ignored = False
        self._kept: dict[bytes, bytes] = {}
        self._n_bytes = 0
        self._lock = Lock()

    def __reduce__(self) -> Any:  # a copy in another process begins anew
        return Answers, (self.endpoint_rows, self.batch_size)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def by_row(self) -> bool:
        """Whether distinct rows are asked once, in batches; else whole calls are kept."""
        return self.batch_size is not None or self.endpoint_rows is not None

    @contextmanager
    def during(self, batch_size: int | None, n_jobs: int | None, checkpoint: BlockCache | None) -> Iterator[None]:
        """Take these settings, and enter a context in which answers are also kept in a checkpoint and read from it."""
        self.batch_size, self.n_jobs = batch_size, n_jobs
        if checkpoint is not None:
            self._add(checkpoint.answers)
            self._checkpoint = checkpoint
        try:
            yield
        finally:
            if self._checkpoint is checkpoint:  # not that of another call under way
                self._checkpoint = None

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """A context in which the model is asked even for what is known, as to see whether it answers the same."""
        before, self._ignored = self._ignored, True
        try:
            yield
        finally:
            self._ignored = before

    def take(self, other: Answers) -> None:
        """Take over what is known to another."""
        self._add(other._kept)

    def of_rows(self, Z: FloatArray, ask: Ask, size: int, n_jobs: int | None = None) -> FloatArray:
        """Answers to rows; those that are not known are asked by ``ask``, given the positions of ``size`` of them."""
        keys = [_digest(content) for content in contents_of(Z)]
        with self._lock:
            known = {} if self._ignored else {key: self._kept[key] for key in {*keys} & self._kept.keys()}
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            if key not in known:
                first.setdefault(key, i)
        unknown = list(first.values())

        batches = [unknown[start : start + size] for start in range(0, len(unknown), size)]
        n = effective_n_jobs((n_jobs or self.n_jobs) if len(batches) > 1 else 1)
        most, failed = BoundedSemaphore(n), dict[int, Exception]()

        def ask_batch(at: list[int]) -> dict[bytes, bytes]:
            with calling(most):
                if failed:  # calls that are under way end, and their answers are kept
                    return {}
                try:
                    scores = ask(np.array(at, dtype=np.int64))
                    new = {keys[i]: answer.tobytes() for i, answer in zip(at, scores, strict=True)}
                    self._add(new, keep=True)
                except Exception as error:
                    failed[at[0]] = error
                    return {}
                return new

        with on_threads(n if n == 1 else _WAITING * n, ahead=len(batches)) as mapped:
            for new in mapped(ask_batch, batches):
                known.update(new)
        if failed:
            raise failed[min(failed)]
        return _numbers([known[key] for key in keys], len(Z))

    def of_call(self, Z: FloatArray, ask: Callable[[], FloatArray], slow: Callable[[], bool]) -> FloatArray:
        """Answers to the rows of one call, kept if the model is ``slow``."""
        if self._kept and not self._ignored and (known := self._kept.get(_digest(Z.tobytes()))) is not None:
            return _numbers([known], len(Z))
        scores = ask()
        if slow():
            self._add({_digest(Z.tobytes()): scores.tobytes()}, keep=True)
        return scores

    def _add(self, new: dict[bytes, bytes], *, keep: bool = False) -> None:
        """Remember answers, and ``keep`` them in the checkpoint."""
        with self._lock:
            for key, answer in new.items():
                if key not in self._kept:
                    self._kept[key] = answer
                    self._n_bytes += _BYTES_OF_ENTRY + len(answer)
            while self._n_bytes > _MOST_BYTES:
                oldest = next(iter(self._kept))
                self._n_bytes -= _BYTES_OF_ENTRY + len(self._kept.pop(oldest))
        if keep and self._checkpoint is not None:
            self._checkpoint.append_answers(new)


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def _numbers(answers: list[bytes], n: int) -> FloatArray:
    return np.frombuffer(bytearray().join(answers), dtype=np.float64).reshape(n, -1)
