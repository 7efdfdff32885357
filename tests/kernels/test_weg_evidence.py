"""lam and rho of the boundary kernels as parameters that evidence learns."""

import pickle

import numpy as np
import pytest
from scipy.linalg import eigh
from sklearn.gaussian_process import GaussianProcessRegressor

import gpec
from archive_helpers import kernel_through_file
from gpec.errors import InputError, NotFittedError
from gpec.geometry import GeodesicGraph
from gpec.gp import fit_parameters, learn_kernel
from gpec.kernels import EG, RBF, WEG, Kernel
from gpec.kernels.weg import settle

RNG = np.random.default_rng(0)
POINTS, X = RNG.normal(size=(70, 3)), RNG.normal(size=(25, 3))
POINTS[:, 0] = 0.4 * POINTS[:, 1] ** 2
ALL = GeodesicGraph.build(POINTS)
FEW = GeodesicGraph.build(POINTS, n_landmarks=20)
GRAPHS = {"all": ALL, "landmarks": FEW}

KERNELS = {
    "both": lambda: WEG("evidence", "evidence"),
    "plain": lambda: WEG("evidence", "evidence", normalize=False),
    "lam": lambda: WEG("evidence", 2.0),
    "rho": lambda: WEG("auto", "evidence"),
    "rho plain": lambda: WEG(0.7, "evidence", normalize=False),
    "EG": lambda: EG("evidence"),
    "sum": lambda: 0.5 * WEG("evidence", "evidence") + RBF("evidence"),
    "product": lambda: WEG("evidence", "evidence") * RBF("evidence"),
    "two": lambda: WEG("evidence", "evidence") * (EG("evidence") + WEG("auto", "evidence")),
}
FREE = {"both": 2, "plain": 2, "lam": 1, "rho": 1, "rho plain": 1, "EG": 1, "sum": 3, "product": 3, "two": 4}


@pytest.fixture
def factorisations(monkeypatch):
    """One entry for each matrix of distances whose eigenvalues were computed."""
    seen = []

    def watched(matrix, **options):
        seen.append(len(matrix))
        return eigh(matrix, **options)

    monkeypatch.setattr("gpec.kernels._factor.eigh", watched)
    return seen


class TestGradient:
    @pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
    @pytest.mark.parametrize("name", KERNELS)
    def test_central_differences(self, name, graph):
        kernel = KERNELS[name]().fit(graph, X)
        assert kernel.n_dims == FREE[name]
        kernel.theta = kernel.theta + np.random.default_rng(1).uniform(-0.5, 0.5, size=kernel.n_dims)
        K, gradient = kernel.gram_gradient(X)
        np.testing.assert_allclose(K, kernel.gram(X), atol=1e-13)

        def difference(unit, step):
            ahead, behind = (kernel.with_theta(kernel.theta + sign * step * unit).gram(X) for sign in (1, -1))
            return (ahead - behind) / (2 * step)

        for p, unit in enumerate(np.eye(kernel.n_dims)):
            numeric = (4 * difference(unit, 1e-3) - difference(unit, 2e-3)) / 3
            np.testing.assert_allclose(gradient[:, :, p], numeric, rtol=1e-5, atol=1e-9)
            assert np.abs(gradient[:, :, p]).max() > 1e-3

    @pytest.mark.parametrize("normalize", [True, False])
    def test_rho_against_kernels_of_given_rho(self, normalize):
        kernel = WEG(0.7, "evidence", normalize).fit(ALL, X)
        kernel.theta = np.log([1.7])
        ahead, behind = (WEG(0.7, 1.7 * np.exp(step), normalize).fit(ALL).gram(X) for step in (1e-5, -1e-5))
        np.testing.assert_allclose(kernel.gram_gradient(X)[1][:, :, 0], (ahead - behind) / 2e-5, atol=1e-8)

    def test_lam_against_kernels_of_given_lam(self):
        kernel = WEG("evidence", 2.0).fit(ALL, X)
        for step in (-0.7, 0.0, 0.5):
            lam = kernel.lam_ * np.exp(step)
            ahead, behind = (WEG(lam * np.exp(h), 2.0).fit(ALL).gram(X) for h in (0.01, -0.01))
            gradient = kernel.with_theta(np.log([lam])).gram_gradient(X)[1][:, :, 0]
            np.testing.assert_allclose(gradient, (ahead - behind) / 0.02, atol=0.02)
            assert np.abs(gradient).max() > 0.2

    def test_before_and_after_a_search(self):
        """The matrix is that of lam itself, the slope that of the search."""
        kernel = WEG("evidence", "evidence").fit(ALL, X)
        searched = kernel.with_theta(kernel.theta + 0.3)
        for exact in (kernel, settle(searched)):
            K, gradient = exact.gram_gradient(X)
            np.testing.assert_allclose(K, WEG(exact.lam_, exact.rho_).fit(ALL).gram(X), atol=1e-13)
            _, expected = exact.with_theta(exact.theta).gram_gradient(X)
            np.testing.assert_allclose(gradient, expected, atol=0.02)
            assert np.abs(expected).max(axis=(0, 1)).min() > 0.05

    def test_far_rows_and_copies(self):
        kernel = WEG("evidence", "evidence").fit(np.vstack((POINTS, POINTS[:30])), X)
        kernel.theta = kernel.theta + 0.1
        far = np.vstack((X, 1e6 * X[:3], POINTS[:4]))
        K, gradient = kernel.gram_gradient(far)
        assert np.isfinite(gradient).all()
        np.testing.assert_allclose(K, kernel.gram(far), atol=1e-12)
        ahead, behind = (kernel.with_theta(kernel.theta + np.array([0, h])).gram(far) for h in (1e-4, -1e-4))
        np.testing.assert_allclose(gradient[:, :, 1], (ahead - behind) / 2e-4, atol=1e-6)


