"""Intervals: rules, conformal calibration, and how firm signs and ranks are."""

from gpec.intervals.conformal import Calibration, ConformityScores, Scores, rows_needed
from gpec.intervals.groups import Group, GroupedScores
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.intervals.order_statistics import AllExplained, BoundsOnly, draws_needed
from gpec.intervals.protocol import Explained, Fitted
from gpec.intervals.rules import IntervalRule, Latent, SimilarRows, Value
from gpec.intervals.trust import (
    SIGN_LEVELS,
    SIGN_WORDS,
    firm_share,
    firmness,
    half_width_of_mean,
    rank_certainty,
    sign_certainty,
    trust_words,
)

__all__ = [
    "SIGN_LEVELS",
    "SIGN_WORDS",
    "AllExplained",
    "BoundsOnly",
    "Calibration",
    "ConformityScores",
    "Explained",
    "Fitted",
    "Group",
    "GroupedScores",
    "IntervalRule",
    "Latent",
    "ResidualNormalizer",
    "Scores",
    "SimilarRows",
    "Value",
    "draws_needed",
    "firm_share",
    "firmness",
    "half_width_of_mean",
    "rank_certainty",
    "rows_needed",
    "sign_certainty",
    "trust_words",
]
