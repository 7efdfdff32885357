"""Effects: how the model's answer changes when a feature takes the value of other rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gpec
from gpec.data import Rows
from gpec.data.rows import evenly_spaced
from gpec.errors import InputError
from gpec.kernels import RBF, Effect, Matern, Output, Own, Rest

FEW = {"n_boundary": 120, "background": 10, "random_state": 0, "progress": False}


def fitted(Z, function, n_rows, kernel=Effect, **parameters):
    """A fit to a regressor that explains all rows, and the rows with which it exchanges values."""
    small = {"boundary": np.nan_to_num(Z[:12]), "similar": None, "background": 2, "random_state": 0, "progress": False}
    g = gpec.GPEC(
        function, lambda Z: np.zeros(Z.shape), kernel=kernel(2.0), model_output="value", **{**small, **parameters}
    )
    return g.fit(Z, X_explained=Z), Z[evenly_spaced(len(Z), n_rows)]


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(40, 3))


def test_the_effect_in_a_linear_model_is_that_of_its_coefficient(Z):
    weights = np.array([2.0, -1.0, 0.0])
    g, exchanged = fitted(Z, lambda Z: Z @ weights, 4, lambda length: Effect(length, n_rows=4))
    rows, moved = g.posterior_.rows, weights * (Z - exchanged.mean(axis=0))
    np.testing.assert_allclose(rows.effects[:, :, 0], moved, atol=1e-12)
    apart = np.abs(moved[:, None, 0] - moved[None, :, 0]) / moved[:, 0].std() / 2.0 * np.sqrt(3)
    np.testing.assert_allclose(g.kernel_.gram(rows, 0), (1 + apart) * np.exp(-apart), atol=1e-12)
    np.testing.assert_allclose(g.kernel_.gram(rows, 2), 1.0)  # the model does not use it


def test_a_group_is_exchanged_as_a_whole(Z):
    def product(Z):
        return Z[:, 0] * Z[:, 2] + Z[:, 1]

    groups = {"both": [0, 2], "other": [1]}
    g, other = fitted(Z, product, 2, lambda length: Effect(length, n_rows=2), groups=groups)
    effects, own = g.posterior_.rows.effects, product(Z)
    assert effects.shape == (40, 2, 1)
    np.testing.assert_allclose(effects[:, 0, 0], own - (other[:, 0] * other[:, 2]).mean() - Z[:, 1], atol=1e-12)
    np.testing.assert_allclose(effects[:, 1, 0], own - Z[:, 0] * Z[:, 2] - other[:, 1].mean(), atol=1e-12)


def test_the_model_is_called_only_for_rows_that_differ(Z):
    Z = np.column_stack((Z[:, 0], np.zeros(40), np.where(Z[:, 2] > 0, np.nan, 1.0)))
    asked = [
        fitted(Z, lambda Z: Z[:, 0], 1, kernel)[0].diagnostics_["model_rows"]
        for kernel in (RBF, lambda length: Effect(length, n_rows=1))
    ]
    first = Z[0]
    exchanged = (Z[:, 0] != first[0]).sum() + (np.isnan(Z[:, 2]) != np.isnan(first[2])).sum()
    assert asked[1] - asked[0] == 40 + exchanged


def test_many_rows_are_sent_in_parts(Z, monkeypatch):
    whole, _ = fitted(Z, lambda Z: (Z**2).sum(axis=1), 2)
    monkeypatch.setattr("gpec.pipeline.kernel_inputs._NUMBERS", 50)
    parts, _ = fitted(Z, lambda Z: (Z**2).sum(axis=1), 2)
    np.testing.assert_array_equal(parts.posterior_.rows.effects, whole.posterior_.rows.effects)
    assert parts.diagnostics_["model_calls"] > whole.diagnostics_["model_calls"]


@pytest.fixture(scope="module")
def table():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return X, RandomForestRegressor(30, min_samples_leaf=5, random_state=0).fit(X, y)


class TestInGPEC:
    def test_it_is_part_of_the_kernel_of_a_regressor(self, table):
        X, model = table
        g = gpec.GPEC(model, "tree", mode="predict", n_explained=40, **FEW).fit(X)
        assert g.diagnostics_["kernel"][0]["nats"]["effect"] > 20

    def test_it_predicts_unseen_attributions_better(self, table):
        X, model = table
        explained, unseen = X[:60], X[60:160]
        truth = gpec.explainers.TreeShap().fit(model, X, background=X[:10], random_state=0)(unseen).values
        error = {}
        for name, kernel in (("with", "auto"), ("without", Matern(Own(), Rest(), Output()))):
            settings = {**FEW, "background": X[:10]}
            g = gpec.GPEC(model, "tree", mode="predict", kernel=kernel, **settings).fit(X, X_explained=explained)
            error[name] = np.mean((g.explain(unseen, attribution="posterior").values - truth.reshape(100, -1)) ** 2)
        assert error["with"] < 0.6 * error["without"]

    def test_files_keep_it(self, table, tmp_path):
        X, model = table
        g = gpec.GPEC(model, "tree", mode="predict", n_explained=30, **FEW).fit(X)
        g.save(tmp_path / "fit.gpec")
        h = gpec.GPEC.load(tmp_path / "fit.gpec", model=model)
        one, other = (one.explain(X[:5], attribution="posterior") for one in (g, h))
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.std, other.std)

    def test_no_bit_depends_on_the_threads_or_on_the_rows_beside(self, table):
        X, model = table
        g = gpec.GPEC(model, "tree", mode="predict", n_explained=30, **FEW).fit(X)
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
        (lambda Z: Effect(1.0).fit(None, Rows(Z, Z, effects=Z[:, :, None])).gram(Z), "say which"),
    ],
    ids=range(4),
)
def test_what_cannot_be_used(make, words, Z):
    with pytest.raises(InputError, match=words):
        make(Z)
