"""The contract of GPEC: signatures, parameters, clones, copies."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import shap
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid

import gpec
from gpec import GPEC
from gpec.kernels import RBF, WEG

DEFAULTS = {
    "mode": "auto",
    "kernel": "auto",
    "similar": "auto",
    "task_kernel": None,
    "groups": None,
    "lam": "auto",
    "rho": "auto",
    "boundary": "auto",
    "n_boundary": "auto",
    "n_neighbors": 10,
    "n_landmarks": "auto",
    "components": "separate",
    "n_explained": "auto",
    "fit_samples": "auto",
    "budget": None,
    "draw": "output",
    "background": "auto",
    "noise": "auto",
    "n_resamples": 10,
    "output_scale": "evidence",
    "standardize": True,
    "model_output": "auto",
    "threshold": 0.5,
    "categorical_features": "auto",
    "random_state": None,
    "batch_size": None,
    "n_jobs": None,
    "progress": "auto",
}


def test_signature_of_the_class():
    parameters = inspect.signature(GPEC).parameters
    assert list(parameters) == ["model", "explainer", *DEFAULTS]
    assert parameters["model"].default is inspect.Parameter.empty
    assert parameters["explainer"].default == "kernelshap"
    for name in ("model", "explainer"):
        assert parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, default in DEFAULTS.items():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert parameters[name].default == default, name
        assert type(parameters[name].default) is type(default), name


def test_signatures_of_the_methods():
    def shape(method):
        return [(p.name, p.kind.name, p.default) for p in inspect.signature(method).parameters.values()][1:]

    empty = inspect.Parameter.empty
    assert shape(GPEC.fit) == [
        ("X", "POSITIONAL_OR_KEYWORD", empty),
        ("y", "POSITIONAL_OR_KEYWORD", None),
        ("targets", "KEYWORD_ONLY", None),
        ("X_explained", "KEYWORD_ONLY", None),
        ("attributions", "KEYWORD_ONLY", None),
        ("attribution_variance", "KEYWORD_ONLY", None),
        ("checkpoint", "KEYWORD_ONLY", None),
    ]
    explain = [
        ("X", "POSITIONAL_OR_KEYWORD", empty),
        ("attribution", "KEYWORD_ONLY", "explainer"),
        ("attributions", "KEYWORD_ONLY", None),
        ("confidence_level", "KEYWORD_ONLY", 0.95),
        ("n_similar_explained", "KEYWORD_ONLY", None),
        ("groups", "KEYWORD_ONLY", None),
        ("keep_similar", "KEYWORD_ONLY", True),
        ("budget", "KEYWORD_ONLY", None),
        ("checkpoint", "KEYWORD_ONLY", None),
    ]
    assert shape(GPEC.explain) == explain
    assert shape(GPEC.__call__) == explain
    assert shape(GPEC.calibrate) == [
        ("X", "POSITIONAL_OR_KEYWORD", empty),
        ("n", "KEYWORD_ONLY", None),
        ("groups", "KEYWORD_ONLY", None),
        ("attributions", "KEYWORD_ONLY", None),
        ("n_similar_explained", "KEYWORD_ONLY", 0),
        ("checkpoint", "KEYWORD_ONLY", None),
    ]
    assert shape(GPEC.cost) == [("X", "POSITIONAL_OR_KEYWORD", empty), ("n_similar_explained", "KEYWORD_ONLY", None)]
    assert shape(GPEC.save) == [("path", "POSITIONAL_OR_KEYWORD", empty)]
    loading = [p.name for p in inspect.signature(GPEC.load).parameters.values()]
    assert loading == ["path", "model", "explainer", "similar", "max_bytes"]


def test_public_names():
    assert {"GPEC", "PAPER", "Attribution", "BoundarySample", "Explanation"} <= set(gpec.__all__)
    for name in gpec.__all__:
        assert hasattr(gpec, name), name


def test_fit_returns_self_and_ignores_y(make, X):
    g = make()
    assert g.fit(X) is g
    expected = g.explain(X[:4]).variance
    np.testing.assert_array_equal(make().fit(X, np.zeros(3)).explain(X[:4]).variance, expected)
    np.testing.assert_array_equal(make().fit(X, "anything").explain(X[:4]).variance, expected)


def test_call_is_explain(make, X):
    g = make().fit(X)
    a, b = g(X[:4], confidence_level=0.8), g.explain(X[:4], confidence_level=0.8)
    for name in ("values", "variance", "lower", "upper"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.confidence_level == 0.8


def test_not_fitted(make, X, tmp_path):
    for action in (
        lambda g: g.explain(X),
        lambda g: g(X),
        lambda g: g.calibrate(X),
        lambda g: g.save(tmp_path / "g"),
    ):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call fit\(X\) first") as error:
            action(make())
        assert isinstance(error.value, gpec.errors.GPECError)


def test_get_and_set_params(make):
    g = make(kernel=WEG(lam=0.5))
    assert g.get_params(deep=False)["n_boundary"] == 60
    assert g.get_params()["kernel__lam"] == 0.5
    assert g.set_params(n_boundary=70, kernel__lam=0.6) is g
    assert g.n_boundary == 70
    assert g.kernel.lam == 0.6
    assert set(g.get_params(deep=False)) == {"model", "explainer", *DEFAULTS}
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        g.set_params(nonsense=1)


def test_parameters_are_read_in_fit(make, X):
    g = make().fit(X)
    g.set_params(lam=0.123)
    assert g.kernel_.lam_ != 0.123
    assert g.fit(X).kernel_.lam_ == 0.123


@pytest.mark.parametrize("kind", ["forest", "lambda", "explainer object", "boundary", "everything"])
def test_clone(make, models, X, kind):
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, models.curved(X) > 0.5)
    parameters = {
        "forest": {"model": forest},
        "lambda": {"model": lambda X: models.curved(X), "explainer": lambda X: models.slopes(X)},
        "explainer object": {"model": forest, "explainer": shap.TreeExplainer(forest)},
        "boundary": {"boundary": make().fit(X).boundary_},
        "everything": {
            "kernel": 0.5 * WEG() + RBF(),
            "background": X[:5],
            "noise": np.full((25, 3), 0.1),
            "random_state": np.random.default_rng(0),
            "categorical_features": None,
        },
    }[kind]
    g = make(**parameters)
    twin = clone(g)
    assert twin is not g
    assert type(twin) is GPEC
    for name in ("model", "explainer", "boundary"):
        assert getattr(twin, name) is getattr(g, name), name
    for name in ("kernel", "background", "noise", "random_state"):
        if kind == "everything":
            assert getattr(twin, name) is not getattr(g, name), name
    assert list(twin.get_params(deep=False)) == list(g.get_params(deep=False))
    a = g.fit(X).explain(X[:3])
    assert not hasattr(twin, "boundary_")
    b = twin.fit(X).explain(X[:3])
    np.testing.assert_array_equal(a.variance, b.variance)
    np.testing.assert_array_equal(a.values, b.values)
    third = clone(g)
    assert not [name for name in vars(third) if name.endswith("_")]
    with pytest.raises(NotFittedError, match=r"^This GPEC is not fitted yet"):
        third.explain(X[:3])
    if kind == "forest":
        assert forest.predict_proba(X[:2]).shape == (2, 2)  # still fitted


def test_pickles_and_copies(make, X):
    model = LogisticRegression().fit(X, X[:, 0] > X[:, 1])
    g = make(model, explainer=np.asarray, noise=0.01).fit(X)
    expected = g.explain(X[:4])
    for twin in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g)):
        found = twin.explain(X[:4])
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.variance, expected.variance)


def test_clones_of_a_grid(make, X):
    """The way scikit-learn's searches use an estimator."""
    g = make()
    scales = [clone(g).set_params(**point).fit(X).kernel_.lam_ for point in ParameterGrid({"lam": [0.5, 2.0]})]
    assert scales == [0.5, 2.0]
