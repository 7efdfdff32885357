"""Which kernel is meant by a name."""

from __future__ import annotations

from typing import Any

from gpec.errors import InputError
from gpec.kernels.base import Kernel
from gpec.kernels.distances import Effect, Output, Own, Rest
from gpec.kernels.matern import Matern
from gpec.kernels.rbf import RBF
from gpec.kernels.weg import WEG

_NAMES = ("auto", "rbf", "weg")
_BY_FEATURE = 200  # attributions of a row up to which each feature has its own kernel


def make_kernel(
    kernel: Any,
    lam: Any = "auto",
    rho: Any = "auto",
    n_attributions: int = 1,
    *,
    shared: bool = False,
    effect: bool = False,
    boundary: bool = True,
) -> Kernel:
    """The kernel meant by a name or an object, not fitted; ``lam`` and ``rho`` belong to "weg" and "auto".

    "auto" is ``Matern(Own(), Rest(), Output(), WEG(lam, rho))``, with ``Effect()`` if ``effect`` is true, as for
    regressors, and without ``WEG`` if ``boundary`` is false. If it is to be shared, or with more than 200 attributions
    of a row (features times outputs), it lacks ``Own()`` and ``Effect()``, so that one kernel serves all features.
    """
    if isinstance(kernel, Kernel):
        kernel.check()
        return kernel
    if isinstance(kernel, str) and kernel in _NAMES:
        along_boundary = WEG(lam, rho)
        if kernel == "auto":
            last = (along_boundary,) if boundary else ()
            if shared or n_attributions > _BY_FEATURE:
                return Matern(Rest(), Output(), *last)
            return Matern(Own(), Rest(), Output(), *((Effect(),) if effect else ()), *last)
        return along_boundary if kernel == "weg" else RBF("evidence")
    raise InputError(f"kernel={kernel!r} is not one of {_NAMES} or a kernel of gpec.kernels.")
