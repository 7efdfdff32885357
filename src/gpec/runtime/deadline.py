"""Reading from a socket within one time limit, however slowly the bytes arrive."""

from __future__ import annotations

import io
import socket
import time
from typing import Any


class Deadline:
    """A moment, this many seconds from now, after which work stops."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then; raises ``TimeoutError`` when there are none."""
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("timed out")
        return seconds

    def allows(self, seconds: float) -> bool:
        """Whether so many seconds are left, and more."""
        return time.monotonic() + seconds < self._end


class DeadlineReader(io.RawIOBase):
    """The bytes that arrive at a connection until a deadline.

    A socket's own timeout starts anew with each byte that arrives. ``raw`` is the unbuffered file of the connection.
    """

    def __init__(self, raw: Any, connection: socket.socket, deadline: Deadline) -> None:
        self._raw, self._connection, self.deadline = raw, connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(self.deadline.left())
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()
