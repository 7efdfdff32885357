"""Trees that name what does not exist are refused before a library follows them; all kinds of good trees are taken."""

import json
import os
import re
import sys

import numpy as np
import pandas as pd
import pytest

from gpec.cli._trial import try_in_child
from gpec.errors import CorruptFileError
from gpec.models import _trees, load_model
from gpec.models._trees import check_trees

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 4)), columns=list("abcd"))
X.iloc[::9, 1] = np.nan
X["e"] = pd.Categorical(RNG.choice(["u", "v", "w"], 200))
Y = (X["a"] + 2 * (X["e"] == "v") - (X["e"] == "w") > 0.5).astype(int).to_numpy()
THREE = np.arange(200) % 3
TWO_VALUES = np.column_stack((X["a"], -X["d"]))
NUMBERS = X[list("abcd")]
REFUSED = r"name nodes, columns, categories or classes that do not exist"


def xgboost_file(path, settings=None, rows=X, target=Y):
    xgboost = pytest.importorskip("xgboost")
    settings = {"objective": "binary:logistic", "max_depth": 3, "max_cat_to_onehot": 1, **(settings or {})}
    settings["verbosity"] = 0
    xgboost.train(settings, xgboost.DMatrix(rows, target, enable_categorical=True), 4).save_model(path)


def lightgbm_file(path, settings=None, rows=X, target=Y):
    lightgbm = pytest.importorskip("lightgbm")
    settings = {"objective": "binary", "verbose": -1, "min_data_in_leaf": 5, "num_leaves": 8, **(settings or {})}
    settings |= {"max_cat_to_onehot": 1, "min_data_per_group": 5, "cat_smooth": 1}
    lightgbm.train(settings, lightgbm.Dataset(rows, target), 4).save_model(path)


@pytest.mark.parametrize(
    ("settings", "rows", "target"),
    [
        ({}, X, Y),
        ({"max_cat_to_onehot": 9}, X, Y),
        ({"booster": "dart", "rate_drop": 0.5}, X, Y),
        ({"booster": "gblinear"}, NUMBERS.fillna(0.0), Y),
        ({"objective": "multi:softprob", "num_class": 3}, X, THREE),
        ({"objective": "multi:softprob", "num_class": 3, "booster": "gblinear"}, NUMBERS.fillna(0.0), THREE),
        ({"objective": "reg:squarederror", "num_parallel_tree": 3, "subsample": 0.5}, X, X["a"]),
        ({"objective": "reg:squarederror", "multi_strategy": "multi_output_tree"}, NUMBERS, TWO_VALUES),
        ({"objective": "reg:squarederror"}, NUMBERS, TWO_VALUES),
        ({"objective": "reg:squarederror", "gamma": 5.0, "tree_method": "exact"}, NUMBERS, X["a"]),
        ({"objective": "reg:squarederror"}, X, 0 * X["a"]),
    ],
)
def test_good_files_of_xgboost(tmp_path, settings, rows, target):
    for ending in ("json", "ubj"):
        xgboost_file(tmp_path / f"m.{ending}", settings, rows, target)
        check_trees(load_model(tmp_path / f"m.{ending}"))


@pytest.mark.parametrize(
    ("settings", "rows", "target"),
    [
        ({}, X, Y),
        ({"objective": "multiclass", "num_class": 3}, X, THREE),
        ({"objective": "multiclassova", "num_class": 3}, X, THREE),
        ({"objective": "regression", "linear_tree": True}, X, X["a"]),
        ({"objective": "regression"}, X, 0 * X["a"]),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, X, Y),
    ],
)
def test_good_files_of_lightgbm(tmp_path, settings, rows, target):
    lightgbm_file(tmp_path / "m.txt", settings, rows, target)
    check_trees(load_model(tmp_path / "m.txt"))


def _leaf(tree):
    return tree["left_children"].index(-1)


def _set(name, where, value):
    def change(model):
        tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
        tree[name][where(tree) if callable(where) else where] = value

    return change


XGBOOST = {
    "child that does not exist": _set("left_children", 0, 99_999),
    "root as a child": _set("right_children", 1, 0),
    "node with two parents": _set("left_children", 0, 2),
    "leaf with one child": _set("right_children", _leaf, 5),
    "column that does not exist": _set("split_indices", 0, 65_535),
    "categories of another node": _set("categories_nodes", 0, 1),
    "categories that do not exist": _set("categories_sizes", 0, 99_999),
    "class that does not exist": lambda model: model["learner"]["gradient_booster"]["model"]["tree_info"].__setitem__(
        0, 7
    ),
    "leaves with values of other outputs": _set("tree_param", "size_leaf_vector", "7"),
    "categories before the first": lambda model: [
        _set(name, 0, value)(model) for name, value in (("categories_segments", -1), ("categories_sizes", 2))
    ],
    "a tree of no class": lambda model: model["learner"]["gradient_booster"]["model"]["tree_info"].pop(),
    "rounds that do not exist": lambda model: model["learner"]["gradient_booster"]["model"].update(
        iteration_indptr=[0, 1, 2, 3, 99]
    ),
}


