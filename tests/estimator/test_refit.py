"""Fitting again: what is the same is kept, what changed is made anew, and the result is that of a fresh fit."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from gpec.boundary import BisectionSampler
from gpec.errors import BoundaryNotFoundError, ExplainerError
from gpec.explainers import Attribution, Explainer, ShapleySampling
from gpec.kernels import RBF, WEG

# A refit asks the model for 20 rows at its beginning and its end, and for both sides of each boundary point.
ROWS_OF_A_REFIT = 20 + 20 + 2 * 60
STAGES = {"boundary", "graph", "explainer"}


class CountingExplainer:
    """A callable explainer that counts the rows it is given."""

    def __init__(self, function):
        self.function, self.n_rows = function, 0

    def __call__(self, X):
        self.n_rows += len(X)
        return self.function(X)


@pytest.fixture
def watched(make, models, counting):
    """``watched.make(**parameters)``: a small GPEC whose model and explainer count.

    ``watched.fit(g, X)`` fits it, and tells the rows asked of each and which stages ran. The noise is given, so that no
    row is explained twice to find it.
    """

    def build(model=models.curved, explainer=models.slopes, **parameters):
        return make(counting(model), CountingExplainer(explainer), **{"noise": 1e-3, **parameters})

    def fit(g, X, **options):
        before = {name: getattr(g, f"{name}_", None) for name in ("boundary", "graph")}
        g.model.n_rows = g.explainer.n_rows = 0
        g.fit(X, **options)
        assert g.diagnostics_["model_rows"] == g.model.n_rows  # of this fit alone
        ran = {name for name, earlier in before.items() if getattr(g, f"{name}_") is not earlier}
        ran |= {"explainer"} if g.explainer.n_rows else set()
        return SimpleNamespace(model_rows=g.model.n_rows, explained=g.explainer.n_rows, ran=ran)

    return SimpleNamespace(make=build, fit=fit)


def assert_as_fresh(g, X, queries=None, **options):
    """What ``g`` answers is what a clone answers that is fitted for the first time."""
    fresh = clone(g).fit(X, **options)
    queries = X[:9] if queries is None else queries
    assert hasattr(g, "boundary_") == hasattr(fresh, "boundary_")
    if hasattr(g, "boundary_"):
        np.testing.assert_allclose(g.boundary_.points, fresh.boundary_.points, rtol=1e-10)
    np.testing.assert_allclose(g.attributions_.values, fresh.attributions_.values, rtol=1e-10)
    for attribution in ("explainer", "posterior"):
        a, b = (part.explain(queries, attribution=attribution) for part in (g, fresh))
        for name in ("values", "model_variance", "noise_variance"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-10, atol=1e-12, err_msg=name)
        if b.base_values is not None:
            np.testing.assert_allclose(a.base_values, b.base_values, rtol=1e-10)


def test_nothing_changed(watched, X):
    g = watched.make()
    first = watched.fit(g, X)
    assert first.ran == STAGES
    assert first.explained == 25
    assert first.model_rows > 5 * ROWS_OF_A_REFIT
    again = watched.fit(g, X)
    assert again.ran == set()
    assert again.explained == 0
    assert again.model_rows == ROWS_OF_A_REFIT
    assert_as_fresh(g, X)


# What is set before the refit, and what has to run again; kernel and Gaussian process always do.
CHANGES = {
    "lam": ({"lam": 0.3}, set()),
    "rho": ({"rho": 4.0}, set()),
    "kernel": ({"kernel": 0.5 * WEG() + RBF(1.0)}, set()),
    "learned kernel": ({"kernel": 0.5 * WEG() + RBF("evidence")}, set()),
    "output_scale": ({"output_scale": 1.0}, set()),
    "n_jobs": ({"n_jobs": 2}, set()),
    "fewer explained rows": ({"n_explained": 10}, set()),
    "more explained rows": ({"n_explained": 40}, {"explainer"}),
    "explainer": ({"explainer": CountingExplainer(lambda X: np.asarray(X) ** 2)}, {"explainer"}),
    "noise": ({"noise": 0.1}, {"explainer"}),
    "background": ({"background": 5}, {"explainer"}),
    "n_neighbors": ({"n_neighbors": 4}, {"graph"}),
    "n_landmarks": ({"n_landmarks": 20}, {"graph"}),
    "components": ({"components": "bridge"}, {"graph"}),
    "n_boundary": ({"n_boundary": 50}, {"boundary", "graph"}),
    "sampler": ({"boundary": BisectionSampler(pairing="random")}, {"boundary", "graph"}),
    "seed": ({"random_state": 1}, STAGES),
    "threshold": ({"threshold": 0.7}, STAGES),
    "standardize": ({"standardize": False}, STAGES),
    "categorical_features": ({"categorical_features": []}, set()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_depends_on_the_change_runs_again(watched, X, change):
    parameters, expected = CHANGES[change]
    g = watched.make()
    watched.fit(g, X)
    again = watched.fit(g.set_params(**parameters), X)
    assert again.ran == expected
    if "boundary" in expected:
        assert again.model_rows > 3 * ROWS_OF_A_REFIT
    else:
        assert again.model_rows == ROWS_OF_A_REFIT
    if "explainer" in expected and change != "more explained rows":
        assert again.explained == 25
    assert_as_fresh(g, X)


def test_new_explainer(watched, X):
    """The boundary is not sampled and the geometry not built again; later explanations are the new explainer's."""
    g = watched.make()
    watched.fit(g, X)
    boundary, graph = g.boundary_, g.graph_
    g.set_params(explainer=CountingExplainer(lambda X: 1.0 - np.asarray(X)))
    again = watched.fit(g, X)
    assert g.boundary_ is boundary
    assert g.graph_ is graph
    assert again.explained == 25
    assert again.model_rows == ROWS_OF_A_REFIT
    np.testing.assert_array_equal(g.explain(X[:3]).values, 1.0 - X[:3])
    assert_as_fresh(g, X)


