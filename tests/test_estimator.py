"""GPEC from end to end: the contract, the paper's formula, every kind of explainer, reuse, clones."""

import copy
import inspect
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import shap
import torch
import xgboost
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from threadpoolctl import threadpool_info

import gpec
from gpec import GPEC, PAPER, fitted
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.errors import BoundaryNotFoundError, InputError, ModelMismatchError, NumericalError
from gpec.gp import ExactPosterior, LowRankPosterior, Prediction
from gpec.kernels import EG, RBF, WEG

# The contract

DEFAULTS = {
    "kernel": "weg",
    "lam": "auto",
    "rho": "auto",
    "boundary": "auto",
    "n_boundary": 2000,
    "n_neighbors": 10,
    "n_landmarks": "auto",
    "components": "separate",
    "n_explained": 200,
    "background": 100,
    "noise": "auto",
    "n_resamples": 10,
    "output_scale": "evidence",
    "standardize": True,
    "model_output": "auto",
    "threshold": 0.5,
    "categorical_features": "auto",
    "random_state": None,
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
        ("X_explained", "KEYWORD_ONLY", None),
        ("attributions", "KEYWORD_ONLY", None),
        ("attribution_variance", "KEYWORD_ONLY", None),
    ]
    explain = [
        ("X", "POSITIONAL_OR_KEYWORD", empty),
        ("attribution", "KEYWORD_ONLY", "explainer"),
        ("confidence_level", "KEYWORD_ONLY", 0.95),
    ]
    assert shape(GPEC.explain) == explain
    assert shape(GPEC.__call__) == explain
    assert shape(GPEC.save) == [("path", "POSITIONAL_OR_KEYWORD", empty)]
    assert [p.name for p in inspect.signature(GPEC.load).parameters.values()] == ["path", "model", "explainer"]


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
    for action in (lambda g: g.explain(X), lambda g: g(X), lambda g: g.save(tmp_path / "g")):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call fit\(X\) first") as error:
            action(make())
        assert isinstance(error.value, gpec.errors.GPECError)


# The paper


def test_paper_settings():
    assert PAPER == {
        "standardize": False,
        "lam": 1.0,
        "rho": 0.1,
        "output_scale": 1.0,
        "noise": 1e-4,
        "n_neighbors": 5,
    }


def geodesics(M, k):
    """Shortest paths over the k-nearest-neighbour graph, by Floyd and Warshall."""
    D = cdist(M, M)
    paths = np.full_like(D, np.inf)
    np.fill_diagonal(paths, 0.0)
    for i in range(len(M)):
        for j in np.argsort(D[i])[1 : k + 1]:
            paths[i, j] = paths[j, i] = D[i, j]
    for m in range(len(M)):
        paths = np.minimum(paths, paths[:, [m]] + paths[[m], :])
    return paths


def algorithms_1_and_2(M, X, E, x, *, lam, rho, noise, k, normalize=True):
    """Mean and variance at rows ``x``, as the paper writes them (normalised: Eq. 9)."""
    G = np.exp(-lam * geodesics(M, k))
    assert np.linalg.eigvalsh(G).min() > 1e-6  # else the paper's formula has no meaning

    def weights(rows):
        w = np.exp(-rho * cdist(rows, M, "sqeuclidean"))
        return w / w.sum(axis=1, keepdims=True)

    def kernel(a, b):
        K = weights(a) @ G @ weights(b).T
        if not normalize:
            return K
        own = [np.sqrt(np.einsum("ij,jk,ik->i", weights(r), G, weights(r))) for r in (a, b)]
        return K / np.outer(*own)

    A = kernel(X, X) + noise * np.eye(len(X))
    kx = kernel(X, x)
    variance = np.diag(kernel(x, x)) - np.einsum("ij,ij->j", kx, np.linalg.solve(A, kx))
    return kx.T @ np.linalg.solve(A, E), variance


BOUNDARIES = {
    "line": lambda X: expit(X[:, 0] - 2 * X[:, 1] + 0.2),
    "parabola": lambda X: expit(X[:, 1] - 0.5 * X[:, 0] ** 2 + 0.3),
    "circle": lambda X: expit(1.2 - (X**2).sum(axis=1)),
}


