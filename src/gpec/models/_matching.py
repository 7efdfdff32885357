"""The columns that a model takes, and the conversion of a table to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import pandas as pd

from gpec.errors import InputError
from gpec.models._booster_calls import is_booster


@dataclass(frozen=True)
class Inputs:
    """The columns of a model; ``categories`` maps each categorical column to its categories, or None if unknown."""

    names: tuple[str, ...] | None = None
    count: int | None = None
    categories: Mapping[int, list[Any] | None] = field(default_factory=dict)
    texts: tuple[int, ...] = ()  # columns of strings, even if these look like numbers


def match_columns(model: Any, table: pd.DataFrame, *, name: str = "the table") -> tuple[pd.DataFrame, list[str]]:
    """The columns that the model takes, in its order and type, and the names of the other columns.

    Columns are selected by name if the model stores its column names. Text in a categorical column of XGBoost or
    LightGBM becomes the model's categories; CatBoost's categories become strings.

    Parameters
    ----------
    model : object
        A model, as :class:`gpec.models.Model` takes it.
    table : DataFrame
        Rows, with at least the model's columns.
    name : str
        Name of the table in messages.

    Raises
    ------
    InputError
        If columns are missing, their number is wrong, or a value is not one of the model's categories.
    """
    inputs = inputs_of(model)
    left_out: list[str] = []
    if inputs.names is not None:
        missing = [column for column in inputs.names if column not in table.columns]
        if missing:
            raise InputError(
                f"{name} does not have the columns {missing} that the model takes; it has {list(table.columns)}."
            )
        left_out = [str(column) for column in table.columns if column not in inputs.names]
        table = table[list(inputs.names)]
    elif inputs.count is not None and table.shape[1] != inputs.count:
        raise InputError(
            f"{name} has {table.shape[1]} columns, but the model takes {inputs.count} and does not store their names; "
            "leave out the columns that it does not take (--drop)."
        )
    columns = table.columns
    changed = {columns[j]: _as_category(table[columns[j]], known, name) for j, known in inputs.categories.items()}
    changed |= {columns[j]: _as_text(table[columns[j]]) for j in inputs.texts}
    return (table.assign(**changed) if changed else table), left_out


def labels_in_order(model: Any, labels: Sequence[Any] | None) -> list[Any] | None:
    """The labels of a table's columns that the model was trained on, in its order.

    None if the table or the model has no names of columns, or if the table lacks one of the model's.
    """
    model = getattr(model, "__self__", model)  # of a method
    for attribute in ("feature_names_in_", "feature_names_", "feature_names", "feature_name"):
        names = getattr(model, attribute, None)
        names = names() if callable(names) else names
        if labels is None or names is None:
            continue
        known = {str(label): label for label in labels}
        if is_booster(getattr(model, "_Booster", model), "lightgbm"):  # it has no spaces in names
            known = {text.replace(" ", "_"): label for text, label in known.items()}
        if len(names) and set(names) <= set(known):
            return [known[name] for name in names]
    return None


def inputs_of(model: Any) -> Inputs:
    model = getattr(model, "__self__", model)  # of a method
    if hasattr(model, "get_booster"):
        model = model.get_booster()
    if hasattr(model, "booster_") and is_booster(model.booster_, "lightgbm"):
        model = model.booster_
    if is_booster(model, "xgboost"):
        return _of_xgboost(model)
    if is_booster(model, "lightgbm"):
        return _of_lightgbm(model)
    if hasattr(model, "get_cat_feature_indices"):
        return _of_catboost(model)
    names = getattr(model, "feature_names_in_", None)
    count = getattr(model, "n_features_in_", None)
    return Inputs(None if names is None else tuple(str(column) for column in names), count)


def _of_xgboost(booster: Any) -> Inputs:
    names, types = booster.feature_names, booster.feature_types or []
    places = [j for j, kind in enumerate(types) if kind == "c"]
    known = categories_of_xgboost(json.loads(booster.save_raw("json"))["learner"]) if places else []
    categories = {j: known[j] if j < len(known) else None for j in places}
    return Inputs(None if names is None else tuple(names), booster.num_features(), categories)


def categories_of_xgboost(learner: dict[str, Any]) -> list[list[Any] | None]:
    """The categories of each column as stored in the model file (its "learner"), since XGBoost 3.1.

    XGBoost splits names with non-ASCII letters at the wrong places; such names are not found in a table.
    :func:`as_xgboost_reads` has the same.
    """
    trees = learner["gradient_booster"]
    cache = trees.get("gbtree", trees).get("model", {}).get("cats", {}).get("enc", [])
    categories: list[list[Any] | None] = []
    for column in cache:
        values, offsets = column["values"], column.get("offsets")
        if offsets is None:  # whole numbers
            categories.append(values)
        else:
            categories.append(_split(bytes(value % 256 for value in values), offsets) or None)
    return categories


def as_xgboost_reads(categories: pd.Index) -> pd.Index:
    """The categories of a table's column as XGBoost reads them: it counts letters where it should count bytes."""
    if not all(isinstance(name, str) for name in categories) or all(name.isascii() for name in categories):
        return categories
    ends = accumulate(len(name) for name in categories)
    return pd.Index(_split("".join(categories).encode(), [0, *ends]))


