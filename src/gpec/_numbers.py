"""Formats of numbers, shares and missing values, shared by prints, plots, reports and the app."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from gpec.typing import BoolArray

MISSING = "missing"
_LONGEST = 60  # characters of a value
_WHOLE = 1e15  # above it, floats skip integers


def is_missing(values: Any) -> BoolArray:
    """Which entries are missing: NaN, None, NaT or pandas' NA."""
    return np.asarray(pd.isna(np.asarray(values)), dtype=bool)


def value_text(value: Any, digits: int = 5) -> str:
    """A value of a row: whole numbers, else ``digits`` digits; dates without midnight; long texts shortened."""
    if np.ndim(value) == 0 and pd.isna(value):
        return MISSING
    if isinstance(value, float | np.floating):
        exact = float(value) + 0.0  # no minus before a zero
        whole = exact.is_integer() or abs(exact) >= 10.0 ** (digits - 1)
        return f"{exact:.0f}" if whole and abs(exact) < _WHOLE else f"{exact:.{digits}g}"
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    return shorten(str(value).removesuffix(" 00:00:00"), _LONGEST)


def number(value: Any, like: Any = None, *, sign: bool = False, minus: str = "\N{MINUS SIGN}") -> str:
    """An attribution or another result: with the decimals that give the largest of the numbers ``like`` three digits.

    By default ``like`` is the value itself. A zero has no sign. Terminals may not show a real minus sign.
    """
    decimals = decimals_for(value if like is None else like)
    text = f"{value:+.2e}" if decimals is None else f"{value:+.{decimals}f}"
    if float(text) == 0 or (value > 0 and not sign):
        text = text[1:]
    return text.replace("-", minus)


def decimals_for(numbers: Any) -> int | None:
    """Decimals that give the largest number three digits; None if it is too large or too small."""
    largest = float(np.max(np.abs(numbers), initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return 2
    decimals = 2 - math.floor(math.log10(largest))
    return max(decimals, 0) if -4 <= decimals <= 8 else None


def answer_text(answer: Any, of_class: bool) -> str:
    """A model's answer: a probability with three decimals, a regressor's with three digits."""
    return f"{answer:.3f}" if of_class and 0 <= answer <= 1 else number(answer)


def rough_text(value: float) -> str:
    """A size with two digits: "2,100", "0.31"."""
    return f"{float(f'{value:.2g}'):,.10g}"


def level_text(level: float) -> str:
    """A confidence level: "95%"."""
    return f"{100 * level:.4g}%"


def share_text(share: float) -> str:
    """A share in whole percent; "100%" and "0%" only if exact."""
    text = f"{share:.0%}"
    return ">99%" if share < 1 and text == "100%" else "<1%" if share > 0 and text == "0%" else text


def shorten(text: Any, width: int) -> str:
    """The text in one line; if it is longer than ``width`` its middle is left out, so both ends show."""
    line = " ".join(str(text).split())
    if len(line) <= width:
        return line
    tail = (width - 1) // 3
    return f"{line[: width - 1 - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def counted(n: int, noun: str) -> str:
    """How many: "1 row", "1,200 rows"."""
    return f"{n:,} {noun if n == 1 else noun + 's'}"
