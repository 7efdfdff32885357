"""Similar rows: the rows for which an explanation should hold too.

The parameters of a :class:`Similar` object define what similar means. Its method ``learn`` uses the rows given to
``fit`` and returns a :class:`SimilaritySampler`, which gives every row its similar rows. They depend only on the
content of the row, not on the other rows.
"""

from gpec.similar._registry import make_similar
from gpec.similar.base import Similar, SimilaritySampler
from gpec.similar.function import FunctionOfRows, SimilarFunction
from gpec.similar.measurement import MeasurementError
from gpec.similar.nearest import NearestRows
from gpec.similar.steps import TypicalSteps

__all__ = [
    "FunctionOfRows",
    "MeasurementError",
    "NearestRows",
    "Similar",
    "SimilarFunction",
    "SimilaritySampler",
    "TypicalSteps",
    "make_similar",
]
