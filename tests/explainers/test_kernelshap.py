"""KernelSHAP: which coalitions are drawn, what the regression makes of them, and how wrong it says it is."""

from math import comb

import numpy as np
import pytest
import shap
from explainer_helpers import play, shapley_by_definition, tangled
from sklearn.base import clone

from gpec.errors import InputError, ParameterTypeError
from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.shapley import ExactShapley

ROWS = np.random.default_rng(3).normal(size=(40, 9))


def random_game(m, seed=0):
    """A game, the values of all its coalitions by their number, and its Shapley values."""
    size = ((np.arange(2**m)[:, None] >> np.arange(m)) & 1).sum(axis=1)
    v = np.random.default_rng(seed).normal(size=2**m) + 3.0 * size

    def value(masks):
        return v[masks @ (1 << np.arange(m))]

    return value, v, shapley_by_definition(lambda rows: value(rows > 0), np.ones(m), np.zeros((1, m)))


# Closed forms


@pytest.mark.parametrize("m", range(2, 10))
def test_all_coalitions_give_the_exact_values(m):
    value, _, exact = random_game(m)
    values, variance, games = play(KernelShap(2**m - 2), value, m, 3)
    for coalitions in games:
        assert len(np.unique(coalitions, axis=0)) == len(coalitions) == 2**m - 2
    np.testing.assert_allclose(values, np.tile(exact, (3, 1)), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(variance, 0)


def test_additive_game_needs_few_coalitions():
    effects = np.random.default_rng(0).normal(size=30)
    values, variance, _ = play(KernelShap(120), lambda masks: masks @ effects + 1.0, 30, 4)
    np.testing.assert_allclose(values, np.tile(effects, (4, 1)), rtol=0, atol=1e-12)
    assert variance.max() < 1e-24


def test_regression_without_shortcuts():
    """The solution is that of the constrained least squares problem when coalitions are few and all of them there."""
    m = 5
    value, v, _ = random_game(m)
    masks = ((np.arange(1, 2**m - 1)[:, None] >> np.arange(m)) & 1).astype(float)
    size = masks.sum(axis=1)
    weight = np.array([(m - 1) / (comb(m, int(k)) * k * (m - k)) for k in size])
    rows = masks[:, :-1] - masks[:, -1:]  # the last value is what the others leave of the whole
    target = v[1:-1] - v[0] - masks[:, -1] * (v[-1] - v[0])
    root = np.sqrt(weight)
    expected = np.linalg.lstsq(rows * root[:, None], target * root, rcond=None)[0]
    values, _, _ = play(KernelShap(2**m), value, m)
    np.testing.assert_allclose(values[0, :-1], expected, rtol=0, atol=1e-12)


# Which coalitions


def sizes(coalitions):
    return np.bincount(coalitions.sum(axis=1), minlength=coalitions.shape[1])[1:]


@pytest.mark.parametrize(
    ("m", "n_samples"), [(4, 12), (9, 80), (10, 400), (12, 3_000), (14, 14_000), (30, 500), (70, 700)]
)
def test_coalitions(m, n_samples):
    _, _, games = play(KernelShap(n_samples), lambda masks: masks[:, 0] * 1.0, m, 3)
    for coalitions in games:
        found = {row.tobytes() for row in coalitions}
        assert len(found) == len(coalitions) == n_samples  # none twice
        assert found == {row.tobytes() for row in ~coalitions}  # each with its opposite
        assert (sizes(coalitions) >= np.minimum([comb(m, k) for k in range(1, m)], 2)).all()
    if m > 4:  # each game draws its own
        assert {row.tobytes() for row in games[0]} != {row.tobytes() for row in games[1]}


def test_coalitions_of_a_size_are_equally_likely():
    _, _, games = play(KernelShap(20), lambda masks: masks[:, 0] * 1.0, 7, 20_000)
    masks = np.concatenate(games)
    for size in (2, 3):
        chosen = masks[masks.sum(axis=1) == size]
        _, counts = np.unique(chosen, axis=0, return_counts=True)
        assert len(counts) == comb(7, size)
        expected = len(chosen) / comb(7, size)
        assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)


