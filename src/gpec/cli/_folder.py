"""Where a run keeps what is done: the fit, and blocks of explained rows."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpec import _files
from gpec.errors import CheckpointError
from gpec.estimator import GPEC

__all__ = ["Folder"]

_KIND = "Run"


@dataclass(frozen=True)
class Folder:
    """The folder of one run, made when there is something to keep.

    ``identity`` says what the fit was made from; a later run must agree in all of it.
    """

    path: Path
    identity: dict[str, str]

    @property
    def fit(self) -> Path:
        return self.path / "fit.gpec"

    @property
    def rows(self) -> Path:
        return self.path / "rows"

    @property
    def _run(self) -> Path:
        return self.path / "run.gpec"

    def check(self) -> bool:
        """Whether a fit is kept here; raise if it was made from something else."""
        if not self.path.exists() or not any(self.path.iterdir()):
            return False
        self._require_ours()
        kept = _files.read(self._run, _KIND)
        differ = [name for name in {**kept, **self.identity} if kept.get(name) != self.identity.get(name)]
        if differ:
            raise CheckpointError(
                f"{self.path} holds an earlier run with another {' and another '.join(differ)}; pass --restart to "
                "throw it away, or another folder as --checkpoint."
            )
        return self.fit.exists()

    def keep(self, g: GPEC) -> None:
        """Keep a fit."""
        self.path.mkdir(exist_ok=True)
        _files.write(self._run, _KIND, self.identity)
        g.save(self.fit)

    def remove(self) -> None:
        """Delete what a run wrote, and the folder if nothing else is in it."""
        if self.path.exists() and any(self.path.iterdir()):
            self._require_ours()
            shutil.rmtree(self.rows, ignore_errors=True)
            for file in (*self.path.glob(".*.gpec.*"), self.fit, self._run):  # the first of a process that was killed
                file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _require_ours(self) -> None:
        if not self._run.is_file():
            raise CheckpointError(f"{self.path} is not of a run of gpec; give another folder as --checkpoint.")
