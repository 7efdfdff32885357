"""Bisection between rows with categories: they switch one at a time, and are never interpolated."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import (
    EVERY_SAMPLER,
    Recorder,
    assert_distinct,
    assert_evidence,
    census,
    census_model,
    census_score,
    draw,
    judge,
)
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from gpec.boundary import BisectionSampler
from gpec.data import Schema
from gpec.errors import FewBoundaryPointsWarning


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_categories_switch_and_are_never_interpolated(sampler):
    X = census()
    recorder = Recorder(census_model)
    sample = draw(recorder, X, 300, sampler=sampler)
    shown = pd.concat(recorder.shown)
    for name in ("town", "member", "size"):
        assert shown[name].dtype == X[name].dtype
        assert set(shown[name]) == set(X[name]), name  # "M" is declared but never observed
    assert_evidence(sample, judge(census_model, X))
    assert_distinct(sample)

    # at most one category switches across the last bracket, and it is the one that is named
    before, beyond = sample.ends()
    changed = (before != beyond)[:, [0, 2, 3]]
    assert (changed.sum(axis=1) == (sample.switched >= 0)).all()
    np.testing.assert_array_equal(
        np.array([0, 2, 3])[changed.argmax(axis=1)][changed.any(axis=1)], sample.switched[sample.switched >= 0]
    )
    assert set(sample.switched) >= ({-1, 0, 2, 3} if sampler.pairing == "random" else {-1, 0})
    # directions never move a category
    assert not sample.direction[:, [0, 2, 3]].any()
    codes = sample.points[:, [0, 2, 3]]
    np.testing.assert_array_equal(codes, np.rint(codes))

    # closed form: the score vanishes where nothing switches, and changes its sign where something does
    schema = Schema.learn(X)[0]
    low, high = (census_score(schema.decode(end)) for end in (before, beyond))
    assert (low <= 0).all()
    assert (high > 0).all()
    jump = sample.switched >= 0
    np.testing.assert_allclose(low[~jump], 0, atol=1e-5)
    assert np.abs(high[jump] - low[jump]).min() > 0.1


def test_pipeline_with_one_hot_encoder():
    X = census()
    encoder = make_column_transformer((OneHotEncoder(), ["town", "member", "size"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(X, census_score(X) > 0)
    for rows in ("data", "box"):  # the encoder raises if it meets a category it does not know
        sample = draw(pipeline, X, 100, sampler=BisectionSampler(rows=rows))
        assert_evidence(sample, judge(pipeline, X))


def grid_model(n_classes: int):
    def model(X):
        total = sum(X[name].map({"a": 0, "b": 1, "c": 2}).to_numpy() for name in X)
        return (total % 2) * 1.0 if n_classes == 2 else np.eye(n_classes)[total % n_classes]

    return model


@pytest.mark.parametrize("n_classes", [2, 3])
def test_purely_categorical_rows(n_classes):
    # Rows are the corners of a 3 x 3 x 3 grid: the boundary is every edge whose ends differ in class, each once.
    X = pd.DataFrame(list(product("abc", repeat=3)), columns=list("pqr"))
    corners = list(product(range(3), repeat=3))
    edges = {
        (a, b)
        for a in corners
        for b in corners
        if sum(i != j for i, j in zip(a, b, strict=True)) == 1 and sum(a) % n_classes != sum(b) % n_classes
    }
    if n_classes == 2:
        edges = {(a, b) for a, b in edges if sum(a) % 2 == 0}  # seen from class 0
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 54 distinct .*instead of n_boundary=1000"):
        sample = draw(grid_model(n_classes), X, 1000)
    before, beyond = sample.ends()
    found = [(tuple(map(int, a)), tuple(map(int, b))) for a, b in zip(before, beyond, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == edges
    np.testing.assert_array_equal(sample.label, [sum(a) % n_classes for a, _ in found])
    assert not sample.residual.any()
    assert (sample.switched >= 0).all()


def test_pairs_that_differ_in_many_categories():
    # No two of these rows differ in fewer than four columns: a point is found only if they switch one at a time.
    rng = np.random.default_rng(0)
    X = rng.choice([0.0, 1.0], (60, 30))
    differences = (X[:, None] != X[None]).sum(axis=2)
    assert differences[~np.eye(60, dtype=bool)].min() > 3
    spent = []
    for seed in range(3):
        recorder = Recorder(lambda rows: rows.sum(axis=1) % 2 * 1.0)
        sampler = BisectionSampler("random")
        sample = draw(recorder, X, 64, sampler=sampler, seed=seed, categorical_features=list(range(30)))
        before, beyond = sample.ends()
        np.testing.assert_array_equal((before != beyond).sum(axis=1), 1)
        assert (before.sum(axis=1) % 2 == 0).all()
        assert (beyond.sum(axis=1) % 2 == 1).all()
        assert len(np.unique(sample.switched)) > 15
        spent.append(recorder.n_rows)
    # Some log2(4 * 20) steps and 4 rows to check: no pair is lost and nothing is taken for a sliver.
    # A point found twice costs a second round.
    assert min(spent) <= 60 + 64 * 12


def test_categories_of_an_array():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=300), rng.normal(size=300), rng.choice([10.0, 20.0, 70.0], 300)))
    recorder = Recorder(lambda rows: expit(rows[:, 0] + rows[:, 1] - (rows[:, 2] - 30) / 20))
    sample = draw(recorder, X, 100, categorical_features=[2])
    assert set(np.concatenate(recorder.shown)[:, 2]) == {10.0, 20.0, 70.0}
    assert (sample.switched == 2).any()
