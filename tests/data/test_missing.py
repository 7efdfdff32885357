"""A missing value is a state of its column: kept, given back, and at a fixed distance from any value."""

import struct

import numpy as np
import pandas as pd
import pytest

from archive_helpers import through_file
from gpec.data import Rows, Schema, same_values
from gpec.errors import InputError


def with_holes(values, marker, dtype=object, every=4):
    column = pd.Series(list(values), dtype=object)
    column[::every] = marker
    return column if dtype is object else column.astype(dtype)


def frame_with_holes(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    words = rng.choice(["p", "q", "r"], n)
    flags = (rng.random(n) > 0.5).tolist()
    return pd.DataFrame(
        {
            "number": np.where(np.arange(n) % 5 == 0, np.nan, rng.normal(size=n)),
            "none": with_holes(words, None),
            "nan": with_holes(words, np.nan),
            "na": with_holes(words, pd.NA),
            "text": pd.Series(with_holes(words, None), dtype="str" if pd.__version__ >= "3" else object),
            "string": with_holes(words, pd.NA, "string"),
            "bool": with_holes(flags, None),
            "boolean": with_holes(flags, pd.NA, "boolean"),
            "whole": with_holes(range(n), pd.NA, "Int64"),
            "small": with_holes(np.arange(n) % 100, pd.NA, "UInt8"),
            "float": with_holes(rng.normal(size=n), pd.NA, "Float64"),
            "category": pd.Categorical(with_holes(words, None), categories=["r", "q", "p", "never"]),
            "interval": pd.cut(rng.normal(size=n), [-1.0, 0.0, 1.0]),
            "full": rng.normal(size=n),
            "full text": rng.choice(["u", "v"], n),
        }
    )


# ---------------------------------------------------------------- in and out


def test_encoded_as_nan_whatever_the_column():
    X = frame_with_holes()
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(np.isnan(Z), X.isna())
    np.testing.assert_array_equal(schema.missing, X.isna().any())
    np.testing.assert_array_equal(schema.encode(X), Z)


def test_the_model_gets_the_same_types_and_the_same_markers():
    X = frame_with_holes()
    schema, Z = Schema.learn(X)
    back = schema.decode(Z)
    pd.testing.assert_frame_equal(back, X)
    for name in X:
        kinds = [{type(value) for value in frame[name].tolist() if pd.isna(value)} for frame in (X, back)]
        assert kinds[0] == kinds[1], name
    pd.testing.assert_frame_equal(schema.decode(Z[1:2]), X.iloc[1:2].reset_index(drop=True))


def test_a_file_keeps_it():
    X = frame_with_holes()
    schema, Z = Schema.learn(X)
    twin = through_file(Schema, schema)
    np.testing.assert_array_equal(twin.encode(X), Z)
    np.testing.assert_array_equal(twin.embed(Z), schema.embed(Z))
    np.testing.assert_array_equal(twin.missing, schema.missing)
    pd.testing.assert_frame_equal(twin.decode(Z), X)


def test_arrays():
    X = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(Z, X)
    np.testing.assert_array_equal(schema.decode(Z), X)
    assert schema.missing.tolist() == [True, False]


def test_codes_in_an_array():
    X = np.array([[7.0, 0.5], [np.nan, 1.5], [3.0, 2.5], [7.0, 3.5]])
    schema, Z = Schema.learn(X, categorical_features=[0])
    np.testing.assert_array_equal(Z[:, 0], [1, np.nan, 0, 1])
    assert schema.categories[0].tolist() == [3.0, 7.0]
    decoded = schema.decode(Z)
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, X)


@pytest.mark.parametrize("marker", [None, np.nan, pd.NA], ids=str)
def test_arrays_of_objects(marker):
    X = np.array([["b", 1.0], [marker, 2.0], ["a", None]], dtype=object)
    schema, Z = Schema.learn(X, categorical_features=[0])
    np.testing.assert_array_equal(Z, [[1, 1], [np.nan, 2], [0, np.nan]])
    decoded = schema.decode(Z)
    assert type(decoded[1, 0]) is type(marker)
    assert same_values(decoded, X).all()


