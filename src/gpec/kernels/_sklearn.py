"""What scikit-learn's Gaussian processes ask of a kernel, in terms of ours."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from gpec.typing import FloatArray


class SklearnAdapter:
    """Lets ``GaussianProcessRegressor(WEG(...).fit(points))`` and ``k(X, Y)`` work.

    A mixin of :class:`gpec.kernels.Kernel`, which is registered as one of scikit-learn's kernels. A sum or product with
    one of scikit-learn's own kernels is scikit-learn's.
    """

    requires_vector_input = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        SklearnKernel.register(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of ``__init__``, by name."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def __call__(self: Any, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if Y is not None:
            return self.cross(X, Y)
        return self.gram_gradient(X) if eval_gradient else self.gram(X)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_params() == other.get_params()

    __hash__ = None  # type: ignore[assignment]

    def __sklearn_clone__(self: Any) -> Any:
        return self.copy()  # with its fitted state: scikit-learn clones a kernel before every fit of a Gaussian process

    def clone_with_theta(self: Any, theta: FloatArray) -> Any:
        """A copy with other values of the free parameters."""
        return self.with_theta(theta)

    @property
    def hyperparameters(self: Any) -> list[Hyperparameter]:
        """The free parameters, as scikit-learn lists them."""
        return [Hyperparameter(name, "numeric", np.array([bounds])) for name, bounds in self._free().items()]

    def is_stationary(self) -> bool:
        """Whether ``k(x, x')`` depends on ``x - x'`` alone; kernels of the boundary do not."""
        return False

    def _check_bounds_params(self) -> None:
        """Learned values at a bound raise no warning."""

    set_params = SklearnKernel.set_params
    __add__ = SklearnKernel.__add__
    __radd__ = SklearnKernel.__radd__
    __pow__ = SklearnKernel.__pow__
    __mul__ = SklearnKernel.__mul__
