"""Checks of single parameters. Rows are checked by :mod:`gpec.data`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from gpec.errors import InputError, MissingExtraError, ParameterTypeError
from gpec.typing import FloatArray


def check_installed(package: str, who: str, install: str) -> Any:
    """Import an optional package that ``who`` needs; ``install`` is its name for pip."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(f"{who} needs {package.partition('.')[0]}: pip install {install}.") from error


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    """``value`` if it is one of ``choices``."""
    if not isinstance(value, (str, bool)) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name}={repr(value)[:100]} is not one of {listed}.")
    return value


def check_count(name: str, value: Any, *, least: int = 1) -> int:
    """``value`` as an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ParameterTypeError(f"{name}={value!r} must be a whole number.")
    if value < least:
        raise InputError(f"{name}={value} must be at least {least}.")
    return int(value)


def check_n_jobs(value: Any) -> None:
    """Raise unless ``value`` is None or a nonzero number of threads."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value == 0):
        raise InputError(f"n_jobs={value!r} must be None or a whole number other than 0.")


def check_positive(name: str, value: Any, *, zero: bool = False) -> float:
    """``value`` as a finite float greater than 0 (or at least 0)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ParameterTypeError(f"{name}={value!r} must be a number.")
    try:
        number = float(value)
    except OverflowError:  # an int beyond all floats
        number = np.inf
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise InputError(f"{name}={value!r} must be a finite number {'of at least' if zero else 'greater than'} 0.")
    return number


def check_auto_count(name: str, value: Any, *, least: int = 1) -> None:
    """``value`` is "auto" or a whole number of at least ``least``."""
    if isinstance(value, str):
        check_choice(name, value, ("auto",))
    else:
        check_count(name, value, least=least)


def check_auto(name: str, value: Any, *, word: str | tuple[str, ...] = "auto", zero: bool = False) -> None:
    """``value`` is the word (or one of them), or a finite number greater than 0 (or at least 0)."""
    words = (word,) if isinstance(word, str) else word
    if not isinstance(value, str):
        check_positive(name, value, zero=zero)
    elif value not in words:
        raise InputError(f"{name}={value!r} must be {', '.join(map(repr, words))} or a number.")


def check_level(value: Any, name: str = "confidence_level") -> float:
    """A confidence level strictly between 0 and 1."""
    level = check_positive(name, value)
    if level >= 1:
        raise InputError(f"{name}={value!r} must be between 0 and 1, for instance 0.95.")
    return level


def check_finite_array(name: str, value: Any, *, least: float = -np.inf) -> FloatArray:
    """``value`` as a finite float64 array (a copy)."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} cannot be read as an array: {str(error).rstrip('.')}.") from error
    if array.dtype.kind not in "fiub":
        raise ParameterTypeError(f"{name} must be an array of real numbers, got dtype {array.dtype}.")
    array = np.array(array, dtype=np.float64)
    bad = ~(np.isfinite(array) & (array >= least))
    if bad.any():
        index = tuple(int(i) for i in np.argwhere(bad)[0])
        bound = "" if least == -np.inf else f" and at least {least:g}"
        raise InputError(f"{name} has {float(array[index])!r} at index {index}; all values must be finite{bound}.")
    return array