@pytest.mark.parametrize("model", BOUNDARIES)
@pytest.mark.parametrize("changes", [{}, {"rho": 5.0}, {"lam": 3.0, "noise": 1e-2}, {"rho": 2.0, "n_neighbors": 8}])
def test_paper_formula(models, model, changes):
    X = np.random.default_rng(0).normal(2.0, 3.0, size=(120, 2)) - 2.0
    settings = {**PAPER, **changes}
    g = GPEC(BOUNDARIES[model], models.slopes, **settings, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert len(g.boundary_) == 50
    e = g.explain(X[:30], attribution="posterior")
    mean, variance = algorithms_1_and_2(
        g.boundary_.points,
        g.X_explained_,
        models.slopes(g.X_explained_),
        X[:30],
        lam=settings["lam"],
        rho=settings["rho"],
        noise=settings["noise"],
        k=settings["n_neighbors"],
    )
    # one kernel for all features and noise that is the same everywhere: one variance for all features
    np.testing.assert_allclose(e.variance, np.repeat(variance[:, None], 2, axis=1), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(e.values, mean, rtol=1e-4, atol=1e-5)
    assert np.ptp(variance) > 1e-5  # there was something to compare


def test_unnormalised_paper_formula(models):
    X = np.random.default_rng(0).normal(size=(120, 2))
    kernel = WEG(1.0, 2.0, normalize=False)
    g = GPEC(BOUNDARIES["parabola"], models.slopes, **PAPER, kernel=kernel, n_boundary=50, n_explained=20)
    g.set_params(random_state=0).fit(X)
    _, variance = algorithms_1_and_2(
        g.boundary_.points,
        g.X_explained_,
        models.slopes(g.X_explained_),
        X[:30],
        lam=1.0,
        rho=2.0,
        noise=1e-4,
        k=5,
        normalize=False,
    )
    np.testing.assert_allclose(g.explain(X[:30]).variance[:, 0], variance, rtol=1e-5, atol=1e-9)


def test_paper_and_default_differ(models, X):
    paper = GPEC(models.curved, models.slopes, **PAPER, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert paper.posterior_.parameters.free_mean is False
    assert (paper.posterior_.parameters.scale == 1.0).all()
    assert (paper.posterior_.parameters.nugget == 0.0).all()
    default = GPEC(models.curved, models.slopes, n_boundary=50, n_explained=20, random_state=0).fit(X)
    assert default.posterior_.parameters.free_mean is True
    assert len(np.unique(default.posterior_.parameters.scale)) == 3


# Explanations


def test_values_are_the_explainers(make, models, X):
    e = make().fit(X).explain(X[:7])
    np.testing.assert_array_equal(e.values, models.slopes(X[:7]))
    np.testing.assert_array_equal(e.data, X[:7])
    assert e.feature_names == ["x0", "x1", "x2"]
    assert e.output_names == "1"


@pytest.mark.parametrize("classes", [2, 3])
def test_variance_is_the_same_for_both_attributions(make, models, X, classes):
    if classes == 2:
        g = make(noise=0.01).fit(X)
    else:
        g = make(models.three_classes, models.slopes_of_three, noise=0.01).fit(X)
    a, b = g.explain(X[:6]), g.explain(X[:6], attribution="posterior")
    np.testing.assert_array_equal(a.boundary_variance, b.boundary_variance)
    np.testing.assert_array_equal(a.noise_variance, b.noise_variance)
    assert np.abs(a.values - b.values).max() > 1e-6
    for e in (a, b):
        np.testing.assert_array_equal(e.boundary_variance + e.noise_variance, e.variance)
        assert (e.boundary_variance >= 0).all()
        assert (e.noise_variance >= 0).all()
        assert (e.variance > 0).all()
        assert (e.lower <= e.values).all()
        assert (e.values <= e.upper).all()


def test_posterior_needs_no_explainer_and_no_model(make, models, counting, X):
    calls = []

    def explainer(X):
        calls.append(len(X))
        return models.slopes(X)

    model = counting(models.curved)
    g = make(model, explainer).fit(X)
    calls.clear()
    model.n_calls = 0
    e = g.explain(X[:6], attribution="posterior")
    assert calls == []
    assert model.n_calls == 0
    assert e.base_values is None
    assert e.explainer_variance is None
    assert e.diagnostics["model_rows"] == 0
    assert e.diagnostics["attribution"] == "posterior"


def test_posterior_mean_passes_through_the_explained_rows(make, models, X):
    g = make(noise=1e-9, output_scale=1.0, n_explained=15, kernel="rbf").fit(X)
    e = g.explain(g.X_explained_, attribution="posterior")
    np.testing.assert_allclose(e.values, models.slopes(g.X_explained_), atol=1e-3)
    assert e.variance.max() < 1e-5


def test_far_from_the_explained_rows_less_is_known(make, X):
    # explained rows at one end of a straight boundary, queries at both
    g = make(lambda X: expit(X[:, 0]), lam=2.0, rho=5.0, output_scale=1.0, standardize=False, n_neighbors=6, noise=1e-4)
    rows = np.random.default_rng(0).uniform(-1, 1, (400, 2)) * [1.0, 5.0]
    g.set_params(n_boundary=200, explainer=lambda X: X).fit(rows, X_explained=rows[rows[:, 1] < -3])
    near, far = g.explain([[0.1, -4.0], [0.1, 4.0]]).variance[:, 0]
    assert near < 0.1 * far
    assert far > 0.5


def test_confidence_level(make, X):
    g = make().fit(X)
    a, b = g.explain(X[:4], confidence_level=0.5), g.explain(X[:4])
    assert b.confidence_level == 0.95
    np.testing.assert_array_equal(a.lower, b.interval(0.5)[0])
    assert (a.width < b.width).all()


# Kinds of explainers


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).uniform(-0.01, 0.01, X.shape)
    return X, y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["TreeExplainer", "ExactExplainer", "KernelExplainer", "kernelshap", "tree"])
def test_shap(make, iris, kind, classes):
    X, y = iris
    model = RandomForestClassifier(8, max_depth=3, random_state=0).fit(X, y if classes == 3 else y == 1)
    if kind == "TreeExplainer":
        explainer = shap.TreeExplainer(model)
    elif kind in ("ExactExplainer", "KernelExplainer"):
        explainer = getattr(shap, kind)(model.predict_proba, X[::25])
    else:
        explainer = kind
    g = make(model, explainer, n_explained=4, n_boundary=30, background=5).fit(X)
    p = model.predict_proba(X[60:63])
    e = g.explain(X[60:63])
    assert e.shape == ((3, 4) if classes == 2 else (3, 4, 3))
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, p[:, 1] if classes == 2 else p, atol=1e-6)
    assert e.output_names == ("True" if classes == 2 else ["0", "1", "2"])
    assert e.diagnostics["unit"] == (
        "probability" if isinstance(kind, str) and kind.islower() else g.diagnostics_["unit"]
    )
    assert not e.noise_variance.any()


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("pair", [False, True])
def test_trailing_axis_of_two_classes(make, models, X, axis, pair):
    def explainer(rows):
        values, variance = models.slopes(rows), 0.1 + rows**2
        if axis == 1:
            values, variance = values[:, :, None], variance[:, :, None]
        else:
            values, variance = np.stack((-values, values), -1), np.stack((7 * variance, variance), -1)
        return (values, variance) if pair else values

    e = make(explainer=explainer).fit(X).explain(X[:4])
    assert e.shape == (4, 3)
    np.testing.assert_array_equal(e.values, models.slopes(X[:4]))
    if pair:
        np.testing.assert_array_equal(e.explainer_variance, 0.1 + X[:4] ** 2)
    else:
        assert e.explainer_variance is None


