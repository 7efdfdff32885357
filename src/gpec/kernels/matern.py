r"""One Matern kernel of squared distances that add.

An attribution of feature ``f`` depends most on the row's own value of ``f`` and on the model's answer; less on the rest
of the row and on where it lies along the boundary. Each of these is a squared distance; with lengths ``l_t``,

    d^2(x, x') = sum_t D_t(x, x') / l_t^2,      k(x, x') = (1 + sqrt(3) d) exp(-sqrt(3) d).

Each ``D_t`` is a squared distance in some Hilbert space, so is their sum, and the kernel is positive semi-definite.
A term whose length grows without bound is switched off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpec.data import Rows
from gpec.errors import InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels.base import Cross, Crosses, Pullback
from gpec.kernels.compose import Composed
from gpec.kernels.distances import Between, ByFeature, Distance, Own, Rest, gradient_of, gram_of, matern
from gpec.typing import FloatArray

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

    def crosses_to(self, Y: Rows, features: Sequence[int | None]) -> Crosses:
        terms = [(part.squared_to(Y), part.length_, takes) for part, takes in self._terms]

        def crosses(X: Rows) -> Iterator[tuple[FloatArray, FloatArray]]:
            measured = [(squared_to(X), length, takes) for squared_to, length, takes in terms]
            return ((_of_sum(measured, feature), np.ones(len(X))) for feature in features)

        return crosses

    def cross_to(self, Y: Rows, feature: int | None = None) -> Cross:
        crosses = self.crosses_to(Y, (feature,))
        return lambda X: next(crosses(X))

    def paired_each(self, X: Rows, Y: Rows, features: Sequence[int | None]) -> Iterator[FloatArray]:
        measured = [(part.squared_pairs(X, Y), part.length_, takes) for part, takes in self._terms]
        return (_of_sum(measured, feature) for feature in features)

    def paired(self, X: Rows, Y: Rows, feature: int | None = None) -> FloatArray:
        return next(self.paired_each(X, Y, (feature,)))

    def distances(self, rows: Rows) -> _TermDistances | None:
        return None if self._distances_change else _TermDistances.of(self, rows)

    @property
    def _distances_change(self) -> bool:
        """Whether a term's distance itself has free parameters."""
        return any(part.n_dims > len(part._free()) for part, _ in self._terms)

    def grams(self, rows: Rows, features: Sequence[int | None], distances: _TermDistances | None = None) -> FloatArray:
        return self.grams_pullback(rows, features, distances)[0]

    def grams_pullback(
        self, rows: Rows, features: Sequence[int | None], distances: _TermDistances | None = None
    ) -> Pullback:
        if self._distances_change:
            return self._grams_pullback_of_all(rows, features)
        distances = _TermDistances.of(self, rows) if distances is None else distances
        terms = [
            (distances.squares(i, features, takes), part.length_**-2.0, part)
            for i, (part, takes) in enumerate(self._terms)
        ]
        total = np.zeros((len(features), len(rows), len(rows)))
        for squared, weight, _ in terms:
            total += squared * weight
        K, decay = gram_of(total)

        def pull(W: FloatArray) -> FloatArray:
            V = W * decay
            all_features = V.sum(axis=0)
            free = [(squared, weight) for squared, weight, part in terms if part._free()]
            return np.array(
                [3.0 * w * np.vdot(squared, V if squared.ndim == 3 else all_features) for squared, w in free]
            )

        return K, pull

    def _grams_pullback_of_all(self, rows: Rows, features: Sequence[int | None]) -> Pullback:
        """With the derivatives of distances that change with :attr:`theta`."""
        gradients = [(part.squared_gradient(rows), takes) for part, takes in self._terms]
        found = [[gradient(feature if takes else None) for gradient, takes in gradients] for feature in features]
        K, decay = gram_of(np.stack([np.sum([squared for squared, _ in terms], axis=0) for terms in found]))

        def pull(W: FloatArray) -> FloatArray:
            V = W * decay
            pulled = [
                [-1.5 * a * np.vdot(v, slope) for _, slopes in terms for a, slope in slopes]
                for v, terms in zip(V, found, strict=True)
            ]
            return np.asarray(np.sum(pulled, axis=0))

        return K, pull

    def gram_gradient(self, X: Any, feature: int | None = None) -> tuple[FloatArray, FloatArray]:
        rows = Rows.of(X)
        return gradient_of([part.squared_gradient(rows)(feature if takes else None) for part, takes in self._terms])

    def diagnostics(self) -> dict[str, Any]:
        learned = {name: getattr(self, f"{name}_") for name in ("nats", "off") if hasattr(self, f"{name}_")}
        return {**{name: part.diagnostics() for name, part in self.terms_.items()}, **learned}


@dataclass(frozen=True, eq=False)
class _TermDistances:
    """Squared distances of each term between some rows, before the lengths: they stay while lengths are learned.

    Those of all features are stored unless they are many; then they are computed each time.
    """

    terms: tuple[tuple[ByFeature, bool], ...]  # and whether they may differ by feature
    n_numbers: int
    _stored: dict[Any, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: Matern, rows: Rows) -> _TermDistances:
        terms = [
            (part.squared_to(rows)(rows), part.varies_by_feature or isinstance(part, Rest)) for part, _ in kernel._terms
        ]
        return cls(tuple(terms), rows.n_features * len(rows) ** 2)

    def without(self, i: int) -> _TermDistances:
        """Those of the other terms."""
        return _TermDistances(self.terms[:i] + self.terms[i + 1 :], self.n_numbers)

    def squares(self, i: int, features: Sequence[int | None], takes: bool) -> FloatArray:
        """``(F, n, n)``, or ``(n, n)`` if they are the same for all features; ``takes``: the feature matters."""
        squared_of, differs = self.terms[i]
        if not (differs and takes):
            return squared_of(None)
        key = (i, tuple(features))
        if key in self._stored:
            return self._stored[key]
        found = np.stack([squared_of(feature) for feature in features])
        if self.n_numbers <= _STORED:
            self._stored[key] = found
        return found


def _of_sum(terms: Sequence[tuple[ByFeature, float, bool]], feature: int | None) -> FloatArray:
    (first, length, takes), *others = terms
    total = first(feature if takes else None) / length**2
    term = np.empty_like(total)
    for squared_of, length, takes in others:
        total += np.divide(squared_of(feature if takes else None), length**2, out=term)
    return matern(total)
