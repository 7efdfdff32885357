"""The input columns of the trees in a model, which may be a pipeline that transforms each column separately.

TreeSHAP explains the input columns of the trees. If each column comes from one feature, and no feature gives two
columns, the values of the columns are those of the features. This is not so for a one-hot encoding: the Shapley values
of its columns do not add up to the value of the feature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import Pipeline

from gpec.typing import FloatArray, IntArray

__all__ = ["MixedColumns", "TreeInputs", "find_tree_inputs"]

# Transformers of scikit-learn that transform each column separately, into one column.
_COLUMNWISE = {
    "Binarizer",
    "KBinsDiscretizer",
    "MaxAbsScaler",
    "MinMaxScaler",
    "OrdinalEncoder",
    "PowerTransformer",
    "QuantileTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "TargetEncoder",
}
# Transformers that do so only with these settings.
_SETTINGS: dict[str, dict[str, Any]] = {
    "FunctionTransformer": {"func": None},
    "KBinsDiscretizer": {"encode": "ordinal"},
    "SimpleImputer": {"add_indicator": False},
}


class MixedColumns(Exception):  # noqa: N818  the name describes the step
    """A step of a pipeline makes several columns from one feature, or one column from several features."""


@dataclass(frozen=True, eq=False)
class TreeInputs:
    """The trees of a model and their input columns.

    Attributes
    ----------
    trees : object
        The tree model.
    feature : array of int, shape (p,)
        The feature from which each input column of the trees comes.
    transform : function or None
        Transforms the user's rows into these columns; None if they are the same.
    """

    trees: Any
    feature: IntArray
    transform: Callable[[Any], Any] | None = None

    def columns(self, rows: Any) -> FloatArray:
        """The input columns of the trees for the user's rows; a missing value is NaN."""
        seen = rows if self.transform is None else self.transform(rows)
        array = np.asarray(seen.toarray() if hasattr(seen, "toarray") else seen, dtype=np.float64)
        if array.shape[1:] != self.feature.shape:
            raise MixedColumns("its steps drop columns")
        return array


def find_tree_inputs(model: Any, d: int) -> TreeInputs:
    """The trees of a model and their input columns, for rows of ``d`` features."""
    if hasattr(model, "best_estimator_"):  # a search over parameters
        return find_tree_inputs(model.best_estimator_, d)
    if not isinstance(model, Pipeline):
        return TreeInputs(model, np.arange(d))
    steps, first = model[:-1], _sources(model[:-1], d)
    last = find_tree_inputs(model.steps[-1][1], len(first))
    further = last.transform
    if len(steps) == 0:
        return last
    return TreeInputs(
        last.trees,
        first[last.feature],
        steps.transform if further is None else lambda rows: further(steps.transform(rows)),
    )


def _sources(step: Any, d: int, name: str = "") -> IntArray:
    """The input column from which each output column of a transformer comes."""
    kind = type(step).__name__
    if step is None or isinstance(step, str):
        return np.arange(0 if step == "drop" else d)
    if isinstance(step, Pipeline):
        found = np.arange(d)
        for inner, transformer in step.steps:
            found = found[_sources(transformer, len(found), inner)]
        return found
    if isinstance(step, ColumnTransformer):
        return _sources_of_columns(step, d)
    if isinstance(step, SelectorMixin):
        return np.asarray(step.get_support(indices=True), dtype=np.int64)
    columnwise = type(step).__module__.startswith("sklearn.") and (kind in _COLUMNWISE or kind in _SETTINGS)
    settings = _SETTINGS.get(kind, {})
    several = getattr(step, "target_type_", "") == "multiclass"  # of a TargetEncoder: a column for each class
    if not columnwise or several or any(getattr(step, key) != value for key, value in settings.items()):
        raise MixedColumns(f"its step {name!r} ({kind}) does not make exactly one column from each feature")
    return np.arange(d)


def _sources_of_columns(step: ColumnTransformer, d: int) -> IntArray:
    parts: dict[int, IntArray] = {}
    for name, transformer, columns in step.transformers_:
        taken = _indices(columns, list(getattr(step, "feature_names_in_", [])), d)
        where, sources = step.output_indices_[name], taken[_sources(transformer, len(taken), name)]
        if len(sources) != where.stop - where.start:
            raise MixedColumns(f"its step {name!r} drops columns")
        if len(sources):
            parts[where.start] = sources
    found = np.concatenate([parts[start] for start in sorted(parts)])
    if len(np.unique(found)) != len(found):
        raise MixedColumns("its ColumnTransformer uses a feature twice")
    return found


def _indices(columns: Any, names: list[str], d: int) -> IntArray:
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        raise MixedColumns("its ColumnTransformer takes a slice of names")
    if not isinstance(columns, slice) and any(isinstance(column, str) for column in columns):
        columns = [names.index(column) for column in columns]
    return np.atleast_1d(np.arange(d)[columns])
