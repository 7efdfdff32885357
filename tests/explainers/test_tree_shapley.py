"""Shapley values of trees, computed by our own code: against their definition, and against shap's C code."""

from types import SimpleNamespace

import numpy as np
import pytest
import shap
from explainer_helpers import IRIS, SPECIES, fitted, shapley_by_definition
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

from extras import xgboost
from gpec.explainers import ExactShapley, TreeShap, _tree_shapley, tree
from gpec.explainers._tree_shapley import TreeShapley


def random_trees(rng, n_trees, n_features, n_outputs, most_nodes=41):
    """Trees of random shape, as shap holds them; thresholds and values are whole numbers."""
    shape = (n_trees, most_nodes)
    left, right, default = (np.full(shape, -1, dtype=np.int32) for _ in range(3))
    for tree_ in range(n_trees):
        leaves, n_nodes = [0], 1
        while n_nodes + 2 <= rng.integers(1, most_nodes + 1):
            node = leaves.pop(rng.integers(len(leaves)))
            left[tree_, node], right[tree_, node] = n_nodes, n_nodes + 1
            default[tree_, node] = n_nodes + rng.integers(2)
            leaves += [n_nodes, n_nodes + 1]
            n_nodes += 2
    return SimpleNamespace(
        children_left=left,
        children_right=right,
        children_default=default,
        features=rng.integers(n_features, size=shape).astype(np.int32),
        thresholds=rng.integers(5, size=shape).astype(float),
        values=rng.integers(3, size=(*shape, n_outputs)).astype(float),
        tree_limit=None,
    )


def answer_of(trees, rows):
    """What the trees add up to, node after node."""
    answer = np.zeros((len(rows), trees.values.shape[2]))
    for i, row in enumerate(rows):
        for t in range(len(trees.values)):
            node = 0
            while trees.children_left[t, node] >= 0:
                seen = row[trees.features[t, node]]
                if np.isnan(seen):
                    node = trees.children_default[t, node]
                elif seen <= trees.thresholds[t, node]:
                    node = trees.children_left[t, node]
                else:
                    node = trees.children_right[t, node]
            answer[i] += trees.values[t, node]
    return answer


def rows_for(rng, n, n_features, missing):
    rows = rng.integers(-1, 6, size=(n, n_features)).astype(float)
    return np.where(rng.random(rows.shape) < missing, np.nan, rows)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_random_trees_have_shapley_values_by_definition(seed, n_outputs):
    rng = np.random.default_rng(seed)
    trees = random_trees(rng, 3, 4, n_outputs)
    rows, background = rows_for(rng, 3, 4, 0.2), rows_for(rng, 5, 4, 0.2)
    expected = [shapley_by_definition(lambda some: answer_of(trees, some), row, background) for row in rows]
    found = TreeShapley(trees, background, n_outputs).values(rows)
    assert found.shape == (3, 4, n_outputs)
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("name", ["_ROWS", "_NODES", "_CELLS", "_SMALL"])
def test_portions_do_not_matter(monkeypatch, name):
    rng = np.random.default_rng(8)
    trees = random_trees(rng, 9, 6, 2)
    rows, background = rows_for(rng, 40, 6, 0.1), rows_for(rng, 30, 6, 0.1)
    expected = TreeShapley(trees, background, 2).values(rows)
    monkeypatch.setattr(_tree_shapley, name, {"_ROWS": 7, "_NODES": 50, "_CELLS": 100, "_SMALL": 0}[name])
    np.testing.assert_allclose(TreeShapley(trees, background, 2).values(rows), expected, atol=1e-13)
    alone = np.concatenate([TreeShapley(trees, background, 2).values(row[None]) for row in rows])
    np.testing.assert_allclose(alone, expected, atol=1e-13)


def test_more_rows_than_are_taken_at_once():
    rng = np.random.default_rng(2)
    trees = random_trees(rng, 2, 3, 1)
    rows, background = rows_for(rng, 300, 3, 0.0), rows_for(rng, 700, 3, 0.0)
    found = TreeShapley(trees, background, 1).values(rows)
    gap = answer_of(trees, rows) - answer_of(trees, background).mean(axis=0)
    np.testing.assert_allclose(found.sum(axis=1), gap, atol=1e-12)
    expected = shapley_by_definition(lambda some: answer_of(trees, some), rows[299], background)
    np.testing.assert_allclose(found[299], expected, atol=1e-13)


def test_the_last_outputs_of_the_first_trees():
    rng = np.random.default_rng(3)
    trees = random_trees(rng, 5, 4, 3)
    rows, background = rows_for(rng, 6, 4, 0.0), rows_for(rng, 7, 4, 0.0)
    every = TreeShapley(trees, background, 3).values(rows)
    np.testing.assert_allclose(TreeShapley(trees, background, 1).values(rows), every[:, :, 2:], atol=1e-13)
    trees.tree_limit = 2
    gap = answer_of(SimpleNamespace(**{**vars(trees), "values": trees.values[:2]}), np.concatenate((rows, background)))
    found = TreeShapley(trees, background, 3).values(rows)
    np.testing.assert_allclose(found.sum(axis=1), gap[:6] - gap[6:].mean(axis=0), atol=1e-13)


def test_trees_that_are_single_leaves_add_nothing():
    trees = random_trees(np.random.default_rng(0), 2, 3, 2, most_nodes=1)
    assert (TreeShapley(trees, np.zeros((4, 3)), 2).values(np.ones((5, 3))) == np.zeros((5, 3, 2))).all()


