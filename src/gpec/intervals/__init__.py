"""Intervals: rules, conformal calibration, and the certainty of signs and ranks."""

from gpec.intervals.conformal import Calibration, ConformityScores, rows_needed
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.intervals.protocol import Explained
from gpec.intervals.rules import IntervalRule, Latent, SimilarRows, Value
from gpec.intervals.trust import (
    SIGN_WORDS,
    firm_share,
    firm_share_of,
    half_width_of_mean,
    rank_certainty,
    row_levels,
    sign_certainty,
    trust_levels,
    trust_words,
    words_of,
)

__all__ = [
    "SIGN_WORDS",
    "Calibration",
    "ConformityScores",
    "Explained",
    "IntervalRule",
    "Latent",
    "ResidualNormalizer",
    "SimilarRows",
    "Value",
    "firm_share",
    "firm_share_of",
    "half_width_of_mean",
    "rank_certainty",
    "row_levels",
    "rows_needed",
    "sign_certainty",
    "trust_levels",
    "trust_words",
    "words_of",
]
