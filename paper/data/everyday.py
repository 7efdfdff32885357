"""Everyday tables: text, flags and missing values, kept as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from gpec.datasets.base import stratified_split
from paper.data._files import File, checked
from paper.data._registry import FILES
from paper.data.base import Dataset

__all__ = ["california_housing", "titanic"]


def titanic() -> Dataset:
    """Passengers of the Titanic (891 people, 13 features): who survived.

    Numbers, text and true/false columns, as in the file. Missing are 177 ages, 688 decks and 2 ports (in ``embarked``
    and ``embark_town``). Some columns repeat others: ``class`` is ``pclass`` in words, ``embark_town`` is ``embarked``,
    ``who``, ``adult_male`` and ``alone`` follow from ``sex``, ``age``, ``sibsp`` and ``parch``. The file's ``alive``
    is the target in words and left out.
    """
    X = _read(FILES["titanic"][0])
    y = X.pop("survived").to_numpy(dtype=np.int64)
    X = X.drop(columns="alive")
    train, test = stratified_split(y)
    return Dataset(
        "titanic", X, y, tuple(X.columns), ("died", "survived"), train, test,
        """Titanic: 891 of the passengers, 342 of whom survived. Text, true/false columns and missing values.

Origin: seaborn's example data, after the Encyclopedia Titanica. Licence: none stated.
Cite: M. Waskom (2021), seaborn: statistical data visualization, Journal of Open Source Software 6(60), 3021.""",
        categorical_features=_not_numbers(X),
    )  # fmt: skip


def california_housing() -> Dataset:
    """Districts of California in 1990 (20,640 block groups, 9 features): the median value of their houses, in dollars.

    The target is a number, for regression; values above 500,000 are all 500,001. For a classifier compare it with
    a value of your choice, such as ``data.y > np.median(data.y)``. ``ocean_proximity`` is text; one of its five values,
    ``"ISLAND"``, occurs five times. Missing are 207 values of ``total_bedrooms``. Numbers of rooms, people and
    households have heavy tails.
    """
    X = _read(FILES["california_housing"][0])
    y = X.pop("median_house_value").to_numpy(dtype=np.float64)
    train, test = stratified_split(np.zeros(len(y)))
    return Dataset(
        "california_housing", X, y, tuple(X.columns), (), train, test,
        """California Housing: 20,640 block groups of the 1990 US census, with a text column and missing values.

Origin: the StatLib repository, in the variant of A. Geron's book. Licence: none stated (US census data).
Cite: R. Pace and R. Barry (1997), Sparse spatial autoregressions, Statistics and Probability Letters 33, 291-297.""",
        categorical_features=_not_numbers(X),
    )  # fmt: skip


def _read(file: File) -> pd.DataFrame:
    return pd.read_csv(checked(file), keep_default_na=False, na_values=[""])  # only what is empty is missing


def _not_numbers(X: pd.DataFrame) -> tuple[str, ...]:
    return tuple(
        str(name)
        for name in X.columns
        if pd.api.types.is_bool_dtype(X[name]) or not pd.api.types.is_numeric_dtype(X[name])
    )
