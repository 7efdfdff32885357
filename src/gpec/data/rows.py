"""What kernels see of some rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from gpec._validation import check_finite_array
from gpec.errors import InputError
from gpec.typing import FloatArray, IntArray

__all__ = ["Rows", "evenly_spaced"]

T = TypeVar("T")

_EXCHANGED = 2**21  # numbers that are sent to the model at once


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, in the three ways in which they can be alike.

    Attributes
    ----------
    embedded : array of shape (n, D)
        In the space of distances, as :meth:`Schema.embed` gives them.
    encoded : array of shape (n, d)
        As the package works on them: numbers as they are, categories as codes, a missing value as NaN.
    coordinates : tuple of int arrays, or None
        The columns of ``embedded`` that belong to each feature; None where the columns are the features.
    ask : function or None
        Encoded rows to the model's log-odds, or a regressor's values, ``(n, c)``; see :attr:`outputs`.
    regression : bool
        Whether outputs are a regressor's values, not log-odds.
    members : tuple of int arrays, or None
        The columns of ``encoded`` that belong to each feature; None where the columns are the features.

    Examples
    --------
    >>> import numpy as np
    >>> from gpec.data import Rows
    >>> rows = Rows.of(np.arange(6.0).reshape(3, 2))
    >>> len(rows), rows.own(1).ravel()
    (3, array([1., 3., 5.]))
    """

    embedded: FloatArray
    encoded: FloatArray
    coordinates: tuple[Any, ...] | None = None
    ask: Callable[[FloatArray], FloatArray] | None = None
    regression: bool = False
    members: tuple[Any, ...] | None = None
    # the rows that these were selected from or joined of, and which of them
    _from: tuple[tuple[Rows, Any], ...] = field(default=(), repr=False)
    # threads that share these rows ask the model once; those with other rows do not wait
    _asking: Any = field(default_factory=RLock, init=False, repr=False)

    @classmethod
    def of(cls, X: Any, name: str = "X") -> Rows:
        """``X`` itself if it is of this class, else the rows of a plain array, which are their own embedding."""
        if isinstance(X, Rows):
            return X
        array = check_finite_array(name, X)
        if array.ndim != 2 or len(array) == 0:
            raise InputError(f"{name} must have shape (rows, features) with at least one row, got shape {array.shape}.")
        return cls(array, array)

    @classmethod
    def join(cls, parts: Sequence[Rows]) -> Rows:
        """Several as one; all of one schema and model."""
        return replace(
            parts[0],
            embedded=np.concatenate([part.embedded for part in parts]),
            encoded=np.concatenate([part.encoded for part in parts]),
            _from=tuple((part, slice(None)) for part in parts),
        )

    @property
    def outputs(self) -> FloatArray:
        """The model's log-odds or values ``(n, c)``; it is asked when they are first wanted, and counts these rows.

        A selection asks for all that it was taken from, so that no row is asked about twice.
        """
        with self._asking:
            answer: FloatArray | None = vars(self).get("_outputs")
            if answer is None:
                if self.ask is None:
                    raise InputError(
                        "These rows come from a plain array; a kernel that asks the model needs rows of a GPEC."
                    )
                parts = [rows.outputs[index] for rows, index in self._from]
                answer = np.concatenate(parts) if parts else self.ask(self.encoded)
                vars(self)["_outputs"] = answer
            return answer

    def exchanged(self, others: FloatArray) -> FloatArray:
        """Outputs ``(n, d, b, c)`` if one feature had the value that it has in each of ``b`` other rows, encoded.

        Where that is known of the rows that these were selected from or joined of, the model is not asked again.
        """
        if self._from and (len(self._from) > 1 or self._from[0][0]._knows_exchanged(others)):
            return np.concatenate([rows.exchanged(others)[index] for rows, index in self._from])
        with self._asking:
            return self.once(("exchanged", id(others)), (others,), lambda: self._exchange(others))

    def _knows_exchanged(self, others: FloatArray) -> bool:
        if ("exchanged", id(others)) in vars(self).get("_kept", {}):
            return True
        return bool(self._from) and all(rows._knows_exchanged(others) for rows, _ in self._from)

    def _exchange(self, others: FloatArray) -> FloatArray:
        if self.ask is None:
            raise InputError("These rows come from a plain array; a kernel that asks the model needs rows of a GPEC.")
        place = np.arange(len(self))
        if self._from and np.asarray(self._from[0][1]).dtype.kind == "i":  # some rows may be there several times
            place = self._from[0][1]
        _, first, again = np.unique(place, return_index=True, return_inverse=True)
        Z, outputs = self.encoded[first], self.outputs[first]
        d, b = self.n_features, len(others)
        found = np.repeat(np.repeat(outputs[:, None, None], d, axis=1), b, axis=2)
        step = max(1, _EXCHANGED // (d * b * Z.shape[1]))
        for start in range(0, len(Z), step):
            some = slice(start, start + step)
            here = Z[some, None, None]
            asked = np.repeat(np.repeat(here, d, axis=1), b, axis=2)
            for f in range(d):
                columns = [f] if self.members is None else self.members[f]
                asked[:, f, :, columns] = others.T[columns][:, None]
            differs = ((asked != here) & ~(np.isnan(asked) & np.isnan(here))).any(axis=3)
            if differs.any():
                found[some][differs] = self.ask(asked[differs])
        return found[again]

    def once(self, key: Any, owners: tuple[Any, ...], compute: Callable[[], T]) -> T:
        """What ``compute`` gives, kept with these rows: features that share it do not compute it again.

        ``key`` may hold the ``id`` of ``owners``, which are kept alive. What other owners kept under it is let go.
        """
        kept: dict[Any, tuple[tuple[Any, ...], Any]] = vars(self).setdefault("_kept", {})
        found = kept.get(key)
        if found is None or any(one is not other for one, other in zip(found[0], owners, strict=True)):
            found = kept[key] = (owners, compute())
        value: T = found[1]
        return value

    def own(self, feature: int) -> FloatArray:
        """The columns of ``embedded`` that belong to one feature, ``(n, m)``."""
        return self.embedded[:, [feature] if self.coordinates is None else self.coordinates[feature]]

    @property
    def n_features(self) -> int:
        """How many features attributions are about."""
        return self.encoded.shape[1] if self.members is None else len(self.members)

    def __len__(self) -> int:
        return len(self.embedded)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_kept", "_asking")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _asking=RLock())

    def __getitem__(self, index: Any) -> Rows:
        return replace(self, embedded=self.embedded[index], encoded=self.encoded[index], _from=((self, index),))


def evenly_spaced(n: int, most: int) -> IntArray:
    """At most so many of ``n`` places, evenly spaced, the first and the last among them."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)
