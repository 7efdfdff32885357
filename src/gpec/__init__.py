"""gpec: an honest error bar on every feature attribution."""

from typing import Any

from gpec import (
    boundary,
    calibration,
    data,
    datasets,
    distributed,
    errors,
    explainers,
    geometry,
    gp,
    images,
    kernels,
    metrics,
    models,
    promises,
    similar,
    trust,
)
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
    "calibration",
    "data",
    "datasets",
    "distributed",
    "errors",
    "explainers",
    "geometry",
    "gp",
    "images",
    "kernels",
    "metrics",
    "models",
    "plots",
    "promises",
    "similar",
    "trust",
]


def __getattr__(name: str) -> Any:
    if name == "plots":  # matplotlib is loaded when something is to be drawn
        from importlib import import_module

        return import_module("gpec.plots")
    raise AttributeError(f"module 'gpec' has no attribute {name!r}")
