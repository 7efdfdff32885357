"""The numbers of the regularisation test: found among the results, compared in pairs, and shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import t as student

from paper._runs import Run, mean_and_error, plus_minus

__all__ = [
    "by_draws",
    "cells",
    "change",
    "decreases",
    "notices",
    "percent",
    "printed",
    "table_draws",
    "verb",
    "verdict",
]


def table_draws(run: Run, name: str) -> list[dict[str, Any]]:
    return [run.values[f"{name}, draw {seed}"] for seed in range(run.settings["draws"])]


def by_draws(draws: list[dict[str, Any]], block: str, method: str) -> np.ndarray:
    """Numbers of a block, one line for each draw that has it, one column for each level."""
    return np.array([one[block][method] for one in draws if block in one], dtype=float)


def verdict(by_draw: Any) -> str:
    """What paired differences between the last and the first level say: "falls", "rises" or "unsettled".

    They must leave 0 outside their 95% interval (Student's t, for few draws).
    """
    by_draw = np.asarray(by_draw, dtype=float)
    mean, error = mean_and_error(by_draw[:, -1] - by_draw[:, 0])
    if not np.isfinite(error) or abs(mean) <= student.ppf(0.975, len(by_draw) - 1) * error:
        return "unsettled"
    return "falls" if mean < 0 else "rises"


def decreases(row: Any) -> bool:
    return row is not None and bool((np.diff(row) < 0).all())


def notices(said: np.ndarray, actual: np.ndarray) -> bool:
    """Whether what is said changes in the direction of the truth, beyond its own error."""
    direction = "falls" if np.mean(actual[:, -1] - actual[:, 0]) < 0 else "rises"
    return verdict(said) == direction


def verb(by_draw: np.ndarray) -> str:
    return {"falls": "falls", "rises": "rises", "unsettled": "neither clearly falls nor rises"}[verdict(by_draw)]


def _digits(numbers: Any) -> int:
    """So many that the largest number shows three figures."""
    most = float(np.max(np.abs(numbers)))
    return 3 if most == 0 else int(np.clip(2 - np.floor(np.log10(most)), 2, 7))


def cells(by_draw: np.ndarray, digits: int | None = None) -> str:
    digits = _digits(by_draw) if digits is None else digits
    return " | ".join(plus_minus(column, digits) for column in by_draw.T)


def change(by_draw: np.ndarray, digits: int | None = None) -> str:
    difference = by_draw[:, -1] - by_draw[:, 0]
    return plus_minus(difference, _digits(by_draw) if digits is None else digits)


def percent(by_draw: np.ndarray) -> str:
    return plus_minus(100 * (by_draw[:, -1] / by_draw[:, 0] - 1), 0)


def printed(row: Any, errors: Any) -> str:
    """The paper's three numbers, and their standard errors where it gives them."""
    if row is None:
        return "none"
    shown = ", ".join(f"{number:g}" for number in row)
    return shown + (f" ({', '.join(f'{number:g}' for number in errors)})" if errors else "")
