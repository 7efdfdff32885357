"""Tables of every kind: polars, pyarrow, Series, tensors, sparse columns, columns of objects."""

import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from archive_helpers import through_file
from extras import polars as pl
from gpec.data import Schema
from gpec.errors import InputError, ModelCallError, ParameterTypeError
from gpec.models import Model


def polars_frame():
    stamps = [datetime(2020, 1, 1, 12), None, datetime(2021, 1, 1), datetime(2022, 1, 1)]
    return pl.DataFrame(
        {
            "number": [1.5, None, 2.5, -1.0],
            "nan": [1.5, float("nan"), 2.5, -1.0],
            "whole": [1, None, 3, 4],
            "small": pl.Series([1, 2, 3, 4], dtype=pl.UInt8),
            "single": pl.Series([0.1, 0.2, 0.3, 0.4], dtype=pl.Float32),
            "text": ["x", None, "y", "x"],
            "full text": ["x", "z", "y", "x"],
            "flag": [True, None, False, True],
            "full flag": [True, True, False, True],
            "enum": pl.Series(["u", "v", None, "u"], dtype=pl.Enum(["v", "u", "w"])),
            "kind": pl.Series(["u", "v", None, "u"], dtype=pl.Categorical),
            "day": [date(2020, 1, 1), None, date(2021, 1, 1), date(2022, 1, 1)],
            "stamp": stamps,
            "zone": pl.Series(stamps).dt.replace_time_zone("Europe/Rome"),
            "wait": [timedelta(1), None, timedelta(0, 1), timedelta(2)],
            "nothing": [None, None, None, None],
        }
    )


# ---------------------------------------------------------------- polars


def test_polars_columns_have_names_and_kinds():
    X = polars_frame()
    schema, Z = Schema.learn(X)
    assert schema.names == tuple(X.columns)
    kinds = [schema.names[j] for j in schema.categorical]
    assert kinds == ["text", "full text", "flag", "full flag", "enum", "kind", "nothing"]
    assert schema.categories[9].tolist() == ["v", "u", "w"]
    lacking = [name for name in X.columns if X[name].null_count() or name == "nan"]
    assert [name for name, gone in zip(schema.names, schema.missing, strict=True) if gone] == lacking
    np.testing.assert_array_equal(Z[:, 5], [0, np.nan, 1, 0])
    assert np.isfinite(schema.embed(Z)).all()


def test_the_model_gets_polars_again():
    X = polars_frame()
    schema, Z = Schema.learn(X)
    for some in (schema, through_file(Schema, schema)):
        back = some.for_model(Z)
        assert back.schema == X.schema
        assert back.equals(X)
    assert schema.for_model(Z)["nan"].is_nan().to_list() == [False, True, False, False]
    assert isinstance(schema.decode(Z), pd.DataFrame)
    assert list(schema.decode(Z).columns) == X.columns


def test_numbers_that_are_no_longer_whole():
    schema, Z = Schema.learn(polars_frame().select("whole", "small", "day"))
    between = schema.for_model(Z / 2)
    assert between.dtypes == [pl.Float64, pl.Float64, pl.Date]
    assert between["whole"].to_list() == [0.5, None, 1.5, 2.0]


def test_reordered_polars_columns_are_realigned():
    X = polars_frame()
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(schema.encode(X.select(X.columns[::-1])), Z)


def test_renamed_polars_columns_are_refused():
    X = polars_frame()
    schema, _ = Schema.learn(X)
    with pytest.raises(InputError, match=r"missing: \['text'\], unexpected: \['town'\]"):
        schema.encode(X.rename({"text": "town"}))


def test_polars_and_pandas_are_the_same_table():
    P = polars_frame().drop("enum", "kind", "nothing")
    from_polars, Z = Schema.learn(P)
    from_pandas, Y = Schema.learn(from_polars.decode(Z))
    np.testing.assert_array_equal(Y, Z)
    np.testing.assert_array_equal(from_pandas.encode(P), Z)
    np.testing.assert_array_equal(from_polars.encode(from_polars.decode(Z)), Z)
    np.testing.assert_allclose(from_pandas.embed(Y), from_polars.embed(Z), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda frame: frame.lazy(), r"X is a polars LazyFrame, which has no rows yet; pass X\.collect\(\)"),
        (lambda frame: frame["number"], r"X is a polars Series; pass a DataFrame: X\.to_frame\(\)"),
    ],
    ids=["lazy", "series"],
)
def test_other_polars_objects(make, message):
    with pytest.raises(ParameterTypeError, match=message):
        Schema.learn(make(polars_frame()))


