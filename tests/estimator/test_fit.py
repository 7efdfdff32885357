"""What ``fit`` keeps, and that each parameter does what it says."""

import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.boundary import BoundarySample
from gpec.data import Schema
from gpec.explainers import Attribution, Explainer
from gpec.gp import ExactPosterior, fit_parameters
from gpec.kernels import EG, RBF, WEG


def test_fitted_attributes(make, models, X):
    g = make().fit(X)
    assert isinstance(g.boundary_, BoundarySample)
    assert len(g.boundary_) == 60
    assert isinstance(g.graph_, gpec.geometry.GeodesicGraph)
    assert isinstance(g.kernel_, WEG)
    assert isinstance(g.posterior_, ExactPosterior)
    assert g.X_explained_.shape == (25, 3)
    assert isinstance(g.attributions_, gpec.Attribution)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(g.X_explained_))
    assert g.classes_.tolist() == [0, 1]
    assert g.n_features_in_ == 3
    assert not hasattr(g, "feature_names_in_")
    learned = {name for name in vars(g) if name.endswith("_")}
    assert learned == {
        "boundary_",
        "graph_",
        "kernel_",
        "posterior_",
        "X_explained_",
        "attributions_",
        "explained_weights_",
        "classes_",
        "n_features_in_",
        "diagnostics_",
    }


def test_feature_names(make, X):
    g = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert g.feature_names_in_.tolist() == ["a", "b", "c"]
    assert isinstance(g.X_explained_, pd.DataFrame)
    assert not hasattr(g.fit(X), "feature_names_in_")


def test_diagnostics(make, models, counting, X):
    model = counting(models.curved)
    g = make(model, "kernelshap", n_explained=4, noise=0.01, n_boundary=np.int64(60)).fit(X)
    d = g.diagnostics_
    assert d["version"] == gpec.__version__
    assert d["seed"] == 0
    assert d["model_rows"] == model.n_rows  # those spent by KernelSHAP included
    assert d["model_calls"] == model.n_calls
    assert set(d["seconds"]) == {"explainer", "boundary", "geometry", "kernel", "gp", "calibration"}
    assert all(seconds >= 0 for seconds in d["seconds"].values())
    assert d["boundary_points"] == [60]
    assert d["components"] == [g.graph_.n_components]
    assert d["landmarks"] == [60]
    assert d["kernel"] == [g.kernel_.diagnostics()]
    assert {"lam", "rho", "clipped_mass"} <= set(d["kernel"][0])
    assert d["scale"] == [g.posterior_.parameters.scale.tolist()]
    assert d["nugget"] == [g.posterior_.parameters.nugget.tolist()]
    assert d["condition"] == [g.posterior_.condition]
    assert d["jitter"] == gpec.gp.posterior.JITTER
    assert d["noise"] == "given"
    assert d["unit"] == "probability"
    assert d["settings"]["n_boundary"] == 60
    assert d["settings"]["model"] == "<CountingModel>"
    assert d["settings"]["explainer"] == "kernelshap"
    before = model.n_rows
    e = g.explain(X[:2])
    assert e.diagnostics["model_rows"] == model.n_rows - before > 0
    assert e.diagnostics["attribution"] == "explainer"
    assert e.diagnostics["clamped"] == 0
    assert set(e.diagnostics["seconds"]) == {"explainer", "gp"}
    for name in ("version", "seed", "noise", "unit", "settings"):
        assert e.diagnostics[name] == d[name]


