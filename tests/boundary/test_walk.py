"""Walking partners towards their rows."""

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import Recorder, assert_evidence, draw, judge
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from gpec.boundary import BisectionSampler
from gpec.errors import InputError

FLAT = np.random.default_rng(0).normal(size=(400, 20))


def half_space(rows):
    return (np.asarray(rows, dtype=float)[:, 0] > 0.3) * 1.0


def steps(rows, n_walk):
    """What the model is asked when rows are paired, and at each step of the walk ``(n_walk, pairs, d)``."""
    recorder = Recorder(half_space)
    draw(recorder, rows, 50, sampler=BisectionSampler(n_walk=n_walk))
    start = [len(asked) for asked in recorder.shown].index(len(rows))
    return recorder.shown[start], np.stack(recorder.shown[start + 1 : start + 1 + n_walk])


def test_points_come_nearer_to_the_rows_of_a_half_space():
    near, far = (
        np.median(
            cdist(draw(half_space, FLAT, 300, sampler=BisectionSampler("random", n_walk=n)).points, FLAT).min(axis=1)
        )
        for n in (100, 0)
    )
    assert near < 0.5 * far
    assert near < 1.5 * np.median(np.abs(FLAT[:, 0] - 0.3))  # no point of the plane is nearer to a row than this


def test_each_step_costs_one_row_a_pair():
    _, asked = steps(FLAT, 30)
    assert asked.shape == (30, 64, 20)


def test_columns_are_taken_over_first_and_turned_next():
    rows, (once, twice) = steps(FLAT, 2)
    for column in range(20):
        assert np.isin(once[:, column], rows[:, column]).all()
    assert not np.isin(twice, rows).all()


def test_it_stays_within_the_rows():
    ends = (FLAT > 0).astype(float)
    _, asked = steps(ends, 100)
    assert asked.min() >= 0
    assert asked.max() <= 1
    assert ((asked > 0.1) & (asked < 0.9)).any()


def test_points_of_a_forest_come_nearer_to_the_data():
    X, y = load_digits(return_X_y=True)
    model = RandomForestClassifier(10, random_state=0).fit(X[:600], y[:600] < 5)
    scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)

    def median_distance(n_walk, seed):
        points = draw(model, X[:600], 300, sampler=BisectionSampler(n_walk=n_walk), seed=seed).points / scale
        return np.median(cdist(points, X[:600] / scale).min(axis=1))

    assert np.mean([median_distance(100, seed) / median_distance(0, seed) for seed in range(3)]) < 0.95


def test_categories_are_taken_over_never_mixed():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({f"c{j}": rng.choice(["a", "b", "c"], 200) for j in range(6)} | {"x": rng.normal(size=200)})

    def model(rows):
        assert set(np.unique(rows["c0"])) <= {"a", "b", "c"}
        return ((rows["c0"] == "a") & (rows["x"] > 0)).to_numpy() * 1.0

    sample = draw(model, rows, 40, sampler=BisectionSampler(n_walk=40))
    assert set(np.unique(sample.points[:, :6])) <= {0.0, 1.0, 2.0}


def test_only_categories():
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({f"c{j}": rng.choice(["a", "b", "c"], 300) for j in range(5)})

    def model(rows):
        return ((rows["c0"] == "a") ^ (rows["c1"] == "b")).to_numpy() * 1.0

    sample = draw(model, rows, 20, sampler=BisectionSampler(n_walk=20))
    assert len(sample) == 20
    assert_evidence(sample, judge(model, rows))


def test_bad_count():
    with pytest.raises(InputError, match="n_walk=-1 must be at least 0"):
        BisectionSampler(n_walk=-1).sample(half_space, np.zeros((20, 2)), 10)
