"""Shapley values: exact, by permutations, and what all three estimators share."""

import numpy as np
import pytest
import shap
from explainer_helpers import SLOPES, linear, play, shapley_by_definition, tangled
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from gpec.errors import InputError, ModelCallError, NotFittedError, ParameterTypeError
from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.shapley import ExactShapley, ShapleySampling
from gpec.explainers.tree import TreeShap

ROWS = np.random.default_rng(7).normal(size=(40, 8))


def explained(explainer, model, rows, background, seed=0, X=None):
    X = np.concatenate([rows, background]) if X is None else X
    explainer = clone(explainer).fit(model, X, background=background, random_state=seed)
    return explainer(rows)


ALL = [KernelShap(), KernelShap(36), ShapleySampling(), ShapleySampling(60), ExactShapley()]
EXACT = [KernelShap(), ExactShapley()]


# Closed forms


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_linear_model(explainer):
    background = ROWS[[20, 20, 20, *range(21, 28)]]
    found = explained(explainer, linear, ROWS[:6], background)
    expected = SLOPES * (ROWS[:6] - background.mean(axis=0))
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.base_values, np.full(6, linear(background).mean()), atol=1e-14)
    assert found.variance.max() < 1e-24


@pytest.mark.parametrize("explainer", EXACT, ids=repr)
def test_definition(explainer):
    found = explained(explainer, tangled, ROWS[:2], ROWS[20:25])
    for x, values in zip(ROWS[:2], found.values, strict=True):
        np.testing.assert_allclose(values, shapley_by_definition(tangled, x, ROWS[20:25]), rtol=0, atol=1e-13)
    assert (found.variance == 0).all()


@pytest.mark.parametrize("explainer", EXACT, ids=repr)
def test_three_classes(explainer, models, X):
    found = explained(explainer, models.three_classes, X[:3], X[50:57])
    assert found.values.shape == found.variance.shape == (3, 3, 3)
    for x, values in zip(X[:3], found.values, strict=True):
        np.testing.assert_allclose(values, shapley_by_definition(models.three_classes, x, X[50:57]), rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.base_values, np.tile(models.three_classes(X[50:57]).mean(axis=0), (3, 1)))


def three_of_eight(X):
    p = tangled(X)
    return np.column_stack([p / 2, p**2 / 2, 1 - p / 2 - p**2 / 2])


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_classes_are_explained_as_if_alone(explainer):
    found = explained(explainer, three_of_eight, ROWS[:3], ROWS[20:30])
    for c in range(3):
        alone = explained(explainer, lambda X, c=c: three_of_eight(X)[:, c], ROWS[:3], ROWS[20:30])
        np.testing.assert_allclose(found.values[:, :, c], alone.values, rtol=0, atol=1e-13)
        np.testing.assert_allclose(found.variance[:, :, c], alone.variance, rtol=1e-9, atol=1e-20)


def test_agrees_with_shap():
    background = ROWS[20:30]
    masker = shap.maskers.Independent(background[:, :4])

    def model(X):
        return three_of_eight(np.hstack([X, X]))

    theirs = shap.explainers.ExactExplainer(model, masker)(ROWS[:3, :4]).values
    ours = explained(ExactShapley(), model, ROWS[:3, :4], background[:, :4]).values
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8)


# Properties


@pytest.mark.parametrize("explainer", [*ALL, ShapleySampling(1)], ids=repr)
def test_values_add_to_the_prediction(explainer):
    found = explained(explainer, tangled, ROWS[:10], ROWS[10:])  # 30 background rows: 60 permutations are too few
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, tangled(ROWS[:10]), rtol=0, atol=1e-14)


def with_ties(n):
    """Rows of codes and equal numbers: many features agree, and some rows do."""
    return np.random.default_rng(n).integers(0, 2, size=(n, 8)).astype(float)


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_equal_features_and_equal_rows_are_only_a_saving(explainer):
    rows, background = with_ties(5), np.repeat(with_ties(6), 2, axis=0)
    background[0] = rows[0]
    found = explained(explainer, tangled, rows, background)
    expected = np.stack([shapley_by_definition(tangled, x, background) for x in rows])
    error = np.abs(found.values - expected)
    if isinstance(explainer, ShapleySampling):
        assert error.max() < 0.03
    else:
        assert error.max() < 1e-13


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_row_equal_to_the_background(explainer):
    found = explained(explainer, tangled, ROWS[:1], ROWS[:1], X=ROWS)
    np.testing.assert_array_equal(found.values, 0)
    np.testing.assert_array_equal(found.variance, 0)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("explainer", [*ALL, KernelShap(1)], ids=repr)
