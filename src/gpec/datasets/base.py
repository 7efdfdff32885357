"""What every loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpec.typing import IntArray

__all__ = ["Dataset", "stratified_split"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, their classes or another target, and what is known about both.

    Attributes
    ----------
    name : str
        Name of the loader.
    X : DataFrame of shape (n, d), or uint8 array of shape (n, height, width) or (n, channels, height, width)
        Features. Categories are integer codes, which :meth:`named` gives their names, or text where the file has text.
    y : int or float array of shape (n,)
        Index into ``class_names``; of two classes, 1 is the one to be found. A numeric target is as it is (floats).
    feature_names, class_names : tuple of str
        In the order of columns (of pixels, row by row) and of ``y``; without class names the target is numeric.
    categorical_features : tuple of str
        Columns whose values have no order; pass them to :class:`gpec.GPEC` under the same name.
    categories : mapping
        For each coded column the name of each code.
    train, test : int arrays
        Rows of the two parts of the split. It never changes: the official one where there is one, else 80% and 20% of
        each class, or of all rows.
    description : str
        What the data are, their origin, licence, and what to cite.
    model : object or None
        For synthetic data, the model that gave the classes.
    """

    name: str
    X: Any
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    train: IntArray
    test: IntArray
    description: str
    categorical_features: tuple[str, ...] = ()
    categories: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    model: Any = None

    @property
    def X_train(self) -> Any:
        return self._rows(self.train)

    @property
    def X_test(self) -> Any:
        return self._rows(self.test)

    @property
    def y_train(self) -> npt.NDArray[Any]:
        return self.y[self.train]

    @property
    def y_test(self) -> npt.NDArray[Any]:
        return self.y[self.test]

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

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.X.shape)
        target = f"{len(self.class_names)} classes" if self.class_names else "a numeric target"
        return f"<gpec.datasets {self.name}: X {shape}, {target}, {len(self.train):,} to train>"

    def _rows(self, rows: IntArray) -> Any:
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]


def stratified_split(y: npt.NDArray[Any], test_share: float = 0.2) -> tuple[IntArray, IntArray]:
    """Rows to train and to test, sorted; the same share of each class, and the same rows for ever.

    ``RandomState`` because NumPy promises that its stream never changes, and promises no such thing of ``Generator``.
    """
    order = np.random.RandomState(0).permutation(len(y))
    test = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = order[y[order] == label]
        test[members[: round(test_share * len(members))]] = True
    return np.flatnonzero(~test), np.flatnonzero(test)
