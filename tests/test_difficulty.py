"""Where values are hard to predict: a forest kept as arrays."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from gpec.data import Rows, Schema
from gpec.intervals import normalizer as normalizer
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.models import Model

N, SEED = 200, 3


@pytest.fixture
def rows():
    X = np.random.default_rng(0).normal(size=(N, 3))
    return Rows(X, X, outputs=X[:, :1])


@pytest.fixture
def residual(rows):
    """Large where the first column is positive, for two features and one output."""
    rng = np.random.default_rng(1)
    size = np.where(rows.embedded[:, :1] > 0, 5.0, 0.2)
    return (rng.normal(size=(N, 2)) * size)[:, :, None]


def learned(rows, residual):
    return ResidualNormalizer.learn(rows, residual, np.ones(residual.shape), np.ones(N), SEED)


def test_it_answers_as_the_forest_does(rows, residual, monkeypatch):
    kept = []

    class Spy(RandomForestRegressor):
        def fit(self, *arguments):
            kept.append(self)
            return super().fit(*arguments)

    monkeypatch.setattr(normalizer, "RandomForestRegressor", Spy)
    found = learned(rows, residual)
    Q = np.random.default_rng(5).normal(size=(40, 3))
    theirs = kept[0].predict(np.hstack((Q, Q[:, :1])))
    ours = found.at(Rows(Q, Q, outputs=Q[:, :1]))
    np.testing.assert_allclose(ours[:, :, 0], theirs, rtol=1e-12)
    np.testing.assert_array_equal(found.left_out[:, :, 0], kept[0].oob_prediction_)


def test_hard_places_are_found(rows, residual):
    found = learned(rows, residual)
    size = found.at(rows)[:, 0, 0]
    hard = rows.embedded[:, 0] > 0
    assert size[hard].mean() > 5 * size[~hard].mean()
    scaled = found.scaled(np.ones((N, 2, 1)), found.at(rows))
    expected = np.sqrt(np.sqrt(np.pi / 2) * found.mean * np.maximum(found.at(rows), 0.1))
    np.testing.assert_allclose(scaled, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "answer",
    [
        lambda z: 1e3 + 1e3 * z,
        lambda z: 1e12 + z,
        lambda z: 1e-150 * z,
        lambda z: 1e150 * (z - 1e3),
        lambda z: np.exp(60 * z),
    ],
    ids=["large", "far from 0", "tiny", "huge", "heavy tail"],
)
def test_hard_answers_of_a_regressor_are_found(residual, rows, answer):
    """Nothing but the answer tells where it is hard."""
    hidden, told = rows.embedded, np.zeros((N, 1))
    kind = Model(answer, Schema.learn(hidden)[0], model_output="value").kind
    values = Rows(told, hidden, outputs=answer(hidden[:, :1]), kind=kind)
    found = learned(values, residual)
    size = found.at(values)[:, 0, 0]
    hard = hidden[:, 0] > 0
    assert size[hard].mean() > 5 * size[~hard].mean()
    far = np.array([[-10.0], [10.0]])
    beyond = Rows(told[:2], far, outputs=answer(far), kind=kind)
    np.testing.assert_allclose(found.at(beyond)[:, 0, 0], size[hidden[:, 0].argsort()[[0, -1]]])


def test_it_is_left_out_where_it_serves_no_better(rows):
    even = np.random.default_rng(2).normal(size=(N, 2, 1))
    assert learned(rows, even) is None  # the same everywhere: the forest learns noise


@pytest.mark.parametrize("n", [5, 39])
def test_too_few_rows(rows, residual, n):
    assert ResidualNormalizer.learn(rows[:n], residual[:n], np.ones((n, 2, 1)), np.ones(n), SEED) is None


def test_residuals_of_nothing(rows):
    assert learned(rows, np.zeros((N, 2, 1))) is None


def test_a_constant_feature_keeps_its_deviation(rows, residual):
    both = np.concatenate((residual, np.zeros((N, 1, 1))), axis=1)
    found = learned(rows, both)
    scaled = found.scaled(np.full((N, 3, 1), 0.5), found.at(rows))
    np.testing.assert_array_equal(scaled[:, 2], 0.5)
    assert np.isfinite(scaled).all()


def test_it_is_the_same_each_time_and_of_its_arrays(rows, residual):
    one, two = learned(rows, residual), learned(rows, residual)
    np.testing.assert_array_equal(one.at(rows), two.at(rows))
    again = ResidualNormalizer(**vars(one))
    np.testing.assert_array_equal(again.at(rows), one.at(rows))