def test_several_classes(make, models, X):
    g = make(models.three_classes, models.slopes_of_three).fit(X)
    e = g.explain(X[:4])
    assert e.shape == (4, 3, 3)
    np.testing.assert_array_equal(e.values, models.slopes_of_three(X[:4]))
    assert g.classes_.tolist() == [0, 1, 2]
    assert e.output_names == ["0", "1", "2"]
    for part in (g.graph_, g.kernel_, g.posterior_):
        assert isinstance(part, tuple)
        assert len(part) == 3
    assert set(g.boundary_.label) == {0, 1, 2}
    assert len(g.diagnostics_["boundary_points"]) == 3
    assert min(g.diagnostics_["boundary_points"]) >= 60


def test_each_class_has_its_own_boundary(make, models, X):
    """The layer of one class is what the two-class model 'this class or not' would give."""
    noise = np.array([0.0, 0.01, 0.1])
    g = make(models.three_classes, models.slopes_of_three, n_neighbors=6, noise=noise.reshape(1, 1, 3)).fit(X)
    for c in range(3):
        points = g.boundary_.of(c).points
        alone = make(
            lambda X, c=c: (models.three_classes(X).argmax(axis=1) == c) * 1.0,
            lambda X, c=c: models.slopes_of_three(X)[:, :, c],
            boundary=points,
            n_neighbors=6,
            noise=noise[c],
        ).fit(X)
        a = g.explain(X[:5])[:, :, c]
        b = alone.explain(X[:5])
        np.testing.assert_allclose(a.variance, b.variance, rtol=1e-8)
        np.testing.assert_allclose(a.noise_variance, b.noise_variance, rtol=1e-6)
        p, q = (part.explain(X[:5], attribution="posterior") for part in (g, alone))
        np.testing.assert_allclose(p.values[:, :, c], q.values, atol=1e-8)


