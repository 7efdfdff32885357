"""Archives built by hand, with a valid checksum whatever they hold."""

import json
import zlib

from gpec.runtime import archive
from gpec.runtime.fingerprint import fingerprint_of_pieces


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
    body = content[archive._LINE :]
    n_packed = int.from_bytes(body[:8], "little")
    return json.loads(zlib.decompress(body[8 : 8 + n_packed])), zlib.decompress(body[8 + n_packed :])


def document(tree, arrays=(), kind="Test"):
    """A header: the tree, and the lines of the table of arrays."""
    return {"kind": kind, "tree": tree, "arrays": [list(line) for line in arrays]}
