"""Squared distances between rows, to be added inside a :class:`~gpec.kernels.Matern`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from scipy.spatial.distance import cdist

from gpec._validation import check_auto, check_count
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import POSITIVE, ByFeature, Cross, Kernel
from gpec.kernels.compose import Composed
from gpec.runtime.state import Shape
from gpec.typing import FloatArray

# Squared distances between two arrays of points: ``squares`` or ``pairs``.
Metric = Callable[[FloatArray, FloatArray], FloatArray]

_ROOT3 = np.sqrt(3.0)
_ROWS_FOR_LENGTH = 300
_SEARCHED = (0.03, 300.0)  # lengths, in units of the median distance


class Distance(Kernel):
    """A squared distance between rows, to be added to others in a :class:`Matern`; alone, the Matern kernel of it.

    Subclasses implement :meth:`squared_to` and :meth:`squared_pairs`.

    Parameters
    ----------
    length : "evidence" or float
        The distance at which it counts as 1; "evidence" starts at the median over rows and is learned.
    """

    length_: Annotated[float, POSITIVE]
    median_: Annotated[float, POSITIVE]

    def __init__(self, length: float | Literal["evidence"] = "evidence") -> None:
        self.length = length

    @abstractmethod
    def squared_to(self, Y: Rows) -> Callable[[Rows], ByFeature]:
        """Squared distances ``(n, m)`` between all rows ``X`` and ``Y``, before the length.

        What depends on ``Y`` alone, and then what features share, is computed once.
        """

    @abstractmethod
    def squared_pairs(self, X: Rows, Y: Rows) -> ByFeature:
        """The same between each of ``n`` rows of ``X`` and its own ``K`` of the ``n K`` rows of ``Y``, ``(n, K)``."""

    def check(self) -> None:
        check_auto("length", self.length, word="evidence")

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if not isinstance(self.length, str):
            self.length_ = float(self.length)
            return
        if rows is None:
            raise InputError(f"{type(self).__name__}('evidence') needs rows: call fit(boundary, X), or give a number.")
        some = rows[evenly_spaced(len(rows), _ROWS_FOR_LENGTH)]
        self.median_ = self.length_ = self._typical(some)

    def _typical(self, rows: Rows) -> float:
        """The median distance between rows that differ; of a distance that differs by feature, the median of those."""
        found, squared_of = [], self.squared_to(rows)(rows)
        for feature in range(rows.n_features) if self.varies_by_feature else (None,):
            squared = squared_of(feature)
            squared = squared[squared > 1e-24 * squared.max(initial=0.0)]
            found += [float(np.median(squared))] if squared.size else []
        return float(np.sqrt(np.median(found or [1.0])))

    def _free(self) -> dict[str, tuple[float, float]]:
        return self._searched("length", "median_", *_SEARCHED)

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        self._require_fitted("length_")
        squared_to = self.squared_to(Y)
        return lambda X: (matern(squared_to(X)(feature) / self.length_**2)[0], np.ones(len(X)))

    def paired(self, X: Rows, Y: Rows) -> ByFeature:
        squared_of = self.squared_pairs(X, Y)
        return lambda feature: matern(squared_of(feature) / self.length_**2)[0]

    def pull_squared(self, W: FloatArray, rows: Rows, features: Sequence[int | None]) -> FloatArray:
        """``sum_fij W_fij dD_fij / dtheta`` of squared distances before the length, by parameters besides it."""
        return np.empty(0)

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("length_")
        return {"length": self.length_}


class PointDistance(Distance):
    """Euclidean distance between points that represent the rows: implement :meth:`_points`."""

    @abstractmethod
    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        """Coordinates ``(n, m)`` of rows."""

    def squared_to(self, Y: Rows) -> Callable[[Rows], ByFeature]:
        return lambda X: self._measured(X, Y, squares)

    def squared_pairs(self, X: Rows, Y: Rows) -> ByFeature:
        return self._measured(X, Y, pairs)

    def _measured(self, X: Rows, Y: Rows, metric: Metric) -> ByFeature:
        if self.varies_by_feature:
            return lambda feature: metric(self._points(X, feature), self._points(Y, feature))
        squared = metric(self._points(X, None), self._points(Y, None))
        return lambda feature: squared


class Own(PointDistance):
    """Distance between the values of the feature that is explained; 0 or 1, times its scale, for categories."""

    varies_by_feature = True

    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        return rows.own(require_feature(feature))


class Rest(PointDistance):
    """Distance between the rows, without the feature that is explained where :class:`Own` counts that apart."""

    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        return rows.embedded

    def _measured(self, X: Rows, Y: Rows, metric: Metric) -> ByFeature:
        whole = metric(self._points(X, None), self._points(Y, None))

        def squared(feature: int | None) -> FloatArray:
            if feature is None:
                return whole
            rest = metric(X.own(feature), Y.own(feature))
            np.subtract(whole, rest, out=rest)
            return np.maximum(rest, 0.0, out=rest)

        return squared


class Output(PointDistance):
    """Distance between the model's answers, over their deviations: each class as log-odds and as probability.

    Attributions in units of probability follow the probability where it is small and the log-odds elsewhere. With both,
    the marginal likelihood rose on every table tried (by 16 to 140 nats over log-odds alone). The values of a regressor
    are taken as they are. Their ``arcsinh``, which is like a logarithm, was less likely on every table tried, by 17 to
    250 nats, heavy tails or not: the length is learned in units of the median distance, which a few large values do
    not move.
    """

    needs_outputs = True
    spread_: Annotated[FloatArray, Shape("c"), POSITIVE]

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if rows is None:
            raise InputError("Output needs the model's outputs: call fit(boundary, X) with Rows(outputs=...).")
        spread = _answers(rows).std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        super()._fit(graph, rows)

    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        self._require_fitted("spread_")
        return np.asarray(_answers(rows) / self.spread_)


class Effect(PointDistance):
    """Distance between effects: how the model's answer changes when the feature takes the value of other rows.

    The effect of feature ``f`` at ``x`` is ``o(x) - mean_b o(x with the value of f in row b)``, over its deviation.
    Where the model uses a feature alike in two rows, their attributions are alike. Effects are known for rows that the
    explainer has not seen. They cost at most ``n_rows`` model calls for each feature of a row.

    Parameters
    ----------
    length : "evidence" or float
        As for other distances.
    n_rows : int
        Number of rows ``b`` whose values are exchanged; they are some of the rows explained in ``fit``.
    """

    varies_by_feature = True
    spread_: Annotated[FloatArray, POSITIVE]

    def __init__(self, length: float | Literal["evidence"] = "evidence", n_rows: int = 3) -> None:
        super().__init__(length)
        self.n_rows = n_rows

    @property
    def needs_effects(self) -> int:  # type: ignore[override]
        return self.n_rows

    def check(self) -> None:
        super().check()
        check_count("n_rows", self.n_rows)

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if rows is None:
            raise InputError("Effect needs effects: call fit(boundary, X) with Rows(effects=...).")
        spread = rows.require("effects").std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        super()._fit(graph, rows)

    def _points(self, rows: Rows, feature: int | None) -> FloatArray:
        self._require_fitted("spread_")
        f = require_feature(feature)
        return np.asarray(rows.require("effects")[:, f] / self.spread_[f])


class Between(Composed, Distance):
    """The squared distance that a kernel induces, ``k(x, x) + k(x', x') - 2 k(x, x')``; written as the kernel itself.

    ``Matern(Own(), WEG())`` is ``Matern(Own(), Between(WEG()))``.

    Parameters
    ----------
    kernel : Kernel
        The kernel, such as :class:`WEG`.
    length : "evidence" or float
        As for other distances.
    """

    _parts = ("kernel",)
    kernel_: Kernel

    def __init__(self, kernel: Kernel, length: float | Literal["evidence"] = "evidence") -> None:
        super().__init__(length)
        self.kernel = kernel

    def check(self) -> None:
        Distance.check(self)
        super().check()

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        super()._fit(graph, rows)
        Distance._fit(self, graph, rows)

    def squared_to(self, Y: Rows) -> Callable[[Rows], ByFeature]:
        self._require_fitted("kernel_")
        kernel = self.kernel_
        if self.varies_by_feature:
            return lambda X: lambda feature: _apart(*kernel.cross_to(Y, feature)(X), kernel.diag(Y, feature))
        cross, diagonal = kernel.cross_to(Y), kernel.diag(Y)

        def to(X: Rows) -> ByFeature:
            squared = _apart(*cross(X), diagonal)
            return lambda feature: squared

        return to

    def squared_pairs(self, X: Rows, Y: Rows) -> ByFeature:
        paired = self.kernel_.paired(X, Y)

        def squared(feature: int | None) -> FloatArray:
            diagonal = self.kernel_.diag(Y, feature).reshape(len(X), -1)
            return _apart(paired(feature), self.kernel_.diag(X, feature), diagonal)

        if self.varies_by_feature:
            return squared
        whole = squared(None)
        return lambda feature: whole

    def pull_squared(self, W: FloatArray, rows: Rows, features: Sequence[int | None]) -> FloatArray:
        if not self.kernel_.n_dims:
            return np.empty(0)
        by_kernel = -2.0 * W
        np.einsum("fii->fi", by_kernel)[...] += W.sum(axis=1) + W.sum(axis=2)
        return self.kernel_.grams_pullback(rows, features)[1](by_kernel)

    def diagnostics(self) -> dict[str, Any]:
        return {**self.kernel_.diagnostics(), **Distance.diagnostics(self)}


def _apart(K: FloatArray, k: FloatArray, diagonal: FloatArray) -> FloatArray:
    """``k(x, x) + k(y, y) - 2 k(x, y)``, not below 0."""
    return np.maximum(k[:, None] + diagonal - 2.0 * K, 0.0)


def _answers(rows: Rows) -> FloatArray:
    return rows.kind.compared(rows.require("outputs"))


def matern(squared: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``k = (1 + sqrt(3) d) exp(-sqrt(3) d)`` and ``exp(-sqrt(3) d)`` of squared distances, which are overwritten.

    The derivative of ``k`` by the squared distance is -3/2 of the latter.
    """
    np.sqrt(squared, out=squared)
    squared *= _ROOT3
    decay = np.negative(squared)
    np.exp(decay, out=decay)
    squared += 1.0
    squared *= decay
    return squared, decay


def squares(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Squared distances ``(n, m)``, in an array of their own."""
    if X.shape[1] != 1:
        return np.asarray(cdist(X, Y, "sqeuclidean"))
    apart = X - Y[:, 0]  # the same bits in 0.6 of the time
    return np.multiply(apart, apart, out=apart)


def require_feature(feature: int | None) -> int:
    if feature is None:
        raise InputError("Own and Effect are about the feature that is explained; say which: gram(X, feature=0).")
    return feature


def pairs(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Squared distances ``(n, K)`` of ``X (n, m)`` to ``Y (n K, m)``."""
    apart = Y.reshape(len(X), -1, X.shape[1]) - X[:, None]
    return np.asarray(np.einsum("ikj,ikj->ik", apart, apart))