def test_whole_numbers_of_a_nullable_column_may_become_fractions():
    schema, Z = Schema.learn(pd.DataFrame({"a": pd.array([1, None, 200], dtype="UInt8")}))
    between = schema.decode(Z / 3)["a"]
    assert between.dtype == "Float64"
    assert between.tolist()[0] == pytest.approx(1 / 3)
    assert between.isna().tolist() == [False, True, False]
    assert schema.decode(Z + 100.0)["a"].dtype == "Float64"  # 300 is not a UInt8


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1.0, 2.0], [1.0, np.nan]),
        (["p", "q"], ["p", None]),
        (pd.Categorical(["p", "q"]), pd.Categorical(["p", None])),
        (pd.array([1, 2], dtype="Int64"), pd.array([1, None], dtype="Int64")),
        ([True, False], pd.Series([True, None], dtype=object)),
        (pd.to_datetime(["2020", "2021"]), pd.to_datetime(["2020", None])),
    ],
    ids=["float", "text", "category", "nullable", "bool", "date"],
)
def test_a_column_without_missing_values_in_fit_takes_none_later(before, after):
    schema, Z = Schema.learn(pd.DataFrame({"a": before}))
    message = "rows has a missing value in row 1, column 'a', which had none in the rows given to fit"
    with pytest.raises(InputError, match=message):
        schema.encode(pd.DataFrame({"a": after}), "rows")
    Z[1] = np.nan
    with pytest.raises(InputError, match=message):
        schema.embed(Z, "rows")


def test_infinite_values_stay_refused():
    with pytest.raises(InputError, match="infinite in row 2, column 'x0'"):
        Schema.learn(np.array([[1.0], [np.nan], [np.inf]]))


def test_equal_rows_have_equal_bytes():
    payload = struct.unpack("<f", struct.pack("<I", 0x7FC12345))[0]
    X = np.array([[0.0, np.nan], [-0.0, payload], [-0.0, -np.nan]], dtype=np.float32)
    assert len({row.tobytes() for row in X}) == 3
    Z = Schema.learn(X)[1]
    assert len({row.tobytes() for row in Z}) == 1
    assert not np.signbit(Z[:, 0]).any()


# ---------------------------------------------------------------- distances


def test_a_missing_number_lies_at_the_centre_and_apart():
    X = np.random.default_rng(0).normal(50.0, 3.0, size=(400, 2))
    X[::4, 0] = np.nan
    schema, Z = Schema.learn(X)
    E = schema.embed(Z)
    own = schema.coordinates[0]
    assert E.shape == (400, 3)
    assert (len(own), len(schema.coordinates[1])) == (2, 1)
    gone = np.isnan(X[:, 0])
    expected = np.sqrt(2 / (1 - 0.25**2 - 0.75**2))  # two random rows then differ by 2, squared, as in any column
    np.testing.assert_allclose(E[gone][:, own], np.tile([0.0, expected], (100, 1)), atol=1e-12)
    assert (E[~gone][:, own[1]] == 0.0).all()
    pairs = np.square(E[:, None, own[1]] - E[None, :, own[1]])
    np.testing.assert_allclose(pairs.mean(), 2.0, rtol=1e-9)


@pytest.mark.parametrize("lacking", [1, 999])
def test_however_rare_it_is_a_missing_number_is_not_out_of_reach(lacking):
    X = np.random.default_rng(0).normal(size=(1000, 1))
    X[:lacking] = np.nan
    schema, Z = Schema.learn(X)
    E = schema.embed(Z)
    assert np.isfinite(E).all()
    assert E[0].tolist() == [0.0, 4.0]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_raw_distances_are_in_the_unit_of_the_column(unit):
    X = np.random.default_rng(0).normal(5.0, 2.0, size=(200, 1))
    X[::2] = np.nan
    standard = Schema.learn(X * unit)[0]
    raw, Z = Schema.learn(X * unit, standardize=False)
    E = raw.embed(Z)
    np.testing.assert_array_equal(E[1::2, 0], X[1::2, 0] * unit)
    np.testing.assert_allclose(E[0], [standard.center[0], 2.0 * standard.scale[0]], rtol=1e-12)


def test_a_missing_category_is_one_more_category():
    rng = np.random.default_rng(0)
    words = rng.choice(["p", "q", "none"], 300)
    X = pd.DataFrame({"c": words})
    Y = pd.DataFrame({"c": pd.Series(words, dtype=object).where(words != "none", None)})
    (named, A), (gone, B) = Schema.learn(X), Schema.learn(Y)
    np.testing.assert_allclose(gone.scale, named.scale)
    E, F = named.embed(A), gone.embed(B)
    assert F.shape == E.shape == (300, 3)
    distances = [np.linalg.norm(M[:, None] - M[None], axis=2) for M in (E, F)]
    np.testing.assert_allclose(*distances, rtol=1e-12)
    assert gone.coordinates[0].tolist() == [0, 1, 2]


