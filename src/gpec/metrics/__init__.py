"""Scores of intervals and predictions against true values."""

from gpec.metrics.ranks import rank_correlation, rank_stability
from gpec.metrics.rejection import RejectionCurve, rejection_curve
from gpec.metrics.scores import coverage, crps, interval_score, mean_width, nlpd
from gpec.metrics.slabs import worst_slab_coverage

__all__ = [
    "RejectionCurve",
    "coverage",
    "crps",
    "interval_score",
    "mean_width",
    "nlpd",
    "rank_correlation",
    "rank_stability",
    "rejection_curve",
    "worst_slab_coverage",
]
