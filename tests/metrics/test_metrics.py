"""Scores of intervals and normal predictions against closed forms."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gpec.errors import GPECError, InputError, ParameterTypeError
from gpec.metrics import coverage, crps, interval_score, mean_width, nlpd

N = 4_000
# The quantiles of a normal variable at N even levels: their mean of any smooth function is its expectation.
NORMAL = norm.ppf((np.arange(N) + 0.5) / N)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (3.0, 0.2), (-100.0, 50.0)])
def test_normal_predictions(mean, std, level):
    """Of the true distribution, the central interval covers its level and scores 2 phi(z) std / (alpha / 2)."""
    truth, z = mean + std * NORMAL, norm.isf((1 - level) / 2)
    lower, upper = np.full(N, mean - z * std), np.full(N, mean + z * std)
    assert coverage(truth, lower, upper) == pytest.approx(level, abs=1 / N)
    assert mean_width(lower, upper) == pytest.approx(2 * z * std)
    alpha = 1 - level
    # width + 2 * (2 / alpha) * E[(Y - u)+], and E[(Z - z)+] = phi(z) - z alpha / 2
    expected = std * 4 / alpha * norm.pdf(z)
    assert interval_score(truth, lower, upper, level) == pytest.approx(expected, rel=2e-3)
    entropy = 0.5 * np.log(2 * np.pi * np.e * std**2)
    assert nlpd(truth, np.full(N, mean), np.full(N, std)) == pytest.approx(entropy, abs=2e-3)


@pytest.mark.parametrize("wrong", [0.4, 2.5])
@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_wrong_predictions_score_worse_by_the_closed_form(wrong, shift):
    """nlpd exceeds the entropy by the divergence of the two normals; the interval score is least for the truth."""
    ones = np.ones(N)
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    divergence = np.log(wrong) + (1 + shift**2) / (2 * wrong**2) - 0.5
    assert nlpd(NORMAL, shift * ones, wrong * ones) == pytest.approx(entropy + divergence, rel=3e-3)
    z = norm.isf(0.05)
    best = interval_score(NORMAL, -z * ones, z * ones, 0.9)
    assert interval_score(NORMAL, (shift - wrong * z) * ones, (shift + wrong * z) * ones, 0.9) > best


def test_nlpd_is_that_of_scipy():
    rng = np.random.default_rng(0)
    y, mean, std = rng.normal(size=(6, 3)), rng.normal(size=(6, 3)), rng.uniform(0.1, 4.0, (6, 3))
    assert nlpd(y, mean, std) == pytest.approx(-norm.logpdf(y, mean, std).mean(), rel=1e-12)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (3.0, 0.2), (-100.0, 50.0)])
def test_crps_of_the_true_distribution(mean, std):
    """It expects std / sqrt(pi)."""
    score = crps(mean + std * NORMAL, np.full(N, mean), np.full(N, std))
    assert score == pytest.approx(std / np.sqrt(np.pi), rel=1e-3)


@pytest.mark.parametrize("truth", [-4.0, 0.3, 1.0, 9.0])
@pytest.mark.parametrize(("mean", "std"), [(0.3, 1.5), (1.0, 0.1), (-2.0, 7.0)])
def test_crps_is_the_integral_that_defines_it(truth, mean, std):
    ends = min(truth, mean - 12 * std), max(truth, mean + 12 * std)
    below = quad(lambda t: norm.cdf(t, mean, std) ** 2, ends[0], truth, points=[np.clip(mean, ends[0], truth)])[0]
    above = quad(lambda t: norm.sf(t, mean, std) ** 2, truth, ends[1], points=[np.clip(mean, truth, ends[1])])[0]
    assert crps(truth, mean, std) == pytest.approx(below + above, rel=1e-7)


def test_crps_without_doubt_is_the_absolute_error():
    assert crps([1.0, -2.0, 5.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]) == pytest.approx((0 + 3 + 4) / 3)
    for std in (1e-12, 1e-200, 5e-324):
        assert crps([1.0, -2.0, 5.0], [1.0, 1.0, 1.0], [std, std, std]) == pytest.approx((0 + 3 + 4) / 3)
    with pytest.raises(InputError, match="std has numbers less than 0"):
        crps([1.0, 2.0], [1.0, 2.0], [1.0, -1.0])


def test_ends_are_covered():
    assert coverage([0.0, 1.0, 1.0 + 1e-12, -1e-12], [0, 0, 0, 0], [1, 1, 1, 1]) == 0.5
    assert interval_score([0.0, 1.0], [0.0, 0.0], [1.0, 1.0]) == 1.0


def test_interval_score_by_hand():
    # 2 / 0.2 times 0.5 below, and times 2 above
    assert interval_score([-0.5], [0.0], [1.0], level=0.8) == pytest.approx(1 + 10 * 0.5)
    assert interval_score([3.0], [0.0], [1.0], level=0.8) == pytest.approx(1 + 10 * 2)
    assert interval_score([3.0], [0.0], [1.0]) == pytest.approx(1 + 40 * 2)  # of 0.95


ARRAYS = {
    coverage: (1.0, 0.0, 2.0),
    mean_width: (0.0, 2.0),
    interval_score: (1.0, 0.0, 2.0),
    nlpd: (1.0, 0.0, 2.0),
    crps: (1.0, 0.0, 2.0),
}


@pytest.fixture(params=ARRAYS, ids=lambda metric: metric.__name__)
def metric(request):
    return request.param


def arrays(metric, shape=(6, 3)):
    """Arguments whose score differs from entry to entry."""
    rng = np.random.default_rng(0)
    return [start + rng.normal(size=shape) * (0.2 if start == 2.0 else 1.0) for start in ARRAYS[metric]]


def test_whole_weights_are_repetitions(metric):
    given, counts = arrays(metric), np.array([0, 1, 2, 5, 1, 3])
    expected = metric(*(np.repeat(array, counts, axis=0) for array in given))
    assert metric(*given, weights=counts[:, None]) == pytest.approx(expected, rel=1e-12)
    assert metric(*given, weights=7.5 * counts[:, None]) == pytest.approx(expected, rel=1e-12)
    assert metric(*given, weights=np.repeat(counts[:, None], 3, axis=1)) == pytest.approx(expected, rel=1e-12)


def test_equal_weights_are_none(metric):
    given = arrays(metric)
    assert metric(*given, weights=np.full((6, 1), 0.3)) == pytest.approx(metric(*given), rel=1e-12)
    assert metric(*given, weights=2.0) == pytest.approx(metric(*given), rel=1e-12)


def test_lists_and_several_outputs(metric):
    given = arrays(metric, (4, 3, 2))
    assert metric(*(array.tolist() for array in given)) == metric(*given)
    assert isinstance(metric(*given), float)
    assert metric(*(array.ravel() for array in given)) == pytest.approx(metric(*given), rel=1e-12)


def test_one_number(metric):
    assert np.isfinite(metric(*ARRAYS[metric]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda array: array[:-1], "shapes"),
        (lambda array: array[:, :1], "shapes"),
        (lambda array: array[0, 0], "shapes"),
        (lambda array: np.where(array > np.median(array), array, np.nan), "nan"),
        (lambda array: np.full_like(array, np.inf), "inf"),
        (lambda array: array.astype(str), "real numbers"),
        (lambda array: array + 1j, "real numbers"),
        (lambda array: None, "real numbers"),
    ],
    ids=range(8),
)
def test_arrays_that_cannot_be_used(metric, change, words):
    for i in range(len(ARRAYS[metric])):
        given = arrays(metric)
        given[i] = change(given[i])
        with pytest.raises((InputError, ParameterTypeError), match=words):
            metric(*given)


def test_weights_of_any_size(metric):
    given, weights = arrays(metric), np.arange(1.0, 7.0)[:, None]
    for scale in (1e-300, 1e307):
        assert metric(*given, weights=scale * weights) == pytest.approx(metric(*given, weights=weights), rel=1e-12)


def test_no_entries(metric):
    with pytest.raises(InputError, match="is empty"):
        metric(*arrays(metric, (0, 3)))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.zeros((6, 1)), "all 0"),
        (np.array([[1.0, -1.0, 1.0]]), "at least 0"),
        (np.array([[1.0, np.nan, 1.0]]), "nan"),
        (np.ones(6), r"\(6,\).*\(6, 3\)"),
        (np.ones((2, 6, 3)), r"\(2, 6, 3\).*\(6, 3\)"),
        ("many", "real numbers"),
    ],
    ids=["zero", "negative", "NaN", "one axis", "three axes", "a text"],
)
def test_weights_that_cannot_be_used(metric, weights, words):
    with pytest.raises(GPECError, match=words):
        metric(*arrays(metric), weights=weights)


@pytest.mark.parametrize("std", [0.0, -1.0])
def test_density_needs_a_deviation(std):
    with pytest.raises(InputError, match="std has numbers that are not greater than 0"):
        nlpd([1.0, 2.0], [1.0, 2.0], [1.0, std])


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, np.nan, None, "high"])
def test_level_that_is_none(level):
    with pytest.raises(GPECError, match=r"^level="):
        interval_score([1.0], [0.0], [2.0], level)
