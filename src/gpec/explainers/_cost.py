"""How long a run takes, and a warning at the start of a run of an explainer that will take long."""

from __future__ import annotations

import sys
import warnings

import joblib

from gpec.errors import SlowExplainerWarning

LONG = 60.0  # seconds
_MANY_MODEL_ROWS = 20_000_000
_MANY_COLUMNS = 100  # model rows with more columns than this take longer


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
            self._warn(None)

    def first_block(self, seconds: float, share: float, n_jobs: int | None) -> None:
        """Warn if the time of the first block, which is ``share`` of the whole work, predicts a long run."""
        whole = seconds / share / n_workers(n_jobs, 1 / share)
        if whole > LONG:
            self._warn(whole)

    def _warn(self, seconds: float | None) -> None:
        if self._silent:
            return
        self._silent = True
        cost = in_words(self._model_rows, seconds)
        warnings.warn(
            f"Explaining {self._n:,} rows with {self._explainer} takes {cost}; {self._remedy}.",
            SlowExplainerWarning,
            stacklevel=_outside(),
        )


def n_workers(n_jobs: int | None, n_blocks: float) -> int:
    """How many threads work on so many blocks."""
    return min(int(joblib.effective_n_jobs(n_jobs)), max(1, round(n_blocks)))


def in_words(model_rows: float | None, seconds: float | None) -> str:
    """For instance "about 5,000,000 model rows, about 5 min"; what is None, or no model rows, is left out."""
    parts = [f"about {model_rows:,.0f} model rows"] if model_rows else []
    if seconds is not None:
        parts.append(f"about {seconds / 60:,.0f} min" if seconds >= 90 else f"about {seconds:.0f} s")
    return ", ".join(parts)


def _outside() -> int:
    """The ``stacklevel`` of the line that called the package."""
    level, frame = 2, sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gpec":
        level, frame = level + 1, frame.f_back
    return level
