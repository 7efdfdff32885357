"""The playground's explainer: exact Shapley values of two features, with a chosen amount of noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from gpec.data._equality import contents_of
from gpec.runtime.randomness import derived_seed
from gpec.similar.base import uniform
from gpec.typing import FloatArray

Predict = Callable[[FloatArray], FloatArray]
NoisyExplainer = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # rows -> values, their variance


def shapley_of_two(predict: Predict, X: FloatArray, background: FloatArray) -> FloatArray:
    """Exact Shapley values ``(n, 2)`` of a function of two features, absent ones taken from ``background``.

    With ``v(S)`` the mean answer where the features ``S`` are the row's,
    ``phi_1 = (v(1) - v() + v(12) - v(2)) / 2``. Rows of a grid share their values, so each value is computed once.
    """
    whole, nothing = predict(X), float(predict(background).mean())
    alone = np.empty_like(X)
    for j in (0, 1):
        values, where = np.unique(X[:, j], return_inverse=True)
        mixed = np.tile(background, (len(values), 1))
        mixed[:, j] = np.repeat(values, len(background))
        alone[:, j] = predict(mixed).reshape(len(values), -1).mean(axis=1)[where]
    ahead = (alone[:, 0] - alone[:, 1]) / 2
    half = (whole - nothing) / 2
    return np.column_stack((half + ahead, half - ahead))


def noisy_shapley(predict: Predict, background: FloatArray, noise: float, seed: int) -> NoisyExplainer:
    """An explainer with normal noise of standard deviation ``noise``; the same row always gets the same values."""

    def explain(X: FloatArray) -> tuple[FloatArray, FloatArray]:
        X = np.asarray(X, dtype=np.float64)
        values = shapley_of_two(predict, X, background)
        if noise:
            drawn = uniform(derived_seed(seed, "playground noise"), contents_of(X), 2)
            values = values + noise * ndtri(np.clip(drawn, 1e-12, None))
        return values, np.full(values.shape, noise**2)

    return explain
