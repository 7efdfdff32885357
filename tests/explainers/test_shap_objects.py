"""Explainer objects of shap."""

import numpy as np
import pandas as pd
import pytest
import shap
from explainer_helpers import IRIS, SPECIES, fitted, network, probability_of
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)

from extras import lightgbm, torch
from gpec.errors import InputError
from gpec.explainers.adapters import preserved_numpy_seed
from gpec.explainers.base import row_seed


def shap_object(kind, model):
    if kind == "tree":
        return shap.TreeExplainer(model)
    return getattr(shap, kind)(model.predict_proba, IRIS[::15])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["ExactExplainer", "KernelExplainer", "PermutationExplainer", "tree"])
def test_shap_objects(logistic, forests, kind, classes):
    model = forests[classes] if kind == "tree" else logistic[classes]
    explainer = fitted(shap_object(kind, model), model)
    for n in (1, 2, 3):  # as many rows as outputs is where base values go wrong
        rows = IRIS[60 : 60 + n]
        found = explainer(rows)
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, probability_of(model, rows), atol=1e-6)
        assert found.values.shape == ((n, 4) if classes == 2 else (n, 4, 3))


def test_columns_that_shap_would_take_for_others_are_refused():
    rows = pd.DataFrame(IRIS, columns=list("wxyz"))
    model = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(rows, SPECIES == 1)
    fitted(shap.TreeExplainer(model), model, rows)
    with pytest.raises(InputError, match=r"TreeExplainer takes columns by position.*pass X\[\['w', 'x', 'y', 'z'\]\]"):
        fitted(shap.TreeExplainer(model), model, rows[list("zyxw")])


def test_the_unit_of_trees_is_what_they_explain(forests):
    boosted = GradientBoostingClassifier(n_estimators=3).fit(IRIS, SPECIES == 1)
    several = HistGradientBoostingClassifier(max_iter=3).fit(IRIS, SPECIES)
    value = RandomForestRegressor(3).fit(IRIS, SPECIES)
    assert fitted(shap.TreeExplainer(forests[3]), forests[3]).unit == "probability"
    assert fitted(shap.TreeExplainer(boosted), boosted).unit == "log-odds"
    assert fitted(shap.TreeExplainer(several), several).unit == "margin"
    assert fitted(shap.TreeExplainer(value), value).unit == "output"
    probability = shap.TreeExplainer(boosted, IRIS[:9], model_output="probability")
    assert fitted(probability, boosted).unit == "probability"
    with pytest.raises(InputError, match=r"'log_loss' of a TreeExplainer needs labels; use 'raw'"):
        fitted(shap.TreeExplainer(boosted, IRIS[:9], model_output="log_loss"), boosted)


def own_answer(explainer, row, seed, dtype=None):
    """What shap itself says of one row with the seed that the row has."""
    rows = row[None] if dtype is None else torch.as_tensor(row[None], dtype=dtype)
    with preserved_numpy_seed(row_seed(seed, 0, row)):
        return np.asarray(explainer(rows).values)[0]


