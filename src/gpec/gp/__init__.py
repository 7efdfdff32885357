"""Gaussian process regression of attributions, one feature at a time."""

from gpec.gp._reml import LEAST_NUGGET as NOISE_FLOOR
from gpec.gp.conditioning import make_posterior
from gpec.gp.evidence import Parameters, fit_parameters, fixed_parameters
from gpec.gp.learning import learn_kernel
from gpec.gp.lowrank import LowRankPosterior
from gpec.gp.posterior import ExactPosterior, LeaveOneOut, PairPosterior, Posterior, Prediction
from gpec.gp.tasks import TaskPosterior, Tasks, check_task_kernel, make_task_posterior

__all__ = [
    "NOISE_FLOOR",
    "ExactPosterior",
    "LeaveOneOut",
    "LowRankPosterior",
    "PairPosterior",
    "Parameters",
    "Posterior",
    "Prediction",
    "TaskPosterior",
    "Tasks",
    "check_task_kernel",
    "fit_parameters",
    "fixed_parameters",
    "learn_kernel",
    "make_posterior",
    "make_task_posterior",
]
