"""Work that goes on where it stopped: finished blocks of rows and finished stages, kept in a folder.

The folder holds ``identity.gpec``, which says what the work is, and files of finished blocks. Each file is written
whole or not at all, so that a process may be killed at any moment. Blocks that end within a second of each other share
a file.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any

import numpy as np

from gpec import _files
from gpec._version import __version__
from gpec.errors import CheckpointError, CorruptFileError, InputError, ParameterTypeError
from gpec.typing import FloatArray

__all__ = ["Checkpoint", "notes_in"]

_SECONDS = 1.0  # of work that a killed process loses, besides the blocks that it was at
_IDENTITY, _KIND, _BLOCKS = "identity.gpec", "Checkpoint", "Blocks"
_KEY = ("stage", "content", "start", "stop")
Block = dict[str, Any]
Key = tuple[str, str, int, int]


class Checkpoint:
    """A folder of finished blocks; made if it is not there.

    Parameters
    ----------
    folder : path
    work : str
        The method whose work it is.
    identity : dict of str
        What the work depends on, by name, as digests or words; another call must agree in all of them.
    notes : dict
        Further facts for a later call, which :func:`notes_in` reads; they are those of the first call.

    Raises
    ------
    CheckpointError
        If the folder is of other work, with a message that names the difference; or if it cannot be written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        work: str,
        identity: dict[str, str],
        notes: dict[str, Any] | None = None,
    ) -> None:
        self.folder = _checked(folder)
        identity = {**identity, "the version of gpec": __version__}
        if _foreign(self.folder):
            raise CheckpointError(f"The folder {self.folder} holds other files; give a new folder as checkpoint.")
        blocks = sorted(path for path in self.folder.glob("blocks-*.gpec") if path.is_file())
        if blocks:
            self._require_same(work, identity)
        else:  # what has no blocks is of no work
            with self._writing():
                self.folder.mkdir(exist_ok=True)
                tree = {"work": work, "identity": identity, "notes": notes or {}}
                _files.write(self.folder / _IDENTITY, _KIND, tree)
        # tells its blocks from those of a process that began in the same moment with other settings
        self._stamp = _files.digest({"work": work, "identity": identity, "notes": notes or {}})
        self._lock = Lock()
        self._new: list[Block] = []
        self._written = time.monotonic()
        self._found: dict[Key, Block] = {}
        for path in blocks:
            self._read(path)
        self.rows_used: dict[str, int] = {}  # by stage, that were there already

    def remember(
        self, stage: str, work: Callable[[slice], Block], rows: FloatArray | None = None
    ) -> Callable[[slice], Block]:
        """``work`` that is done once for each block of rows, whoever asks and however often the process ends.

        Blocks are known by their place, or by their content if it is all that the work depends on: the ``rows``.
        """

        def once(part: slice) -> Block:
            content = "" if rows is None else digest(rows[part])
            found, was_there = self._once((stage, content, part.start, part.stop), lambda: work(part))
            if was_there:
                with self._lock:
                    self.rows_used[stage] = self.rows_used.get(stage, 0) + part.stop - part.start
            return found

        return once

    def once(self, stage: str, work: Callable[[], Block]) -> Block:
        """What ``work`` gives, done once."""
        return self._once((stage, "", 0, 0), work)[0]

    def other(self, *names: str) -> CheckpointError:
        """The error that says in what this work differs."""
        return CheckpointError(
            f"The checkpoint {self.folder} is of other work: it differs in {' and in '.join(names)}; give another "
            "folder, or delete this one to start anew."
        )

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            try:
                self._write()
            except CheckpointError as failed:
                if error is None:
                    raise
                if not isinstance(error, CheckpointError):  # which would say the same
                    error.add_note(str(failed))

    def _once(self, key: Key, work: Callable[[], Block]) -> tuple[Block, bool]:
        found = self._found.get(key)
        if found is not None:
            return found, True
        answer = work()
        with self._lock:
            self._found[key] = answer
            self._new.append({**dict(zip(_KEY, key, strict=True)), "answer": answer})
            if time.monotonic() - self._written >= _SECONDS:
                self._write()
        return answer, False

    def _write(self) -> None:
        if self._new:
            # a name that no other process takes that may be at the same work
            name = f"blocks-{self._new[0]['stage'].replace(' ', '-')}-{secrets.token_hex(8)}.gpec"
            with self._writing():
                _files.write(self.folder / name, _BLOCKS, {"stamp": self._stamp, "blocks": self._new})
            self._new = []
        self._written = time.monotonic()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(
                f"Cannot write the checkpoint {self.folder}: {error.strerror or error}; give a folder that can be "
                "written and has room."
            ) from error

    def _read(self, path: Path) -> None:
        try:
            tree = _files.read(path, _BLOCKS)
            for block in tree["blocks"] if tree["stamp"] == self._stamp else ():
                stage, content, start, stop = (block[name] for name in _KEY)
                self._found[stage, content, start, stop] = block["answer"]
        except (KeyError, TypeError) as error:
            raise CorruptFileError(f"{path} lacks or garbles part of a block: {error!r}.") from error

    def _require_same(self, work: str, identity: dict[str, str]) -> None:
        tree = _files.read(self.folder / _IDENTITY, _KIND)
        found = tree.get("work", "an earlier version")
        if found != work:
            raise CheckpointError(f"The checkpoint {self.folder} is of {found}, not of {work}; give another folder.")
        kept = tree["identity"]
        differ = [name for name in {**kept, **identity} if kept.get(name) != identity.get(name)]
        if differ:
            raise self.other(*differ)


def notes_in(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The notes of the first call that worked in a folder; none if there was none."""
    path = _checked(folder) / _IDENTITY
    return dict(_files.read(path, _KIND).get("notes", {})) if path.exists() else {}


def digest(array: FloatArray) -> str:
    """Equal for arrays of the same content."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


def _checked(folder: str | os.PathLike[str]) -> Path:
    """A folder that is there or can be made."""
    try:
        path = Path(folder)
    except TypeError as error:
        raise ParameterTypeError(f"checkpoint={folder!r} must be the path of a folder, or None.") from error
    try:
        path.stat()
        there = True
    except FileNotFoundError:
        there = False
    except (OSError, ValueError) as error:  # too long, or a character that no name has
        raise InputError(f"checkpoint={str(folder)!r} cannot be the name of a folder: {error}.") from error
    if there and not path.is_dir():
        raise InputError(f"checkpoint={str(folder)!r} is a file; give a folder, which may be new.")
    if not path.parent.is_dir():
        raise InputError(f"Cannot make the checkpoint {path}: {path.parent} does not exist.")
    return path


def _foreign(folder: Path) -> bool:
    """Whether files of somebody else lie there, and none of ours; a process that was killed may leave half a file."""
    if not folder.is_dir() or (folder / _IDENTITY).exists():
        return False
    return any(not path.name.startswith(f".{_IDENTITY}.") for path in folder.iterdir())