MADE = {
    "ExactExplainer": lambda model: shap.ExactExplainer(model.predict_proba, IRIS[::15]),
    "KernelExplainer": lambda model: shap.KernelExplainer(model.predict_proba, IRIS[::15]),
    "LinearExplainer": lambda model: shap.LinearExplainer(model, IRIS[::15]),
    "PartitionExplainer": lambda model: shap.PartitionExplainer(
        model.predict_proba, shap.maskers.Partition(IRIS[::15])
    ),
    "SamplingExplainer": lambda model: shap.SamplingExplainer(model.predict_proba, IRIS[::15]),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", MADE)
def test_answer_is_the_objects_own(logistic, kind, classes):
    model = logistic[classes]
    explainer = MADE[kind](model)
    assert type(explainer).__name__ == kind
    found = fitted(explainer, model, random_state=5)(IRIS[60:63]).values
    for row, values in zip(IRIS[60:63], found, strict=True):
        own = own_answer(explainer, row, 5)
        np.testing.assert_allclose(values, own[:, 1] if classes == 2 and own.ndim == 2 else own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_answer_of_tree_is_its_own(forests, classes):
    explainer = shap.TreeExplainer(forests[classes])
    own = explainer(IRIS[60:63]).values
    found = fitted(explainer, forests[classes])(IRIS[60:63]).values
    np.testing.assert_allclose(found, own[:, :, 1] if classes == 2 else own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("kind", ["DeepExplainer", "GradientExplainer"])
def test_shap_objects_of_a_torch_module(kind, outputs):
    module = network(4, outputs, torch.float32)
    explainer = getattr(shap, kind)(module, torch.as_tensor(IRIS[::15], dtype=torch.float32))
    adapter = fitted(explainer, module, random_state=5)
    found = adapter(IRIS[60:63]).values
    assert found.shape == ((3, 4, 3) if outputs == 3 else (3, 4))
    assert adapter.stochastic is (False if kind == "DeepExplainer" else None)
    for row, values in zip(IRIS[60:63], found, strict=True):
        own = own_answer(explainer, row, 5, torch.float32)
        np.testing.assert_allclose(values, own if outputs == 3 else own[:, -1], rtol=0, atol=1e-5)


def game(X):
    """Interactions of three features, which one permutation and its reverse do not settle."""
    return 1 / (1 + np.exp(-2 * X[:, 0] * X[:, 1] * X[:, 2] - X[:, 3] * X[:, 4] - X[:, 5]))


@pytest.fixture(scope="module")
def wide():
    return np.random.default_rng(0).normal(size=(40, 6))


@pytest.mark.parametrize("classes", [2, 3])
def test_variance_of_permutations_is_that_from_seed_to_seed(wide, classes):
    model = (
        game
        if classes == 2
        else (lambda X: np.column_stack((game(X) / 2, game(-X) / 2, 1 - game(X) / 2 - game(-X) / 2)))
    )
    explainer = fitted(shap.PermutationExplainer(model, wide[:4], max_evals=80), model, wide)  # 6 permutations
    runs = [explainer.explain(wide[10:12], seed=seed) for seed in range(100)]
    between = np.var([run.values for run in runs], axis=0, ddof=1)
    claimed = np.mean([run.variance for run in runs], axis=0)
    assert claimed.shape == (2, 6, 1 if classes == 2 else 3)
    ratio = claimed.sum() / between.sum()
    assert 0.85 < ratio < 1.18
    # shap's own spread over single passes says something else
    spread = shap.PermutationExplainer(model, wide[:4], seed=0)(
        wide[10:12], max_evals=80, error_bounds=True, silent=True
    ).error_std
    assert np.mean(spread**2) / between.mean() > 4


def test_permutations_are_unbiased(wide):
    exact = fitted(shap.ExactExplainer(game, wide[:4]), game, wide).explain(wide[10:11], seed=0).values
    explainer = fitted(shap.PermutationExplainer(game, wide[:4]), game, wide)
    runs = np.array([explainer.explain(wide[10:11], seed=seed).values for seed in range(40)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(runs.mean(axis=0) - exact) < 4 * error + 1e-12).all()


def test_permutations_spend_no_more_than_shap_would(wide, counting):
    model = counting(game)
    explainer = shap.PermutationExplainer(model, wide[:4], max_evals=130)
    before = model.n_rows
    explainer(wide[10:11], silent=True)
    own, before = model.n_rows - before, model.n_rows
    fitted(explainer, game, wide)(wide[10:11])
    assert 0 < model.n_rows - before <= own


def test_pairs_of_passes_settle_interactions_of_two(wide):
    def model(X):
        return 0.5 + 0.01 * X[:, 0] * X[:, 1] + 0.02 * X[:, 2]

    found = fitted(shap.PermutationExplainer(model, wide[:4]), model, wide)(wide[10:12])
    assert found.variance.max() < 1e-30  # though single passes differ
    exact = fitted(shap.ExactExplainer(model, wide[:4]), model, wide)(wide[10:12])
    np.testing.assert_allclose(found.values, exact.values, atol=1e-12)


def test_one_permutation_has_no_variance(wide):
    explainer = fitted(shap.PermutationExplainer(game, wide[:4], max_evals=25), game, wide)
    assert explainer(wide[10:11]).variance is None


def test_which_shap_objects_are_deterministic(logistic, forests):
    assert fitted(shap.TreeExplainer(forests[2]), forests[2]).stochastic is False
    assert fitted(shap.LinearExplainer(logistic[2], IRIS[:20]), logistic[2]).stochastic is False
    kernel = fitted(shap.KernelExplainer(logistic[2].predict_proba, IRIS[:5]), logistic[2])
    assert kernel.stochastic is None
    assert kernel.rows_at_once == 1  # each row its own seed


def test_shap_object_draws_with_the_rows_seed(X):
    wide = np.random.default_rng(0).normal(size=(30, 12))

    def model(X):
        return 1 / (1 + np.exp(-X[:, 0] * X[:, 1]))

    explainer = fitted(shap.SamplingExplainer(model, wide[:5]), model, wide)
    first = explainer.explain(wide[:2], seed=1).values
    np.testing.assert_array_equal(explainer.explain(wide[:2], seed=1).values, first)
    assert np.abs(explainer.explain(wide[:2], seed=1, run=1).values - first).max() > 1e-6
    assert np.abs(explainer.explain(wide[1:2], seed=1).values - first[1]).max() < 1e-12


def test_shap_object_shows_no_bars_of_its_own(logistic, capfd):
    explainer = fitted(shap.KernelExplainer(logistic[2].predict_proba, IRIS[:5]), logistic[2])
    explainer(IRIS[:3])
    assert capfd.readouterr().err == ""
