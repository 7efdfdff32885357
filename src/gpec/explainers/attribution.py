"""The attributions that an explainer returns, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from gpec.data import Groups
from gpec.data.rows import concatenated
from gpec.errors import ExplainerError, InputError
from gpec.models import Model
from gpec.runtime.state import Limits, Shape
from gpec.typing import FloatArray

_LARGEST = 1e151  # squares of larger attributions would overflow


@dataclass(frozen=True, eq=False)
class Attribution:
    """The attributions of some rows.

    Inside gpec there is always an axis for outputs. With two classes or a regressor its size is 1, and results for
    users do not have it.

    Attributes
    ----------
    values : array of shape (n, d) or (n, d, c)
        Attributions, for the positive class or for each of several classes.
    variance : array of the same shape, or None
        The explainer's own variance, if it computes one.
    base_values : array of shape (n,) or (n, c), or None
        The value to which the attributions of a row are added, if there is one.
    """

    values: Annotated[FloatArray, Shape("explained", "feature", "output")]
    variance: Annotated[FloatArray, Shape("explained", "feature", "output"), Limits(least=0)] | None = None
    base_values: Annotated[FloatArray, Shape("explained", "output")] | None = None

    @classmethod
    def join(cls, parts: Sequence[Attribution]) -> Attribution:
        """Concatenate the rows of several; an optional array is kept only if all parts have it."""
        return cls(**concatenated(parts, "values", "variance", "base_values"))

    def map(self, function: Callable[[FloatArray], FloatArray]) -> Attribution:
        """``function`` applied to each array that is not None."""
        variance, base_values = (None if part is None else function(part) for part in (self.variance, self.base_values))
        return Attribution(function(self.values), variance, base_values)

    def add_groups(self, groups: Groups) -> Attribution:
        """Attributions and variances added within groups; errors of different features are taken as independent."""
        variance = None if self.variance is None else groups.add(self.variance)
        return Attribution(groups.add(self.values), variance, self.base_values)

    def squeeze_single_output(self) -> Attribution:
        """As users see it: ``(n, d)`` and ``(n,)`` with two classes."""
        return self.map(lambda array: array[..., 0]) if self.values.shape[2] == 1 else self


def check_attribution(
    answer: Attribution, n: int, d: int, model: Model, start: int = 0, *, given: bool = False
) -> Attribution:
    """Attributions of ``n`` rows in the shape used inside gpec, ``(n, d, c)``; raise if they are not valid.

    With two classes they can have the shape ``(n, d)`` or ``(n, d, 2)`` (the last column is used). They can also be a
    list of one array for each class, or have the shape of images. ``given``: the user passed them to ``fit``, and
    errors name the arguments.
    """
    names = (
        ("attributions", "attribution_variance") if given else ("The explainer's answer", "The explainer's variance")
    )
    error = InputError if given else ExplainerError
    raw = _numbers(names[0], answer.values, model, error)
    values = _shaped(names[0], raw, (n, d), model, start, error)
    variance = None
    if answer.variance is not None:
        raw_variance = _numbers(names[1], answer.variance, model, error)
        variance = _shaped(names[1], raw_variance, (n, d), model, start, error, _LARGEST**2)
        if (variance < 0).any():
            row, f = np.argwhere(variance < 0)[0][:2]
            place = f" row {start + row},"
            raise error(f"{names[1]} has a negative number at{place} feature {f}.").at(place)
    return Attribution(values, variance, _base_values(answer.base_values, n, model, raw.shape[2:]))


def _base_values(base: Any, n: int, model: Model, outputs: tuple[int, ...]) -> FloatArray | None:
    """Base values as ``(n, c)``; None if their shape does not fit. ``outputs`` is the attributions' last axis."""
    if base is None:
        return None
    try:
        base = np.asarray(base, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        return None
    if base.ndim == 0 or (base.ndim == 1 and base.shape == outputs):  # the same for all rows
        base = np.broadcast_to(base.reshape(1, -1), (n, base.size))
    elif base.ndim == 1:
        base = base[:, None]
    if base.ndim != 2 or len(base) != n or not np.isfinite(base).all():
        return None
    if model.is_binary and base.shape[1] == 2:
        base = base[:, 1:]
    c = model.n_outputs
    return np.broadcast_to(base, (n, c)).copy() if base.shape[1] in (1, c) else None


def _numbers(what: str, array: Any, model: Model, error: type[ExplainerError] | type[InputError]) -> FloatArray:
    """``array`` as numbers, with the classes as the last axis and the pixels of an image as one axis."""
    try:
        if isinstance(array, list) and array and all(np.ndim(part) == 2 for part in array):
            array = np.stack(array, axis=-1)  # one array for each class
        if array is None or np.iscomplexobj(array):
            raise TypeError("it is None" if array is None else "it is complex")
        if np.ma.is_masked(array):
            raise TypeError("it has masked values")
        numbers = np.array(np.asarray(array), dtype=np.float64)  # in two steps: tensors do not support a copy
    except (TypeError, ValueError, RuntimeError) as cause:  # torch raises RuntimeError for tensors with gradients
        raise error(f"{what} cannot be read as an array of real numbers: {str(cause).rstrip('.')}.") from cause
    image = model.schema.shape
    if image is None or numbers.ndim <= len(image) or numbers.shape[1 : 1 + len(image)] != image:
        return numbers
    return numbers.reshape(len(numbers), -1, *numbers.shape[1 + len(image) :])


def _shaped(
    what: str,
    raw: FloatArray,
    rows: tuple[int, int],
    model: Model,
    start: int,
    error: type[ExplainerError] | type[InputError],
    limit: float = _LARGEST,
) -> FloatArray:
    """``raw`` as ``(n, d, c)``; raise unless all numbers are finite and at most ``limit`` in size."""
    values = raw
    single = model.n_outputs == 1
    if single and raw.ndim == 2:
        values = raw[:, :, None]
    elif model.is_binary and raw.ndim == 3 and raw.shape[2] == 2:
        values = raw[..., -1:]
    if values.shape != (*rows, model.n_outputs):
        raise error(
            f"{what} has shape {raw.shape} for {rows[0]} rows of {model.kind.described(model.n_classes)}; expected "
            + (f"{rows}." if single else f"{(*rows, model.n_outputs)}, one column of attributions for each class.")
        )
    bad = ~(np.abs(values) <= limit)
    if bad.any():
        index = np.argwhere(bad)[0]
        raise error(
            f"{what} has {values[tuple(index)]} at row {start + index[0]}, feature {index[1]}; all numbers must be "
            f"finite and at most {limit:g} in size."
        ).at(f" row {start + index[0]},")
    return values
