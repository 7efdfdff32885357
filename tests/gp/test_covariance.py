"""The joint covariance of a few rows."""

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, dense, learned, noise_kinds, problem
from sklearn.gaussian_process import GaussianProcessRegressor

from gpec.gp import ExactPosterior, LowRankPosterior, fixed_parameters
from gpec.kernels import RBF

KERNELS = {"alike": RBF(1.0).fit(), "by feature": OwnColumn(0.7).fit()}
# The features of the low-rank posterior leave up to 1e-9 of the kernel unexplained.
ATOL = {ExactPosterior: 1e-10, LowRankPosterior: 1e-7}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("posterior", ATOL)
def test_it_is_the_dense_formula_without_the_nugget(posterior, free_mean, kind, kernel):
    p = problem(1, kernel=kernel)
    U, parameters = noise_kinds(p.U)[kind], learned(3, free_mean)
    found = posterior(p.kernel, p.X, p.Y, U, parameters)
    covariance = found.covariance(p.Q)
    assert covariance.shape == (12, 12, 3)
    np.testing.assert_allclose(covariance, covariance.transpose(1, 0, 2), atol=1e-12)
    nugget = np.eye(12)[:, :, None] * (parameters.scale * parameters.nugget)
    _, expected = dense(p.kernel, p.X, p.Q, p.Y, U, parameters)
    np.testing.assert_allclose(covariance + nugget, expected, atol=ATOL[posterior], rtol=0)
    # and its diagonal is the variance that predict gives
    np.testing.assert_allclose(
        np.einsum("iif->if", covariance + nugget), found.predict(p.Q).variance, atol=1e-10, rtol=0
    )


@pytest.mark.parametrize("posterior", ATOL)
def test_scikit_learn(posterior):
    p = problem(2, d=1)
    ours = posterior(p.kernel, p.X, p.Y, np.full((50, 1), 0.1), fixed_parameters(1.0, 1)).covariance(p.Q)
    theirs = GaussianProcessRegressor(p.kernel, alpha=0.1, optimizer=None).fit(p.X, p.Y[:, 0])
    np.testing.assert_allclose(ours[:, :, 0], theirs.predict(p.Q, return_cov=True)[1], atol=ATOL[posterior], rtol=0)


@pytest.mark.parametrize("kind", ["varying", "constant over rows"])
@pytest.mark.parametrize("posterior", ATOL)
def test_equal_rows_are_fully_correlated(posterior, kind):
    p = problem(3)
    found = posterior(p.kernel, p.X, p.Y, noise_kinds(p.U)[kind], learned(3)).covariance(p.Q[[0, 0, 1]])
    np.testing.assert_allclose(found[0, 0], found[0, 1], atol=1e-10)
    np.testing.assert_allclose(found[0, 2], found[1, 2], atol=1e-10)
    assert (np.abs(found[0, 2]) < found[0, 0]).all()


def test_draws_of_it_have_the_spread_of_differences():
    """What one row's variance cannot say: how well the difference of two rows is known."""
    p = problem(4)
    close = np.vstack((p.Q[0], p.Q[0] + 0.01))
    found = ExactPosterior(p.kernel, p.X, p.Y, p.U, learned(3)).covariance(close)
    difference = found[0, 0] + found[1, 1] - 2 * found[0, 1]
    assert (difference < 1e-3 * found[0, 0]).all()
    assert (difference > 0).all()
