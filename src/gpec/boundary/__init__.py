"""Where the model changes its mind: samples of its decision boundary."""

from gpec.boundary.adversarial import AdversarialSampler, AttackReport
from gpec.boundary.base import BoundarySample, Sampler
from gpec.boundary.bisection import BisectionSampler

__all__ = ["AdversarialSampler", "AttackReport", "BisectionSampler", "BoundarySample", "Sampler"]
