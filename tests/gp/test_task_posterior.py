"""Dependent features: the posterior against the dense formula, by each of its algebras."""

import pickle

import numpy as np
import pytest
from gp_helpers import KINDS, OwnColumn, learned, noise_kinds, problem

import gpec.gp.tasks
from extras import mpmath
from gpec.errors import InputError
from gpec.gp import ExactPosterior, Parameters
from gpec.gp.tasks import TaskPosterior, Tasks
from gpec.kernels import RBF, WEG

SOME = ["varying", "constant over rows", "some rows without"]
MATRICES = {
    "all linked": np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]]),
    "singular": np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]),
    "one apart": np.array([[1.0, 0.0, 0.7], [0.0, 1.0, 0.0], [0.7, 0.0, 1.0]]),
    "independent": np.eye(3),
}


def tasks(T, weight=1.0):
    return Tasks(T, weight, 0.0, 0.0)


def dense(kernel, X, Q, Y, U, parameters, T):
    """Mean ``(n, d)`` and joint latent covariance ``(n, d, n, d)`` from the whole ``N d`` by ``N d`` matrix."""
    (N, d), n = Y.shape, len(Q)
    root = np.sqrt(parameters.scale)
    S = T * np.outer(root, root)
    nugget = parameters.scale * parameters.nugget
    A = np.kron(S, kernel.gram(X)) + np.diag((nugget + U).T.ravel())
    c = np.kron(S, kernel.cross(Q, X))
    M, m = np.kron(np.eye(d), np.ones((N, 1))), np.zeros(d)
    covariance = np.kron(S, kernel.gram(Q)) + np.kron(np.diag(nugget), np.eye(n)) - c @ np.linalg.solve(A, c.T)
    if parameters.free_mean:
        precision = M.T @ np.linalg.solve(A, M)
        m = np.linalg.solve(precision, M.T @ np.linalg.solve(A, Y.T.ravel()))
        gap = np.kron(np.eye(d), np.ones((n, 1))) - c @ np.linalg.solve(A, M)
        covariance += gap @ np.linalg.solve(precision, gap.T)
    mean = np.repeat(m, n) + c @ np.linalg.solve(A, Y.T.ravel() - M @ m)
    return mean.reshape(d, n).T, covariance.reshape(d, n, d, n).transpose(1, 0, 3, 2)


def make(p, U, parameters, T):
    return TaskPosterior(p.kernel, p.X, p.Y, U, parameters, tasks=tasks(T))


