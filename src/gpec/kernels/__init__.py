"""How alike two rows are."""

from gpec.kernels._registry import make_kernel
from gpec.kernels.base import Kernel
from gpec.kernels.compose import Composed, Product, Scaled, Sum
from gpec.kernels.definite import PositiveDefiniteRange, positive_definite_range
from gpec.kernels.distances import Between, Distance, Effect, Output, Own, PointDistance, Rest
from gpec.kernels.matern import Matern
from gpec.kernels.rbf import RBF
from gpec.kernels.weg import EG, WEG

__all__ = [
    "EG",
    "RBF",
    "WEG",
    "Between",
    "Composed",
    "Distance",
    "Effect",
    "Kernel",
    "Matern",
    "Output",
    "Own",
    "PointDistance",
    "PositiveDefiniteRange",
    "Product",
    "Rest",
    "Scaled",
    "Sum",
    "make_kernel",
    "positive_definite_range",
]
