"""What an explainer must do, and how its answers are checked."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from gpec.errors import ExplainerError, GPECError, InputError, ModelCallError, ModelOutputError, NotFittedError
from gpec.model import Model
from gpec.progress import Progress
from gpec.table import FloatArray, Table
from gpec.validation import check_background, make_seed

__all__ = ["Attribution", "Explainer", "check_attribution", "row_seed"]

_LARGEST = 1e151  # squares of larger attributions would overflow


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
    """Base of the explainers: implement :meth:`_explain`, and :meth:`bind` or :meth:`learn` where there is need.

    :class:`gpec.GPEC` calls ``bind``, then ``learn``, then ``explain`` as often as it likes. Alone, an explainer is
    used as ``explainer.fit(model, X)`` and then ``explainer(X)``.

    Attributes
    ----------
    stochastic : bool or None
        Whether another run would answer differently; None if only trying tells.
    unit : str
        What the attributions measure.
    rows_at_once : int
        Rows explained in one call.
    learns : bool
        Whether it learns from all rows, as :meth:`learn` does.
    """

    stochastic: bool | None = None
    unit: str = "as the explainer gives them"
    rows_at_once: int = 1_024
    learns: bool = False

    def check(self) -> None:
        """Refuse parameters that can never be used; called before the first model call."""
        return

    def bind(self, model: Model, background: FloatArray) -> None:
        """Get to know the model (it has been called before) and the encoded background rows."""
        self.model_ = model
        self.background_ = background

    def learn(self, rows: FloatArray, seed: int) -> None:
        """Learn what :meth:`_explain` needs from all encoded rows. Called after :meth:`bind`, if ``learns`` is True."""
        return

    def meet(self, model: Model, background: FloatArray, rows: FloatArray, seed: int) -> Self:
        """:meth:`bind`, then :meth:`learn`."""
        self.bind(model, background)
        if self.learns:
            self.learn(rows, seed)
        return self

    def fitted_state(self) -> dict[str, Any]:
        """What :meth:`learn` learned: numbers, texts and arrays, to be saved."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Set what :meth:`fitted_state` gave; called instead of :meth:`learn`, after :meth:`bind`."""
        return

    def fit(
        self,
        model: Any,
        X: Any,
        *,
        background: Any = 100,
        model_output: Literal["auto", "probability", "logit"] = "auto",
        threshold: float = 0.5,
        categorical_features: Any = "auto",
        random_state: Any = 0,
    ) -> Self:
        """Get ready to explain a model's predictions, without a :class:`gpec.GPEC`.

        Parameters
        ----------
        model, background, model_output, threshold, categorical_features, random_state
            As for :class:`gpec.GPEC`.
        X : array or DataFrame of shape (n, d)
            Rows like those the model was trained on.
        """
        self.check()
        table, Z = Table.learn(X, categorical_features=categorical_features)
        seed = make_seed(random_state)
        checked = Model(model, table, model_output=model_output, threshold=threshold)
        rows = check_background(background, table, Z, seed)
        checked.probabilities(Z[:1])  # tells the number of classes
        self.meet(checked, rows, Z, seed)
        self.seed_ = seed
        return self

    def __call__(self, X: Any) -> Attribution:
        """Attributions of the rows ``X``; call :meth:`fit` first."""
        if not hasattr(self, "seed_"):
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit(model, X) first.")
        return self.explain(self.model_.table.encode(X), seed=self.seed_)

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
                seeds = [row_seed(seed, run, row) for row in block]
                last = start + len(block) - 1
                try:
                    answer = self._explain(block, seeds)
                except (ModelCallError, ModelOutputError) as error:
                    raise _with_rows(error, start, last) from error.__cause__
                except GPECError:
                    raise
                except Exception as error:
                    raise ExplainerError(
                        f"The explainer raised {type(error).__name__} on rows {start} to {last} of {len(Z)}: {error}"
                    ) from error
                parts.append(check_attribution(answer, len(block), Z.shape[1], self.model_, start))
                bar.advance(len(block))
        return _join(parts)

    def predict(self, perturbed: FloatArray, first: int = 0) -> FloatArray:
        """Probabilities ``(n, s)`` or ``(n, s, c)`` for ``s`` perturbations of each of ``n`` rows, ``(n, s, d)``.

        ``first`` is the place of the first of these rows among those given to :meth:`_explain`; if the model fails, the
        error names the rows that were being explained.
        """
        n, s, d = perturbed.shape
        try:
            answer = self.model_.probabilities(perturbed.reshape(n * s, d))
        except (ModelCallError, ModelOutputError) as error:
            error.explained = (first + error.rows[0] // s, first + error.rows[1] // s)
            raise
        return answer.reshape(n, s, *answer.shape[1:])


def _with_rows(error: ModelCallError | ModelOutputError, start: int, last: int) -> ModelCallError | ModelOutputError:
    """The model's error, saying which rows were being explained."""
    if error.explained is not None:
        start, last = start + error.explained[0], start + error.explained[1]
    which = f"row {start}" if start == last else f"rows {start} to {last}"
    return type(error)(f"{str(error).rstrip('.')}; this was while explaining {which}.")


def row_seed(seed: int, run: int, row: FloatArray) -> int:
    key = zlib.crc32(np.ascontiguousarray(row + 0.0).tobytes())  # + 0.0: no negative zeros
    return int(np.random.SeedSequence(seed, spawn_key=(run, key)).generate_state(1)[0])


def _join(parts: list[Attribution]) -> Attribution:
    if len(parts) == 1:
        return parts[0]

    def stack(name: str) -> Any:
        pieces = [getattr(part, name) for part in parts]
        return None if any(piece is None for piece in pieces) else np.concatenate(pieces)

    return Attribution(stack("values"), stack("variance"), stack("base_values"))


def check_attribution(
    answer: Attribution, n: int, d: int, model: Model, start: int = 0, *, given: bool = False
) -> Attribution:
    """Bring attributions into the one shape used everywhere, or say what is wrong with them.

    ``given`` tells that the user passed them to ``fit``, so that errors name those arguments.
    """
    classes = int(model.n_classes or 2)
    whose = (
        ("attributions", "attribution_variance") if given else ("The explainer's answer", "The explainer's variance")
    )
    error = InputError if given else ExplainerError
    raw = _flat(_numbers(whose[0], answer.values, error), model.table.shape)
    values = _shape(whose[0], raw, n, d, classes, start, error)
    variance = None
    if answer.variance is not None:
        raw_variance = _flat(_numbers(whose[1], answer.variance, error), model.table.shape)
        variance = _shape(whose[1], raw_variance, n, d, classes, start, error, _LARGEST**2)
        if (variance < 0).any():
            row, f = np.argwhere(variance < 0)[0][:2]
            raise error(f"{whose[1]} has a negative number at row {start + row}, feature {f}.")
    outputs = raw.shape[2] if raw.ndim == 3 else None
    return Attribution(values, variance, _base_values(answer.base_values, n, classes, outputs))


def _flat(array: FloatArray, shape: tuple[int, ...] | None) -> FloatArray:
    """Attributions of images ``(n, *shape)`` or ``(n, *shape, c)`` with their pixels in one axis."""
    if shape is None or array.ndim <= len(shape) or array.shape[1 : 1 + len(shape)] != shape:
        return array
    return array.reshape(len(array), -1, *array.shape[1 + len(shape) :])


def _base_values(base: Any, n: int, classes: int, outputs: int | None) -> FloatArray | None:
    """Base values as ``(n,)`` for two classes, else ``(n, c)``; None where there are none that fit."""
    if base is None:
        return None
    try:
        base = np.asarray(base, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        return None
    if base.ndim == 0 or (base.ndim == 1 and base.shape == (outputs,)):  # the same for all rows
        base = np.broadcast_to(base.reshape(1, -1), (n, base.size))
    elif base.ndim == 1:
        base = base[:, None]
    if base.ndim != 2 or len(base) != n or not np.isfinite(base).all():
        return None
    if classes == 2:
        return base[:, -1].copy() if base.shape[1] <= 2 else None
    return np.broadcast_to(base, (n, classes)).copy() if base.shape[1] in (1, classes) else None


def _numbers(what: str, array: Any, error: type[ExplainerError] | type[InputError]) -> FloatArray:
    try:
        if isinstance(array, list) and array and all(np.ndim(part) == 2 for part in array):
            array = np.stack(array, axis=-1)  # one array for each class
        if array is None or np.iscomplexobj(array):
            raise TypeError("it is None" if array is None else "it is complex")
        return np.array(np.asarray(array), dtype=np.float64)  # not at once: tensors know no copy
    except (TypeError, ValueError, RuntimeError) as cause:  # torch raises RuntimeError for tensors with gradients
        raise error(f"{what} cannot be read as an array of real numbers: {str(cause).rstrip('.')}.") from cause


def _shape(
    what: str,
    values: FloatArray,
    n: int,
    d: int,
    classes: int,
    start: int,
    error: type[ExplainerError] | type[InputError],
    limit: float = _LARGEST,
) -> FloatArray:
    if classes == 2 and values.ndim == 3 and values.shape[2] in (1, 2):
        values = values[:, :, -1]
    expected = (n, d) if classes == 2 else (n, d, classes)
    if values.shape != expected:
        raise error(
            f"{what} has shape {values.shape} for {n} rows of a model with {classes} classes; expected {expected}"
            + (", one column of attributions for each class." if classes > 2 else ".")
        )
    bad = ~(np.abs(values) <= limit)
    if bad.any():
        index = np.argwhere(bad)[0]
        raise error(
            f"{what} has {values[tuple(index)]} at row {start + index[0]}, feature {index[1]}; all numbers must be "
            f"finite and at most {limit:g} in size."
        )
    return values
