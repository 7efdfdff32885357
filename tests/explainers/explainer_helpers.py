"""What tests of several explainers share: rows, models of known Shapley values, and the definition of these."""

from itertools import combinations
from math import factorial

import numpy as np
from sklearn.datasets import load_iris

from extras import torch
from gpec.explainers import make_explainer

IRIS, SPECIES = load_iris(return_X_y=True)
# Off the thresholds of trees: shap's C code rounds both to single precision.
IRIS += np.random.default_rng(0).uniform(-0.01, 0.01, IRIS.shape)

SLOPES = np.array([0.02, -0.03, 0.0, 0.05, -0.04, 0.01, 0.03, -0.02])


def fitted(explainer, model, X=IRIS, **options):
    """The explainer meant, ready to explain; the first 20 rows are its background."""
    return make_explainer(explainer).fit(model, X, **{"background": X[:20], **options})


def probability_of(model, X):
    """What attributions of a classifier add to."""
    p = model.predict_proba(X)
    return p[:, 1] if p.shape[1] == 2 else p


def linear(X):
    """A probability that is linear in the first 8 features; a feature adds its slope times its distance to the mean."""
    X = np.asarray(X, dtype=float)[:, : len(SLOPES)]
    return 0.5 + X @ SLOPES[: X.shape[1]]


def tangled(X):
    """A probability with interactions of two and three of its 8 or 9 features."""
    X = np.asarray(X, dtype=float)
    score = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3] * X[:, 4] + np.sin(2 * X[:, 5]) + np.abs(X[:, 6])
    return 1 / (1 + np.exp(X[:, 7:].prod(axis=1) - score))


def shapley_by_definition(model, x, background):
    """Shapley values of one row, one subset after the other."""
    d = len(x)

    def value(S):
        rows = background.copy()
        rows[:, list(S)] = x[list(S)]
        return np.mean(model(rows), axis=0)

    phi = []
    for j in range(d):
        others = [k for k in range(d) if k != j]
        phi.append(
            sum(
                factorial(len(S)) * factorial(d - len(S) - 1) / factorial(d) * (value((*S, j)) - value(S))
                for size in range(d)
                for S in combinations(others, size)
            )
        )
    return np.array(phi)


def play(explainer, value, m, n_games=1):
    """The same game of ``m`` players solved several times, each with coalitions of its own, and all coalitions asked.

    A row of ones is explained against one of zeros, so that whoever is not 0 has joined; each game has other numbers.
    Returns values and variances ``(n_games, m)``, and the coalitions of each game ``(s, m)`` but for none and all.
    """
    asked, rows = [], np.repeat(np.arange(1.0, n_games + 1)[:, None], m, axis=1)

    def model(Z):
        asked.append(Z.copy())
        return value(Z != 0)

    ready = explainer.fit(model, np.vstack((np.zeros(m), rows)), background=np.zeros((1, m)), model_output="value")
    asked.clear()
    found = ready(rows)
    Z = np.concatenate(asked)
    Z = Z[(Z != 0).any(axis=1) & (Z == 0).any(axis=1)]
    Z = Z[np.argsort(Z.max(axis=1), kind="stable")]
    games = np.split(Z != 0, np.searchsorted(Z.max(axis=1), np.arange(2, n_games + 1)))
    return found.values, found.variance, games


def recorded(model, asked):
    """The model, which keeps all rows it is asked about."""

    def watched(rows):
        asked.append(np.array(rows))
        return model(rows)

    return watched


def network(inputs, outputs, dtype=None):
    """A torch Module with one hidden layer and weights that are always the same."""
    rng = np.random.default_rng(outputs)
    module = torch.nn.Sequential(torch.nn.Linear(inputs, 6), torch.nn.ReLU(), torch.nn.Linear(6, outputs))
    module.to(dtype or torch.float64)
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.as_tensor(rng.normal(size=weight.shape)))
    return module
