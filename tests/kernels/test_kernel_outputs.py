"""A kernel that asks the model: rows are alike if the model is equally sure of them."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import gpec
from gpec.data import Rows
from gpec.errors import InputError
from gpec.kernels import RBF, WEG, Kernel


class Sureness(Kernel):
    """An RBF of the model's log-odds, plus a little of the rows themselves."""

    needs_outputs = True

    def __init__(self, lengthscale=1.0):
        self.lengthscale = lengthscale

    def _fit(self, graph, rows):
        self.lengthscale_ = 1.0 if self.lengthscale == "evidence" else float(self.lengthscale)

    def _free(self):
        return {"lengthscale": (1e-2, 1e2)} if self.lengthscale == "evidence" else {}

    def cross_to(self, Y, feature=None):
        def cross_and_diagonal(X):
            squared = cdist(X.require("outputs"), Y.require("outputs"), "sqeuclidean")
            outputs = np.exp(-0.5 * squared / self.lengthscale_**2)
            rows = np.exp(-0.5 * cdist(X.embedded, Y.embedded, "sqeuclidean"))
            return 0.9 * outputs + 0.1 * rows, np.ones(len(X))

        return cross_and_diagonal


KERNELS = {"alone": Sureness(), "learned": Sureness("evidence"), "in a sum": 0.5 * WEG() + Sureness("evidence")}


def without_outputs(kernel):
    """A kernel that needs the same boundary, and no answers of the model at rows."""
    return 0.5 * WEG() + RBF("evidence") if kernel.needs_boundary else RBF("evidence")


def log_odds(model, X):
    p = model(X)
    return np.log(p / (1 - p))[:, None]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_it_sees_the_models_log_odds(make, models, X, kernel):
    g = make(kernel=kernel).fit(X)
    np.testing.assert_allclose(g.posterior_.rows.outputs, log_odds(models.curved, g.X_explained_), atol=1e-9)
    found = g.explain(g.X_explained_[:20], attribution="posterior")
    expected = g.posterior_.predict(g.posterior_.rows[:20])
    np.testing.assert_allclose(found.values, expected.mean, atol=1e-6)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-6)
    assert (found.variance > 0).all()


def test_rows_of_the_same_log_odds_are_nearly_alike(make, models, X):
    g = make(kernel=Sureness(0.5), standardize=False).fit(X)
    # two rows that lie far apart, and a third of other odds close to the first
    a = np.array([0.0, 0.0, 0.6])
    b = np.array([0.0, 1.0, 4.6])
    c = np.array([0.0, 0.0, 5.0])
    odds = log_odds(models.curved, np.array([a, b, c]))[:, 0]
    assert odds[0] == pytest.approx(odds[1])
    rows = np.array([a, b, c])
    K = g.kernel_.gram(Rows(rows, rows, outputs=log_odds(models.curved, rows)))
    assert K[0, 1] > 0.89 > K[0, 2]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
class TestCounting:
    def test_the_explained_rows_are_asked_about_once(self, make, counting, models, X, kernel):
        plain = make(counting(models.curved), kernel=without_outputs(kernel)).fit(X)
        g = make(counting(models.curved), kernel=kernel).fit(X)
        assert g.diagnostics_["model_rows"] == plain.diagnostics_["model_rows"] + 25
        assert g.diagnostics_["model_calls"] == plain.diagnostics_["model_calls"] + 1
        assert g.diagnostics_["model_rows"] == g.model.n_rows
        assert g.diagnostics_["model_calls"] == g.model.n_calls

    def test_new_rows_are_asked_about_once(self, make, counting, models, X, kernel):
        g = make(counting(models.curved), kernel=kernel).fit(X)
        before, calls = g.model.n_rows, g.model.n_calls
        found = g.explain(X[:30], attribution="posterior")
        assert g.model.n_rows == before + 30
        assert g.model.n_calls == calls + 1
        assert found.diagnostics["model_rows"] == 30

    @pytest.mark.parametrize("n_jobs", [None, 3])
    def test_in_blocks_and_threads_too(self, make, counting, models, X, kernel, n_jobs, monkeypatch):
        g = make(counting(models.curved), kernel=kernel).fit(X)
        whole = g.explain(X, attribution="posterior")
        monkeypatch.setattr("gpec.pipeline.explain._BLOCK", 16)
        before = g.model.n_rows
        in_blocks = g.set_params(n_jobs=n_jobs).explain(X, attribution="posterior")
        assert g.model.n_rows == before + len(X)
        np.testing.assert_allclose(in_blocks.variance, whole.variance, rtol=1e-9)

    def test_three_classes_ask_once_for_all(self, make, counting, models, X, kernel):
        three = {"model": counting(models.three_classes), "explainer": models.slopes_of_three}
        plain = make(**{**three, "model": counting(models.three_classes)}, kernel=without_outputs(kernel)).fit(X)
        g = make(**three, kernel=kernel).fit(X)
        assert g.diagnostics_["model_rows"] == plain.diagnostics_["model_rows"] + 25
        assert g.posterior_[0].rows.outputs.shape == (25, 3)

    def test_many_rows_are_asked_about_once(self, make, counting, models, X, kernel, monkeypatch):
        """Evidence from some of them, pivots drawn from them, leave-one-out in blocks: all use the same answer."""
        monkeypatch.setattr("gpec.gp.conditioning._DENSE_ROWS", 50)
        monkeypatch.setattr("gpec.gp.conditioning._EVIDENCE_ROWS", 40)
        monkeypatch.setattr("gpec.gp.learning._ROWS", 30)
        monkeypatch.setattr("gpec.gp.lowrank._BLOCK", 16)
        small = {"n_explained": 100}
        plain = make(counting(models.curved), kernel=without_outputs(kernel), **small).fit(X)
        g = make(counting(models.curved), kernel=kernel, **small).fit(X)
        g.posterior_.leave_one_out()
        assert g.model.n_rows == plain.model.n_rows + 100

    def test_further_rows_are_asked_about_and_the_others_not_again(self, make, counting, models, X, kernel):
        asked = []
        g = make(counting(models.curved, before=lambda call, rows: asked.append(rows)), kernel=kernel).fit(X)
        known = g.X_explained_
        asked.clear()
        g.refine(X[-4:] + 0.1, n=4)
        g.posterior_.predict(g.posterior_.rows)
        assert g.posterior_.rows.outputs.shape == (29, 1)
        np.testing.assert_allclose(g.posterior_.rows.outputs, log_odds(models.curved, g.X_explained_), atol=1e-9)
        assert not (np.concatenate(asked)[:, None] == known).all(axis=2).any()


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_files(make, models, X, kernel, tmp_path):
    g = make(kernel=kernel).fit(X)
    g.save(tmp_path / "g.gpec")
    loaded = gpec.GPEC.load(tmp_path / "g.gpec", model=models.curved)
    a, b = (each.explain(X[:20], attribution="posterior") for each in (g, loaded))
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.variance, b.variance)


def test_plain_arrays_have_no_model():
    X = np.eye(3)
    kernel = Sureness().fit(None, X)
    for use in (kernel.gram, kernel.diag, lambda X: kernel.cross(X, X), (kernel + RBF(1.0)).fit(None, X).gram):
        with pytest.raises(InputError, match="These rows come without outputs"):
            use(X)
