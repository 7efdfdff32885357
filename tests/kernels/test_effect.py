"""Effects: how the model's answer changes when a feature takes the value of other rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gpec
from gpec.data import Groups, Rows
from gpec.data._output_kind import Regression
from gpec.errors import InputError
from gpec.kernels import Effect, Matern, Output, Own, Rest
from gpec.pipeline.kernel_inputs import _with_effects

FEW = {"n_boundary": 120, "background": 10, "random_state": 0, "progress": False}


class Counting:
    """A function of encoded rows that counts them."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, Z):
        self.n += len(Z)
        return self.function(Z)[:, None]


def rows_of(Z, function, exchanged, members=((0,), (1,), (2,))):
    """Rows with the effects in a regressor, and the regressor."""
    model = Counting(function)
    groups = Groups(tuple(map(str, members)), tuple(map(np.array, members)))
    return _with_effects(Rows(Z, Z, groups.members, kind=Regression()), exchanged, model, groups), model


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(40, 3))


def test_the_effect_in_a_linear_model_is_that_of_its_coefficient(Z):
    weights = np.array([2.0, -1.0, 0.0])
    rows, _ = rows_of(Z, lambda Z: Z @ weights, Z[:4])
    moved = weights * (Z - Z[:4].mean(axis=0))
    np.testing.assert_allclose(rows.effects[:, :, 0], moved, atol=1e-12)
    kernel = Effect(2.0).fit(None, rows)
    apart = np.abs(moved[:, None, 0] - moved[None, :, 0]) / moved[:, 0].std() / 2.0 * np.sqrt(3)
    np.testing.assert_allclose(kernel.gram(rows, 0), (1 + apart) * np.exp(-apart), atol=1e-12)
    np.testing.assert_allclose(kernel.gram(rows, 2), 1.0)  # the model does not use it


def test_a_group_is_exchanged_as_a_whole(Z):
    rows, _ = rows_of(Z, lambda Z: Z[:, 0] * Z[:, 2] + Z[:, 1], Z[:2], ((0, 2), (1,)))
    assert rows.effects.shape == (40, 2, 1)
    own = Z[:, 0] * Z[:, 2] + Z[:, 1]
    np.testing.assert_allclose(rows.effects[:, 0, 0], own - (Z[:2, 0] * Z[:2, 2]).mean() - Z[:, 1], atol=1e-12)
    np.testing.assert_allclose(rows.effects[:, 1, 0], own - Z[:, 0] * Z[:, 2] - Z[:2, 1].mean(), atol=1e-12)


def test_the_model_is_called_only_for_rows_that_differ(Z):
    Z = np.column_stack((Z[:, 0], np.zeros(40), np.where(Z[:, 2] > 0, np.nan, 1.0)))
    _, model = rows_of(Z, lambda Z: Z[:, 0], np.array([[0.5, 0.0, np.nan]]))
    assert model.n == 40 + 40 + int((Z[:, 2] == 1.0).sum())


def test_many_rows_are_sent_in_parts(Z, monkeypatch):
    whole, _ = rows_of(Z, lambda Z: (Z**2).sum(axis=1), Z[:2])
    monkeypatch.setattr("gpec.pipeline.kernel_inputs._NUMBERS", 50)
    parts, _ = rows_of(Z, lambda Z: (Z**2).sum(axis=1), Z[:2])
    np.testing.assert_array_equal(parts.effects, whole.effects)


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X, RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X, y)


class TestInGPEC:
    def test_it_is_part_of_the_kernel_of_a_regressor(self, table):
        X, model = table
        g = gpec.GPEC(model, "tree", n_explained=40, **FEW).fit(X)
        assert g.diagnostics_["kernel"][0]["nats"]["effect"] > 20

    def test_it_predicts_unseen_attributions_better(self, table):
        X, model = table
        explained, unseen = X[:60], X[60:160]
        truth = gpec.explainers.TreeShap().fit(model, X, background=X[:10], random_state=0)(unseen).values
        error = {}
        for name, kernel in (("with", "auto"), ("without", Matern(Own(), Rest(), Output()))):
            settings = {**FEW, "background": X[:10]}
            g = gpec.GPEC(model, "tree", kernel=kernel, **settings).fit(X, X_explained=explained)
            error[name] = np.mean((g.explain(unseen, attribution="posterior").values - truth.reshape(100, -1)) ** 2)
        assert error["with"] < 0.6 * error["without"]

    def test_files_keep_it(self, table, tmp_path):
        X, model = table
        g = gpec.GPEC(model, "tree", n_explained=30, **FEW).fit(X)
        g.save(tmp_path / "fit.gpec")
        h = gpec.GPEC.load(tmp_path / "fit.gpec", model=model)
        one, other = (one.explain(X[:5], attribution="posterior") for one in (g, h))
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.std, other.std)

    def test_no_bit_depends_on_the_threads_or_on_the_rows_beside(self, table):
        X, model = table
        g = gpec.GPEC(model, "tree", n_explained=30, **FEW).fit(X)
        e = g.explain(X[:50])
        g.set_params(n_jobs=2)
        np.testing.assert_array_equal(g.explain(X[:50]).lower, e.lower)
        np.testing.assert_array_equal(g.explain(X[20:23]).lower, e.lower[20:23])

    @pytest.mark.parametrize("classes", [2, 3])
    def test_it_serves_classifiers_too(self, classes):
        X, y = load_iris(return_X_y=True, as_frame=True)
        X, y = X[y < classes], y[y < classes]
        model = RandomForestClassifier(20, min_samples_leaf=3, random_state=0).fit(X, y)
        kernel = Matern(Own(), Rest(), Output(), Effect(n_rows=2))
        e = gpec.GPEC(model, kernel=kernel, n_explained=30, **FEW).fit(X).explain(X[:5])
        assert np.isfinite(e.width).all()

    def test_columns_of_categories_and_missing_values_take_other_values(self):
        rng = np.random.default_rng(1)
        X = pd.DataFrame({"a": rng.normal(size=200), "kind": rng.choice(["p", "q", "r"], 200)})
        X.loc[::7, "a"] = np.nan

        def price(X):
            return np.nan_to_num(X["a"].to_numpy(dtype=float)) * np.where(X["kind"] == "p", 3.0, 1.0)

        g = gpec.GPEC(price, model_output="value", n_explained=40, **FEW).fit(X)
        assert g.diagnostics_["kernel"][0]["nats"]["effect"] > 1
        assert np.isfinite(g.explain(X[:10]).width).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda Z: Effect().fit(), "Effect needs effects: call fit"),
        (lambda Z: Effect().fit(None, Z), "come without effects"),
        (lambda Z: Effect(n_rows=0).fit(None, Z), "n_rows"),
        (lambda Z: Effect(1.0).fit(None, rows_of(Z, lambda Z: Z[:, 0], Z[:1])[0]).gram(Z), "say which"),
    ],
    ids=range(4),
)
def test_what_cannot_be_used(make, words, Z):
    with pytest.raises(InputError, match=words):
        make(Z)
