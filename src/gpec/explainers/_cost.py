"""A warning at the start of a run of an explainer that will take long."""

from __future__ import annotations

import sys
import warnings

import joblib

from gpec.errors import SlowExplainerWarning

__all__ = ["CostEstimate"]

_MANY_MODEL_ROWS = 20_000_000
_MANY_COLUMNS = 100  # model rows with more columns than this take longer
_MANY_SECONDS = 60.0


class CostEstimate:
    """Warns once if explaining ``n`` rows will take long.

    Parameters
    ----------
    explainer : str
        Name of the explainer.
    n : int
        Rows to explain.
    model_rows : int or None
        Approximate number of model rows that this needs; None if unknown.
    remedy : str
        How to reduce the cost.
    n_columns : int
        Columns of a model row.
    """

    def __init__(self, explainer: str, n: int, model_rows: int | None, remedy: str, n_columns: int = 1) -> None:
        self._explainer, self._n, self._model_rows, self._remedy = explainer, n, model_rows, remedy
        self._silent = False
        if model_rows is not None and model_rows * max(1.0, n_columns / _MANY_COLUMNS) > _MANY_MODEL_ROWS:
            self._warn("")

    def first_block(self, seconds: float, share: float, n_jobs: int | None) -> None:
        """Warn if the time of the first block, which is ``share`` of the whole work, predicts a long run."""
        workers = min(joblib.effective_n_jobs(n_jobs), max(1, round(1 / share)))
        whole = seconds / share / workers
        if whole > _MANY_SECONDS:
            self._warn(f", about {whole / 60:.0f} min" if whole >= 90 else f", about {whole:.0f} s")

    def _warn(self, time: str) -> None:
        if self._silent:
            return
        self._silent = True
        rows = "" if self._model_rows is None else f" takes about {self._model_rows:,} model rows"
        cost = f"{rows}{time}" if rows else f" takes{time.removeprefix(',')}"
        warnings.warn(
            f"Explaining {self._n:,} rows with {self._explainer}{cost}; {self._remedy}.",
            SlowExplainerWarning,
            stacklevel=_outside(),
        )


def _outside() -> int:
    """The ``stacklevel`` of the line that called the package."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gpec":
        level, frame = level + 1, frame.f_back
    return level
