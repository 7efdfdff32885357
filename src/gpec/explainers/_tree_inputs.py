"""The model at the end of a pipeline, and the feature from which each of its input columns comes.

All columns that come from one feature, such as those of a one-hot encoding, are one player: a coalition has all of them
or none. So every step of the pipeline must make each output column from one input column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline

from gpec.typing import IntArray


class MixedColumns(Exception):  # noqa: N818  the name describes the step
    """A step of a pipeline makes a column from several features, or gpec does not know from which."""


@dataclass(frozen=True, eq=False)
class TreeInputs:
    """The last step of a model, and its input columns.

    Attributes
    ----------
    trees : object
        The last step.
    feature : array of int, shape (p,)
        The feature from which each of its input columns comes.
    transform : function or None
        Transforms the user's rows into its input; None if they are the same.
    """

    trees: Any
    feature: IntArray
    transform: Callable[[Any], Any] | None = None


def find_tree_inputs(model: Any, d: int) -> TreeInputs:
    """The last step of a model and its input columns, for rows of ``d`` features."""
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
    if step is None or isinstance(step, str):
        return np.arange(0 if step == "drop" else d)
    if isinstance(step, Pipeline):
        columns = np.arange(d)
        for inner, transformer in step.steps:
            columns = columns[_sources(transformer, len(columns), inner)]
        return columns
    if isinstance(step, FeatureUnion):
        return np.concatenate([_sources(transformer, d, inner) for inner, transformer in step.transformer_list])
    if isinstance(step, ColumnTransformer):
        return _sources_of_columns(step, d)
    if isinstance(step, SelectorMixin):
        return np.asarray(step.get_support(indices=True), dtype=np.int64)
    kind = type(step).__name__
    known = _COLUMNWISE.get(kind) if type(step).__module__.startswith("sklearn.") else None
    found = None if known is None else known(step, d)
    if found is None:
        raise MixedColumns(f"its step {name!r} ({kind}) does not make each of its columns from one feature")
    return np.asarray(found, dtype=np.int64)


def _imputed(step: Any, d: int) -> IntArray:
    """All columns that had values in fit, then the indicators of missing values."""
    there = np.arange(d)[np.asarray(step.keep_empty_features | ~pd.isna(step.statistics_))]
    return there if step.indicator_ is None else np.concatenate((there, step.indicator_.features_))


def _of_targets(step: Any, d: int) -> IntArray:
    several = step.target_type_ == "multiclass"  # a column for each class
    return np.repeat(np.arange(d), len(step.classes_) if several else 1)


_SCALERS = "MaxAbsScaler MinMaxScaler PowerTransformer QuantileTransformer RobustScaler StandardScaler"
# The sources of transformers that make each column from one column; None where they may not.
_COLUMNWISE: dict[str, Callable[[Any, int], IntArray | None]] = {
    **dict.fromkeys([*_SCALERS.split(), "Binarizer", "OrdinalEncoder"], lambda step, d: np.arange(d)),
    "FunctionTransformer": lambda step, d: np.arange(d) if step.func is None else None,
    "KBinsDiscretizer": lambda step, d: np.repeat(np.arange(d), 1 if step.encode == "ordinal" else step.n_bins_),
    "MissingIndicator": lambda step, d: step.features_,
    "OneHotEncoder": lambda step, d: np.repeat(np.arange(d), step._n_features_outs),
    "SimpleImputer": _imputed,
    "SplineTransformer": lambda step, d: np.repeat(np.arange(d), step.n_features_out_ // d),
    "TargetEncoder": _of_targets,
}


def _sources_of_columns(step: ColumnTransformer, d: int) -> IntArray:
    found = np.empty(max(where.stop for where in step.output_indices_.values()), dtype=np.int64)
    for name, transformer, columns in step.transformers_:
        taken = _indices(columns, list(getattr(step, "feature_names_in_", [])), d)
        where, sources = step.output_indices_[name], taken[_sources(transformer, len(taken), name)]
        if len(sources) != where.stop - where.start:
            raise MixedColumns(f"its step {name!r} drops columns")
        found[where] = sources
    return found


def _indices(columns: Any, names: list[str], d: int) -> IntArray:
    if isinstance(columns, str):
        columns = [columns]
    if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
        raise MixedColumns("its ColumnTransformer takes a slice of names")
    if not isinstance(columns, slice) and any(isinstance(column, str) for column in columns):
        columns = [names.index(column) for column in columns]
    return np.atleast_1d(np.arange(d)[columns])