def test_too_few_are_made_enough():
    values, variance, games = play(KernelShap(1), random_game(12)[0], 12, 5)
    for coalitions in games:
        assert sizes(coalitions).tolist() == [4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    assert np.isfinite(values).all()
    assert (variance > 0).all()


@pytest.mark.parametrize(("m", "least"), [(2, 2), (3, 6), (4, 12), (5, 14), (12, 44), (13, 46), (70, 276)])
def test_the_least_number_of_coalitions(m, least):
    for n_samples, used in ((1, least), (least, least), (least + 3, min(least + 2, 2**m - 2))):
        _, _, games = play(KernelShap(n_samples), lambda masks: masks[:, 0] * 1.0, m, 2)
        assert [len(coalitions) for coalitions in games] == [used] * 2


# How wrong


@pytest.mark.parametrize(("m", "n_samples"), [(6, 30), (6, 58), (9, 40), (9, 120), (9, 400), (10, 100)])
def test_unbiased_and_as_wrong_as_it_says(m, n_samples):
    value, _, exact = random_game(m)
    values, variance, _ = play(KernelShap(n_samples), value, m, 3_000)
    actual = values.var(axis=0, ddof=1)
    assert 1 / 1.25 < variance.mean() / actual.mean() < 1.25
    standard_error = np.sqrt(actual / len(values))
    assert (np.abs(values.mean(axis=0) - exact) < 4.5 * standard_error).all()


def products(masks):
    """Two products of three of 12 players, which share one, beside the players themselves."""
    z = 2.0 * masks - 1
    return masks @ np.arange(12) + z[:, 0] * z[:, 9] * z[:, 10] - 2 * z[:, 9] * z[:, 11] * z[:, 3]


def test_interactions_of_three_are_found():
    exact = np.arange(12.0)
    np.add.at(exact, [0, 9, 10], 2 / 3)
    np.add.at(exact, [9, 11, 3], -4 / 3)
    values, variance, _ = play(KernelShap(200), products, 12, 20)
    assert np.abs(values - exact).max() < 1e-3  # without interactions the error is about 0.1
    assert (variance < 1e-6).all()
    np.testing.assert_allclose(values.sum(axis=1), exact.sum(), rtol=0, atol=1e-9)


def test_games_with_other_players_do_not_share_interactions():
    """A background row that agrees in some features has other players; its values are still those of its own game."""
    background = ROWS[20:30].copy()
    background[::2, 1], background[1::2, 7] = ROWS[0, 1], ROWS[0, 7]
    ready = KernelShap(100).fit(tangled, ROWS, background=background)
    exact = ExactShapley().fit(tangled, ROWS, background=background)(ROWS[:1])
    found = ready(ROWS[:1])
    assert (np.abs(found.values - exact.values) < 5 * np.sqrt(found.variance)).all()


def test_rare_interactions_leave_numbers():
    """Most pairs tell nothing: folds without any signal have neither slopes nor interactions."""
    values, variance, _ = play(KernelShap(60), lambda masks: 1.0 * (masks[:, :4].all(axis=1)), 12, 50)
    assert np.isfinite(values).all()
    assert np.isfinite(variance).all()
    np.testing.assert_allclose(values.sum(axis=1), 1, rtol=0, atol=1e-9)


def sampled(n_samples, seeds, background=ROWS[20:30]):
    ready = KernelShap(n_samples).fit(tangled, ROWS, background=background)
    runs = [ready.explain(ROWS[:2], seed=seed).squeeze_single_output() for seed in range(seeds)]
    exact = ExactShapley().fit(tangled, ROWS, background=background)(ROWS[:2]).values
    return np.stack([run.values for run in runs]), np.stack([run.variance for run in runs]), exact


@pytest.mark.parametrize("n_samples", [40, 100, 300])
def test_claimed_variance_is_the_variance_from_seed_to_seed(n_samples):
    values, variance, exact = sampled(n_samples, 200)
    actual = values.var(axis=0, ddof=1)
    assert 1 / 1.25 < variance.mean() / actual.mean() < 1.25
    assert (np.abs(values.mean(axis=0) - exact) < 4.5 * np.sqrt(actual / len(values))).all()


def test_error_falls_with_the_budget():
    few, _, exact = sampled(60, 60)
    many, _, _ = sampled(300, 60)
    assert ((few - exact) ** 2).mean() > 5 * ((many - exact) ** 2).mean()


@pytest.mark.parametrize("n_samples", [60, 150])
def test_better_than_shap_at_equal_cost(n_samples, counting):
    background = np.abs(ROWS[20:30])
    model = counting(tangled)
    explainer = shap.KernelExplainer(model, background)
    theirs, before = [], model.n_rows
    for seed in range(15):
        np.random.seed(seed)
        theirs.append(explainer.shap_values(ROWS[:2], nsamples=n_samples, l1_reg=False, silent=True))
    cost = model.n_rows - before
    values, _, exact = sampled(n_samples, 15, background)
    assert 15 * 2 * n_samples * len(background) <= cost
    assert ((values - exact) ** 2).mean() < 0.7 * ((np.stack(theirs) - exact) ** 2).mean()


def test_part_of_the_background_can_be_enumerated(counting):
    """Background rows that differ in few features are solved exactly, and what they leave goes to the others."""
    background = ROWS[20:30].copy()
    background[:5, 3:] = ROWS[0, 3:]
    model = counting(tangled)
    ready = KernelShap(60).fit(model, ROWS, background=background)
    before = model.n_rows
    found = ready(ROWS[:1])
    assert model.n_rows - before == 5 * 6 + 5 * 114 + 1  # (600 - 30) / 5 = 114
    exact = ExactShapley().fit(tangled, ROWS, background=background)(ROWS[:1]).values
    assert (found.variance[0] > 0).all()
    assert (np.abs(found.values - exact) < 5 * np.sqrt(found.variance)).all()
    sub = KernelShap(6).fit(tangled, ROWS, background=background[:5])(ROWS[:1])
    np.testing.assert_array_equal(sub.variance, 0)


def test_one_feature_needs_no_coalitions():
    found = KernelShap().fit(lambda X: X[:, 0] ** 2, ROWS[:, :1], model_output="value")(ROWS[:3, :1])
    np.testing.assert_allclose(found.values[:, 0], ROWS[:3, 0] ** 2 - found.base_values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.variance, 0)


# Faults


def test_wrong_parameters():
    with pytest.raises(InputError, match="n_samples=0 must be at least 1"):
        KernelShap(0).fit(tangled, ROWS)
    with pytest.raises(InputError, match="n_samples='many' is not one of 'auto'"):
        KernelShap("many").fit(tangled, ROWS)
    with pytest.raises(ParameterTypeError, match=r"n_samples=2\.5 must be a whole number"):
        KernelShap(2.5).fit(tangled, ROWS)
    assert clone(KernelShap(30)).n_samples == 30


def test_memory_is_bounded(counting):
    largest = []
    model = counting(lambda X: 0.5 + 0.0 * X[:, 0], before=lambda call, X: largest.append(len(X)))
    wide = np.random.default_rng(0).normal(size=(60, 400))
    ready = KernelShap(1_700).fit(model, wide, background=wide[20:])
    ready(wide[:1])
    assert 4_000 < max(largest) <= 10_000  # of 68,000 masked rows


def test_the_budget_of_auto():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(60, 12))  # nothing repeats, and 2^12 coalitions are too many
    explainer = KernelShap().fit(lambda rows: 1 / (1 + np.exp(-rows[:, 0] * rows[:, 1])), X, background=10)
    before = explainer.model_.n_rows
    explainer(X[20:21])
    assert explainer.model_.n_rows - before == pytest.approx((2 * 12 + 512) * 10, rel=0.01)
