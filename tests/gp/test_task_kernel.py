"""Which dependence between features is used: as stated, or as the attributions speak for it."""

import itertools

import numpy as np
import pandas as pd
import pytest
from gp_helpers import OwnColumn, noise_kinds, problem
from scipy.linalg import helmert
from scipy.stats import multivariate_normal

import gpec.gp.tasks
from gpec.errors import InputError, ParameterTypeError
from gpec.gp import ExactPosterior, Parameters, fit_parameters
from gpec.gp.tasks import TaskPosterior, check_task_kernel, make_task_posterior
from gpec.kernels import RBF, WEG

PATH = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)  # four features in a row
TWO = np.array([[1.0, 0.6], [0.6, 1.0]])
LINKED = np.array([[1.0, 0.8, -0.3], [0.8, 1.0, 0.1], [-0.3, 0.1, 1.0]])


def drawn(T, seed=0, N=120, noise=0.02, n=0):
    """Attributions with correlation ``T`` between features, of different units; the last ``n`` rows are for tests."""
    rng = np.random.default_rng(seed)
    X, d = rng.normal(size=(N + n, 3)), len(T)
    kernel = RBF(1.5).fit()
    values, V = np.linalg.eigh(T)
    latent = np.linalg.cholesky(kernel.gram(X) + 1e-10 * np.eye(N + n)) @ rng.normal(size=(N + n, d))
    latent = latent @ (V * np.sqrt(np.maximum(values, 0.0))).T
    Y = (latent + np.sqrt(noise) * rng.normal(size=latent.shape)) * 10.0 ** rng.uniform(-1, 1, d) + rng.normal(size=d)
    return kernel, X, Y


def made(task_kernel, T, seed=0, output_scale="evidence", **options):
    kernel, X, Y = drawn(T, seed, **options)
    return make_task_posterior(kernel, X, Y, np.zeros_like(Y), task_kernel, output_scale, seed=0)


def two_clusters():
    """Features 0, 2 and 5 together, 1 and 4 opposite to each other, 3 alone."""
    T = np.eye(6)
    for a, b in itertools.permutations((0, 2, 5), 2):
        T[a, b] = 0.8
    T[1, 4] = T[4, 1] = -0.85
    return T


def log_density(kernel, X, Y, U, parameters, T):
    """Of all attributions together, with the noise's mean over the rows in place of the noise."""
    N, d = Y.shape
    root, noise = np.sqrt(parameters.scale), parameters.scale * parameters.nugget + U.mean(axis=0)
    A = np.kron(T * np.outer(root, root), kernel.gram(X)) + np.diag(np.repeat(noise, N))
    # An unknown mean leaves the differences between rows; their density is another by a constant.
    contrasts = np.kron(np.eye(d), helmert(N) if parameters.free_mean else np.eye(N))
    found = multivariate_normal(cov=contrasts @ A @ contrasts.T).logpdf(contrasts @ Y.T.ravel())
    return found - (0.5 * d * np.log(N) if parameters.free_mean else 0.0)


def mix(T, weight):
    return np.eye(len(T)) + weight * (T - np.diag(np.diag(T)))


