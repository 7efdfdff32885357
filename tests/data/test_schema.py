"""Rows in, rows out: what is accepted, what is refused, and how far apart two rows are."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from archive_helpers import through_file
from gpec.data import Schema
from gpec.errors import InputError, ParameterTypeError


def mixed_frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Every kind of column a model may have been trained on."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "town": rng.choice(["Rome", "Oslo", "Lima"], n),
            "member": rng.random(n) > 0.5,
            "size": pd.Categorical(rng.choice(["S", "M", "L"], n), categories=["S", "M", "L", "XL"], ordered=True),
            "visits": rng.integers(0, 9, n),
            "mixed": pd.Series(rng.choice(np.array([1, "one", 2.5], dtype=object), n), dtype=object),
            "nullable": pd.array(rng.integers(0, 4, n), dtype="Int64"),
            "flag": pd.array(rng.random(n) > 0.5, dtype="boolean"),
        }
    )


# ---------------------------------------------------------------- round trips


@given(arrays(np.float64, st.tuples(st.integers(1, 8), st.integers(1, 5)), elements=st.floats(-1e150, 1e150)))
@settings(max_examples=100, deadline=None)
def test_array_round_trip_is_exact(X):
    schema, Z = Schema.learn(X, standardize=False)
    assert Z.dtype == np.float64
    np.testing.assert_array_equal(Z, X)
    decoded = schema.decode(Z)
    assert type(decoded) is np.ndarray
    np.testing.assert_array_equal(decoded, X)
    assert schema.names == tuple(f"x{j}" for j in range(X.shape[1]))


def test_frame_round_trip_keeps_names_values_and_kinds():
    X = mixed_frame()
    schema, Z = Schema.learn(X)
    assert schema.categorical.tolist() == [1, 2, 3, 5, 7]
    assert schema.continuous.tolist() == [0, 4, 6]
    back = schema.decode(Z)
    assert isinstance(back, pd.DataFrame)
    assert list(back.columns) == list(X.columns)
    for name in ("town", "member", "size", "mixed", "flag", "nullable"):
        assert back[name].dtype == X[name].dtype, name
        assert back[name].tolist() == X[name].tolist(), name
    for name in ("age", "visits"):  # whole numbers reach the model as floats
        assert back[name].dtype == np.float64, name
        np.testing.assert_array_equal(back[name], X[name].to_numpy(float))


def test_codes_are_positions_among_the_categories():
    X = pd.DataFrame({"a": ["q", "p", "q"], "b": pd.Categorical(["z", "y", "z"], categories=["z", "x", "y"])})
    schema, Z = Schema.learn(X)
    assert schema.categories[0].tolist() == ["p", "q"]
    np.testing.assert_array_equal(Z, [[1, 0], [0, 2], [1, 0]])


def test_index_of_the_frame_does_not_matter():
    X = mixed_frame()
    shuffled = X.set_axis(np.random.default_rng(1).permutation(len(X)) + 7, axis=0)
    np.testing.assert_array_equal(Schema.learn(shuffled)[1], Schema.learn(X)[1])


@pytest.mark.parametrize("columns", [["a", "b"], [10, 20], [("u", 1), ("u", 2)]], ids=["text", "number", "levels"])
def test_column_labels_come_back(columns):
    X = pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=pd.Index(columns))
    schema, Z = Schema.learn(X)
    pd.testing.assert_frame_equal(schema.decode(Z), X)
    pd.testing.assert_frame_equal(through_file(Schema, schema).decode(Z), X)


def test_array_with_categories_stays_numeric():
    X = np.array([[0.5, 3], [1.5, 7], [2.5, 3]])
    schema, Z = Schema.learn(X, categorical_features=[1])
    np.testing.assert_array_equal(Z, [[0.5, 0], [1.5, 1], [2.5, 0]])
    decoded = schema.decode(Z)
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, X)


def test_bool_array_with_categories_stays_numeric():
    X = np.array([[True, False], [False, False], [True, True]])
    schema, Z = Schema.learn(X, categorical_features=[0])
    decoded = schema.decode(Z)
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(decoded, X)


def test_object_array_with_named_text_column():
    X = np.array([[1.5, "b"], [2.5, "a"]], dtype=object)
    schema, Z = Schema.learn(X, categorical_features=["x1"])
    np.testing.assert_array_equal(Z, [[1.5, 1], [2.5, 0]])
    decoded = schema.decode(Z)
    assert decoded.dtype == object
    assert decoded.tolist() == X.tolist()


def test_state_round_trip():
    X = mixed_frame()
    schema, Z = Schema.learn(X)
    twin = through_file(Schema, schema)
    assert (twin.names, twin.labels) == (schema.names, schema.labels)
    np.testing.assert_array_equal(twin.encode(X), Z)
    np.testing.assert_array_equal(twin.embed(Z), schema.embed(Z))
    pd.testing.assert_frame_equal(twin.decode(Z), schema.decode(Z))
    assert twin.decode(Z)["size"].cat.ordered
    with pytest.raises(InputError, match="Paris"):
        twin.encode(X.assign(town="Paris"))


def test_state_round_trip_of_an_array():
    X = np.random.default_rng(0).integers(0, 3, (20, 3)).astype(np.float32)
    schema, Z = Schema.learn(X, categorical_features=[0, 2])
    twin = through_file(Schema, schema)
    assert twin.labels is None
    np.testing.assert_array_equal(twin.encode(X), Z)
    np.testing.assert_array_equal(twin.decode(Z), X)


# ---------------------------------------------------------------- which columns are categories


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("auto", []),
        (None, []),
        ([], []),
        ([0], [0]),
        ([-1, 0], [0, 2]),
        (["x1"], [1]),
        ((np.int64(2),), [2]),
        ([True, False, True], [0, 2]),
        (np.array([False, True, False]), [1]),
        ([1, 1], [1]),
    ],
)
def test_categorical_features_of_an_array(chosen, expected):
    X = np.arange(12.0).reshape(4, 3) % 5
    assert Schema.learn(X, categorical_features=chosen)[0].categorical.tolist() == expected


def test_naming_a_number_column_adds_it_to_the_text_columns():
    schema, _ = Schema.learn(mixed_frame(), categorical_features=["visits"])
    assert schema.categorical.tolist() == [1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("x1", r"categorical_features='x1' is not 'auto'.*write \['x1'\]"),
        (["nope"], "categorical_features has 'nope', which is not a column of X"),
        ([3], "categorical_features has column 3, but X has 3 columns"),
        ([-4], "categorical_features has column -4, but X has 3 columns"),
    ],
)
def test_wrong_categorical_features(chosen, message):
    with pytest.raises(InputError, match=message):
        Schema.learn(np.eye(3), categorical_features=chosen)


def test_text_column_without_categories_is_refused():
    with pytest.raises(InputError, match=r"'town' is not numeric but categorical_features=None"):
        Schema.learn(mixed_frame()[["age", "town"]], categorical_features=None)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (None, ParameterTypeError, "got NoneType"),
        ("rows", ParameterTypeError, "got str"),
        ({"a": [1]}, ParameterTypeError, "got dict"),
        (sparse.csr_array(np.eye(3)), ParameterTypeError, r"sparse matrix; pass a dense array: X\.toarray\(\)"),
        (sparse.coo_matrix(np.eye(3)), ParameterTypeError, "sparse matrix"),
        (3.0, InputError, r"2 dimensions \(rows, features\), or 3 or 4 for images, got shape \(\)"),
        ([1.0, 2.0], InputError, r"got shape \(2,\); for a single row pass X\.reshape\(1, -1\)"),
        (np.zeros((2, 1, 1, 1, 1)), InputError, r"got shape \(2, 1, 1, 1, 1\)"),
        ([[1.0, 2.0], [3.0]], InputError, "cannot be read as a table"),
        (np.zeros((0, 3)), InputError, "0 rows; at least 1"),
        (np.zeros((3, 0)), InputError, "0 columns; at least 1"),
        (pd.DataFrame(), InputError, "0 columns"),
        (pd.DataFrame({"a": [], "b": []}), InputError, "0 rows"),
        (pd.DataFrame({"a": pd.Series([], dtype=str)}), InputError, "0 rows"),
        (np.ones((2, 2), dtype=complex), InputError, "complex numbers"),
        (pd.DataFrame({"a": [1j, 2.0]}), InputError, "column 'a' has complex numbers"),
        (np.array([[1, "a"]], dtype=object), InputError, "column 'x1' is not numeric"),
        (np.array([["a", "b"]]), InputError, "column 'x0' is not numeric"),
        (np.array([["1.5", "2"]]), InputError, r"column 'x0' is not numeric in row 0 \('1\.5' has the type str\)"),
        (np.array([[10**400]], dtype=object), InputError, "column 'x0' is not numeric"),
        ([[0.0, np.inf]], InputError, "infinite in row 0, column 'x1'"),
        ([[0.0], [-np.inf]], InputError, "infinite in row 1, column 'x0'"),
        (pd.DataFrame({"t": pd.period_range("2020", periods=1, freq="Y")}), InputError, "'t' is not numeric"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), InputError, "several columns named 'a'"),
        (pd.DataFrame([[1.0, 2.0]], columns=[1, "1"]), InputError, "several columns named '1'"),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), InputError, r"masked values; .*filled\(np\.nan\)"),
        ([[1e308], [-1e308]], InputError, "row 0 is too far"),
    ],
)
def test_bad_rows_are_refused_by_name(X, error, message):
    with pytest.raises(error, match=message) as caught:
        Schema.learn(X, standardize=False)
    assert str(caught.value).startswith("X ")


def test_wrong_rows_after_fit():
    schema, _ = Schema.learn(np.random.default_rng(0).normal(size=(20, 3)))
    with pytest.raises(InputError, match=r"X_explained has 2 features, but 3 are expected"):
        schema.encode(np.zeros((1, 2)), "X_explained")
    with pytest.raises(InputError, match=r"background has 0 rows"):
        schema.encode(np.zeros((0, 3)), "background")
    with pytest.raises(InputError, match=r"X must have 2 dimensions.*X.reshape\(1, -1\)"):
        schema.encode(np.zeros(3))


def test_wrong_columns_after_fit():
    X = mixed_frame()[["age", "town"]]
    schema, _ = Schema.learn(X)
    with pytest.raises(InputError, match=r"missing: \['town'\], unexpected: \['city'\]"):
        schema.encode(X.rename(columns={"town": "city"}))
    with pytest.raises(InputError, match=r"unexpected: \['extra'\]"):
        schema.encode(X.assign(extra=1.0))
    with pytest.raises(InputError, match="3 features, but 2 are expected"):
        schema.encode(pd.concat([X, X[["age"]]], axis=1))
    with pytest.raises(InputError, match="column 'age' is not numeric"):
        schema.encode(X.assign(age="old"))
    with pytest.raises(InputError, match="missing value in row 3, column 'town'"):
        schema.encode(X.assign(town=X["town"].where(np.arange(len(X)) != 3)))


def test_reordered_columns_are_realigned():
    X = mixed_frame()
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(schema.encode(X[X.columns[::-1]]), Z)


def test_array_is_accepted_where_a_frame_was_learned():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": ["p", "q"]})
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(schema.encode(X.to_numpy(dtype=object)), Z)


def test_frame_is_accepted_where_an_array_was_learned():
    X = np.random.default_rng(0).normal(size=(5, 2))
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(schema.encode(pd.DataFrame(X, columns=["u", "v"])), Z)


@pytest.mark.parametrize(
    ("values", "unknown", "shown"),
    [(["p", "q"], "r", "'r'"), ([1, 2], 7, "7"), ([True, False], "yes", "'yes'"), ([0.5, 1.5], 9.5, "9.5")],
)
def test_unknown_category_is_named(values, unknown, shown):
    schema, _ = Schema.learn(pd.DataFrame({"kind": values}), categorical_features=["kind"])
    message = f"X has the category {shown} in row 1, column 'kind', which did not occur in fit"
    with pytest.raises(InputError, match=re.escape(message)):
        schema.encode(pd.DataFrame({"kind": [values[0], unknown]}))


# ---------------------------------------------------------------- the caller's arrays


def test_float32_gives_the_answer_of_its_float64_copy():
    X32 = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    X32[:, 3] = np.float32(0.1) * (X32[:, 3] > 0)
    for chosen in ("auto", [3]):
        narrow, Z32 = Schema.learn(X32, categorical_features=chosen)
        wide, Z64 = Schema.learn(X32.astype(np.float64), categorical_features=chosen)
        np.testing.assert_array_equal(Z32, Z64)
        np.testing.assert_array_equal(narrow.scale, wide.scale)
        np.testing.assert_array_equal(narrow.center, wide.center)
        np.testing.assert_array_equal(narrow.embed(Z32), wide.embed(Z64))
        np.testing.assert_array_equal(narrow.encode(X32.astype(np.float64)), Z64)
        np.testing.assert_array_equal(narrow.decode(Z32), wide.decode(Z64))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, bool])
def test_other_number_types(dtype):
    X = np.random.default_rng(0).integers(0, 2, (10, 3)).astype(dtype)
    np.testing.assert_array_equal(Schema.learn(X)[1], X.astype(float))


@pytest.mark.parametrize("order", ["C", "F"])
def test_callers_array_stays_as_it_was_and_is_not_shared(order):
    X = np.asarray(np.random.default_rng(0).normal(size=(20, 3)), order=order)
    before = X.tobytes()
    schema, Z = Schema.learn(X)
    encoded, decoded, embedded = schema.encode(X), schema.decode(Z), schema.embed(Z)
    for array in (Z, encoded, decoded, embedded):
        array += 1.0
    assert X.tobytes() == before
    assert not np.shares_memory(schema.decode(Z), Z)


def test_callers_frame_stays_as_it_was():
    X = mixed_frame()
    copy = X.copy(deep=True)
    schema, Z = Schema.learn(X)
    rows = schema.decode(Z)
    rows["age"] = 0.0
    schema.encode(X[X.columns[::-1]])
    pd.testing.assert_frame_equal(X, copy)


def test_read_only_memory_map(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert not mapped.flags.writeable
    schema, Z = Schema.learn(mapped)
    np.testing.assert_array_equal(Z, X)
    assert schema.decode(Z).flags.writeable


# ---------------------------------------------------------------- distances


def test_standardised_numbers():
    X = np.random.default_rng(0).normal([3.0, -50.0], [0.01, 900.0], size=(500, 2))
    schema, Z = Schema.learn(X)
    drawn_in = np.clip(X, *np.sort(X, axis=0)[[5, -6]])  # the hundredth part at either end
    expected = (X - drawn_in.mean(axis=0)) / drawn_in.std(axis=0)
    np.testing.assert_allclose(schema.embed(Z), expected, rtol=1e-9)


def test_raw_numbers():
    X = np.random.default_rng(0).normal(5.0, 3.0, size=(30, 2))
    schema, Z = Schema.learn(X, standardize=False)
    np.testing.assert_array_equal(schema.embed(Z), X)


@pytest.mark.parametrize("share", [0.5, 0.1, 0.03])
@pytest.mark.parametrize("standardize", [True, False])
def test_binary_category_is_as_far_apart_as_the_same_column_as_a_number(share, standardize):
    X = (np.arange(100) < 100 * share).astype(float)[:, None]
    number, Z = Schema.learn(X, standardize=standardize)
    category, C = Schema.learn(X, categorical_features=[0], standardize=standardize)
    E, F = number.embed(Z), category.embed(C)
    expected = np.linalg.norm(E[0] - E[-1])
    np.testing.assert_allclose(np.linalg.norm(F[0] - F[-1]), expected, rtol=1e-12)
    np.testing.assert_allclose(category.scale[0], expected, rtol=1e-12)
    assert np.linalg.norm(F[0] - F[1]) == 0.0


def test_any_two_categories_are_equally_far_apart_and_count_like_a_number():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"c": rng.choice(list("abcde"), 400, p=[0.5, 0.2, 0.1, 0.1, 0.1]), "x": rng.normal(size=400)})
    schema, Z = Schema.learn(X)
    E = schema.embed(Z)
    assert E.shape == (400, 6)
    codes = np.array([[k, 0.0] for k in range(5)])
    one_hot = schema.embed(codes)[:, 1:]
    distances = np.linalg.norm(one_hot[:, None] - one_hot[None], axis=2)
    np.testing.assert_allclose(distances[~np.eye(5, dtype=bool)], schema.scale[0], rtol=1e-12)
    # two random rows differ equally much in a category as in a standardised number: E d^2 = 2
    pairs = np.square(E[:, None, :] - E[None, :, :])
    np.testing.assert_allclose(pairs[..., 1:].sum(axis=2).mean(), 2.0, rtol=1e-9)
    np.testing.assert_allclose(pairs[..., 0].mean(), 2.0, rtol=0.05)  # but for the tails


def test_coordinates_are_the_columns_of_a_feature():
    X = mixed_frame()
    schema, Z = Schema.learn(X)
    E, columns = schema.embed(Z), schema.coordinates
    assert len(columns) == schema.n_features
    np.testing.assert_array_equal(np.sort(np.concatenate(columns)), np.arange(E.shape[1]))
    for j, own in enumerate(columns):
        moved = Z.copy()
        moved[:, j] = Z[::-1, j]
        changed = np.flatnonzero((schema.embed(moved) != E).any(axis=0))
        assert len(changed)
        assert set(changed) <= set(own)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7, 1e150, 1e-150, 1e16])
def test_constant_column_adds_nothing(value):
    X = np.column_stack((np.full(7, value), np.arange(7.0)))
    schema, Z = Schema.learn(X)
    assert schema.scale[0] == 1.0
    E = schema.embed(Z)
    assert np.isfinite(E).all()
    assert np.ptp(E[:, 0]) == 0.0


def test_constant_category_adds_nothing():
    schema, Z = Schema.learn(pd.DataFrame({"c": ["a"] * 5, "x": np.arange(5.0)}))
    assert np.ptp(schema.embed(Z)[:, 1:]) == 0.0


def test_one_row():
    schema, Z = Schema.learn([[3.0, -1.0]])
    assert np.isfinite(schema.embed(Z)).all()
    np.testing.assert_array_equal(schema.scale, 1.0)


@pytest.mark.parametrize("exponent", [-150, -100, -20, 20, 100, 150])
def test_standardised_rows_do_not_depend_on_the_unit(exponent):
    X = np.random.default_rng(0).normal(1.0, 2.0, size=(50, 3))
    expected = Schema.learn(X)[0].embed(X)
    schema, Z = Schema.learn(X * 10.0**exponent)
    np.testing.assert_allclose(schema.embed(Z), expected, rtol=1e-9, atol=1e-12)


def test_extreme_scales_side_by_side():
    X = np.random.default_rng(0).normal(size=(40, 2)) * [1e-150, 1e150]
    schema, Z = Schema.learn(X)
    np.testing.assert_allclose(schema.embed(Z).std(axis=0), 1.0, rtol=0.1)


def test_a_row_too_far_away_is_refused_by_name():
    schema, _ = Schema.learn(np.random.default_rng(0).normal(size=(20, 2)) * 1e-150)
    far = schema.encode([[0.0, 0.0], [1e10, 0.0]])
    with pytest.raises(InputError, match=r"^X_explained row 1 is too far"):
        schema.embed(far, "X_explained")
