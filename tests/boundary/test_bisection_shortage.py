"""Fewer boundary points than asked for: what is said, what is refused, and that the search does not give up early."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import assert_distinct, draw, few_rows, gauss, plane, three_sectors
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from gpec.boundary import BisectionSampler
from gpec.errors import BoundaryNotFoundError, FewBoundaryPointsWarning


def test_fewer_points_than_asked_for():
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 28 distinct .* instead of n_boundary=1000, because"):
        sample = draw(plane, few_rows(4, 7), 1000)
    assert len(sample) == 28  # every pair
    assert_distinct(sample)


def test_ten_points_are_the_least():
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 10 distinct"):
        assert len(draw(plane, few_rows(5, 2), 11)) == 10
    with pytest.raises(BoundaryNotFoundError, match=r"^Only 9 distinct boundary points were found, but at least 10"):
        draw(plane, few_rows(3, 3), 10)


def test_the_same_point_twice_is_one_point():
    # all pairs cross the boundary at x0 = 0 and nearly the same x1
    X = np.column_stack((np.linspace(-1, 1, 60), np.full(60, 2.0)))
    X[0, 1] = 2.0 + 1e-9
    with pytest.raises(BoundaryNotFoundError, match="distinct boundary points"):
        draw(lambda rows: expit(rows[:, 0]), X, standardize=False)


def test_repeated_rows_do_not_count_again():
    X = few_rows(4, 7)
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 28 distinct"):
        sample = draw(plane, np.repeat(X, 30, axis=0), 1000)
    assert sample.n_model_rows < 28 * 60


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_predicted_class(value):
    message = rf"^The model predicts class {int(value)} for all 300 rows tried, .* change threshold"
    with pytest.raises(BoundaryNotFoundError, match=message):
        draw(lambda X: np.full(len(X), value), gauss())


def test_one_predicted_class_by_its_name():
    X = gauss()
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "good", "bad"))
    with pytest.raises(BoundaryNotFoundError, match=r"^The model predicts class 'good' for all"):
        draw(classifier, np.abs(X) + 20.0 * np.eye(3)[0])


def test_class_that_is_never_predicted():
    def model(X):
        return np.column_stack((three_sectors(X) * 0.9, np.full(len(X), 0.1)))

    with pytest.raises(BoundaryNotFoundError, match=r"^The model never predicts class 3 for the 300 rows tried"):
        draw(model, gauss())


def test_shortage_of_one_class_names_it():
    X = np.concatenate((gauss(150, 2) * 0.3 + [3.0, 0.0], gauss(150, 2, 1) * 0.3 - [3.0, 0.0], [[0.0, 30.0]]))

    def model(rows):
        return softmax(np.column_stack((rows[:, 0], -rows[:, 0], rows[:, 1] - 15)), axis=1)

    sample = draw(model, X, 40)
    assert np.bincount(sample.label).min() >= 40
    with pytest.warns(FewBoundaryPointsWarning, match=r"boundary points for class 2 instead of n_boundary=500"):
        sample = draw(model, X, 500)
    assert 290 <= len(sample.of(2)) <= 300  # one row of class 2, paired with every other


def test_points_that_come_often_do_not_end_the_search():
    # each of some 1,600 pairs crosses at one of 216 switches: most find a point again
    X = pd.DataFrame(list(product("abc", "abc", "abc", "abc")), columns=list("pqrs"))

    def parity(rows):
        return sum(rows[name].map(ord).to_numpy() for name in rows) % 2 * 1.0

    n_edges = 81 * 4 * 2 // 2 * 2 // 3  # of three switches of a column, two change the parity
    for n in (n_edges - 1, n_edges // 2):
        assert len(draw(parity, X, n, sampler=BisectionSampler("random"))) == n


def test_rare_points_are_waited_for():
    # the boundary is x = 0 in each of 41 categories, of which 40 have a single row
    X = np.column_stack((np.linspace(-1, 1, 1600), np.zeros(1600)))
    X[540:580, 1] = np.arange(1, 41)
    for seed in range(5):
        sample = draw(
            lambda rows: (rows[:, 0] > 0) * 1.0,
            X,
            38,
            sampler=BisectionSampler("random"),
            seed=seed,
            categorical_features=[1],
        )
        assert len(sample) == 38