def test_given_attributions_are_all_used(make, models, X):
    g = make(n_explained=5).fit(X, attributions=models.slopes(X))
    np.testing.assert_array_equal(g.X_explained_, X)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X))
    assert g.diagnostics_["unit"] == "as given"
    g = make(n_explained=5).fit(X, X_explained=X[:30], attributions=models.slopes(X[:30]))
    np.testing.assert_array_equal(g.X_explained_, X[:30])


def test_given_attributions_are_those_of_the_explainer(make, models, X):
    own = make(n_explained=500).fit(X)
    given = make(explainer=None).fit(X, attributions=models.slopes(X))
    a, b = (part.explain(X[:5], attribution="posterior") for part in (own, given))
    np.testing.assert_array_equal(a.variance, b.variance)
    np.testing.assert_array_equal(a.values, b.values)
    with pytest.raises(InputError, match="There is no explainer; pass attribution='posterior'"):
        given.explain(X[:5])


def test_given_attributions_and_an_explainer(make, models, X):
    g = make(explainer=lambda X: models.slopes(X) + 1).fit(X, attributions=models.slopes(X))
    np.testing.assert_array_equal(g.explain(X[:5]).values, models.slopes(X[:5]) + 1)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X))


@pytest.mark.parametrize("columns", [["a", "b", "c"], ["c", "a", "b"], [0, 1, 2]])
def test_given_attributions_as_a_frame(make, models, X, columns):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    few = models.slopes(X[:8])
    values = pd.DataFrame(few, columns=["a", "b", "c"] if isinstance(columns[0], str) else columns)[columns]
    g = make(explainer=None).fit(frame, X_explained=frame[:8], attributions=values, attribution_variance=values**2)
    np.testing.assert_array_equal(g.attributions_.values, few)
    np.testing.assert_array_equal(g.attributions_.variance, few**2)


def test_given_attributions_with_two_outputs(make, models, X):
    both = np.stack((-models.slopes(X), models.slopes(X)), axis=-1)
    g = make(explainer=None).fit(X, attributions=both)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X))


# Kinds of models


def test_torch_module(make, models, X):
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    ).train()
    g = make(net).fit(X)
    assert g.explain(X[:3]).shape == (3, 3)
    assert net.training  # left as it was
    before, beyond = g.boundary_.ends()
    net.eval()
    labels = [net(torch.as_tensor(end, dtype=torch.float32)).argmax(1).numpy() for end in (before, beyond)]
    assert (labels[0] != labels[1]).all()


def test_booster(make, X):
    y = X[:, 0] + X[:, 1] ** 2 > 0.5
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2).fit(X, y)
    e = make(model.get_booster(), "tree", n_explained=5, n_boundary=20).fit(X).explain(X[:3])
    expected = model.predict_proba(X[:3])[:, 1]
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, expected, atol=1e-5)


def test_logits_and_threshold(make, X):
    def logits(X):
        return 3.0 * X[:, 0] - 1.0

    g = make(logits, model_output="logit").fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], 1 / 3, atol=1e-5)
    g = make(logits, model_output="logit", threshold=0.9).fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], (1 + np.log(9)) / 3, atol=1e-5)
    g = make(lambda X: expit(logits(X)), threshold=0.9).fit(X)
    np.testing.assert_allclose(g.boundary_.points[:, 0], (1 + np.log(9)) / 3, atol=1e-5)


