"""Dates are numbers inside and dates again for the model."""

from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

from archive_helpers import through_file
from gpec.data import Schema
from gpec.errors import InputError


def dates(n: int = 50) -> pd.DataFrame:
    days = pd.Series(pd.date_range("1990-03-01", periods=n, freq="37D"))
    stamps = pd.Series(pd.date_range("2001-02-03 04:05:06.789", periods=n, freq="3h"))
    return pd.DataFrame(
        {
            "day": days,
            "stamp": stamps.astype("datetime64[ns]"),
            "second": stamps.dt.floor("s").astype("datetime64[s]"),
            "zone": stamps.dt.tz_localize("UTC").dt.tz_convert("Europe/Rome"),
            "offset": stamps.dt.tz_localize("+05:30"),
            "wait": stamps - stamps[0],
            "holes": days.where(np.arange(n) % 7 != 0),
            "x": np.arange(float(n)),
        }
    )


def test_dates_come_back_as_they_were():
    X = dates()
    schema, Z = Schema.learn(X)
    assert not len(schema.categorical)
    assert not schema.plain
    pd.testing.assert_frame_equal(schema.decode(Z), X)
    np.testing.assert_array_equal(schema.encode(X), Z)
    twin = through_file(Schema, schema)
    pd.testing.assert_frame_equal(twin.decode(Z), X)
    np.testing.assert_array_equal(twin.encode(X), Z)


def test_the_earliest_date_is_zero_and_time_runs_evenly():
    X = dates()[["day", "zone"]].sample(frac=1, random_state=0)
    schema, Z = Schema.learn(X)
    assert Z.min(axis=0).tolist() == [0.0, 0.0]
    order = np.argsort(Z[:, 0])
    np.testing.assert_allclose(np.diff(Z[order], axis=0), np.diff(Z[order], axis=0)[:1].repeat(49, axis=0))
    earlier = schema.encode(X.assign(day=X["day"] - pd.Timedelta(days=1000)))
    assert earlier[:, 0].min() < 0


def test_halfway_between_two_dates():
    X = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2020-01-04"])})
    schema, Z = Schema.learn(X)
    assert schema.decode(Z.mean(axis=0, keepdims=True))["t"].tolist() == [pd.Timestamp("2020-01-02 12:00")]


def test_raw_distances_are_days():
    schema, Z = Schema.learn(dates(), standardize=False)
    E = schema.embed(Z)
    np.testing.assert_allclose(np.diff(E[:, 0]), 37.0)
    np.testing.assert_allclose(np.diff(E[:, 1]), 3 / 24)
    np.testing.assert_allclose(np.diff(E[:, 5]), 3 / 24)


def test_standardised_dates_are_standardised_numbers():
    X = dates()
    E, F = (frame_schema.embed(Z) for frame_schema, Z in map(Schema.learn, (X[["day"]], X[["x"]])))
    np.testing.assert_allclose(E, F, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["M8[D]", "M8[s]", "M8[ns]", "m8[h]", "m8[W]"])
def test_arrays_of_dates(dtype):
    X = np.arange(12).reshape(6, 2).astype(dtype)
    X[2, 1] = "NaT"
    schema, Z = Schema.learn(X)
    decoded = schema.decode(Z)
    assert decoded.dtype == X.dtype
    np.testing.assert_array_equal(decoded, X)
    twin = through_file(Schema, schema)
    np.testing.assert_array_equal(twin.decode(twin.encode(X)), X)


@pytest.mark.parametrize("dtype", ["M8[Y]", "M8[M]", "m8", "M8[15m]"])
def test_units_that_are_not_evenly_long(dtype):
    with pytest.raises(InputError, match=r"X column 'x0' holds dates in the unit of .*; use days or seconds"):
        Schema.learn(np.arange(4).reshape(2, 2).astype(dtype))


