"""Numbers and values of rows as a person reads them, and as a page carries them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from gpec.typing import FloatArray

__all__ = ["MISSING", "decimals_for", "is_missing", "is_number", "rounded", "show", "signed"]

MISSING = "missing"
_LONGEST = 60  # characters of a value
_DIGITS = 5  # of a row's value
_WHOLE = 1e15  # from here on floats are not counted one by one


def is_missing(value: Any) -> bool:
    """Whether a value is NaN, None, NaT or pandas' NA."""
    return np.ndim(value) == 0 and bool(pd.isna(value))


def is_number(value: Any) -> bool:
    """Whether a value is a number; truth values are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def show(value: Any) -> str:
    """A value of a row: numbers whole or with five digits, dates without midnight, long texts cut."""
    if isinstance(value, float) and math.isfinite(value):
        return _show_float(float(value))
    if is_missing(value):
        return MISSING
    if is_number(value):
        return str(int(value)) if isinstance(value, (int, np.integer)) else _show_float(float(value))
    text = str(value).removesuffix(" 00:00:00")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _show_float(number: float) -> str:
    if not math.isfinite(number):
        return str(number)
    if abs(number) < _WHOLE and (number.is_integer() or abs(number) >= 10**_DIGITS):
        return f"{number + 0.0:.0f}"  # no minus before a zero
    return f"{number:.{_DIGITS}g}"


def decimals_for(numbers: FloatArray) -> int | None:
    """Decimals that give the largest number three digits; None where it is too large or too small for that."""
    largest = float(np.max(np.abs(numbers), initial=0.0))
    if largest == 0:
        return 2
    decimals = 2 - math.floor(math.log10(largest))
    return None if not -4 <= decimals <= 8 else max(decimals, 0)


def signed(value: float, decimals: int | None) -> str:
    """An attribution with its sign; nothing stands before a zero."""
    text = f"{value:+.2e}" if decimals is None else f"{value:+.{decimals}f}"
    return (text if text.strip("+-0.") else text[1:]).replace("-", "\N{MINUS SIGN}")


def rounded(array: Any, digits: int) -> FloatArray:
    """Numbers rounded to so many digits, which keeps their order; a text of them is short."""
    numbers = np.asarray(array, dtype=np.float64)
    size = np.abs(numbers)
    exponent = np.clip(np.floor(np.log10(np.where(size > 0, size, 1.0))), -280, None)
    up, down = 10.0 ** np.maximum(digits - 1 - exponent, 0), 10.0 ** np.maximum(exponent - digits + 1, 0)
    return np.asarray(np.round(numbers * up / down) / up * down)
