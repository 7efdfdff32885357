"""Leave-one-out residuals are those of leaving each row out."""

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, learned, noise_kinds, problem

from gpec.gp import ExactPosterior, LowRankPosterior, fixed_parameters
from gpec.kernels import RBF

KERNELS = {"alike": RBF(1.0).fit(), "by feature": OwnColumn(0.7).fit()}
# The features of the low-rank posterior leave up to 1e-9 of the kernel unexplained.
TOLERANCE = {ExactPosterior: 1e-9, LowRankPosterior: 1e-6}


def leave_each_out(posterior, kernel, X, Y, U, parameters):
    """Residuals and their variance by starting anew without each row in turn."""
    residual, variance = np.empty_like(Y), np.empty_like(Y)
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        prediction = posterior(kernel, X[others], Y[others], U[others], parameters).predict(X[[i]])
        residual[i] = Y[i] - prediction.mean[0]
        variance[i] = prediction.variance[0] + U[i]
    return residual, variance


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("posterior", TOLERANCE)
def test_it_is_what_the_other_rows_say(posterior, free_mean, kind, kernel):
    p = problem(1, N=30, kernel=kernel)
    U, parameters = noise_kinds(p.U)[kind], learned(3, free_mean)
    found = posterior(p.kernel, p.X, p.Y, U, parameters).leave_one_out()
    residual, variance = leave_each_out(posterior, p.kernel, p.X, p.Y, U, parameters)
    np.testing.assert_allclose(found.residual, residual, atol=TOLERANCE[posterior] * np.abs(p.Y).max(), rtol=0)
    np.testing.assert_allclose(found.variance, variance, rtol=TOLERANCE[posterior])


@pytest.mark.parametrize("posterior", TOLERANCE)
def test_the_papers_parameters(posterior):
    p = problem(2, N=30)
    U = np.full_like(p.U, 0.01)
    found = posterior(p.kernel, p.X, p.Y, U, fixed_parameters(2.0, 3)).leave_one_out()
    residual, variance = leave_each_out(ExactPosterior, p.kernel, p.X, p.Y, U, fixed_parameters(2.0, 3))
    np.testing.assert_allclose(found.residual, residual, atol=1e-5 * np.abs(p.Y).max(), rtol=0)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-5)


@pytest.mark.parametrize("posterior", TOLERANCE)
def test_residuals_of_the_stated_process_have_the_stated_variance(posterior):
    rng = np.random.default_rng(4)
    X, kernel, draws = rng.normal(size=(60, 2)), RBF(1.0).fit(), 400
    u = rng.uniform(0.05, 0.5, size=(60, 1))
    parameters = learned(draws)
    parameters.scale[:], parameters.nugget[:] = 2.0, 0.1
    root = np.linalg.cholesky(2.0 * (kernel.gram(X) + 0.1 * np.eye(60)) + np.diag(u[:, 0]))
    Y = root @ rng.normal(size=(60, draws)) + 5.0
    found = posterior(kernel, X, Y, np.repeat(u, draws, axis=1), parameters).leave_one_out()
    squared = (found.residual**2 / found.variance).mean(axis=1)
    assert np.abs(squared - 1.0).max() < 5 * np.sqrt(2 / draws)