def test_strings_through_a_pipeline(make):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], 300),
            "shape": rng.choice(["cone", "cube", "ring", "rod"], 300),
            "maker": rng.choice(["A", "B", "C", "D", "E"], 300),
        }
    )
    score = (frame["colour"] == "red") * 2.0 + (frame["shape"] == "cube") * 1.0 - (frame["maker"] == "C") * 1.5
    sold = np.where(score > 0.5, "sold", "kept")
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(frame, sold)
    g = make(model, n_explained=20, explainer="kernelshap", n_boundary=40, background=5).fit(frame)
    e = g.explain(frame[:5])
    assert e.feature_names == ["colour", "shape", "maker"]
    assert e.output_names == "sold"
    assert g.classes_.tolist() == ["kept", "sold"]
    assert g.feature_names_in_.tolist() == ["colour", "shape", "maker"]
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, model.predict_proba(frame[:5])[:, 1], atol=1e-8)
    assert e.data[0].tolist() == frame.iloc[0].tolist()
    assert np.isfinite(e.variance).all()
    assert set(g.X_explained_["colour"]) <= {"blue", "green", "red"}
    assert e[:, "shape"].to_frame()["data"].tolist() == frame["shape"][:5].tolist()
    # every point lies where a change of one category changes the class
    assert (g.boundary_.switched >= 0).all()


def test_mixed_columns(make, mixed):
    g = make(mixed.model, lambda frame: np.column_stack([frame["price"]] * 5), n_boundary=80).fit(mixed.frame)
    e = g.explain(mixed.frame[:6])
    assert e.shape == (6, 5)
    assert e.data[:, 0].tolist() == mixed.frame["colour"][:6].tolist()
    assert list(g.X_explained_.dtypes) == list(mixed.frame.dtypes)
    before, beyond = (mixed.model.predict(g._fitted.table.decode(end)) for end in g.boundary_.ends())
    assert (before != beyond).all()


# What fit keeps


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
    assert set(d["seconds"]) == {"explainer", "boundary", "geometry", "kernel", "gp"}
    assert all(seconds >= 0 for seconds in d["seconds"].values())
    assert d["boundary_points"] == [60]
    assert d["components"] == [g.graph_.n_components]
    assert d["landmarks"] == [60]
    assert d["kernel"] == [g.kernel_.diagnostics()]
    assert {"lam", "rho", "clipped_mass"} <= set(d["kernel"][0])
    assert d["scale"] == [g.posterior_.parameters.scale.tolist()]
    assert d["nugget"] == [g.posterior_.parameters.nugget.tolist()]
    assert d["condition"] == [g.posterior_.condition]
    assert d["jitter"] == gpec.gp.regression.JITTER
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
    monkeypatch.setattr(gpec.estimator.time, "perf_counter", lambda: float(next(ticks)))
    g = make(models.three_classes, models.slopes_of_three).fit(X)
    assert g.diagnostics_["seconds"] == {"explainer": 1.0, "boundary": 1.0, "geometry": 3.0, "kernel": 3.0, "gp": 3.0}


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


def test_number_of_explained_and_background_rows(make, models, X):
    g = make(n_explained=7, background=4).fit(X)
    assert len(g.X_explained_) == 7
    assert len(g._fitted.background) == 4
    for rows in (g.X_explained_, g._fitted.background):
        assert (rows[:, None, :] == X[None]).all(axis=2).any(axis=1).all()  # rows of X
    assert len(np.unique(g.X_explained_, axis=0)) == 7
    other = make(n_explained=7, background=4, random_state=1).fit(X)  # drawn, not the first ones
    assert not np.array_equal(other.X_explained_, g.X_explained_)
    assert not np.array_equal(other._fitted.background, g._fitted.background)
    assert not np.array_equal(g.X_explained_, X[:7])
    g = make(n_explained=500, background=500).fit(X)
    np.testing.assert_array_equal(g.X_explained_, X)
    np.testing.assert_array_equal(g._fitted.background, X)
    rows = X[:3] + 1.0
    np.testing.assert_array_equal(make(background=rows).fit(X)._fitted.background, rows)
    np.testing.assert_array_equal(make().fit(X, X_explained=X[:9] + 1.0).X_explained_, X[:9] + 1.0)


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


# Reuse of a boundary


CHANGES = {
    "lam": {"lam": 0.3},
    "rho": {"rho": 4.0},
    "explainer": {"explainer": lambda X: 2.0 * np.asarray(X)},
    "kernel": {"kernel": RBF(1.0)},
    "scale": {"output_scale": 1.0},
}


