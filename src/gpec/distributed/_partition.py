"""The rows of one partition explained; if some cannot be, the error says which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gpec.distributed._question import Question
from gpec.errors import ExplainerError, GPECError, InputError, ModelCallError, ModelOutputError, NumericalError
from gpec.explanation import Explanation

__all__ = ["Place", "explain_rows"]

_BY_ROWS = (InputError, ModelCallError, ModelOutputError, ExplainerError, NumericalError)


@dataclass(frozen=True)
class Place:
    """Where rows come from: the number and name of the partition, and how many of its rows came before."""

    number: int
    name: str = ""
    first: int = 0

    def __str__(self) -> str:
        return f"Partition {self.number}" + (f" ({self.name})" if self.name else "")


def explain_rows(question: Question, rows: Any, labels: Any, place: Place) -> tuple[pd.DataFrame, int]:
    """The lines of the rows, and how many rows failed; these are named in an error, or kept as the question says."""
    lines = question.lines
    if not len(rows):
        return lines.empty(labels), 0
    try:
        return lines.of(question.ask(rows), labels), 0
    except _BY_ROWS as error:
        wrong = error
    except GPECError as error:
        raise type(error)(f"{place}: {error}") from error
    if isinstance(wrong, ModelCallError) and not question.model_is_well():
        raise type(wrong)(f"{place}: {wrong} The model fails on rows that it answered in fit, too.") from wrong
    if question.errors == "raise":
        raise _named(question, rows, labels, place, wrong)
    parts, failed = [], 0
    for part, found in _by_halves(question, rows, slice(0, len(rows)), wrong):
        if isinstance(found, Explanation):
            parts.append(lines.of(found, labels[part]))
        else:
            parts.append(lines.of_failed(labels[part], _line(found)))
            failed += part.stop - part.start
    return lines.joined(parts, labels), failed


def _by_halves(
    question: Question, rows: Any, part: slice, error: GPECError
) -> Iterator[tuple[slice, Explanation | GPECError]]:
    """The rows of a part that failed: those that can be explained, and each other one with its error."""
    n = part.stop - part.start
    if n == 1 or _of_all(question, rows) or _mistyped(question, rows):
        yield part, error
        return
    for half in (slice(part.start, part.start + n // 2), slice(part.start + n // 2, part.stop)):
        try:
            found = question.ask(_some(rows, half))
        except _BY_ROWS as wrong:
            yield from _by_halves(question, rows, half, wrong)
        else:
            yield half, found


def _named(question: Question, rows: Any, labels: Any, place: Place, error: GPECError) -> GPECError:
    """The error with the partition, and the first row that fails alone."""
    if _of_all(question, rows):
        return type(error)(f"{place}: {error}")
    for part, wrong in _by_halves(question, rows, slice(0, len(rows)), error):
        if isinstance(wrong, GPECError):
            row, label = place.first + part.start, labels[part.start]
            shown = repr(label) if isinstance(label, str) else str(label)
            called = "" if shown == str(row) else f" (labelled {shown})"
            named = type(error)(f"{place}, row {row}{called}: {_line(wrong)}")
            named.__cause__ = wrong
            return named
    # together they fail, apart they do not
    return type(error)(f"{place}, rows {place.first} to {place.first + len(rows) - 1}: {error}")


def _of_all(question: Question, rows: Any) -> bool:
    """Whether it is the columns that are wrong, and so every row."""
    labels = question.labels
    if labels is not None and isinstance(rows, pd.DataFrame):
        return set(rows.columns) != set(labels)
    return rows.shape[1] != question.n_features if rows.ndim == 2 else False


def _mistyped(question: Question, rows: Any) -> bool:
    """Whether a whole column is text where ``fit`` had numbers: one reason then stands for all rows."""
    return isinstance(rows, pd.DataFrame) and any(
        isinstance(rows[label].dtype, pd.StringDtype) for label in question.numbers
    )


def _some(rows: Any, part: slice) -> Any:
    return rows.iloc[part] if isinstance(rows, pd.DataFrame) else rows[part]


def _line(error: GPECError) -> str:
    return " ".join(error.reason.split())
