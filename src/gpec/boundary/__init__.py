"""Samples of a classifier's decision boundary, or of a regressor's level sets."""

from gpec.boundary.adversarial import AdversarialSampler
from gpec.boundary.base import AttackReport, BoundarySample, Sampler
from gpec.boundary.bisection import BisectionSampler
from gpec.boundary.levels import LevelSetSampler

__all__ = ["AdversarialSampler", "AttackReport", "BisectionSampler", "BoundarySample", "LevelSetSampler", "Sampler"]