class TestGrid:
    def test_evidence_starts_at_auto_and_has_bounds_around_it(self):
        auto, kernel = WEG().fit(ALL, X), WEG("evidence", "evidence").fit(ALL, X)
        assert (kernel.lam_, kernel.rho_) == (auto.lam_, auto.rho_)
        assert [h.name for h in kernel.hyperparameters] == ["lam", "rho"]
        np.testing.assert_array_equal(kernel.gram(X), auto.gram(X))
        np.testing.assert_allclose(
            np.exp(kernel.bounds), [[auto.lam_ / 30, 30 * auto.lam_], [auto.rho_ / 30, 30 * auto.rho_]]
        )
        assert [h.name for h in EG("evidence").fit(ALL).hyperparameters] == ["lam"]

    @pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
    @pytest.mark.parametrize(
        ("place", "middle", "weights"),
        [
            (0.0, 0, (1 / 8, 3 / 4, 1 / 8)),
            (2.3, 2, (0.02, 0.66, 0.32)),
            (-1.5, -1, (1 / 2, 1 / 2, 0.0)),
            (8.0, 8, (1 / 8, 3 / 4, 1 / 8)),
        ],
    )
    def test_a_search_uses_a_weighted_mean(self, graph, place, middle, weights):
        kernel = EG("evidence").fit(graph, X)
        ratio = 30 ** (1 / 8)
        tried = kernel.with_theta(kernel.theta + place * np.log(ratio))
        parts = [EG(kernel.lam_ * ratio ** (middle + i)).fit(graph) for i in (-1, 0, 1)]
        expected = sum(weight * part.gram(POINTS) for weight, part in zip(weights, parts, strict=True))
        np.testing.assert_allclose(tried.gram(POINTS), expected, atol=1e-12 if graph.is_exact else 3e-7)
        np.testing.assert_allclose(tried.diag(POINTS), 1.0, atol=1e-12)
        assert tried.clipped_mass_ == pytest.approx(
            sum(weight * part.clipped_mass_ for weight, part in zip(weights, parts, strict=True)), abs=1e-14
        )
        assert np.linalg.eigvalsh(tried.gram(POINTS))[0] > -1e-12

    def test_how_near_the_mean_is_to_the_value_itself(self):
        t = np.linspace(0, 5, 60)
        line = GeodesicGraph.build(np.column_stack((t, 0 * t)), n_neighbors=4)  # nothing is repaired
        kernel = EG("evidence").fit(line)
        worst = 0.0
        for step in np.random.default_rng(2).uniform(-3, 3, size=60):
            tried = kernel.with_theta(kernel.theta + step)
            worst = max(worst, np.abs(tried.gram(line.points) - np.exp(-tried.lam_ * line.distances)).max())
        assert 0.004 < worst < 0.008

    def test_it_changes_smoothly(self):
        """Value and slope pass on from one part of the spline to the next."""
        kernel = WEG("evidence", 2.0).fit(ALL, X)
        for place in (0.5, 1.0, -2.5):
            theta = kernel.theta + place * np.log(30) / 8
            near = [kernel.with_theta(theta + h).gram_gradient(X) for h in (1e-7, -1e-7)]
            np.testing.assert_allclose(near[0][0], near[1][0], atol=1e-6)
            np.testing.assert_allclose(near[0][1], near[1][1], atol=1e-5)

    def test_a_settled_kernel_is_that_of_the_given_parameters(self):
        kernel = (0.5 * WEG("evidence", "evidence") + RBF("evidence")).fit(ALL, X)
        searched = kernel.with_theta(kernel.theta + np.array([0.2, 0.3, 0.1]))
        inner = searched.first_.kernel_
        assert inner.B_.shape[1] > len(POINTS)  # several factors side by side
        settled = settle(searched)
        expected = 0.5 * WEG(inner.lam_, inner.rho_) + RBF(searched.second_.lengthscale_)
        np.testing.assert_allclose(settled.gram(X), expected.fit(ALL).gram(X), atol=1e-14)
        np.testing.assert_array_equal(settled.theta, searched.theta)
        np.testing.assert_array_equal(settle(settled).gram(X), settled.gram(X))
        assert inner.B_.shape[1] > len(POINTS)  # the one handed in is as it was
        np.testing.assert_allclose(settled.with_theta(settled.theta).gram(X), searched.gram(X), atol=1e-14)

    def test_copies_do_not_change_each_other(self):
        kernel = WEG("evidence", "evidence").fit(ALL, X)
        before = kernel.gram(X)
        other = kernel.with_theta(kernel.theta + 0.5)
        assert np.abs(other.gram(X) - before).max() > 0.01
        np.testing.assert_array_equal(kernel.gram(X), before)

    def test_a_new_rho_needs_no_factor(self, factorisations):
        kernel = WEG("evidence", "evidence").fit(GeodesicGraph.build(POINTS), X)
        assert len(factorisations) == 1
        sharper = np.array([0.0, 0.4])
        kernel.theta = kernel.theta + sharper
        B, count = kernel.B_, len(factorisations)
        assert count <= 4
        kernel.theta = kernel.theta + sharper
        assert kernel.B_ is B
        assert len(factorisations) == count

    def test_a_fit_with_another_word_forgets_the_search(self):
        kernel = WEG("evidence", "evidence").fit(ALL, X)
        kernel.theta = kernel.theta + 0.3
        kernel.set_params(lam=2.0, rho="auto").fit(ALL, X)
        assert kernel.n_dims == 0
        np.testing.assert_array_equal(settle(kernel).gram(X), WEG(2.0).fit(ALL, X).gram(X))


