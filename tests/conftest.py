"""Shared fixtures: small models that count their calls, small data, cheap explainers."""

import os
import warnings
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import settings
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import browser_helpers
import extras
import gpec
from gpec.errors import MissingExtraError
from small_models import CountingModel, W, curved, slopes, slopes_of_three, three_classes

mpl.use("Agg")
with warnings.catch_warnings():  # importing shap warns about matplotlib and NumPy, which is not ours to mend
    warnings.simplefilter("ignore")
    import shap  # noqa: F401

# Repeatable, and no database of examples beside the tests.
settings.register_profile("gpec", deadline=None, derandomize=True, database=None)
settings.load_profile("gpec")


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call():
    """Without an extra, a test that needs it is skipped."""
    try:
        return (yield)
    except MissingExtraError as error:
        if not extras.MISSING:
            raise
        pytest.skip(str(error))


# With --doctest-modules pytest would import every conftest.py under one name.
collect_ignore_glob = ["conftest.py", "*/conftest.py"]


DATA = os.environ.get("GPEC_DATA")  # as it was before any test changed it


def pytest_runtest_setup(item):
    if item.get_closest_marker("data") and not DATA:
        pytest.skip("GPEC_DATA does not name a folder with the data files")


@pytest.fixture(scope="session")
def X():
    """120 rows of 3 standard normal features."""
    rows = np.random.default_rng(0).normal(size=(120, 3))
    rows.setflags(write=False)
    return rows


@pytest.fixture(scope="session")
def models():
    """The plain functions: ``curved``, ``three_classes``, ``slopes``, ``slopes_of_three``."""
    return SimpleNamespace(
        curved=curved, three_classes=three_classes, slopes=slopes, slopes_of_three=slopes_of_three, W=W
    )


@pytest.fixture
def counting():
    """``counting(function, before=..., after=...)``: a model that counts its calls and rows."""
    return CountingModel


@pytest.fixture
def make_auto():
    """``make_auto(**parameters)``: a small GPEC of the curved model with the default kernel and similar rows."""

    def build(model=curved, explainer=slopes, **parameters):
        small = {"n_boundary": 60, "n_explained": 25, "background": 10, "random_state": 0, "progress": False}
        return gpec.GPEC(model, explainer, **{**small, **parameters})

    return build


@pytest.fixture
def make_exact(make_auto):
    """The same in mode "explain": similar rows are explained."""

    def build(model=curved, explainer=slopes, **parameters):
        return make_auto(model, explainer, **{"mode": "explain", **parameters})

    return build


@pytest.fixture
def make(make_auto):
    """The same with the paper's kernel and without similar rows: a few hundredths of a second to fit."""

    def build(model=curved, explainer=slopes, **parameters):
        return make_auto(model, explainer, **{"kernel": "weg", "similar": None, **parameters})

    return build


@pytest.fixture(scope="session")
def mixed():
    """A DataFrame with text, category, bool and number columns, and a pipeline that was fitted to it."""
    rng = np.random.default_rng(1)
    n = 200
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], n),
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L"], ordered=True),
            "new": rng.random(n) < 0.5,
            "price": rng.normal(10.0, 3.0, n),
            "weight": rng.normal(size=n),
        }
    )
    score = (frame["colour"] == "red") * 1.5 + (frame["size"] == "L") * 1.0 + frame["weight"] + 0.3 * frame["price"]
    target = np.where(score > score.median(), "yes", "no")
    encoder = ColumnTransformer(
        [("text", OneHotEncoder(), ["colour", "size", "new"]), ("numbers", StandardScaler(), ["price", "weight"])]
    )
    return SimpleNamespace(frame=frame, model=make_pipeline(encoder, LogisticRegression()).fit(frame, target))


@pytest.fixture(scope="module")
def driver():
    """A headless browser of 1280 x 900 pixels; see ``browser_helpers``."""
    with browser_helpers.browser() as found:
        yield found


@pytest.fixture
def one_process_environment():
    """Environment for a fresh Python process that finds the same gpec."""
    return {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(gpec.__file__)), "PYTHONHASHSEED": "random"}
