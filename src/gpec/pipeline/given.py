"""Attributions that users have already: read, looked up by row, and what they and their base value add up to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

from gpec._validation import check_finite_array
from gpec.data import Schema
from gpec.data._equality import contents_of
from gpec.errors import GPECError, InputError
from gpec.explainers import Attribution
from gpec.models import Model
from gpec.runtime.state import MAY_BE_MISSING, Limits, Shape
from gpec.typing import BoolArray, FloatArray

_UNIT_TOLERANCE = 1e-3  # of probabilities, or of the spread of values: single precision and approximations stay below
_OF_SPREAD = 1e-2  # of the answers' spread, where the base value is not given
_FEWEST_ROWS = 5  # from which a base value is learned
_SAME_ROWS = 1e-5  # relative difference: rows may have been in single precision
_EXCHANGED = 0.05  # of the mean error that rows in another order have, at most, is the tolerance
_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows (encoded) whose attributions were given to ``fit``; the Gaussian process may have learned from some only."""

    rows: Annotated[FloatArray, Shape("given", "column"), MAY_BE_MISSING]
    values: Annotated[FloatArray, Shape("given", "feature", "output")]
    variance: Annotated[FloatArray, Shape("given", "feature", "output"), Limits(least=0)] | None
    base_values: Annotated[FloatArray, Shape("given", "output")] | None

    @property
    def attribution(self) -> Attribution:
        return Attribution(self.values, self.variance, self.base_values)

    def contain(self, Z: FloatArray) -> BoolArray:
        """Which rows are among them."""
        known = set(contents_of(self.rows))
        return np.array([content in known for content in contents_of(Z)], dtype=bool)


def read_given(attributions: Any, variance: Any, rows: FloatArray, schema: Schema, which: str) -> Attribution:
    """Attributions of encoded rows and their variance, as they were passed; ``which`` names the rows in errors."""
    base, (n, d) = None, rows.shape
    if type(attributions).__module__.partition(".")[0] == "shap" and hasattr(attributions, "base_values"):
        order = _order_of(attributions, schema)
        _require_same_rows(attributions.data, order, rows, schema, which)
        base, attributions = attributions.base_values, np.asarray(attributions.values)
        if attributions.ndim > 1 and attributions.shape[1] == d:
            attributions = attributions[:, order]
    found = {"attributions": attributions} if variance is None else {"attributions": attributions, "variance": variance}
    for name, values in found.items():
        called = name if name == "attributions" else "attribution_variance"
        if isinstance(values, list) and values and all(np.ndim(part) == 2 for part in values):
            values = np.stack(values, axis=-1)  # one array for each class, as earlier versions of shap answer
        least = -np.inf if name == "attributions" else 0.0
        array = found[name] = check_finite_array(called, _aligned(called, values, schema), least=least)
        if array.ndim not in (2, 3) or array.shape[:2] != (n, d):
            raise InputError(
                f"{called} has shape {array.shape}; expected {(n, d)} or ({n}, {d}, classes), one row for each row of "
                f"{which}.{_hint(array.shape, n, d, which)}"
            )
        if array.shape == (n, d, d) and d > 3 and np.allclose(array, np.swapaxes(array, 1, 2), atol=1e-6):
            raise InputError(f"{called} has shape {array.shape}.{_hint(array.shape, n, d, which)}")
    return Attribution(found["attributions"], found.get("variance"), base)


def _hint(shape: tuple[int, ...], n: int, d: int, which: str) -> str:
    """What an array of this shape may be, and what to pass then."""
    if shape[:3] == (n, d, d):
        return " They look like interaction values: pass their sum over the last feature axis, A.sum(axis=2)."
    if shape == (n, d + 1):
        return (
            " With one column more, the last may be the base value, as in pred_contribs: pass "
            "shap.Explanation(A[:, :-1], A[:, -1])."
        )
    if len(shape) == 3 and shape[1:] == (n, d):
        return " The classes come first: pass np.moveaxis(A, 0, -1)."
    if len(shape) == 3 and shape[::2] == (n, d):
        return " The classes come before the features: pass np.swapaxes(A, 1, 2)."
    if shape == (d, n) and n != d:
        return " Rows and columns are exchanged: pass A.T."
    if len(shape) in (2, 3) and shape[1] == d:
        return f" If they belong to other rows, pass these {shape[0]} rows as {which.partition(',')[0]}."
    return ""


def _order_of(explanation: Any, schema: Schema) -> list[int]:
    """Where the columns of a shap.Explanation stand in the order of X's, by name if it has the same names."""
    names, labels = explanation.feature_names, list(schema.labels or ())
    if names is None or len(names) != len(labels) or set(names) != set(labels):
        return list(range(schema.n_features))
    return [list(names).index(label) for label in labels]