class TestDenseFormula:
    @pytest.mark.parametrize("T", MATRICES.values(), ids=MATRICES)
    @pytest.mark.parametrize("kind", [*SOME, "none"])
    @pytest.mark.parametrize("free_mean", [True, False])
    def test_all_it_says(self, free_mean, kind, T):
        p = problem()
        U = np.zeros_like(p.U) if kind == "none" else noise_kinds(p.U)[kind]
        parameters = learned(3, free_mean)
        posterior = make(p, U, parameters, T)
        assert posterior.condition <= 1e5
        mean, covariance = dense(p.kernel, p.X, p.Q, p.Y, U, parameters, T)
        _, boundary = dense(p.kernel, p.X, p.Q, p.Y, np.zeros_like(U), parameters, T)
        root = np.sqrt(parameters.scale)
        found = posterior.predict(p.Q)
        np.testing.assert_allclose(found.mean, mean, atol=1e-9 * np.abs(p.Y).max(), rtol=0)
        variance, without = np.einsum("ifif->if", covariance), np.einsum("ifif->if", boundary)
        np.testing.assert_allclose(found.variance / root**2, variance / root**2, atol=1e-10, rtol=0)
        np.testing.assert_allclose(found.model_variance / root**2, without / root**2, atol=1e-10, rtol=0)
        assert (found.noise_variance >= 0).all()
        assert found.n_clamped == 0
        nugget = np.diag(parameters.scale * parameters.nugget)
        rows = posterior.covariance(p.Q) + np.eye(12)[:, :, None] * np.diag(nugget)
        np.testing.assert_allclose(rows / root**2, np.einsum("ifjf->ijf", covariance) / root**2, atol=1e-10, rtol=0)

    @pytest.mark.parametrize("noisy", [True, False])
    @pytest.mark.parametrize("kind", ["varying", "constant over rows"])
    def test_pairs_of_similar_rows(self, kind, noisy):
        p = problem(6)
        U, parameters, T = noise_kinds(p.U)[kind], learned(3), MATRICES["all linked"]
        found = make(p, U, parameters, T).pairs(p.Q[:3], p.Q[3:9])[0 if noisy else 1]
        seen = U if noisy else np.zeros_like(U)
        mean, covariance = dense(p.kernel, p.X, p.Q, p.Y, seen, parameters, T)
        mean, _ = dense(p.kernel, p.X, p.Q, p.Y, U, parameters, T)
        nugget = parameters.scale * parameters.nugget
        np.testing.assert_allclose(found.similar_mean.reshape(6, 3), mean[3:9], atol=1e-9 * np.abs(p.Y).max())
        np.testing.assert_allclose(found.variance, np.einsum("ifif->if", covariance)[:3] - nugget, atol=1e-9)
        for row in range(3):
            for similar in range(2):
                expected = np.diag(covariance[row, :, 3 + 2 * row + similar])
                np.testing.assert_allclose(found.covariance[row, similar], expected, atol=1e-9)

    @pytest.mark.parametrize("kind", ["varying", "constant over rows"])
    def test_features_of_very_different_size(self, kind):
        """Units of a feature must not matter, to the others either."""
        p = problem(7)
        U, parameters, T = noise_kinds(p.U)[kind], learned(3), MATRICES["all linked"]
        unit = np.array([1e-60, 1.0, 1e60])
        plain = make(p, U, parameters, T).predict(p.Q)
        scaled = Parameters(parameters.scale * unit**2, parameters.nugget, free_mean=True)
        found = TaskPosterior(p.kernel, p.X, p.Y * unit, U * unit**2, scaled, tasks=tasks(T)).predict(p.Q)
        np.testing.assert_allclose(found.mean / unit, plain.mean, rtol=1e-8)
        np.testing.assert_allclose(found.variance / unit**2, plain.variance, rtol=1e-8)

    @pytest.mark.parametrize("varying", [True, False])
    def test_ill_conditioned_matrices_against_50_digits(self, varying):
        p = problem(2, N=12, n=3, d=2, lengthscale=6.0)
        U = p.U * (1e-3 if varying else 0.0)
        parameters = Parameters(np.ones(2), np.array([1e-6, 1e-3]), free_mean=True)
        T = np.array([[1.0, 0.9], [0.9, 1.0]])
        posterior = make(p, U, parameters, T)
        assert posterior.condition > 1e5
        found = posterior.predict(p.Q)
        with mpmath.workdps(50):
            A = mpmath.matrix(np.kron(T, p.kernel.gram(p.X)).tolist())
            for f in range(2):
                for i in range(12):
                    A[12 * f + i, 12 * f + i] = mpmath.mpf(1) + mpmath.mpf(float(parameters.nugget[f]))
                    A[12 * f + i, 12 * f + i] += mpmath.mpf(float(U[i, f])) + mpmath.mpf(1e-12)
            M = mpmath.matrix(np.kron(np.eye(2), np.ones((12, 1))).tolist())
            solved = mpmath.lu_solve(A, M[:, 0]), mpmath.lu_solve(A, M[:, 1])
            precision = mpmath.matrix([[(M[:, a].T * solved[b])[0] for b in range(2)] for a in range(2)])
            for i, k in enumerate(p.kernel.cross(p.Q, p.X)):
                for f in range(2):
                    c = mpmath.matrix(np.kron(T[f], k).tolist())
                    gap = mpmath.matrix([(f == a) - (c.T * solved[a])[0] for a in range(2)])
                    expected = 1 + mpmath.mpf(float(parameters.nugget[f])) - (c.T * mpmath.lu_solve(A, c))[0]
                    expected += (gap.T * mpmath.lu_solve(precision, gap))[0]
                    assert abs(float(found.variance[i, f] - expected)) <= posterior.condition * 1e-15

    def test_noise_beyond_all_measure_silences_a_feature(self):
        """One that is drowned in noise tells nothing of the others, which must stay what they are."""
        p = problem(8, d=2)
        U = np.broadcast_to([0.1, 1e80], (50, 2)).copy()
        T = np.array([[1.0, 0.9], [0.9, 1.0]])
        found = TaskPosterior(p.kernel, p.X, p.Y, U, learned(2), tasks=tasks(T)).predict(p.Q)
        alone = ExactPosterior(p.kernel, p.X, p.Y, U, learned(2)).predict(p.Q)
        np.testing.assert_allclose(found.variance[:, 0], alone.variance[:, 0], rtol=1e-8)
        np.testing.assert_allclose(found.mean[:, 0], alone.mean[:, 0], rtol=1e-8)
        assert np.isfinite(found.variance).all()


