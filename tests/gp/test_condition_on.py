"""Conditioning on further rows is starting anew with all of them."""

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, learned, noise_kinds, problem

from gpec.data import Rows
from gpec.gp import ExactPosterior, LowRankPosterior
from gpec.kernels import RBF, WEG

POINTS = np.random.default_rng(0).normal(size=(80, 3))
KERNELS = {
    "RBF": RBF(1.0).fit(),
    "WEG": WEG().fit(POINTS),
    "by feature": OwnColumn(0.7).fit(),
    "composed": (0.5 * WEG() + OwnColumn(0.7)).fit(POINTS),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free_mean", [True, False])
@pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
def test_it_equals_starting_anew(posterior, free_mean, kind, kernel):
    p = problem(1, kernel=kernel)
    U, parameters = noise_kinds(p.U)[kind], learned(3, free_mean)
    anew = posterior(p.kernel, p.X, p.Y, U, parameters)
    found = posterior(p.kernel, p.X[:30], p.Y[:30], U[:30], parameters)
    for rows in (slice(30, 31), slice(31, 50)):  # one row, then several
        found = found.condition_on(p.X[rows], p.Y[rows], U[rows])
    assert type(found) is posterior
    for queries in (p.Q, p.X):
        a, b = anew.predict(queries), found.predict(queries)
        for name in ("mean", "boundary_variance", "noise_variance"):
            np.testing.assert_allclose(getattr(b, name), getattr(a, name), atol=1e-10, rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(found.mean, anew.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance(p.Q), anew.covariance(p.Q), atol=1e-10)
    np.testing.assert_allclose(found.leave_one_out().residual, anew.leave_one_out().residual, atol=1e-9)
    np.testing.assert_array_equal(found.rows.embedded, p.X)
    np.testing.assert_array_equal(found.Y, p.Y)


def test_the_earlier_posterior_stays_as_it_was():
    p = problem(2)
    posterior = ExactPosterior(p.kernel, p.X, p.Y, p.U, learned(3))
    before = posterior.predict(p.Q)
    posterior.condition_on(p.Q, p.Y[:12], p.U[:12])
    after = posterior.predict(p.Q)
    np.testing.assert_array_equal(after.mean, before.mean)
    np.testing.assert_array_equal(after.variance, before.variance)
    assert len(posterior.rows) == 50


@pytest.mark.parametrize("posterior", [ExactPosterior, LowRankPosterior])
def test_a_further_row_makes_its_surroundings_more_certain(posterior):
    p = problem(3)
    p.Q[0] = 4.0  # far from the others
    first = posterior(p.kernel, p.X, p.Y, p.U, learned(3))
    second = first.condition_on(Rows.of(p.Q[:1]), np.full((1, 3), 5.0), np.full((1, 3), 1e-3))
    before, after = first.predict(p.Q), second.predict(p.Q)
    assert (after.variance <= before.variance + 1e-9).all()
    assert (after.variance[0] < 0.5 * before.variance[0]).all()
    assert (np.abs(after.mean[0] - 5.0) < np.abs(before.mean[0] - 5.0)).all()


def test_known_kernel_values_are_not_computed_again():
    """The new rows meet the old ones and each other, once."""
    met = []

    class Watched(RBF):
        def cross_to(self, Y, feature=None):
            inner = super().cross_to(Y, feature)
            return lambda X: met.append((len(X), len(Y))) or inner(X)

    p = problem(4)
    posterior = ExactPosterior(Watched(1.0).fit(), p.X, p.Y, p.U, learned(3))
    assert met == [(50, 50)]
    met.clear()
    posterior.condition_on(p.Q, p.Y[:12], p.U[:12])
    assert sorted(met) == [(12, 12), (12, 50)]


def test_a_low_rank_posterior_keeps_its_settings():
    p = problem(5, lengthscale=0.5)
    settings = {"seed": 3, "tolerance": 1e-3, "max_rank": 20}
    anew = LowRankPosterior(p.kernel, p.X, p.Y, p.U, learned(3), 1e-10, **settings)
    first = LowRankPosterior(p.kernel, p.X[:40], p.Y[:40], p.U[:40], learned(3), 1e-10, **settings)
    found = first.condition_on(p.X[40:], p.Y[40:], p.U[40:])
    assert found.n_pivots == anew.n_pivots == 20
    assert found.residual == anew.residual > 0.1
    np.testing.assert_array_equal(found.predict(p.Q).variance, anew.predict(p.Q).variance)
