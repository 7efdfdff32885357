"""Checkpoint folders: results of finished blocks of rows, so that a call that was stopped can be resumed.

The identity file of a folder lists what the results depend on. A :class:`BlockCache` adds files of results; blocks
that finish within a second of each other share a file. Each file is an atomic write, so that the process can be killed
at any moment. A slow model's answers are appended to a journal as they come; a record that was cut short is ignored.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from gpec._version import __version__
from gpec.errors import CheckpointError, CorruptFileError, InputError, ParameterTypeError
from gpec.runtime import archive
from gpec.runtime.fingerprint import fingerprint, fingerprint_of_pieces
from gpec.typing import FloatArray

_SECONDS = 1.0  # of finished work that a killed process loses at most
IDENTITY = "_identity.gpec"  # readers of Parquet ignore names that start with an underscore
_KIND, _BLOCKS = "Checkpoint", "Blocks"
_VERSION = {"the version of gpec": __version__}
_KEY = ("stage", "content", "start", "stop")
_JOURNAL = "answers-*.log"
_RECORD = struct.Struct("<32sIII")  # checksum of the keys and answers that follow; their number, their lengths
Block = dict[str, Any]


def is_begun(folder: Path, work: str) -> bool:
    """Whether a folder, which may not exist, holds work of this kind; raise if it holds anything else."""
    if (folder / IDENTITY).is_file():
        return bool(read_identity(folder, work))
    temporary = archive.temporary_files(folder / IDENTITY)  # of a process that was killed
    if folder.is_dir() and any(path not in temporary for path in folder.iterdir()):
        raise CheckpointError(f"The folder {folder} holds files that gpec did not write; give another, or a new one.")
    return False


def write_identity(folder: Path, work: str, identity: dict[str, str], notes: dict[str, Any] | None = None) -> None:
    """Write what the work depends on into a folder, made if needed; ``notes`` are values for a later call."""
    folder.mkdir(exist_ok=True)
    tree = {"work": work, "identity": {**identity, **_VERSION}, "notes": notes or {}}
    archive.write(folder / IDENTITY, _KIND, tree)


def read_identity(folder: Path, work: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The identity and the notes of the earlier call; raise if that call was of another method."""
    tree = archive.read(folder / IDENTITY, _KIND)
    if tree["work"] != work:
        raise CheckpointError(f"The folder {folder} belongs to {tree['work']}, not to {work}; give another folder.")
    return tree["identity"], tree["notes"]


def require_same(folder: Path, work: str, identity: dict[str, str]) -> dict[str, Any]:
    """The notes of the earlier call; raise if its identity differs, with a message that names the difference."""
    (earlier, notes), now = read_identity(folder, work), {**identity, **_VERSION}
    differ = [name for name in {**earlier, **now} if earlier.get(name) != now.get(name)]
    if differ:
        raise different_work(folder, *differ)
    return notes


def different_work(folder: Path, *names: str) -> CheckpointError:
    """The error that names in what the work in a folder differs."""
    return CheckpointError(
        f"The folder {folder} belongs to other work: it differs in {' and in '.join(names)}; give another folder, or "
        "delete this one to start again."
    )


