"""The report: one HTML file with its data, script and charts, which loads nothing from a network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from datetime import date
from functools import cache
from importlib import resources
from pathlib import Path

from gpec._colors import DARK, LIGHT, css
from gpec._numbers import MISSING, level_text
from gpec._validation import check_count, check_installed
from gpec.errors import InputError, ParameterTypeError
from gpec.intervals.protocol import Explained, Fitted
from gpec.intervals.trust import SHOWN_WORDS
from gpec.report._content import Content
from gpec.report._facts import facts_of, how_to_read, left_out, settings_of
from gpec.report._similar import similar_of
from gpec.runtime.archive import replacing

_SCRIPTS = ("numbers.js", "charts.js", "row.js", "table.js", "page.js")
_WORDS = f'"use strict";\nconst MISSING = {json.dumps(MISSING)}, WORDS = {json.dumps(SHOWN_WORDS)};'
_COLORS = (
    f":root {{ color-scheme: light; {css(LIGHT)} }}\n"
    f"@media (prefers-color-scheme: dark) {{ :root:not(.print) {{ color-scheme: dark; {css(DARK)} }} }}"
)


def write_report(
    e: Explained,
    path: str | os.PathLike[str],
    *,
    fit: Fitted | None = None,
    title: str | None = None,
    max_rows: int,
) -> None:
    """Write the page of an explanation to ``path``, with an atomic write."""
    if fit is not None and not hasattr(fit, "similar_rows"):
        raise ParameterTypeError(f"gpec={fit!r} must be the fitted GPEC that made the explanation.")
    check_count("max_rows", max_rows)
    if not Path(path).parent.is_dir():  # before the work
        raise InputError(f"Cannot write {path}: the folder {Path(path).parent} does not exist.")
    page = _render(e, fit, title, max_rows).encode("utf-8", "replace")
    with replacing(path) as new:
        new.write_bytes(page)


def _render(e: Explained, fit: Fitted | None, title: str | None, max_rows: int) -> str:
    jinja2, plotly = (check_installed(name, "The report", '"gpec[app]"') for name in ("jinja2", "plotly.offline"))
    content = Content.of(e, max_rows)
    script, charts = "\n".join([_WORDS, *map(_source, _SCRIPTS)]), _packed_script(plotly.get_plotlyjs())
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    data = {**content.plain, "similar": similar_of(e, content, fit)}
    text: str = page.from_string(_source("page.html.jinja")).render(
        title=title or "How far these explanations hold",
        n=content.n,
        outputs=content.plain["outputs"],
        n_features=len(content.plain["features"]),
        level=level_text(e.confidence_level),
        statement=e.statement(),
        similar_steps=e.similar_steps,
        how_to_read=how_to_read(e),
        left_out=left_out(content),
        facts=facts_of(e, {} if fit is None else fit.diagnostics_),
        settings=settings_of(e),
        today=date.today().isoformat(),
        style=f"{_COLORS}\n{_source('page.css')}",
        script=script,
        # the browser runs only scripts with these hashes
        hashes=" ".join(f"'{each}'" for each in (_hash(script), charts[0])),
        data=_packed(json.dumps(data, allow_nan=False, separators=(",", ":"))),
        charts=charts,
    )
    return text


@cache
def _packed_script(source: str) -> tuple[str, str]:
    """The hash of a script, and the script as text for the page."""
    return _hash(source), _packed(source)


def _source(name: str) -> str:
    return resources.files("gpec.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _packed(text: str) -> str:
    """Compressed and base64-encoded, which is safe in HTML."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
