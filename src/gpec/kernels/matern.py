r"""One Matern kernel of squared distances that add.

An attribution of feature ``f`` depends most on the row's own value of ``f`` and on the model's answer; less on the rest
of the row and on where it lies along the boundary. Each of these is a squared distance; with lengths ``l_t``,

    d^2(x, x') = sum_t D_t(x, x') / l_t^2,      k(x, x') = (1 + sqrt(3) d) exp(-sqrt(3) d).

Each ``D_t`` is a squared distance in some Hilbert space, so is their sum, and the kernel is positive semi-definite.
A term whose length grows without bound is switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import ByFeature, Cross, Crosses, Pullback
from gpec.kernels.compose import Composed
from gpec.kernels.distances import Between, Distance, Own, Rest, matern
from gpec.typing import FloatArray

# Features -> squared distances ``(F, n, n)``, or ``(n, n)`` if they are the same for all features.
Squares = Callable[[tuple[int | None, ...]], FloatArray]

_STORED = 2**22  # squared distances of a term, all features together


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

    nats_: dict[str, float]  # what each term adds to the log marginal likelihood
    off_: list[str]  # terms that were switched off

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
            setattr(self, f"{name}_", term.copy().fit(graph, rows))

    @property
    def terms_(self) -> dict[str, Distance]:
        """The fitted distances by name: "own", "rest", "output", "weg"."""
        named: dict[str, Distance] = {}
        for part in (part for part in self._fitted.values() if isinstance(part, Distance)):
            inner = part.kernel if isinstance(part, Between) else part
            name = type(inner).__name__.lower()
            named[name if name not in named else f"{name} {len(named)}"] = part
        return named

    @property
    def _terms(self) -> list[tuple[Distance, bool]]:
        """The fitted distances, and whether each takes the feature: without Own, the rest is the whole row."""
        parts = list(self.terms_.values())
        apart = any(isinstance(part, Own) for part in parts)
        return [(part, apart or not isinstance(part, Rest)) for part in parts]

    def without(self, name: str) -> Matern:
        """The fitted kernel lacking one of its terms."""
        others = [part for term, part in self.terms_.items() if term != name]
        other = type(self)(*others)
        for i, part in enumerate(others):
            setattr(other, f"term{i}_", part.copy())
        return other

    def _of_squares(self, squares: Sequence[ByFeature]) -> ByFeature:
        """The kernel of the squared distances of its terms."""
        terms = [(each, part.length_**2, takes) for each, (part, takes) in zip(squares, self._terms, strict=True)]

        def kernel(feature: int | None) -> FloatArray:
            (first, unit, takes), *others = terms
            total = first(feature if takes else None) / unit
            term = np.empty_like(total)
            for squared_of, unit, takes in others:
                total += np.divide(squared_of(feature if takes else None), unit, out=term)
            return matern(total)[0]

        return kernel

    def crosses_to(self, Y: Rows) -> Crosses:
        squared_to = [part.squared_to(Y) for part, _ in self._terms]

        def crosses(X: Rows) -> Callable[[int | None], tuple[FloatArray, FloatArray]]:
            kernel = self._of_squares([to(X) for to in squared_to])
            return lambda feature: (kernel(feature), np.ones(len(X)))

        return crosses

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        crosses = self.crosses_to(Y)
        return lambda X: crosses(X)(feature)

    def paired(self, X: Rows, Y: Rows) -> ByFeature:
        return self._of_squares([part.squared_pairs(X, Y) for part, _ in self._terms])

    def distances(self, rows: Rows) -> list[Squares] | None:
        change = any(part.n_dims > len(part._free()) for part, _ in self._terms)
        return None if change else self._squares(rows)

    def _squares(self, rows: Rows) -> list[Squares]:
        """Squared distances of each term, before the lengths; those of all features are stored unless they are many."""
        store = rows.n_features * len(rows) ** 2 <= _STORED
        return [
            _squares_of(part.squared_to(rows)(rows), part.varies_by_feature or isinstance(part, Rest), store)
            for part, _ in self._terms
        ]

    def grams(self, rows: Rows, features: Sequence[int | None], distances: list[Squares] | None = None) -> FloatArray:
        return self.grams_pullback(rows, features, distances)[0]

    def grams_pullback(
        self, rows: Rows, features: Sequence[int | None], distances: list[Squares] | None = None
    ) -> Pullback:
        total, terms = np.zeros((len(features), len(rows), len(rows))), []
        for squares, (part, takes) in zip(distances or self._squares(rows), self._terms, strict=True):
            squared, weight = squares(tuple(features) if takes else (None,)), part.length_**-2.0
            total += squared * weight
            terms.append((part, squared, weight))
        np.einsum("fii->fi", total)[...] = 0.0
        K, decay = matern(total)

        def pull(W: FloatArray) -> FloatArray:
            by_feature = W * decay
            by_all = by_feature.sum(axis=0)[None]
            slopes = []
            for part, squared, weight in terms:
                V, of = (by_feature, features) if squared.ndim == 3 else (by_all, (None,))
                slopes += [3.0 * weight * np.vdot(squared, V)] if part._free() else []
                slopes += (-1.5 * weight * part.pull_squared(V, rows, of)).tolist()
            return np.array(slopes)

        return K, pull

    def diagnostics(self) -> dict[str, Any]:
        learned = {name: getattr(self, f"{name}_") for name in ("nats", "off") if hasattr(self, f"{name}_")}
        return {**{name: part.diagnostics() for name, part in self.terms_.items()}, **learned}


def _squares_of(squared_of: ByFeature, varies: bool, store: bool) -> Squares:
    """``varies`` says whether the squared distances differ by feature, ``store`` whether they are kept."""

    def squares(features: tuple[int | None, ...]) -> FloatArray:
        if not varies or features == (None,):
            return squared_of(None)
        return np.stack([squared_of(feature) for feature in features])

    return cache(squares) if store else squares