class TestEvidence:
    @pytest.mark.parametrize("kind", ["constant over rows", "varying"])
    @pytest.mark.parametrize("scale", ["evidence", 2.5])
    def test_it_is_the_density_of_all_attributions(self, scale, kind):
        p = problem(0, N=15)
        U = noise_kinds(p.U)[kind]
        found = make_task_posterior(p.kernel, p.X, p.Y, U, LINKED, scale, seed=0)
        assert found.parameters.free_mean == (scale == "evidence")
        seen = (p.kernel, p.X, p.Y, U, found.parameters)
        rel = 1e-10 if scale == "evidence" else 1e-4  # where there is no nugget, the least one is added
        assert found.tasks.log_evidence == pytest.approx(log_density(*seen, found.tasks.mixed), rel=rel)
        assert found.tasks.log_evidence_independent == pytest.approx(log_density(*seen, np.eye(3)), rel=rel)

    def test_the_best_weight(self):
        kernel, X, Y = drawn(mix(LINKED, 0.8), seed=3, N=90)
        U = np.zeros_like(Y)
        found = make_task_posterior(kernel, X, Y, U, LINKED, "evidence", seed=0)
        grid = np.linspace(0, 1, 51)
        values = [log_density(kernel, X, Y, U, found.parameters, mix(LINKED, w)) for w in grid]
        assert 0 < found.tasks.weight < 1
        assert found.tasks.log_evidence >= max(values) - 1e-6
        assert found.tasks.weight == pytest.approx(grid[np.argmax(values)], abs=2e-2)

    def test_the_estimated_correlation_is_closer_than_that_of_the_attributions(self):
        ours, plain = [], []
        for seed in range(20):
            kernel, X, Y = drawn(TWO, seed, N=150, noise=0.1)
            found = make_task_posterior(kernel, X, Y, np.zeros_like(Y), "clusters", "evidence", seed=0)
            ours.append(found.tasks.matrix[0, 1] - TWO[0, 1])
            plain.append(np.corrcoef(Y.T)[0, 1] - TWO[0, 1])
        assert abs(np.mean(ours)) < 0.08  # hardly biased
        assert np.mean(np.square(ours)) < 0.7 * np.mean(np.square(plain))

    def test_what_is_all_noise_is_taken_as_independent(self):
        kernel, X, Y = drawn(TWO, N=40)
        U = np.broadcast_to([0.0, 1e5], Y.shape) * Y.var(axis=0)
        found = make_task_posterior(kernel, X, Y, U, "clusters", "evidence", seed=0)
        assert abs(found.tasks.matrix[0, 1]) < 0.01
        assert found.tasks.weight == 0


class TestLearned:
    def test_clusters_are_found_with_their_signs(self):
        found = made("clusters", two_clusters()).tasks
        assert found.weight > 0.5
        assert found.log_evidence > found.log_evidence_independent + 40
        np.testing.assert_array_equal(np.sign(found.matrix), np.sign(two_clusters()))
        np.testing.assert_allclose(found.mixed, two_clusters(), atol=0.25)

    def test_low_rank(self):
        rng = np.random.default_rng(1)
        loadings = rng.normal(size=(7, 2))
        T = loadings @ loadings.T + 0.3 * np.eye(7)
        T /= np.sqrt(np.outer(np.diag(T), np.diag(T)))
        found = made("low_rank", T).tasks
        assert found.weight > 0.5
        assert found.log_evidence > found.log_evidence_independent + 40
        np.testing.assert_allclose(found.mixed, T, atol=0.35)
        assert np.linalg.eigvalsh(found.mixed).min() > -1e-12
        np.testing.assert_array_equal(np.diag(found.matrix), 1.0)

    @pytest.mark.parametrize("kind", ["clusters", "low_rank"])
    def test_independent_features_stay_independent(self, kind):
        found = [made(kind, np.eye(6), seed, N=80).tasks for seed in range(10)]
        assert sum(tasks.weight > 0 for tasks in found) <= 1
        assert all(tasks.log_evidence == tasks.log_evidence_independent for tasks in found if tasks.weight == 0)

    @pytest.mark.parametrize("kind", ["clusters", "low_rank"])
    def test_one_feature(self, kind):
        found = made(kind, np.eye(1))
        assert found.tasks.weight == 0
        np.testing.assert_array_equal(found.tasks.matrix, [[1.0]])

    @pytest.mark.parametrize("kind", ["clusters", "low_rank", {"graph": np.ones((3, 3))}])
    def test_attributions_that_do_not_vary(self, kind):
        X, Y = np.random.default_rng(0).normal(size=(20, 2)), np.broadcast_to([1.0, 2.0, 3.0], (20, 3)).copy()
        found = make_task_posterior(RBF(1.0).fit(), X, Y, np.zeros((20, 3)), kind, "evidence", seed=0)
        np.testing.assert_allclose(found.predict(X).mean, Y)
        assert (found.predict(X).variance == 0).all()
        Y[:, 0] = X[:, 0]
        found = make_task_posterior(RBF(1.0).fit(), X, Y, np.zeros((20, 3)), kind, "evidence", seed=0)
        assert (found.predict(X).variance[:, 1:] == 0).all()
        assert (found.predict(X).variance[:, 0] > 0).all()

    @pytest.mark.parametrize("kind", ["clusters", "low_rank"])
    def test_twins_are_one_feature(self, kind):
        kernel, X, Y = drawn(np.eye(3), N=60)
        Y[:, 2] = -3.0 * Y[:, 0]
        found = make_task_posterior(kernel, X, Y, np.zeros_like(Y), kind, "evidence", seed=0)
        assert found.tasks.mixed[0, 2] < -0.8


