"""gpec: an honest error bar on every feature attribution."""

from gpec import boundary, data, datasets, errors, explainers, geometry, gp, images, kernels, models, promises, trust
from gpec._version import __version__
from gpec.boundary import BoundarySample
from gpec.estimator import GPEC, PAPER
from gpec.explainers import Attribution
from gpec.explanation import Explanation

__all__ = [
    "GPEC",
    "PAPER",
    "Attribution",
    "BoundarySample",
    "Explanation",
    "__version__",
    "boundary",
    "data",
    "datasets",
    "errors",
    "explainers",
    "geometry",
    "gp",
    "images",
    "kernels",
    "models",
    "promises",
    "trust",
]
