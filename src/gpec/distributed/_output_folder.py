"""The output folder of a run: one file for each partition, and the identity file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpec.errors import CheckpointError, CorruptFileError, InputError
from gpec.runtime.archive import temporary_files
from gpec.runtime.checkpoint import check_folder, is_begun, read_identity, require_same, write_identity
from gpec.runtime.fingerprint import fingerprint

_WORK = "explain_parquet"
_ENDINGS = (".parquet", ".pq")


@dataclass(frozen=True)
class OutputFolder:
    """The folder of the results.

    ``identity`` holds what they depend on besides the rows; a run that resumes must have the same. ``files`` are
    fingerprints of the explained files, by name; a file that changed is explained again.
    """

    folder: Path
    identity: dict[str, str]
    files: dict[str, str]

    def prepare(self, *, resume: bool, overwrite: bool) -> set[str]:
        """Prepare the folder, and return the files that an earlier run finished."""
        finished: dict[str, str] = {}
        if require_room(self.folder, resume=resume, overwrite=overwrite):
            if resume:
                finished = require_same(self.folder, _WORK, self.identity)["files"]
                gone = [name for name in finished if name not in self.files]
                if gone:
                    raise CheckpointError(
                        f"The folder {self.folder} belongs to a run with more files: {gone[0]} is no longer in the "
                        "source; put it back, give another folder, or delete this one to start again."
                    )
            else:
                for name in read_identity(self.folder, _WORK)[1]["files"]:
                    (self.folder / name).unlink(missing_ok=True)
            self.tidy()
        for name, content in self.files.items():
            if finished.get(name) != content:
                (self.folder / name).unlink(missing_ok=True)
        if finished != self.files:
            notes = {"files": self.files, "run": fingerprint(self.identity)}
            write_identity(self.folder, _WORK, self.identity, notes)
        for name in self.files:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        return {name for name in self.files if (self.folder / name).is_file()}

    def stamp(self, name: str) -> str:
        """Fingerprint of this run and of the file's content."""
        return fingerprint(fingerprint(self.identity), self.files[name])

    def tidy(self) -> None:
        """Delete the incomplete files of killed processes."""
        for name in self.files:
            for path in temporary_files(self.folder / name):
                path.unlink(missing_ok=True)


def require_room(folder: Path, *, resume: bool, overwrite: bool) -> bool:
    """Whether there is work of an earlier run to use or delete; raise if the folder cannot be used."""
    if resume and overwrite:
        raise InputError("resume=True and overwrite=True exclude each other; pass one of them.")
    if not is_begun(check_folder(folder, "target"), _WORK):
        return False
    if not (resume or overwrite):
        raise CheckpointError(
            f"The target {folder} is not empty; pass resume=True to continue the earlier run, "
            "overwrite=True to delete its files, or another folder."
        )
    return True


def files_of(folder: Path) -> list[Path]:
    """The Parquet files in a folder and the folders in it, in the order of their names; links are followed."""
    seen: set[str] = set()
    paths = []
    for root, folders, names in os.walk(folder, followlinks=True):
        if os.path.realpath(root) in seen:  # a link to a folder above it
            folders.clear()
            continue
        seen.add(os.path.realpath(root))
        paths += [Path(root, name) for name in names]
    relative = (path.relative_to(folder) for path in paths if path.suffix.lower() in _ENDINGS)
    return sorted(path for path in relative if not any(part.startswith((".", "_")) for part in path.parts))


def fingerprints_of(folder: Path, names: list[Path]) -> dict[str, str]:
    """By name; from the size, the time and the footer, which lists the contents of each block."""
    fingerprints = {}
    for name in names:
        path = folder / name
        about = path.stat()
        with open(path, "rb") as file:
            file.seek(max(0, about.st_size - 8))
            ending = file.read(8)
            if ending[4:] != b"PAR1":
                raise CorruptFileError(f"{path} is not a complete Parquet file.")
            file.seek(max(0, about.st_size - 8 - int.from_bytes(ending[:4], "little")))
            fingerprints[str(name)] = fingerprint(file.read(), about.st_size, about.st_mtime_ns)
    return fingerprints


def require_stamp(folder: Path, name: str, stamp: str) -> None:
    """Raise if the folder now belongs to another run; a task may outlive its run."""
    notes: dict[str, Any] = read_identity(folder, _WORK)[1] if is_begun(folder, _WORK) else {"run": "", "files": {}}
    if fingerprint(notes["run"], notes["files"].get(name)) != stamp:
        raise CheckpointError(
            f"The target {folder} now belongs to another run; the result of this run for {name} is lost."
        )
