"""What a kernel must do.

A kernel is described by its parameters, then fitted to a boundary (and rows, for parameters chosen automatically). It
is a scikit-learn kernel without free hyperparameters: ``GaussianProcessRegressor(WEG(...).fit(points))`` works, and so
does ``k(X, Y)``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from gpec.errors import InputError, NotFittedError
from gpec.geometry import GeodesicGraph
from gpec.table import FloatArray
from gpec.validation import check_finite_array, check_positive

__all__ = ["Against", "Kernel"]

# Rows X -> (k(X, Y), k(x, x)) for the fixed rows Y.
Against = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Kernel(SklearnKernel, ABC):
    """Base of the kernels: implement :meth:`_fit`, :meth:`against` and :meth:`diag`.

    ``gram``, ``cross``, ``diag`` and ``against`` always belong to one positive semi-definite function.
    """

    def fit(self, boundary: Any = None, X: Any = None) -> Self:
        """Fit to boundary points (an array or a :class:`~gpec.geometry.GeodesicGraph`) and rows ``X``.

        Rows serve to choose parameters left at "auto".
        """
        graph = boundary
        if boundary is not None and not isinstance(boundary, GeodesicGraph):
            graph = GeodesicGraph.build(boundary)
        rows = None if X is None else _rows(X, "X")
        if graph is not None and rows is not None and rows.shape[1] != graph.points.shape[1]:
            raise InputError(f"X has {rows.shape[1]} features but the boundary has {graph.points.shape[1]}.")
        self.check()
        self._fit(graph, rows)
        return self

    def check(self) -> None:
        """Refuse parameters that can never be used."""

    @abstractmethod
    def _fit(self, graph: GeodesicGraph | None, X: FloatArray | None) -> None:
        """Learn from the graph and rows."""

    @abstractmethod
    def against(self, Y: FloatArray) -> Against:
        """A function of rows ``X`` that gives ``k(X, Y)`` and ``k(x, x)``; what depends on ``Y`` is computed once."""

    @abstractmethod
    def diag(self, X: Any) -> FloatArray:
        """``k(x, x)`` for each row."""

    @abstractmethod
    def fitted_state(self) -> dict[str, Any]:
        """What fitting learned, as arrays, numbers and strings."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> Self:
        """Set what :meth:`fitted_state` gave."""

    def tune(self, X: FloatArray, Y: FloatArray, U: FloatArray, output_scale: float | Literal["evidence"]) -> Self:
        """The fitted kernel, adapted to attributions ``Y`` of noise ``U`` at rows ``X`` where it learns from them."""
        return self

    def diagnostics(self) -> dict[str, Any]:
        """Parameters in use and repairs made."""
        return {}

    def cross(self, X: Any, Y: Any) -> FloatArray:
        """``k(X, Y)``."""
        return self.against(_rows(Y, "Y"))(_rows(X, "X"))[0]

    def gram(self, X: Any) -> FloatArray:
        """``k(X, X)``, exactly symmetric."""
        X = _rows(X, "X")
        K, diagonal = self.against(X)(X)
        K = (K + K.T) / 2
        np.fill_diagonal(K, diagonal)
        return K

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        K = self.gram(X) if Y is None else self.cross(X, Y)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.get_params(deep=False).items())
        return f"{type(self).__name__}({shown})"

    def is_stationary(self) -> bool:
        return False

    def __sklearn_clone__(self) -> Self:
        # Fitted state is kept: scikit-learn clones a kernel before every fit of a Gaussian process.
        return copy.copy(self)

    def __add__(self, other: Any) -> Any:
        from gpec.kernels.compose import Sum

        return Sum(self, other) if isinstance(other, Kernel) else super().__add__(other)

    def __mul__(self, other: Any) -> Any:
        from gpec.kernels.compose import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        if isinstance(other, SklearnKernel):
            return super().__mul__(other)
        return Scaled(check_positive("factor", other), self)

    __rmul__ = __mul__

    def _require_fitted(self, attribute: str) -> None:
        if not hasattr(self, attribute):
            raise NotFittedError(
                f"This {type(self).__name__} kernel is not fitted yet; call fit(boundary_points) first."
            )


def _rows(X: Any, name: str) -> FloatArray:
    rows = check_finite_array(name, X)
    if rows.ndim != 2 or len(rows) == 0:
        raise InputError(f"{name} must have shape (rows, features) with at least one row, got shape {rows.shape}.")
    return rows
