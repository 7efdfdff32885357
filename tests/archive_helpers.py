"""What files keep of objects, and archives built by hand with a valid checksum whatever they hold.

The one place where tests reach into the file format and into how objects become trees.
"""

import json
import tempfile
import zlib
from pathlib import Path

from gpec.kernels import Kernel
from gpec.runtime import archive
from gpec.runtime.fingerprint import fingerprint, fingerprint_of_pieces
from gpec.runtime.state import from_state, to_state

FIRST_LINE = archive._LINE  # its length


def read_tree(path, kind):
    """The tree in a file of this kind; its content alone matters."""
    return archive.read(path, kind)


def write_tree(path, kind, tree):
    """A file of this kind with another tree."""
    archive.write(path, kind, tree)


def tree_of(value):
    """What a file would keep of an object."""
    return to_state(value)


def tree_through_file(tree):
    """A tree, written and read again."""
    with tempfile.TemporaryDirectory() as folder:
        archive.write(Path(folder, "file"), "Test", {"tree": tree})
        return archive.read(Path(folder, "file"), "Test")["tree"]


def from_tree(cls, tree, **given):
    """The object that a file with this tree gives back; ``given`` are the fields that files do not keep."""
    return from_state(cls, tree_through_file(tree), **given)


def through_file(cls, value, **given):
    """An object of ``cls``, written and read again."""
    return from_tree(cls, to_state(value), **given)


def kernel_through_file(kernel):
    """A kernel, written and read again."""
    return Kernel.from_state(tree_through_file(kernel.state()))


def digest(value, *, lasting=False):
    """The hash of a value, or of what a file would keep of it."""
    return fingerprint(to_state(value), lasting=lasting)


def bits(g):
    """Everything a file would keep of a fit, but for how it ran."""
    state = to_state(g._fitted.saved())
    settings = {name: value for name, value in state["settings"].items() if name not in ("n_jobs", "progress")}
    return fingerprint({**state, "settings": settings})


def sealed(header, content=b"", *, n_packed=None):
    """A file with this header (a document, or bytes) and these bytes of arrays."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    packed = zlib.compress(text)
    body = (len(packed) if n_packed is None else n_packed).to_bytes(8, "little") + packed + zlib.compress(content)
    return resealed(body)


def resealed(body):
    """The first line, which states the checksum of the rest, and the rest."""
    return archive._MAGIC + fingerprint_of_pieces([body]).encode() + b"\n" + body


def opened(content):
    """The header of a file as a document, and its arrays as bytes."""
    body = content[FIRST_LINE:]
    n_packed = int.from_bytes(body[:8], "little")
    return json.loads(zlib.decompress(body[8 : 8 + n_packed])), zlib.decompress(body[8 + n_packed :])


def document(tree, arrays=(), kind="Test"):
    """A header: the tree, and the lines of the table of arrays."""
    return {"kind": kind, "tree": tree, "arrays": [list(line) for line in arrays]}
