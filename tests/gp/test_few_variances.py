"""Beyond 1,000 rows of a kernel by feature, variances come from 500 of them."""

import numpy as np
import pytest

from gpec.data.rows import evenly_spaced
from gpec.gp import ExactPosterior, Parameters, posterior
from gpec.kernels import Matern, Own, Rest

RNG = np.random.default_rng(0)
X, Q = RNG.normal(size=(300, 4)), RNG.normal(size=(50, 4))
Y = np.sin(X) @ RNG.normal(size=(4, 3))
KERNEL = Matern(Own(1.0), Rest(3.0)).fit(None, X)
PARAMETERS = Parameters(np.array([1.0, 4.0, 0.5]), np.full(3, 1e-2), True)


@pytest.fixture(params=[0.0, 1e-3, "varying"], ids=str)
def both(request, monkeypatch):
    """The posterior with all variances from all rows, and from 90 of 300."""
    U = RNG.uniform(1e-3, 1e-2, Y.shape) if request.param == "varying" else np.full(Y.shape, request.param)
    whole = ExactPosterior(KERNEL, X, Y, U, PARAMETERS)
    monkeypatch.setattr(posterior, "_EXACT_VARIANCES", 100)
    monkeypatch.setattr(posterior, "_VARIANCE_ROWS", 90)
    few = ExactPosterior(KERNEL, X, Y, U, PARAMETERS)
    some = evenly_spaced(300, 90)
    return whole, few, ExactPosterior(KERNEL, X[some], Y[some], U[some], PARAMETERS)


def test_the_mean_is_that_of_all_rows_and_the_variance_that_of_few(both):
    whole, few, alone = (found.predict(Q) for found in both)
    np.testing.assert_array_equal(few.mean, whole.mean)
    np.testing.assert_allclose(few.variance, alone.variance, rtol=1e-9)
    assert (few.variance >= whole.variance).all()


def test_what_joins_rows_is_exact(both):
    whole, few, _ = both
    np.testing.assert_allclose(few.covariance(Q[:5]), whole.covariance(Q[:5]), rtol=1e-12, atol=1e-15)


def test_left_out_residuals_are_those_of_all_rows_with_variances_of_few(both):
    whole, few, alone = (found.leave_one_out() for found in both)
    np.testing.assert_allclose(few.residual, whole.residual, rtol=1e-9, atol=1e-12)
    some = evenly_spaced(300, 90)
    np.testing.assert_allclose(few.variance[some], alone.variance, rtol=1e-9)
    rest = np.setdiff1d(np.arange(300), some)
    predicted = both[2].predict(X[rest]).variance + both[0].U[rest]
    np.testing.assert_allclose(few.variance[rest], predicted, rtol=1e-8)
