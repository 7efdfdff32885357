"""What every loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

import gpec.datasets
from gpec.typing import IntArray

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(gpec.datasets.Dataset):
    """Rows of a file, their classes or another target, and what is known about both.

    Attributes
    ----------
    X : DataFrame of shape (n, d), or uint8 array of shape (n, height, width) or (n, channels, height, width)
        Features. Categories are integer codes, which :meth:`named` gives their names, or text where the file has text.
    y : int or float array of shape (n,)
        Index into ``class_names``; of two classes, 1 is the one to be found. A numeric target is as it is (floats), and
        there are no class names.
    feature_names : tuple of str
        In the order of columns, or of pixels, row by row.
    train, test : int arrays
        The official split where there is one, else 80% and 20% of each class, or of all rows.
    description : str
        What the data are, their origin, licence, and what to cite.
    categorical_features : tuple of str
        Columns whose values have no order; pass them to :class:`gpec.GPEC` under the same name.
    categories : mapping
        For each coded column the name of each code.
    """

    categorical_features: tuple[str, ...] = ()
    categories: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def named(self) -> pd.DataFrame:
        """The features as a DataFrame with category columns in place of codes, as for a ``OneHotEncoder``."""
        if not isinstance(self.X, pd.DataFrame):  # images: one column a pixel
            return pd.DataFrame(np.reshape(self.X, (len(self.y), -1)), columns=list(self.feature_names))
        frame = self.X.copy()
        for column, names in self.categories.items():
            frame[column] = pd.Categorical.from_codes(
                np.searchsorted(list(names), frame[column]), categories=pd.Index(list(names.values()))
            )
        return frame

    @property
    def X_train(self) -> Any:
        return self._rows(self.train)

    @property
    def X_test(self) -> Any:
        return self._rows(self.test)

    def _rows(self, rows: IntArray) -> Any:
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]
