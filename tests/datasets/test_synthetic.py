"""Models whose boundary is known in closed form."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from gpec.boundary import BisectionSampler
from gpec.datasets import absolute_boundary, cosine_boundary, linear_boundary
from gpec.errors import InputError

SETS = {"cosine": cosine_boundary, "linear": linear_boundary, "absolute": absolute_boundary}
X1 = np.array([-9.0, -3.3, -0.4, -1e-3, 1e-3, 0.2, 1.0, 5.0, 10.0])


@pytest.fixture(params=SETS)
def data(request):
    return SETS[request.param]()


def test_points_of_the_boundary_have_even_odds(data):
    points = data.model.boundary(X1)
    assert np.array_equal(points[:, 0], X1)
    assert np.array_equal(data.model.predict_proba(points), np.full((len(X1), 2), 0.5))


def test_the_class_changes_across_the_boundary(data):
    points = data.model.boundary(X1)
    assert data.model.predict(points + np.array([0, 1e-9])).all()
    assert not data.model.predict(points - np.array([0, 1e-9])).any()
    assert not data.model.predict(points).any()  # a tie goes to the first class, as in scikit-learn


@pytest.mark.parametrize("sharpness", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("name", SETS)
def test_the_gradient_is_that_of_the_probability(name, sharpness):
    model = SETS[name](sharpness=sharpness).model
    rows = np.random.default_rng(0).uniform(-3, 3, size=(50, 2))
    rows = rows[np.abs(rows[:, 0]) > 0.5]
    numeric = [approx_fprime(row, lambda x: model.predict_proba(x[None])[0, 1], 1e-7) for row in rows]
    np.testing.assert_allclose(model.gradient(rows), numeric, rtol=2e-5, atol=1e-6)


def test_the_papers_curve():
    model = cosine_boundary().model
    np.testing.assert_allclose(model.curve([1.0, -2.0]), [2 * np.cos(10.0), 2 * np.cos(5.0)])
    edge = 20 / ((5e6 + 1) * np.pi)
    assert np.array_equal(model.curve([0.0, 0.99 * edge, -0.99 * edge]), [0.0, 0.0, 0.0])
    assert abs(model.curve([1.01 * edge])[0]) > 0.1
    assert abs(model.curve([edge])[0]) < 1e-5  # it joins without a jump
    assert np.isfinite(model.gradient([[0.0, 0.0], [edge, 0.0], [1e-6, 0.0]])).all()


def test_other_curves():
    np.testing.assert_array_equal(linear_boundary().model.boundary([-2.0, 3.0]), [[-2.0, -2.0], [3.0, 3.0]])
    np.testing.assert_array_equal(absolute_boundary().model.boundary([-2.0, 3.0]), [[-2.0, 2.0], [3.0, 3.0]])


def test_rows_fill_the_square_and_the_seed_decides(data):
    assert data.X.shape == (1_000, 2)
    assert data.X.abs().to_numpy().max() <= 10
    assert data.X.abs().to_numpy().max() > 9.9
    assert np.array_equal(data.y, data.model.predict(data.X))
    assert 0.2 < data.y.mean() < 0.8
    again = SETS[data.name.removesuffix("_boundary")]
    assert again().X.equals(data.X)
    assert not again(random_state=1).X.equals(data.X)
    assert len(again(50).X) == 50
    assert len(data.test) == pytest.approx(200, abs=1)


def test_sampled_boundary_points_lie_on_the_curve():
    data = absolute_boundary(400)
    sample = BisectionSampler().sample(data.model, data.X, 100, random_state=0, progress=False)
    gap = np.abs(sample.points[:, 1] - np.abs(sample.points[:, 0]))
    assert gap.max() < 1e-4


def test_wrong_calls(data):
    with pytest.raises(InputError, match=r"X must have shape \(rows, 2\), got \(3, 3\)"):
        data.model.predict_proba(np.zeros((3, 3)))
    with pytest.raises(InputError, match="x1 has nan"):
        data.model.boundary([np.nan])
    with pytest.raises(InputError, match="sharpness=0 must be"):
        linear_boundary(sharpness=0)
    with pytest.raises(InputError, match="n_samples=1 must be at least 2"):
        linear_boundary(1)


def test_repr_and_length(data):
    assert repr(data) == f"<{data.name}: X 1,000 x 2, 2 classes, {len(data.train)} to train>"
    assert len(data) == 1_000
    assert data.X_train.equals(data.X.iloc[data.train])
    assert data.X_test.equals(data.X.iloc[data.test])
    assert len(data.y_train) + len(data.y_test) == 1_000
