"""The result: attributions with their uncertainty."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec._validation import check_level
from gpec.errors import InputError, ParameterTypeError
from gpec.intervals import trust
from gpec.intervals.rules import IntervalRule, Latent
from gpec.runtime import archive
from gpec.runtime.state import OPTIONAL, Limits, OneOf, Shape, Stored, from_state, to_state
from gpec.typing import FloatArray

__all__ = ["Explanation"]

_FULL = ("values", "model_variance", "noise_variance", "explainer_variance")
# The axes of each array and list of names.
_AXES: dict[str, tuple[str, ...]] = dict.fromkeys(_FULL, ("row", "feature", "output"))
_AXES |= dict.fromkeys(("base_values", "predictions"), ("row", "output"))
_AXES |= {"data": ("row", "feature"), "row_names": ("row",), "feature_names": ("feature",), "output_names": ("output",)}

_SHOWN_STEPS = 4  # features of which a statement says how far similar rows lie
_UNITS = {unit: f"and add up to the model's {unit}" for unit in ("probability", "log-odds", "margin", "output")}
_WHOLE, _VARIANCE = Shape("row", "feature", "output"), Limits(least=0)


def _plain(value: Any) -> Any:
    """Data and names of rows for a file: dates and pairs as text, missing values as NaN."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OmM":
        return value
    if isinstance(value, np.ndarray):
        plain = np.empty(value.size, dtype=object)
        plain[:] = [_plain(item) for item in value.ravel()]
        return plain.reshape(value.shape)
    if isinstance(value, np.datetime64 | np.timedelta64):
        value = pd.Series([value]).iloc[0]
    if value is pd.NA or value is pd.NaT:
        return np.nan
    return value if value is None or isinstance(value, (str, int, float, np.number, np.bool_)) else str(value)


def _array_of(value: Any, state: dict[str, Any]) -> npt.NDArray[Any]:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{str(value)[:60]!r} is not an array")
    return value


