"""The archive format: arrays and JSON, never pickle.

A file starts with a line that names the format and the SHA-256 of the rest. The rest is a zip archive with one ``.npy``
member for each array and ``tree.json`` for everything else, in which an array stands as ``{"array": name}``. A large
array of doubles that single precision holds without loss is kept so: first the first bytes of all its numbers, then the
second ones, and so on, which packs better. Its shape stands beside its name.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from gpec.errors import CorruptFileError, InputError

__all__ = ["digest", "read", "write", "write_whole"]

_MAGIC = b"gpec archive 2 "
_LARGE = 10_000  # numbers
_EFFORT = 1  # of packing, 1 to 9: more takes three times as long and saves some percent
_HEADER = len(_MAGIC) + 64 + 1


def write(path: str | os.PathLike[str], kind: str, tree: dict[str, Any]) -> None:
    """Write ``tree`` (dicts, lists, strings, numbers, arrays) to ``path``, whole or not at all."""
    arrays: dict[int, tuple[str, np.ndarray[Any, Any]]] = {}  # by the identity of what was given
    document = json.dumps({"kind": kind, "tree": _pack(tree, arrays)}, allow_nan=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=_EFFORT) as archive:
        with archive.open("tree.json", "w") as member:  # writestr would write down the time of day
            member.write(document.encode())
        for name, array in arrays.values():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    body = buffer.getvalue()
    digest = hashlib.sha256(body).hexdigest().encode()
    write_whole(path, _MAGIC + digest + b"\n", body)


def write_whole(path: str | os.PathLike[str], *parts: bytes) -> None:
    """Write a file whole or not at all, whenever the process may end."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"Cannot write {target}: the folder {target.parent} does not exist.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as file:  # not mkstemp, whose files only their owner may read
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def digest(tree: dict[str, Any]) -> str:
    """Equal for trees of the same content, and for what :func:`read` makes of them once written."""
    arrays: dict[int, tuple[str, np.ndarray[Any, Any]]] = {}
    document = _pack(tree, arrays)
    contents = {
        name: hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        for name, array in arrays.values()
    }

    def named_by_content(value: Any) -> Any:
        if isinstance(value, dict):
            if "array" in value:
                return contents[value["array"]].hexdigest()
            return {key: named_by_content(item) for key, item in value["dict"].items()}
        return [named_by_content(item) for item in value] if isinstance(value, list) else value

    return hashlib.sha256(json.dumps(named_by_content(document), allow_nan=True, sort_keys=True).encode()).hexdigest()


def read(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read an archive of ``kind``; runs no code from the file."""
    with open(path, "rb") as file:
        content = file.read()
    if not content.startswith(_MAGIC):
        raise CorruptFileError(f"{path} is not a gpec archive of a version this release can read.")
    body = content[_HEADER:]
    if hashlib.sha256(body).hexdigest().encode() + b"\n" != content[len(_MAGIC) : _HEADER]:
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
        # an array that stands in several places is written once
        name, stored = arrays.setdefault(id(value), (f"a{len(arrays)}", _halved(value)))
        return {"array": name, **({"shape": list(value.shape)} if stored is not value else {})}
    if isinstance(value, np.ndarray):
        return _pack(value.tolist(), arrays)
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise InputError(f"Cannot save a value of type {type(value).__name__}: {value!r}.")


def _halved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a large array of doubles in single precision, ``(4, size)``, where that loses nothing."""
    if array.dtype != np.float64 or array.size < _LARGE:
        return array
    with np.errstate(over="ignore"):
        single = array.astype("<f4", order="C")
    if not np.array_equal(single, array, equal_nan=True):
        return array
    return np.ascontiguousarray(single.reshape(-1, 1).view(np.uint8).T)


def _doubled(planes: np.ndarray[Any, Any], shape: list[int]) -> np.ndarray[Any, Any]:
    """The array of doubles that :func:`_halved` made these bytes of."""
    return np.ascontiguousarray(planes.T).view("<f4").astype(np.float64).reshape(shape)


def _unpack(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            name = value["array"]
            if "shape" in value and arrays[name].dtype == np.uint8:  # once, if it stands in several places
                arrays[name] = _doubled(arrays[name], value["shape"])
            return arrays[name]
        return {key: _unpack(item, arrays) for key, item in value["dict"].items()}
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    return value
