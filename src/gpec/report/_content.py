"""The data of a report as plain lists and texts: the rows shown, their numbers, and the summary of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec._numbers import decimals_for, is_missing, value_text
from gpec.errors import InputError
from gpec.intervals.protocol import Explained
from gpec.intervals.trust import SHOWN_WORDS, half_width_of_mean, shown_words
from gpec.runtime.randomness import stream
from gpec.typing import FloatArray, IntArray

_CELLS = 400_000  # attributions in one page, so that it stays below 10 MB
_EXTREMES = 0.1  # share of the rows shown that have the smallest firm share, and the largest, if not all are shown


def shown_rows(firm: FloatArray, n_features: int, n_outputs: int, max_rows: int) -> IntArray:
    """Positions of the rows to show: all, or those with the smallest and the largest firm share and a sample."""
    n = len(firm)
    limit = max(min(max_rows, _CELLS // (n_features * n_outputs)), 1)
    if n <= limit:
        return np.arange(n)
    order = np.argsort(firm, kind="stable")
    k = extremes(limit)
    chosen = np.zeros(n, dtype=bool)
    chosen[order[:k]] = chosen[order[n - k :]] = True
    others = order[k : n - k]
    chosen[stream(0, "report rows").choice(others, limit - 2 * k, replace=False)] = True
    return np.flatnonzero(chosen)


def extremes(n: int) -> int:
    """Number of rows with the smallest, and with the largest, firm share among ``n`` shown, if not all are shown."""
    return int(n * _EXTREMES)


@dataclass(frozen=True, eq=False)
class Content:
    """An explanation with all three axes, for the rows shown; the summary of all rows is in ``overall``.

    Attributes
    ----------
    n : int
        Number of explained rows.
    shown : array of int
        Positions of the rows shown.
    least_firm : array
        Firm share of each row shown, for the class where it is smallest.
    plain : dict
        The data for the page's script.
    """

    n: int
    shown: IntArray
    least_firm: FloatArray
    plain: dict[str, Any]

    @classmethod
    def of(cls, e: Explained, max_rows: int) -> Content:
        """From an explanation of one row or several."""
        if "feature" not in e.axes or e.values.size == 0:
            raise InputError(
                f"A report needs at least one row with its features; this explanation has the axes {e.axes} and the "
                f"shape {e.shape}."
            )
        by_row = with_axes(e, e.firm_share)
        least = by_row.min(axis=1)
        lower, upper = e.interval()
        names = ("values", "lower", "upper", "std", "model", "words")
        arrays = (e.values, lower, upper, e.std, e.model_variance, shown_words(e))
        full = {name: with_axes(e, array) for name, array in zip(names, arrays, strict=True)}
        n, d, c = full["values"].shape
        shown = shown_rows(least, d, c, max_rows)
        by_class: list[Any] = [{name: array[:, :, k] for name, array in full.items()} for k in range(c)]
        overall = [_overall(all_rows, e.confidence_level) for all_rows in by_class]
        plain = {
            "level": e.confidence_level,
            "unit": str(e.diagnostics.get("unit", "")),
            "features": [str(name) for name in e.feature_names],
            "outputs": outputs_of(e),
            "decimals": [decimals_for(each["size"]) for each in overall],
            "answer_decimals": 3
            if e.output_names is not None or e.predictions is None
            else decimals_for(e.predictions),
            "labels": _labels(e, shown),
            "columns": columns_of(data_of(e)[shown]),
            "answers": _by_output(e, e.predictions, shown),
            "base": _by_output(e, e.base_values, shown),
            "parts": [
                {**_part({name: array[shown] for name, array in all_rows.items()}), "firm": shortened(by_row[shown, k])}
                for k, all_rows in enumerate(by_class)
            ],
            "overall": overall,
        }
        return cls(n, shown, least[shown], plain)


def _overall(rows: dict[str, FloatArray], level: float) -> dict[str, list[float]]:
    """Mean size of each feature's attributions with its interval, and the share of rows whose sign is firm.

    The interval is that of :func:`gpec.plots.summary`; there is none for a single row.
    """
    size = np.abs(rows["values"])
    mean, half = size.mean(axis=0), np.zeros(size.shape[1])
    if len(size) > 1:
        half = half_width_of_mean(size, (rows["upper"] - rows["lower"]) / 2, level)
    firm = (rows["words"] == "firm").mean(axis=0)
    columns = {"size": mean, "least": np.maximum(mean - half, 0.0), "most": mean + half, "firm": firm}
    return {name: shortened(column) for name, column in columns.items()}


def _part(rows: dict[str, FloatArray]) -> dict[str, Any]:
    """The numbers of the shown rows for one class, row after row."""
    variance = rows["std"] ** 2
    share = np.divide(rows["model"], variance, out=np.ones_like(variance), where=variance > 0)
    return {
        **{name: shortened(rows[name]) for name in ("values", "lower", "upper")},
        "std": shortened(rows["std"], 3),
        "model": np.rint(100 * np.clip(share, 0.0, 1.0)).astype(int).ravel().tolist(),
        "words": "".join(str(SHOWN_WORDS.index(word)) for word in rows["words"].flat),
    }


def outputs_of(e: Explained) -> list[str]:
    """Names of the classes; that of a regressor is empty."""
    return [str(name or "") for name in (e.output_names if "output" in e.axes else [e.output_names])]


def shortened(array: Any, digits: int = 4) -> list[float]:
    """All numbers in one list, rounded to a few digits, which keeps their order and the text short."""
    numbers = np.asarray(array, dtype=np.float64).ravel()
    size = np.abs(numbers)
    exponent = np.clip(np.floor(np.log10(np.where(size > 0, size, 1.0))), -280, None)
    up, down = 10.0 ** np.maximum(digits - 1 - exponent, 0), 10.0 ** np.maximum(exponent - digits + 1, 0)
    return [float(number) for number in np.round(numbers * up / down) / up * down]


def with_axes(e: Explained, array: Any) -> npt.NDArray[Any]:
    """``(n, ..., c)``: an array of the explanation with the axis of the rows, or of the output, that it lacks."""
    by_row = np.asarray(array) if "row" in e.axes else np.asarray(array)[None]
    return by_row if "output" in e.axes else by_row[..., None]


def _by_output(e: Explained, array: FloatArray | None, shown: IntArray) -> list[list[float]] | None:
    if array is None:
        return None
    return [shortened(column, 6) for column in with_axes(e, array)[shown].T]


def data_of(e: Explained) -> npt.NDArray[Any]:
    """The explained rows, also for a single row."""
    return np.asarray(e.data if "row" in e.axes else e.data[None])


def _labels(e: Explained, shown: IntArray) -> list[str]:
    if e.row_names is None:
        return [str(i) for i in shown]
    names = e.row_names if "row" in e.axes else [e.row_names]
    return [value_text(names[i]) for i in shown]


def columns_of(data: npt.NDArray[Any]) -> list[dict[str, Any]]:
    """The values of each feature as texts, None if missing; and whether they are numbers."""
    columns = []
    for column in data.T:
        missing = is_missing(column)
        texts = [None if gone else value_text(value) for value, gone in zip(column, missing, strict=True)]
        columns.append({"number": all(map(_is_number, column[~missing])), "texts": texts})
    return columns


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
