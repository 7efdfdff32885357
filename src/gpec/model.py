"""One checked way to call any model; counts calls and rows.

Every prediction in the package goes through :class:`Model`. It receives encoded rows, hands the user's model rows of
the kind it was trained on, and checks what comes back for shape, type, range and finiteness.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, softmax

from gpec.errors import InputError, ModelCallError, ModelOutputError, ParameterTypeError
from gpec.table import FloatArray, IntArray, Table

__all__ = ["Model", "evaluation_mode", "torch_settings"]

_BATCH_ROWS = 16_384
# Rounding of a float32 softmax may leave [0, 1] by this much.
_RANGE_SLACK = 1e-6


class Model:
    """A user's classifier behind one interface.

    Parameters
    ----------
    model : object
        A classifier with ``predict_proba``, a ``torch.nn.Module``, an ``xgboost.Booster``, or a callable
        ``X -> (n,)`` for the positive class or ``(n, c)``.
    table : Table
        The columns of the rows the model knows.
    model_output : {"auto", "probability", "logit"}
        What the model returns. "auto" takes ``predict_proba`` and callables as probabilities, Modules as logits and
        Boosters by their objective.
    threshold : float
        A row is positive when its probability is greater than this (two classes only).

    Attributes
    ----------
    n_calls, n_rows : int
        Calls made and rows predicted so far.
    n_classes : int or None
        Number of classes, known after the first call.
    """

    def __init__(
        self,
        model: Any,
        table: Table,
        *,
        model_output: Literal["auto", "probability", "logit"] = "auto",
        threshold: float = 0.5,
    ) -> None:
        if model_output not in ("auto", "probability", "logit"):
            raise InputError(f"model_output={model_output!r} is not one of 'auto', 'probability', 'logit'.")
        if not isinstance(threshold, (int, float, np.number)) or isinstance(threshold, bool) or not 0 < threshold < 1:
            raise InputError(f"threshold={threshold!r} must be a number between 0 and 1.")
        self.table = table
        self.threshold = float(threshold)
        self.user_model = model
        self._predict, kind = _resolve(model)
        self.output = kind if model_output == "auto" else model_output
        self.n_calls = 0
        self.n_rows = 0
        self.n_classes: int | None = None
        self._n_columns: int | None = None

    @property
    def is_binary(self) -> bool:
        """Whether the model tells two classes apart; known after the first call."""
        return self.n_classes == 2

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Names of the classes: the model's ``classes_``, else 0, 1, ..."""
        count = self.n_classes or 0
        own = getattr(self.user_model, "classes_", None)
        return np.asarray(own) if own is not None and np.shape(own) == (count,) else np.arange(count)

    def probabilities(self, Z: FloatArray) -> FloatArray:
        """Probability of the positive class ``(n,)``, or of each class ``(n, c)``."""
        scores = self._scores(Z)
        if self.output == "probability":
            return scores
        probabilities = expit(scores) if self.is_binary else softmax(scores, axis=1)
        return np.asarray(probabilities, dtype=np.float64)

    def labels(self, Z: FloatArray) -> IntArray:
        """Index of the predicted class; ties go to the earlier class, as in scikit-learn."""
        scores = self._scores(Z)
        if self.is_binary:
            # logits are compared as such: a saturated probability has lost the order
            cut = self.threshold if self.output == "probability" else float(logit(self.threshold))
            return np.asarray(scores > cut, dtype=np.int64)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    def require_repeatable(self, Z: FloatArray, before: FloatArray) -> None:
        """Raise if the model answers ``Z`` differently from ``before``, its probabilities for these rows."""
        change = np.abs(self.probabilities(Z) - before).reshape(len(Z), -1).max(axis=1)
        if change.max() > 1e-5:
            row = int(change.argmax())
            raise ModelOutputError(
                f"The model changed its answer to the same row by {change[row]:.3g} between two calls (call "
                f"{self.n_calls}, row {row}); make it deterministic, for instance by switching off dropout or fixing "
                "its seed."
            )

    def _scores(self, Z: FloatArray) -> FloatArray:
        """Checked output for encoded rows: ``(n,)`` for two classes, else ``(n, c)``."""
        blocks = [self._call(Z[start : start + _BATCH_ROWS], start, len(Z)) for start in range(0, len(Z), _BATCH_ROWS)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def _call(self, Z: FloatArray, start: int, total: int) -> FloatArray:
        rows = self.table.decode(Z)
        self.n_calls += 1
        self.n_rows += len(Z)
        try:
            raw = self._predict(rows)
        except Exception as error:
            raise ModelCallError(
                f"The model raised {type(error).__name__} on call {self.n_calls} (rows {start} to "
                f"{start + len(Z) - 1} of {total}): {error}",
                (start, start + len(Z) - 1),
            ) from error
        self._require_untouched(rows, Z, start)
        return self._check(raw, len(Z), start)

    def _require_untouched(self, rows: Any, Z: FloatArray, start: int) -> None:
        expected = self.table.decode(Z)
        same = np.array_equal(rows, expected) if isinstance(rows, np.ndarray) else rows.equals(expected)
        if not same:
            changed = 0
            if rows.shape == expected.shape:
                differs = np.asarray(rows, dtype=object) != np.asarray(expected, dtype=object)
                changed = int(differs.any(axis=1).argmax())
            raise ModelOutputError(
                f"The model changed the rows it was given (call {self.n_calls}, row {start + changed}); let it work on "
                "a copy.",
                (start + changed, start + changed),
            )

    def _check(self, raw: Any, n: int, start: int) -> FloatArray:
        where = f"on call {self.n_calls}"
        try:
            output = np.asarray(raw)
            if output.dtype.kind not in "fiub":
                raise TypeError(f"dtype {output.dtype}")
            output = output.astype(np.float64)
        except (TypeError, ValueError, RuntimeError) as error:  # the last for a tensor that requires grad
            raise ModelOutputError(
                f"The model returned a {type(raw).__name__} {where} that is not an array of numbers ({error}); it must "
                "return, for each row, one probability or one for each class.",
                (start, start + n - 1),
            ) from error
        if output.ndim not in (1, 2) or output.shape[0] != n or output.size == 0:
            raise ModelOutputError(
                f"The model returned shape {output.shape} for {n} rows {where}; expected ({n},) or ({n}, classes).",
                (start, start + n - 1),
            )
        if output.ndim == 1:
            output = output[:, None]
        columns = output.shape[1]
        if columns > 2 and self.threshold != 0.5:
            raise InputError(
                f"threshold={self.threshold} with a model of {columns} classes; a threshold is for two classes, leave "
                "it at 0.5."
            )
        if self._n_columns is None:
            self._n_columns, self.n_classes = columns, max(columns, 2)
        elif columns != self._n_columns:
            raise ModelOutputError(
                f"The model returned {columns} columns {where} but {self._n_columns} before; it must return the same "
                "classes on every call.",
                (start, start + n - 1),
            )
        bad = ~np.isfinite(output)
        if bad.any():
            row, column = np.argwhere(bad)[0]
            raise ModelOutputError(
                f"The model returned {output[row, column]} {where}, row {start + row}; it must give finite numbers "
                "everywhere near the data, not only for the rows of X.",
                (start + int(row), start + int(row)),
            )
        if self.output == "probability":
            bad = (output < -_RANGE_SLACK) | (output > 1 + _RANGE_SLACK)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ModelOutputError(
                    f"The model returned {output[row, column]:.6g} {where}, row {start + row}, which is not a "
                    "probability; if it returns logits, set model_output='logit'.",
                    (start + int(row), start + int(row)),
                )
            output = np.clip(output, 0.0, 1.0)
        if columns == 1:
            return np.ascontiguousarray(output[:, 0])
        if columns == 2:
            return output[:, 1].copy() if self.output == "probability" else output[:, 1] - output[:, 0]
        return output


def _resolve(model: Any) -> tuple[Callable[[Any], Any], str]:
    """How to call ``model``, and what it returns."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _torch_predict(model), "logit"
    xgboost = sys.modules.get("xgboost")
    if xgboost is not None and isinstance(model, xgboost.Booster):
        return _booster_predict(model), _booster_output(model)
    if isinstance(model, type):
        raise ParameterTypeError(f"model is the class {model.__name__}; pass a fitted instance of it.")
    if hasattr(model, "predict_proba"):
        return model.predict_proba, "probability"
    if callable(model):
        return model, "probability"
    remedy = ""
    if hasattr(model, "decision_function"):
        remedy = " For a model with decision_function pass model.decision_function and model_output='logit'."
    raise ParameterTypeError(
        f"model must have predict_proba, be a torch Module, an xgboost Booster or a callable, got "
        f"{type(model).__name__}.{remedy}"
    )


def _torch_predict(module: Any) -> Callable[[Any], npt.NDArray[Any]]:
    import torch

    def predict(rows: Any) -> npt.NDArray[Any]:
        dtype, device = torch_settings(module)
        tensor = torch.as_tensor(np.array(rows, dtype=np.float64), dtype=dtype, device=device)
        with evaluation_mode(module), torch.no_grad():
            output = module(tensor)
        return np.asarray(output.detach().cpu().double().numpy())

    return predict


def torch_settings(module: Any) -> tuple[Any, Any]:
    """Data type and device of a module's parameters."""
    import torch

    parameter = next(module.parameters(), None)
    if parameter is None:
        return torch.get_default_dtype(), torch.device("cpu")
    return parameter.dtype, parameter.device


@contextmanager
def evaluation_mode(module: Any) -> Iterator[None]:
    """Evaluation mode inside, and every part of the module in its own mode again afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _booster_predict(booster: Any) -> Callable[[Any], npt.NDArray[Any]]:
    import xgboost

    def predict(rows: Any) -> npt.NDArray[Any]:
        names = booster.feature_names if isinstance(rows, np.ndarray) else None
        categorical = not isinstance(rows, np.ndarray)
        matrix = xgboost.DMatrix(rows, feature_names=names, enable_categorical=categorical)
        return np.asarray(booster.predict(matrix))

    return predict


def _booster_output(booster: Any) -> str:
    import json

    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    outputs = {"binary:logistic": "probability", "multi:softprob": "probability", "binary:logitraw": "logit"}
    if objective not in outputs:
        raise InputError(
            f"The Booster has the objective {objective!r}; gpec needs one of {sorted(outputs)}, or a callable that "
            "returns probabilities."
        )
    return outputs[objective]
