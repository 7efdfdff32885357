r"""One Matern kernel of squared distances that add.

An attribution of feature ``f`` depends most on the row's own value of ``f`` and on the model's answer; less on the rest
of the row and on where it lies along the boundary. Each of these is a squared distance; with lengths ``l_t``,

    d^2(x, x') = sum_t D_t(x, x') / l_t^2,      k(x, x') = (1 + sqrt(3) d) exp(-sqrt(3) d).

Each ``D_t`` is a squared distance in some Hilbert space, so is their sum, and the kernel is positive semi-definite.
A term whose length grows without bound is switched off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Cross, Pullback
from gpec.kernels.compose import Composed
from gpec.kernels.distances import Between, Distance, Metric, Own, Rest, gradient_of, gram_of, matern, pairs, squares
from gpec.typing import FloatArray

__all__ = ["Matern"]

_KEPT = 2**22  # squared distances of a term, all features together


class Matern(Composed):
    """Matern-3/2 kernel of distances that add inside it.

    Parameters
    ----------
    *terms : Distance or Kernel
        :class:`Own`, :class:`Rest`, :class:`Output`, and kernels, which count by the distance they stand for. Any
        subset; each has its own length.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.kernels import Matern, Own, Rest
    >>> X = np.random.default_rng(0).normal(size=(5, 3))
    >>> kernel = Matern(Own(), Rest(2.0)).fit(None, X)
    >>> kernel.gram(X, feature=1).shape
    (5, 5)
    """

    def __init__(self, *terms: Any) -> None:
        for i, term in enumerate(terms):
            setattr(self, f"term{i}", term)
        self._parts = tuple(f"term{i}" for i in range(len(terms)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._parts}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Matern:
        return cls(*(parameters[f"term{i}"] for i in range(len(parameters))))

    def __repr__(self) -> str:
        return f"Matern({', '.join(repr(getattr(self, name)) for name in self._parts)})"

    def check(self) -> None:
        if not self._parts:
            raise InputError("Matern needs at least one distance, such as Own() or Rest().")
        super().check()

    def _fit(self, graph: GeodesicGraph | None, rows: Rows | None) -> None:
        for name in self._parts:
            term = getattr(self, name)
            term = term if isinstance(term, Distance) else Between(term)
            setattr(self, f"{name}_", term.__sklearn_clone__().fit(graph, rows))

    @property
    def terms_(self) -> dict[str, Distance]:
        """The fitted distances by name: "own", "rest", "output", "weg"."""
        named: dict[str, Distance] = {}
        for part in (part for part in self._fitted.values() if isinstance(part, Distance)):
            inner = part.kernel if isinstance(part, Between) else part
            name = type(inner).__name__.lower()
            named[name if name not in named else f"{name} {len(named)}"] = part
        return named

    def _asked(self, feature: int | None) -> list[tuple[Distance, int | None]]:
        """The fitted distances, with the feature that each is asked about: without Own, the rest is the whole row."""
        parts = list(self.terms_.values())
        apart = any(isinstance(part, Own) for part in parts)
        return [(part, feature if apart or not isinstance(part, Rest) else None) for part in parts]

    def without(self, name: str) -> Matern:
        """The fitted kernel lacking one of its terms."""
        kept = [part for term, part in self.terms_.items() if term != name]
        other = type(self)(*kept)
        for i, part in enumerate(kept):
            setattr(other, f"term{i}_", part.__sklearn_clone__())
        return other

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        asked = self._asked(feature)
        return lambda X: (self._of_sum(asked, X, Y, squares), np.ones(len(X)))

    def paired(self, X: Rows, Y: Rows, feature: int | None = None) -> FloatArray:
        return self._of_sum(self._asked(feature), X, Y, pairs)

    def _of_sum(self, asked: list[tuple[Distance, int | None]], X: Rows, Y: Rows, metric: Metric) -> FloatArray:
        (first, own), *others = asked
        total = first._squared(X, Y, own, metric) / first.length_**2
        term = np.empty_like(total)
        for part, own in others:
            total += np.divide(part._squared(X, Y, own, metric), part.length_**2, out=term)
        return matern(total)

    def gram_pullback(self, X: Any, feature: int | None = None) -> Pullback:
        rows = Rows.of(X)
        found = [part.squared_gradient(rows, own) for part, own in self._asked(feature)]
        K, decay = gram_of(np.sum([squared for squared, _ in found], axis=0))

        def pull(W: FloatArray) -> FloatArray:
            V = W * decay
            return np.array([-1.5 * a * np.vdot(V, slope) for _, slopes in found for a, slope in slopes])

        return K, pull

    def grams(self, rows: Rows, features: tuple[int, ...]) -> FloatArray:
        return self.grams_pullback(rows, features)[0]

    def grams_pullback(self, rows: Rows, features: tuple[int, ...]) -> Pullback:
        asked = self._asked(features[0])
        if any(part.n_dims > len(part._free()) for part, _ in asked):  # distances that change with theta
            return super().grams_pullback(rows, features)
        terms = [(self._squares(part, rows, features, own), part.length_**-2.0) for part, own in asked]
        total = np.zeros((len(features), len(rows), len(rows)))
        for squared, weight in terms:
            total += squared * weight
        K, decay = gram_of(total)

        def pull(W: FloatArray) -> FloatArray:
            V = W * decay
            all_features = V.sum(axis=0)
            free = [term for term, (part, _) in zip(terms, asked, strict=True) if part._free()]
            return np.array(
                [3.0 * w * np.vdot(squared, V if squared.ndim == 3 else all_features) for squared, w in free]
            )

        return K, pull

    def _squares(self, part: Distance, rows: Rows, features: tuple[int, ...], own: int | None) -> FloatArray:
        """Squared distances of a term before its length: ``(F, n, n)``, or ``(n, n)`` if they serve all features.

        They are kept with the rows if those of all features are not too many.
        """
        differs = part.varies_by_feature or (isinstance(part, Rest) and own is not None)

        def compute() -> FloatArray:
            if not differs:
                return part._squared(rows, rows, own, squares)
            return np.stack([part._squared(rows, rows, feature, squares) for feature in features])

        if differs and rows.n_features * len(rows) ** 2 > _KEPT:
            return compute()
        owners = part._measure
        key = ("squares", type(part), features if differs else own is None, *map(id, owners))
        return rows.once(key, owners, compute)

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        return gradient_of(self._asked(feature), Rows.of(X))

    def diagnostics(self) -> dict[str, Any]:
        learned = {name: value for name, value in vars(self).items() if name in ("nats_", "off_")}
        return {
            **{name: part.diagnostics() for name, part in self.terms_.items()},
            **{name.removesuffix("_"): value for name, value in learned.items()},
        }