def test_more_explained_rows(watched, X):
    g = watched.make()
    watched.fit(g, X)
    first = g.X_explained_
    again = watched.fit(g.set_params(n_explained=40), X)
    assert again.explained == 15
    assert len(g.X_explained_) == 40
    np.testing.assert_array_equal(g.X_explained_[:25], first)
    assert_as_fresh(g, X)
    assert watched.fit(g.set_params(n_explained=30), X).explained == 0
    assert_as_fresh(g, X)


def test_rows_explained_before_are_found_wherever_they_stand(watched, models, X):
    g = watched.make()
    watched.fit(g, X, X_explained=X[:20])
    mixed_up = X[[30, 3, 31, 3, 0, 32, 19, 33]]
    again = watched.fit(g, X, X_explained=mixed_up)
    assert again.explained == 4
    assert again.ran == {"explainer"}
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(mixed_up))
    assert_as_fresh(g, X, X_explained=mixed_up)


@pytest.mark.parametrize("noise", ["auto", "resample"])
def test_answers_of_an_explainer_with_noise_are_kept_whole(make, X, noise):
    """Values, variances and base values of old and new rows come together."""
    g = make(explainer=ShapleySampling(2), n_explained=6, noise=noise, n_resamples=3).fit(X)
    g.set_params(n_explained=9).fit(X)
    assert g.attributions_.variance.any(axis=1).all()
    assert_as_fresh(g, X, X[:3])


def test_several_classes_and_a_mixed_frame(watched, models, mixed, X):
    g = watched.make(models.three_classes, models.slopes_of_three)
    watched.fit(g, X)
    assert watched.fit(g.set_params(n_explained=40, lam=0.5), X).explained == 15
    assert_as_fresh(g, X)
    g = watched.make(
        mixed.model.predict_proba,
        lambda frame: np.column_stack([frame["price"], frame["weight"]] * 2 + [frame["price"]]),
    )
    watched.fit(g, mixed.frame)
    again = watched.fit(g.set_params(n_explained=40), mixed.frame)
    assert again.explained == 15
    assert again.ran == {"explainer"}
    assert_as_fresh(g, mixed.frame)