def evidence(kernel, rows, Y):
    """Sum over the columns of log p with an unknown constant mean, the best scale and nugget; full matrices."""
    n, K, total = len(rows), kernel.gram(rows), 0.0
    parameters = fit_parameters(K, Y, np.zeros_like(Y))
    for y, s, g in zip(Y.T, parameters.scale, parameters.nugget, strict=True):
        inverse = np.linalg.inv(s * (K + g * np.eye(n)))
        ones = inverse.sum(axis=1)
        P = inverse - np.outer(ones, ones) / ones.sum()
        total -= (y @ P @ y - np.linalg.slogdet(inverse)[1] + np.log(ones.sum())) / 2
    return total


def drawn(kernel, rows, d, noise=1e-3, seed=0):
    """Functions drawn from a Gaussian process with that kernel."""
    K = kernel.gram(rows) + noise * np.eye(len(rows))
    return np.linalg.cholesky(K) @ np.random.default_rng(seed).normal(size=(len(rows), d)) + 5.0


class TestLearning:
    GRAPH = GeodesicGraph.build(np.random.default_rng(3).normal(size=(150, 2)), n_neighbors=6)
    ROWS = np.random.default_rng(4).normal(size=(90, 2))

    @pytest.mark.parametrize(("lam", "rho"), [(3.0, 0.3), (0.3, 5.0), (6.0, 8.0)])
    def test_what_was_drawn_is_found_again(self, lam, rho, factorisations):
        auto = WEG().fit(self.GRAPH, self.ROWS)
        truth = WEG(lam * auto.lam_, rho * auto.rho_).fit(self.GRAPH)
        Y = drawn(truth, self.ROWS, d=6)
        factorisations.clear()
        learned = settle(learn_kernel(WEG("evidence", "evidence").fit(self.GRAPH, self.ROWS), self.ROWS, Y, 0 * Y))
        assert len(factorisations) <= 20
        assert abs(np.log(learned.lam_ / truth.lam_)) < np.log(2.0)
        assert abs(np.log(learned.rho_ / truth.rho_)) < np.log(1.5)
        best = evidence(learned, self.ROWS, Y)
        assert best > evidence(truth, self.ROWS, Y) - 0.1
        assert best > evidence(auto, self.ROWS, Y) + 5.0
        # no neighbour is better
        for step in np.vstack((np.eye(2), -np.eye(2))) * 0.4:
            other = WEG(*(np.exp(learned.theta + step))).fit(self.GRAPH)
            assert evidence(other, self.ROWS, Y) < best + 0.1

    def test_the_exponential_geodesic_kernel(self):
        points = self.GRAPH.points[::2]
        start = EG("evidence").fit(self.GRAPH)
        truth = EG(4.0 * start.lam_).fit(self.GRAPH)
        Y = drawn(truth, points, d=10)
        learned = settle(learn_kernel(start, points, Y, 0 * Y))
        assert abs(np.log(learned.lam_ / truth.lam_)) < np.log(1.7)
        assert evidence(learned, points, Y) > evidence(truth, points, Y) - 0.1

    def test_inside_a_product(self):
        auto = WEG().fit(self.GRAPH, self.ROWS)
        truth = (WEG(2 * auto.lam_, 4 * auto.rho_) * RBF(2.0)).fit(self.GRAPH, self.ROWS)
        Y = drawn(truth, self.ROWS, d=8)
        kernel = (WEG("evidence", "evidence") * RBF("evidence")).fit(self.GRAPH, self.ROWS)
        learned = settle(learn_kernel(kernel, self.ROWS, Y, 0 * Y))
        assert evidence(learned, self.ROWS, Y) > evidence(truth, self.ROWS, Y) - 0.2

    def test_twice_the_same(self):
        Y = drawn(WEG(3.0, 3.0).fit(self.GRAPH), self.ROWS, d=1)
        kernels = [EG("evidence").fit(self.GRAPH, self.ROWS) for _ in range(2)]
        first, second = (learn_kernel(kernel, self.ROWS, Y, 0 * Y) for kernel in kernels)
        np.testing.assert_array_equal(first.theta, second.theta)

    def test_in_scikit_learn(self):
        auto = WEG().fit(self.GRAPH, self.ROWS)
        Y = drawn(WEG(3 * auto.lam_, 4 * auto.rho_).fit(self.GRAPH), self.ROWS, d=1) - 5.0
        kernel = WEG("evidence", "evidence").fit(self.GRAPH, self.ROWS)
        gp = GaussianProcessRegressor(kernel, alpha=1e-3).fit(self.ROWS, Y[:, 0])
        assert gp.log_marginal_likelihood_value_ > gp.log_marginal_likelihood(kernel.theta) + 1.0
        assert (np.abs(gp.kernel_.theta - kernel.theta) > 0.1).any()


