"""Where a run keeps what is done: the fit, finished or not, and blocks of explained rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gpec._checkpoint import IDENTITY, has_identity, require_same, write_identity
from gpec._files import half_written
from gpec.cli._errors import note
from gpec.errors import CheckpointError

__all__ = ["Folder"]

_WORK = "the command line"
_PARTS = ("fitting", "calibrating", "rows")  # checkpoints of fit, calibrate and explain


@dataclass(frozen=True)
class Folder:
    """The folder of one run. ``identity`` says what the fit is made from; a later run must agree in all of it."""

    path: Path
    identity: dict[str, str]

    @property
    def fit(self) -> Path:
        """The finished fit."""
        return self.path / "fit.gpec"

    @contextmanager
    def working(self, *, restart: bool, keep: bool) -> Iterator[None]:
        """Go on with what an earlier run left, or throw it away; at the end of the block delete what was kept."""
        try:
            if restart:
                self._remove()
            if has_identity(self.path) and self._has_work():
                require_same(self.path, _WORK, self.identity)
                note(f"Going on with what an earlier run left in {self.path}.")
            else:
                write_identity(self.path, _WORK, self.identity)
            yield
        except CheckpointError as error:
            error.add_note("--checkpoint FOLDER takes another folder, --restart throws away what an earlier run left.")
            raise
        except BaseException as error:
            if self._has_work():
                error.add_note(f"What was computed is kept in {self.path}; the same command goes on from there.")
            else:
                self._remove()
            raise
        if not keep:
            self._remove()

    def _has_work(self) -> bool:
        return self.fit.exists() or any(self.path.glob("*/blocks-*.gpec"))

    def _remove(self) -> None:
        """Delete what a run wrote, and the folder if nothing else is in it."""
        if has_identity(self.path):
            for part in _PARTS:
                shutil.rmtree(self.path / part, ignore_errors=True)
            for file in (self.fit, self.path / IDENTITY):
                for path in (file, *half_written(file)):
                    path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()