@pytest.mark.parametrize("case", XGBOOST)
def test_garbled_trees_of_xgboost(tmp_path, case):
    path = tmp_path / "m.json"
    xgboost_file(path)
    model = json.loads(path.read_text())
    XGBOOST[case](model)
    with pytest.raises(CorruptFileError, match=REFUSED):
        _trees._of_xgboost(model["learner"])  # XGBoost itself ends the process on some of them


def test_too_few_weights_of_xgboost(tmp_path):
    path = tmp_path / "m.json"
    xgboost_file(path, {"booster": "gblinear"}, NUMBERS.fillna(0.0))
    model = json.loads(path.read_text())["learner"]
    model["gradient_booster"]["model"]["weights"].pop()
    with pytest.raises(CorruptFileError, match=REFUSED):
        _trees._of_xgboost(model)


def test_settings_that_xgboost_looks_at_late(tmp_path):
    path = tmp_path / "m.json"
    xgboost_file(path)
    path.write_text(re.sub(r'("base_score":")[^"]*', r"\g<1>-7", path.read_text()))
    with pytest.raises(CorruptFileError, match=r"m.json cannot be read as a model of XGBoost: .* base_score must be"):
        load_model(path)


LIGHTGBM = {
    "node with two parents": (r"(left_child=)\d+", r"\g<1>2"),
    "leaf that does not exist": (r"(right_child=.*)-\d+", r"\g<1>-99"),
    "column that does not exist": (r"(split_feature=)\d+", r"\g<1>99999"),
    "categories that do not exist": (r"(cat_boundaries=0 )\d+", r"\g<1>99999"),
    "fewer categories than nodes ask for": (r"num_cat=[1-9]\d*", "num_cat=0"),
    "categories from another place": (r"(cat_boundaries=)0", r"\g<1>1"),
    "another number of classes": (r"num_tree_per_iteration=1", "num_tree_per_iteration=2"),
    "an objective of other classes": (r"objective=binary.*", "objective=multiclass num_class:3"),
}


@pytest.mark.parametrize("case", LIGHTGBM)
def test_garbled_trees_of_lightgbm(case, tmp_path):
    lightgbm_file(tmp_path / "m.txt")
    text = load_model(tmp_path / "m.txt").model_to_string()
    garbled = re.sub(*LIGHTGBM[case], text, count=1)
    assert garbled != text

    with pytest.raises(CorruptFileError, match=REFUSED):
        _trees._of_lightgbm(garbled)  # LightGBM itself ends the process on some of them


def test_the_child_refuses_them(tmp_path):
    """A leaf with a child: XGBoost does not mind, but shap's reader ends the process."""
    path = tmp_path / "m.json"
    xgboost_file(path)
    try_in_child(str(path))
    model = json.loads(path.read_text())
    XGBOOST["leaf with one child"](model)
    path.write_text(json.dumps(model))
    with pytest.raises(CorruptFileError, match=r"m.json is damaged: its trees " + REFUSED):
        try_in_child(str(path))


def test_the_child_refuses_those_of_lightgbm(tmp_path):
    """LightGBM reads the file, and takes categories from elsewhere."""
    path = tmp_path / "m.txt"
    lightgbm_file(path)
    path.write_text(re.sub(*LIGHTGBM["categories from another place"], path.read_text(), count=1))
    with pytest.raises(CorruptFileError, match=r"m.txt is damaged: its trees " + REFUSED):
        try_in_child(str(path))


@pytest.mark.parametrize(
    ("name", "library"),
    [("m.ubj", "xgboost"), ("m.txt", "lightgbm"), ("m.cbm", "catboost"), ("m.ONNX", "onnxruntime")],
)
def test_every_kind_of_file_is_tried(tmp_path, monkeypatch, name, library):
    (tmp_path / name).write_text("{}")
    (tmp_path / f"{library}.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    with pytest.raises(CorruptFileError, match=r"is damaged: .* ends \(exit code 3\)"):
        try_in_child(str(tmp_path / name))


def test_the_child_imports_nothing_from_the_current_folder(tmp_path, monkeypatch):
    xgboost_file(tmp_path / "m.json")
    (tmp_path / "xgboost.py").write_text("import os\nos._exit(3)\n")
    monkeypatch.chdir(tmp_path)
    try_in_child("m.json")


@pytest.mark.parametrize("how", ["cut", "no colon"])
def test_settings_that_lightgbm_reads_beyond_their_end(tmp_path, how):
    path = tmp_path / "m.txt"
    lightgbm_file(path)
    text = path.read_text()
    path.write_text(text[: text.index("[max_bin") + 5] if how == "cut" else text.replace("[max_bin:", "[max_bin"))
    with pytest.raises(CorruptFileError, match=r"m.txt is damaged: its parameters are incomplete"):
        load_model(path)


def test_a_file_of_lightgbm_that_is_not_text(tmp_path):
    """Objective and ranges of the columns are text, too; LightGBM reads them without a look."""
    path = tmp_path / "m.txt"
    lightgbm_file(path)
    path.write_bytes(path.read_bytes().replace(b"feature_infos=[", b"feature_infos=\xdd["))
    with pytest.raises(CorruptFileError, match=r"m.txt cannot be read as a model of LightGBM: 'utf-8' codec"):
        load_model(path)