def test_seconds_are_those_of_the_stage(make, models, X, monkeypatch):
    ticks = iter(range(1000))
    monkeypatch.setattr(gpec.runtime.progress, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    g = make(models.three_classes, models.slopes_of_three).fit(X)
    once, each = ("explainer", "boundary", "calibration"), ("geometry", "kernel", "gp")
    assert g.diagnostics_["seconds"] == {**dict.fromkeys(once, 1.0), **dict.fromkeys(each, 3.0)}


def test_parameters_reach_their_stage(make, models, X):
    g = make(n_neighbors=4, components="bridge", n_landmarks=20, lam=0.7, rho=3.0, output_scale=2.5, noise=0.1).fit(X)
    assert g.graph_.n_components == 1
    assert len(g.graph_.landmarks) >= 20
    assert not g.graph_.is_exact
    degree = np.diff(g.graph_.adjacency.indptr)
    assert degree.min() >= 4
    assert degree.min() < 10
    assert g.kernel_.lam_ == 0.7
    assert g.kernel_.rho_ == 3.0
    assert (g.posterior_.parameters.scale == 2.5).all()
    assert isinstance(make(kernel="rbf").fit(X).kernel_, RBF)
    own = 0.5 * WEG(rho=2.0) + EG()
    g = make(kernel=own).fit(X)
    assert g.kernel_ is not own
    assert not hasattr(own, "first_")
    assert g.kernel_.first_.kernel_.rho_ == 2.0


class Curious(Explainer):
    """Answers slopes and keeps the background rows it was shown."""

    def __init__(self, seen):
        self.seen = seen

    def bind(self, model, background):
        super().bind(model, background)
        self.seen.append(background)

    def _explain(self, Z, seeds):
        return Attribution(2.0 * Z)


def test_number_of_explained_and_background_rows(make, X):
    def fit(*, X_explained=None, **parameters):
        """The explained rows and the background rows of a fit."""
        seen = []
        g = make(explainer=Curious(seen), **parameters).fit(X, X_explained=X_explained)
        (background,) = seen
        return g.X_explained_, background

    explained, background = fit(n_explained=7, background=4)
    assert len(explained) == 7
    assert len(background) == 4
    for rows in (explained, background):
        assert (rows[:, None, :] == X[None]).all(axis=2).any(axis=1).all()  # rows of X
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert not np.array_equal(rows, X[: len(rows)])  # drawn, not the first ones
    assert not np.array_equal(background, explained[:4])  # from streams of their own
    for rows, others in zip((explained, background), fit(n_explained=7, background=4, random_state=1), strict=True):
        assert not np.array_equal(rows, others)
    for rows in fit(n_explained=500, background=500):
        np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(fit(background=X[:3] + 1.0)[1], X[:3] + 1.0)
    np.testing.assert_array_equal(fit(X_explained=X[:9] + 1.0)[0], X[:9] + 1.0)


def test_background_is_that_of_the_explainer(make, models, X):
    e = make(explainer="kernelshap", background=X[:3] + 1.0, n_explained=4).fit(X).explain(X[:2])
    np.testing.assert_allclose(e.base_values, models.curved(X[:3] + 1.0).mean())


def test_standardize(make, models, X):
    scale = np.array([1.0, 100.0, 1e-3])

    def explain(standardize):
        g = make(lambda X: models.curved(X / scale), lambda X: models.slopes(X / scale), standardize=standardize).fit(
            X * scale
        )
        return g.explain(X[:5] * scale).variance

    expected = make().fit(X).explain(X[:5]).variance
    np.testing.assert_allclose(explain(True), expected, rtol=1e-6)
    assert np.abs(explain(False) - expected).max() > 1e-3


@pytest.mark.parametrize("kind", ["int", "numpy int", "generator", "state"])
def test_random_state(make, X, kind):
    def state():
        return {
            "int": 5,
            "numpy int": np.int64(5),
            "generator": np.random.default_rng(5),
            "state": np.random.RandomState(5),
        }[kind]

    a, b = (make(random_state=state()).fit(X) for _ in range(2))
    np.testing.assert_array_equal(a.explain(X[:3]).variance, b.explain(X[:3]).variance)
    assert a.diagnostics_["seed"] == b.diagnostics_["seed"]
    c = make(random_state=a.diagnostics_["seed"]).fit(X)
    np.testing.assert_array_equal(c.explain(X[:3]).variance, a.explain(X[:3]).variance)
    other = make(random_state=6).fit(X)
    assert not np.array_equal(other.boundary_.points, a.boundary_.points)


def test_no_random_state(make, X):
    a, b = (make(random_state=None).fit(X) for _ in range(2))
    assert a.diagnostics_["seed"] != b.diagnostics_["seed"]
    again = make(random_state=a.diagnostics_["seed"]).fit(X)
    np.testing.assert_array_equal(again.explain(X[:3]).variance, a.explain(X[:3]).variance)


def test_parameters_are_learned_from_some_of_the_rows(make, models, X, monkeypatch):
    """Beyond a number of rows, scale and nugget are those that these rows alone would give."""

    class Watched(WEG):
        def cross_to(self, Y, feature=None):
            met.append(Y.encoded)
            return super().cross_to(Y, feature)

    met, kernel = [], Watched(lam=1.0, rho=1.0)  # nothing of it is learned from the rows
    everything = make(n_explained=100, kernel=kernel).fit(X)
    monkeypatch.setattr(gpec.gp.conditioning, "_EVIDENCE_ROWS", 50)
    g = make(n_explained=100, kernel=kernel).fit(X)
    parts = (g.X_explained_, g.attributions_.values, g.attributions_.variance)
    (chosen,) = (rows for rows in met if len(rows) == 50)
    some = (g.X_explained_[:, None] == chosen).all(axis=2).any(axis=1)
    assert 0 < some[:50].sum() < 50
    few, Y, U = (part[some] for part in parts)
    expected = fit_parameters(g.kernel_.gram(Schema.learn(X)[0].embed(few)), Y, U)
    np.testing.assert_allclose(g.posterior_.parameters.scale, expected.scale, rtol=1e-6)
    np.testing.assert_allclose(g.posterior_.parameters.nugget, expected.nugget, rtol=1e-6)
    assert np.abs(expected.scale / everything.posterior_.parameters.scale - 1).max() > 0.1
    assert len(g.posterior_.Y) == 100  # the posterior knows all of them


class Meeting(Explainer):
    """Two blocks of rows wait for each other: they end only if both are explained at once."""

    threads, stochastic, rows_at_once = True, False, 15

    def __init__(self, function):
        self.function = function

    def bind(self, model, background):
        super().bind(model, background)
        self.meeting = threading.Barrier(2, timeout=20)

    def _explain(self, Z, seeds):
        self.meeting.wait()
        return Attribution(self.function(Z))


def test_rows_are_explained_on_several_threads(make_auto, models, X):
    """Those drawn, and those similar to them."""
    g = make_auto(explainer=Meeting(models.slopes), n_explained=30, kernel="weg", n_jobs=2).fit(X)
    plain = make_auto(n_explained=30, kernel="weg").fit(X)
    np.testing.assert_array_equal(g.explain(X[:30]).lower, plain.explain(X[:30]).lower)