def _require_same_rows(data: Any, order: list[int], rows: FloatArray, schema: Schema, which: str) -> None:
    """Raise if a shap.Explanation brings along other rows; what cannot be read as rows is not compared."""
    shape = np.shape(data)
    if len(shape) != 2 or shape != rows.shape:
        return
    try:
        columns = np.asarray(data)[:, order]
        like: Any = columns if schema.labels is None else pd.DataFrame(columns, columns=list(schema.labels))
        theirs = schema.encode(like.infer_objects() if isinstance(like, pd.DataFrame) else like, "attributions.data")
    except (GPECError, TypeError, ValueError):
        return
    differ = ~np.isclose(theirs, rows, rtol=_SAME_ROWS, atol=0.0, equal_nan=True).all(axis=1)
    if differ.any():
        raise InputError(
            f"attributions is a shap.Explanation of other rows than {which}: {int(differ.sum())} of {len(rows)} "
            f"differ, the first is row {int(differ.argmax())}. Pass attributions of these rows, or the rows that they "
            "belong to, attributions.data."
        )


def _aligned(name: str, values: Any, schema: Schema) -> Any:
    """Columns of a DataFrame in the order of X's, if they have names."""
    if not isinstance(values, pd.DataFrame) or schema.labels is None:
        return values
    columns: list[Any] = list(values.columns)
    if columns == list(range(schema.n_features)):  # numbered, not named
        return values
    if len(columns) != schema.n_features or set(columns) != set(schema.labels):
        raise InputError(f"{name} has the columns {columns}, but X has {list(schema.labels)}.")
    return values[list(schema.labels)]


def find_unit(answer: Attribution, outputs: FloatArray, model: Model) -> tuple[str | None, FloatArray | None]:
    """What attributions and base values add up to, if that is known, and the base values ``(n, c)``.

    ``outputs`` are the model's at the same rows. Base values that are not given are what the sums lack, if that is the
    same in every row.

    Raises
    ------
    InputError
        If the attributions add up to the answers for another class, or for other rows.
    """
    sums, base, answers = answer.values.sum(axis=1), answer.base_values, model.kind.answers_from(outputs)
    tolerance = _UNIT_TOLERANCE * model.kind.unit(answers)
    if base is None:
        tolerance = min(tolerance, _OF_SPREAD * float(np.ptp(answers, axis=0).max()))
        if len(sums) < _FEWEST_ROWS or tolerance == 0:
            return None, None
    found = list(_totals(sums, base, outputs, model))
    unit, learned, totals = min(found, key=lambda one: float(np.abs(one[2] - answers).max()))
    if np.abs(totals - answers).max() <= tolerance:
        return unit, base if base is not None or learned is None else np.tile(learned, (len(sums), 1))
    for unit, _, totals in _totals(sums, base, -outputs, model) if model.is_binary else ():
        if np.abs(totals - (1.0 - answers)).max() <= tolerance:
            other, own = map(str, model.classes)
            raise InputError(
                f"attributions add up to the {unit} of class {other!r}, but gpec explains class {own!r}, the second of "
                f"the model; pass those of {own!r}: A[..., 1] if A has an axis of classes, else -A."
            )
    for unit, _, totals in found:
        off = np.abs(np.sort(totals, axis=0) - np.sort(answers, axis=0)).max()
        if len(sums) >= _FEWEST_ROWS and off <= tolerance < _EXCHANGED * np.abs(totals - answers).mean():
            raise InputError(
                f"attributions add up to the {unit} that the model gives for these rows in another order; pass rows "
                "and attributions in the same order."
            )
    return None, base


def _totals(
    sums: FloatArray, base: FloatArray | None, outputs: FloatArray, model: Model
) -> Iterator[tuple[str, FloatArray | None, FloatArray]]:
    """In each unit, the base value ``(c,)`` that fits if none is given, and the answers that the totals stand for."""
    answers = model.kind.answers_from(outputs)
    ways: list[tuple[str, Any, FloatArray]] = [(model.kind.explained("identity"), lambda totals: totals, answers)]
    if not model.is_regressor:
        ways.append((model.kind.explained("logit"), expit, outputs))
    if model.n_outputs > 1:
        ways.append(("margin", lambda totals: softmax(totals, axis=1), _centred(np.log(np.maximum(answers, _TINY)))))
    for unit, to_answers, target in ways:
        if base is not None:
            yield unit, None, to_answers(sums + base)
        else:
            own = _centred(sums) if unit == "margin" else sums
            fits = np.median(target, axis=0) - np.median(own, axis=0)
            yield unit, None if unit == "margin" else fits, to_answers(own + fits)


def _centred(array: FloatArray) -> FloatArray:
    return np.asarray(array - array.mean(axis=1, keepdims=True))
