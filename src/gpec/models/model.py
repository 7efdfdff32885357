"""One interface to call any model, which checks its answers and counts calls and rows.

Every prediction in the package goes through :class:`Model`. It receives encoded rows, passes them to the user's model
in the format of the training data, and checks shape, type, range and finiteness of the answers.
"""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import isroutine
from math import inf
from threading import Lock
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logit
from sklearn.exceptions import NotFittedError

from gpec._validation import check_choice
from gpec.data import Schema, same_values
from gpec.data._output_kind import Classification, OutputKind, Regression
from gpec.errors import BatchSizeWarning, BudgetError, InputError, ModelCallError, ModelOutputError
from gpec.models._answers import Answers
from gpec.models._booster_calls import is_booster
from gpec.models._matching import labels_in_order
from gpec.models._remote import RemoteModel
from gpec.models._resolve import resolve
from gpec.models._torch import final_activation, is_module
from gpec.runtime.blocks import on_threads
from gpec.runtime.checkpoint import BlockCache
from gpec.typing import BoolArray, FloatArray, IntArray

_BATCH_ROWS = 16_384
# Rounding of a float32 softmax can leave [0, 1] by this much.
_RANGE_SLACK = 1e-6
_SUM_SLACK = 1e-3
# Half precision can make answers depend on the size of the batch by this much.
_BATCH_SLACK = 1e-2
# Answers are kept if the model has taken this many seconds in all, and for each row.
_SLOW, _SLOW_ROW = 1.0, 1e-3

_MOST = "most rows"
_COUNT_LOCK = Lock()  # explainers run in threads


