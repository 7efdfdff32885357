"""The class of data sets: rows, classes, and a fixed split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpec.typing import IntArray

_TEST_SHARE = 0.2


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, their classes, and their description.

    Attributes
    ----------
    name : str
        Name of the function that made it.
    X : DataFrame of shape (n, d)
        Features.
    y : int array of shape (n,)
        Index into ``class_names``.
    feature_names, class_names : tuple of str
        In the order of columns and of ``y``.
    train, test : int arrays
        Rows of the two parts of the split, 80% and 20% of each class. It never changes.
    description : str
        What the data are.
    model : object or None
        The model that gave the classes.
    """

    name: str
    X: Any
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    train: IntArray
    test: IntArray
    description: str
    model: Any = None

    @property
    def X_train(self) -> Any:
        return self.X.iloc[self.train]

    @property
    def X_test(self) -> Any:
        return self.X.iloc[self.test]

    @property
    def y_train(self) -> npt.NDArray[Any]:
        return self.y[self.train]

    @property
    def y_test(self) -> npt.NDArray[Any]:
        return self.y[self.test]

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.X.shape)
        target = f"{len(self.class_names)} classes" if self.class_names else "a numeric target"
        return f"<{self.name}: X {shape}, {target}, {len(self.train):,} to train>"


def stratified_split(y: npt.NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Rows to train and to test, sorted; the same share of each class, and always the same rows.

    ``RandomState`` because NumPy promises that its stream never changes, and promises no such thing of ``Generator``.
    """
    order = np.random.RandomState(0).permutation(len(y))
    test = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = order[y[order] == label]
        test[members[: round(_TEST_SHARE * len(members))]] = True
    return np.flatnonzero(~test), np.flatnonzero(test)
