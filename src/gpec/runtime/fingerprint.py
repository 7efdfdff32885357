"""The hash function of the package, for arrays, tables, plain data and bytes, and for objects by their parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd


def fingerprint(*parts: Any, lasting: bool = False) -> str:
    """A hash that is equal for equal content, also after :func:`gpec.runtime.archive.write` and ``read``.

    Objects of the package are hashed by their parameters, other objects by identity. A ``lasting`` fingerprint is the
    same in every process: it hashes other objects by their name or the name of their class.
    """
    digest = hashlib.blake2b(digest_size=16)
    _add(digest.update, parts, lasting)
    return digest.hexdigest()


def fingerprint_of_pieces(pieces: Iterable[bytes]) -> str:
    """A hash of the bytes of all pieces together, such as those of a file that does not fit into memory."""
    digest = hashlib.blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _add(update: Callable[[bytes], None], part: Any, lasting: bool) -> None:
    if isinstance(part, np.generic):
        part = part.item()
    elif hasattr(part, "__array__") and not isinstance(part, (pd.DataFrame, type)):  # also a Series or a tensor
        part = np.asarray(part)
        part = part.tolist() if part.dtype == object else part
    inside: tuple[Any, ...] = ()
    if part is None or isinstance(part, (str, int, float, bool)):
        name = f"{type(part).__name__} {part!r}"
    elif isinstance(part, bytes):
        update(part)
        name = f"{len(part)} bytes"
    elif isinstance(part, np.ndarray):
        update(np.ascontiguousarray(part).tobytes())
        name = f"array {part.dtype} {part.shape}"
    elif isinstance(part, pd.DataFrame):
        name = f"table {[(str(label), str(kind)) for label, kind in part.dtypes.items()]}"
        inside = (pd.util.hash_pandas_object(part, index=False),)
    elif isinstance(part, dict):
        name, inside = f"{len(part)} entries", (*map(str, part), *part.values())
    elif isinstance(part, (list, tuple)):
        name, inside = f"{len(part)} items", tuple(part)
    elif any(kind.__module__.partition(".")[0] == "gpec" for kind in type(part).__mro__):
        parameters = part.get_params(deep=False) if hasattr(part, "get_params") else vars(part)
        name, inside = "object", (type(part), parameters)
    else:
        name = f"object {_name(part) if lasting else id(part)}"
    update(f"{name};".encode("utf-8", "surrogatepass"))
    for each in inside:
        _add(update, each, lasting)


def _name(part: Any) -> str:
    """Module and qualified name of a function or class; for other objects, those of their class."""
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{named.__qualname__}"
