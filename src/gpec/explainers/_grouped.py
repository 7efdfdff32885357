"""Attributions summed over groups of features."""

from __future__ import annotations

from gpec.data import Groups
from gpec.explainers.attribution import Attribution

__all__ = ["grouped"]


def grouped(answer: Attribution, groups: Groups) -> Attribution:
    """Attributions and variances added within groups; errors of different features are taken as independent."""
    variance = None if answer.variance is None else groups.add(answer.variance)
    return Attribution(groups.add(answer.values), variance, answer.base_values)
