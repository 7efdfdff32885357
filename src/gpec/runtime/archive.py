"""The file format: arrays and JSON, never pickle.

A file is a line with the name of the format and the fingerprint of the rest, then two parts packed by zlib:

- the header, JSON of at most 4 MB: the length of the packed header comes before it. It holds the kind of the file, a
  table of the arrays (type, shape, order in memory, bytes), and the tree of everything else, where ``{"array": i}``
  refers to an array and ``{"dict": ...}`` is a dict;
- the arrays one after the other; long lists and arrays of texts and other objects are JSON.

Everything in the header is checked, and the memory that the file takes is summed, before anything else is unpacked.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from gpec.errors import CorruptFileError, InputError
from gpec.runtime.fingerprint import fingerprint_of_pieces

MAX_BYTES = 4 * 10**9  # of memory that a file may take, unless the caller allows more

_MAGIC = b"gpec archive 4 "
_EFFORT = 1  # level of compression, 1 to 9: higher levels take three times as long and save a few percent
_LINE = len(_MAGIC) + 32 + 1
_MOST_HEADER = 4 * 2**20
_MOST_LEVELS = 100
_PIECE = 2**20
_LONG = 100  # lists of more texts and numbers are not in the header
_VALUE = 160  # bytes of memory that a value of the header or of a list takes at most, while it is read
_JSON = ("list", "object")
_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
_PLAIN = (str, int, float, bool, type(None))


class OtherKindError(InputError):
    """The file holds something else that gpec saved."""


class _Entry(NamedTuple):
    """A line of the table of arrays."""

    dtype: str  # of numpy; "object" or "list" for texts and numbers as JSON
    shape: list[int]
    order: Literal["C", "F"]
    n_bytes: int

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def memory(self) -> int:
        """Bytes of memory: texts take up to four for each character, and small numbers may become large ones."""
        return 5 * self.n_bytes + _VALUE * self.size if self.dtype in _JSON else max(self.n_bytes, 8 * self.size)

    def check(self) -> None:
        """Raise unless the line is one that :func:`write` makes."""
        kind, shape = self.dtype, self.shape
        _require(isinstance(kind, str) and self.order in ("C", "F"), "an array has an unknown type or order")
        _require(isinstance(shape, list) and len(shape) <= 32, "an array has no shape")
        _require(all(type(size) is int and size >= 0 for size in (*shape, self.n_bytes)), "an array has an odd size")
        if kind not in _JSON:
            text = kind.startswith("<U") and kind[2:].isascii() and kind[2:].isdigit() and len(kind) < 12
            _require(kind in _TYPES or text, f"an array has the unknown type {kind[:20]!r}")
            _require(self.size * np.dtype(kind).itemsize == self.n_bytes, "an array has another size than its shape")
        _require(kind != "list" or len(shape) == 1, "a list has another shape than a list")


def write(path: str | os.PathLike[str], kind: str, tree: dict[str, Any]) -> None:
    """Write ``tree`` (dicts, lists, strings, numbers, arrays) to ``path`` by an atomic write."""
    arrays: dict[int, tuple[int, _Entry, Any, Any]] = {}  # by identity: number, entry, content, and the array itself
    document = {"kind": kind, "tree": _pack(tree, arrays), "arrays": [entry for _, entry, _, _ in arrays.values()]}
    header = json.dumps(document).encode()
    if len(header) > _MOST_HEADER:
        raise InputError(f"Cannot save to {path}: there are too many parts; settings and names take over 4 MB.")
    packed, packer = zlib.compress(header, _EFFORT), zlib.compressobj(_EFFORT)
    pieces = [len(packed).to_bytes(8, "little"), packed]
    pieces += [packer.compress(content) for _, _, content, _ in arrays.values()]
    pieces.append(packer.flush())
    with replacing(path) as new, open(new, "wb") as file:
        file.write(_MAGIC + fingerprint_of_pieces(pieces).encode() + b"\n")
        file.writelines(pieces)


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


def read(path: str | os.PathLike[str], kind: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read an archive of ``kind``; runs no code from the file.

    Raises
    ------
    InputError
        If it is no regular file, cannot be read, holds something else, or takes more than ``max_bytes`` of memory.
    CorruptFileError
        If :func:`write` of this version did not write it as it is.
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # to open a pipe would wait for a writer
        raise InputError(f"{path} is a folder, a pipe or a device; give a file that gpec saved.")
    try:
        with open(path, "rb") as file:
            _check_line(file, path, status.st_size, max_bytes)
            text = _read_header(file)
            values = sum(text.count(mark) for mark in (b",", b"[", b"{"))  # at most so many
            require_memory(path, values * _VALUE, max_bytes)
            document = json.loads(text)
            _require(set(document) == {"kind", "tree", "arrays"}, "its header lacks a part")
            stored = document["kind"]
            if stored != kind:
                raise OtherKindError(f"{path} holds a saved {str(stored)[:60]}, not a saved {kind}.")
            entries = [_Entry(*line) for line in document["arrays"]]
            for entry in entries:
                entry.check()
            references = list(_references(document["tree"]))
            _require(set(references) == set(range(len(entries))), "arrays and references to them do not fit")
            require_memory(path, values * _VALUE + sum(entries[i].memory for i in references), max_bytes)
            return dict(_unpack(document["tree"], _read_arrays(file, entries)))
    except (InputError, CorruptFileError):
        raise
    except OSError as error:  # it may be whole
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise InputError(f"{path} takes more memory than there is; open it on a machine with more.") from error
    except Exception as error:
        raise CorruptFileError(f"{path} is damaged: {error}.") from error


def _check_line(file: BinaryIO, path: Any, size: int, max_bytes: int) -> None:
    """Check the first line, and that the rest has the fingerprint that it states."""
    line = file.read(_LINE)
    if not line.startswith(_MAGIC):
        other = line.startswith(_MAGIC[:-2])
        what = "is a file of another version of gpec; save it again with this one" if other else "is not a file of gpec"
        raise CorruptFileError(f"{path} {what}.")
    require_memory(path, size - _MOST_HEADER - size // 100, max_bytes)  # packing makes nothing larger
    if fingerprint_of_pieces(iter(lambda: file.read(_PIECE), b"")).encode() + b"\n" != line[len(_MAGIC) :]:
        raise CorruptFileError(f"{path} is damaged: its checksum does not match. Save it again from the original.")
    file.seek(_LINE)


def require_memory(path: Any, needed: int, max_bytes: int) -> None:
    """Raise an InputError if a file needs more than ``max_bytes``."""
    if needed > max_bytes:
        raise InputError(
            f"{path} takes {needed / 1e9:.3g} GB of memory, more than the {max_bytes / 1e9:.3g} GB allowed; if you "
            f"trust it, pass max_bytes={needed} in Python, or name it on the command line of the page."
        )


def _read_header(file: BinaryIO) -> bytes:
    """The header, unpacked."""
    n_packed = int.from_bytes(file.read(8), "little")
    _require(n_packed <= 2 * _MOST_HEADER, "its header is too large")
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(file.read(n_packed), _MOST_HEADER)
    _require(unpacker.eof and not unpacker.unused_data, "its header is incomplete or too large")
    return text


def _references(tree: Any, level: int = 0) -> Iterator[int]:
    """The numbers of the arrays in a tree, in order."""
    _require(level <= _MOST_LEVELS, "its header is nested too deeply")
    if isinstance(tree, dict):
        ((word, inner),) = tree.items()
        if word == "array":
            _require(type(inner) is int, "a reference to an array is not a number")
            yield inner
            return
        _require(word == "dict" and isinstance(inner, dict), "its header has an unknown word")
        tree = list(inner.values())
    if isinstance(tree, list):
        for item in tree:
            yield from _references(item, level + 1)


def _read_arrays(file: BinaryIO, entries: list[_Entry]) -> list[Any]:
    """The arrays and long lists; not more is unpacked than the entries state."""
    unpacker = zlib.decompressobj()
    values = []
    for entry in entries:
        content = np.empty(entry.n_bytes, dtype=np.uint8)
        at = 0
        while at < len(content):
            packed = unpacker.unconsumed_tail or file.read(_PIECE)
            piece = unpacker.decompress(packed, min(_PIECE, len(content) - at))
            _require(piece or (packed and not unpacker.eof), "the arrays end too early")
            content[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
            at += len(piece)
        values.append(_values_of(entry, content))
    more = unpacker.decompress(unpacker.unconsumed_tail or file.read(_PIECE), 1)
    _require(unpacker.eof and not (more or unpacker.unused_data or file.read(1)), "there is more than it states")
    return values


def _values_of(entry: _Entry, content: np.ndarray[Any, Any]) -> Any:
    """An array or list from its bytes."""
    if entry.dtype not in _JSON:
        array: np.ndarray[Any, Any] = np.ndarray(entry.shape, entry.dtype, content, order=entry.order)
        _require(array.dtype.kind != "b" or content.max(initial=0) <= 1, "a truth value is neither true nor false")
        codes = content.view(np.uint32) if array.dtype.kind == "U" else content[:0]
        _require(codes.max(initial=0) <= 0x10FFFF, "a text has a character that does not exist")
        return array
    text = content.tobytes()
    marks = [text.count(mark) for mark in (b"{", b"[", b",")]  # none is inside a text
    _require(marks == [0, 1, max(entry.size - 1, 0)], "a list has another length than it states")
    items = json.loads(text)
    _require(isinstance(items, list) and len(items) == entry.size, "a list has another length than it states")
    if entry.dtype == "list":
        return items
    objects = np.empty(entry.size, dtype=object)
    objects[:] = items
    return objects.reshape(entry.shape)


def _pack(value: Any, arrays: dict[int, tuple[int, _Entry, Any, Any]]) -> Any:
    if isinstance(value, dict):
        return {"dict": {str(key): _pack(item, arrays) for key, item in value.items()}}
    if isinstance(value, np.ndarray) or (
        isinstance(value, (list, tuple)) and len(value) > _LONG and all(isinstance(item, _PLAIN) for item in value)
    ):
        if id(value) not in arrays:
            entry, content = _pack_array(value)
            arrays[id(value)] = len(arrays), entry, content, value  # the value too: no other can then have its id
        return {"array": arrays[id(value)][0]}
    if isinstance(value, (list, tuple)):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, np.generic):
        return _pack(value.item(), arrays)
    if isinstance(value, _PLAIN):
        return value
    raise InputError(f"Cannot save a value of type {type(value).__name__}: {value!r}.")


def _pack_array(value: Any) -> tuple[_Entry, Any]:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiubU":
        items = value.ravel().tolist() if isinstance(value, np.ndarray) else value
        # commas and brackets inside texts are escaped, so that those outside can be counted
        text = json.dumps([_pack(item, {}) for item in items], separators=("\n", ":"))[1:-1]
        for mark in ",[{":
            text = text.replace(mark, f"\\u{ord(mark):04x}")
        packed = f"[{text.replace(chr(10), ',')}]".encode()
        kind = "object" if isinstance(value, np.ndarray) else "list"
        return _Entry(kind, list(np.shape(value)), "C", len(packed)), packed
    if value.dtype.newbyteorder("<").str not in _TYPES and value.dtype.kind != "U":
        raise InputError(f"Cannot save an array of {value.dtype}; convert it to float64.")
    order: Literal["C", "F"] = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    plain = value.astype(value.dtype.newbyteorder("<"), copy=False)
    content = np.ascontiguousarray(plain.T if order == "F" else plain).reshape(-1).view(np.uint8)
    return _Entry(plain.dtype.str, list(value.shape), order, len(content)), content


def _unpack(value: Any, arrays: list[Any]) -> Any:
    if isinstance(value, dict):
        if "array" in value:
            return arrays[value["array"]]
        return {key: _unpack(item, arrays) for key, item in value["dict"].items()}
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    return value


def _require(right: Any, fault: str) -> None:
    if not right:
        raise ValueError(fault)
