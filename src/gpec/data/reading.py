"""Tables in files: CSV, Parquet and Feather."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from gpec._validation import check_installed
from gpec.errors import CorruptFileError, InputError, MissingExtraError

__all__ = ["read_table"]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow")


def read_table(path: str | os.PathLike[str], *, index: str | None = None) -> pd.DataFrame:
    """Read a table from a CSV, TSV, Parquet or Feather file; the ending of its name says which.

    Parameters
    ----------
    path : path
        The file. CSV and TSV may be packed (``.csv.gz``).
    index : str, optional
        The column with the labels of the rows; it becomes the index.

    Returns
    -------
    DataFrame
        At least one row, each column with a name of its own.

    Raises
    ------
    InputError
        If there is no such file, its kind is unknown, or the table has no rows, no such index or a name twice.
    CorruptFileError
        If the file cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no file {file}; give the path of a CSV, Parquet or Feather file.")
    ending = file.suffix.lower()
    if ending in _PACKED:
        ending = Path(file.stem).suffix.lower()
    try:
        frame = _read(file, ending)
    except (InputError, MissingExtraError):
        raise
    except (ValueError, OSError, EOFError) as error:  # pandas' and pyarrow's own errors are kinds of these
        raise CorruptFileError(f"{file} cannot be read: {' '.join(str(error).split())}.") from error
    if not len(frame):
        raise InputError(f"{file} has no rows.")
    return frame if index is None else _labelled(frame, index, file)


def _read(file: Path, ending: str) -> pd.DataFrame:
    if ending in _SEPARATORS:
        separator = _SEPARATORS[ending]
        header = pd.read_csv(file, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _refuse_twins(header.iloc[0].tolist(), file)  # pandas would rename them
        return pd.read_csv(file, sep=separator)
    if ending not in (*_PARQUET, *_FEATHER):
        raise InputError(f"{file} is not a kind of table that can be read; use .csv, .tsv, .parquet or .feather.")
    check_installed("pyarrow", f"Reading {file}", '"gpec[files]"')  # pandas reads them by it
    frame = pd.read_parquet(file) if ending in _PARQUET else pd.read_feather(file)
    _refuse_twins([str(name) for name in frame.columns], file)
    return frame.rename(columns=str)


def _refuse_twins(names: list[str], file: Path) -> None:
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise InputError(f"{file} has several columns named {twins[0]!r}; rename them so that each has its own name.")


def _labelled(frame: pd.DataFrame, index: str, file: Path) -> pd.DataFrame:
    if index not in frame.columns:
        raise InputError(f"{file} has no column {index!r} for the index; its columns are {list(frame.columns)}.")
    return frame.set_index(index)