class TestFiles:
    @pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
    @pytest.mark.parametrize("name", KERNELS)
    def test_a_loaded_kernel_keeps_what_was_learned(self, name, graph):
        kernel = KERNELS[name]().fit(graph, X)
        kernel.theta = kernel.theta + 0.3
        for learned in (kernel, settle(kernel)):
            loaded = kernel_through_file(learned)
            assert loaded == learned
            assert loaded.diagnostics() == learned.diagnostics()
            np.testing.assert_array_equal(loaded.theta, learned.theta)
            np.testing.assert_array_equal(loaded.bounds, learned.bounds)
            np.testing.assert_array_equal(loaded.gram(X), learned.gram(X))
            np.testing.assert_array_equal(loaded.with_theta(loaded.theta).gram(X), learned.gram(X))
            np.testing.assert_array_equal(settle(loaded).gram(X), learned.gram(X))

    def test_another_lam_needs_the_graph_but_another_rho_does_not(self):
        kernel = WEG("evidence", "evidence").fit(ALL, X)
        loaded = Kernel.from_state(kernel.state())
        assert not any(isinstance(value, GeodesicGraph) for value in kernel.state()["learned"].values())
        sharper = np.array([0.0, 0.4])
        np.testing.assert_allclose(
            loaded.with_theta(loaded.theta + sharper).gram(X),
            WEG(kernel.lam_, kernel.rho_ * np.exp(0.4)).fit(ALL).gram(X),
            atol=1e-13,
        )
        message = "This WEG kernel comes from a file and has no graph"
        with pytest.raises(NotFittedError, match=message):
            loaded.theta = loaded.theta + 0.4
        assert loaded.lam_ == kernel.lam_
        with pytest.raises(NotFittedError, match=message):
            loaded.gram_gradient(X)
        again = loaded.fit(ALL, X)
        np.testing.assert_array_equal(
            again.with_theta(again.theta + 0.4).gram(X), kernel.with_theta(kernel.theta + 0.4).gram(X)
        )

    def test_pickle(self):
        kernel = WEG("evidence", "evidence").fit(ALL, X)
        again = pickle.loads(pickle.dumps(kernel))
        theta = kernel.theta + 0.4
        np.testing.assert_array_equal(again.with_theta(theta).gram(X), kernel.with_theta(theta).gram(X))


