"""Small models and explainers of the tests: functions of a module with a name of its own can be pickled."""

import numpy as np
from scipy.special import expit

W = np.array([1.0, -2.0, 0.5])


class CountingModel:
    """A callable model that counts its calls and rows; ``before`` may interfere with a call, ``after`` with its answer.

    ``before(call, X)`` and ``after(call, X, p)`` get the number of the call, from 1.
    """

    def __init__(self, function, *, before=None, after=None):
        self.function, self.before, self.after = function, before, after
        self.n_calls = self.n_rows = 0

    def __call__(self, X):
        self.n_calls += 1
        self.n_rows += len(X)
        if self.before is not None:
            self.before(self.n_calls, X)
        answer = self.function(X)
        return answer if self.after is None else self.after(self.n_calls, X, answer)


def curved(X):
    """Probability of the positive class; the boundary is a bent surface through the data."""
    X = np.asarray(X, dtype=np.float64)
    return expit(X @ W[: X.shape[1]] + 0.3 * X[:, 0] ** 2 - 0.3)


def three_classes(X):
    """Probabilities of three classes, each predicted for about a third of the rows."""
    X = np.asarray(X, dtype=np.float64)
    scores = np.column_stack((2 * X[:, 0], 2 * X[:, 1], -X[:, 0] - X[:, 1]))
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def slopes(X):
    """Attributions of two classes ``(n, d)``: cheap, smooth, different for each feature."""
    X = np.asarray(X, dtype=np.float64)
    return X * W[: X.shape[1]] + 0.1 * X[:, :1] ** 2


def slopes_of_three(X):
    """Attributions of three classes ``(n, d, 3)``."""
    return np.stack([slopes(X), -slopes(X), np.asarray(X, dtype=np.float64) ** 2], axis=-1)