def test_leaving_out_rows_of_a_silenced_feature():
    p = problem(17, N=20, d=2)
    U = p.U * [1.0, 1e60]
    T = np.array([[1.0, 0.9], [0.9, 1.0]])
    found = TaskPosterior(p.kernel, p.X, p.Y, U, learned(2), tasks=tasks(T)).leave_one_out()
    alone = ExactPosterior(p.kernel, p.X, p.Y, U, learned(2)).leave_one_out()
    np.testing.assert_allclose(found.residual[:, 0], alone.residual[:, 0], rtol=1e-6)
    np.testing.assert_allclose(found.variance, alone.variance, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_independent_features_are_the_exact_posterior(kind):
    p = problem(1)
    U, parameters = noise_kinds(p.U)[kind], learned(3)
    ours = TaskPosterior(p.kernel, p.X, p.Y, U, parameters, tasks=tasks(MATRICES["all linked"], weight=0.0))
    exact = ExactPosterior(p.kernel, p.X, p.Y, U, parameters)
    a, b = ours.predict(p.Q), exact.predict(p.Q)
    for name in ("mean", "model_variance", "noise_variance"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(ours.mean, exact.mean)
    np.testing.assert_array_equal(ours.leave_one_out().residual, exact.leave_one_out().residual)
    # and so it is where the algebra of dependent features does it
    all_but_independent = np.eye(3) + 1e-14 * (1 - np.eye(3))
    found = TaskPosterior(p.kernel, p.X, p.Y, U, parameters, tasks=tasks(all_but_independent)).predict(p.X[:5])
    expected = exact.predict(p.X[:5])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-8)


@pytest.mark.parametrize("T", [MATRICES["singular"], MATRICES["one apart"]])
@pytest.mark.parametrize("kind", SOME)
@pytest.mark.parametrize("free_mean", [True, False])
def test_leaving_a_row_out_is_starting_without_it(free_mean, kind, T):
    p = problem(1, N=20)
    U, parameters = noise_kinds(p.U)[kind], learned(3, free_mean)
    found = make(p, U, parameters, T).leave_one_out()
    for i in range(20):
        others = np.arange(20) != i
        mean, covariance = dense(p.kernel, p.X[others], p.X[[i]], p.Y[others], U[others], parameters, T)
        np.testing.assert_allclose(found.residual[i], p.Y[i] - mean[0], atol=1e-8 * np.abs(p.Y).max(), rtol=0)
        np.testing.assert_allclose(found.variance[i], np.diag(covariance[0, :, 0]) + U[i], rtol=1e-8)


@pytest.mark.parametrize("kind", ["varying", "constant over rows"])
def test_attributions_that_do_not_vary_stay_out_of_it(kind):
    p = problem(3)
    p.Y[:, 1] = 0.25
    U, parameters = noise_kinds(p.U)[kind], learned(3)
    parameters.scale[1] = 0.0
    T = MATRICES["all linked"]
    found = make(p, U, parameters, T)
    others = np.array([0, 2])
    expected = TaskPosterior(
        p.kernel, p.X, p.Y[:, others], U[:, others], parameters.of(others), tasks=tasks(T[np.ix_(others, others)])
    )
    exact = ExactPosterior(p.kernel, p.X, p.Y, U, parameters)
    a, b, c = found.predict(p.Q), expected.predict(p.Q), exact.predict(p.Q)
    np.testing.assert_allclose(a.variance[:, others], b.variance, rtol=1e-10)
    np.testing.assert_allclose(a.mean[:, others], b.mean, rtol=1e-10)
    np.testing.assert_allclose(a.mean[:, 1], 0.25, rtol=1e-12)
    np.testing.assert_allclose(a.variance[:, 1], c.variance[:, 1], rtol=1e-12)
    left, right = found.leave_one_out(), exact.leave_one_out()
    np.testing.assert_allclose(left.variance[:, 1], right.variance[:, 1])


def test_a_noisy_feature_makes_its_sure_neighbour_less_certain():
    p = problem(4, d=2)
    U = np.column_stack((np.zeros(50), np.full(50, 2.0)))
    T = np.array([[1.0, 0.9], [0.9, 1.0]])
    parameters = Parameters(np.ones(2), np.array([0.5, 0.01]), free_mean=True)
    found = TaskPosterior(p.kernel, p.X, p.Y, U, parameters, tasks=tasks(T)).predict(p.Q)
    assert (found.noise_variance > 0).all()


def test_a_dependent_feature_lends_its_rows():
    """Where one of two alike features is drowned in noise, the other one tells what it is."""
    p = problem(5, d=2)
    U = np.column_stack((np.full(50, 1e-4), np.full(50, 50.0)))
    parameters = Parameters(np.ones(2), np.full(2, 1e-3), free_mean=False)
    posteriors = [
        TaskPosterior(p.kernel, p.X, p.Y, U, parameters, tasks=tasks(np.array([[1.0, r], [r, 1.0]])))
        for r in (0.0, 0.7, 0.99)
    ]
    variances = [np.diagonal(posterior.covariance(p.X[:5]))[1] for posterior in posteriors]
    assert (variances[2] < 0.7 * variances[1]).all()
    assert (variances[1] < 0.9 * variances[0]).all()


def test_rebuilding_from_what_was_learned():
    p = problem(10)
    first = TaskPosterior(p.kernel, p.X, p.Y, p.U, learned(3), tasks=tasks(MATRICES["all linked"], 0.4))
    stored = Tasks(first.tasks.matrix.copy(), first.tasks.weight, 0.0, 0.0)
    again = TaskPosterior(p.kernel, p.X, p.Y, p.U, first.parameters, tasks=stored)
    np.testing.assert_array_equal(first.predict(p.Q).variance, again.predict(p.Q).variance)
    np.testing.assert_array_equal(first.predict(p.Q).mean, again.predict(p.Q).mean)


def test_rows_meet_the_explained_ones_once():
    met = []

    class Watched(RBF):
        def cross_to(self, Y, feature=None):
            inner = super().cross_to(Y, feature)
            return lambda X: met.append((len(X), len(Y))) or inner(X)

    p = problem(11, kernel=Watched(1.0).fit())
    posterior = make(p, p.U, learned(3), MATRICES["one apart"])
    met.clear()
    posterior.predict(p.Q)
    assert met == [(12, 50)]


@pytest.mark.parametrize("free_mean", [True, False])
def test_too_many_rows_times_features_are_refused(monkeypatch, free_mean):
    monkeypatch.setattr(gpec.gp.tasks, "_LARGEST", 149)
    p = problem(12)
    T, parameters = MATRICES["all linked"], learned(3, free_mean)
    with pytest.raises(InputError, match=r"at most 149 rows times dependent features .* got 50 x 3 = 150; explain"):
        make(p, p.U, parameters, T)
    make(p, noise_kinds(p.U)["constant over rows"], parameters, T)
    make(p, p.U, parameters, MATRICES["one apart"])  # two of the three depend on each other


def test_one_kernel_for_all_features():
    p = problem(14, kernel=OwnColumn(0.7).fit())
    with pytest.raises(InputError, match="one kernel for all features, so it excludes Own"):
        make(p, p.U, learned(3), np.eye(3))


def test_the_papers_kernel():
    """The WEG kernel between rows and a correlation between features make one positive definite matrix (App. C.4)."""
    rng = np.random.default_rng(0)
    p = problem(15, kernel=WEG().fit(rng.normal(size=(80, 3))))
    T, parameters = MATRICES["all linked"], learned(3)
    found = make(p, p.U, parameters, T).predict(p.Q)
    mean, covariance = dense(p.kernel, p.X, p.Q, p.Y, p.U, parameters, T)
    np.testing.assert_allclose(found.mean, mean, atol=1e-8 * np.abs(p.Y).max())
    np.testing.assert_allclose(found.variance, np.einsum("ifif->if", covariance), atol=1e-9)


def test_pickling():
    p = problem(16)
    posterior = make(p, p.U, learned(3), MATRICES["one apart"])
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.predict(p.Q).variance, posterior.predict(p.Q).variance)
    np.testing.assert_array_equal(again.covariance(p.Q), posterior.covariance(p.Q))