@pytest.mark.parametrize("change", CHANGES)
def test_boundary_is_reused(make, models, counting, X, change):
    first = make().fit(X)
    model = counting(models.curved)
    g = make(model, **{"boundary": first.boundary_, **CHANGES[change]}).fit(X)
    assert g.boundary_ is first.boundary_
    sampled = first.boundary_.n_model_rows
    # both ends of some points, and a few rows twice; no sampling
    assert model.n_rows <= 2 * 60 + 2 * 20 < sampled / 5
    fresh = make(**CHANGES[change]).fit(X)
    np.testing.assert_array_equal(g.explain(X[:4]).variance, fresh.explain(X[:4]).variance)


def test_boundary_is_reused_for_other_rows(make, models, counting, X):
    model = counting(models.curved)
    g = make(model, boundary=make().fit(X).boundary_).fit(X, X_explained=X[50:80])
    assert model.n_rows <= 2 * 60 + 2 * 20
    np.testing.assert_array_equal(g.X_explained_, X[50:80])
    fresh = make().fit(X, X_explained=X[50:80])
    np.testing.assert_array_equal(g.explain(X[:4]).variance, fresh.explain(X[:4]).variance)


def test_boundary_of_several_classes_is_reused(make, models, counting, X):
    first = make(models.three_classes, models.slopes_of_three).fit(X)
    model = counting(models.three_classes)
    g = make(model, models.slopes_of_three, boundary=first.boundary_, lam=0.5).fit(X)
    assert model.n_rows <= 2 * 100 + 2 * 20
    fresh = make(models.three_classes, models.slopes_of_three, lam=0.5).fit(X)
    np.testing.assert_array_equal(g.explain(X[:4]).variance, fresh.explain(X[:4]).variance)


def test_boundary_as_an_array_or_a_frame(make, X):
    first = make().fit(X)
    expected = first.explain(X[:4]).variance
    points = first.boundary_.points
    for boundary in (points, points.tolist(), pd.DataFrame(points)):
        g = make(boundary=boundary).fit(X)
        np.testing.assert_array_equal(g.explain(X[:4]).variance, expected)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    g = make(boundary=pd.DataFrame(points, columns=["a", "b", "c"])[["c", "a", "b"]]).fit(frame)
    np.testing.assert_array_equal(g.explain(frame[:4]).variance, expected)


def test_boundary_of_a_mixed_frame(make, mixed):
    def explainer(frame):
        return np.column_stack([frame["price"]] * 5)

    first = make(mixed.model, explainer).fit(mixed.frame)
    expected = first.explain(mixed.frame[:4]).variance
    table = first._fitted.table
    for boundary in (first.boundary_, first.boundary_.points, table.decode(first.boundary_.points)):
        g = make(mixed.model, explainer, boundary=boundary).fit(mixed.frame)
        np.testing.assert_array_equal(g.explain(mixed.frame[:4]).variance, expected)


def test_boundary_of_another_model_is_refused(make, models, X):
    first = make().fit(X)
    with pytest.raises(ModelMismatchError, match=r"boundary does not belong to this model.*boundary='auto'"):
        make(lambda X: expit(X[:, 0] + 3 * X[:, 1] - 1), boundary=first.boundary_).fit(X)
    with pytest.raises(InputError, match="boundary"):
        make(models.three_classes, models.slopes_of_three, boundary=first.boundary_).fit(X)


def test_own_sampler(make, X):
    g = make(boundary=BisectionSampler(pairing="random", tolerance=1e-3)).fit(X)
    assert g.boundary_.residual.max() > 1e-5
    assert np.abs(g.boundary_.points - make().fit(X).boundary_.points[: len(g.boundary_)]).max() > 1e-3


# Parameters and clones


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
    with pytest.raises(NotFittedError):
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


def test_fitted_again(make, models, X):
    g = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]))
    first = g.explain(pd.DataFrame(X[:3], columns=["a", "b", "c"])).variance
    g.fit(X[:, :2])
    assert g.n_features_in_ == 2
    assert not hasattr(g, "feature_names_in_")
    assert g.explain(X[:3, :2]).shape == (3, 2)
    np.testing.assert_array_equal(g.fit(X).explain(X[:3]).variance, first)


def test_failed_fit_leaves_nothing(make, models, X):
    g = make().fit(X)
    g.set_params(model=lambda X: np.zeros(len(X)))
    with pytest.raises(BoundaryNotFoundError):
        g.fit(X)
    assert not [name for name in vars(g) if name.endswith("_") or name.startswith("_")]
    with pytest.raises(NotFittedError):
        g.explain(X)
    assert g.set_params(model=models.curved).fit(X).explain(X[:2]).shape == (2, 3)


