"""One Parquet file explained into another, a few thousand rows at a time, with an atomic write."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpec.distributed._output_folder import require_stamp
from gpec.distributed._partition import Partition, explain_rows
from gpec.distributed._task import ExplainTask
from gpec.errors import CorruptFileError, InputError
from gpec.runtime.archive import replacing

_ROWS = 8_192  # at a time, so that memory does not grow with the file
_REPEATED = ("row", "feature", "output", "data", "error")  # columns with repeated values, stored with a dictionary


@dataclass(frozen=True)
class Job:
    """One partition: where its rows are, the folder that the result goes to, and the stamp of the run."""

    partition: Partition
    source: Path
    folder: Path
    stamp: str
    index: str | None = None

    @property
    def target(self) -> Path:
        return self.folder / self.partition.name


def explain_file(task: ExplainTask, job: Job) -> tuple[int, int]:
    """Explain the rows of a file, on a worker; how many there are, and how many of them failed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for folder in (job.source, job.target.parent):
        if not folder.exists():
            raise InputError(
                f"{job.partition}: the worker on {socket.gethostname()} cannot see {folder}; source and target must be "
                "folders that every worker can see."
            )
    n_rows, n_failed, writer = 0, 0, None
    with replacing(job.target) as new:
        with ExitStack() as stack:
            for rows, labels, kind in _batches(task, job):
                frame, failed = explain_rows(task, rows, labels, replace(job.partition, first=n_rows))
                if writer is None:
                    schema = _schema(task, frame, kind)
                    repeated = [name for name in schema.names if name in _REPEATED]
                    writer = stack.enter_context(pq.ParquetWriter(new, schema, use_dictionary=repeated))
                writer.write_table(pa.Table.from_pandas(_storable(frame, schema), schema=schema, preserve_index=False))
                n_rows, n_failed = n_rows + len(labels), n_failed + failed
        require_stamp(job.folder, job.partition.name, job.stamp)
    return n_rows, n_failed


def counts_of(task: ExplainTask, target: Path) -> tuple[int, int]:
    """The same two numbers of a finished file, from its metadata."""
    import pyarrow.parquet as pq

    try:
        about = pq.read_metadata(target)
    except (OSError, ValueError) as error:
        raise CorruptFileError(f"{target} is damaged ({error}); delete it to compute it again.") from error
    missing = about.num_rows
    if task.layout.keeps_errors:
        column = about.schema.names.index("error")
        groups = (about.row_group(i).column(column).statistics for i in range(about.num_row_groups))
        missing = sum(group.null_count for group in groups)
    each = task.layout.per_row
    return about.num_rows // each, (about.num_rows - missing) // each


def _batches(task: ExplainTask, job: Job) -> Iterator[tuple[Any, Any, Any]]:
    """Batches of rows and labels, and the labels' type if it is an integer; an empty file gives one empty batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    seen = {str(label): label for label in task.schema.labels or ()}
    try:
        with pq.ParquetFile(job.source) as file:
            schema, first = file.schema_arrow, 0
            index, numbers = _index_of(schema, file.metadata.num_rows, job)
            features = [name for name in schema.names if name not in index and (name in seen or not seen)]
            kinds = [schema.field(name).type for name in index]
            kind = kinds[0] if len(kinds) == 1 and pa.types.is_integer(kinds[0]) else None
            batches = file.iter_batches(batch_size=_ROWS, columns=[*features, *index])
            tables = (pa.Table.from_batches([batch]) for batch in batches if len(batch))
            for table in tables if file.metadata.num_rows else [schema.empty_table()]:
                frame = table.select(features).to_pandas().reset_index(drop=True)[features]
                rows = frame.rename(columns=seen) if seen else frame.to_numpy()
                yield rows, _labels(table, index, numbers[first : first + len(table)]), kind
                first += len(table)
    except (pa.ArrowException, OSError) as error:
        raise CorruptFileError(f"{job.partition} cannot be read: {' '.join(str(error).split())}.") from error


def _index_of(schema: Any, n: int, job: Job) -> tuple[list[str], range]:
    """The columns of labels; without any, the numbers of the rows as pandas stored them."""
    if job.index is not None and job.index not in schema.names:
        raise InputError(f"{job.partition} has no column {job.index!r} for the index; its columns are {schema.names}.")
    stored = [job.index] if job.index is not None else (schema.pandas_metadata or {}).get("index_columns", [])
    index = [name for name in stored if isinstance(name, str)]
    span: Any = {"start": 0, "step": 1} if index or not stored else stored[0]
    return index, range(span["start"], span["start"] + n * span["step"], span["step"])


def _labels(table: Any, index: list[str], numbers: range) -> Any:
    if not index:
        return np.array(numbers, dtype=np.int64)
    if len(index) == 1:  # integers stay integers, also if one is missing
        return pd.Index(table[index[0]].to_pandas(integer_object_nulls=True)).to_numpy()
    return pd.MultiIndex.from_frame(table.select(index).replace_schema_metadata().to_pandas()).to_numpy()


def _schema(task: ExplainTask, frame: pd.DataFrame, kind: Any) -> Any:
    """The types of the columns, the same for all files with the same type of labels."""
    import pyarrow as pa

    kinds = {"feature": pa.string(), "output": pa.string(), "error": pa.string()}
    kinds["data"] = pa.float64() if task.layout.numeric else pa.string()
    labels = frame["row"]
    if kind is not None:
        kinds["row"] = kind
    elif labels.dtype == object or pd.api.types.is_string_dtype(labels.dtype):
        kinds["row"] = pa.string()
    else:
        kinds["row"] = pa.Array.from_pandas(labels.iloc[:0]).type
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in frame.columns])


def _storable(frame: pd.DataFrame, schema: Any) -> pd.DataFrame:
    """Mixed values as strings: a Parquet column has one type."""
    changed = {}
    for name in ("row", "data"):
        if frame[name].dtype == object and str(schema.field(name).type) == "string":
            changed[name] = frame[name].map(str, na_action="ignore").astype(object).where(frame[name].notna(), None)
    return frame.assign(**changed) if changed else frame