def read_notes(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The notes of the first call that used a folder; empty if there was none."""
    path = check_folder(folder) / IDENTITY
    return dict(archive.read(path, _KIND)["notes"]) if path.exists() else {}


class BlockCache:
    """A cache of the results of blocks of rows in a folder, which is made if it does not exist.

    Parameters
    ----------
    folder : path
    work : str
        The name of the method.
    identity : dict of str
        What the work depends on, by name, as fingerprints or strings; all must be equal in a later call.
    notes : dict
        Values of the first call for later calls, see :func:`read_notes`.

    Raises
    ------
    CheckpointError
        If the folder belongs to other work, with a message that names the difference; or if it cannot be written.
    """

    def __init__(
        self, folder: str | os.PathLike[str], work: str, identity: dict[str, str], notes: dict[str, Any] | None = None
    ) -> None:
        self.folder = check_folder(folder)
        blocks = sorted(self.folder.glob("blocks-*.gpec"))
        self.resumed = is_begun(self.folder, work) and has_results(self.folder)  # an empty one can be used for any work
        if self.resumed:
            require_same(self.folder, work, identity)
        else:
            with self._writing():
                write_identity(self.folder, work, identity, notes)
        # marks its blocks: a process with other settings may have started in the same folder at the same time
        self._stamp = fingerprint(work, identity, notes)
        self._lock = Lock()
        self._new: list[Block] = []
        self._written = time.monotonic()
        self._results: dict[tuple[str, str, int, int], Block] = {}
        self.earlier_model_rows = 0  # for which earlier processes asked, as far as they could write it down
        self._count: Callable[[], int] = lambda: 0
        self._counted = 0
        for path in blocks:
            self._read(path)
        self._journal: BinaryIO | None = None
        self.answers: dict[bytes, bytes] = {}  # of the model, by a digest of what was asked
        for path in sorted(self.folder.glob(_JOURNAL), key=os.path.getmtime):
            self.answers.update(_read_journal(path, self._stamp))
        self.rows_used: dict[str, int] = {}  # number of rows read from the cache, by stage

    def cached(self, stage: str, function: Callable[[slice], Block], rows: FloatArray) -> Callable[[slice], Block]:
        """``function``, computed once for each block of ``rows``, also after a restart of the process.

        The key of a block is the stage, the block's place among the rows, and a fingerprint of its rows.
        """

        def from_cache(part: slice) -> Block:
            key = (stage, fingerprint(rows[part]), part.start, part.stop)
            result = self._results.get(key)
            if result is not None:
                with self._lock:
                    self.rows_used[stage] = self.rows_used.get(stage, 0) + part.stop - part.start
                return result
            result = function(part)
            with self._lock:
                self._results[key] = result
                self._new.append({**dict(zip(_KEY, key, strict=True)), "answer": result})
                if time.monotonic() - self._written >= _SECONDS:
                    self._write()
            return result

        return from_cache

    def counting(self, count: Callable[[], int]) -> int:
        """Keep how many model rows this process asks for, from ``count()``; return those of earlier processes."""
        self._count = count
        return self.earlier_model_rows

    def append_answers(self, new: dict[bytes, bytes]) -> None:
        """Keep a model's answers, of equal length, by keys of equal length; a killed process loses none of them."""
        key, answer = next(iter(new.items()))
        content = b"".join((*new.keys(), *new.values()))
        head = _RECORD.pack(fingerprint_of_pieces((content,)).encode(), len(new), len(key), len(answer))
        with self._lock, self._writing():
            if self._journal is None:
                path = self.folder / _JOURNAL.replace("*", secrets.token_hex(8))
                self._journal = open(path, "wb")  # noqa: SIM115  closed by __exit__
                self._journal.write(self._stamp.encode())
            self._journal.write(head + content)
            self._journal.flush()

    def __enter__(self) -> BlockCache:
        return self

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        with self._lock:
            try:
                if self._journal is not None:
                    self._journal.close()
                self._write()
            except CheckpointError as failed:
                if error is None:
                    raise
                if not isinstance(error, CheckpointError):  # that would repeat the message
                    error.add_note(str(failed))

    def _write(self) -> None:
        n = self._count()
        if self._new or n > self._counted:
            # a unique name, as another process may be doing the same work
            stage = self._new[0]["stage"].replace(" ", "-") if self._new else "none"
            name = f"blocks-{stage}-{secrets.token_hex(8)}.gpec"
            tree = {"stamp": self._stamp, "blocks": self._new, "model_rows": n - self._counted}
            with self._writing():
                archive.write(self.folder / name, _BLOCKS, tree)
            self._new, self._counted = [], n
        self._written = time.monotonic()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(
                f"Cannot write the checkpoint {self.folder}: {error.strerror or error}; give a writable folder with "
                "free space."
            ) from error

    def _read(self, path: Path) -> None:
        try:
            tree = archive.read(path, _BLOCKS)
            ours = tree["stamp"] == self._stamp
            self.earlier_model_rows += max(0, int(tree["model_rows"])) if ours else 0
            for block in tree["blocks"] if ours else ():
                stage, content, start, stop = (block[name] for name in _KEY)
                self._results[stage, content, start, stop] = block["answer"]
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptFileError(f"{path} has a missing or damaged part of a block: {error!r}.") from error


def has_results(folder: Path) -> bool:
    """Whether a folder holds results of an earlier call."""
    return any(folder.glob("blocks-*.gpec")) or any(folder.glob(_JOURNAL))


def _read_journal(path: Path, stamp: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and answers of a journal with this stamp, as far as it was written."""
    content = path.read_bytes()
    at, whole = len(stamp), content.startswith(stamp.encode())
    while whole and at + _RECORD.size <= len(content):
        checksum, n, key, answer = _RECORD.unpack_from(content, at)
        start, at = at + _RECORD.size, at + _RECORD.size + n * (key + answer)
        whole = fingerprint_of_pieces((content[start:at],)).encode() == checksum
        for i in range(n if whole else 0):
            middle = start + n * key + i * answer
            yield content[start + i * key : start + (i + 1) * key], content[middle : middle + answer]


def check_folder(folder: str | os.PathLike[str], name: str = "checkpoint") -> Path:
    """The path of a folder that exists or can be made; errors mention ``name``."""
    try:
        path = Path(folder)
    except TypeError as error:
        raise ParameterTypeError(f"{name}={folder!r} must be the path of a folder, or None.") from error
    try:
        exists = bool(path.stat())
    except FileNotFoundError:
        exists = False
    except (OSError, ValueError) as error:  # too long, or with an invalid character
        raise InputError(f"{name}={str(folder)!r} cannot be the name of a folder: {error}.") from error
    if exists and not path.is_dir():
        raise InputError(f"{name}={str(folder)!r} is a file; give a folder, which may be new.")
    if not path.parent.is_dir():
        raise InputError(f"Cannot make the {name} {path}: {path.parent} does not exist.")
    return path