def _split(text: bytes, offsets: Iterable[int]) -> list[str]:
    return [text[i:j].decode(errors="replace") for i, j in pairwise(offsets)]


def _of_lightgbm(booster: Any) -> Inputs:
    names = booster.feature_name()
    numbered = names == [f"Column_{j}" for j in range(len(names))]
    given = booster.pandas_categorical or []
    lines = booster.model_to_string(num_iteration=1).splitlines()
    (infos,) = [line.partition("=")[2].split() for line in lines if line.startswith("feature_infos=")] or [[]]
    places = [j for j, words in enumerate(infos) if not words.startswith("[") and words != "none"]
    if given and len(places) != len(given):
        raise InputError(
            f"The LightGBM model has {len(given)} categorical columns, but its trees use only {len(places)}, so the "
            "file does not say which ones; train it without the unused columns."
        )
    return Inputs(None if numbered else tuple(names), len(names), dict(zip(places, given, strict=False)))


def _of_catboost(model: Any) -> Inputs:
    names = list(model.feature_names_)
    numbered = names == [str(j) for j in range(len(names))]
    texts = (*model.get_cat_feature_indices(), *model.get_text_feature_indices())
    return Inputs(None if numbered else tuple(names), len(names), texts=texts)


def _as_category(column: pd.Series[Any], categories: list[Any] | None, name: str) -> pd.Series[Any]:
    """A column with the categories of the model; if these are unknown, a number is its own code."""
    if categories is None:
        if not pd.api.types.is_numeric_dtype(column.dtype):
            raise InputError(
                f"{name} has text in column {column.name!r}, and the model file does not store the names of the "
                "categories; save the model with XGBoost 3.1 or later, or pass the categories' numbers."
            )
        categories = list(range(int(column.max()) + 1))
    unknown = column[column.notna() & ~column.isin(categories)]
    if len(unknown):
        plain = all(str(category).isascii() for category in categories)
        raise InputError(
            f"{name} has {unknown.iloc[0]!r} in column {column.name!r}, which is not one of the model's categories "
            f"{categories[:20]}{'' if plain else '; XGBoost garbles names that are not ASCII: train it with others'}."
        )
    return pd.Series(pd.Categorical(column, categories=categories), index=column.index, name=column.name)


def _as_text(column: pd.Series[Any]) -> pd.Series[Any]:
    whole = pd.api.types.is_float_dtype(column.dtype) and bool((column.dropna() % 1 == 0).all())
    values = column.astype("Int64") if whole else column
    return values.astype(object).map(str, na_action="ignore")
