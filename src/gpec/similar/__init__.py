"""Rows like this one: those over which an explanation is asked to hold.

A :class:`Similar` object says in its parameters what similar means. ``learn`` makes a :class:`SimilaritySampler` of it,
which knows the rows given to ``fit`` and gives every row its similar rows. They depend on the content of the row alone,
not on the rows beside it.
"""

from gpec.similar._registry import make_similar
from gpec.similar.base import Similar, SimilaritySampler
from gpec.similar.function import FunctionOfRows, SimilarFunction
from gpec.similar.measurement import MeasurementError
from gpec.similar.nearest import NearestRows

__all__ = [
    "FunctionOfRows",
    "MeasurementError",
    "NearestRows",
    "Similar",
    "SimilarFunction",
    "SimilaritySampler",
    "make_similar",
]
