"""Files opened in the page: gpec archives only, of limited size, never executed."""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from gpec._numbers import shorten, value_text
from gpec.app._fit_file import describe_fit
from gpec.errors import CorruptFileError, GPECError, InputError
from gpec.explanation import Explanation
from gpec.pipeline.fitted import SavedGPEC
from gpec.report._facts import facts_of
from gpec.runtime import archive
from gpec.runtime.state import from_state
from gpec.typing import FloatArray

LARGEST_UPLOAD = 50 * 2**20
_UPLOAD_MEMORY = 200 * 10**6  # bytes that an upload may take, unpacked
_UPLOADS_MEMORY = 2 * _UPLOAD_MEMORY  # that all uploads may take together
_MOST_FILES = 8
_MOST_ROWS = 200_000  # of an upload: each has a label and a text
_MOST_CLASSES = 1_000
_LONGEST_FACT = 500  # characters
_MOST_SEARCHED = 2_000_000  # values whose text is searched, besides the names of rows


@dataclass(frozen=True, eq=False)
class OpenFile:
    """A file's content as the page shows it.

    ``explanation`` has the axes row and feature, and output if there are several classes. ``facts`` are titles and
    texts, ``statements`` sentences on what the intervals promise.
    """

    name: str
    has_intervals: bool  # False for a fit, which has none without its model
    explanation: Explanation
    statements: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    firm: FloatArray  # (n,) or (n, c)
    labels: list[str]
    texts: list[str]  # of each row, in lower case, for searches

    @classmethod
    def of(cls, name: str, has_intervals: bool, e: Explanation, statements: tuple[str, ...], facts: Any) -> OpenFile:
        """With firm shares, labels and texts computed once."""
        labels = [str(i) if e.row_names is None else value_text(e.row_names[i]) for i in range(len(e))]
        facts = tuple((title, shorten(text, _LONGEST_FACT)) for title, text in facts)
        statements = tuple(shorten(text, 4 * _LONGEST_FACT) for text in statements)
        return cls(name, has_intervals, e, statements, facts, e.firm_share, labels, _texts(e, labels))

    @property
    def size(self) -> int:
        """About as many bytes as it takes in memory."""
        arrays = sum(value.nbytes for value in vars(self.explanation).values() if isinstance(value, np.ndarray))
        return arrays + sum(map(len, self.texts))

    @property
    def outputs(self) -> list[str]:
        """Names of the classes, if there are several."""
        e = self.explanation
        return [value_text(name) for name in e.output_names] if "output" in e.axes else []

    def of_output(self, output: int) -> tuple[Explanation, FloatArray]:
        """The explanation of one class, and the firm share of each row."""
        if self.outputs:
            return self.explanation[:, :, output], self.firm[:, output]
        return self.explanation, self.firm


class FileCache:
    """Cache of the open files, by key; of the uploads, the least recently used are dropped."""

    def __init__(self) -> None:
        self._named: dict[str, OpenFile] = {}  # on the command line
        self._uploads: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def open_path(self, path: str | os.PathLike[str]) -> tuple[str, str]:
        """Open a file of this machine, which stays open; return key and name."""
        if not Path(path).is_file():
            raise InputError(f"There is no file {os.fspath(path)!s}.")
        key, file = uuid4().hex, read_file(path, Path(path).name)
        self._named[key] = file
        return key, file.name

    def open_upload(self, contents: str, name: str) -> tuple[str, str]:
        """Open a file that a browser sent as a data URL; return key and name."""
        packed = contents.partition(",")[2]
        if len(packed) * 3 // 4 > LARGEST_UPLOAD:
            raise InputError(f"{name} is larger than {LARGEST_UPLOAD >> 20} MB; name it on the command line instead.")
        try:
            content = base64.b64decode(packed, validate=True)
        except binascii.Error as error:
            raise CorruptFileError(f"{name} arrived incomplete; send it again.") from error
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "upload"
            path.write_bytes(content)
            file = read_file(path, name, _UPLOAD_MEMORY, most_rows=_MOST_ROWS)
        key = uuid4().hex
        with self._lock:
            self._uploads[key] = file
            while len(self._uploads) > _MOST_FILES or sum(f.size for f in self._uploads.values()) > _UPLOADS_MEMORY:
                self._uploads.popitem(last=False)
        return key, name

    def get(self, key: str) -> OpenFile:
        """The file of a key."""
        with self._lock:
            if key in self._named:
                return self._named[key]
            if key not in self._uploads:
                raise InputError("This file is no longer open; open it again.")
            self._uploads.move_to_end(key)
            return self._uploads[key]

    def __contains__(self, key: str) -> bool:
        return key in self._named or key in self._uploads


def read_file(
    path: str | os.PathLike[str], name: str, max_bytes: int = archive.MAX_BYTES, *, most_rows: int | None = None
) -> OpenFile:
    """Read a saved explanation or fit that takes at most ``max_bytes`` of memory; errors use ``name``."""
    try:
        try:
            e = Explanation.load(path, max_bytes=max_bytes)
        except archive.OtherKindError:
            saved = from_state(SavedGPEC, archive.read(path, "GPEC", max_bytes), name)
            e, statements, facts = describe_fit(saved, name)
            _require_table(e, most_rows)
            return OpenFile.of(name, False, e, statements, facts)
        _require_table(e, most_rows)
        size = ("Rows", f"{len(e):,}"), ("Features", f"{e.shape[1]:,}"), ("Promise", e.promise)
        return OpenFile.of(name, True, e, (e.statement(),), (*size, *facts_of(e, {})))
    except GPECError as error:
        kind = type(error) if type(error) in (CorruptFileError, InputError) else InputError
        raise kind(str(error).replace(os.fspath(path), name)) from error
    except Exception as error:  # a valid archive with invalid content
        raise CorruptFileError(f"{name} is damaged or was not written by gpec; save it again.") from error


def _require_table(e: Explanation, most_rows: int | None) -> None:
    """Raise unless the page can show an explanation."""
    if e.axes not in (("row", "feature"), ("row", "feature", "output")):
        raise InputError("This explanation is a part of a table, not rows with all features; save e[[0]], not e[0].")
    if most_rows is not None and len(e) > most_rows:
        raise InputError(
            f"This file has {len(e):,} rows, and the page takes {most_rows:,} from a browser; name it on the command "
            "line instead, or save fewer rows."
        )
    if "output" in e.axes and e.shape[2] > _MOST_CLASSES:
        raise InputError(
            f"This explanation has {e.shape[2]:,} classes, and the page shows {_MOST_CLASSES:,}; save fewer of them."
        )
    if not np.isfinite(e.interval()).all():
        raise CorruptFileError("The bounds of this explanation are not finite; save it again from the original.")


def _texts(e: Explanation, labels: list[str]) -> list[str]:
    if e.data.size > _MOST_SEARCHED or e.data.ndim != 2:
        return [label.lower() for label in labels]
    return [
        " ".join(
            [label, *(f"{name}={value_text(value)}" for name, value in zip(e.feature_names, row, strict=True))]
        ).lower()
        for label, row in zip(labels, e.data, strict=True)
    ]
