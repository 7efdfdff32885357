"""The rejection curve against its definition, and where its area is known."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from gpec.errors import GPECError
from gpec.metrics import rejection_curve

N = 4_000
EVEN = (np.arange(N) + 0.5) / N  # errors from 0 to 1


def test_areas_of_even_errors():
    """Of errors between 0 and 1, the oracle keeps (1 - s) / 2 when it rejects s; the worst order keeps (1 + s) / 2."""
    best = rejection_curve(EVEN**3, EVEN)
    assert best.area == pytest.approx(1 / 4, abs=1e-3)
    assert best.oracle_area == best.area
    assert best.random_area == pytest.approx(1 / 2, rel=1e-12)
    assert best.gain == 1.0
    assert best.errors[:-1] == pytest.approx((1 - best.shares[:-1]) / 2, abs=1e-3)
    worst = rejection_curve(-EVEN, EVEN)
    assert worst.area == pytest.approx(3 / 4, abs=1e-3)
    assert worst.gain == pytest.approx(-1.0, abs=5e-3)
    assert worst.errors == pytest.approx((1 + worst.shares) / 2, abs=1e-3)


def test_areas_of_exponential_errors():
    """The oracle keeps 1 + s log(s) / (1 - s), whose integral from 0 to 1 is 2 - pi^2 / 6."""
    error = -np.log(EVEN)
    curve = rejection_curve(error, error)
    assert curve.random_area == pytest.approx(1.0, abs=1e-3)
    assert curve.area == pytest.approx(2 - np.pi**2 / 6, abs=1e-3)


def remaining_error(share, uncertainty, error, weights):
    """Mean error of what is kept: walk from the least uncertain upwards, and take equals in equal parts."""
    left = (1 - share) * weights.sum()
    total = got = 0.0
    for value in np.unique(uncertainty):
        tied = uncertainty == value
        part = min(1.0, max(left - got, 0.0) / weights[tied].sum())
        total += part * (weights[tied] * error[tied]).sum()
        got += part * weights[tied].sum()
    return total / got


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_curve_and_area_by_definition(ties, weighted):
    rng = np.random.default_rng([ties, weighted])
    uncertainty = rng.integers(0, 4, 12).astype(float) if ties else rng.normal(size=12)
    error = rng.exponential(size=12)
    weights = rng.uniform(0.2, 3.0, 12) if weighted else np.ones(12)
    curve = rejection_curve(uncertainty, error, weights=weights)
    groups = len(np.unique(uncertainty))
    assert len(curve.shares) == len(curve.errors) == groups + 1
    assert curve.shares[0] == 0.0
    assert curve.shares[-1] == 1.0
    for share, kept in zip(curve.shares[:-1], curve.errors[:-1], strict=True):
        assert kept == pytest.approx(remaining_error(share, uncertainty, error, weights), rel=1e-9)
    assert curve.errors[-1] == pytest.approx(remaining_error(1 - 1e-9, uncertainty, error, weights), rel=1e-9)
    for order, area in ((uncertainty, curve.area), (error, curve.oracle_area), (np.zeros(12), curve.random_area)):
        shares = rejection_curve(order, error, weights=weights).shares
        parts = [quad(remaining_error, a, b, args=(order, error, weights))[0] for a, b in pairwise(shares)]
        assert area == pytest.approx(sum(parts), rel=1e-7)
    assert curve.oracle_area < curve.area
    possible = curve.random_area - curve.oracle_area
    assert curve.gain == pytest.approx((curve.random_area - curve.area) / possible, rel=1e-12)


def test_no_order_beats_the_oracle_and_chance_gains_nothing():
    rng = np.random.default_rng(0)
    error = rng.exponential(size=50)
    gains = [rejection_curve(rng.normal(size=50), error).gain for _ in range(400)]
    assert max(gains) < 1.0
    assert np.mean(gains) == pytest.approx(0.0, abs=0.05)


def test_equal_uncertainty_is_chance():
    error = np.random.default_rng(1).exponential(size=30)
    curve = rejection_curve(np.ones(30), error)
    assert curve.errors == pytest.approx(np.full(2, error.mean()), rel=1e-12)
    assert curve.gain == pytest.approx(0.0, abs=1e-12)


def test_nothing_to_gain_from_equal_errors():
    curve = rejection_curve(np.arange(7.0), np.full(7, 0.1))
    assert np.isnan(curve.gain)
    assert curve.area == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.3, 1e-200])
def test_whole_weights_are_repetitions_of_entries(scale):
    rng = np.random.default_rng(2)
    uncertainty, error, counts = (
        rng.normal(size=(5, 3)),
        rng.exponential(size=(5, 3)),
        np.array([[0], [1], [2], [5], [1]]),
    )
    each = np.broadcast_to(counts, uncertainty.shape).ravel()
    expected = rejection_curve(np.repeat(uncertainty.ravel(), each), np.repeat(error.ravel(), each))
    result = rejection_curve(uncertainty, error, weights=scale * counts)
    assert result.shares == pytest.approx(expected.shares, abs=1e-12)
    assert result.errors == pytest.approx(expected.errors, rel=1e-12)
    for name in ("area", "oracle_area", "random_area", "gain"):
        assert getattr(result, name) == pytest.approx(getattr(expected, name), rel=1e-12), name


def test_one_entry():
    curve = rejection_curve(3.0, 2.0)
    assert curve.errors.tolist() == [2.0, 2.0]
    assert curve.area == curve.oracle_area == curve.random_area == 2.0


@pytest.mark.parametrize(
    ("uncertainty", "error", "weights", "words"),
    [
        (np.ones(3), np.ones(4), None, "uncertainty, error have the shapes"),
        ([1.0, np.nan], [1.0, 1.0], None, "uncertainty has nan"),
        ([1.0, 2.0], [1.0, np.inf], None, "error has inf"),
        ([], [], None, "uncertainty is empty"),
        ([1.0, 2.0], [1.0, 1.0], [0, 0], "weights are all 0"),
        ([1.0, 2.0], [1.0, 1.0], [1, 2, 3], "weights has the shape"),
    ],
    ids=range(6),
)
def test_a_curve_that_cannot_be_had(uncertainty, error, weights, words):
    with pytest.raises(GPECError, match=words):
        rejection_curve(uncertainty, error, weights=weights)