def chain(n_features, n_outputs):
    """A tree that asks for all features, one after the other."""
    n_nodes = 2 * n_features + 1
    shape, inner = (1, n_nodes), np.arange(0, 2 * n_features, 2)
    left, right = (np.full(shape, -1, dtype=np.int32) for _ in range(2))
    left[0, inner], right[0, inner] = inner + 1, inner + 2
    features = np.zeros(shape, dtype=np.int32)
    features[0, inner] = np.arange(n_features)
    values = np.random.default_rng(0).normal(size=(*shape, n_outputs))
    return SimpleNamespace(
        children_left=left,
        children_right=right,
        children_default=left,
        features=features,
        thresholds=np.zeros(shape),
        values=values,
        tree_limit=-1,
    )


@pytest.mark.parametrize("n_features", [7, 8, 9, 16, 17, 31, 32, 33, 55, 56])
def test_paths_of_many_features(n_features):
    """Patterns of all widths. A row that passes everything against one that fails everything has a closed form.

    The ``j``-th leaf is reached by mixtures that have the first ``j`` features from ``x`` and the next one from ``r``:
    ``a = j``, ``b = 1``. The last has ``a = n``, ``b = 0``.
    """
    trees = chain(n_features, 2)
    found = TreeShapley(trees, np.zeros((1, n_features)), 2).values(np.ones((1, n_features)))[0]
    leaf, last = trees.values[0, 1::2], trees.values[0, -1]
    expected = np.zeros((n_features, 2))
    for j in range(n_features):
        expected[:j] += leaf[j] / (max(j, 1) * (j + 1))
        expected[j] -= leaf[j] / (j + 1)
    expected += last / n_features
    np.testing.assert_allclose(found, expected, atol=1e-12)
    rows = (np.random.default_rng(1).random((256, n_features)) < 0.9).astype(float)
    found, answer = TreeShapley(trees, rows, 2).values(rows), answer_of(trees, rows)
    np.testing.assert_allclose(found.sum(axis=1), answer - answer.mean(axis=0), atol=1e-12)


# Which models it is used for, and what shap says of them


def by_shap(model, rows, background, output):
    """Values by shap's C code, of rows that are no nearer to a threshold than single precision tells."""
    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(model, masker, model_output=output, feature_perturbation="interventional")
    return explainer.shap_values(rows, check_additivity=False)


def test_a_forest_of_ten_classes_has_the_values_of_shap():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    explainer = fitted("tree", forest, X)
    assert isinstance(explainer._trees._exact, TreeShapley)
    found = explainer(X[100:130]).values
    np.testing.assert_allclose(found, by_shap(forest, X[100:130], X[:20], "probability"), atol=1e-7)


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
def test_a_deep_forest_of_two_classes_has_the_values_of_shap(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 30))
    forest = kind(5, random_state=0).fit(X, rng.random(1_000) < 0.7)
    found = fitted("tree", forest, X)(X[500:540]).values
    np.testing.assert_allclose(found, by_shap(forest, X[500:540], X[:20], "probability")[:, :, 1], atol=1e-7)


@pytest.mark.parametrize(
    "build",
    [lambda: GradientBoostingClassifier(n_estimators=10), lambda: xgboost.XGBClassifier(n_estimators=10)],
    ids=["boosting", "xgboost"],
)
def test_log_odds_of_boosted_trees_are_ours_and_probabilities_are_shaps(build):
    model = build().fit(IRIS, SPECIES == 1)
    odds, probability = fitted(TreeShap(link="logit"), model), fitted("tree", model)
    assert isinstance(odds._trees._exact, TreeShapley)
    assert probability._trees._exact is None
    np.testing.assert_allclose(odds(IRIS[40:60]).values, by_shap(model, IRIS[40:60], IRIS[:20], "raw"), atol=1e-5)


def test_trees_left_out_by_early_stopping_do_not_count():
    model = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(IRIS[::2], SPECIES[::2] == 1, eval_set=[(IRIS[1::2], SPECIES[1::2] == 1)], verbose=False)
    assert model.best_iteration < 20
    odds, exact = (fitted(kind(link="logit"), model)(IRIS[45:55]) for kind in (TreeShap, ExactShapley))
    np.testing.assert_allclose(odds.values, exact.values, atol=1e-5)


def test_paths_too_long_for_us_are_left_to_shap(monkeypatch, forests):
    expected = fitted("tree", forests[3])(IRIS[40:60])
    monkeypatch.setattr(tree, "MOST_FEATURES", 2)
    explainer = fitted("tree", forests[3])
    assert explainer._trees._exact is None
    found = explainer(IRIS[40:60])
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, expected.base_values, atol=1e-6)


def test_no_call_of_shap_lasts_until_its_progress_bar_appears(monkeypatch):
    """The bar cannot be switched off; shap looks at the clock before each row and output of a call."""
    model = GradientBoostingClassifier(n_estimators=10).fit(IRIS, SPECIES == 1)
    explainer = fitted("tree", model)
    expected = explainer(IRIS[40:60]).values
    lengths, original = [], explainer._trees._shap.shap_values

    def watched(rows, **options):
        lengths.append(len(rows))
        return original(rows, **options)

    monkeypatch.setattr(explainer._trees._shap, "shap_values", watched)
    monkeypatch.setattr(tree, "_WALKS", 3 * 10 * 20)  # three rows, ten trees, twenty background rows
    assert (explainer(IRIS[40:60]).values == expected).all()
    assert lengths == [3, 3, 3, 3, 3, 3, 2]
