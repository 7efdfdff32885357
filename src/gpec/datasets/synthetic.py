"""Synthetic data with two features and a decision boundary in closed form.

A :class:`CurveModel` predicts class 1 above the curve ``x2 = f(x1)``:

    p(x) = sigmoid(sharpness * (x2 - f(x1)))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from gpec._validation import check_count, check_finite_array, check_positive
from gpec.datasets.base import Dataset, stratified_split
from gpec.errors import InputError
from gpec.runtime.randomness import make_seed, stream
from gpec.typing import FloatArray, IntArray

_INNERMOST = 20 / ((5e6 + 1) * np.pi)  # within it the paper's curve is 0; there cos(10 / x) is 0, too
_REACH = 10.0  # rows are uniform over [-10, 10]^2, as in the paper


class CurveModel(ABC):
    """A classifier of two features whose boundary is the curve ``x2 = f(x1)``.

    It has ``predict_proba`` and ``predict`` like any scikit-learn classifier, and adds what no trained model has:
    exact points of its boundary, and its gradient.

    Parameters
    ----------
    sharpness : float
        How steeply the probability rises across the boundary.

    Examples
    --------
    >>> from gpec.datasets import absolute_boundary
    >>> model = absolute_boundary().model
    >>> model.predict_proba(model.boundary([-2.0, 3.0]))
    array([[0.5, 0.5],
           [0.5, 0.5]])
    >>> model.gradient([[-2.0, 2.0]])
    array([[0.25, 0.25]])
    """

    classes_ = np.array([0, 1])
    n_features_in_ = 2

    def __init__(self, sharpness: float = 1.0) -> None:
        self.sharpness = check_positive("sharpness", sharpness)

    @abstractmethod
    def curve(self, x1: Any) -> FloatArray:
        """``f(x1)``."""

    @abstractmethod
    def slope(self, x1: Any) -> FloatArray:
        """``f'(x1)``; at a kink, the middle of both slopes."""

    def boundary(self, x1: Any) -> FloatArray:
        """Points of the boundary above each ``x1``, of shape (n, 2)."""
        x1 = check_finite_array("x1", x1).reshape(-1)
        return np.column_stack((x1, self.curve(x1)))

    def predict_proba(self, X: Any) -> FloatArray:
        score = self._score(_two_columns(X))
        return np.column_stack((expit(-score), expit(score)))

    def predict(self, X: Any) -> IntArray:
        return (self._score(_two_columns(X)) > 0).astype(np.int64)

    def gradient(self, X: Any) -> FloatArray:
        """Gradient of the probability of class 1, of shape (n, 2)."""
        X = _two_columns(X)
        score = self._score(X)
        height = self.sharpness * expit(score) * expit(-score)
        return np.column_stack((-height * self.slope(X[:, 0]), height))

    def _score(self, X: FloatArray) -> FloatArray:
        return self.sharpness * (X[:, 1] - self.curve(X[:, 0]))


class _Cosine(CurveModel):
    def curve(self, x1: Any) -> FloatArray:
        inside, x1 = self._apart(x1)
        return np.where(inside, 0.0, 2 * np.cos(10 / x1))

    def slope(self, x1: Any) -> FloatArray:
        inside, x1 = self._apart(x1)
        return np.where(inside, 0.0, 20 * np.sin(10 / x1) / x1**2)

    @staticmethod
    def _apart(x1: Any) -> tuple[Any, Any]:
        """Where ``x1`` lies in the innermost part, and ``x1`` with 1 there."""
        inside = np.abs(x1) < _INNERMOST
        return inside, np.where(inside, 1.0, x1)


class _Linear(CurveModel):
    def curve(self, x1: Any) -> FloatArray:
        return np.asarray(x1, dtype=np.float64)

    def slope(self, x1: Any) -> FloatArray:
        return np.ones(np.shape(x1))


class _Absolute(CurveModel):
    def curve(self, x1: Any) -> FloatArray:
        return np.asarray(np.abs(x1), dtype=np.float64)

    def slope(self, x1: Any) -> FloatArray:
        return np.asarray(np.sign(x1), dtype=np.float64)


def cosine_boundary(n_samples: int = 1_000, *, sharpness: float = 1.0, random_state: Any = 0) -> Dataset:
    """The paper's synthetic set: ``x2 = 2 cos(10 / x1)``, which oscillates near ``x1 = 0`` and is smooth far from it.

    For ``|x1| < 20 / ((5e6 + 1) pi)`` the curve is 0. Rows are uniform over [-10, 10]^2.
    """
    word = "x2 = 2 cos(10 / x1), 0 for |x1| < 20 / ((5e6 + 1) pi): the synthetic set of the GPEC paper"
    return _sample("cosine_boundary", _Cosine(sharpness), n_samples, random_state, word)


def linear_boundary(n_samples: int = 1_000, *, sharpness: float = 1.0, random_state: Any = 0) -> Dataset:
    """The line ``x2 = x1``, the simplest boundary. Rows are uniform over [-10, 10]^2."""
    return _sample("linear_boundary", _Linear(sharpness), n_samples, random_state, "x2 = x1")


def absolute_boundary(n_samples: int = 1_000, *, sharpness: float = 1.0, random_state: Any = 0) -> Dataset:
    """Two half lines that meet at a right angle, ``x2 = |x1|``. Rows are uniform over [-10, 10]^2."""
    return _sample("absolute_boundary", _Absolute(sharpness), n_samples, random_state, "x2 = |x1|")


def _sample(name: str, model: CurveModel, n_samples: int, random_state: Any, word: str) -> Dataset:
    n_samples = check_count("n_samples", n_samples, least=2)
    rng = stream(make_seed(random_state), "synthetic rows")
    X = pd.DataFrame(rng.uniform(-_REACH, _REACH, size=(n_samples, 2)), columns=["x1", "x2"])
    y = model.predict(X)
    train, test = stratified_split(y)
    description = f"Synthetic: {n_samples:,} rows uniform over [-10, 10]^2; class 1 above the curve {word}."
    return Dataset(name, X, y, ("x1", "x2"), ("below", "above"), train, test, description, model=model)


def _two_columns(X: Any) -> FloatArray:
    array = check_finite_array("X", X)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"X must have shape (rows, 2), got {array.shape}.")
    return array