class TestStated:
    def test_a_right_matrix_is_used_and_a_wrong_one_switched_off(self):
        right = made(two_clusters(), two_clusters()).tasks
        assert right.weight > 0.8
        assert right.log_evidence > right.log_evidence_independent + 40
        wrong = made(two_clusters(), np.eye(6)).tasks
        assert wrong.weight == 0
        assert wrong.log_evidence == wrong.log_evidence_independent

    def test_its_diagonal_gives_way_to_the_learned_scales(self):
        unit = np.array([1.0, 5.0, 0.1, 2.0, 1.0, 1.0])
        a = made(two_clusters(), two_clusters())
        b = made(two_clusters() * np.outer(unit, unit), two_clusters())
        np.testing.assert_allclose(a.tasks.matrix, b.tasks.matrix, atol=1e-14)
        np.testing.assert_allclose(a.parameters.scale, b.parameters.scale)
        assert a.tasks.weight == pytest.approx(b.tasks.weight, abs=1e-3)

    def test_the_papers_example(self):
        """App. C.4: a graph of features, the WEG kernel between rows, and the matrix ``B (x) K`` of both."""
        p = problem(2, d=4, kernel=WEG().fit(np.random.default_rng(0).normal(size=(80, 3))))
        B = np.linalg.inv(np.eye(4) + np.diag(PATH.sum(axis=0)) - PATH)
        U = np.full_like(p.U, 0.01)
        found = make_task_posterior(p.kernel, p.X, p.Y, U, {"graph": PATH}, 2.5, seed=0)
        assert found.tasks.weight == 1.0
        A = 2.5 * np.kron(B, p.kernel.gram(p.X)) + 0.01 * np.eye(200)
        c = 2.5 * np.kron(B, p.kernel.cross(p.Q, p.X))
        mean = c @ np.linalg.solve(A, p.Y.T.ravel())
        variance = 2.5 * np.repeat(np.diag(B), 12) - np.einsum("ij,ji->i", c, np.linalg.solve(A, c.T))
        prediction = found.predict(p.Q)
        np.testing.assert_allclose(prediction.mean, mean.reshape(4, 12).T, atol=1e-3 * np.abs(p.Y).max())
        # without a nugget the least one is added: 1e-6 of the scale
        np.testing.assert_allclose(prediction.variance, variance.reshape(4, 12).T, atol=1e-5)

    def test_features_closer_in_the_graph_depend_more(self):
        T = made({"graph": PATH}, np.eye(4), output_scale=1.0, N=20).tasks.matrix
        assert T[0, 1] > T[0, 2] > T[0, 3] > 0
        apart = np.zeros((4, 4))
        apart[0, 1] = apart[1, 0] = 1.0
        T = made({"graph": apart}, np.eye(4), output_scale=1.0, N=20).tasks.matrix
        np.testing.assert_allclose(
            T[:2, :2], [[1.0, 0.5], [0.5, 1.0]]
        )  # two of a pair: (I + L)^-1 = [[2, 1], [1, 2]] / 3
        np.testing.assert_array_equal(T[2:], np.eye(4)[2:])

    def test_loops_do_not_matter(self):
        np.testing.assert_allclose(
            check_task_kernel({"graph": PATH + np.eye(4)}, 4), check_task_kernel({"graph": PATH}, 4)
        )

    def test_a_strong_edge_makes_features_one(self):
        B = check_task_kernel({"graph": 1e8 * np.array([[0, 1], [1, 0]])}, 2)
        np.testing.assert_allclose(B, np.full((2, 2), 0.5), atol=1e-7)

    def test_words_and_none_state_no_matrix(self):
        assert check_task_kernel(None, 3) is None
        assert check_task_kernel("clusters", 3) is None
        assert check_task_kernel("low_rank", 3) is None

    def test_a_data_frame_is_put_in_order(self):
        names = ["age", "bmi", "sex"]
        frame = pd.DataFrame(LINKED, names, names).loc[["sex", "age", "bmi"], ["bmi", "sex", "age"]]
        np.testing.assert_array_equal(check_task_kernel(frame, 3, names), LINKED)

    def test_what_is_given_stays_as_it_was(self):
        B = LINKED.copy()
        B.setflags(write=False)
        made(B, LINKED, N=20)
        np.testing.assert_array_equal(B, LINKED)


