"""How rows are perturbed: LIME's neighborhoods and SHAP's coalitions."""

import numpy as np
import pandas as pd
from explainer_helpers import recorded

from extras import lime_tabular
from gpec.explainers.lime import BayesLime, BayesShap, Lime


def test_same_perturbations_as_lime_give_its_coefficients(coded):
    X, model = coded
    asked = []
    explainer = Lime(400).fit(recorded(model, asked), X, categorical_features=[1, 3], random_state=0)
    package = lime_tabular.LimeTabularExplainer(
        X, categorical_features=[1, 3], discretize_continuous=False, random_state=0
    )
    for i in range(4):
        asked.clear()
        found = explainer(X[i : i + 1]).values[0]
        (rows,) = asked
        data = rows.copy()
        data[:, [1, 3]] = rows[:, [1, 3]] == X[i, [1, 3]]
        scaled = (data - package.scaler.mean_) / package.scaler.scale_
        distance = np.linalg.norm(scaled - scaled[0], axis=1)
        p = model(rows)
        _, answer, _, _ = package.base.explain_instance_with_data(
            scaled, np.column_stack((1 - p, p)), distance, 1, 4, feature_selection="none"
        )
        np.testing.assert_allclose(found, [dict(answer)[j] for j in range(4)], rtol=0, atol=1e-10)


def test_neighborhood_of_numbers_and_categories(coded):
    X, model = coded
    asked = []
    explainer = Lime(50_000).fit(recorded(model, asked), X, categorical_features=[1, 3])
    drawn = []
    for row in X[:2]:
        asked.clear()
        explainer(row[None])
        drawn.append(np.concatenate(asked))
    for row, rows in zip(X[:2], drawn, strict=True):
        np.testing.assert_array_equal(rows[0], row)
        np.testing.assert_allclose(rows[:, [0, 2]].mean(axis=0), X[:, [0, 2]].mean(axis=0), atol=0.2)
        np.testing.assert_allclose(rows[:, [0, 2]].std(axis=0) / X[:, [0, 2]].std(axis=0), 1.0, atol=0.02)
        for j, count in ((1, 3), (3, 2)):
            assert set(np.unique(rows[:, j])) == set(range(count))
            share = np.bincount(rows[:, j].astype(int)) / 50_000
            np.testing.assert_allclose(share, np.bincount(X[:, j].astype(int)) / 400, atol=0.01)
    assert (drawn[0] != drawn[1]).any(axis=1).all()  # each row has its own


def test_the_row_itself_comes_once_in_all_batches(coded):
    X, model = coded
    asked = []
    explainer = BayesLime(100, target_width=0.01).fit(recorded(model, asked), X, categorical_features=[1, 3])
    asked.clear()
    explainer(X[:1])
    assert len(asked) > 1
    assert (np.concatenate(asked) == X[0]).all(axis=1).sum() == 1


def test_a_category_that_never_occurs_is_never_drawn():
    kinds = pd.Categorical(list("bbddd") * 8, categories=list("abcde"))
    seen = set()

    def model(rows):
        seen.update(rows["kind"])
        return (rows["kind"] == "b").to_numpy() * 0.5

    X = pd.DataFrame({"kind": kinds, "x": np.arange(40.0)})
    Lime(10_000).fit(model, X)(X[:1])
    assert seen == {"b", "d"}


def test_coalitions_follow_the_shap_kernel():
    background, x = np.random.default_rng(0).normal(size=(7, 5)), np.arange(10.0, 15.0)
    asked = []
    model = recorded(lambda rows: np.full(len(rows), 0.5), asked)
    explainer = BayesShap(40_002, n_background=3).fit(model, np.vstack((x, background)), background=background)
    asked.clear()
    explainer(x[None])
    rows = np.concatenate(asked).reshape(40_002, 3, 5)
    members = rows[:, 0] == x
    np.testing.assert_array_equal(rows == x, np.repeat(members[:, None], 3, axis=1))
    assert members[0].all()
    assert not members[1].any()
    size = members[2:].sum(axis=1)
    kernel = 4 / (np.arange(1, 5) * (5 - np.arange(1, 5)))
    np.testing.assert_allclose(np.bincount(size, minlength=5)[1:] / 40_000, kernel / kernel.sum(), atol=0.01)
    np.testing.assert_allclose(members[2:].mean(axis=0), 0.5, atol=0.01)
    for b in range(3):
        # the absent features come from one background row together
        source = np.array([np.flatnonzero((background[:, ~m] == row[~m]).all(axis=1))[0] for m, row in
                           zip(members[1:200], rows[1:200, b], strict=True)])  # fmt: skip
        assert set(source) == set(range(7))


def test_the_ends_have_their_share_of_the_weight():
    """No and all features weigh 1 each where all others have sum(kernel): a model that sees the ends alone shows it."""
    d, background = 5, np.zeros((1, 5))
    found = BayesShap(20_000, prior=1e-9).fit(lambda Z: (Z != 0).all(axis=1) * 0.5, np.eye(5), background=background)
    kernel = (4 / (np.arange(1, d) * (d - np.arange(1, d)))).sum()
    share = np.array([1.0, 1.0, kernel]) / (2 + kernel)
    # by symmetry a regression on the number of features: its slope is cov(k, y) / var(k)
    sizes = np.arange(1, d)
    chance = 4 / (sizes * (d - sizes)) / kernel
    k, w = np.concatenate(([0, d], sizes)), np.concatenate((share[:2], share[2] * chance))
    y = 0.5 * (k == d)
    middle = (w * k).sum()
    slope = (w * (k - middle) * y).sum() / (w * (k - middle) ** 2).sum()
    np.testing.assert_allclose(found(np.ones((1, 5))).values[0].mean(), slope, rtol=0.02)
