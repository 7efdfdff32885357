"""How alike two rows are."""

from gpec.kernels._registry import make_kernel
from gpec.kernels.base import Kernel
from gpec.kernels.compose import Product, Scaled, Sum
from gpec.kernels.rbf import RBF
from gpec.kernels.weg import EG, WEG

__all__ = ["EG", "RBF", "WEG", "Kernel", "Product", "Scaled", "Sum", "make_kernel"]