NEGATIVE = PATH.copy()
NEGATIVE[1, 2] = NEGATIVE[2, 1] = -1.0
ONE_WAY = PATH.copy()
ONE_WAY[1, 2] = 0.0
BAD = {
    "word": ("cluster", InputError, "is not one of 'clusters', 'low_rank'"),
    "number": (3, ParameterTypeError, r"task_kernel=3 must be None, 'clusters', 'low_rank', a \(4, 4\) matrix"),
    "key": ({"grahp": PATH}, InputError, "has the keys.*'grahp'.*stated as"),
    "size": (np.eye(3), InputError, r"shape \(3, 3\) but there are 4 features"),
    "size of graph": ({"graph": np.eye(5)}, InputError, r"\['graph'\] has shape \(5, 5\) but there are 4 features"),
    "no array": ({"graph": None}, ParameterTypeError, r"task_kernel\['graph'\] must be an array of real numbers"),
    "text": ([["a"]], ParameterTypeError, "must be an array of real numbers"),
    "missing": (np.full((4, 4), np.nan), InputError, "must be finite"),
    "one way": ({"graph": ONE_WAY}, InputError, "0 from feature 'b' to 'c' and 1 back; it must be symmetric"),
    "not symmetric": (np.triu(np.ones((4, 4))), InputError, "must be symmetric"),
    "negative edge": ({"graph": NEGATIVE}, InputError, "has -1 between features 'b' and 'c'; .* at least 0"),
    "huge edge": ({"graph": PATH * 1e150}, InputError, r"weight of 1e\+150; .* at most 1e\+08"),
    "not semi-definite": (np.eye(4) + 2 * PATH, InputError, "not positive semi-definite: .* least eigenvalue is -2.24"),
    "no variance": (np.diag([1.0, 0.0, 1.0, 1.0]), InputError, "has 0 on its diagonal at feature 'b'"),
    "names": (pd.DataFrame(np.eye(4)), InputError, "must have the names of the features as its index and columns"),
}


