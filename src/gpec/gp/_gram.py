"""A kernel at some rows: its matrix and eigendecomposition, each made once, and its values towards other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from gpec.data import Rows
from gpec.kernels import Kernel
from gpec.kernels.base import Cross, symmetric
from gpec.runtime.blocks import Lazy
from gpec.typing import FloatArray, IntArray

__all__ = ["Gram", "Spectrum", "feature_grams"]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """``K = Q diag(values) Q'``; what rounding made negative is 0."""

    values: FloatArray
    Q: FloatArray

    @classmethod
    def of(cls, K: FloatArray) -> Spectrum:
        values, Q = eigh(K, driver="evd")
        return cls(np.maximum(values, 0.0), Q)

    @Lazy
    def ones(self) -> FloatArray:
        """``Q' 1``."""
        return np.asarray(self.Q.sum(axis=0))


class Gram:
    """``k(X, X)`` of fixed rows, for one feature or for all alike (``feature=None``)."""

    def __init__(self, kernel: Kernel, rows: Rows, feature: int | None = None) -> None:
        self.kernel, self.rows, self.feature = kernel, rows, feature

    @classmethod
    def of_matrix(cls, K: FloatArray) -> Gram:
        """One of which nothing but its matrix is known."""
        gram = cls.__new__(cls)
        vars(gram)["matrix"] = K
        return gram

    @Lazy
    def cross(self) -> Cross:
        """Function of rows ``x`` that gives ``k(x, X)`` and ``k(x, x)``."""
        return self.kernel.cross_to(self.rows, self.feature)

    @Lazy
    def matrix(self) -> FloatArray:
        return symmetric(*self.cross(self.rows))

    @Lazy
    def spectrum(self) -> Spectrum:
        return Spectrum.of(self.matrix)

    def __getstate__(self) -> dict[str, Any]:  # functions cannot be pickled, but made again
        return {name: value for name, value in vars(self).items() if name != "cross"}


def feature_grams(kernel: Kernel, rows: Rows, d: int) -> list[tuple[IntArray, Gram]]:
    """Features with the matrix that serves them: one for all, unless the kernel differs by feature."""
    if not kernel.varies_by_feature:
        return [(np.arange(d), Gram(kernel, rows))]
    return [(np.array([f]), Gram(kernel, rows, f)) for f in range(d)]
