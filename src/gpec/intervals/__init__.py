"""Intervals: their rules, conformal calibration, and what they say of signs and ranks."""

from gpec.intervals.conformal import Calibration, ConformityScores, rows_needed
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.intervals.protocol import Explained
from gpec.intervals.rules import IntervalRule, Latent, SimilarRows, Value

__all__ = [
    "Calibration",
    "ConformityScores",
    "Explained",
    "IntervalRule",
    "Latent",
    "ResidualNormalizer",
    "SimilarRows",
    "Value",
    "rows_needed",
]
