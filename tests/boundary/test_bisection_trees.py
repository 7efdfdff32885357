"""Bisection of forests, whose probabilities jump: each point keeps its evidence."""

import numpy as np
import pytest
from boundary_helpers import EVERY_SAMPLER, TOLERANCE, Recorder, assert_distinct, assert_evidence, draw, gauss, judge
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from gpec.boundary import BisectionSampler


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
@pytest.mark.parametrize("whole", [False, True], ids=["floats", "whole numbers"])
def test_forest(sampler, whole):
    X = 4 * gauss(800, 4)
    X = np.rint(X) if whole else X
    y = X[:, 0] * X[:, 1] + 4 * X[:, 2] > 0
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    sample = draw(forest, X, 300, sampler=sampler)
    assert len(sample) == 300
    assert_evidence(sample, judge(forest, X))
    assert_distinct(sample)


@pytest.mark.parametrize("pairing", ["nearest", "random"])
def test_gradient_boosted_trees_cost_at_most_45_rows_a_point(pairing):
    xgboost = pytest.importorskip("xgboost")
    X = gauss(3000, 6)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * gauss(3000, 1, seed=1)[:, 0] > 0).astype(int)
    trees = xgboost.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1, random_state=0).fit(X, y)
    recorder = Recorder(trees.predict_proba)
    sample = draw(recorder, X, 1000, sampler=BisectionSampler(pairing))
    assert len(sample) == 1000
    assert recorder.n_rows <= 45 * 1000
    assert_evidence(sample, judge(trees, X))
    assert_distinct(sample)


def test_single_tree_on_its_own_thresholds():
    # every threshold of the tree is a value of the data, and rows sit on it
    X = np.random.default_rng(0).integers(0, 8, (400, 3)).astype(float)
    tree = DecisionTreeClassifier(random_state=0).fit(X, X.sum(axis=1) % 2)
    sample = draw(lambda rows: tree.predict_proba(np.ceil(rows)), X, 150)
    # rows of the least value cannot leave their threshold without leaving the data: rounding doubles some brackets
    assert_evidence(sample, judge(lambda rows: tree.predict_proba(np.ceil(rows)), X), tolerance=2 * TOLERANCE)


def test_multiclass_forest():
    X = gauss(600, 3)
    forest = RandomForestClassifier(15, random_state=0).fit(X, X.argmax(axis=1))
    sample = draw(forest, X, 100)
    assert_evidence(sample, judge(forest, X))
    assert_distinct(sample)
    assert (np.bincount(sample.label) >= 100).all()
