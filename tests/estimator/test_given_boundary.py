"""A boundary that was sampled before, or is known."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from gpec.boundary import BisectionSampler
from gpec.data import Schema
from gpec.errors import InputError, ModelMismatchError
from gpec.kernels import RBF

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
    # both ends of some points, a few rows twice, and each row once to draw those to explain; no sampling
    assert model.n_rows <= 2 * 60 + 2 * 20 + len(X) < sampled / 5
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
    assert model.n_rows <= 2 * 100 + 2 * 20 + len(X)
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
    schema, _ = Schema.learn(mixed.frame)
    for boundary in (first.boundary_, first.boundary_.points, schema.decode(first.boundary_.points)):
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
