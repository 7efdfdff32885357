"""A report read back by a parser, and explanations whose names are nasty."""

import base64
import gzip
import json
from html.parser import HTMLParser

import numpy as np

from explanation_helpers import explanation

NASTY = ["<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", '"&amp;<b>$x$</b>']


class Page(HTMLParser):
    """Tags, attributes and texts of a page, and the content of each of its scripts."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.scripts, self._open, self._texts = [], [], [], [], []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in ("script", "style"):
            self._open.append(tag)
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._open.pop()

    def handle_data(self, data):
        if self._open:
            attributes, content = self.scripts[-1]
            self.scripts[-1] = attributes, content + data
        else:
            self._texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self._texts).split())

    def packed(self, name):
        """The text of a compressed part, by its id."""
        (content,) = [content for attributes, content in self.scripts if attributes.get("id") == name]
        return gzip.decompress(base64.b64decode(content)).decode()

    @property
    def data(self):
        return json.loads(self.packed("data"))


def nasty(n=6, classes=None, **changes):
    """An explanation in which every name and many values look like HTML."""
    data = np.array([[NASTY[(i + j) % 3] if (i + j) % 2 else None for j in range(3)] for i in range(n)], dtype=object)
    outputs = NASTY[0] if classes is None else [*NASTY, "four"][:classes]
    names = np.array([f"{NASTY[i % 3]}{i}" for i in range(n)], dtype=object)
    parts = {
        "data": data,
        "feature_names": NASTY,
        "output_names": outputs,
        "row_names": names,
        "diagnostics": {"unit": NASTY[1], "settings": {"model": NASTY[0], NASTY[2]: NASTY[1]}, "version": NASTY[0]},
    }
    return explanation(n, classes=classes, **{**parts, **changes})
