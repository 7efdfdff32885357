"""Correlations and agreements of orders against scipy, sets and repetition."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from gpec.errors import GPECError, ParameterTypeError
from gpec.metrics import rank_correlation, rank_stability, rejection_curve

RNG = np.random.default_rng


# rank_correlation


@pytest.mark.parametrize("ties", [False, True])
def test_correlation_is_that_of_scipy_in_each_feature(ties):
    rng = RNG(0)
    uncertainty = rng.integers(0, 5, (30, 4, 2)) if ties else rng.normal(size=(30, 4, 2))
    actual = uncertainty + rng.normal(size=uncertainty.shape)
    expected = [[spearmanr(uncertainty[:, f, o], actual[:, f, o]).statistic for o in range(2)] for f in range(4)]
    assert rank_correlation(uncertainty, actual, by_feature=True) == pytest.approx(np.array(expected), rel=1e-12)
    assert rank_correlation(uncertainty, actual) == pytest.approx(np.mean(expected), rel=1e-12)
    assert rank_correlation(uncertainty[:, 0, 0], actual[:, 0, 0]) == pytest.approx(expected[0][0], rel=1e-12)
    assert isinstance(rank_correlation(uncertainty[:, 0, 0], actual[:, 0, 0], by_feature=True), float)


def test_differences_between_features_do_not_count():
    rng = RNG(1)
    scale = 10.0 ** np.arange(5)
    uncertainty, actual = rng.random((400, 5)) * scale, rng.random((400, 5)) * scale
    assert spearmanr(uncertainty.ravel(), actual.ravel()).statistic > 0.9
    assert abs(rank_correlation(uncertainty, actual)) < 0.1


def test_any_increasing_change_keeps_the_order():
    x = RNG(2).normal(size=(50, 3))
    assert rank_correlation(x, np.exp(3 * x)) == 1.0
    assert rank_correlation(x, -(x**3)) == -1.0


@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-200, 1e200])
def test_whole_weights_of_a_correlation_are_repetitions(scale):
    rng = RNG(3)
    uncertainty, actual = rng.integers(0, 6, (25, 3)), rng.normal(size=(25, 3))
    counts = rng.integers(0, 4, 25)
    expected = rank_correlation(
        np.repeat(uncertainty, counts, axis=0), np.repeat(actual, counts, axis=0), by_feature=True
    )
    result = rank_correlation(uncertainty, actual, by_feature=True, weights=scale * counts)
    assert result == pytest.approx(expected, rel=1e-10)
    assert expected != pytest.approx(rank_correlation(uncertainty, actual, by_feature=True), rel=1e-3)


def test_constant_features_are_left_out():
    rng = RNG(4)
    uncertainty, actual = rng.normal(size=(20, 4)), rng.normal(size=(20, 4))
    uncertainty[:, 1], actual[:, 2] = 0.1, -0.3
    result = rank_correlation(uncertainty, actual, by_feature=True)
    assert np.isnan(result).tolist() == [False, True, True, False]
    assert rank_correlation(uncertainty, actual) == pytest.approx((result[0] + result[3]) / 2, rel=1e-12)
    assert np.isnan(rank_correlation(uncertainty[:, 1:3], actual[:, 1:3]))
    assert np.isnan(rank_correlation([1.0], [2.0]))
    # the only row that differs weighs nothing
    uncertainty[7, 1] = 5.0
    weights = rng.random(20) * (np.arange(20) != 7)
    assert np.isnan(rank_correlation(uncertainty[:, 1], actual[:, 1], weights=weights))


@pytest.mark.parametrize(
    ("uncertainty", "actual", "weights", "words"),
    [
        (np.ones((4, 2)), np.ones((4, 3)), None, "uncertainty, actual have the shapes"),
        (np.ones((4, 2)), np.ones(4), None, "uncertainty, actual have the shapes"),
        (np.ones(4), [1.0, np.nan, 1.0, 1.0], None, "actual has nan"),
        (np.ones((0, 3)), np.ones((0, 3)), None, "uncertainty is empty"),
        (1.0, 2.0, None, "single numbers"),
        (["a"], [1.0], None, "uncertainty must be an array of real numbers"),
        (np.ones((4, 2)), np.ones((4, 2)), np.ones((4, 2)), "weights has the shape"),
        (np.ones((4, 2)), np.ones((4, 2)), np.zeros(4), "weights are all 0"),
        (np.ones((4, 2)), np.ones((4, 2)), [1, 1, 1, -1], "weights has -1.0"),
    ],
    ids=range(9),
)
def test_a_correlation_that_cannot_be_had(uncertainty, actual, weights, words):
    with pytest.raises(GPECError, match=words):
        rank_correlation(uncertainty, actual, weights=weights)


# rank_stability


def top(row, k):
    return set(np.argsort(-np.abs(row))[:k])


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_shared_top_features_by_sets(k):
    rng = RNG(5)
    values = rng.normal(size=(8, 6, 2))
    others = values[:, None] + rng.normal(size=(8, 5, 6, 2))
    kept = np.array(
        [
            [len(top(values[i, :, o], k) & top(others[i, j, :, o], k)) / k for j in range(5) for o in range(2)]
            for i in range(8)
        ]
    )
    assert rank_stability(values, others, k, by_row=True) == pytest.approx(kept.mean(axis=1), rel=1e-12)
    assert rank_stability(values, others, k) == pytest.approx(kept.mean(), rel=1e-12)
    if k == 6:
        assert kept.mean() == 1.0
    one = rank_stability(values[..., 0], others[..., 0], k)
    assert one == pytest.approx(kept[:, ::2].mean(), rel=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_agreement_of_the_whole_order_is_that_of_scipy(ties):
    rng = RNG(6)
    values, noise = rng.normal(size=(7, 5)), rng.normal(size=(7, 4, 5))
    others = values[:, None] + noise
    if ties:
        values, others = np.round(2 * values), np.round(2 * others)
    expected = np.array([[spearmanr(np.abs(values[i]), np.abs(o)).statistic for o in others[i]] for i in range(7)])
    assert rank_stability(values, others, by_row=True) == pytest.approx(expected.mean(axis=1), rel=1e-12)
    assert rank_stability(values, others) == pytest.approx(expected.mean(), rel=1e-12)


@pytest.mark.parametrize("k", [None, 1, 3])
def test_only_the_size_of_an_attribution_counts(k):
    rng = RNG(7)
    values = rng.normal(size=(6, 5))
    factors = rng.choice([-1.0, 1.0], (6, 3, 5)) * rng.uniform(0.1, 9.0, (6, 3, 1))
    assert rank_stability(values, values[:, None] * factors, k) == pytest.approx(1.0, abs=1e-12)


def test_orders_that_have_nothing_in_common():
    """Of d features in random order, k / d of the top k are kept; correlations are 0."""
    rng = RNG(8)
    values, others = rng.normal(size=(200, 10)), rng.normal(size=(200, 20, 10))
    assert rank_stability(values, others, 3) == pytest.approx(0.3, abs=0.02)
    assert rank_stability(values, others) == pytest.approx(0.0, abs=0.03)
    ordered = np.arange(1.0, 5.0)
    assert rank_stability([ordered], [[ordered[::-1]]]) == pytest.approx(-1.0)
    assert rank_stability([ordered], [[ordered[::-1]]], 2) == 0.0


@pytest.mark.parametrize("k", [2, 17, 99])
def test_many_features(k):
    rng = RNG(10)
    values, others = rng.normal(size=(3, 200)), rng.normal(size=(3, 2, 200))
    kept = [len(top(values[i], k) & top(others[i, j], k)) / k for i in range(3) for j in range(2)]
    assert rank_stability(values, others, k) == pytest.approx(np.mean(kept), rel=1e-12)


def test_features_tied_for_the_last_place_share_it():
    row = [5.0, 1.0, 1.0, 0.0]
    assert rank_stability([row], [[row]], 2) == 1.0
    # the first feature, and half of the second
    assert rank_stability([row], [[[5.0, 1.0, 0.5, 0.0]]], 2) == 0.75
    assert rank_stability([[0.0, 0.0, 0.0, 0.0]], [[[0.0, 3.0, 0.0, 0.0]]], 1) == 0.25
    # two places between the last three
    assert rank_stability([[9.0, 1.0, 1.0, 1.0]], [[[9.0, 8.0, 7.0, 1.0]]], 3) == pytest.approx((1 + 2 * 2 / 3) / 3)


def test_rows_without_an_order_are_left_out():
    values = np.array([[1.0, 2.0, 3.0], [0.3, -0.3, 0.3], [3.0, 1.0, 2.0]])
    others = np.stack([values, np.ones((3, 3))], axis=1)
    assert rank_stability(values, others, by_row=True) == pytest.approx(np.array([1.0, np.nan, 1.0]), nan_ok=True)
    assert rank_stability(values, others) == 1.0
    assert np.isnan(rank_stability(values[1:2], others[1:2]))
    assert np.isnan(rank_stability(np.ones((3, 1)), np.ones((3, 2, 1))))
    assert rank_stability(np.ones((3, 1)), np.ones((3, 2, 1)), 1) == 1.0


@pytest.mark.parametrize("k", [None, 2])
def test_whole_weights_of_rows_are_repetitions(k):
    rng = RNG(9)
    values, others, counts = rng.normal(size=(6, 4)), rng.normal(size=(6, 3, 4)), np.array([0, 1, 2, 5, 1, 3])
    expected = rank_stability(np.repeat(values, counts, axis=0), np.repeat(others, counts, axis=0), k)
    assert rank_stability(values, others, k, weights=0.7 * counts) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": np.ones(3)}, r"values has the shape \(3,\); it must be \(n, d\) or \(n, d, c\)"),
        ({"others": np.ones((4, 3))}, r"others has the shape \(4, 3\).*\(4, K, 3\)"),
        ({"others": np.ones((4, 2, 5))}, r"others has the shape \(4, 2, 5\).*\(4, K, 3\)"),
        ({"others": np.ones((5, 2, 3))}, r"others has the shape \(5, 2, 3\)"),
        ({"values": np.ones((4, 3, 2))}, r"must be \(4, K, 3, 2\)"),
        ({"others": np.ones((4, 0, 3))}, "others is empty"),
        ({"values": np.ones((0, 3)), "others": np.ones((0, 2, 3))}, "others is empty"),
        ({"values": np.full((4, 3), np.nan)}, "values has nan"),
        ({"others": np.full((4, 2, 3), np.inf)}, "others has inf"),
        ({"k": 4}, "k=4 must be at most 3, the number of features"),
        ({"k": 0}, "k=0 must be at least 1"),
        ({"k": 1.5}, "k=1.5 must be a whole number"),
        ({"weights": np.ones(3)}, "weights has the shape"),
        ({"weights": np.zeros(4)}, "weights are all 0"),
    ],
    ids=range(14),
)
def test_a_stability_that_cannot_be_had(change, words):
    good = {"values": np.ones((4, 3)), "others": np.ones((4, 2, 3)), "k": 2}
    assert rank_stability(**good) == pytest.approx(1.0)
    with pytest.raises(GPECError, match=words):
        rank_stability(**{**good, **change})


def test_the_former_name_of_the_uncertainty():
    width, error = [1.0, 2.0, 4.0, 3.0], [0.0, 2.0, 1.0, 5.0]
    with pytest.warns(DeprecationWarning, match="said= is now called uncertainty="):
        assert rank_correlation(said=width, actual=error) == rank_correlation(width, error)
    with pytest.warns(DeprecationWarning, match="said= is now called uncertainty="):
        assert rejection_curve(said=width, error=error).gain == rejection_curve(width, error).gain
    with pytest.raises(ParameterTypeError, match="uncertainty must be an array of real numbers"):
        rank_correlation(actual=error)
