"""Effects: how the model's answer changes when a feature takes the value of other rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import gpec
from gpec.data import Rows
from gpec.errors import InputError
from gpec.kernels import Effect, Matern, Output, Own, Rest
from gpec.kernels.distances import squares

FEW = {"n_boundary": 120, "background": 10, "random_state": 0, "progress": False}


class Asked:
    """A function of encoded rows that counts them."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, Z):
        self.n += len(Z)
        return self.function(Z)[:, None]


def rows_of(Z, function, members=None):
    ask = Asked(function)
    return Rows(Z, Z, members, ask, regression=True, members=members), ask


@pytest.fixture
def Z():
    return np.random.default_rng(0).normal(size=(40, 3))


def test_the_effect_in_a_linear_model_is_that_of_its_coefficient(Z):
    weights = np.array([2.0, -1.0, 0.0])
    rows, _ = rows_of(Z, lambda Z: Z @ weights)
    kernel = Effect(n_rows=4).fit(None, rows)
    moved = weights * (Z - kernel.others_.mean(axis=0))
    np.testing.assert_allclose(kernel._effects(rows)[:, :, 0], moved, atol=1e-12)
    apart = ((moved[:, None, 0] - moved[None, :, 0]) / moved[:, 0].std()) ** 2
    np.testing.assert_allclose(kernel._squared(rows, rows, 0, squares), apart, atol=1e-12)
    assert not kernel._squared(rows, rows, 2, squares).any()  # the model does not use it


def test_a_group_is_exchanged_as_a_whole(Z):
    rows, _ = rows_of(Z, lambda Z: Z[:, 0] * Z[:, 2] + Z[:, 1], (np.array([0, 2]), np.array([1])))
    others = Z[:2]
    found = rows.exchanged(others)
    assert found.shape == (40, 2, 2, 1)
    np.testing.assert_allclose(found[:, 0, :, 0], others[:, 0] * others[:, 2] + Z[:, [1]], atol=1e-12)
    np.testing.assert_allclose(found[:, 1, :, 0], (Z[:, 0] * Z[:, 2])[:, None] + others[:, 1], atol=1e-12)


def test_the_model_is_asked_once_and_only_about_rows_that_differ(Z):
    Z = np.column_stack((Z[:, 0], np.zeros(40), np.where(Z[:, 2] > 0, np.nan, 1.0)))
    rows, ask = rows_of(Z, lambda Z: Z[:, 0])
    others = np.array([[0.5, 0.0, np.nan]])
    rows.exchanged(others)
    assert ask.n == 40 + 40 + int((Z[:, 2] == 1.0).sum())
    before = ask.n
    some = rows[np.array([3, 5, 5])][1:]
    np.testing.assert_array_equal(some.exchanged(others), rows.exchanged(others)[[5, 5]])
    Rows.join([rows, rows[:4]]).exchanged(others)
    assert ask.n == before


def test_a_row_that_fills_up_a_block_is_not_asked_about(Z):
    rows, ask = rows_of(Z, lambda Z: Z[:, 0])
    rows.outputs  # noqa: B018
    before = ask.n
    block = rows[np.array([7, 8, 8, 8, 8])]
    found = block.exchanged(Z[:1])
    assert ask.n == before + 2 * 3
    np.testing.assert_array_equal(found[1], found[4])


def test_many_rows_are_asked_about_in_parts(Z, monkeypatch):
    rows, _ = rows_of(Z, lambda Z: (Z**2).sum(axis=1))
    whole = rows.exchanged(Z[:2])
    monkeypatch.setattr("gpec.data.rows._EXCHANGED", 50)
    np.testing.assert_array_equal(rows_of(Z, lambda Z: (Z**2).sum(axis=1))[0].exchanged(Z[:2]), whole)


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
        (lambda Z: Effect().fit(), "needs rows of a GPEC"),
        (lambda Z: Effect().fit(None, Z), "plain array"),
        (lambda Z: Effect(n_rows=0).fit(None, Z), "n_rows"),
        (lambda Z: Effect(1.0).fit(None, rows_of(Z, lambda Z: Z[:, 0])[0]).gram(Z), "say which"),
    ],
    ids=range(4),
)
def test_what_cannot_be_used(make, words, Z):
    with pytest.raises(InputError, match=words):
        make(Z)