@pytest.mark.parametrize("column", [[[1], [2]], [{"a": 1}, {"a": 2}], [b"a", b"b"]])
def test_polars_columns_that_are_no_features(column):
    with pytest.raises(InputError, match=r"column 'odd' has the polars type .*neither number, text nor date"):
        Schema.learn(pl.DataFrame({"odd": pl.Series(column)}))


def test_empty_polars_frames():
    with pytest.raises(InputError, match="0 rows"):
        Schema.learn(pl.DataFrame({"a": [], "b": []}))
    with pytest.raises(InputError, match="0 columns"):
        Schema.learn(pl.DataFrame())


def test_a_model_that_speaks_polars():
    X = polars_frame()

    def predict(frame):
        return (
            frame.select(pl.col("number").fill_null(0.0) * pl.col("full flag").cast(pl.Float64)).to_series() / 10 + 0.5
        )

    schema, Z = Schema.learn(X)
    model = Model(predict, schema)
    np.testing.assert_allclose(model.probabilities(Z)[:, 0], predict(X))


def test_a_model_that_speaks_pandas_only_is_told_of_polars():
    schema, Z = Schema.learn(polars_frame())
    model = Model(lambda frame: expit(frame.loc[:, "number"]), schema)
    with pytest.raises(ModelCallError, match=r"rows are a polars DataFrame, as in fit; .*pass X\.to_pandas\(\)"):
        model.labels(Z)


def test_polars_is_read_without_pyarrow():
    pytest.importorskip("polars")
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import polars as pl\n"
        "from gpec.data import Schema\n"
        "X = pl.DataFrame({'a': [1, None], 'b': ['x', None], 'c': pl.Series(['u', None], dtype=pl.Categorical)})\n"
        "schema, Z = Schema.learn(X)\n"
        "assert schema.for_model(Z).equals(X)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)  # noqa: S603  our own program


# ---------------------------------------------------------------- other tables


def test_pyarrow_tables():
    pa = pytest.importorskip("pyarrow")
    X = pa.table({"a": [1.5, None, 2.5], "b": ["x", None, "y"], "c": [True, False, None]})
    schema, Z = Schema.learn(X)
    assert schema.names == ("a", "b", "c")
    np.testing.assert_array_equal(Z, [[1.5, 0, 1], [np.nan, np.nan, 0], [2.5, 1, np.nan]])
    np.testing.assert_array_equal(schema.encode(X.select(["c", "a", "b"])), Z)
    assert isinstance(schema.for_model(Z), pd.DataFrame)


def test_frames_of_others_get_a_sentence():
    class Frame:
        columns = ("a", "b")

        def __array__(self, dtype=None, copy=None):
            return np.zeros((2, 2))

    with pytest.raises(ParameterTypeError, match=r"^X is a .* Frame, whose columns cannot be read by name; pass a"):
        Schema.learn(Frame())


def test_sparse_columns_get_a_sentence():
    X = pd.DataFrame({"a": [0.0, 1.0], "b": pd.arrays.SparseArray([0.0, 1.0])})
    with pytest.raises(
        ParameterTypeError, match=r"^X column 'b' is sparse; pass a dense DataFrame: X\.sparse\.to_dense"
    ):
        Schema.learn(X)
    schema, _ = Schema.learn(X.assign(b=0.0))
    with pytest.raises(ParameterTypeError, match=r"^rows column 'b' is sparse"):
        schema.encode(X, "rows")


def test_arrays_with_named_fields_get_a_sentence():
    X = np.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)])
    with pytest.raises(InputError, match=r"named fields; pass pd\.DataFrame\(X\)"):
        Schema.learn(X)


# ---------------------------------------------------------------- one row as a Series


def test_a_row_of_the_frame():
    X = pd.DataFrame(
        {
            "age": [1.5, 2.5, np.nan],
            "town": pd.Series(["Rome", None, "Oslo"], dtype=object),
            "member": [True, False, True],
            "size": pd.Categorical(["S", "L", None]),
            "count": pd.array([1, None, 3], dtype="Int64"),
        },
        index=["r", "s", "t"],
    )
    schema, Z = Schema.learn(X)
    for i in range(3):
        np.testing.assert_array_equal(schema.encode(X.iloc[i]), Z[i : i + 1])
        np.testing.assert_array_equal(schema.encode(X.iloc[i, ::-1]), Z[i : i + 1])
    numbers = pd.DataFrame({("u", 1): [1.0, 2.0], ("u", 2): [3.0, 4.0]})
    np.testing.assert_array_equal(Schema.learn(numbers)[0].encode(numbers.iloc[1]), [[2.0, 4.0]])


