"""Plots of an explanation; each draws on the given axes and returns them."""

from gpec.plots.bars import bars
from gpec.plots.beeswarm import beeswarm
from gpec.plots.boundary import boundary
from gpec.plots.calibration import calibration
from gpec.plots.heatmap import heatmap
from gpec.plots.image import image
from gpec.plots.rejection import rejection
from gpec.plots.scatter import scatter
from gpec.plots.similar import similar
from gpec.plots.summary import summary
from gpec.plots.waterfall import waterfall

__all__ = [
    "bars",
    "beeswarm",
    "boundary",
    "calibration",
    "heatmap",
    "image",
    "rejection",
    "scatter",
    "similar",
    "summary",
    "waterfall",
]