def test_few_features(explainer, d):
    def model(X):
        return 1 / (1 + np.exp(-np.prod(X, axis=1)))

    found = explained(explainer, model, ROWS[:3, :d], ROWS[20:26, :d])
    expected = np.stack([shapley_by_definition(model, x, ROWS[20:26, :d]) for x in ROWS[:3, :d]])
    sampled = d == 3 and isinstance(explainer, ShapleySampling)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=0.02 if sampled else 1e-13)
    assert (found.variance.max() > 1e-20) == sampled


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_rows_do_not_depend_on_the_rows_beside_them(explainer):
    ready = clone(explainer).fit(tangled, ROWS, background=ROWS[20:32])
    together = ready.explain(ROWS[:6], seed=3)
    for i in range(6):
        alone = ready.explain(ROWS[i : i + 1], seed=3)
        np.testing.assert_allclose(alone.values[0], together.values[i], rtol=0, atol=1e-13)
        np.testing.assert_allclose(alone.variance[0], together.variance[i], rtol=1e-10)


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_seeds_and_runs(explainer):
    ready = clone(explainer).fit(tangled, ROWS, background=ROWS[20:32])
    first = ready.explain(ROWS[:2], seed=3)
    np.testing.assert_array_equal(ready.explain(ROWS[:2], seed=3).values, first.values)
    for other in (ready.explain(ROWS[:2], seed=4), ready.explain(ROWS[:2], seed=3, run=1)):
        assert (np.abs(other.values - first.values).max() > 1e-5) == bool(first.variance.max() > 0)


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_calls_of_another_size_change_nothing(explainer, monkeypatch, counting):
    whole = explained(explainer, tangled, ROWS[:3], ROWS[20:30])
    monkeypatch.setattr("gpec.explainers._coalitions._ROWS_AT_ONCE", 1)
    monkeypatch.setattr("gpec.explainers._coalitions._ENTRIES_AT_ONCE", 1)
    largest = []
    model = counting(tangled, before=lambda call, X: largest.append(len(X)))
    pieces = explained(explainer, model, ROWS[:3], ROWS[20:30])
    # the last put may bring all coalitions of one background row
    assert max(largest) <= 256 + 2**8
    if not first_draws_depend_on_blocks(explainer):
        np.testing.assert_allclose(pieces.values, whole.values, rtol=0, atol=1e-13)
        np.testing.assert_allclose(pieces.variance, whole.variance, rtol=1e-10, atol=1e-20)


def first_draws_depend_on_blocks(explainer):
    """Draws follow the blocks, whose size is fixed by the number of features and of coalitions."""
    return isinstance(explainer, KernelShap) and explainer.n_samples == 36


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_frames_with_text(explainer, mixed):
    ready = clone(explainer).fit(mixed.model, mixed.frame, background=8)
    found = ready(mixed.frame[:4])
    expected = mixed.model.predict_proba(mixed.frame[:4])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, rtol=0, atol=1e-13)
    exact = clone(ExactShapley()).fit(mixed.model, mixed.frame, background=8)(mixed.frame[:4])
    assert (np.abs(found.values - exact.values) <= 6 * np.sqrt(found.variance) + 1e-13).all()


@pytest.mark.parametrize("explainer", [KernelShap(300), ShapleySampling(100)], ids=repr)
def test_many_features(explainer):
    wide = np.random.default_rng(0).normal(size=(30, 70))  # codes of coalitions no longer fit into a number

    def model(X):
        return 1 / (1 + np.exp(-X[:, 0] * X[:, 1] - X[:, 69]))

    found = explained(explainer, model, wide[:2], wide[20:30])
    expected = shapley_by_definition(
        lambda X: model(np.insert(X, [2] * 67, 0.0, axis=1)), wide[0, [0, 1, 69]], wide[20:30, [0, 1, 69]]
    )
    np.testing.assert_allclose(found.values[0, [0, 1, 69]], expected, atol=0.05)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, model(wide[:2]), rtol=0, atol=1e-13)