def test_coordinates_are_the_columns_of_a_feature():
    X = frame_with_holes()
    schema, Z = Schema.learn(X)
    E, columns = schema.embed(Z), schema.coordinates
    assert np.isfinite(E).all()
    np.testing.assert_array_equal(np.sort(np.concatenate(columns)), np.arange(E.shape[1]))
    for j, own in enumerate(columns):
        moved = Z.copy()
        moved[:, j] = np.roll(Z[:, j], 1)
        changed = np.flatnonzero((schema.embed(moved) != E).any(axis=0))
        assert len(changed)
        assert set(changed) <= set(own)
        states = len(schema.categories[j]) if j in schema.categories else 1
        assert len(own) == states + schema.missing[j]


def test_kernels_see_finite_rows():
    schema, Z = Schema.learn(frame_with_holes())
    rows = Rows(schema.embed(Z), Z, schema.coordinates)
    assert rows.own(0).shape == (40, 2)
    assert np.isfinite(rows[3:9].own(1)).all()


# ---------------------------------------------------------------- at the edge


@pytest.mark.parametrize(
    "column",
    [np.full(5, np.nan), pd.Series([None] * 5, dtype=object), pd.array([None] * 5, dtype="Int64")],
    ids=["float", "object", "nullable"],
)
@pytest.mark.parametrize("standardize", [True, False])
def test_a_column_that_is_always_missing(column, standardize):
    X = pd.DataFrame({"a": column, "b": np.arange(5.0)})
    schema, Z = Schema.learn(X, standardize=standardize)
    assert np.isnan(Z[:, 0]).all()
    pd.testing.assert_frame_equal(schema.decode(Z), X)
    E = schema.embed(Z)
    assert np.isfinite(E).all()
    assert np.ptp(E[:, schema.coordinates[0]], axis=0).tolist() == [0.0] * len(schema.coordinates[0])
    pd.testing.assert_frame_equal(through_file(Schema, schema).decode(Z), X)


def test_a_column_that_is_there_once():
    X = np.full((50, 2), np.nan)
    X[7, 0], X[:, 1] = 3.0, np.arange(50)
    schema, Z = Schema.learn(X)
    assert (schema.center[0], schema.scale[0]) == (3.0, 1.0)
    E = schema.embed(Z)[:, schema.coordinates[0]]
    assert E[7].tolist() == [0.0, 0.0]
    assert E[8].tolist() == [0.0, 4.0]


def test_one_row():
    schema, Z = Schema.learn([[np.nan, 1.0]])
    assert np.isfinite(schema.embed(Z)).all()
    np.testing.assert_array_equal(schema.decode(Z), [[np.nan, 1.0]])


def test_a_column_of_flags_with_holes_is_a_category():
    X = pd.DataFrame({"flag": pd.Series([True, None, False, True], dtype=object)})
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(Z[:, 0], [1, np.nan, 0, 1])
    assert schema.decode(Z)["flag"].tolist() == [True, None, False, True]


# ---------------------------------------------------------------- the same


def test_same_values():
    A = np.array([[1.0, np.nan], [np.nan, 2.0]])
    np.testing.assert_array_equal(same_values(A, A), True)
    np.testing.assert_array_equal(same_values(A, A[0]), [[True, True], [False, False]])
    np.testing.assert_array_equal(same_values(A, A[::-1]), [[False, False], [False, False]])
    np.testing.assert_array_equal(same_values([0.0, -0.0], [-0.0, 0]), True)
    assert same_values(A, A).dtype == bool


def test_same_values_of_objects():
    A = np.array([1, "a", None, pd.NA, np.nan, "b", pd.NaT], dtype=object)
    B = np.array([1, "b", None, pd.NA, np.nan, None, pd.NaT], dtype=object)
    assert same_values(A, B).tolist() == [True, False, True, True, True, False, True]
    assert same_values(A, A.copy()).all()
    assert same_values(np.array(["2020", "NaT"], dtype="M8[D]"), np.array(["2020", "NaT"], dtype="M8[s]")).all()
