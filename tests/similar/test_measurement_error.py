"""Rows measured again: the distribution of the errors, which columns they reach, and what cannot be measured."""

import datetime
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone

from archive_helpers import through_file
from gpec.data import Schema
from gpec.errors import InputError, ParameterTypeError
from gpec.similar import MeasurementError, SimilaritySampler


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "glucose": rng.normal(100.0, 20.0, 400),
            "sex": rng.choice(["f", "m"], 400),
            "age": rng.normal(50.0, 10.0, 400),
            "weight": rng.normal(70.0, 10.0, 400),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 400), unit="D"),
        }
    )
    frame.loc[::7, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def learned(table):
    schema, Z = Schema.learn(table)

    def learn(std, seed=0, **parameters):
        return schema, Z, MeasurementError(std, **parameters).learn(schema, Z, seed)

    return learn


def test_other_columns_stay(learned):
    _, Z, again = learned({"glucose": 5.0, "weight": 1.0}, n_draws=6)
    got = again.rows(Z)
    assert got.shape == (400, 6, 5)
    np.testing.assert_array_equal(got[:, :, [1, 2, 4]], np.repeat(Z[:, None, [1, 2, 4]], 6, axis=1))
    assert (got[:, :, [0, 3]] != Z[:, None, [0, 3]]).all()


@pytest.mark.parametrize("n_draws", [1, 10, 16])
def test_each_draw_is_normal_and_independent_between_columns(learned, n_draws):
    _, Z, again = learned({"glucose": 5.0, "weight": 0.5}, n_draws=n_draws)
    errors = (again.rows(Z) - Z[:, None, :])[:, :, [0, 3]] / [5.0, 0.5]
    for k in range(n_draws):
        for column in range(2):
            assert stats.kstest(errors[:, k, column], "norm").pvalue > 1e-4
        assert abs(stats.spearmanr(errors[:, k, 0], errors[:, k, 1]).statistic) < 4 / np.sqrt(400)


def test_draws_of_a_row_are_spread_evenly(learned):
    """One in each sixteenth of the distribution, up to a shift."""
    _, Z, again = learned({"glucose": 5.0})
    share = stats.norm.cdf((again.rows(Z)[:, :, 0] - Z[:, None, 0]) / 5.0)
    np.testing.assert_allclose(np.diff(np.sort(share, axis=1), axis=1), 1 / 16, atol=1e-9)


@pytest.mark.parametrize(("columns", "share"), [([0], 0.35), ([0, 3], 0.9)])
def test_size_of_the_change_is_better_known_than_from_independent_draws(learned, columns, share):
    """The root mean square of 16 draws, in units of its spread for independent ones."""
    _, Z, again = learned(dict.fromkeys(columns, 1.0))
    change = (again.rows(Z) - Z[:, None, :]).sum(axis=2, where=np.isin(np.arange(5), columns)) / np.sqrt(len(columns))
    independent = np.random.default_rng(1).normal(size=(4_000, 16))
    ours, theirs = (np.sqrt((A**2).mean(axis=1)).std() for A in (change, independent))
    assert ours < share * theirs
    assert (change**2).mean() == pytest.approx(1.0, abs=0.05)


def test_missing_stays_missing(learned):
    _, Z, again = learned({"age": 2.0})
    got = again.rows(Z)[:, :, 2]
    assert np.isnan(got[::7]).all()
    assert not np.isnan(np.delete(got, np.s_[::7], axis=0)).any()


def test_same_bits_in_every_batch_and_order(learned):
    _, Z, again = learned({"glucose": 5.0, "age": 2.0, "seen": pd.Timedelta(days=2)})
    together = again.rows(Z)
    one_by_one = np.concatenate([again.rows(Z[i : i + 1]) for i in range(len(Z))])
    assert one_by_one.tobytes() == together.tobytes()
    order = np.random.default_rng(2).permutation(len(Z))
    assert again.rows(Z[order]).tobytes() == together[order].tobytes()


def test_errors_differ_from_row_to_row_and_by_seed(learned):
    Z = learned({"glucose": 5.0})[1]
    runs = ({}, {"random_state": 1}, {"random_state": 2})
    errors = [learned({"glucose": 5.0}, **run)[2].rows(Z)[:, 0, 0] - Z[:, 0] for run in runs]
    assert len(np.unique(errors[0].round(9))) == 400
    correlations = stats.spearmanr(np.column_stack(errors)).statistic[np.triu_indices(3, 1)]
    assert (np.abs(correlations) < 4 / np.sqrt(400)).all()
    np.testing.assert_array_equal(learned({"glucose": 5.0}, seed=1)[2].rows(Z)[:, 0, 0] - Z[:, 0], errors[0])


def test_order_of_the_columns_does_not_matter(learned):
    _, Z, one = learned({"glucose": 5.0, "weight": 1.0})
    _, _, two = learned({3: 1.0, 0: 5})
    assert one.rows(Z).tobytes() == two.rows(Z).tobytes()


@pytest.mark.parametrize(
    "day", [pd.Timedelta(days=1), datetime.timedelta(days=1), np.timedelta64(24, "h"), pd.Timedelta(hours=24)]
)
def test_dates_take_durations(learned, day):
    schema, Z, again = learned({"seen": day})
    shifted = schema.decode(again.rows(Z)[:, 0])["seen"] - schema.decode(Z)["seen"]
    assert shifted.dt.total_seconds().std() / 86_400 == pytest.approx(1.0, abs=0.15)
    assert (
        again.phrase
        == "the same row measured again, with a normal error of standard deviation 1 days 00:00:00 in 'seen'"
    )


def test_phrase(learned):
    words = learned({"weight": 0.5, "glucose": 5.0, "age": 2})[2].phrase
    errors = "normal errors of standard deviation 5 in 'glucose', 2 in 'age' and 0.5 in 'weight'"
    assert words == f"the same row measured again, with {errors}"


def test_through_a_file(learned):
    schema, Z, again = learned({"glucose": 5.0, "seen": pd.Timedelta(days=2)}, n_draws=5, random_state=3)
    twin = through_file(SimilaritySampler, again, schema=schema)
    assert twin.rows(Z).tobytes() == again.rows(Z).tobytes()
    assert twin.phrase == again.phrase


def test_input_is_left_alone(learned):
    _, Z, again = learned({"glucose": 5.0})
    before = Z.copy()
    again.rows(Z)
    assert Z.tobytes() == before.tobytes()


def test_parameters_and_clone():
    given = MeasurementError({"glucose": 5.0}, 8, random_state=2)
    assert repr(given) == "MeasurementError(n_draws=8, random_state=2, std={'glucose': 5.0})"
    assert clone(given).get_params() == {"std": {"glucose": 5.0}, "n_draws": 8, "random_state": 2}


def test_too_large_an_error_is_left_to_the_embedding():
    schema, Z = Schema.learn(np.array([[1e3], [2e3]]))
    rows = MeasurementError({0: 1.7e308}).learn(schema, Z, 0).rows(Z)
    with pytest.raises(InputError, match=r"similar row \d+ is too far from the others"):
        schema.embed(rows[:, 0], "similar")


@pytest.mark.parametrize(
    ("std", "kind", "words"),
    [
        (5.0, ParameterTypeError, "std=5.0 must be a dict of columns and standard deviations, for instance {'glucose'"),
        (None, ParameterTypeError, "std=None must be a dict of columns"),
        ({}, InputError, "std={} names no column; give at least one, for instance {'glucose': 5.0}."),
        ({"sugar": 1.0}, InputError, "std has 'sugar', which is not a column of X; columns are ['glucose', 'sex',"),
        ({9: 1.0}, InputError, "std has column 9, but X has 5 columns."),
        ({"sex": 1.0}, InputError, "std has 'sex', a categorical column, which has no standard deviation;"),
        ({"glucose": 0.0}, InputError, "std['glucose']=0.0 must be a finite number greater than 0."),
        ({"glucose": -1}, InputError, "std['glucose']=-1 must be a finite number greater than 0."),
        ({"glucose": float("nan")}, InputError, "std['glucose']=nan must be a finite number greater than 0."),
        ({"glucose": float("inf")}, InputError, "std['glucose']=inf must be a finite number greater than 0."),
        ({"glucose": "5"}, ParameterTypeError, "std['glucose']='5' must be a number."),
        ({"glucose": pd.Timedelta(days=1)}, ParameterTypeError, "std['glucose']=Timedelta('1 days 00:00:00') must be"),
        ({"glucose": 1.0, 0: 2.0}, InputError, "std names the column 'glucose' twice; give one standard deviation"),
        ({"seen": 1.0}, ParameterTypeError, "std['seen']=1.0 must be a duration, for instance pd.Timedelta(days=1),"),
        ({"seen": pd.Timedelta(0)}, InputError, "must be a duration greater than 0."),
        ({"seen": np.timedelta64("NaT", "ns")}, InputError, "must be a duration greater than 0."),
        ({"seen": np.timedelta64(1, "Y")}, InputError, "is not a fixed duration; give it in days or seconds."),
    ],
)
def test_wrong_deviations(learned, std, kind, words):
    schema = learned({"glucose": 1.0})[0]
    with pytest.raises(kind, match=re.escape(words)):
        MeasurementError(std).check(schema)
    with pytest.raises(kind, match=re.escape(words)):
        learned(std)


@pytest.mark.parametrize(
    ("parameters", "kind", "words"),
    [
        ({"n_draws": 0}, InputError, "n_draws=0 must be at least 1."),
        ({"n_draws": "many"}, InputError, "n_draws='many' is not one of 'auto'."),
        ({"random_state": -1}, InputError, "random_state=-1 must be at least 0."),
        ({"random_state": None}, ParameterTypeError, "random_state=None must be a whole number."),
    ],
)
def test_wrong_parameters(learned, parameters, kind, words):
    schema = learned({"glucose": 1.0})[0]
    with pytest.raises(kind, match=f"^{re.escape(words)}$"):
        MeasurementError({"glucose": 1.0}, **parameters).check(schema)
