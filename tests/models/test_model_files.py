"""Models from files answer as the models that were saved."""

import re
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from gpec.data import Schema
from gpec.errors import CorruptFileError, InputError, MissingExtraError
from gpec.models import Model, load_model, match_columns


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.normal(40, 10, n),
            "town": rng.choice(["ulm", "bonn", "köln"], n),
            "rooms": rng.integers(1, 6, n),
            "area": rng.gamma(5, 10, n),
        }
    )


X = table()
y = ((X["age"] > 40) ^ (X["town"] == "bonn")).astype(int).to_numpy()
THREE = X["rooms"].clip(upper=3).to_numpy() - 1
NUMBERS = X[["age", "rooms", "area"]]


def answers(model, rows, **options):
    """What gpec makes of a model's answers; (n, 1) for two classes."""
    schema, Z = Schema.learn(rows)
    return Model(model, schema, **options).probabilities(Z)


def shuffled(rows):
    """The same columns in another order, with one that the model does not know."""
    return rows[rows.columns[::-1]].assign(label=1)


# XGBoost


@pytest.mark.parametrize("ending", ["json", "ubj"])
@pytest.mark.parametrize("target", ["two", "three"])
def test_xgboost(tmp_path, ending, target):
    xgboost = pytest.importorskip("xgboost")
    several = {"objective": "multi:softprob", "num_class": 3}
    options = {"objective": "binary:logistic"} if target == "two" else several
    matrix = xgboost.DMatrix(NUMBERS, y if target == "two" else THREE)
    booster = xgboost.train(options, matrix, 5)
    booster.save_model(tmp_path / f"m.{ending}")
    model = load_model(tmp_path / f"m.{ending}")
    rows, left_out = match_columns(model, shuffled(NUMBERS))
    assert list(rows.columns) == list(NUMBERS.columns)
    assert left_out == ["label"]
    np.testing.assert_array_equal(answers(model, rows), booster.predict(matrix).reshape(len(X), -1).astype(float))


