"""Sums, products and multiples of kernels; they pass on the free parameters of their parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter

from gpec._validation import check_auto
from gpec.data import Rows
from gpec.errors import ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import POSITIVE, Cross, Kernel
from gpec.typing import FloatArray

_FACTORS = (1e-4, 1e4)


def _of_parts(name: str, combine: Callable[[Iterator[Any]], Any]) -> Any:
    """A property of a kernel made of others: theirs, combined."""
    return property(lambda self: combine(getattr(getattr(self, part), name) for part in self._parts))


class Composed(Kernel):
    """A kernel made of others, its parameters named in ``_parts``; the fitted ones have the same names and a ``_``."""

    _parts: tuple[str, ...]

    def check(self) -> None:
        for name in self._parts:
            part = getattr(self, name)
            if not isinstance(part, Kernel):
                raise ParameterTypeError(f"{name} must be a kernel of gpec.kernels, got {type(part).__name__}.")
            part.check()

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        for name in self._parts:  # copies: the same object may stand elsewhere
            setattr(self, f"{name}_", getattr(self, name).copy().fit(graph, rows))

    @property
    def _fitted(self) -> dict[str, Kernel]:
        self._require_fitted(f"{self._parts[-1]}_")
        return {name: getattr(self, f"{name}_") for name in self._parts}

    varies_by_feature = _of_parts("varies_by_feature", any)
    needs_boundary = _of_parts("needs_boundary", any)
    rests_on_boundary = _of_parts("rests_on_boundary", all)
    needs_outputs = _of_parts("needs_outputs", any)
    needs_effects = _of_parts("needs_effects", partial(max, default=0))

    @property
    def theta(self) -> FloatArray:
        return np.concatenate([super().theta, *(part.theta for part in self._fitted.values())])

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        start = len(self._free())
        self._set_own(theta[:start])
        for part in self._fitted.values():
            part.theta = theta[start : start + part.n_dims]
            start += part.n_dims

    @property
    def bounds(self) -> FloatArray:
        return np.vstack([super().bounds, *(part.bounds for part in self._fitted.values())])

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        inner = [(name, inside) for name, part in self._fitted.items() for inside in part.hyperparameters]
        return super().hyperparameters + [
            Hyperparameter(f"{name}__{inside.name}", inside.value_type, inside.bounds) for name, inside in inner
        ]

    def diagnostics(self) -> dict[str, Any]:
        return {name: part.diagnostics() for name, part in self._fitted.items()}


class _Pair(Composed):
    """Two kernels joined by an operation, entry by entry."""

    _parts = ("first", "second")
    _join: np.ufunc

    def __init__(self, first: Kernel, second: Kernel) -> None:
        self.first = first
        self.second = second

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        first, second = (part.cross_to(Y, feature) for part in self._fitted.values())

        def cross_and_diagonal(X: Rows) -> tuple[FloatArray, FloatArray]:
            (a, a_diagonal), (b, b_diagonal) = first(X), second(X)
            return self._join(a, b), self._join(a_diagonal, b_diagonal)

        return cross_and_diagonal


class Sum(_Pair):
    """``k1(x, x') + k2(x, x')``; written ``k1 + k2``."""

    _join = np.add

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        (a, da), (b, db) = (part.gram_gradient(X, feature) for part in self._fitted.values())
        return a + b, np.concatenate((da, db), axis=2)


class Product(_Pair):
    """``k1(x, x') k2(x, x')``; written ``k1 * k2``."""

    _join = np.multiply

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        (a, da), (b, db) = (part.gram_gradient(X, feature) for part in self._fitted.values())
        return a * b, np.concatenate((da * b[:, :, None], a[:, :, None] * db), axis=2)


class Scaled(Composed):
    """``factor k(x, x')``; written ``factor * k``. ``Scaled("evidence", k)`` learns the factor, inside a sum."""

    _parts = ("kernel",)

    factor_: Annotated[float, POSITIVE]

    def __init__(self, factor: float | Literal["evidence"], kernel: Kernel) -> None:
        self.factor = factor
        self.kernel = kernel

    def check(self) -> None:
        check_auto("factor", self.factor, word="evidence")
        super().check()

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        self.factor_ = 1.0 if isinstance(self.factor, str) else float(self.factor)
        super()._fit(graph, rows)

    def _free(self) -> dict[str, tuple[float, float]]:
        return {"factor": _FACTORS} if isinstance(self.factor, str) else {}

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        inner = self._fitted["kernel"].cross_to(Y, feature)

        def cross_and_diagonal(X: Rows) -> tuple[FloatArray, FloatArray]:
            K, diagonal = inner(X)
            return self.factor_ * K, self.factor_ * diagonal

        return cross_and_diagonal

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        K, dK = self._fitted["kernel"].gram_gradient(X, feature)
        own = K[:, :, None] if self._free() else np.empty((*K.shape, 0))
        return self.factor_ * K, self.factor_ * np.concatenate((own, dK), axis=2)

    def diagnostics(self) -> dict[str, Any]:
        inner = self._fitted["kernel"].diagnostics()
        return {**inner, "factor": self.factor_ * inner.get("factor", 1.0)}
