"""The file format: arrays and JSON, never pickle.

A file starts with a line with the name of the format and the fingerprint of the rest. The rest is a zip archive with
one ``.npy`` member for each array and ``tree.json`` for everything else, where ``{"array": name}`` refers to an array.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from gpec.errors import CorruptFileError, InputError
from gpec.runtime.fingerprint import fingerprint

__all__ = ["read", "replacing", "temporary_files", "write"]

_MAGIC = b"gpec archive 3 "
_EFFORT = 1  # level of compression, 1 to 9: higher levels take three times as long and save a few percent
_HEADER = len(_MAGIC) + 32 + 1


def write(path: str | os.PathLike[str], kind: str, tree: dict[str, Any]) -> None:
    """Write ``tree`` (dicts, lists, strings, numbers, arrays) to ``path`` by an atomic write."""
    arrays: dict[int, tuple[str, np.ndarray[Any, Any]]] = {}  # by identity
    document = json.dumps({"kind": kind, "tree": _pack(tree, arrays)}, allow_nan=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_EFFORT) as archive:
        with archive.open("tree.json", "w") as member:  # writestr would store the current time
            member.write(document.encode())
        for name, array in arrays.values():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    body = buffer.getvalue()
    with replacing(path) as new:
        new.write_bytes(_MAGIC + fingerprint(body).encode() + b"\n" + body)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Atomic write: a context with the path of a temporary file, which replaces ``path`` at the end."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: the folder {target.parent} does not exist.")
    new = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        yield new
        with open(new, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)


def temporary_files(path: Path) -> list[Path]:
    """Temporary files beside ``path``, left by processes that were killed inside :func:`replacing`."""
    return list(path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 16}"))


def read(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read an archive of ``kind``; runs no code from the file."""
    with open(path, "rb") as file:
        content = file.read()
    if not content.startswith(_MAGIC):
        other = content.startswith(_MAGIC[:-2])
        what = "is a file of another version of gpec; save it again with this one" if other else "is not a file of gpec"
        raise CorruptFileError(f"{path} {what}.")
    body = content[_HEADER:]
    if fingerprint(body).encode() + b"\n" != content[len(_MAGIC) : _HEADER]:
        raise CorruptFileError(f"{path} is damaged: its checksum does not match. Save it again from the original.")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            document = json.loads(archive.read("tree.json"))
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(archive.open(name), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        found, tree = document["kind"], dict(_unpack(document["tree"], arrays))
    except Exception as error:
        raise CorruptFileError(f"{path} is damaged: {error}.") from error
    if found != kind:
        raise InputError(f"{path} holds a saved {found}, not a saved {kind}.")
    return tree


def _pack(value: Any, arrays: dict[int, tuple[str, np.ndarray[Any, Any]]]) -> Any:
    if isinstance(value, dict):
        return {"dict": {str(key): _pack(item, arrays) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubU":
        # an array that occurs several times is written once
        return {"array": arrays.setdefault(id(value), (f"a{len(arrays)}", value))[0]}
    if isinstance(value, np.ndarray):
        return _pack(value.tolist(), arrays)
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise InputError(f"Cannot save a value of type {type(value).__name__}: {value!r}.")


def _unpack(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return {key: _unpack(item, arrays) for key, item in value["dict"].items()}
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    return value
