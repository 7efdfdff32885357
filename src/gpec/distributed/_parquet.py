"""A folder of Parquet files explained into another."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpec._validation import check_installed
from gpec.distributed._file import Job, counts_of
from gpec.distributed._output_folder import OutputFolder, files_of, fingerprints_of, require_room
from gpec.distributed._partition import Partition
from gpec.distributed._scheduler import run_jobs, running_on
from gpec.distributed._task import ExplainTask
from gpec.errors import InputError
from gpec.pipeline.fitted import Fitted
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import to_state


@dataclass(frozen=True)
class Run:
    """Summary of the work of :func:`gpec.distributed.explain_parquet`.

    Attributes
    ----------
    target : path
        The folder that holds one file for each partition.
    n_partitions, n_rows : int
        What is in it.
    n_failed : int
        Rows that could not be explained; their lines have the reason in the column ``error``.
    n_resumed : int
        Partitions that an earlier run had finished.
    statement : str
        What the intervals promise, as :meth:`gpec.Explanation.statement` says it.
    """

    target: Path
    n_partitions: int
    n_rows: int
    n_failed: int
    n_resumed: int
    statement: str


def explain_parquet(
    g: Any,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    attribution: Literal["explainer", "posterior"] = "explainer",
    confidence_level: float = 0.95,
    errors: Literal["raise", "keep"] = "raise",
    resume: bool = False,
    overwrite: bool = False,
    index: str | None = None,
    scheduler: Any = None,
) -> Run:
    """Explain the rows of a folder of Parquet files, one task for each file, and write one file for each.

    A result has the name of its file, and the lines and columns of :meth:`gpec.Explanation.to_frame`. Columns that
    ``fit`` did not see are left out. Files are read and written some thousand rows at a time, each with an
    atomic write. If a worker dies, its files are explained by others. If everything dies, the same call with
    ``resume=True`` continues, and the files are the same to the byte.

    Parameters
    ----------
    g : GPEC
        Fitted. It is sent to each worker once; there it uses one thread for each task.
    source, target : path
        Folders that every worker sees. The target may be new, or empty.
    attribution, confidence_level
        As for :meth:`gpec.GPEC.explain`.
    errors : {"raise", "keep"}
        What to do about a row that cannot be explained: raise an error that names the file and the row, or give its
        lines missing values and the reason in a further column ``error``.
    resume : bool
        Continue an earlier call. Fit and settings must be the same. Files that are new or changed are explained; none
        may be missing.
    overwrite : bool
        Delete the files of an earlier call in the target.
    index : str, optional
        The column with the labels of the rows; by default the index that pandas has stored, else their numbers.
    scheduler : Client, str, optional
        Where to run: a ``distributed.Client``, the address of a scheduler, or "synchronous", "threads" or "processes"
        of this machine. By default the current client, else this process, one file after the other.

    Returns
    -------
    Run
        How many rows there were, and how many failed.

    Raises
    ------
    CheckpointError
        If the target is not empty, or belongs to other work.
    ClusterError
        If there is no such scheduler, or it was lost; finished files are kept.
    """
    rows, results, names = check_folders(source, target, resume=resume, overwrite=overwrite)
    task = ExplainTask.of(g, attribution, confidence_level, errors)
    folder = OutputFolder(results, _identity(g._require_fitted(), task, index), fingerprints_of(rows, names))
    with running_on(scheduler) as where:
        one = g.explain(g.X_explained_[:1], attribution=attribution, confidence_level=confidence_level)
        done = folder.prepare(resume=resume, overwrite=overwrite)
        jobs = [
            Job(Partition(i, name), rows / name, results, folder.stamp(name), index)
            for i, name in enumerate(folder.files)
            if name not in done
        ]
        try:
            counts = run_jobs(where, task, jobs, g.progress)
        except BaseException as error:
            n = sum((results / name).is_file() for name in folder.files)
            error.add_note(
                f"{n} of {len(names)} partitions are done and kept in {results}; pass resume=True, or run the same "
                "command, to resume."
            )
            raise
    folder.tidy()
    counts += [counts_of(task, results / name) for name in sorted(done)]
    n_rows, n_failed = (sum(numbers) for numbers in zip(*counts, strict=True))
    return Run(
        target=results,
        n_partitions=len(names),
        n_rows=n_rows,
        n_failed=n_failed,
        n_resumed=len(done),
        statement=one.statement(),
    )


def check_folders(
    source: str | os.PathLike[str], target: str | os.PathLike[str], *, resume: bool, overwrite: bool
) -> tuple[Path, Path, list[Path]]:
    """The folders of rows and results, and the files to explain; raise if they cannot be used."""
    rows, results = Path(source).resolve(), Path(target).resolve()
    names = _names(rows, results)
    require_room(results, resume=resume, overwrite=overwrite)
    return rows, results, names


def _names(source: Path, target: Path) -> list[Path]:
    check_installed("pyarrow", "Reading Parquet files", '"gpec[dask]"')
    if not source.is_dir():
        raise InputError(f"There is no folder {source}; give a folder of Parquet files.")
    if source == target or source in target.parents or target in source.parents:
        raise InputError(f"The target {target} and the source {source} must be separate folders.")
    names = files_of(source)
    if not names:
        raise InputError(f"The folder {source} holds no Parquet files (.parquet).")
    return names


def _identity(fitted: Fitted, task: ExplainTask, index: str | None) -> dict[str, str]:
    """What the results depend on besides the rows."""
    return {
        **fitted.identity(),
        "the calibration": fingerprint(to_state(fitted.calibration)),
        "the kind of attribution": task.attribution,
        "the confidence level": repr(task.confidence_level),
        "errors": task.errors,
        "the index": str(index),
    }
