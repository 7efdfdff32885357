"""The result of :func:`gpec.distributed.explain_parquet`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Run"]


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
