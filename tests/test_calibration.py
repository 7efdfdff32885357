"""Conformal quantiles of scores: against numpy, a closed form for weights, and simulated coverage."""

import numpy as np
import pytest
from scipy.stats import binom

from archive_helpers import through_file
from gpec.errors import InputError
from gpec.intervals.conformal import Calibration, ConformityScores, rows_needed


def scores(values, weights=None, fresh=True):
    values = np.asarray(values, dtype=float)
    return ConformityScores(
        values, np.ones(len(values)) if weights is None else np.asarray(weights, dtype=float), fresh
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("n", [99, 100, 137, 400])
def test_equal_weights_give_the_usual_order_statistic(n, level):
    """The ceil((n + 1) level)-th smallest, for each feature and output."""
    values = np.random.default_rng(n).exponential(size=(n, 3, 2))
    k = int(np.ceil((n + 1) * level - 1e-9))
    found = scores(values).quantile(level)
    assert found.shape == (3, 2)
    np.testing.assert_array_equal(found, np.sort(values, axis=0)[k - 1])
    np.testing.assert_array_equal(found, np.quantile(values, k / n, axis=0, method="inverted_cdf"))
    # their size does not matter
    np.testing.assert_array_equal(scores(values, np.full(n, 3.7)).quantile(level), found)


def test_numpys_higher_quantile_over_a_sample_with_the_next_row():
    """With the next row's score at infinity, the conformal quantile is the plain "higher" one of n + 1 scores."""
    values = np.random.default_rng(0).normal(size=60)
    for level in (0.5, 0.77, 0.9, 0.95):
        joined = np.sort(np.append(values, np.inf))
        expected = joined[int(np.ceil(level * 61 - 1e-9)) - 1]
        assert scores(values).quantile(level) == expected
        assert np.quantile(joined, (np.ceil(level * 61 - 1e-9) - 1) / 60, method="higher") == expected


def test_whole_weights_are_repetitions():
    """A row that stands for three counts as three; the next row stands for one of average weight."""
    rng = np.random.default_rng(1)
    values, counts = rng.exponential(size=30), rng.integers(1, 5, size=30)
    repeated = np.sort(np.repeat(values, counts))
    for level in (0.3, 0.6, 0.9):
        needed = level * (counts.sum() + counts.mean())
        assert scores(values, counts).quantile(level) == repeated[int(np.ceil(needed - 1e-9)) - 1]


def test_weights_in_closed_form():
    """Weights 1, 2, 3, 4 of the scores 4, 3, 2, 1: cumulated from below 4, 7, 9, 10; the next row weighs 2.5."""
    few = scores([4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0])
    assert few.quantile(4 / 12.5) == 1.0
    assert few.quantile(4.1 / 12.5) == 2.0
    assert few.quantile(7 / 12.5) == 2.0
    assert few.quantile(8 / 12.5) == 3.0
    assert few.quantile(9.5 / 12.5) == 4.0
    assert few.highest_level == pytest.approx(10 / 12.5)
    assert few.suffice(0.8)
    assert not few.suffice(0.801)


@pytest.mark.parametrize(("level", "needed"), [(0.5, 1), (0.8, 4), (0.9, 9), (0.95, 19), (0.99, 99), (0.999, 999)])
def test_how_many_rows_a_level_needs(level, needed):
    assert rows_needed(level) == needed
    values = np.arange(needed, dtype=float)
    assert scores(values).suffice(level)
    assert scores(values).quantile(level) == needed - 1  # the largest
    short = scores(values[:-1]) if needed > 1 else None
    if short is not None:
        assert not short.suffice(level)
        with pytest.raises(InputError, match=f"needs at least {needed} rows to calibrate with, got {needed - 1}"):
            short.quantile(level)
    assert scores(values).highest_level == pytest.approx(level)
    assert scores(values).suffice(scores(values).highest_level)


def test_equal_scores():
    tied = scores(np.full(40, 2.5))
    assert tied.quantile(0.95) == tied.quantile(0.1) == 2.5


def test_a_higher_level_never_has_a_lower_quantile():
    rng = np.random.default_rng(2)
    some = scores(rng.exponential(size=(50, 4)), rng.uniform(0.2, 3.0, size=50))
    levels = np.linspace(0.01, some.highest_level, 60)
    assert (np.diff([some.quantile(level) for level in levels], axis=0) >= 0).all()


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("n", [19, 50, 200])
def test_coverage_of_exchangeable_rows(n, level):
    """Over many calibrations, the next score is covered with a probability from level to level + 1 / (n + 1)."""
    rng = np.random.default_rng(3)
    runs = 4_000
    drawn = rng.gamma(0.7, size=(n + 1, runs))  # each column a calibration of its own, and the next row
    covered = int((drawn[-1] <= scores(drawn[:-1]).quantile(level)).sum())
    exact = np.ceil((n + 1) * level - 1e-9) / (n + 1)
    assert level - 1e-9 <= exact <= level + 1 / (n + 1)
    low, high = binom.interval(1 - 1e-4, runs, exact)
    assert low <= covered <= high


def test_coverage_where_rows_were_drawn_unevenly():
    """Rows of the hard kind were drawn four times too often; without weights intervals would be too wide."""
    rng = np.random.default_rng(4)
    runs, n = 1_500, 300

    def score(hard):
        return rng.exponential(np.where(hard, 5.0, 1.0))

    hard = rng.random((n, runs)) < 0.5  # a fifth of all rows are hard
    values, weights = score(hard), np.where(hard, 0.4, 1.6)
    new = score(rng.random(runs) < 0.2)
    weighted = np.array([scores(values[:, i], weights[:, i]).quantile(0.9) for i in range(runs)])
    plain = scores(values).quantile(0.9)
    low, high = binom.interval(1 - 1e-4, runs, 0.9)
    assert low - 0.005 * runs <= (new <= weighted).sum() <= high + 0.005 * runs
    assert (new <= plain).sum() > high + 0.02 * runs


def test_both_promises_and_their_state():
    rng = np.random.default_rng(5)
    both = Calibration(scores(rng.random((30, 3, 1))), scores(rng.random((25, 3, 1)), fresh=False))
    assert both.of("explainer") is both.similar
    assert both.of("posterior") is both.value
    again = through_file(Calibration, both)
    np.testing.assert_array_equal(again.similar.values, both.similar.values)
    np.testing.assert_array_equal(again.value.weights, both.value.weights)
    assert (again.similar.fresh, again.value.fresh) == (True, False)
    assert through_file(Calibration, Calibration()).of("explainer") is None


def test_levels_beyond_the_fresh_rows_are_refused():
    few = Calibration(scores(np.arange(10.0)), scores(np.arange(10.0), fresh=False))
    few.require_enough_calibration_rows("explainer", 0.9)
    few.require_enough_calibration_rows("posterior", 0.99)  # approximate anyway
    Calibration().require_enough_calibration_rows("explainer", 0.99)
    with pytest.raises(InputError, match=r"A level of 0\.95 needs at least 19 rows to calibrate with, got 10"):
        few.require_enough_calibration_rows("explainer", 0.95)


def test_changes_alone():
    """Scores of 0 count for nothing: what is left has the quantile of a sample of its own."""
    some = np.random.default_rng(0).uniform(1, 2, size=(40, 2, 1))
    many = np.concatenate((some, np.zeros((380, 2, 1))))
    np.testing.assert_array_equal(scores(many).quantile_of_changes(0.9), scores(some).quantile(0.9))
    assert (scores(many).quantile(0.9) < 1).all()
    few = np.concatenate((some[:3], np.zeros((397, 2, 1))))
    np.testing.assert_array_equal(scores(few).quantile_of_changes(0.9), some[:3].max(axis=0))
    assert not scores(np.zeros((30, 2, 1))).quantile_of_changes(0.9).any()
