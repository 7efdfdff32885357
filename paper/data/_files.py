"""Files of the data sets: where they come from, and how they get here whole.

All files live in one folder, each under its ``path``. The folder is the one named by the environment variable
``GPEC_DATA`` (nothing is downloaded then), else the user's cache, which fills at first use.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpec.errors import CorruptFileError, MissingExtraError
from gpec.runtime.archive import replacing
from paper.data.errors import DownloadError

__all__ = ["File", "checked", "data_folder", "is_here"]

_TIMEOUT = 30.0  # seconds without a byte
_TRIES = 2  # after the first


@dataclass(frozen=True)
class File:
    """One file of a data set.

    Attributes
    ----------
    path : str
        Its place in the data folder.
    url : str
        Its public origin, or that of the tar archive it is a member of.
    size : int
        Bytes to download.
    sha256 : str or None
        None where the origin publishes no sum; then the sum seen at the first download is kept beside the file.
    archive_sha256 : str or None
        Set for members of an archive.
    """

    path: str
    url: str
    size: int
    sha256: str | None = None
    archive_sha256: str | None = None


def data_folder() -> tuple[Path, bool]:
    """The folder of all data files, and whether it is ours to fill."""
    given = os.environ.get("GPEC_DATA")
    if given:
        return Path(given), False
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(home) / "gpec", True


def is_here(file: File) -> bool:
    return (data_folder()[0] / file.path).is_file()


def checked(file: File, inspect: Callable[[Path], Any] | None = None) -> Path:
    """Path of ``file``, downloaded if need be, its sum checked.

    ``inspect`` looks at a file just downloaded whose sum nobody published, and raises if it is not what it should be.
    """
    folder, ours = data_folder()
    path = folder / file.path
    if not path.is_file():
        if not ours:
            raise DownloadError(
                f"GPEC_DATA names the folder {folder}, which has no {file.path}; put it there (it comes from "
                f"{file.url}), or unset GPEC_DATA to download it."
            )
        _make_folder(path.parent)
        if file.archive_sha256 is None:
            _download(file.url, path, file.sha256)
        else:
            _download_member(file, path)
        if file.sha256 is None:
            _keep_sum(path, inspect)
        return path
    wanted = file.sha256 or _kept_sum(path)
    if wanted is not None and (found := _sum(path)) != wanted:
        raise CorruptFileError(
            f"{path} is damaged or another edition: its sha256 is {found}, expected {wanted}; "
            + ("delete it and it will be downloaded again." if ours else f"get it anew from {file.url}.")
        )
    return path


def _sum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _kept_sum(path: Path) -> str | None:
    note = _note(path)
    return note.read_text().split()[0] if note.is_file() else None


def _keep_sum(path: Path, inspect: Callable[[Path], Any] | None) -> None:
    try:
        if inspect is not None:
            inspect(path)
        with replacing(_note(path)) as new:
            new.write_text(f"{_sum(path)}  {path.name}\n")
    except BaseException:  # Ctrl-C, too: a file nobody looked at must not stay
        path.unlink(missing_ok=True)
        raise


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{secrets.token_hex(8)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DownloadError(
            f"The cache folder {folder} cannot be written ({error.strerror}); set XDG_CACHE_HOME to one that can, or "
            "GPEC_DATA to a folder that has the data."
        ) from error


def _download(url: str, path: Path, sha256: str | None) -> None:
    try:
        import pooch
        import requests
    except ImportError as error:
        raise MissingExtraError(
            "Downloading data needs pooch and requests: pip install pooch requests (or set GPEC_DATA to a folder that "
            "has the data)."
        ) from error
    pooch.get_logger().setLevel("WARNING")
    fetcher = pooch.create(
        path.parent, base_url="", registry={path.name: sha256}, urls={path.name: url}, retry_if_failed=_TRIES
    )
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_TIMEOUT)
    try:
        fetcher.fetch(path.name, downloader=downloader)
    except requests.exceptions.RequestException as error:
        raise DownloadError(
            f"{path.name} could not be downloaded from {url} ({_reason(error)}); try again, or set GPEC_DATA to a "
            "folder that has the data."
        ) from error
    except ValueError as error:
        if sha256 is None or "hash" not in str(error):
            raise
        raise CorruptFileError(
            f"{path.name} as downloaded from {url} does not have the sha256 {sha256}, so it was not kept; the origin "
            "may have changed it, or something between here and there."
        ) from error
    except OSError as error:
        raise DownloadError(f"{path} cannot be written ({error.strerror or error}).") from error


def _reason(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.HTTPError) and error.response is not None:
        return f"the server answered {error.response.status_code}"
    if isinstance(error, requests.exceptions.Timeout):
        return f"no answer for {_TIMEOUT:.0f} seconds"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection broke off"
    return "no connection"


def _download_member(file: File, path: Path) -> None:
    """Unpack all members of an archive that lie in the folder of ``path``, then drop the archive."""
    archive = path.parent / file.url.rsplit("/", 1)[-1]
    _download(file.url, archive, file.archive_sha256)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isfile() else None
                if content is not None:
                    with replacing(path.parent / Path(member.name).name) as new:
                        new.write_bytes(content.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise CorruptFileError(f"{archive} cannot be unpacked ({error}); it was not kept, so try again.") from error
    finally:
        archive.unlink(missing_ok=True)
    if not path.is_file():
        raise CorruptFileError(f"The archive {file.url} has no member {path.name}.")