def test_xgboost_categories_are_those_of_the_training(tmp_path):
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    plain = X.replace({"town": {"köln": "trier"}})  # XGBoost garbles letters beyond ASCII
    typed = plain.assign(town=pd.Categorical(plain["town"], categories=["trier", "ulm", "bonn"]))
    matrix = xgboost.DMatrix(typed, y, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic"}, matrix, 8)
    booster.save_model(tmp_path / "m.json")
    model = load_model(tmp_path / "m.json")
    rows, _ = match_columns(model, plain)  # text, as in a CSV file
    np.testing.assert_array_equal(answers(model, rows)[:, 0], booster.predict(matrix))
    some, _ = match_columns(model, plain[plain["town"] != "ulm"])
    np.testing.assert_array_equal(answers(model, some)[:, 0], booster.predict(matrix)[X["town"] != "ulm"])
    with pytest.raises(InputError, match=r"the table has 'rom' in column 'town', which is not one of the model's"):
        match_columns(model, X.assign(town="rom"))


def test_xgboost_garbles_letters_beyond_ascii():
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    typed = X.assign(town=pd.Categorical(X["town"], categories=["köln", "ulm", "bonn"]))
    model = xgboost.XGBClassifier(n_estimators=3, enable_categorical=True).fit(typed, y)
    with pytest.raises(InputError, match=r"one of the model's categories .*; XGBoost garbles names .*: train it with"):
        match_columns(model, X)


def test_xgboost_whole_numbers_as_categories(tmp_path):
    xgboost = pytest.importorskip("xgboost", minversion="3.1")
    typed = NUMBERS.assign(rooms=pd.Categorical(NUMBERS["rooms"], categories=[5, 3, 1, 2, 4]))
    classifier = xgboost.XGBClassifier(n_estimators=4, booster="dart", enable_categorical=True).fit(typed, y)
    classifier.save_model(tmp_path / "m.ubj")
    model = load_model(tmp_path / "m.ubj")
    rows, _ = match_columns(model, NUMBERS)
    np.testing.assert_allclose(answers(model, rows)[:, 0], classifier.predict_proba(typed)[:, 1], rtol=0, atol=1e-6)


def test_xgboost_codes_stand_for_themselves(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    matrix = xgboost.DMatrix(NUMBERS.to_numpy(), y, feature_types=["q", "c", "q"], enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic"}, matrix, 8)
    booster.save_model(tmp_path / "m.ubj")
    model = load_model(tmp_path / "m.ubj")
    rows, _ = match_columns(model, NUMBERS)
    np.testing.assert_array_equal(answers(model, rows)[:, 0], booster.predict(matrix))
    with pytest.raises(InputError, match="does not store the names of the categories"):
        match_columns(model, NUMBERS.assign(rooms="two"))
    with pytest.raises(InputError, match=r"has 4 columns, but the model takes 3"):
        match_columns(model, X)


# LightGBM and CatBoost


def test_lightgbm(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5}
    booster = lightgbm.train(options, lightgbm.Dataset(NUMBERS, y), 5)
    booster.save_model(tmp_path / "m.txt")
    model = load_model(tmp_path / "m.txt")
    rows, left_out = match_columns(model, shuffled(NUMBERS))
    assert left_out == ["label"]
    np.testing.assert_array_equal(answers(model, rows)[:, 0], booster.predict(NUMBERS))


def test_lightgbm_categories_are_those_of_the_training(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    typed = X.assign(
        town=pd.Categorical(X["town"], categories=["köln", "ulm", "bonn"]),
        rooms=pd.Categorical(X["rooms"], categories=[5, 4, 3, 2, 1]),
    )
    options = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 3, "min_data_per_group": 3, "cat_smooth": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(typed, THREE == 1), 8)
    booster.save_model(tmp_path / "m.txt")
    model = load_model(tmp_path / "m.txt")
    rows, _ = match_columns(model, X)
    np.testing.assert_array_equal(answers(model, rows)[:, 0], booster.predict(typed))


def test_catboost(tmp_path):
    catboost = pytest.importorskip("catboost")
    texts = X.assign(rooms=X["rooms"].astype(str))
    options = {"iterations": 8, "verbose": 0, "allow_writing_files": False}
    classifier = catboost.CatBoostClassifier(**options).fit(texts, np.where(y, "yes", "no"), cat_features=[1, 2])
    classifier.save_model(tmp_path / "m.cbm")
    model = load_model(tmp_path / "m.cbm")
    rows, left_out = match_columns(model, shuffled(X))  # rooms are numbers here
    assert left_out == ["label"]
    np.testing.assert_allclose(answers(model, rows)[:, 0], classifier.predict_proba(texts)[:, 1], rtol=0, atol=1e-12)
    assert list(model.classes_) == ["no", "yes"]


# ONNX


def pipeline(target):
    prepare = make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["age", "rooms", "area"]))
    return make_pipeline(prepare, LogisticRegression()).fit(X, target)


@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.filterwarnings("ignore")  # of the converter
def test_onnx_with_one_input_for_all_columns(tmp_path, zipmap):
    skl2onnx = pytest.importorskip("skl2onnx")

    forest = RandomForestClassifier(8, random_state=0).fit(
        NUMBERS.to_numpy(np.float32), np.array(["b", "a", "c"])[THREE]
    )
    types = [("rows", skl2onnx.common.data_types.FloatTensorType([None, 3]))]
    onnx = skl2onnx.to_onnx(forest, initial_types=types, options={"zipmap": zipmap})
    (tmp_path / "m.onnx").write_bytes(onnx.SerializeToString())
    model = load_model(tmp_path / "m.onnx")
    rows, _ = match_columns(model, NUMBERS)
    expected = forest.predict_proba(NUMBERS.to_numpy(np.float32))
    np.testing.assert_allclose(answers(model, rows), expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(answers(model, rows.to_numpy()), expected, rtol=0, atol=1e-6)
    if zipmap:
        assert list(model.classes_) == ["a", "b", "c"]
    with pytest.raises(InputError, match="takes 3"):
        match_columns(model, X)
    with pytest.raises(InputError, match=r"no output 'margin'.*probabilit"):
        load_model(tmp_path / "m.onnx", output_name="margin")


@pytest.mark.filterwarnings("ignore")
def test_onnx_with_one_input_for_each_column(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")

    kinds = skl2onnx.common.data_types
    types = [
        ("age", kinds.FloatTensorType([None, 1])),
        ("town", kinds.StringTensorType([None, 1])),
        ("rooms", kinds.Int64TensorType([None, 1])),
        ("area", kinds.FloatTensorType([None, 1])),
    ]
    fitted = pipeline(y)
    onnx = skl2onnx.to_onnx(fitted, initial_types=types, options={"zipmap": False})
    (tmp_path / "m.onnx").write_bytes(onnx.SerializeToString())
    model = load_model(tmp_path / "m.onnx")
    rows, left_out = match_columns(model, shuffled(X))
    assert left_out == ["label"]
    np.testing.assert_allclose(answers(model, rows)[:, 0], fitted.predict_proba(X)[:, 1], rtol=0, atol=1e-5)
    with pytest.raises(InputError, match=r"does not have the columns \['town'\]"):
        match_columns(model, NUMBERS)


@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_are_rounded_not_cut(tmp_path):
    skl2onnx = pytest.importorskip("skl2onnx")

    whole = NUMBERS[["rooms"]].to_numpy(np.int64)
    forest = RandomForestClassifier(8, random_state=0).fit(whole, y)
    types = [("rooms", skl2onnx.common.data_types.Int64TensorType([None, 1]))]
    onnx = skl2onnx.to_onnx(forest, initial_types=types, options={"zipmap": False})
    (tmp_path / "m.onnx").write_bytes(onnx.SerializeToString())
    model = load_model(tmp_path / "m.onnx")
    np.testing.assert_allclose(model(np.array([[1.9], [2.2]])), forest.predict_proba([[2], [2]]), rtol=0, atol=1e-6)


# skops and pickle


def test_skops(tmp_path):
    skops = pytest.importorskip("skops.io")
    fitted = pipeline(y)
    skops.dump(fitted, tmp_path / "m.skops")
    model = load_model(tmp_path / "m.skops")
    rows, left_out = match_columns(model, shuffled(X))
    assert left_out == ["label"]
    np.testing.assert_array_equal(model.predict_proba(rows), fitted.predict_proba(X))


def doubled(rows):
    return 2 * rows


def test_skops_makes_no_type_that_is_not_named(tmp_path):
    skops = pytest.importorskip("skops.io")
    fitted = make_pipeline(FunctionTransformer(doubled), LogisticRegression()).fit(NUMBERS, y)
    skops.dump(fitted, tmp_path / "m.skops")
    with pytest.raises(InputError, match=r"safe: test_model_files.doubled; if you trust") as refusal:
        load_model(tmp_path / "m.skops")
    (name,) = str(refusal.value).partition("safe: ")[2].partition(";")[0].split(", ")
    model = load_model(tmp_path / "m.skops", trust_types=[name])
    np.testing.assert_array_equal(model.predict_proba(NUMBERS), fitted.predict_proba(NUMBERS))


class Bomb:
    def __reduce__(self):
        return (print, ("bang",))


@pytest.mark.parametrize("ending", ["pkl", "pickle", "joblib"])
def test_a_pickle_is_not_opened_without_a_word(tmp_path, ending, capsys):
    path = tmp_path / f"m.{ending}"
    joblib.dump(Bomb(), path)
    with pytest.raises(InputError, match="is a pickle, and reading it executes arbitrary code"):
        load_model(path)
    assert capsys.readouterr().out == ""
    forest = RandomForestClassifier(5, random_state=0).fit(NUMBERS, y)
    joblib.dump(forest, path)
    model = load_model(path, trust_pickle=True)
    np.testing.assert_array_equal(model.predict_proba(NUMBERS), forest.predict_proba(NUMBERS))


# torch


@pytest.mark.parametrize("ending", ["pt", "pt2", "pth", "PT2"])
@pytest.mark.parametrize("trust", [False, True])
def test_a_file_of_torch_is_refused_unread(tmp_path, ending, trust):
    (tmp_path / f"m.{ending}").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"onnx\.export and give the \.onnx file, or give package\.module:function"):
        load_model(tmp_path / f"m.{ending}", trust_pickle=trust)


# Modules


def test_named_function(tmp_path, monkeypatch):
    (tmp_path / "credit_rules.py").write_text(
        "def rate(X):\n    return 1.0 * (X['age'] > 40)\n\nclass A:\n    rate = rate\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    np.testing.assert_array_equal(load_model("credit_rules:rate")(X), X["age"] > 40)
    np.testing.assert_array_equal(load_model("credit_rules:A.rate")(X), X["age"] > 40)
    with pytest.raises(InputError, match="has no 'price'"):
        load_model("credit_rules:price")
    with pytest.raises(InputError, match=r"no_such_module:f cannot be imported"):
        load_model("no_such_module:f")


def test_names_of_scikit_learn():
    forest = RandomForestClassifier(5, random_state=0).fit(NUMBERS, y)
    for model in (forest, forest.predict_proba):
        rows, left_out = match_columns(model, shuffled(NUMBERS))
        assert list(rows.columns) == list(NUMBERS.columns)
        assert left_out == ["label"]
    same, left_out = match_columns(lambda rows: rows, X)
    assert same is X
    assert left_out == []


# What cannot be read


@pytest.mark.parametrize("ending", ["json", "ubj", "txt", "cbm", "onnx", "skops"])
def test_a_damaged_file_is_named(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    path.write_bytes(b"{} no model \x00\x01")
    with pytest.raises(CorruptFileError, match=f"m.{ending}") as refusal:
        load_model(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("ending", "package", "extra"),
    [
        ("json", "xgboost", "gpec[data]"),
        ("txt", "lightgbm", "lightgbm"),
        ("cbm", "catboost", "catboost"),
        ("onnx", "onnxruntime", "gpec[files]"),
        ("skops", "skops.io", "gpec[files]"),
    ],
)
def test_a_package_that_is_not_there(tmp_path, ending, package, extra, monkeypatch):
    (tmp_path / f"m.{ending}").write_text("tree")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=re.escape(f"pip install {extra}") + "|" + re.escape(f'"{extra}"')):
        load_model(tmp_path / f"m.{ending}")


def test_unknown_kinds(tmp_path):
    (tmp_path / "m.h5").write_text("")
    with pytest.raises(InputError, match="not a supported kind of model"):
        load_model(tmp_path / "m.h5")
    with pytest.raises(InputError, match="There is no model"):
        load_model(tmp_path / "nowhere.json")
