"""The layout of a result: the lines of :meth:`gpec.Explanation.to_frame`, with the same types in every partition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from gpec.explanation import Explanation
from gpec.pipeline.fitted import Fitted


@dataclass(frozen=True, eq=False)
class ResultLayout:
    """The lines of one row as a template, and whether there is a column for errors."""

    of_one: pd.DataFrame
    keeps_errors: bool

    @classmethod
    def like(cls, one: Explanation, fitted: Fitted, *, keeps_errors: bool) -> ResultLayout:
        """The layout of the explanation of one row. ``data`` is numeric only if all features are."""
        frame = one.to_frame()
        if not (fitted.context.schema.plain and fitted.context.groups.single):
            frame["data"] = frame["data"].astype(object)
        return cls(frame, keeps_errors)

    @property
    def per_row(self) -> int:
        return len(self.of_one)

    @property
    def numeric(self) -> bool:
        """Whether ``data`` holds numbers only."""
        return self.of_one["data"].dtype != object

    def empty(self, labels: Any) -> pd.DataFrame:
        """An empty frame with the types of a result for rows with these labels."""
        texts = pd.api.types.is_string_dtype(labels.dtype) and len(labels) == 0
        none = self.of_one.iloc[:0].assign(row=_as_column(["a"] if texts else labels)[:0])
        return none.assign(error=_texts(0, None)) if self.keeps_errors else none

    def of(self, e: Explanation, labels: Any) -> pd.DataFrame:
        """The lines of explained rows."""
        frame = replace(e, row_names=np.asarray(labels)).to_frame()
        frame["row"] = _repeated(labels, self.per_row)
        if not self.numeric:
            frame["data"] = frame["data"].astype(object)
        return frame.assign(error=_texts(len(frame), None)) if self.keeps_errors else frame

    def of_failed(self, labels: Any, reason: str) -> pd.DataFrame:
        """The lines of rows that could not be explained, with missing numbers."""
        n = len(labels)
        frame = pd.concat([self.of_one] * n, ignore_index=True)
        for name in frame.columns.difference(["row", "feature", "output"]):
            frame[name] = np.nan if self.numeric or name != "data" else None
        frame["row"] = _repeated(labels, self.per_row)
        return frame.assign(error=_texts(len(frame), reason))

    def joined(self, parts: list[pd.DataFrame], labels: Any) -> pd.DataFrame:
        """All lines, numbered from 0."""
        filled = [part for part in parts if len(part)]
        return pd.concat(filled, ignore_index=True) if filled else self.empty(labels)


def _texts(n: int, text: str | None) -> pd.Series[Any]:
    return pd.Series([text] * n, dtype=pd.Series(["a"]).dtype)


def _as_column(labels: Any) -> pd.Series[Any]:
    """As :meth:`Explanation.to_frame` would have them."""
    return pd.DataFrame({"row": np.asarray(labels)})["row"]


def _repeated(labels: Any, times: int) -> Any:
    return _as_column(labels).repeat(times).reset_index(drop=True)
