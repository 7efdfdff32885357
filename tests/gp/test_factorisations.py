"""Each kernel matrix is built and factorised once."""

import numpy as np
import pytest
from gp_helpers import OwnColumn, noise_kinds, problem
from scipy.linalg import eigh

import gpec
from gpec.gp import learn_kernel
from gpec.gp.conditioning import make_posterior
from gpec.kernels import RBF


@pytest.fixture
def eigh_calls(monkeypatch):
    """The sizes of the matrices that were decomposed."""
    sizes = []

    def counted(matrix, **options):
        sizes.append(len(matrix))
        return eigh(matrix, **options)

    monkeypatch.setattr("gpec.gp._gram.eigh", counted)
    return sizes


class Watched(RBF):
    """An RBF that notes the rows that were asked for."""

    asked = []  # of all copies  # noqa: RUF012

    def cross_to(self, Y, feature=None):
        self.asked.append(len(Y))
        return super().cross_to(Y, feature)


class WatchedByFeature(OwnColumn):
    asked = []  # noqa: RUF012

    def cross_to(self, Y, feature=None):
        self.asked.append(feature)
        return super().cross_to(Y, feature)


@pytest.fixture(autouse=True)
def _nothing_asked_yet():
    Watched.asked.clear()
    WatchedByFeature.asked.clear()


@pytest.mark.parametrize("kind", ["varying", "constant over rows"])
def test_evidence_and_posterior_share_one_decomposition_for_all_features(eigh_calls, kind):
    p = problem(0, d=5)
    U = noise_kinds(p.U)[kind]
    posterior = make_posterior(p.kernel, p.X, p.Y, U, "evidence", seed=0)
    posterior.predict(p.Q)
    posterior.covariance(p.Q)
    posterior.leave_one_out()
    assert eigh_calls == [50]


def test_a_kernel_that_differs_by_feature_takes_one_for_each(eigh_calls):
    p = problem(1, kernel=OwnColumn(1.0).fit())
    make_posterior(p.kernel, p.X, p.Y, p.U, "evidence", seed=0).predict(p.Q)
    assert eigh_calls == [50] * 3


@pytest.mark.parametrize("output_scale", ["evidence", 1.0])
def test_one_fit_builds_and_decomposes_one_matrix(make, X, eigh_calls, output_scale):
    g = make(kernel=Watched(1.0), output_scale=output_scale).fit(X)
    assert eigh_calls == [25]
    assert Watched.asked == [25]
    g.explain(X[:30])
    g.explain(X[30:])
    assert eigh_calls == [25]
    assert Watched.asked == [25]


def test_three_classes_take_three(make, models, X, eigh_calls):
    make(models.three_classes, models.slopes_of_three, kernel=Watched(1.0)).fit(X)
    assert eigh_calls == [25] * 3
    assert Watched.asked == [25] * 3


def test_one_fit_builds_one_matrix_for_each_feature_where_they_differ(make, X, eigh_calls):
    g = make(kernel=WatchedByFeature(1.0)).fit(X)
    assert eigh_calls == [25] * 3
    assert WatchedByFeature.asked == [0, 1, 2]
    g.explain(X[:30])
    assert WatchedByFeature.asked == [0, 1, 2]


def test_after_the_kernel_is_learned_one_matrix_is_decomposed(make, X, eigh_calls, monkeypatch):
    def learn_and_forget(*arguments):
        learned = learn_kernel(*arguments)
        assert len(eigh_calls) > 10
        eigh_calls.clear()
        return learned

    monkeypatch.setattr("gpec.pipeline.gaussian_process.learn_kernel", learn_and_forget)
    make(kernel=RBF("evidence")).fit(X)
    assert eigh_calls == [25]


def test_a_file_is_read_with_one_decomposition(make, models, X, eigh_calls, tmp_path):
    make(kernel=Watched(1.0)).fit(X).save(tmp_path / "g.gpec")
    eigh_calls.clear()
    Watched.asked.clear()
    gpec.GPEC.load(tmp_path / "g.gpec", model=models.curved).explain(X[:9], attribution="posterior")
    assert eigh_calls == [25]
    assert Watched.asked == [25]


def test_features_without_variation_need_no_decomposition_of_their_own(eigh_calls):
    p = problem(2, kernel=OwnColumn(1.0).fit())
    p.Y[:, 1] = 3.0
    make_posterior(p.kernel, p.X, p.Y, np.zeros_like(p.U), "evidence", seed=0)
    assert eigh_calls == [50] * 2
