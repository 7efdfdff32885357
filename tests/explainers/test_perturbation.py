"""How rows are perturbed: LIME's neighborhoods and SHAP's coalitions."""

import numpy as np

from extras import lime_tabular
from gpec.data import Schema
from gpec.explainers._perturbation import CoalitionSampler, LimeSampler, batch
from gpec.explainers.lime import Lime
from gpec.runtime.randomness import stream


def neighborhood(X, categorical=(), **options):
    table, Z = Schema.learn(X, categorical_features=list(categorical))
    width = 0.75 * np.sqrt(X.shape[1])
    return LimeSampler(*LimeSampler.statistics(Z, table), width, **options), Z


def test_same_perturbations_as_lime_give_its_coefficients(coded):
    X, model = coded
    explainer = Lime(400).fit(model, X, categorical_features=[1, 3], random_state=0)
    sampler, Z = neighborhood(X, [1, 3])
    package = lime_tabular.LimeTabularExplainer(
        X, categorical_features=[1, 3], discretize_continuous=False, random_state=0
    )
    for i in range(4):
        drawn = batch(sampler, Z[i : i + 1], [stream(77, "perturbations")], 400, first=True)
        found = explainer._explain(Z[i : i + 1], [77]).values[0, :, 0]
        rows = drawn.rows[0, :, 0]
        data = rows.copy()
        data[:, [1, 3]] = rows[:, [1, 3]] == X[i, [1, 3]]
        scaled = (data - package.scaler.mean_) / package.scaler.scale_
        np.testing.assert_allclose(drawn.features[0], scaled, rtol=0, atol=1e-12)
        distance = np.linalg.norm(scaled - scaled[0], axis=1)
        p = model(rows)
        _, answer, _, _ = package.base.explain_instance_with_data(
            scaled, np.column_stack((1 - p, p)), distance, 1, 4, feature_selection="none"
        )
        np.testing.assert_allclose(drawn.weights[0], package.base.kernel_fn(distance), rtol=1e-12)
        np.testing.assert_allclose(found, [dict(answer)[j] for j in range(4)], rtol=0, atol=1e-10)


def test_neighborhood_of_numbers_and_categories(coded):
    X, _ = coded
    sampler, Z = neighborhood(X, [1, 3])
    drawn = batch(sampler, Z[:2], [stream(0, "perturbations"), stream(1, "perturbations")], 50_000, first=True)
    rows = drawn.rows[:, :, 0]
    np.testing.assert_array_equal(rows[:, 0], Z[:2])
    np.testing.assert_allclose(rows[..., [0, 2]].mean(axis=1), np.tile(X[:, [0, 2]].mean(axis=0), (2, 1)), atol=0.2)
    np.testing.assert_allclose(rows[..., [0, 2]].std(axis=1) / X[:, [0, 2]].std(axis=0), 1.0, atol=0.02)
    for j, count in ((1, 3), (3, 2)):
        assert set(np.unique(rows[..., j])) == set(range(count))
        share = np.bincount(rows[0, :, j].astype(int)) / 50_000
        np.testing.assert_allclose(share, np.bincount(X[:, j].astype(int)) / 400, atol=0.01)
        np.testing.assert_array_equal(drawn.features[..., j], rows[..., j] == Z[:2, None, j])
    np.testing.assert_array_equal(drawn.weights[:, 0], 1.0)
    later = batch(sampler, Z[:2], [stream(0, "perturbations"), stream(1, "perturbations")], 50, first=False)
    assert later.features.shape == (2, 50, 4)
    assert later.weights.max() < 1.0  # the row itself only once
    np.testing.assert_array_equal(sampler.mean[[1, 3]], 0.0)
    np.testing.assert_array_equal(sampler.scale[[1, 3]], 1.0)


def test_a_category_that_never_occurs_is_never_drawn():
    sampler = LimeSampler(np.zeros(1), np.ones(1), {0: np.array([0.0, 0.4, 0.0, 0.6, 0.0])}, np.zeros(1), 1.0)
    drawn = sampler.draw(np.array([[1.0]]), [stream(0, "perturbations")], 10_000)
    assert set(np.unique(drawn.rows)) == {1.0, 3.0}


def test_coalitions_follow_the_shap_kernel():
    background = np.random.default_rng(0).normal(size=(7, 5))
    x = np.arange(10.0, 15.0)[None]
    drawn = batch(CoalitionSampler(background, 3), x, [stream(0, "perturbations")], 40_002, first=True)
    members = drawn.features[0].astype(bool)
    assert members[0].all()
    assert not members[1].any()
    size = members[2:].sum(axis=1)
    kernel = 4 / (np.arange(1, 5) * (5 - np.arange(1, 5)))
    np.testing.assert_allclose(np.bincount(size, minlength=5)[1:] / 40_000, kernel / kernel.sum(), atol=0.01)
    np.testing.assert_allclose(members[2:].mean(axis=0), 0.5, atol=0.01)
    # the ends have 1 where all the others have sum(kernel)
    np.testing.assert_allclose(drawn.weights[0, :2] / drawn.weights[0, 2:].sum(), 1 / kernel.sum(), rtol=1e-10)
    for b in range(3):
        rows = drawn.rows[0, :, b]
        np.testing.assert_array_equal(rows[members], np.broadcast_to(x, rows.shape)[members])
        # the absent features come from one background row together
        source = np.array([np.flatnonzero((background[:, ~m] == row[~m]).all(axis=1))[0] for m, row in
                           zip(members[1:200], rows[1:200], strict=True)])  # fmt: skip
        assert set(source) == set(range(7))
