"""The folder of a run: one file for each partition, and a file that says what the work is."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpec import _files
from gpec.errors import CheckpointError, CorruptFileError, InputError

__all__ = ["Target", "digests_of_files", "files_of", "require_room", "require_stamp"]

_RUN, _KIND = "_gpec_run.gpec", "ParquetRun"  # readers of Parquet pass over names that start so
_ENDINGS = (".parquet", ".pq")
_HALF = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # the name of a file that is being written


@dataclass(frozen=True)
class Target:
    """Where results go.

    ``identity`` says what they depend on besides the rows; a run that goes on must agree in all of it. ``files`` are
    digests of the files that are explained, by name; one that has changed since is explained anew.
    """

    folder: Path
    identity: dict[str, str]
    files: dict[str, str]

    @property
    def _run(self) -> Path:
        return self.folder / _RUN

    def prepare(self, *, resume: bool, overwrite: bool) -> set[str]:
        """Make the folder ready, and say which files an earlier run has finished."""
        kept: dict[str, str] = {}
        if require_room(self.folder, resume=resume, overwrite=overwrite):
            if resume:
                kept = self._require_same()
            else:
                self._remove()
            self.tidy()
        for name, digest in self.files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            if kept.get(name) != digest:
                (self.folder / name).unlink(missing_ok=True)
        if kept != self.files:
            _files.write(self._run, _KIND, {"identity": self.identity, "files": self.files})
        return {name for name in self.files if (self.folder / name).is_file()}

    def stamp(self, name: str) -> str:
        """Tells the result of a file in this run apart from that of another run, or of another state of the file."""
        return _stamp(self.identity, self.files, name)

    def tidy(self) -> None:
        """Delete what processes that were killed have left half written."""
        ours = {self._run, *(self.folder / name for name in self.files)}
        for file in self.folder.rglob(".*"):
            half = _HALF.fullmatch(file.name)
            if half and file.with_name(half[1]) in ours:
                file.unlink(missing_ok=True)

    def _require_same(self) -> dict[str, str]:
        """The digests of the files that an earlier run found."""
        identity, files = _kept(self._run)
        differ = [name for name in {**identity, **self.identity} if identity.get(name) != self.identity.get(name)]
        if differ:
            raise CheckpointError(
                f"The target {self.folder} is of other work: it differs in {' and in '.join(differ)}; pass "
                "overwrite=True to throw it away, or give another folder."
            )
        gone = [name for name in files if name not in self.files]
        if gone:
            raise CheckpointError(
                f"The target {self.folder} is of more files than there are now: {gone[0]} is no longer in the source; "
                "put it back, pass overwrite=True to throw the target away, or give another folder."
            )
        return files

    def _remove(self) -> None:
        """Delete what the earlier run wrote, and nothing else."""
        for name in _kept(self._run)[1]:
            (self.folder / name).unlink(missing_ok=True)
        self._run.unlink()


def require_room(folder: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether there is work of an earlier run, which is to be used or thrown away; raise if the folder will not do."""
    if resume and overwrite:
        raise InputError("resume=True and overwrite=True exclude each other; pass one of them.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"The target {folder} is a file; give a folder, which may be new.")
    if not folder.parent.is_dir():
        raise InputError(f"Cannot make the target {folder}: {folder.parent} does not exist.")
    if not folder.exists() or not any(folder.iterdir()):
        return False
    if not (folder / _RUN).is_file():
        raise CheckpointError(
            f"The target {folder} holds files that no run of gpec wrote; give another folder, which may be new."
        )
    if not (resume or overwrite):
        raise CheckpointError(
            f"The target {folder} is not empty; pass resume=True to go on with what an earlier run left there, "
            "overwrite=True to throw that away, or another folder."
        )
    return True


def files_of(folder: Path) -> list[Path]:
    """The Parquet files in a folder and the folders in it, in the order of their names; links are followed."""
    seen: set[str] = set()
    found = []
    for root, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(root) in seen:  # a link to a folder above it
            folders.clear()
            continue
        seen.add(os.path.realpath(root))
        found += [Path(root, name) for name in names]
    relative = (path.relative_to(folder) for path in found if path.suffix.lower() in _ENDINGS)
    return sorted(path for path in relative if not any(part.startswith((".", "_")) for part in path.parts))


def digests_of_files(folder: Path, names: list[Path]) -> dict[str, str]:
    """By name; equal for files of the same size, time and footer, which lists the contents of each block."""
    found = {}
    for name in names:
        path = folder / name
        about = path.stat()
        with open(path, "rb") as file:
            file.seek(max(0, about.st_size - 8))
            ending = file.read(8)
            if ending[4:] != b"PAR1":
                raise CorruptFileError(f"{path} is not a whole Parquet file.")
            file.seek(max(0, about.st_size - 8 - int.from_bytes(ending[:4], "little")))
            footer = hashlib.sha256(file.read())
        footer.update(f"{about.st_size} {about.st_mtime_ns}".encode())
        found[str(name)] = footer.hexdigest()
    return found


def require_stamp(folder: Path, name: str, stamp: str) -> None:
    """Raise if the folder is of another run by now; a task may outlive the run that it belongs to."""
    path = folder / _RUN
    if not path.is_file() or _stamp(*_kept(path), name) != stamp:
        raise CheckpointError(f"The target {folder} is of another run by now; what this one found for {name} is lost.")


def _stamp(identity: dict[str, str], files: dict[str, str], name: str) -> str:
    return _files.digest({"identity": identity, "file": files.get(name, "")})


def _kept(run: Path) -> tuple[dict[str, str], dict[str, str]]:
    tree = _files.read(run, _KIND)
    try:
        return tree["identity"], tree["files"]
    except KeyError as error:
        raise CheckpointError(f"{run.parent} is of an earlier version of gpec; give another folder.") from error
