"""The kind of similar rows for a name, an object or a function."""

from __future__ import annotations

from typing import Any

from gpec.errors import ParameterTypeError
from gpec.similar.base import Similar
from gpec.similar.function import SimilarFunction
from gpec.similar.nearest import NearestRows


def make_similar(similar: Any) -> Similar | None:
    """The object for the parameter ``similar``; None for the paper's intervals, which do not use similar rows."""
    if similar is None or isinstance(similar, Similar):
        return similar
    if isinstance(similar, str) and similar == "auto":
        return NearestRows()
    if callable(similar) and not isinstance(similar, type):
        return SimilarFunction(similar)
    raise ParameterTypeError(
        f"similar={similar!r} must be 'auto', None, an object such as NearestRows() or MeasurementError({{'glucose': "
        "5.0}) of gpec.similar, or a function of rows."
    )
