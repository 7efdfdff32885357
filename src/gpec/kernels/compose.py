"""Sums, products and multiples of kernels."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from gpec.errors import ParameterTypeError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Against, Kernel
from gpec.table import FloatArray
from gpec.validation import check_positive

__all__ = ["Product", "Scaled", "Sum"]


class _Pair(Kernel):
    """Two kernels joined by an operation."""

    def __init__(self, first: Kernel, second: Kernel) -> None:
        self.first = first
        self.second = second

    @abstractmethod
    def _join(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """The operation, entry by entry."""

    def check(self) -> None:
        _check_part("first", self.first)
        _check_part("second", self.second)

    def _fit(self, graph: GeodesicGraph | None, X: FloatArray | None) -> None:
        # copies: the same object may stand elsewhere
        self.first_ = self.first.__sklearn_clone__().fit(graph, X)
        self.second_ = self.second.__sklearn_clone__().fit(graph, X)

    def against(self, Y: FloatArray) -> Against:
        self._require_fitted("second_")
        first, second = self.first_.against(Y), self.second_.against(Y)

        def cross_and_diagonal(X: FloatArray) -> tuple[FloatArray, FloatArray]:
            (a, a_diagonal), (b, b_diagonal) = first(X), second(X)
            return self._join(a, b), self._join(a_diagonal, b_diagonal)

        return cross_and_diagonal

    def diag(self, X: Any) -> FloatArray:
        self._require_fitted("second_")
        return self._join(self.first_.diag(X), self.second_.diag(X))

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("second_")
        return {"first": self.first_.diagnostics(), "second": self.second_.diagnostics()}

    def fitted_state(self) -> dict[str, Any]:
        self._require_fitted("second_")
        return {"first": self.first_.fitted_state(), "second": self.second_.fitted_state()}

    def restore(self, state: dict[str, Any]) -> Self:
        self.first_ = self.first.__sklearn_clone__().restore(state["first"])
        self.second_ = self.second.__sklearn_clone__().restore(state["second"])
        return self


class Sum(_Pair):
    """``k1(x, x') + k2(x, x')``; written ``k1 + k2``."""

    def _join(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return a + b


class Product(_Pair):
    """``k1(x, x') k2(x, x')``; written ``k1 * k2``."""

    def _join(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return a * b


class Scaled(Kernel):
    """``factor k(x, x')``; written ``factor * k``."""

    def __init__(self, factor: float, kernel: Kernel) -> None:
        self.factor = factor
        self.kernel = kernel

    def check(self) -> None:
        check_positive("factor", self.factor)
        _check_part("kernel", self.kernel)

    def _fit(self, graph: GeodesicGraph | None, X: FloatArray | None) -> None:
        self.kernel_ = self.kernel.__sklearn_clone__().fit(graph, X)

    def against(self, Y: FloatArray) -> Against:
        self._require_fitted("kernel_")
        inner = self.kernel_.against(Y)

        def cross_and_diagonal(X: FloatArray) -> tuple[FloatArray, FloatArray]:
            K, diagonal = inner(X)
            return self.factor * K, self.factor * diagonal

        return cross_and_diagonal

    def diag(self, X: Any) -> FloatArray:
        self._require_fitted("kernel_")
        return self.factor * self.kernel_.diag(X)

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("kernel_")
        inner = self.kernel_.diagnostics()
        return {**inner, "factor": self.factor * inner.get("factor", 1.0)}

    def fitted_state(self) -> dict[str, Any]:
        self._require_fitted("kernel_")
        return {"kernel": self.kernel_.fitted_state()}

    def restore(self, state: dict[str, Any]) -> Self:
        self.kernel_ = self.kernel.__sklearn_clone__().restore(state["kernel"])
        return self


def _check_part(name: str, part: object) -> None:
    if not isinstance(part, Kernel):
        raise ParameterTypeError(f"{name} must be a kernel of gpec.kernels, got {type(part).__name__}.")
    part.check()
