"""What scikit-learn's Gaussian processes ask of a kernel, in terms of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel


class SklearnAdapter(SklearnKernel):
    """Lets ``GaussianProcessRegressor(WEG(...).fit(points))`` and ``k(X, Y)`` work.

    A sum or product with one of scikit-learn's own kernels is scikit-learn's.
    """

    def __call__(self: Any, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if Y is not None:
            return self.cross(X, Y)
        return self.gram_gradient(X) if eval_gradient else self.gram(X)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({shown})"

    def __sklearn_clone__(self: Any) -> Any:
        return self.copy()  # with its fitted state: scikit-learn clones a kernel before every fit of a Gaussian process

    @property
    def hyperparameters(self: Any) -> list[Hyperparameter]:
        """The free parameters, as scikit-learn lists them."""
        return [Hyperparameter(name, "numeric", np.array([bounds])) for name, bounds in self._free().items()]

    def is_stationary(self) -> bool:
        """Whether ``k(x, x')`` depends on ``x - x'`` alone; kernels of the boundary do not."""
        return False

    def _check_bounds_params(self) -> None:
        """Learned values at a bound raise no warning."""
