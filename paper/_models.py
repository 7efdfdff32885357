"""The models whose regularisation is varied, and the rows they are asked about."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xgboost
from sklearn.datasets import load_digits

from paper import data
from paper.data.errors import IncompleteDataWarning

__all__ = ["IMAGES", "TABLES", "Problem", "booster", "column_names", "images", "network", "problem", "table"]

TABLES = {"Census": "census", "Online Shoppers": "online_shoppers", "German Credit": "german_credit"}
IMAGES = {"MNIST": "mnist", "Fashion-MNIST": "fashion_mnist", "CIFAR-10": "cifar10"}
_TEST_SHARE = 0.2
_MOST_ROWS = 5_000  # of the training rows, for boundary and neighbours
_BACKGROUND = 50


@dataclass(frozen=True, eq=False)
class Problem:
    """One draw: a split of the table, a model for each gamma, and rows of the two parts."""

    models: dict[float, xgboost.Booster]
    pool: np.ndarray  # training rows
    explained: np.ndarray  # some of them
    query: np.ndarray  # test rows
    fresh: np.ndarray  # further test rows, to calibrate on
    background: np.ndarray


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows as numbers, categories as their codes, and classes."""
    found = getattr(data, TABLES[name])()
    return found.X.to_numpy(dtype=float), found.y


def column_names(name: str) -> tuple[str, ...]:
    return tuple(getattr(data, TABLES[name])().feature_names)


def problem(
    name: str, gammas: tuple[float, ...], seed: int, *, n_explained: int = 100, n_query: int = 100, n_fresh: int = 0
) -> Problem:
    """A draw of everything: the split, the models trained on it, and the rows."""
    X, y = table(name)
    rng = np.random.default_rng([seed, 13])
    order = rng.permutation(len(X))
    n_test = round(_TEST_SHARE * len(X))
    test, train = order[:n_test], order[n_test:]
    models = {
        gamma: booster(X[train], y[train], X[test], y[test], gamma, half=name == "Online Shoppers", seed=seed)
        for gamma in gammas
    }
    pool, explained = X[train[:_MOST_ROWS]], X[train[:n_explained]]
    known = {row.tobytes() for row in pool}  # tables have rows twice
    fresh = [row for row in test[n_query:] if X[row].tobytes() not in known][:n_fresh]
    return Problem(models, pool, explained, X[test[:n_query]], X[fresh], explained[:_BACKGROUND])


def booster(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, gamma: float, *, half: bool, seed: int
) -> xgboost.Booster:
    """XGBoost as published: eta 0.5, stopped after 20 rounds without gain on the *test* set; ``half`` subsamples."""
    settings = {
        "objective": "binary:logistic", "eval_metric": "logloss", "eta": 0.5, "gamma": gamma,
        "subsample": 0.5 if half else 1.0, "base_score": float(y.mean()), "seed": seed, "nthread": 1,
    }  # fmt: skip
    model = xgboost.train(
        settings, xgboost.DMatrix(X, y), 5_000, evals=[(xgboost.DMatrix(X_test, y_test), "test")],
        early_stopping_rounds=20, verbose_eval=False,
    )  # fmt: skip
    return model[: model.best_iteration + 1]


@cache
def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images with numbers from 0 to 1, and their classes; "digits" come with scikit-learn."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X = X.reshape(-1, 8, 8) / 16
        return X[:1_500], y[:1_500], X[1_500:], y[1_500:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteDataWarning)
        found = getattr(data, IMAGES[name])()
    scale = np.float32(255)
    return found.X_train / scale, found.y_train, found.X_test / scale, found.y_test


def network(
    name: str,
    what: str,
    level: float,
    *,
    hidden: Any,
    n_train: int,
    n_epochs: int,
    seed: int,
    batch_size: int = 128,
    patience: int = 3,
) -> Any:
    """A fully connected network trained on ``n_train`` images, and its accuracy on the test images.

    ``what`` is "l2", with ReLU, or "beta", with Softplus and no penalty. ``hidden`` are the sizes of the hidden layers.
    After ``patience`` epochs without gain training stops.
    """
    import torch

    from paper.networks import accuracy, fully_connected, train

    X, y, X_test, y_test = images(name)
    beta = level if what == "beta" else None
    some = np.random.default_rng(seed).permutation(len(X))[:n_train]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = fully_connected((X[0].size, *hidden, 10), softplus_beta=beta)
        decay = level if what == "l2" else 0.0
        train(
            made, X[some], y[some], n_epochs=n_epochs, batch_size=batch_size, weight_decay=decay, patience=patience,
            seed=seed, progress=False,
        )  # fmt: skip
    return made, accuracy(made, X_test[:2_000], y_test[:2_000])