class Model:
    """A user's classifier or regressor behind one interface.

    Parameters
    ----------
    model : object
        A classifier with ``predict_proba``, a regressor with ``predict``, a ``torch.nn.Module``, a ``Booster`` of
        xgboost or lightgbm, or a callable ``X -> (n,)`` for the positive class or the value, or ``(n, c)``.
    schema : Schema
        The columns of the model's rows.
    model_output : {"auto", "probability", "logit", "value"}
        What the model returns; "value" is the number that a regressor predicts. With "auto", ``predict_proba`` and
        callables return probabilities, ``predict`` of anything but a classifier returns values, Modules return logits
        (an error asks for ``model_output`` if their first answers look like probabilities), and the output of a Booster
        follows from its objective.
    threshold : float
        A row is positive when its probability is greater than this (two classes only).
    batch_size : int, optional
        Most rows in one call; see :class:`gpec.GPEC`.

    Attributes
    ----------
    n_calls, n_rows : int
        Calls made and rows predicted so far; answers that were known do not count.
    n_classes : int or None
        Number of classes, set by the first call; 1 for a regressor.
    """

    def __init__(
        self,
        model: Any,
        schema: Schema,
        *,
        model_output: Literal["auto", "probability", "logit", "value"] = "auto",
        threshold: float = 0.5,
        batch_size: int | None = None,
    ) -> None:
        check_choice("model_output", model_output, ("auto", "probability", "logit", "value"))
        self._predict, self.output = resolve(model, model_output)
        self._answers = Answers(model.batch_rows if isinstance(model, RemoteModel) else None, batch_size)
        self.kind: OutputKind = Regression() if self.output == "value" else Classification()
        if self.is_regressor and not (isinstance(threshold, float) and threshold == 0.5):
            raise InputError(
                f"threshold={repr(threshold)[:100]} with a regressor; a threshold is for two classes, leave it at 0.5, "
                "and choose levels with boundary=LevelSetSampler(quantiles=...)."
            )
        if not isinstance(threshold, (int, float, np.number)) or isinstance(threshold, bool) or not 0 < threshold < 1:
            raise InputError(f"threshold={repr(threshold)[:100]} must be a number between 0 and 1.")
        self.schema = schema
        self.threshold = float(threshold)
        self.is_guess = model_output == "auto" and (is_module(model) or isroutine(model))  # what it returns
        self.user_model = model
        self._check_activation, self._n_in_unit_interval = model_output == "auto" and is_module(model), 0
        wants_pandas = is_module(model) or is_booster(model, "xgboost") or is_booster(model, "lightgbm")
        self._table = schema.decode if wants_pandas else schema.for_model
        # LightGBM and CatBoost would take another order of columns for their own
        order = labels_in_order(model, schema.labels)
        self._order = order if order and tuple(order) != schema.labels and len(order) == schema.n_features else None
        self._count: Counter[str] = Counter()  # of calls, rows in them, nanoseconds
        self.n_classes: int | None = None
        self._n_columns: int | None = None
        self._n_jobs: int | None = 1

    @property
    def n_calls(self) -> int:
        return self._count["calls"]

    @property
    def n_rows(self) -> int:
        return self._count["rows"]

    def continue_count_of(self, other: Model) -> None:
        """Continue the count of calls and rows of another model, with what is known to both."""
        self._count = other._count
        other._answers.take(self._answers)
        self._answers = other._answers

    @property
    def asked_by_row(self) -> bool:
        """Whether each distinct row is asked once, in batches that go out on several threads."""
        return self._answers.by_row

    def during(
        self, batch_size: int | None, n_jobs: int | None, checkpoint: BlockCache | None = None
    ) -> AbstractContextManager[None]:
        """A context in which it is asked like this, and answers are also kept in a checkpoint."""
        return self._answers.during(batch_size, n_jobs, checkpoint)

    def asked_anew(self) -> AbstractContextManager[None]:
        """A context in which it is asked even for rows to which the answers are known."""
        return self._answers.ignored()

    @property
    def rows_at_once(self) -> int:
        """The most rows in one call."""
        return self._answers.batch_size or self._answers.endpoint_rows or _BATCH_ROWS

    @contextmanager
    def at_most(self, n: float | None) -> Iterator[None]:
        """Raise before the model is asked for more than ``n`` further rows; None: as many as before."""
        count = self._count  # which copies share
        before = count.get(_MOST, sys.maxsize)
        count[_MOST] = before if n is None or n == inf else min(before, count["rows"] + int(n))
        try:
            yield
        finally:
            count[_MOST] = before

    @property
    def is_regressor(self) -> bool:
        """Whether the model predicts a number instead of classes."""
        return self.kind.is_regression

    @property
    def is_binary(self) -> bool:
        """Whether the model has two classes; valid after the first call."""
        return self.n_classes == 2

    @property
    def classes(self) -> npt.NDArray[Any]:
        """Names of the classes: the ``classes_`` of the model or of the object whose method it is, else 0, 1, ..."""
        count = self.n_classes or 0
        owner = getattr(self.user_model, "__self__", None)
        names = getattr(self.user_model, "classes_", getattr(owner, "classes_", None))
        return np.asarray(names) if names is not None and np.shape(names) == (count,) else np.arange(count)

    @property
    def n_outputs(self) -> int:
        """Columns of :meth:`answers`: 1 for two classes or a regressor, else one for each class; valid after a call."""
        return 1 if self.is_binary else int(self.n_classes or 0)

    @property
    def output_names(self) -> list[str] | str | None:
        """Names of the explained outputs: all classes, the positive one of two, or None for a regressor."""
        return self.kind.names([str(name) for name in self.classes])

    def class_name(self, index: int) -> str:
        """The name of a class for messages."""
        return repr(self.classes.tolist()[index])

    def answers(self, Z: FloatArray) -> FloatArray:
        """The model's answers: :meth:`probabilities`, or the values of a regressor ``(n, 1)``."""
        return self.kind.answers(self._scores(Z), self.output)

    def outputs(self, Z: FloatArray) -> FloatArray:
        """:meth:`answers` on an unbounded scale: :meth:`log_odds`, or the values of a regressor."""
        return self.kind.outputs(self._scores(Z), self.output)

    def probabilities(self, Z: FloatArray) -> FloatArray:
        """Probability of the positive class ``(n, 1)``, or of each of several classes ``(n, c)``."""
        self._require_classes("probabilities")
        return self.answers(Z)

    def log_odds(self, Z: FloatArray) -> FloatArray:
        """Log-odds of each column of :meth:`probabilities`, clipped at +-36 so that they are finite."""
        self._require_classes("log-odds")
        return self.outputs(Z)

    def labels(self, Z: FloatArray) -> IntArray:
        """Index of the predicted class; ties go to the earlier class, as in scikit-learn."""
        scores = self._scores(Z)
        if self.is_binary:
            # logits are compared as such: a saturated probability has lost the order
            cut = float(logit(self.threshold)) if self.output == "logit" else self.threshold
            return np.asarray(scores[:, 0] > cut, dtype=np.int64)
        return np.asarray(scores.argmax(axis=1), dtype=np.int64)

    def split_at(self, level: float) -> Self:
        """A regressor as a classifier of values up to ``level`` and greater ones; it shares this model's count."""
        split = copy.copy(self)
        split.threshold, split.n_classes = level, 2
        return split

    def on_threads(self, n_jobs: int | None) -> Self:
        """The same model, which predicts many rows on ``n_jobs`` threads; it shares this model's count."""
        threaded = copy.copy(self)
        threaded._n_jobs = n_jobs
        return threaded

    def require_repeatable(self, Z: FloatArray, before: FloatArray) -> None:
        """Raise if the model's answers to ``Z`` differ from ``before``, its earlier answers to these rows.

        The rows are asked in two batches of other sizes, because answers that depend on the size of the batch, for
        instance by batch normalisation, have no attributions. A small difference of this kind is only a warning.
        """
        tolerance = self.kind.tolerance(before)
        with self.asked_anew():
            change = np.abs(np.concatenate((self.answers(Z[:1]), self.answers(Z[1:]))) - before).max(axis=1)
            if change.max() <= tolerance:
                return
            row = int(change.argmax())
            again = np.abs(self.answers(Z) - before).max(axis=1)
        if again.max() > tolerance:
            row = int(again.argmax())
            raise ModelOutputError(
                f"The model changed its answer to the same row by {again[row]:.3g} between two calls (call "
                f"{self.n_calls}, row {row}); make it deterministic, for instance by switching off dropout or fixing "
                "its seed."
            )
        message = (
            f"The model's answer to row {row} differs by {change[row]:.3g} if other rows are asked with it; let it "
            "answer each row by itself, for instance by switching off batch normalisation or padding batches."
        )
        if change[row] > _BATCH_SLACK * self.kind.unit(before):
            raise ModelOutputError(message)
        warnings.warn(message, BatchSizeWarning, stacklevel=3)

    def _scores(self, Z: FloatArray) -> FloatArray:
        """Checked output for encoded rows, ``(n, n_outputs)``."""
        if not len(Z):
            return np.empty((0, self.n_outputs))
        size, places = self.rows_at_once, np.arange(len(Z))
        if self.asked_by_row:
            one = is_module(self.user_model)  # which is switched to evaluation mode and back around each call
            return self._answers.of_rows(Z, lambda at: self._call(Z[at], at, len(Z)), size, 1 if one else None)

        def call(start: int) -> FloatArray:
            block, at = Z[start : start + size], places[start : start + size]
            return self._answers.of_call(block, lambda: self._call(block, at, len(Z)), self._is_slow)

        starts = range(0, len(Z), size)
        with on_threads(self._n_jobs) if len(starts) > 1 else nullcontext(map) as mapped:
            return np.concatenate(list(mapped(call, starts)))

    def _is_slow(self) -> bool:
        return self._count["nanoseconds"] > 1e9 * max(_SLOW, _SLOW_ROW * self.n_rows)

    def in_order(self, rows: Any) -> Any:
        """A table with the columns in the model's own order."""
        return rows if self._order is None else rows[self._order]

    def _decode(self, Z: FloatArray) -> Any:
        return self.in_order(self._table(Z))

    def _call(self, Z: FloatArray, at: IntArray, total: int) -> FloatArray:
        """Checked output for rows at these positions among all that are asked for."""
        rows = self._decode(Z)
        with _COUNT_LOCK:
            self._count_rows(len(Z))
        started = time.perf_counter_ns()
        try:
            raw = self._predict(rows)
        except Exception as error:
            place = f" on call {self.n_calls} (rows {at[0]} to {at[-1]} of {total})"
            hint, row = ("", "") if isinstance(error, NotFittedError) else self._hint(rows, Z, at)
            text = f"{str(error).rstrip('. ')}.{hint}" if hint else error
            raise ModelCallError(
                f"The model raised {type(error).__name__}{place}: {text}", (int(at[0]), int(at[-1]))
            ).at(place, row) from error
        finally:
            with _COUNT_LOCK:
                self._count["nanoseconds"] += time.perf_counter_ns() - started
        self._require_untouched(rows, Z, at)
        return self._check(raw, Z, at)

    def _hint(self, rows: Any, Z: FloatArray, at: IntArray) -> tuple[str, str]:
        """A likely reason in the rows why the model raised, and the part of it that names the row."""
        hint = place = ""
        columns = list(self.schema.labels or self.schema.names)
        taken = [columns.index(label) for label in self._order or columns]  # in the model's order
        catboost = self.user_model if hasattr(self.user_model, "get_cat_feature_indices") else None
        codes = [taken[j] for j in catboost.get_cat_feature_indices()] if catboost and catboost.is_fitted() else []
        if numbers := [self.schema.names[j] for j in codes if j not in self.schema.categories]:
            hint += f" The model takes {numbers} as categories, not as numbers: name them in categorical_features."
        elif np.isnan(Z).any():
            row, j = np.argwhere(np.isnan(Z))[0]
            place = f" row {at[row]},"
            hint += (
                f" The rows contain missing values (as in{place} column '{self.schema.names[j]}'), which "
                "the model may not support: impute them before fit, or put an imputer into the model."
            )
        if type(rows).__module__.startswith("polars"):
            hint += " Its rows are a polars DataFrame, as in fit; if it supports pandas only, pass X.to_pandas()."
        return hint, place

    def _count_rows(self, n: int) -> None:
        if self.n_rows + n > self._count.get(_MOST, sys.maxsize):
            raise BudgetError(
                f"The budget does not allow for another call of the model with {n:,} rows, after {self.n_rows:,}; give "
                "a larger budget."
            )
        self._count.update(calls=1, rows=n)

    def _require_untouched(self, rows: Any, Z: FloatArray, at: IntArray) -> None:
        plain = isinstance(rows, np.ndarray) and self.schema.plain
        if plain:  # decoding would only copy them again
            expected = Z if self.schema.shape is None else Z.reshape(len(Z), *self.schema.shape)
        else:
            expected = self._decode(Z)
        if plain and np.array_equal(rows, expected):
            return
        if isinstance(rows, np.ndarray):
            same = rows.shape == expected.shape and bool(same_values(rows, expected).all())
        else:
            same = rows.equals(expected)
        if not same:
            changed = int(at[0])
            if rows.shape == expected.shape:
                equal = same_values(np.asarray(rows, dtype=object), np.asarray(expected, dtype=object))
                changed = int(at[(~equal.reshape(len(Z), -1).all(axis=1)).argmax()])
            place = f" (call {self.n_calls}, row {changed})"
            raise ModelOutputError(
                f"The model changed its input rows{place}; let it work on a copy.", (changed, changed)
            ).at(place)

    def _check(self, raw: Any, Z: FloatArray, at: IntArray) -> FloatArray:
        n = len(Z)
        where = f" on call {self.n_calls}"

        def wrong(what: str, more: str) -> ModelOutputError:
            return ModelOutputError(f"The model returned {what}{where}{more}", (int(at[0]), int(at[-1]))).at(where)

        try:
            if np.ma.is_masked(raw):
                raise TypeError("it has masked values")
            output = np.asarray(raw)
            if output.dtype.kind not in "fiub":
                raise TypeError(f"dtype {output.dtype}")
            output = output.astype(np.float64)
        except (TypeError, ValueError, RuntimeError) as error:  # the last for a tensor that requires grad
            wanted = f" that is not an array of numbers ({error}); it must return, for each row, {self.kind.wanted}."
            raise wrong(f"a {type(raw).__name__}", wanted) from error
        if output.ndim not in (1, 2) or output.shape[0] != n or output.size == 0:
            raise wrong(f"shape {output.shape} for {n} rows", f"; expected ({n},) or ({n}, {self.kind.columns}).")
        output = output.reshape(n, -1)
        columns = output.shape[1]
        if self.is_regressor and columns > 1:
            raise wrong(
                f"{columns} numbers for each row",
                "; explain one at a time, for instance by passing lambda X: model.predict(X)[:, 0] with "
                "model_output='value'.",
            )
        if columns > 2 and self.threshold != 0.5:
            raise InputError(
                f"threshold={self.threshold} with a model of {columns} classes; a threshold is for two classes, leave "
                "it at 0.5."
            )
        self._refuse_guess(output)
        if self._n_columns is None:
            self._n_columns, self.n_classes = columns, self.kind.n_classes(columns)
        elif columns != self._n_columns:
            before = f" but {self._n_columns} before; it must return the same classes on every call."
            raise wrong(f"{columns} columns", before)
        lacks = np.isnan(Z[~np.isfinite(output).all(axis=1)][:1]).any()
        self._require(
            np.isfinite(output),
            output,
            at,
            ", which has missing values: impute them before fit, or put an imputer into the model."
            if lacks
            else "; it must give finite numbers everywhere near the data, not only for the rows of X.",
        )
        if self.output == "probability":
            inside = (output >= -_RANGE_SLACK) & (output <= 1 + _RANGE_SLACK)
            self._require(
                inside,
                output,
                at,
                ", which is not a probability; if it returns logits, set model_output='logit', if it is a regressor, "
                "model_output='value'.",
            )
            output = np.clip(output, 0.0, 1.0)
            sums = output.sum(axis=1, keepdims=True)
            self._require(
                (np.abs(sums - 1.0) <= _SUM_SLACK) | (columns == 1),
                sums,
                at,
                "; if they are logits set model_output='logit', else divide each row by its sum.",
                "probabilities that sum to ",
            )
        if columns == 2:
            return output[:, 1:].copy() if self.output == "probability" else output[:, 1:] - output[:, :1]
        return output

    def _require_classes(self, what: str) -> None:
        if self.is_regressor:
            raise InputError(f"The model is a regressor, which has no {what}; use its answers.")

    def _refuse_guess(self, output: FloatArray) -> None:
        """Raise if the first answers of a Module look like probabilities and ``model_output`` is not stated."""
        if not self._check_activation:
            return
        ending = final_activation(self.user_model, output, self._n_in_unit_interval)
        self._check_activation = ending is not None
        self._n_in_unit_interval += len(output)
        if ending:
            raise InputError(
                f"The Module's answers look like those of a {ending}, but model_output='auto' takes a Module's answers "
                "as logits; set model_output='probability', or 'logit' if they are logits, or 'value' if it is a "
                "regressor."
            )

    def _require(self, good: BoolArray, output: FloatArray, at: IntArray, complaint: str, what: str = "") -> None:
        """Raise for the first number of the output that is not ``good``; ``what`` it is."""
        if not good.all():
            index, column = np.argwhere(~good)[0].tolist()
            row = int(at[index])
            place = f" on call {self.n_calls}, row {row}"
            raise ModelOutputError(
                f"The model returned {what}{output[index, column]:.6g}{place}{complaint}", (row, row)
            ).at(place)
