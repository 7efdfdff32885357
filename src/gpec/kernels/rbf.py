"""The radial basis function kernel: ``exp(-|x - x'|^2 / (2 l^2))``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist, pdist

from gpec._validation import check_auto
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import POSITIVE, Cross, Kernel
from gpec.typing import FloatArray

_ROWS_FOR_LENGTHSCALE = 500
_SEARCHED = (1e-2, 1e2)  # in units of the median distance


class RBF(Kernel):
    """Radial basis function kernel; it knows nothing of the boundary (the paper's Naive-GP).

    Parameters
    ----------
    lengthscale : float, "auto" or "evidence"
        ``l`` in ``exp(-|x - x'|^2 / (2 l^2))``; "auto" is the median distance between rows. "evidence" starts there and
        is learned by :func:`gpec.gp.learn_kernel`, from a hundredth to a hundred times of it.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.gp import learn_kernel
    >>> from gpec.kernels import RBF
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> kernel = RBF("evidence").fit(None, X)
    >>> wavy, smooth = np.sin(3 * X), np.sin(X)
    >>> learn_kernel(kernel, X, wavy, 0 * X).lengthscale_ < learn_kernel(kernel, X, smooth, 0 * X).lengthscale_
    True
    """

    lengthscale_: Annotated[float, POSITIVE]
    median_: Annotated[float, POSITIVE]

    def __init__(self, lengthscale: float | Literal["auto", "evidence"] = "auto") -> None:
        self.lengthscale = lengthscale

    def check(self) -> None:
        check_auto("lengthscale", self.lengthscale, word=("auto", "evidence"))

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if not isinstance(self.lengthscale, str):
            self.lengthscale_ = float(self.lengthscale)
            return
        if rows is None:
            raise InputError(f"lengthscale={self.lengthscale!r} needs rows: call fit(boundary, X), or give a number.")
        X = rows.embedded
        distances = pdist(X[evenly_spaced(len(X), _ROWS_FOR_LENGTHSCALE)])
        distances = distances[distances > 0]
        self.median_ = self.lengthscale_ = float(np.median(distances)) if distances.size else 1.0

    def _free(self) -> dict[str, tuple[float, float]]:
        return self._searched("lengthscale", "median_", *_SEARCHED)

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        self._require_fitted("lengthscale_")
        scaled = Y.embedded / self.lengthscale_

        def cross_and_diagonal(X: Rows) -> tuple[FloatArray, FloatArray]:
            if X.embedded.shape[1] != scaled.shape[1]:
                raise InputError(f"X has {X.embedded.shape[1]} features but Y has {scaled.shape[1]}.")
            return np.exp(-0.5 * cdist(X.embedded / self.lengthscale_, scaled, "sqeuclidean")), np.ones(len(X))

        return cross_and_diagonal

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        rows = Rows.of(X)
        K = self.gram(rows)
        if not self._free():
            return K, np.empty((*K.shape, 0))
        scaled = rows.embedded / self.lengthscale_
        return K, (K * cdist(scaled, scaled, "sqeuclidean"))[:, :, None]

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("lengthscale_")
        return {"lengthscale": self.lengthscale_}