def _names_of(names: Any, state: dict[str, Any]) -> Any:
    """Names of rows; that of a single row is a text or a number."""
    single = "row" not in state["axes"] and isinstance(names, (str, int, float))
    return names if single else _array_of(names, state)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Feature attributions and how far each holds.

    Shapes are ``(n, d)`` for two classes, where attributions are for ``classes_[1]``, and for a regressor, and
    ``(n, d, c)`` for several classes.
    Variances are in squared attribution units when GPEC was fitted with ``output_scale="evidence"``.

    Attributes
    ----------
    values : array
        The attributions: the explainer's own, or the posterior mean.
    model_variance, noise_variance : array
        The two parts of ``variance``: that the model gives similar rows other answers, and the explainer's noise.
    explainer_variance : array or None
        The explainer's own variance at these rows.
    base_values : array or None
        The value to which the attributions of a row are added.
    data : array
        The rows explained.
    predictions : array or None
        The model's answers for these rows: the probability of ``classes_[1]`` or the value of a regressor, ``(n,)``,
        or the probability of each class, ``(n, c)``.
        None with ``similar=None``, which does not run the model.
    feature_names, output_names : list of str
        Names along the second and third axis; a single name if that axis is absent, and None for a regressor.
    confidence_level : float
        Level of ``lower`` and ``upper``.
    diagnostics : dict
        Settings and figures of the run.
    axes : tuple of str
        What the axes of ``values`` are.
    row_names : array or None
        Labels of the rows, as in the index of the DataFrame that was explained.
    rule : IntervalRule
        The rule that makes intervals from values and variances.
    similar_steps : dict
        What similar means in the units of the data, ``{"age": "±3", "housing": "switches in 22%"}``: the typical change
        of each feature that changes, those with the largest attributions first. See :meth:`gpec.GPEC.similar_steps`.
        Empty where intervals are not about similar rows, or where the statement has the units already.

    Notes
    -----
    ``explanation[rows, features, outputs]`` selects along each axis, by number, slice, mask, list or name:
    ``e[0]``, ``e[:10, "age"]``, ``e[0, ["age", "bmi"], "virginica"]``. A single number or name drops its axis. The name
    of a feature alone selects it for all rows: ``e["age"]``.
    """

    values: Annotated[FloatArray, _WHOLE]
    model_variance: Annotated[FloatArray, _WHOLE, _VARIANCE]
    noise_variance: Annotated[FloatArray, _WHOLE, _VARIANCE]
    explainer_variance: Annotated[FloatArray, _WHOLE, _VARIANCE] | None
    base_values: Annotated[FloatArray, Shape("row", "output")] | None
    data: Annotated[npt.NDArray[Any], Stored(_plain, _array_of), Shape("row", "feature")]
    feature_names: Annotated[Any, Shape("feature")]
    output_names: Annotated[Any, Shape("output"), OPTIONAL]
    confidence_level: Annotated[float, Limits(0, 1, strict=True)] = 0.95
    diagnostics: dict[str, Any] = field(default_factory=dict)
    axes: Annotated[tuple[str, ...], OneOf("row", "feature", "output")] = ("row", "feature")
    rule: IntervalRule = field(default_factory=Latent)
    row_names: Annotated[Any, Stored(_plain, _names_of), Shape("row"), OPTIONAL] = None
    predictions: Annotated[FloatArray, Shape("row", "output")] | None = None
    similar_steps: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of_outputs(cls, *, output_names: Any, **parts: Any) -> Explanation:
        """From arrays with an axis of outputs; the axis of a single output is dropped."""
        single = parts["values"].shape[2] == 1
        names = [output_names] if single else output_names
        e = cls(**parts, output_names=names, axes=("row", "feature", "output"))
        return e[..., 0] if single else e

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def variance(self) -> FloatArray:
        """Expected squared change among similar rows, or the variance of the value or of the latent explanation."""
        return self.model_variance + self.noise_variance

    @property
    def boundary_variance(self) -> FloatArray:
        """Earlier name of ``model_variance``, with a FutureWarning."""
        warnings.warn("boundary_variance is now called model_variance.", FutureWarning, stacklevel=2)
        return self.model_variance

    @property
    def promise(self) -> str:
        """What the intervals promise: "similar rows", "value", or "latent", the paper's, which promises no coverage."""
        return self.rule.promise

    @property
    def similar_values(self) -> FloatArray | None:
        """Attributions of the similar rows of each row, ``(n, K, d)`` or ``(n, K, d, c)``.

        None unless all of them were explained, as in ``mode="explain"``, and kept.
        """
        similar: FloatArray | None = getattr(self.rule, "similar", None)
        return None if similar is None else np.moveaxis(similar, -1, 1 if "row" in self.axes else 0)

    @property
    def std(self) -> FloatArray:
        return np.sqrt(self.variance)

    @property
    def lower(self) -> FloatArray:
        return self.interval()[0]

    @property
    def upper(self) -> FloatArray:
        return self.interval()[1]

    @property
    def width(self) -> FloatArray:
        """Upper minus lower bound."""
        lower, upper = self.interval()
        return upper - lower

    def interval(self, level: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bound at a confidence level, by default that of the explanation."""
        level = self.confidence_level if level is None else check_level(level)
        return self.rule.bounds(self.values, self.std, level)

    def statement(self, level: float | None = None) -> str:
        """What the intervals promise, how that was checked, and what similar means, in plain sentences."""
        promise = self.rule.statement(self.confidence_level if level is None else check_level(level))
        shown = [f"{name} {words}" for name, words in self.similar_steps.items()][:_SHOWN_STEPS]
        more = len(self.similar_steps) - len(shown)
        means = ", ".join([*shown, f"and {more:,} more"] if more else shown)
        said = f"{promise} Similar means: {means}." if shown else promise
        if not self.diagnostics.get("given"):
            return said
        unit = _UNITS.get(str(self.diagnostics.get("unit")), "in a unit that is not known")
        return f"{said} The attributions were given, {unit}."

    @property
    def firmness(self) -> trust.Words:
        """Whether each sign is "firm", "likely" or "unclear"; see :func:`gpec.intervals.firmness`."""
        return trust.firmness(self)

    @property
    def firm_share(self) -> FloatArray:
        """The part of each row's attribution, by size, whose sign is firm; see :func:`gpec.intervals.firm_share`."""
        return trust.firm_share(self)

    @property
    def sign_certainty(self) -> FloatArray:
        """Probability that the attribution has the sign shown; see :func:`gpec.intervals.sign_certainty`."""
        return trust.sign_certainty(self)

    def rank_certainty(self, k: int) -> FloatArray:
        """Probability that a feature is among the ``k`` largest in size; see :func:`gpec.intervals.rank_certainty`."""
        return trust.rank_certainty(self, k)

    def trust(self) -> trust.Words:
        """Earlier name of ``firmness``, with a FutureWarning."""
        warnings.warn("trust() is deprecated: use firmness, whose words it returns.", FutureWarning, stacklevel=2)
        return self.firmness

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        from gpec.report import text_table

        return text_table(self)

    def __getitem__(self, key: Any) -> Explanation:
        if isinstance(key, str) and self.axes[:2] == ("row", "feature"):
            key = (slice(None), key)
        keys = list(key) if isinstance(key, tuple) else [key]
        at = next((i for i, k in enumerate(keys) if k is Ellipsis), None)
        if at is not None:
            keys[at : at + 1] = [slice(None)] * (len(self.axes) - len(keys) + 1)
        if len(keys) > len(self.axes):
            raise InputError(f"{len(keys)} indices for an explanation with the axes {self.axes}.")
        result = self
        for axis, index in zip(self.axes, keys, strict=False):
            result = result._select(axis, index)
        return result

    def _select(self, axis: str, index: Any) -> Explanation:
        position = self.axes.index(axis)
        names = {"feature": self.feature_names, "output": self.output_names}.get(axis)
        index = _resolve(index, axis, names, self.shape[position])
        cut = (slice(None),) * position + (index,)
        changes: dict[str, Any] = {"rule": self.rule.select(cut)}
        for name, axes in _AXES.items():
            part = getattr(self, name)
            if part is None or axis not in axes:
                continue
            if name in ("feature_names", "output_names"):
                changes[name] = _names_at(part, index)
            elif name == "row_names":
                changes[name] = part[index]
            else:
                changes[name] = np.asarray(part[(..., index) if axis == axes[-1] else cut])
        if isinstance(index, int):
            changes["axes"] = tuple(name for name in self.axes if name != axis)
        return replace(self, **changes)

    def to_frame(self) -> pd.DataFrame:
        """One line for each attribution: row, feature, output, data, value, bounds, std, parts of the variance.

        ``row`` is the label in the index of the DataFrame that was explained, else the number of the row.
        """
        position = np.indices(self.shape).reshape(len(self.shape), self.values.size)
        names = {"feature": self.feature_names, "output": self.output_names}
        columns: dict[str, Any] = {}
        for axis in ("row", "feature", "output"):
            if axis in self.axes:
                indices = position[self.axes.index(axis)]
                labels = self.row_names if axis == "row" else np.asarray(names[axis], dtype=object)
                columns[axis] = indices if labels is None else np.asarray(labels)[indices]
            elif isinstance(names.get(axis), str):  # a single one, for all lines
                columns[axis] = np.full(self.values.size, names[axis], dtype=object)
        data = self.data[..., None] if "output" in self.axes else self.data
        columns["data"] = np.broadcast_to(data, self.shape).ravel()
        columns["value"] = np.ravel(self.values)
        columns["lower"], columns["upper"] = (np.ravel(bound) for bound in self.interval())
        columns["std"] = np.ravel(self.std)
        columns["model_variance"] = np.ravel(self.model_variance)
        columns["noise_variance"] = np.ravel(self.noise_variance)
        return pd.DataFrame(columns)

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Draw it, and return the matplotlib axes drawn on.

        By default the plot that suits: a waterfall of one row (bars where there is no base value), a scatter of one
        feature, a beeswarm of many rows, a summary of several classes. ``kind`` names another function of
        :mod:`gpec.plots` that draws an explanation, ``options`` are passed to it.
        """
        from gpec.plots._choice import draw

        return draw(self, kind, options)

    def to_shap(self) -> Any:
        """A ``shap.Explanation`` with both bounds and ``error_std``, as shap's plots draw them.

        shap needs a base value; it is 0 where the explainer gave none.
        """
        import shap

        if not self.axes:
            raise InputError("shap has no explanation of a single number; convert its row, e[row].to_shap().")
        lower, upper = self.interval()
        base = self.base_values
        if base is None:
            base = np.zeros([size for axis, size in zip(self.axes, self.shape, strict=True) if axis != "feature"])
        return shap.Explanation(
            values=self.values.copy(),
            base_values=base if np.ndim(base) else float(base),
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names if "output" in self.axes else None,
            lower_bounds=lower,
            upper_bounds=upper,
            error_std=self.std,
        )

    def to_html(
        self, path: str | os.PathLike[str], *, gpec: Any = None, title: str | None = None, max_rows: int = 10_000
    ) -> None:
        """Write a report: one HTML file that opens in any browser without a network.

        It says what the intervals promise, shows the global picture, the rows with the smallest and the largest firm
        share and a table of rows to search, and for each row its waterfall, the parts of its variance and its similar
        rows.

        Parameters
        ----------
        path : str or path
            Where to write; the folder must exist.
        gpec : GPEC, optional
            The fit that made this explanation, to show which rows are similar and what the model answers for them.
        title : str, optional
            The heading of the page.
        max_rows : int
            How many rows the table lists at most; of more rows it lists a sample, and says so.
        """
        from gpec.report import write_report

        write_report(self, path, fit=gpec, title=title, max_rows=max_rows)

    def _repr_html_(self) -> str:
        from gpec.report import notebook_table

        return notebook_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file; :meth:`load` reads it without the model."""
        archive.write(path, "Explanation", to_state(self))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, max_bytes: int = archive.MAX_BYTES) -> Explanation:
        """Read what :meth:`save` wrote; a file that takes more than ``max_bytes`` of memory is refused.

        The file may come from anywhere: reading it runs no code, and all that it holds is checked.
        """
        return from_state(cls, archive.read(path, "Explanation", max_bytes), f"{path}: Explanation")


