"""Gaussian process regression of attributions, one feature at a time."""

from gpec.gp.evidence import Parameters, fit_parameters, fixed_parameters
from gpec.gp.lowrank import LowRankPosterior
from gpec.gp.regression import ExactPosterior, Posterior, Prediction

__all__ = [
    "ExactPosterior",
    "LowRankPosterior",
    "Parameters",
    "Posterior",
    "Prediction",
    "fit_parameters",
    "fixed_parameters",
]