def test_which_are_deterministic():
    def stochastic(explainer, d):
        return clone(explainer).fit(linear, ROWS[:, :d], background=5).stochastic

    assert stochastic(ExactShapley(), 8) is False
    assert stochastic(KernelShap(), 8) is False
    assert stochastic(KernelShap(100), 8) is None  # depends on the row
    assert stochastic(ShapleySampling(), 8) is True
    assert stochastic(ShapleySampling(), 2) is False


# Cost


def model_rows(explainer, rows, background, counting):
    model = counting(tangled)
    ready = clone(explainer).fit(model, np.concatenate([rows, background]), background=background)
    before = model.n_rows
    ready(rows)
    return model.n_rows - before


@pytest.mark.parametrize(
    ("explainer", "cost"),
    [
        (ExactShapley(), 10 * 254 + 1),
        (KernelShap(), 10 * 254 + 1),
        (KernelShap(60), 10 * 60 + 1),
        (KernelShap(253), 10 * 252 + 1),
        (ShapleySampling(200), 200 * 7 + 1),
    ],
    ids=repr,
)
def test_cost(explainer, cost, counting):
    found = model_rows(explainer, ROWS[:1], ROWS[20:30], counting)
    if isinstance(explainer, ShapleySampling):  # some coalitions come twice
        assert 0.5 * cost < found < cost
    else:
        assert found == cost


def test_cost_where_features_agree(counting):
    background = np.tile(ROWS[0], (10, 1))
    background[:, [0, 3, 5]] = ROWS[20:30][:, [0, 3, 5]]
    for explainer in (ExactShapley(), KernelShap(60), KernelShap(7)):
        assert model_rows(explainer, ROWS[:1], background, counting) == 10 * 6 + 1
    assert model_rows(ShapleySampling(2_000), ROWS[:1], background, counting) == 10 * 6 + 1
    assert model_rows(ExactShapley(), ROWS[:1], np.repeat(background, 5, axis=0), counting) == 10 * 6 + 1
    wide, others = np.zeros((1, 70)), np.zeros((10, 70))  # equal masked rows are not looked for
    others[:, [0, 3, 5]] = 1 + ROWS[20:30][:, [0, 3, 5]]
    assert model_rows(ShapleySampling(40), wide, others, counting) == 40 * 2 + 1


# Sampling


def test_a_pair_of_orders_gives_interactions_of_two_exactly():
    def value(masks):
        return masks[:, 0] * (1.0 + 2.0 * masks[:, 1]) - masks[:, 2] * 1.0 * masks[:, 3]

    values, _, games = play(ShapleySampling(2), value, 4, 500)
    for coalitions in games:  # orders and their reverse: each coalition with its opposite
        assert {row.tobytes() for row in coalitions} == {row.tobytes() for row in ~coalitions}
    np.testing.assert_allclose(values, np.tile([2.0, 1.0, -0.5, -0.5], (500, 1)), atol=1e-12)


def test_all_orders_are_equally_likely():
    """Of an order and its reverse, the first and the last are seen alone; in a third of games twice the same two."""
    _, _, games = play(ShapleySampling(2), lambda masks: masks[:, 0] * 1.0, 3, 6_000)
    alone = np.array([game[game.sum(axis=1) == 1].any(axis=0) for game in games])
    assert (alone.sum(axis=1) >= 2).all()
    assert np.abs((~alone).sum(axis=0) - 6_000 / 9).max() < 110


def sampled(explainer, seeds, rows=ROWS[:2], background=ROWS[20:36]):
    """Values, variances ``(seeds, rows, d)`` and the exact values."""
    ready = clone(explainer).fit(tangled, ROWS, background=background)
    runs = [ready.explain(rows, seed=seed).squeeze_single_output() for seed in range(seeds)]
    exact = explained(ExactShapley(), tangled, rows, background).values
    return np.stack([run.values for run in runs]), np.stack([run.variance for run in runs]), exact


@pytest.mark.parametrize("n_permutations", [64, 99, 150, 400])  # with 16, 24 and then all 30 background rows
def test_claimed_variance_is_the_variance_from_seed_to_seed(n_permutations):
    values, variance, exact = sampled(ShapleySampling(n_permutations), 200, background=ROWS[10:])
    actual = values.var(axis=0, ddof=1)
    assert 1 / 1.25 < variance.mean() / actual.mean() < 1.25
    standard_error = np.sqrt(actual / len(values))
    assert (np.abs(values.mean(axis=0) - exact) < 4.5 * standard_error).all()


