"""The folder of a run: one file for each partition, and a file that says what the work is."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gpec import _files
from gpec.errors import CheckpointError, CorruptFileError, InputError

__all__ = ["Target", "digest_of_files", "files_of"]

_RUN, _KIND = "_gpec_run.gpec", "ParquetRun"  # readers of Parquet pass over names that start so
_ENDINGS = (".parquet", ".pq")


@dataclass(frozen=True)
class Target:
    """Where results go. ``identity`` says what they depend on; a run that goes on must agree in all of it."""

    folder: Path
    identity: dict[str, str]

    @property
    def _run(self) -> Path:
        return self.folder / _RUN

    def prepare(self, names: list[Path], *, resume: bool, overwrite: bool) -> set[Path]:
        """Make the folder ready, and say which files an earlier run has finished."""
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"The target {self.folder} is a file; give a folder, which may be new.")
        if not self.folder.parent.is_dir():
            raise InputError(f"Cannot make the target {self.folder}: {self.folder.parent} does not exist.")
        done: set[Path] = set()
        if self.folder.exists() and any(self.folder.iterdir()):
            if resume:
                self._require_same()
            elif overwrite:
                self._remove()
            else:
                raise CheckpointError(
                    f"The target {self.folder} is not empty; pass resume=True to go on with what an earlier run left "
                    "there, overwrite=True to throw that away, or another folder."
                )
            self.tidy()
            done = {name for name in names if (self.folder / name).is_file()}
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        if not self._run.exists():
            _files.write(self._run, _KIND, self.identity)
        return done

    def tidy(self) -> None:
        """Delete what processes that were killed have left half written."""
        for file in self.folder.rglob(".*"):
            if any(f"{ending}." in file.name for ending in _ENDINGS):
                file.unlink(missing_ok=True)

    def _require_ours(self) -> None:
        if not self._run.is_file():
            raise CheckpointError(
                f"The target {self.folder} holds files that no run of gpec wrote; give another folder, which may be "
                "new."
            )

    def _require_same(self) -> None:
        self._require_ours()
        kept = _files.read(self._run, _KIND)
        differ = [name for name in {**kept, **self.identity} if kept.get(name) != self.identity.get(name)]
        if differ:
            raise CheckpointError(
                f"The target {self.folder} is of other work: it differs in {' and in '.join(differ)}; pass "
                "overwrite=True to throw it away, or give another folder."
            )

    def _remove(self) -> None:
        self._require_ours()
        self._run.unlink()
        for file in files_of(self.folder):
            (self.folder / file).unlink()


def files_of(folder: Path) -> list[Path]:
    """The Parquet files in a folder and the folders in it, in the order of their names."""
    found = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
    relative = (path.relative_to(folder) for path in found if path.suffix.lower() in _ENDINGS)
    return sorted(path for path in relative if not any(part.startswith((".", "_")) for part in path.parts))


def digest_of_files(folder: Path, names: list[Path]) -> str:
    """Equal for files that are the same by name, size, time and footer, which lists the contents of each block."""
    found = hashlib.sha256()
    for name in names:
        path = folder / name
        about = path.stat()
        with open(path, "rb") as file:
            file.seek(max(0, about.st_size - 8))
            ending = file.read(8)
            if ending[4:] != b"PAR1":
                raise CorruptFileError(f"{path} is not a whole Parquet file.")
            file.seek(max(0, about.st_size - 8 - int.from_bytes(ending[:4], "little")))
            footer = hashlib.sha256(file.read()).hexdigest()
        found.update(f"{name} {about.st_size} {about.st_mtime_ns} {footer}\n".encode())
    return found.hexdigest()
