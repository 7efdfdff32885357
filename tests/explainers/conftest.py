"""Models and rows that several files explain."""

import numpy as np
import pytest
from explainer_helpers import IRIS, SPECIES
from scipy.special import expit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

TARGETS = {2: SPECIES == 1, 3: SPECIES}  # of two classes and of three


@pytest.fixture(scope="session")
def forests():
    return {c: RandomForestClassifier(8, max_depth=3, random_state=0).fit(IRIS, y) for c, y in TARGETS.items()}


@pytest.fixture(scope="session")
def logistic():
    return {c: LogisticRegression(max_iter=1_000).fit(IRIS, y) for c, y in TARGETS.items()}


@pytest.fixture(scope="session")
def coded():
    """Two numbers and two columns of codes, and a model of them."""
    rng = np.random.default_rng(5)
    X = np.column_stack(
        (
            rng.normal(40.0, 10.0, 400),
            rng.choice(3, 400, p=[0.5, 0.3, 0.2]),
            rng.normal(size=400),
            rng.integers(2, size=400),
        )
    ).astype(float)

    def model(X):
        return expit(0.05 * (X[:, 0] - 40) + 1.5 * (X[:, 1] == 2) - X[:, 2] + 0.5 * X[:, 3] * X[:, 2])

    return X, model
