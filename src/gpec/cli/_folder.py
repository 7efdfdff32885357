"""Where a run keeps what is done: the fit, finished or not, and blocks of explained rows."""

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
    def fitting(self) -> Path:
        """What is done of a fit that is not finished."""
        return self.path / "fitting"

    @property
    def calibrating(self) -> Path:
        """What is done of its calibration."""
        return self.path / "calibrating"

    @property
    def rows(self) -> Path:
        return self.path / "rows"

    @property
    def has_work(self) -> bool:
        """Whether anything is done that a later run can use."""
        return self.fit.exists() or any(self.path.glob("*/blocks-*.gpec"))

    @property
    def _run(self) -> Path:
        return self.path / "run.gpec"

    def check(self) -> bool:
        """Whether some work is kept here; raise if it was made from something else."""
        if not self.path.exists() or not any(self.path.iterdir()):
            return False
        self._require_ours()
        if not self.has_work:
            return False
        kept = _files.read(self._run, _KIND)
        differ = [name for name in {**kept, **self.identity} if kept.get(name) != self.identity.get(name)]
        if differ:
            raise CheckpointError(
                f"{self.path} holds an earlier run with another {' and another '.join(differ)}; pass --restart to "
                "throw it away, or another folder as --checkpoint."
            )
        return True

    def start(self) -> None:
        """Say what the work is, before it begins."""
        self.path.mkdir(exist_ok=True)
        _files.write(self._run, _KIND, self.identity)

    def keep(self, g: GPEC) -> None:
        """Keep a finished fit in place of what was done of it."""
        g.save(self.fit)
        for folder in (self.fitting, self.calibrating):
            shutil.rmtree(folder, ignore_errors=True)

    def remove(self) -> None:
        """Delete what a run wrote, and the folder if nothing else is in it."""
        if self.path.exists() and any(self.path.iterdir()):
            self._require_ours()
            for folder in (self.fitting, self.calibrating, self.rows):
                shutil.rmtree(folder, ignore_errors=True)
            for file in (*self.path.glob(".*.gpec.*"), self.fit, self._run):  # the first of a process that was killed
                file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def _require_ours(self) -> None:
        begun = f".{self._run.name}."  # a process may have been killed while it wrote its first file
        if not self._run.is_file() and any(not path.name.startswith(begun) for path in self.path.iterdir()):
            raise CheckpointError(f"{self.path} is not of a run of gpec; give another folder as --checkpoint.")
