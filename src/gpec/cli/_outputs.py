"""Writes an explanation to a file, with an atomic write."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from gpec._validation import check_installed
from gpec.estimator import GPEC
from gpec.explanation import Explanation
from gpec.runtime.archive import replacing

# File ending -> the extra that it needs, and its packages.
_NEEDS: dict[str, tuple[str, ...]] = {
    ".csv": (), ".json": (), ".gpec": (),
    ".html": ("app", "jinja2", "plotly"), ".parquet": ("files", "pyarrow"), ".feather": ("files", "pyarrow"),
}  # fmt: skip
# how a cell starts that a spreadsheet runs; some read wide signs, and leave out space before them
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def check_out(out: Path, *kinds: str) -> Path:
    """Raise before the work if the file cannot be written."""
    allowed = kinds or tuple(_NEEDS)
    if out.suffix.lower() not in allowed:
        raise typer.BadParameter(f"{out} must end in {', '.join(allowed)}.", param_hint="--out")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"the folder {out.parent} does not exist.", param_hint="--out")
    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder.", param_hint="--out")
    extra, *packages = _NEEDS[out.suffix.lower()] or ("",)
    for package in packages:
        check_installed(package, f"Writing {out}", f'"gpec[{extra}]"')
    return out


def write(e: Explanation, out: Path, g: GPEC | None = None, *, safe_csv: bool = False) -> None:
    """Write an explanation in the format of the file's ending."""
    kind = out.suffix.lower()
    if kind == ".gpec":
        e.save(out)
        return
    if kind == ".html":
        e.to_html(out, gpec=g)
        return
    table = e.to_frame()
    with replacing(out) as new:
        if kind == ".json":
            new.write_text(_as_json(e, table), encoding="utf-8")
        elif kind == ".parquet":
            _of_one_type(table).to_parquet(new, index=False)
        elif kind == ".feather":
            _of_one_type(table).to_feather(new)
        elif safe_csv:  # quoted, because a bare \r would begin a new line
            table.map(_not_a_formula).to_csv(new, index=False, quoting=csv.QUOTE_NONNUMERIC)
        else:
            table.to_csv(new, index=False)


def _not_a_formula(cell: Any) -> Any:
    """A text that a spreadsheet would run, with ' before it; anything else unchanged."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _of_one_type(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of mixed texts and numbers become texts: Parquet and Feather columns have one type."""
    changed = {}
    for name in table.columns:
        column = table[name]
        if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) not in ("string", "boolean"):
            numbers = column.map(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool))
            changed[name] = column.astype(float) if numbers.all() else column.map(str, na_action="ignore")
    return table.assign(**changed)


def _as_json(e: Explanation, table: pd.DataFrame) -> str:
    about = {"statement": e.statement(), "promise": e.promise, "confidence_level": e.confidence_level}
    records = json.loads(table.to_json(orient="records", double_precision=15, date_format="iso"))
    return json.dumps({**about, "settings": e.diagnostics, "attributions": records}, default=str, indent=1)
