"""Explainers of every kind, attributions computed elsewhere, two classes and several."""

import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier


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
    others = ("ExactExplainer", "KernelExplainer")
    if kind == "TreeExplainer":
        explainer = shap.TreeExplainer(model)
    elif kind in others:
        explainer = getattr(shap, kind)(model.predict_proba, X[::25])
    else:
        explainer = kind
    g = make(model, explainer, n_explained=4, n_boundary=30, background=5).fit(X)
    p = model.predict_proba(X[60:63])
    e = g.explain(X[60:63])
    assert e.shape == ((3, 4) if classes == 2 else (3, 4, 3))
    np.testing.assert_allclose(e.values.sum(axis=1) + e.base_values, p[:, 1] if classes == 2 else p, atol=1e-6)
    assert e.output_names == ("True" if classes == 2 else ["0", "1", "2"])
    assert e.diagnostics["unit"] == ("as the explainer gives them" if kind in others else "probability")
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
    g = make(models.three_classes, models.slopes_of_three, n_neighbors=6, noise=noise.reshape(1, 1, 3))
    g.fit(X, X_explained=X[:25])
    for c in range(3):
        points = g.boundary_.of(c).points
        alone = make(
            lambda X, c=c: (models.three_classes(X).argmax(axis=1) == c) * 1.0,
            lambda X, c=c: models.slopes_of_three(X)[:, :, c],
            boundary=points,
            n_neighbors=6,
            noise=noise[c],
        ).fit(X, X_explained=X[:25])
        a = g.explain(X[:5])[:, :, c]
        b = alone.explain(X[:5])
        np.testing.assert_allclose(a.variance, b.variance, rtol=1e-8)
        np.testing.assert_allclose(a.noise_variance, b.noise_variance, rtol=1e-6)
        p, q = (part.explain(X[:5], attribution="posterior") for part in (g, alone))
        np.testing.assert_allclose(p.values[:, :, c], q.values, atol=1e-8)


def test_given_attributions_are_all_used(make, models, X):
    g = make(n_explained="auto").fit(X, attributions=models.slopes(X))
    np.testing.assert_array_equal(g.X_explained_, X)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X))
    g = make(n_explained="auto").fit(X, X_explained=X[:30], attributions=models.slopes(X[:30]))
    np.testing.assert_array_equal(g.X_explained_, X[:30])


def test_given_attributions_are_those_of_the_explainer(make, models, X):
    own = make(n_explained=500).fit(X)
    given = make(explainer=None, n_explained=500).fit(X, attributions=models.slopes(X))
    a, b = (part.explain(X[:5], attribution="posterior") for part in (own, given))
    np.testing.assert_array_equal(a.variance, b.variance)
    np.testing.assert_array_equal(a.values, b.values)


def test_given_attributions_and_an_explainer(make, models, X):
    """Those given are shown; those of other rows come from the explainer, which may differ a little."""
    g = make(explainer=lambda X: 1.01 * models.slopes(X)).fit(X[:80], attributions=models.slopes(X[:80]))
    some = X[[100, 0, 100, 3]]
    values = g.explain(some).values
    np.testing.assert_array_equal(values[[1, 3]], models.slopes(some[[1, 3]]))
    np.testing.assert_array_equal(values[[0, 2]], 1.01 * models.slopes(some[[0, 2]]))


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
    g = make(explainer=None, n_explained="auto").fit(X, attributions=both)
    np.testing.assert_array_equal(g.attributions_.values, models.slopes(X))
