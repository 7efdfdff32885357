"""Work that goes on where it stopped: finished blocks of rows, kept in a folder.

The folder holds ``identity.gpec``, which says what the work is, and files of finished blocks. Each file is written
whole or not at all, so that a process may be killed at any moment. Blocks that end within a second of each other share
a file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

from gpec import _files
from gpec.errors import CheckpointError, CorruptFileError, InputError

__all__ = ["Checkpoint"]

_SECONDS = 1.0  # of work that a killed process loses, besides the blocks that it was at
_IDENTITY, _BLOCKS = "identity.gpec", "Blocks"
Block = dict[str, Any]


class Checkpoint:
    """A folder of finished blocks; made if it is not there.

    Parameters
    ----------
    folder : path
    identity : dict of str
        What the blocks depend on, by name, as digests or words; another call must agree in all of them.

    Raises
    ------
    CheckpointError
        If the folder is of other work; the message names the difference.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: dict[str, str]) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"checkpoint={str(folder)!r} is a file; give a folder, which may be new.")
        if not self.folder.parent.is_dir():
            raise InputError(f"Cannot make the checkpoint {self.folder}: {self.folder.parent} does not exist.")
        self.folder.mkdir(exist_ok=True)
        self._require_same(identity)
        self._lock = Lock()
        self._new: list[Block] = []
        self._written = time.monotonic()
        self._found: dict[tuple[str, int, int], Block] = {}
        for path in sorted(self.folder.glob("blocks-*.gpec")):
            self._read(path)
        self.rows_used: dict[str, int] = {}  # by stage, that were there already

    def remember(self, stage: str, work: Callable[[slice], Block]) -> Callable[[slice], Block]:
        """``work`` that is done once for each block of rows, whoever asks and however often the process ends."""

        def once(part: slice) -> Block:
            key = (stage, part.start, part.stop)
            found = self._found.get(key)
            if found is not None:
                with self._lock:
                    self.rows_used[stage] = self.rows_used.get(stage, 0) + part.stop - part.start
                return found
            answer = work(part)
            with self._lock:
                self._found[key] = answer
                self._new.append({"stage": stage, "start": part.start, "stop": part.stop, "answer": answer})
                if time.monotonic() - self._written >= _SECONDS:
                    self._write()
            return answer

        return once

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._new:
            first = self._new[0]
            name = f"blocks-{first['stage'].replace(' ', '-')}-{first['start']:010d}.gpec"
            _files.write(self.folder / name, _BLOCKS, {"blocks": self._new})
            self._new = []
        self._written = time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            for block in _files.read(path, _BLOCKS)["blocks"]:
                self._found[block["stage"], block["start"], block["stop"]] = block["answer"]
        except (KeyError, TypeError) as error:
            raise CorruptFileError(f"{path} lacks or garbles part of a block: {error!r}.") from error

    def _require_same(self, identity: dict[str, str]) -> None:
        path = self.folder / _IDENTITY
        if not path.exists():
            if any(self.folder.iterdir()):
                raise CheckpointError(f"The folder {self.folder} holds other files; give a new folder as checkpoint.")
            _files.write(path, "Checkpoint", identity)
            return
        kept = _files.read(path, "Checkpoint")
        differ = [name for name in {**kept, **identity} if kept.get(name) != identity.get(name)]
        if differ:
            raise CheckpointError(
                f"The checkpoint {self.folder} is of other work: it differs in {' and in '.join(differ)}; give another "
                "folder, or delete this one to start anew."
            )
