"""How long a run takes, and a warning at the start of a run of an explainer that will take long."""

from __future__ import annotations

import sys
import warnings

import joblib

from gpec.errors import SlowExplainerWarning

LONG = 60.0  # seconds
_MANY_MODEL_ROWS = 20_000_000
_MANY_COLUMNS = 100  # model rows with more columns than this take longer


def warn_if_long(
    explainer: str, n: int, model_rows: int | None, n_columns: int, remedy: str, seconds: float | None = None
) -> bool:
    """Warn if explaining ``n`` rows will take long; by ``seconds`` or, before they are known, by model rows."""
    is_long = (model_rows or 0) * max(1.0, n_columns / _MANY_COLUMNS) > _MANY_MODEL_ROWS
    is_long = is_long if seconds is None else seconds > LONG
    if is_long:
        message = f"Explaining {n:,} rows with {explainer} takes {in_words(model_rows, seconds)}; {remedy}."
        level, frame = 2, sys._getframe(1)  # of the line that called the package
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "gpec":
            level, frame = level + 1, frame.f_back
        warnings.warn(message, SlowExplainerWarning, stacklevel=level)
    return is_long


def n_workers(n_jobs: int | None, n_blocks: float) -> int:
    """How many threads work on so many blocks."""
    return min(int(joblib.effective_n_jobs(n_jobs)), max(1, round(n_blocks)))


def in_words(model_rows: float | None, seconds: float | None) -> str:
    """For instance "about 5,000,000 model rows, about 5 min"; what is None, or no model rows, is left out."""
    parts = [f"about {model_rows:,.0f} model rows"] if model_rows else []
    if seconds is not None:
        parts.append(f"about {seconds / 60:,.0f} min" if seconds >= 90 else f"about {seconds:.0f} s")
    return ", ".join(parts)
