"""Models, rows and checks that the tests of the boundary share."""

from dataclasses import fields
from itertools import product

import numpy as np
import pandas as pd
from scipy.special import expit, softmax

import gpec
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.data import Schema
from gpec.models import Model

TOLERANCE = 1e-6
W = np.array([2.0, -1.0, 0.5])
EVERY_SAMPLER = [BisectionSampler(pairing, rows) for pairing, rows in product(("nearest", "random"), ("data", "box"))]


def gauss(n: int = 300, d: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, d))


def few_rows(n_negative: int, n_positive: int, d: int = 3):
    X = gauss(400, d)
    side = plane(X) > 0.5
    return np.concatenate((X[~side][:n_negative], X[side][:n_positive]))


def plane(X):
    return expit(X @ W[: X.shape[1]] + 0.3)


def circle(X):
    return expit(4 - 4 * (X**2).sum(axis=1))


def three_sectors(X):
    angles = 2 * np.pi * np.arange(3) / 3
    return softmax(3 * X[:, :2] @ np.array([np.cos(angles), np.sin(angles)]), axis=1)


def census(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "town": rng.choice(["Lima", "Oslo", "Rome"], n),
            "age": rng.normal(40, 10, n),
            "member": rng.random(n) > 0.4,
            "size": pd.Categorical(rng.choice(["S", "L"], n), categories=["S", "M", "L"]),
            "pay": rng.normal(size=n),
        }
    )


def census_score(X) -> np.ndarray:
    town = X["town"].map({"Lima": -1.0, "Oslo": 0.2, "Rome": 1.0}).to_numpy()
    size = (X["size"].astype(str) == "L").to_numpy() * 1.0
    age, member, pay = ((X[name].to_numpy() * 1.0) for name in ("age", "member", "pay"))
    return (age - 40) / 10 + town * (2 * member - 1) + 0.7 * size + 0.5 * pay


def census_model(X) -> np.ndarray:
    return expit(census_score(X))


class Recorder:
    """A model that keeps every row it was shown."""

    def __init__(self, model):
        self.model, self.shown = model, []

    def __call__(self, X):
        self.shown.append(X.copy())
        return self.model(X)

    @property
    def n_rows(self) -> int:
        return sum(len(rows) for rows in self.shown)


def draw(model, X, n=100, *, sampler=None, seed=0, **options) -> BoundarySample:
    sampler = BisectionSampler() if sampler is None else sampler
    return sampler.sample(model, X, n, random_state=seed, progress=False, **options)


def fitted_boundary(boundary, model, X, **parameters) -> BoundarySample:
    """The boundary of a fit that is given this one."""
    small = {"n_boundary": 20, "n_explained": 12, "background": 5, "random_state": 0, "progress": False}
    explainer = lambda rows: np.zeros(rows.shape)  # noqa: E731
    return gpec.GPEC(model, explainer, boundary=boundary, **{**small, **parameters}).fit(X).boundary_


def judge(model, X, **options) -> Model:
    """The model again, for looking at the points."""
    schema, Z = Schema.learn(X)
    checked = Model(model, schema, **options)
    checked.labels(Z[:20])
    return checked


def length(schema: Schema, A, B):
    numbers = schema.continuous
    return np.linalg.norm(np.nan_to_num((A - B)[:, numbers] / schema.scale[numbers]), axis=1)


def assert_evidence(sample: BoundarySample, model: Model, *, tolerance: float = TOLERANCE) -> None:
    """What every point promises: the class ``label`` just before it, another one just beyond, a short bracket."""
    before, beyond = sample.ends()
    np.testing.assert_array_equal(model.labels(before), sample.label)
    assert (model.labels(beyond) != sample.label).all()
    # the ends are computed again from the middle of the bracket
    assert (length(model.schema, before, beyond) <= tolerance * (1 + 1e-6)).all()
    assert (2 * sample.residual <= tolerance).all()
    # across a step of 1e-4 standardised units, too
    step = 0.5e-4 * sample.direction
    low, high = sample.points - step, sample.points + step
    jumps = np.flatnonzero(sample.switched >= 0)
    high[jumps, sample.switched[jumps]] = sample.switched_to[jumps]
    assert (model.labels(low) != model.labels(high)).all()


def assert_distinct(sample: BoundarySample) -> None:
    for label in np.unique(sample.label):
        own = sample.of(label)
        keys = np.column_stack((own.points, own.switched, own.switched_to))
        assert not pd.DataFrame(keys).duplicated().any()  # a missing value equals a missing value


def assert_same_bits(a: BoundarySample, b: BoundarySample) -> None:
    for field in fields(BoundarySample):
        one, two = np.asarray(getattr(a, field.name)), np.asarray(getattr(b, field.name))
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes(), field.name
