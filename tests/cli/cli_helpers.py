"""A model and tables, and a way to call commands."""

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from gpec.cli import app

# A model of three features that knows their names and its classes.
RULES = """
import numpy as np

class Credit:
    classes_ = np.array(["no", "yes"])
    feature_names_in_ = np.array(["income", "debt", "age"])

    def predict_proba(self, X):
        assert list(X.columns) == list(self.feature_names_in_)
        p = 1 / (1 + np.exp(-(X["income"] - X["debt"] * np.where(X["age"] > 0, 1.5, 0.2)).to_numpy()))
        return np.column_stack([1 - p, p])

model = Credit()

def rate(X):
    return model.predict_proba(X)

def broken(X):
    raise RuntimeError("the cable\\nis out")
"""
QUICK = ["--n-boundary", "60", "--n-explained", "20", "--n-background", "10", "--no-progress"]


def table(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, 3)), columns=["income", "debt", "age"])


def call(*words):
    """Run a command here; words may be paths."""
    return CliRunner().invoke(app, [str(word) for word in words])


def explain(*words, data="new.csv", model="credit_model:model"):
    return call("explain", data, "--model", model, "--background", "train.csv", *QUICK, *words)