OTHER_ROWS = {
    "one less": lambda X: X[:-1],
    "one more": lambda X: np.vstack((X, X[:1] + 1.0)),
    "in another order": lambda X: X[::-1],
    "one of them a little different": lambda X: X + 1e-9 * (np.arange(len(X)) == 77)[:, None],
}


@pytest.mark.parametrize("change", OTHER_ROWS)
@pytest.mark.parametrize("standardize", [True, False])
def test_other_rows(watched, X, change, standardize):
    g = watched.make(standardize=standardize)
    watched.fit(g, X)
    other = OTHER_ROWS[change](X)
    again = watched.fit(g, other)
    assert again.ran == STAGES
    assert again.explained == 25
    assert_as_fresh(g, other)


def test_rows_changed_where_they_stand(watched, X):
    g, rows = watched.make(), X.copy()
    watched.fit(g, rows)
    rows[50, 1] += 0.5
    assert watched.fit(g, rows).ran == STAGES
    assert_as_fresh(g, rows)


def test_other_columns_and_back(make, X):
    g = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    first = g.explain(pd.DataFrame(X[:3], columns=["a", "b", "c"])).variance
    g.fit(X[:, :2])
    assert g.n_features_in_ == 2
    assert not hasattr(g, "feature_names_in_")
    assert g.explain(X[:3, :2]).shape == (3, 2)
    np.testing.assert_array_equal(g.fit(X).explain(X[:3]).variance, first)


# Models


def test_other_model(watched, models, counting, X):
    """Even one that answers alike: nobody can know that it does so everywhere."""
    g = watched.make()
    watched.fit(g, X)
    g.set_params(model=counting(models.curved))
    assert watched.fit(g, X).ran == STAGES
    assert_as_fresh(g, X)


def test_model_fitted_again_where_it_stands(make, X):
    model = LogisticRegression().fit(X, X[:, 0] > X[:, 1])
    explainer = CountingExplainer(lambda X: X * model.coef_)
    g = make(model, explainer, noise=1e-3).fit(X)
    before = g.boundary_
    model.fit(X, X[:, 0] + X[:, 2] > 0.2)
    explainer.n_rows = 0
    g.fit(X)
    assert explainer.n_rows == 25
    assert g.boundary_ is not before
    assert np.abs(g.boundary_.points @ model.coef_[0] + model.intercept_).max() < 1e-4
    assert_as_fresh(g, X)


def test_model_made_sharper_where_it_stands(make, models, X):
    """The boundary is the same, but not what there is to explain."""
    state = {"slope": 1.0}
    g = make(lambda X: expit(state["slope"] * (X @ models.W)), "kernelshap", n_explained=5).fit(X)
    before = g.attributions_.values
    state["slope"] = 3.0
    g.fit(X)
    assert np.abs(g.attributions_.values - before).max() > 0.01
    assert_as_fresh(g, X, X[:3])


def test_model_changed_far_from_the_first_rows(watched, X):
    """The first 20 rows do not show the change; the boundary does."""
    state = {"shift": 0.0}
    rows = X[np.argsort(X[:, 0])]

    def model(X):
        return expit(X[:, 1] + np.where(X[:, 0] > 0.5, state["shift"], 0.0))

    g = watched.make(model)
    watched.fit(g, rows)
    state["shift"] = 1.0
    assert (rows[:20, 0] < 0.5).all()
    assert watched.fit(g, rows).ran == STAGES
    assert_as_fresh(g, rows)


# Seeds


@pytest.mark.parametrize("random_state", [None, np.random.default_rng(0), np.random.RandomState(0)], ids=type)
def test_without_a_seed_nothing_is_kept(watched, X, random_state):
    g = watched.make(random_state=random_state)
    first = watched.fit(g, X)
    points = g.boundary_.points
    again = watched.fit(g, X)
    assert again.ran == STAGES
    assert again.explained == 25
    assert again.model_rows > first.model_rows / 2
    assert not np.array_equal(g.boundary_.points, points)


# Explainers


class Learner(Explainer):
    """Learns the mean of all rows."""

    learns = True

    def __init__(self, log):
        self.log = log

    def learn(self, rows, seed):
        self.mean_ = rows.mean(axis=0)
        self.log.append(("learn", len(rows)))

    def _explain(self, Z, seeds):
        self.log.append(("explain", len(Z)))
        return Attribution(Z - self.mean_)