@pytest.mark.parametrize(
    "row", [pd.Series([1.0, 2.0]), pd.Series({"a": 1.0}), pd.Series({"a": 1.0, "c": 2.0}), pd.Series([], dtype=float)]
)
def test_another_series_gets_a_sentence(row):
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    message = r"is a Series and its index is not the columns seen in fit; for one column pass .*\.to_frame\(\), for one"
    with pytest.raises(ParameterTypeError, match=f"^rows {message}"):
        Schema.learn(X)[0].encode(row, "rows")
    with pytest.raises(ParameterTypeError, match=f"^X {message}"):
        Schema.learn(row)
    with pytest.raises(ParameterTypeError, match=f"^X {message}"):
        Schema.learn(X.to_numpy())[0].encode(row)


# ---------------------------------------------------------------- tensors


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int64", "bool"])
def test_tensors(dtype):
    torch = pytest.importorskip("torch")
    X = torch.tensor([[1.5, 0.0], [-2.0, 1.0]]).to(getattr(torch, dtype))
    np.testing.assert_array_equal(Schema.learn(X)[1], X.double().numpy())


def test_a_tensor_that_requires_a_gradient():
    torch = pytest.importorskip("torch")
    X = torch.tensor([[1.5, 0.0], [-2.0, 1.0]], requires_grad=True)
    schema, Z = Schema.learn(X)
    np.testing.assert_array_equal(Z, X.detach().numpy())
    np.testing.assert_array_equal(schema.encode(2 * X), 2 * Z)
    assert X.requires_grad
    Z += 1.0
    assert X[0, 0].item() == 1.5


def test_a_sparse_tensor():
    torch = pytest.importorskip("torch")
    with pytest.raises(ParameterTypeError, match=r"X is a sparse tensor; pass a dense one: X\.to_dense\(\)"):
        Schema.learn(torch.eye(3).to_sparse())


# ---------------------------------------------------------------- columns of objects


@pytest.mark.parametrize(
    "values",
    [[1, 2, 3], [1, 2.5, None], [Decimal("1.5"), None, Decimal(2)], [np.float32(1), 2, pd.NA], [1, np.nan, 2]],
    ids=str,
)
def test_objects_that_are_numbers_are_numbers(values):
    X = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    schema, Z = Schema.learn(X)
    assert schema.continuous.tolist() == [0]
    expected = [np.nan if pd.isna(value) else float(value) for value in values]
    np.testing.assert_array_equal(Z[:, 0], expected)
    assert schema.decode(Z)["a"].dtype == np.float64
    assert Schema.learn(X, categorical_features=["a"])[0].categorical.tolist() == [0]
    np.testing.assert_array_equal(Schema.learn(X.to_numpy())[1], Z)


@pytest.mark.parametrize("values", [["1", "2", "3"], ["1.5", None, "2"], [1, "2", 3], [True, False, None]], ids=str)
def test_text_stays_text_and_flags_stay_flags(values):
    X = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    schema, Z = Schema.learn(X)
    assert schema.categorical.tolist() == [0]
    assert schema.decode(Z)["a"].tolist() == values


def test_text_where_fit_had_numbers():
    schema, _ = Schema.learn(pd.DataFrame({"a": [1.0, 2.0]}))
    for column in (["1.0", "2.0"], pd.Series(["1.0", "2.0"], dtype=object), pd.Series([1.0, "2.0"], dtype=object)):
        with pytest.raises(InputError, match="column 'a' is not numeric in row"):
            schema.encode(pd.DataFrame({"a": column}))


@pytest.mark.parametrize("dtype", ["int64[pyarrow]", "double[pyarrow]", "Int8", "Float32"])
def test_nullable_columns_come_back(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    X = pd.DataFrame({"a": pd.array([1, None, 3], dtype=dtype)})
    schema, Z = Schema.learn(X)
    pd.testing.assert_frame_equal(schema.decode(Z), X)
    pd.testing.assert_frame_equal(through_file(Schema, schema).decode(Z), X)
    thirds = schema.decode(Z / 3)["a"]
    assert thirds.iloc[0] == 1 / 3
    assert pd.isna(thirds.iloc[1])


def test_columns_of_pyarrow_in_pandas():
    pytest.importorskip("pyarrow")
    X = pd.DataFrame({"flag": pd.array([True, None, False], dtype="bool[pyarrow]")})
    X["word"] = pd.array(["x", None, "y"], dtype="string[pyarrow]")
    schema, Z = Schema.learn(X)
    assert schema.categorical.tolist() == [0, 1]
    pd.testing.assert_frame_equal(schema.decode(Z), X)
    X["day"] = pd.array(["2020-01-01"] * 3, dtype="timestamp[us][pyarrow]")
    with pytest.raises(InputError, match=r"'day' holds dates of the type timestamp.*astype\('datetime64\[us\]'\)"):
        Schema.learn(X)
