"""Sentences and numbers for the page."""

from __future__ import annotations

import logging
import math

from gpec.errors import GPECError

__all__ = ["number", "sentence"]


def sentence(error: Exception) -> str:
    """What went wrong, for the page; what nobody foresaw goes to the log and is not shown."""
    if isinstance(error, GPECError):
        return str(error)
    logging.getLogger("gpec.app").error("The page met an unexpected error.", exc_info=error)
    return "Something unexpected went wrong; the terminal that runs the page says what."


def number(value: float, *, signed: bool = False) -> str:
    """Three digits, with a real minus sign."""
    if not math.isfinite(value):
        return "none"
    shown = f"{value:+.3g}" if signed and value else f"{value:.3g}"
    return shown.replace("-", "\u2212")
