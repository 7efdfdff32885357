"""Squared distances between rows, to be added inside a :class:`~gpec.kernels.Matern`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from gpec._validation import check_auto
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Cross, Kernel
from gpec.kernels.compose import Composed
from gpec.typing import FloatArray

__all__ = ["Between", "Distance", "Output", "Own", "Rest"]

# Squared distances between two arrays of points: ``squares`` or ``pairs``.
Metric = Callable[[FloatArray, FloatArray], FloatArray]
# A derivative: a number times a matrix.
Slope = tuple[float, FloatArray]

_ROOT3 = np.sqrt(3.0)
_ROWS_FOR_LENGTH = 300
_SEARCHED = (0.03, 300.0)  # lengths, in units of the median distance
_LARGEST_LOG_ODDS = 8.0  # a probability of 0.0003: beyond it answers are the same


class Distance(Kernel):
    """A squared distance between rows, to be added to others in a :class:`Matern`; alone, the Matern kernel of it.

    Subclasses implement :meth:`_squared`.

    Parameters
    ----------
    length : "evidence" or float
        The distance at which it counts as 1; "evidence" starts at the median over rows and is learned.
    """

    def __init__(self, length: float | Literal["evidence"] = "evidence") -> None:
        self.length = length

    @abstractmethod
    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        """Squared distances before the length.

        Between all rows ``(n, m)`` if the metric is ``squares``; ``(n, K)`` of each row of ``X`` to its own ``K`` rows
        of ``Y`` if it is ``pairs``.
        """

    @property
    def _measure(self) -> tuple[Any, ...]:
        """Cache key of the distance before it is divided by its length."""
        return (self,)

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
        found = []
        for feature in range(rows.n_features) if self.varies_by_feature else (None,):
            squared = self._squared(rows, rows, feature, squares)
            squared = squared[squared > 1e-24 * squared.max(initial=0.0)]
            found += [float(np.median(squared))] if squared.size else []
        return float(np.sqrt(np.median(found or [1.0])))

    def _free(self) -> dict[str, tuple[float, float]]:
        if self.length != "evidence":
            return {}
        self._require_fitted("length_")
        return {"length": (_SEARCHED[0] * self.median_, _SEARCHED[1] * self.median_)}

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        self._require_fitted("length_")
        return lambda X: (matern(self._squared(X, Y, feature, squares) / self.length_**2), np.ones(len(X)))

    def paired(self, X: Rows, Y: Rows, feature: int | None = None) -> FloatArray:
        return matern(self._squared(X, Y, feature, pairs) / self.length_**2)

    def squared_gradient(self, rows: Rows, feature: int | None) -> tuple[FloatArray, list[Slope]]:
        """Squared distances over the length, and their derivatives by each free parameter."""
        squared = self._squared(rows, rows, feature, squares) / self.length_**2
        return squared, [(-2.0, squared)] if self._free() else []

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        return gradient_of([(self, feature)], Rows.of(X))

    def diagnostics(self) -> dict[str, Any]:
        self._require_fitted("length_")
        return {"length": self.length_}


class Own(Distance):
    """Distance between the values of the feature that is explained; 0 or 1, times its scale, for categories."""

    varies_by_feature = True
    _measure = ()

    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        column = asked_about(feature)
        return metric(X.own(column), Y.own(column))


class Rest(Distance):
    """Distance between the rows, without the feature that is explained where :class:`Own` counts that apart."""

    _measure = ()

    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        whole = X.once((id(Y), metric), (Y,), lambda: metric(X.embedded, Y.embedded))
        if feature is None:
            return whole
        squared = metric(X.own(feature), Y.own(feature))
        np.subtract(whole, squared, out=squared)
        return np.maximum(squared, 0.0, out=squared)


class Output(Distance):
    """Distance between the model's answers, over their deviations: each class as log-odds and as probability.

    Attributions in units of probability follow the one where it is small and the other where it is not; with both, the
    evidence rose on every table tried (by 16 to 140 nats over log-odds alone). The values of a regressor are taken as
    they are. Their logarithm-like ``arcsinh`` had less evidence on every table tried, by 17 to 250 nats, heavy tails or
    not: the length is learned in units of the median distance, which a few large values do not move.
    """

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        if rows is None:
            raise InputError("Output needs rows of a GPEC, which can ask the model: call fit(boundary, X).")
        spread = answers_of(rows.outputs, rows.regression).std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        super()._fit(graph, rows)

    @property
    def _measure(self) -> tuple[Any, ...]:
        self._require_fitted("spread_")
        return (self.spread_,)

    def _of(self, rows: Rows) -> FloatArray:
        self._require_fitted("spread_")
        return np.asarray(answers_of(rows.outputs, rows.regression) / self.spread_)

    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        return X.once((id(Y), id(self.spread_), metric), (Y, self.spread_), lambda: metric(self._of(X), self._of(Y)))


class Between(Composed, Distance):
    """The distance that a kernel stands for: ``k(x, x) + k(x', x') - 2 k(x, x')``; written as the kernel itself.

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
        self._token = object()
        Distance._fit(self, graph, rows)

    def _squared(self, X: Rows, Y: Rows, feature: int | None, metric: Metric) -> FloatArray:
        self._require_fitted("kernel_")
        kernel, own = self.kernel_, feature if self.varies_by_feature else None
        token, owner = self._measure

        def compute() -> FloatArray:
            if metric is pairs:
                K, k, there = kernel.paired(X, Y, own), kernel.diag(X, own), kernel.diag(Y, own).reshape(len(X), -1)
            else:
                towards = Y.once((id(token), "towards", own), (token, owner), lambda: kernel.cross_to(Y, own))
                K, k = towards(X)
                there = Y.once((id(token), "diagonal", own), (token, owner), lambda: kernel.diag(Y, own))
            return np.maximum(k[:, None] + there - 2.0 * K, 0.0)

        return X.once((id(token), id(Y), own, metric), (token, Y, owner), compute)

    @property
    def _measure(self) -> tuple[Any, Any]:
        """A token that copies share, and whose it is: while the kernel itself is being learned, each measures anew."""
        token = vars(self).get("_token", self.kernel_)
        return token, self.kernel_ if self.kernel_.n_dims else token

    def squared_gradient(self, rows: Rows, feature: int | None) -> tuple[FloatArray, list[Slope]]:
        squared, slopes = super().squared_gradient(rows, feature)
        if self.kernel_.n_dims:
            (token, owner), own = self._measure, feature if self.varies_by_feature else None
            dK = rows.once(
                (id(token), "gradient", own), (token, owner), lambda: self.kernel_.gram_gradient(rows, own)[1]
            )
            k = np.einsum("iip->ip", dK)
            slopes += [(self.length_**-2, slope) for slope in np.moveaxis(k[:, None] + k[None] - 2.0 * dK, 2, 0)]
        return squared, slopes

    def diagnostics(self) -> dict[str, Any]:
        return {**self.kernel_.diagnostics(), **Distance.diagnostics(self)}


def answers_of(outputs: FloatArray, regression: bool) -> FloatArray:
    """What is compared of a model's outputs: a regressor's values; of classes log-odds and probabilities."""
    if regression:
        return outputs
    return np.concatenate((np.clip(outputs, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS), expit(outputs)), axis=-1)


def matern(squared: FloatArray) -> FloatArray:
    """``(1 + sqrt(3) d) exp(-sqrt(3) d)`` of squared distances; ``squared`` is overwritten."""
    return _with_decay(squared)[0]


def gram_of(squared: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``k`` and ``exp(-sqrt(3) d)`` of squared distances ``(..., n, n)`` between the same rows, which are overwritten.

    The derivative of ``k`` by the squared distance is -3/2 of the latter.
    """
    np.einsum("...ii->...i", squared)[...] = 0.0
    return _with_decay(squared)


def _with_decay(squared: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def asked_about(feature: int | None) -> int:
    if feature is None:
        raise InputError("Own and Effect are about the feature that is explained; say which: gram(X, feature=0).")
    return feature


def pairs(X: FloatArray, Y: FloatArray) -> FloatArray:
    """Squared distances ``(n, K)`` of ``X (n, m)`` to ``Y (n K, m)``."""
    apart = Y.reshape(len(X), -1, X.shape[1]) - X[:, None]
    return np.asarray(np.einsum("ikj,ikj->ik", apart, apart))


def gradient_of(terms: list[tuple[Distance, int | None]], rows: Rows) -> tuple[FloatArray, FloatArray]:
    found = [term.squared_gradient(rows, feature) for term, feature in terms]
    K, decay = gram_of(np.sum([squared for squared, _ in found], axis=0))
    slopes = [-1.5 * a * decay * slope for _, slopes in found for a, slope in slopes]
    return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0))
