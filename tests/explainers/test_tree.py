"""TreeSHAP by shap, in probabilities."""

import numpy as np
import pytest
import xgboost
from explainer_helpers import IRIS, SPECIES, fitted, probability_of
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from gpec.errors import ExplainerError


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 70])
def test_tree_shap_adds_up_to_the_probability(forests, classes, n):
    forest = forests[classes]
    explainer = fitted("tree", forest)
    rows = IRIS[40 : 40 + n]
    found = explainer(rows)
    assert found.values.shape == ((n, 4) if classes == 2 else (n, 4, 3))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, probability_of(forest, rows), atol=1e-6)
    expected = np.broadcast_to(probability_of(forest, IRIS[:20]).mean(axis=0), found.base_values.shape)
    np.testing.assert_allclose(found.base_values, expected, atol=1e-6)
    assert explainer.stochastic is False
    assert explainer.unit == "probability"


def test_tree_shap_rounds_the_background_as_the_forest_does():
    rows, classes = load_iris(return_X_y=True)  # of one decimal, many just at a threshold
    forest = RandomForestClassifier(8, max_depth=3, random_state=0).fit(rows, classes == 1)
    found = fitted("tree", forest, rows)(rows[40:44])
    expected = forest.predict_proba(rows[40:44])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [GradientBoostingClassifier(n_estimators=5, max_depth=2), xgboost.XGBClassifier(n_estimators=5, max_depth=2)],
)
def test_boosted_trees_are_explained_in_probabilities_too(model):
    model = model.fit(IRIS, SPECIES == 1)
    found = fitted("tree", model)(IRIS[48:52])
    expected = model.predict_proba(IRIS[48:52])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-5)


@pytest.mark.parametrize("model", [lambda X: X[:, 0] > 5, LogisticRegression().fit(IRIS, SPECIES == 1)])
def test_tree_shap_of_something_else(model):
    with pytest.raises(ExplainerError, match=r"TreeExplainer does not take this \w+ .*use explainer='kernelshap'"):
        fitted("tree", model)
