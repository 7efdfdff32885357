"""Walking partners towards their rows."""

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import assert_evidence, draw, judge
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from gpec.boundary import BisectionSampler
from gpec.boundary._walk import walk
from gpec.errors import InputError


def half_space(rows):
    return (np.asarray(rows, dtype=float)[:, 0] > 0.3) * 1.0


@pytest.fixture(scope="module")
def flat():
    """A half space in 20 dimensions, rows of both sides in pairs."""
    rows = np.random.default_rng(0).normal(size=(400, 20))
    return paired(rows)


def paired(rows):
    model = judge(half_space, rows)
    labels = model.labels(rows)
    n = np.bincount(labels).min()
    return model, rows[labels == 0][:n], rows[labels == 1][:n]


def test_partners_keep_another_class_and_come_nearer(flat):
    model, A, B = flat
    label = np.zeros(len(A), dtype=np.int64)
    walked = walk(model, A, B, label, 100, np.random.default_rng(1))
    assert (model.labels(walked) == 1).all()
    before, after = (np.sqrt(((C - A) ** 2).sum(axis=1)) for C in (B, walked))
    assert np.median(after) < 0.5 * np.median(before)
    nearest = np.abs(0.3 - A[:, 0])  # no point beyond the boundary is nearer than this
    assert (after >= nearest).all()
    assert np.median(after) < 2.0 * np.median(nearest)


def test_each_step_costs_one_row_a_pair(flat):
    model, A, B = flat
    before = model.n_rows
    walk(model, A, B, np.zeros(len(A), dtype=np.int64), 30, np.random.default_rng(1))
    assert model.n_rows - before == 30 * len(A)


def test_it_stays_within_the_rows():
    rows = (np.random.default_rng(0).normal(size=(200, 20)) > 0).astype(float)  # at the ends of their range
    model, A, B = paired(rows)
    walked = walk(model, A, B, np.zeros(len(A), dtype=np.int64), 100, np.random.default_rng(1))
    assert walked.min() >= 0
    assert walked.max() <= 1
    assert ((walked > 0) & (walked < 1)).any()


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
