"""The arrays of some rows that kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpec._validation import check_finite_array
from gpec.data._output_kind import Classification, OutputKind
from gpec.errors import InputError
from gpec.typing import FloatArray, IntArray

_BY_ROW = ("embedded", "encoded", "outputs", "effects")


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows, as plain arrays for each way in which two rows can be alike.

    Attributes
    ----------
    embedded : array of shape (n, D)
        The rows in the space of distances, as :meth:`Schema.embed` gives them.
    encoded : array of shape (n, d)
        The rows as numbers: categories as codes, a missing value as NaN.
    coordinates : tuple of int arrays, or None
        The columns of ``embedded`` that belong to each feature; None if each column is a feature.
    outputs : array of shape (n, c), or None
        The model's log-odds, or a regressor's values. Kernels with ``needs_outputs`` read them.
    effects : array of shape (n, d, q), or None
        What the model makes of each feature, read by kernels with ``needs_effects``; see :class:`gpec.kernels.Effect`.
    kind : OutputKind
        Whether ``outputs`` are log-odds of classes or a regressor's values.

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
    outputs: FloatArray | None = None
    effects: FloatArray | None = None
    kind: OutputKind = field(default_factory=Classification)

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
        return replace(parts[0], **concatenated(parts, *_BY_ROW))

    def own(self, feature: int) -> FloatArray:
        """The columns of ``embedded`` that belong to one feature, ``(n, m)``."""
        return self.embedded[:, [feature] if self.coordinates is None else self.coordinates[feature]]

    @property
    def n_features(self) -> int:
        """Number of features that attributions are about."""
        return self.encoded.shape[1] if self.coordinates is None else len(self.coordinates)

    def __len__(self) -> int:
        return len(self.embedded)

    def __getitem__(self, index: Any) -> Rows:
        arrays = {name: getattr(self, name) for name in _BY_ROW}
        chosen: dict[str, Any] = {name: None if array is None else array[index] for name, array in arrays.items()}
        return replace(self, **chosen)

    def require(self, name: str) -> FloatArray:
        """``outputs`` or ``effects``; raise if they were not filled in."""
        array: FloatArray | None = getattr(self, name)
        if array is None:
            raise InputError(f"These rows come without {name}, which the kernel reads; pass Rows(..., {name}=...).")
        return array


def concatenated(parts: Sequence[Any], *names: str) -> dict[str, Any]:
    """The arrays of several objects, by name; None for one that is missing in any of them."""
    joined: dict[str, Any] = {}
    for name in names:
        arrays = [getattr(part, name) for part in parts]
        joined[name] = None if any(array is None for array in arrays) else np.concatenate(arrays)
    return joined


def evenly_spaced(n: int, most: int) -> IntArray:
    """At most ``most`` of ``n`` places, evenly spaced, the first and the last among them."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)