class TestBadInput:
    @pytest.mark.parametrize(("task_kernel", "kind", "message"), BAD.values(), ids=BAD)
    def test_one_sentence(self, task_kernel, kind, message):
        with pytest.raises(kind, match=message) as caught:
            check_task_kernel(task_kernel, 4, ["a", "b", "c", "d"])
        assert str(caught.value).endswith(".")

    def test_a_correlation_of_one_is_allowed(self):
        np.testing.assert_array_equal(check_task_kernel(np.ones((4, 4)), 4), np.ones((4, 4)))

    @pytest.mark.parametrize("size", [1e-150, 1e150])
    def test_the_size_of_a_matrix_does_not_matter(self, size):
        found = made(two_clusters() * size, two_clusters(), N=60).tasks
        np.testing.assert_allclose(found.matrix, two_clusters(), rtol=1e-12)

    @pytest.mark.parametrize("size", [1e-150, 1e150])
    @pytest.mark.parametrize("kind", ["clusters", "low_rank"])
    def test_the_size_of_attributions_does_not_matter(self, kind, size):
        kernel, X, Y = drawn(two_clusters(), N=60)
        U = np.zeros_like(Y)
        plain = make_task_posterior(kernel, X, Y, U, kind, "evidence", seed=0)
        sized = make_task_posterior(kernel, X, Y * size, U, kind, "evidence", seed=0)
        assert sized.tasks.weight == pytest.approx(plain.tasks.weight, abs=1e-3) != 0
        np.testing.assert_allclose(sized.predict(X).variance / size / size, plain.predict(X).variance, rtol=1e-2)
        np.testing.assert_allclose(sized.predict(X).mean / size, plain.predict(X).mean, rtol=1e-3)

    def test_a_kernel_that_differs_by_feature(self):
        p = problem(3, kernel=OwnColumn(0.7).fit())
        with pytest.raises(InputError, match="task_kernel needs one kernel for all features, so it excludes Own"):
            make_task_posterior(p.kernel, p.X, p.Y, p.U, "clusters", "evidence", seed=0)

    def test_too_many_rows(self, monkeypatch):
        monkeypatch.setattr(gpec.gp.tasks, "_MOST_ROWS", 49)
        p = problem(4)
        with pytest.raises(InputError, match="at most 49 explained rows, got 50"):
            make_task_posterior(p.kernel, p.X, p.Y, p.U, "clusters", "evidence", seed=0)


class TestMaking:
    def test_none_is_the_exact_posterior(self):
        p = problem(5)
        found = make_task_posterior(p.kernel, p.X, p.Y, p.U, None, "evidence", seed=0)
        exact = ExactPosterior(p.kernel, p.X, p.Y, p.U, found.parameters)
        np.testing.assert_array_equal(found.predict(p.Q).variance, exact.predict(p.Q).variance)

    def test_a_fixed_scale(self):
        found = made(LINKED * 2.0, LINKED, N=30, output_scale=3.0)
        assert isinstance(found.parameters, Parameters)
        np.testing.assert_allclose(found.parameters.scale, 6.0)
        assert not found.parameters.free_mean
        np.testing.assert_allclose(found.tasks.matrix, LINKED)

    def test_of_many_rows_some_are_asked(self, monkeypatch):
        monkeypatch.setattr(gpec.gp.tasks, "_EVIDENCE_ROWS", 40)
        kernel, X, Y = drawn(two_clusters(), N=80)
        a, b = (make_task_posterior(kernel, X, Y, np.zeros_like(Y), "clusters", "evidence", seed=7) for _ in range(2))
        assert len(a.rows) == 80
        np.testing.assert_array_equal(a.predict(X).variance, b.predict(X).variance)
        fewer = fit_parameters(kernel.gram(X), Y, np.zeros_like(Y), average=True)
        assert (a.parameters.scale != fewer.scale).all()

    def test_it_can_be_rebuilt_from_what_it_learned(self):
        kernel, X, Y = drawn(two_clusters(), N=60)
        U = np.random.default_rng(0).uniform(0.0, 0.01, size=Y.shape) * Y.var(axis=0)
        first = make_task_posterior(kernel, X, Y, U, "clusters", "evidence", seed=0)
        assert first.tasks.weight > 0
        again = TaskPosterior(kernel, X, Y, U, first.parameters, tasks=first.tasks)
        np.testing.assert_array_equal(first.predict(X).variance, again.predict(X).variance)
        np.testing.assert_array_equal(first.leave_one_out().residual, again.leave_one_out().residual)
