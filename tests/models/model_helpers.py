"""Rows, and models behind the checked interface, that the tests of models share."""

import numpy as np

from gpec.data import Schema
from gpec.models import Model

BATCH = 16_384


def rows(n: int = 12, d: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, d))


def checked(model, X=None, *, categorical_features="auto", **options) -> tuple[Model, np.ndarray]:
    schema, Z = Schema.learn(rows() if X is None else X, categorical_features=categorical_features)
    return Model(model, schema, **options), Z