def test_explainer_that_learns_does_so_once(make, X):
    log = SimpleNamespace(append=(lines := []).append)
    g = make(explainer=Learner(log), noise=0.01).fit(X)
    assert lines == [("learn", 120), ("explain", 25)]
    lines.clear()
    g.set_params(n_explained=40).fit(X)
    assert lines == [("explain", 15)]
    np.testing.assert_allclose(g.explain(X[:2]).values, X[:2] - X.mean(axis=0))


def redefined(factor):
    """A class of this name, as someone who edits it defines it again and again."""

    class Mine(Explainer):
        def _explain(self, Z, seeds):
            return Attribution(factor * Z)

    return Mine


def test_explainer_of_a_class_defined_anew(make, X):
    g = make(explainer=redefined(2.0)()).fit(X)
    g.set_params(explainer=redefined(3.0)()).fit(X)
    np.testing.assert_allclose(g.attributions_.values, 3.0 * g.X_explained_)


def test_parameters_of_an_explainer_changed_where_it_stands(make, X):
    g = make(explainer=ShapleySampling(2), n_explained=6).fit(X)
    g.explainer.n_permutations = 40
    g.fit(X)
    assert_as_fresh(g, X, X[:3])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))], ids=["copy", "pickle"])
def test_copies_fit_everything_again(make, X, copied):
    """They are not told by their address: a new explainer may get that of one which is gone."""
    twin = copied(make().fit(X))
    boundary, graph = twin.boundary_, twin.graph_
    twin.fit(X)
    assert twin.boundary_ is not boundary
    assert twin.graph_ is not graph
    assert_as_fresh(twin, X)


def test_given_attributions_and_then_an_explainer(watched, models, X):
    """Attributions computed elsewhere are not taken for the explainer's, nor the other way round."""
    g = watched.make()
    watched.fit(g, X, X_explained=X[:25], attributions=X[:25])
    again = watched.fit(g, X, X_explained=X[:25])
    assert again.explained == 25
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X[:25]))
    watched.fit(g, X, X_explained=X[:25], attributions=X[:25])
    np.testing.assert_array_equal(g.attributions_.values, X[:25])


def test_what_users_do_with_the_attributes_does_not_matter(make, X):
    g = make(explainer=lambda X: (2.0 * X, 0.1 + X**2)).fit(X)
    for array in (g.attributions_.values, g.attributions_.variance, g.X_explained_):
        array[:] = 7.0
    g.fit(X)
    assert_as_fresh(g, X)
    np.testing.assert_array_equal(g.attributions_.values, 2.0 * g.X_explained_)


# Failures


def test_failed_fit_leaves_nothing(make, models, X):
    g = make().fit(X)
    g.set_params(model=lambda X: np.zeros(len(X)))
    with pytest.raises(BoundaryNotFoundError, match=r"^The model predicts class 0 for all 120 rows"):
        g.fit(X)
    assert not [name for name in vars(g) if name.endswith("_") or name.startswith("_")]
    with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
        g.explain(X)
    assert g.set_params(model=models.curved).fit(X).explain(X[:2]).shape == (2, 3)


def test_refit_that_fails_on_its_way(watched, X):
    def refuse(X):
        raise RuntimeError("tired")

    g = watched.make()
    watched.fit(g, X)
    good = g.explainer
    with pytest.raises(ExplainerError, match="tired"):
        g.set_params(explainer=refuse).fit(X)
    assert not [name for name in vars(g) if name.endswith("_") or name.startswith("_")]
    with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
        g.explain(X)
    assert watched.fit(g.set_params(explainer=good), X).ran == STAGES
    assert_as_fresh(g, X)


def test_loaded_gpec_fits_everything_again(watched, tmp_path, X):
    g = watched.make()
    watched.fit(g, X)
    g.save(tmp_path / "g")
    loaded = type(g).load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert watched.fit(loaded, X).ran == STAGES
    assert_as_fresh(loaded, X)