def test_bad_input():
    for kernel, message in (
        (WEG("often"), "lam='often' must be 'auto', 'evidence' or a number"),
        (WEG(rho="much"), "rho='much' must be 'auto', 'evidence' or a number"),
        (EG("none"), "lam='none' must be 'auto', 'evidence' or a number"),
    ):
        with pytest.raises(InputError, match=message):
            kernel.fit(POINTS)
    for kernel in (WEG("evidence"), WEG(rho="evidence"), EG("evidence")):
        with pytest.raises(NotFittedError, match="kernel is not fitted yet"):
            kernel.bounds  # noqa: B018


class TestGPEC:
    @staticmethod
    def model(rows):
        return 1 / (1 + np.exp(-4 * (rows[:, 0] ** 2 + rows[:, 1] - 1)))

    @staticmethod
    def slopes(rows):
        p = TestGPEC.model(rows)
        return np.column_stack((2 * rows[:, 0], np.ones(len(rows)))) * (4 * p * (1 - p))[:, None]

    def make(self, **settings):
        return gpec.GPEC(
            self.model, self.slopes, kernel="weg", n_boundary=120, n_explained=60, random_state=0, **settings
        )

    def test_words_of_the_estimator(self, tmp_path):
        rows = np.random.default_rng(5).normal(size=(300, 2))
        auto = self.make().fit(rows)
        learned = self.make(lam="evidence", rho="evidence").fit(rows)
        (chosen,), (kept,) = (g.diagnostics_["kernel"] for g in (learned, auto))
        assert chosen["rho"] != pytest.approx(kept["rho"], rel=0.05)
        assert chosen["lam"] != pytest.approx(kept["lam"], rel=0.05)
        seen, Y = learned.posterior_.rows, learned.attributions_.values
        assert evidence(settle(learned.kernel_), seen, Y) > evidence(auto.kernel_, seen, Y) + 3.0
        before = learned.explain(rows[:5], attribution="posterior")
        learned.save(tmp_path / "g")
        after = gpec.GPEC.load(tmp_path / "g", model=self.model, explainer=self.slopes).explain(
            rows[:5], attribution="posterior"
        )
        np.testing.assert_array_equal(after.values, before.values)
        np.testing.assert_array_equal(after.variance, before.variance)

    def test_other_words_are_refused_before_the_first_call(self):
        def never(rows):
            raise AssertionError

        for name in ("lam", "rho"):
            g = gpec.GPEC(never, self.slopes, **{name: "best"})
            with pytest.raises(InputError, match=f"{name}='best' must be 'auto', 'evidence' or a number"):
                g.fit(np.eye(4))
