"""Explains the rows of one partition; the error names the row that cannot be explained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gpec.distributed._task import ExplainTask
from gpec.errors import ExplainerError, GPECError, InputError, ModelCallError, ModelOutputError, NumericalError
from gpec.explanation import Explanation

_BY_ROWS = (InputError, ModelCallError, ModelOutputError, ExplainerError, NumericalError)


@dataclass(frozen=True)
class Partition:
    """A partition: its number and name, and the number of its rows before those at hand."""

    number: int
    name: str = ""
    first: int = 0

    def __str__(self) -> str:
        return f"Partition {self.number}" + (f" ({self.name})" if self.name else "")


def explain_rows(task: ExplainTask, rows: Any, labels: Any, partition: Partition) -> tuple[pd.DataFrame, int]:
    """The lines of the rows, and how many rows failed; an error names them, or they are kept with ``errors="keep"``."""
    layout = task.layout
    if not len(rows):
        return layout.empty(labels), 0
    try:
        return layout.of(task.explain(rows), labels), 0
    except _BY_ROWS as error:
        wrong = error
    except GPECError as error:
        raise type(error)(f"{partition}: {error}") from error
    if isinstance(wrong, ModelCallError) and not task.model_still_answers():
        raise type(wrong)(f"{partition}: {wrong} The model also fails on rows that it answered in fit.") from wrong
    if task.errors == "raise":
        raise _named(task, rows, labels, partition, wrong)
    parts, failed = [], 0
    for part, outcome in _by_halves(task, rows, slice(0, len(rows)), wrong):
        if isinstance(outcome, Explanation):
            parts.append(layout.of(outcome, labels[part]))
        else:
            parts.append(layout.of_failed(labels[part], _line(outcome)))
            failed += part.stop - part.start
    return layout.joined(parts, labels), failed


def _by_halves(
    task: ExplainTask, rows: Any, part: slice, error: GPECError
) -> Iterator[tuple[slice, Explanation | GPECError]]:
    """Bisect a part that failed: explanations of the rows that can be explained, and an error for each other row."""
    n = part.stop - part.start
    if n == 1 or _of_all(task, rows):
        yield part, error
        return
    for half in (slice(part.start, part.start + n // 2), slice(part.start + n // 2, part.stop)):
        try:
            explanation = task.explain(_some(rows, half))
        except _BY_ROWS as wrong:
            yield from _by_halves(task, rows, half, wrong)
        else:
            yield half, explanation


def _named(task: ExplainTask, rows: Any, labels: Any, partition: Partition, error: GPECError) -> GPECError:
    """The error, with the partition and the first row that fails by itself."""
    if _of_all(task, rows):
        return type(error)(f"{partition}: {error}")
    for part, wrong in _by_halves(task, rows, slice(0, len(rows)), error):
        if isinstance(wrong, GPECError):
            row, label = partition.first + part.start, labels[part.start]
            shown = repr(label) if isinstance(label, str) else str(label)
            called = "" if shown == str(row) else f" (labelled {shown})"
            named = type(error)(f"{partition}, row {row}{called}: {_line(wrong)}")
            named.__cause__ = wrong
            return named
    # the rows fail together but not one by one
    return type(error)(f"{partition}, rows {partition.first} to {partition.first + len(rows) - 1}: {error}")


def _of_all(task: ExplainTask, rows: Any) -> bool:
    """Whether every row is wrong: other columns than in ``fit``, or a whole column of text where there were numbers."""
    labels = task.schema.labels
    if labels is None or not isinstance(rows, pd.DataFrame):
        return bool(rows.ndim == 2 and rows.shape[1] != task.schema.n_features)
    numbers = [labels[j] for j in task.schema.continuous]
    return set(rows.columns) != set(labels) or any(isinstance(rows[name].dtype, pd.StringDtype) for name in numbers)


def _some(rows: Any, part: slice) -> Any:
    return rows.iloc[part] if isinstance(rows, pd.DataFrame) else rows[part]


def _line(error: GPECError) -> str:
    return " ".join(error.reason.split())