def test_other_units_and_zones_of_the_same_time():
    X = dates()
    schema, Z = Schema.learn(X)
    other = X.assign(
        day=X["day"].astype("datetime64[ns]"),
        zone=X["zone"].dt.tz_convert("Asia/Tokyo"),
        stamp=X["stamp"].astype("datetime64[ms]"),
        wait=X["wait"].astype("timedelta64[ns]"),
    )
    np.testing.assert_array_equal(schema.encode(other), Z)
    pd.testing.assert_frame_equal(schema.decode(schema.encode(other)), X)


def test_rows_of_objects_are_dates_where_fit_had_dates():
    X = dates()
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(schema.encode(X.to_numpy(dtype=object)), Z)
    np.testing.assert_array_equal(schema.encode(X.iloc[3]), Z[3:4])
    np.testing.assert_array_equal(schema.encode(X.iloc[7]), Z[7:8])  # with a missing date
    days, D = Schema.learn(X[["day"]])
    np.testing.assert_array_equal(days.encode(pd.DataFrame({"day": X["day"].dt.date})), D)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("2020-01-01", "holds (str|object), where fit had datetime64"),
        (3.5, "holds float64, where fit had datetime64"),
        (pd.Timedelta(days=1), "holds timedelta64.*, where fit had datetime64"),
        (pd.Timestamp("2020", tz="UTC"), "holds datetime64.*UTC.*; give both a time zone, or neither"),
    ],
    ids=["text", "number", "duration", "zone"],
)
def test_no_dates_where_fit_had_dates(column, message):
    schema, _ = Schema.learn(dates()[["day", "x"]])
    with pytest.raises(InputError, match=f"^rows column 'day' {message}"):
        schema.encode(dates()[["x"]].assign(day=column), "rows")


def test_dates_where_fit_had_numbers():
    X = dates()[["x", "day"]].assign(day=1.0)
    schema, _ = Schema.learn(X)
    with pytest.raises(InputError, match=r"^X column 'day' holds dates \(datetime64.*\), where fit had numbers"):
        schema.encode(dates()[["x", "day"]])


def test_finer_than_in_fit():
    schema, _ = Schema.learn(dates()[["second"]])
    late = dates()[["second"]].astype("datetime64[ms]")
    late.iloc[4] += pd.Timedelta(milliseconds=5)
    with pytest.raises(InputError, match=r"column 'second' has .*\.005 in row 4, which is finer than datetime64\[s\]"):
        schema.encode(late)


@pytest.mark.parametrize("value", [date(2020, 1, 1), datetime(2020, 1, 1), np.timedelta64(3, "s")])
def test_dates_as_objects_are_refused_unless_named(value):
    X = pd.DataFrame({"day": pd.Series([value, None], dtype=object)})
    with pytest.raises(InputError, match=r"'day' holds dates as Python objects; .* pd.to_datetime or pd.to_timedelta"):
        Schema.learn(X)
    schema, Z = Schema.learn(X, categorical_features=["day"])
    assert schema.decode(Z)["day"].tolist() == [value, None]


def test_a_column_of_dates_is_no_category():
    with pytest.raises(
        InputError, match="categorical_features has 'day', a column of dates, which are treated as numbers"
    ):
        Schema.learn(dates(), categorical_features=["day"])


def test_categories_that_are_dates():
    X = pd.DataFrame({"day": pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", None]))})
    X["zone"] = pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", None]).tz_localize("Europe/Rome"))
    schema, Z = Schema.learn(X)
    pd.testing.assert_frame_equal(through_file(Schema, schema).decode(Z), X)
    np.testing.assert_array_equal(schema.encode(X), Z)


def test_dates_at_the_ends_of_time():
    X = pd.DataFrame({"t": pd.to_datetime(["1700-01-01", "2262-01-01", "2000-01-01"]).astype("datetime64[ns]")})
    schema, Z = Schema.learn(X)
    assert np.isfinite(schema.embed(Z)).all()
    off = (schema.decode(Z)["t"] - X["t"]).abs().max()
    assert off < pd.Timedelta(microseconds=10)
    assert schema.decode(np.array([[1e300], [-1e300]]))["t"].notna().all()