def test_variance_where_background_rows_do_not_matter():
    """All background rows are the same to the model, so that they differ only by the permutations on them."""
    background = np.tile(ROWS[20], (40, 1))
    background[:, 7] = np.linspace(0, 1, 40)
    ready = ShapleySampling(64).fit(lambda X: tangled(np.asarray(X) * ([1.0] * 7 + [0.0])), ROWS, background=background)
    runs = [ready.explain(ROWS[:1], seed=seed) for seed in range(300)]
    actual = np.stack([run.values for run in runs]).var(axis=0, ddof=1)
    assert 1 / 1.25 < np.mean([run.variance for run in runs]) / actual.mean() < 1.25


def test_error_falls_with_the_budget():
    few, _, exact = sampled(ShapleySampling(64), 60)
    many, _, _ = sampled(ShapleySampling(1_024), 60)
    assert ((few - exact) ** 2).mean() > 0.8 * 16 * ((many - exact) ** 2).mean()


def test_better_than_shap_at_equal_cost(counting):
    background = np.abs(ROWS[20:36])  # with a background whose interactions cancel the two are equal
    model = counting(tangled)
    explainer = shap.PermutationExplainer(model, shap.maskers.Independent(background))
    theirs = []
    for seed in range(30):
        np.random.seed(seed)
        theirs.append(explainer(ROWS[:2], max_evals=2 * 17, silent=True).values)
    cost = model.n_rows / 60
    values, _, exact = sampled(ShapleySampling(int(cost / 7)), 30, background=background)
    assert model_rows(ShapleySampling(int(cost / 7)), ROWS[:1], background, counting) <= cost
    ours, theirs = ((values - exact) ** 2).mean(), ((np.stack(theirs) - exact) ** 2).mean()
    assert ours < 0.5 * theirs


# Faults


def test_too_many_features():
    with pytest.raises(InputError, match=r"X has 17, more than 16; use KernelShap or ShapleySampling"):
        ExactShapley().fit(lambda X: X[:, 0], np.random.default_rng(0).random((20, 17)))


def test_wrong_parameters():
    with pytest.raises(InputError, match="n_permutations=0 must be at least 1"):
        ShapleySampling(0).fit(linear, ROWS)
    with pytest.raises(ParameterTypeError, match=r"n_permutations=2\.5 must be a whole number"):
        ShapleySampling(2.5).fit(linear, ROWS)
    with pytest.raises(NotFittedError, match=r"^This ExactShapley is not fitted yet"):
        ExactShapley()(ROWS)


@pytest.mark.parametrize("explainer", ALL, ids=repr)
def test_model_that_fails_on_one_row(explainer, counting):
    def before(call, X):
        if (np.asarray(X)[:, 1] == ROWS[2, 1]).any() and len(X) > 30:
            raise ValueError("no such thing")

    ready = clone(explainer).fit(counting(tangled, before=before), ROWS, background=ROWS[20:30])
    with pytest.raises(ModelCallError, match=r"no such thing; this was while explaining rows? ") as error:
        ready(ROWS[2:4])
    assert isinstance(error.value.__cause__, ValueError)


def test_failure_names_the_explained_row(counting):
    def after(call, X, p):
        return np.where((np.asarray(X)[:, 1] == ROWS[2, 1]) & (np.asarray(X)[:, 0] != ROWS[2, 0]), np.nan, p)

    for explainer in ALL:
        ready = clone(explainer).fit(counting(tangled, after=after), ROWS[5:], background=ROWS[20:30])
        with pytest.raises(Exception, match=r"returned nan.*; this was while explaining row 2\."):
            ready(ROWS[:4])


@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_rescaled_values_of_trees_agree_for_forests_and_not_for_boosted_trees(kind):
    """The second half pins what docs/explainers.md warns of."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] * X[:, 1] + X[:, 2] > 0
    if kind == "forest":
        model = RandomForestClassifier(10, max_depth=4, random_state=0).fit(X, y)
    else:
        model = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, y)
    tree, exact = (
        explainer.fit(model, X, background=10)(X[:5]) for explainer in (TreeShap(link="identity"), ExactShapley())
    )
    np.testing.assert_allclose(tree.base_values, exact.base_values, atol=1e-6)
    np.testing.assert_allclose(tree.values.sum(axis=1), exact.values.sum(axis=1), atol=1e-6)
    difference = np.abs(tree.values - exact.values).max()
    assert difference < 1e-6 if kind == "forest" else difference > 1e-3
