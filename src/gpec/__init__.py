"""gpec: an honest error bar on every feature attribution."""

from gpec import _interrupt as _interrupt  # first: Ctrl-C during the other imports

# isort: split

import sys
from typing import Any

from gpec import (
    boundary,
    data,
    datasets,
    distributed,
    errors,
    explainers,
    geometry,
    gp,
    images,
    intervals,
    kernels,
    metrics,
    models,
    similar,
)
from gpec._version import __version__
from gpec.boundary import BoundarySample
from gpec.estimator import GPEC, PAPER
from gpec.explainers import Attribution
from gpec.explanation import Explanation
from gpec.intervals import conformal as calibration
from gpec.intervals import rules as promises
from gpec.intervals import trust

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
    "intervals",
    "kernels",
    "metrics",
    "models",
    "plots",
    "promises",
    "similar",
    "trust",
]

# public modules that live in a package
sys.modules.update({f"gpec.{name}": globals()[name] for name in ("calibration", "promises", "trust")})


def __getattr__(name: str) -> Any:
    if name == "plots":  # matplotlib is loaded when something is to be drawn
        from importlib import import_module

        return import_module("gpec.plots")
    raise AttributeError(f"module 'gpec' has no attribute {name!r}")
