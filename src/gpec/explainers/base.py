"""What an explainer must do, and how its answers are checked."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator

from gpec.errors import ExplainerError, GPECError
from gpec.model import Model
from gpec.progress import Progress
from gpec.table import FloatArray

__all__ = ["Attribution", "Explainer", "check_attribution"]


@dataclass(frozen=True, eq=False)
class Attribution:
    """What an explainer says of some rows.

    Attributes
    ----------
    values : array of shape (n, d) or (n, d, c)
        Attributions, for the positive class or for each of several classes.
    variance : array of the same shape, or None
        The explainer's own variance, where it knows it.
    base_values : array of shape (n,) or (n, c), or None
        The value to which the attributions of a row add, where there is one.
    """

    values: FloatArray
    variance: FloatArray | None = None
    base_values: FloatArray | None = None


class Explainer(BaseEstimator, ABC):
    """Base of the explainers: implement :meth:`bind` and :meth:`_explain`.

    Attributes
    ----------
    stochastic : bool or None
        Whether another run would answer differently; None if only trying tells.
    unit : str
        What the attributions measure.
    rows_at_once : int
        Rows explained in one call.
    """

    stochastic: bool | None = None
    unit: str = "as the explainer gives them"
    rows_at_once: int = 1_024

    def bind(self, model: Model, background: FloatArray) -> None:
        """Get to know the model (it has been called before) and the encoded background rows."""
        self.model_ = model
        self.background_ = background

    @abstractmethod
    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        """Attributions of encoded rows; ``seeds`` has one seed for each row."""

    def explain(
        self, Z: FloatArray, *, seed: int, run: int = 0, progress: Literal["auto"] | bool = False
    ) -> Attribution:
        """Checked attributions of encoded rows.

        Each row has a seed of its own, made from ``seed``, ``run`` and its content, so that its answer does not depend
        on the rows beside it.
        """
        parts = []
        with Progress(len(Z), "explaining", progress) as bar:
            for start in range(0, len(Z), self.rows_at_once):
                block = Z[start : start + self.rows_at_once]
                seeds = [_row_seed(seed, run, row) for row in block]
                last = start + len(block) - 1
                try:
                    answer = self._explain(block, seeds)
                except GPECError:
                    raise
                except Exception as error:
                    raise ExplainerError(
                        f"The explainer raised {type(error).__name__} on rows {start} to {last} of {len(Z)}: {error}"
                    ) from error
                parts.append(check_attribution(answer, len(block), Z.shape[1], self.model_, start))
                bar.advance(len(block))
        return _join(parts)


def _row_seed(seed: int, run: int, row: FloatArray) -> int:
    key = zlib.crc32(np.ascontiguousarray(row).tobytes())
    return int(np.random.SeedSequence(seed, spawn_key=(run, key)).generate_state(1)[0])


def _join(parts: list[Attribution]) -> Attribution:
    if len(parts) == 1:
        return parts[0]

    def stack(name: str) -> Any:
        pieces = [getattr(part, name) for part in parts]
        return None if any(piece is None for piece in pieces) else np.concatenate(pieces)

    return Attribution(stack("values"), stack("variance"), stack("base_values"))


def check_attribution(answer: Attribution, n: int, d: int, model: Model, start: int = 0) -> Attribution:
    """Bring attributions into the one shape used everywhere, or say what is wrong with them."""
    classes = int(model.n_classes or 2)
    values = _shape("values", answer.values, n, d, classes, start)
    variance = None
    if answer.variance is not None:
        variance = _shape("variance", answer.variance, n, d, classes, start)
        if (variance < 0).any():
            row = start + int(np.argwhere(variance < 0)[0, 0])
            raise ExplainerError(f"The explainer's variance is negative at row {row}.")
    base = answer.base_values
    if base is not None:
        base = np.asarray(base, dtype=np.float64)
        base = base.reshape(1, -1) if base.ndim <= 1 and base.shape != (n,) else base.reshape(n, -1)
        if base.shape[1] == 2 and classes == 2:
            base = base[:, [1]]
        if base.shape[1] not in (1, classes) or not np.isfinite(base).all():
            base = None
        else:
            base = np.broadcast_to(base, (n, base.shape[1] if classes == 2 else classes))
            base = base[:, 0].copy() if classes == 2 else base.copy()
    return Attribution(values, variance, base)


def _shape(what: str, array: Any, n: int, d: int, classes: int, start: int) -> FloatArray:
    if isinstance(array, list) and array and all(np.ndim(part) == 2 for part in array):
        array = np.stack(array, axis=-1)  # one array for each class
    try:
        values = np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ExplainerError(f"The explainer's {what} are not numbers: {error}.") from error
    if classes == 2 and values.ndim == 3 and values.shape[2] in (1, 2):
        values = values[:, :, -1]
    expected = (n, d) if classes == 2 else (n, d, classes)
    if values.shape != expected:
        raise ExplainerError(
            f"The explainer's {what} have shape {values.shape} for {n} rows; expected {expected}"
            + (", one column of attributions for each class." if classes > 2 else ".")
        )
    bad = ~np.isfinite(values)
    if bad.any():
        index = np.argwhere(bad)[0]
        raise ExplainerError(
            f"The explainer's {what} contain {values[tuple(index)]} at row {start + index[0]}, feature {index[1]}."
        )
    return values