def _resolve(index: Any, axis: str, names: Any, size: int) -> Any:
    """An index as an int, a slice or an array of ints."""
    if isinstance(index, slice):
        return slice(_name_to_int(index.start, axis, names), _name_to_int(index.stop, axis, names), index.step)
    if isinstance(index, str):
        return _name_to_int(index, axis, names)
    if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
        _require_in_range(int(index), axis, size)
        return int(index)
    array = np.array([], dtype=int) if isinstance(index, (list, tuple)) and not index else np.asarray(index)
    if array.ndim == 1 and array.dtype.kind in "UOT":
        array = np.array([_name_to_int(item, axis, names) for item in index])
    if array.dtype == bool and array.ndim == 1:
        if array.shape != (size,):
            raise InputError(f"The mask of {axis}s has {len(array)} entries; there are {size} {axis}s.")
        return np.flatnonzero(array)
    if array.ndim == 1 and array.dtype.kind in "iu":
        for item in array.tolist():
            _require_in_range(item, axis, size)
        return array
    raise ParameterTypeError(f"Cannot select {axis}s by {index!r}; use a number, name, slice, list or mask.")


def _require_in_range(index: int, axis: str, size: int) -> None:
    if not -size <= index < size:
        raise IndexError(f"{axis} {index} is out of range; there are {size} {axis}s.")


def _name_to_int(item: Any, axis: str, names: Any) -> Any:
    if not isinstance(item, str):
        return item
    if names is None:
        raise InputError(f"Rows have no names; for the feature {item!r} write [:, {item!r}].")
    if item not in list(names):
        raise InputError(f"No {axis} is called {item!r}; names are {list(names)}.")
    return list(names).index(item)


def _names_at(names: Any, index: Any) -> Any:
    if isinstance(index, int):
        return names[index]
    return list(np.asarray(names, dtype=object)[index])
