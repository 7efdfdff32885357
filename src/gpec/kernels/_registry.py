"""Which kernel is meant by a name."""

from __future__ import annotations

from typing import Any

from gpec.errors import InputError
from gpec.kernels.base import Kernel
from gpec.kernels.rbf import RBF
from gpec.kernels.weg import WEG

__all__ = ["make_kernel"]

_NAMES = ("rbf", "weg")


def make_kernel(kernel: Any, lam: Any = "auto", rho: Any = "auto") -> Kernel:
    """The kernel meant by a name or an object, not fitted; ``lam`` and ``rho`` belong to "weg"."""
    if isinstance(kernel, Kernel):
        kernel.check()
        return kernel
    if isinstance(kernel, str) and kernel in _NAMES:
        return WEG(lam, rho) if kernel == "weg" else RBF("evidence")
    raise InputError(f"kernel={kernel!r} is not one of {_NAMES} or a kernel of gpec.kernels.")