def test_failed_explain_leaves_it_fitted(make, models, X):
    g = make().fit(X)
    expected = g.explain(X[:3]).variance
    with pytest.raises(InputError):
        g.explain(X[:3, :2])
    np.testing.assert_array_equal(g.explain(X[:3]).variance, expected)


# Blocks, classes and many rows


def test_blocks_do_not_matter(make, X, monkeypatch):
    g = make(noise=0.01).fit(X)
    whole = g.explain(X)
    monkeypatch.setattr(fitted, "_BLOCK", 7)
    for n_jobs in (None, 1, 2, -1):
        parts = g.set_params(n_jobs=n_jobs).explain(X)
        np.testing.assert_allclose(parts.variance, whole.variance, rtol=1e-10)
        np.testing.assert_allclose(parts.noise_variance, whole.noise_variance, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("noise", [0.01, "varying"])
def test_many_explained_rows(make, models, X, monkeypatch, noise):
    if noise == "varying":
        noise = 0.01 + 0.1 * np.random.default_rng(0).random((15, 3))
    g = make(noise=noise, n_explained=15)
    dense = g.fit(X).explain(X[:9], attribution="posterior")
    assert isinstance(g.posterior_, ExactPosterior)
    monkeypatch.setattr(fitted, "_DENSE_ROWS", 14)
    low = g.fit(X).explain(X[:9], attribution="posterior")
    assert isinstance(g.posterior_, LowRankPosterior)
    np.testing.assert_allclose(low.variance, dense.variance, rtol=1e-4)
    np.testing.assert_allclose(low.values, dense.values, atol=1e-4)


def test_parameters_are_learned_from_some_of_the_rows(make, models, X, monkeypatch):
    everything = make(n_explained=100).fit(X).posterior_.parameters.scale
    monkeypatch.setattr(gpec.estimator, "_EVIDENCE_ROWS", 50)
    some = make(n_explained=100).fit(X).posterior_
    assert (some.parameters.scale != everything).all()
    np.testing.assert_allclose(some.parameters.scale, everything, rtol=3.0)


class FakePosterior:
    scale = np.ones(2)

    def predict(self, k, diagonal):
        n = len(k)
        return Prediction(np.zeros((n, 2)), np.ones((n, 2)), np.zeros((n, 2)), n_clamped=len(k) + 1)


def test_clamps_are_counted_over_blocks_and_classes(monkeypatch):
    layer = SimpleNamespace(posterior=FakePosterior(), against=lambda E: (E, E))
    monkeypatch.setattr(fitted, "_BLOCK", 4)
    E = np.zeros((10, 2))
    assert fitted.predict([layer], E, 1, False).n_clamped == 5 + 5 + 3
    assert fitted.predict([layer, layer, layer], E, 2, False).n_clamped == 3 * 13


def test_one_blas_thread_in_each_block():
    seen = []

    def against(E):
        seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return E, E

    fitted.predict([SimpleNamespace(posterior=FakePosterior(), against=against)], np.zeros((3, 2)), 1, False)
    assert set(seen) == {1}


def test_clamps_are_reported(make, X, monkeypatch):
    g = make().fit(X)
    real = gpec.estimator.predict

    def clamped(*arguments):
        answer = real(*arguments)
        return Prediction(answer.mean, answer.boundary_variance, answer.noise_variance, 17)

    monkeypatch.setattr(gpec.estimator, "predict", clamped)
    assert g.explain(X[:3]).diagnostics["clamped"] == 17


@pytest.mark.parametrize("part", ["mean", "boundary_variance", "noise_variance"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_posterior_that_is_not_finite(make, X, monkeypatch, part, value):
    g = make().fit(X)
    real = gpec.estimator.predict

    def broken(*arguments):
        answer = real(*arguments)
        parts = {name: getattr(answer, name) for name in ("mean", "boundary_variance", "noise_variance")}
        parts[part][1, 1] = value
        return Prediction(**parts, n_clamped=0)

    monkeypatch.setattr(gpec.estimator, "predict", broken)
    with pytest.raises(NumericalError, match="not finite"):
        g.explain(X[:3], attribution="posterior")


def test_negative_variance_is_an_error(make, X, monkeypatch):
    """Beyond rounding it is raised, not hidden."""
    g = make(output_scale=1.0, noise=0.01).fit(X)
    g.posterior_._inverse["boundary"] *= 1.5
    with pytest.raises(NumericalError, match="variance of feature"):
        g.explain(X)
