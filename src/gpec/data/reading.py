"""Reading of tables from CSV, Parquet and Feather files."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from gpec._validation import check_installed
from gpec.errors import CorruptFileError, InputError, MissingExtraError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip", ".zst")
_PARQUET = (".parquet", ".pq")
_FEATHER = (".feather", ".arrow")


def read_table(path: str | os.PathLike[str], *, index: str | None = None) -> pd.DataFrame:
    """Read a table from a CSV, TSV, Parquet or Feather file, by the suffix of its name.

    Parameters
    ----------
    path : path
        The file. CSV and TSV files can be compressed (``.csv.gz``).
    index : str, optional
        The column with the labels of the rows; it becomes the index.

    Returns
    -------
    DataFrame
        At least one row; the column names are distinct.

    Raises
    ------
    InputError
        If there is no such file, its format is unknown, or the table has no rows, no such index or a duplicate name.
    CorruptFileError
        If the file cannot be read.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"There is no file {file}; give the path of a CSV, Parquet or Feather file.")
    suffix = file.suffix.lower()
    if suffix in _COMPRESSED:
        suffix = Path(file.stem).suffix.lower()
    try:
        frame = _read(file, suffix)
    except (InputError, MissingExtraError):
        raise
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{file} is not UTF-8 text ({error}); save it with this encoding.") from error
    except (ValueError, OSError, EOFError) as error:  # the errors of pandas and pyarrow are subclasses of these
        raise CorruptFileError(f"{file} cannot be read: {' '.join(str(error).split())}.") from error
    if not len(frame):
        raise InputError(f"{file} has no rows.")
    if index is None:
        return frame
    if index not in frame.columns:
        raise InputError(f"{file} has no column {index!r} for the index; its columns are {list(frame.columns)}.")
    return frame.set_index(index)


def _read(file: Path, suffix: str) -> pd.DataFrame:
    if suffix in _SEPARATORS:
        separator = _SEPARATORS[suffix]
        header = pd.read_csv(file, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
        _refuse_duplicate_names(header.iloc[0].tolist(), file)  # pandas would rename them
        return pd.read_csv(file, sep=separator)
    if suffix not in (*_PARQUET, *_FEATHER):
        raise InputError(f"{file} is not a supported kind of table; use .csv, .tsv, .parquet or .feather.")
    check_installed("pyarrow", f"Reading {file}", '"gpec[files]"')  # pandas needs it
    frame = pd.read_parquet(file) if suffix in _PARQUET else pd.read_feather(file)
    _refuse_duplicate_names([str(name) for name in frame.columns], file)
    return frame.rename(columns=str)


def _refuse_duplicate_names(names: list[str], file: Path) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise InputError(
            f"{file} has several columns named {duplicates[0]!r}; rename them so that each has its own name."
        )
