"""The radial basis function kernel: ``exp(-|x - x'|^2 / (2 l^2))``."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.spatial.distance import cdist, pdist

from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Against, Kernel, _rows
from gpec.table import FloatArray
from gpec.validation import check_auto

__all__ = ["RBF"]

_ROWS_FOR_LENGTHSCALE = 500


class RBF(Kernel):
    """Radial basis function kernel; it knows nothing of the boundary (the paper's Naive-GP).

    Parameters
    ----------
    lengthscale : float or "auto"
        ``l`` in ``exp(-|x - x'|^2 / (2 l^2))``; "auto" is the median distance between rows.
    """

    def __init__(self, lengthscale: float | Literal["auto"] = "auto") -> None:
        self.lengthscale = lengthscale

    def check(self) -> None:
        check_auto("lengthscale", self.lengthscale)

    def _fit(self, graph: GeodesicGraph | None, X: FloatArray | None) -> None:
        if not isinstance(self.lengthscale, str):
            self.lengthscale_ = float(self.lengthscale)
            return
        if X is None:
            raise InputError("lengthscale='auto' needs rows: call fit(boundary, X), or give a number.")
        rows = X[:: max(len(X) // _ROWS_FOR_LENGTHSCALE, 1)][:_ROWS_FOR_LENGTHSCALE]
        distances = pdist(rows)
        distances = distances[distances > 0]
        self.lengthscale_ = float(np.median(distances)) if distances.size else 1.0

    def against(self, Y: FloatArray) -> Against:
        self._require_fitted("lengthscale_")
        Y = _rows(Y, "Y") / self.lengthscale_

        def cross_and_diagonal(X: FloatArray) -> tuple[FloatArray, FloatArray]:
            X = _rows(X, "X")
            if X.shape[1] != Y.shape[1]:
                raise InputError(f"X has {X.shape[1]} features but Y has {Y.shape[1]}.")
            return np.exp(-0.5 * cdist(X / self.lengthscale_, Y, "sqeuclidean")), np.ones(len(X))

        return cross_and_diagonal

    def diag(self, X: Any) -> FloatArray:
        self._require_fitted("lengthscale_")
        return np.ones(len(_rows(X, "X")))

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("lengthscale_")
        return {"lengthscale": self.lengthscale_}

    def fitted_state(self) -> dict[str, Any]:
        self._require_fitted("lengthscale_")
        return {"lengthscale": self.lengthscale_}

    def restore(self, state: dict[str, Any]) -> Self:
        self.lengthscale_ = state["lengthscale"]
        return self
