"""Shapley values of trees: against their definition, and against shap's C code."""

import numpy as np
import pytest
import shap
from explainer_helpers import IRIS, SPECIES, fitted, shapley_by_definition
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier

from extras import xgboost
from gpec.explainers import TreeShap, _tree_shapley
from gpec.explainers._tree_shapley import MOST_FEATURES, TreeShapley
from gpec.explainers._trees import Tree, UnreadableTrees

CODES = 4  # of the last column, which trees split by category


def random_tree(rng, n_features, n_outputs, most_nodes=41):
    """A tree of random shape; thresholds and values are whole numbers."""
    n = 1 + 2 * int(rng.integers(most_nodes // 2 + 1))
    left, right = np.full(n, -1), np.full(n, -1)
    leaves = [0]
    for child in range(1, n, 2):
        node = leaves.pop(rng.integers(len(leaves)))
        left[node], right[node] = child, child + 1
        leaves += [child, child + 1]
    column = rng.integers(n_features, size=n)
    by_category = np.flatnonzero((left >= 0) & (column == n_features - 1)).tolist()
    categories = {node: (np.flatnonzero(rng.random(CODES) < 0.5), bool(rng.integers(2))) for node in by_category}
    value = rng.integers(3, size=(n, n_outputs)).astype(float)
    threshold, missing_left = rng.integers(5, size=n).astype(float), rng.random(n) < 0.5
    return Tree(left, right, column, threshold, missing_left, value, categories)


def random_trees(rng, n_trees, n_features, n_outputs, most_nodes=41):
    return [random_tree(rng, n_features, n_outputs, most_nodes) for _ in range(n_trees)]


def answer_of(trees, rows):
    """What the trees add up to, node after node."""
    answer = np.zeros((len(rows), trees[0].value.shape[1]))
    for i, row in enumerate(rows):
        for tree in trees:
            node = 0
            while tree.left[node] >= 0:
                seen = row[tree.column[node]]
                if np.isnan(seen):
                    goes_left = tree.missing_left[node]
                elif node in tree.categories:
                    codes, listed_left = tree.categories[node]
                    goes_left = listed_left if seen in codes else not listed_left
                else:
                    goes_left = seen <= tree.threshold[node]
                node = tree.left[node] if goes_left else tree.right[node]
            answer[i] += tree.value[node]
    return answer


def ours(trees, background, feature=None):
    feature = np.arange(background.shape[1]) if feature is None else feature
    return TreeShapley(trees, feature, int(feature.max()) + 1, background)


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
    found = ours(trees, background).values(rows)
    assert found.shape == (3, 4, n_outputs)
    np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_one_feature_are_one_player(seed):
    rng = np.random.default_rng(seed)
    feature = np.array([0, 1, 0, 2, 1])
    trees = random_trees(rng, 4, 5, 2)
    rows, background = rows_for(rng, 3, 5, 0.2), rows_for(rng, 6, 5, 0.2)
    numbers = np.arange(3.0)[None]

    def answer(row):  # of players: 0 is the explained row's, 1 a background row's
        def mixed(coalitions):
            of_background = coalitions[:, feature] == 1
            every = np.where(of_background[:, None], background, row)
            return np.stack([answer_of(trees, some).mean(axis=0) for some in every])

        return mixed

    found = ours(trees, background, feature).values(rows)
    for row, values in zip(rows, found, strict=True):
        expected = shapley_by_definition(answer(row), 0 * numbers[0], 0 * numbers + 1)
        np.testing.assert_allclose(values, expected, atol=1e-13)


SIZES = {"_NODES": 50, "_CELLS": 100, "_LEAST": 1, "_PAIRS": 50, "_FEW": 3, "_STORED": 10, "_TABLE_BITS": 3}


@pytest.mark.parametrize("shared", [(8,), (3,), (0,)])
@pytest.mark.parametrize("name", SIZES)
def test_portions_do_not_matter(monkeypatch, name, shared):
    rng = np.random.default_rng(8)
    trees = random_trees(rng, 9, 6, 2)
    rows, background = rows_for(rng, 40, 6, 0.1), rows_for(rng, 30, 6, 0.1)
    expected = ours(trees, background).values(rows)
    monkeypatch.setattr(_tree_shapley, "_SHARED_BITS", (*shared, 0))
    monkeypatch.setattr(_tree_shapley, name, SIZES[name])
    found = ours(trees, background)
    np.testing.assert_allclose(found.values(rows), expected, atol=1e-13)
    alone = np.concatenate([found.values(row[None]) for row in rows])
    np.testing.assert_array_equal(alone, found.values(rows))


def test_tables_and_pairs_of_rows_give_the_same_bits(monkeypatch):
    rng = np.random.default_rng(4)
    trees = random_trees(rng, 20, 9, 2, most_nodes=201)
    rows, background = rows_for(rng, 90, 9, 0.1), rows_for(rng, 50, 9, 0.1)
    monkeypatch.setattr(_tree_shapley, "_SHARED_BITS", (3,))
    found = ours(trees, background)
    expected = found.values(np.repeat(rows, 30, axis=0))[::30]
    monkeypatch.setattr(_tree_shapley, "_TABLE_BITS", 3)
    np.testing.assert_array_equal(found.values(rows), expected)


def test_more_rows_than_are_taken_at_once():
    rng = np.random.default_rng(2)
    trees = random_trees(rng, 2, 3, 1)
    rows, background = rows_for(rng, 300, 3, 0.0), rows_for(rng, 700, 3, 0.0)
    found = ours(trees, background).values(rows)
    gap = answer_of(trees, rows) - answer_of(trees, background).mean(axis=0)
    np.testing.assert_allclose(found.sum(axis=1), gap, atol=1e-12)
    expected = shapley_by_definition(lambda some: answer_of(trees, some), rows[299], background)
    np.testing.assert_allclose(found[299], expected, atol=1e-13)


def test_trees_that_are_single_leaves_add_nothing():
    trees = random_trees(np.random.default_rng(0), 2, 3, 2, most_nodes=1)
    assert (ours(trees, np.zeros((4, 3))).values(np.ones((5, 3))) == np.zeros((5, 3, 2))).all()


def test_values_are_rescaled_against_each_background_row():
    rng = np.random.default_rng(6)
    trees = random_trees(rng, 5, 4, 1)
    rows, background, ratio = rows_for(rng, 6, 4, 0.1), rows_for(rng, 5, 4, 0.1), rng.random((5, 6))
    expected = np.mean([ours(trees, background[[r]]).values(rows) * ratio[r, :, None, None] for r in range(5)], axis=0)
    np.testing.assert_allclose(ours(trees, background).rescaled(rows, ratio), expected, atol=1e-13)


def chain(n_features, n_outputs):
    """A tree that asks for all features, one after the other."""
    n_nodes, inner = 2 * n_features + 1, np.arange(0, 2 * n_features, 2)
    left, right, column = np.full(n_nodes, -1), np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.int64)
    left[inner], right[inner], column[inner] = inner + 1, inner + 2, np.arange(n_features)
    value = np.random.default_rng(0).normal(size=(n_nodes, n_outputs))
    return Tree(left, right, column, np.zeros(n_nodes), np.ones(n_nodes, dtype=bool), value)


@pytest.mark.parametrize("n_features", [7, 8, 9, 16, 17, 31, 32, 33, 63, 64])
def test_paths_of_many_features(n_features):
    """Patterns of all widths. A row that passes everything against one that fails everything has a closed form.

    The ``j``-th leaf is reached by mixtures that have the first ``j`` features from ``x`` and the next one from ``r``:
    ``a = j``, ``b = 1``. The last has ``a = n``, ``b = 0``.
    """
    tree = chain(n_features, 2)
    found = ours([tree], np.zeros((1, n_features))).values(np.ones((1, n_features)))[0]
    leaf, last = tree.value[1::2], tree.value[-1]
    expected = np.zeros((n_features, 2))
    for j in range(n_features):
        expected[:j] += leaf[j] / (max(j, 1) * (j + 1))
        expected[j] -= leaf[j] / (j + 1)
    expected += last / n_features
    np.testing.assert_allclose(found, expected, atol=1e-12)
    rows = (np.random.default_rng(1).random((256, n_features)) < 0.9).astype(float)
    found, answer = ours([tree], rows).values(rows), answer_of([tree], rows)
    np.testing.assert_allclose(found.sum(axis=1), answer - answer.mean(axis=0), atol=1e-12)


def test_a_path_of_too_many_features_is_refused():
    with pytest.raises(UnreadableTrees, match="a path in its trees has more than 64 features"):
        ours([chain(MOST_FEATURES + 1, 1)], np.zeros((2, MOST_FEATURES + 1)))


# What shap says of the same models


def by_shap(model, rows, background, output):
    """Values by shap's C code, of rows that are no nearer to a threshold than single precision tells."""
    masker = shap.maskers.Independent(background, max_samples=len(background))
    explainer = shap.TreeExplainer(model, masker, model_output=output, feature_perturbation="interventional")
    return explainer.shap_values(rows, check_additivity=False)


def test_a_forest_of_ten_classes_has_the_values_of_shap():
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    explainer = fitted("tree", forest, X)
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
def test_log_odds_and_rescaled_probabilities_are_those_of_shap(build):
    model = build().fit(IRIS, SPECIES == 1)
    for link, output in (("auto", "raw"), ("identity", "probability")):
        found = fitted(TreeShap(link=link), model)(IRIS[40:60]).values
        np.testing.assert_allclose(found, by_shap(model, IRIS[40:60], IRIS[:20], output), atol=1e-5)
