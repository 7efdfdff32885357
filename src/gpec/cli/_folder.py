"""Where a run keeps what is done: the fit, finished or not, and blocks of explained rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpec._checkpoint import IDENTITY, has_identity, write_identity
from gpec.cli._errors import note
from gpec.errors import CheckpointError

__all__ = ["working_in"]

_PARTS = ("fitting", "calibrating", "rows")  # the checkpoints of fit, calibrate and explain


@contextmanager
def working_in(folder: Path, *, restart: bool, keep: bool) -> Iterator[None]:
    """Go on with what an earlier run left in a folder, or throw it away; at the end of the block it is deleted.

    The checkpoints in it know what they are of. The folder itself is only marked as one of a command.
    """
    try:
        if restart:
            _remove(folder)
        if has_identity(folder) and _has_work(folder):
            note(f"Going on with what an earlier run left in {folder}.")
        else:
            write_identity(folder, "the command line", {})
        yield
    except CheckpointError as error:
        error.add_note("--checkpoint FOLDER takes another folder, --restart throws away what an earlier run left.")
        raise
    except BaseException as error:
        if _has_work(folder):
            error.add_note(f"What was computed is kept in {folder}; the same command goes on from there.")
        else:
            _remove(folder)
        raise
    if not keep:
        _remove(folder)


def _has_work(folder: Path) -> bool:
    return any(folder.glob("fit-*.gpec")) or any(folder.glob("*/blocks-*.gpec"))


def _remove(folder: Path) -> None:
    """Delete what a run wrote, and the folder if nothing else is in it."""
    if has_identity(folder):
        for part in _PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)
        for name in ("fit-*.gpec", ".fit-*.gpec.*", IDENTITY, f".{IDENTITY}.*"):  # with a dot: half written
            for file in folder.glob(name):
                file.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()
