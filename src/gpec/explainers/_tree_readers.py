"""The trees of scikit-learn, XGBoost, LightGBM and CatBoost models, in one format."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpec.explainers._trees import Tree, UnreadableTrees
from gpec.models._matching import as_xgboost_reads, categories_of_xgboost
from gpec.typing import FloatArray, IntArray

_LEAST_OF_LIGHTGBM = float(np.float32(1e-35))  # LightGBM's zero


@dataclass(frozen=True, eq=False)
class TreeModel:
    """Trees of any library.

    Attributes
    ----------
    read : function
        Reads the trees; may raise :class:`UnreadableTrees`.
    columns : function
        The numbers that the trees see, ``(n, p)``, for the model's input; a missing value is NaN.
    total : function
        The model's own answer for its input, which the trees add up to, ``(n, outputs)``.
    contributions : function or None
        The library's path-dependent values for the model's input and the base value, ``(n, columns + 1, outputs)``.
    adds_up_to : {"probability", "margin"}
        What the trees of a classifier add up to.
    order : array of int or None
        The input column of each column of the trees; None if they are the same.
    """

    read: Callable[[], list[Tree]]
    columns: Callable[[Any], FloatArray]
    total: Callable[[Any], FloatArray]
    contributions: Callable[[Any], FloatArray] | None = None
    adds_up_to: str = "margin"
    order: IntArray | None = None


def find_tree_model(model: Any) -> TreeModel | None:
    """How to read a model's trees; None if it is no tree model that gpec knows."""
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        name = kind.__name__.removesuffix("Classifier").removesuffix("Regressor")
        if (package, name) in _READERS:
            return _READERS[package, name](model)
    return None


def _two_dimensional(answer: Any) -> FloatArray:
    found = np.asarray(answer, dtype=np.float64)
    return found.reshape(len(found), -1)


def _numbers(rows: Any, absent: float = 0.0) -> FloatArray:
    """The model's input as numbers; ``absent`` is what is not stored in a sparse matrix."""
    if hasattr(rows, "tocoo"):
        stored = rows.tocoo()
        found = np.full(rows.shape, absent)
        found[stored.row, stored.col] = stored.data
        return found
    if isinstance(rows, pd.DataFrame):
        return rows.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(rows, dtype=np.float64)


def _single(rows: FloatArray) -> FloatArray:
    """Values as a library with single precision sees them."""
    with np.errstate(over="ignore"):
        return rows.astype(np.float32).astype(np.float64)


# scikit-learn


def _of_sklearn(tree: Any, weight: float, classes: int) -> Tree:
    nodes = tree.tree_
    if tree.n_outputs_ > 1:
        raise UnreadableTrees("it has several targets")
    value = nodes.value[:, 0, :]
    value = value[:, -1:] if classes <= 2 else value
    return Tree(
        nodes.children_left.astype(np.int64), nodes.children_right.astype(np.int64), nodes.feature, nodes.threshold,
        nodes.missing_go_to_left.astype(np.bool_), weight * value,
    )  # fmt: skip


def _sklearn_forest(model: Any) -> TreeModel:
    trees = getattr(model, "estimators_", [model])

    def read() -> list[Tree]:
        classes = 1 if not hasattr(model, "classes_") else len(model.classes_)
        return [_of_sklearn(tree, 1 / len(trees), classes) for tree in trees]

    def total(rows: Any) -> FloatArray:
        if not hasattr(model, "predict_proba"):
            return _two_dimensional(model.predict(rows))
        answer = _two_dimensional(model.predict_proba(rows))
        return answer[:, 1:] if answer.shape[1] == 2 else answer

    return TreeModel(read, lambda rows: _single(_numbers(rows)), total, adds_up_to="probability")


def _sklearn_boosting(model: Any) -> TreeModel:
    def read() -> list[Tree]:
        trees = [_of_sklearn(tree, model.learning_rate, 1) for tree in model.estimators_.ravel()]
        return _in_turn(trees, model.estimators_.shape[1])

    return TreeModel(read, lambda rows: _single(_numbers(rows)), _decision(model))


def _decision(model: Any, otherwise: str = "predict") -> Callable[[Any], FloatArray]:
    """A classifier's decision function, or another method of a regressor."""
    method = getattr(model, "decision_function", None) or getattr(model, otherwise)
    return lambda rows: _two_dimensional(method(rows))


def _for_output(tree: Tree, output: int, outputs: int) -> Tree:
    """A tree with one output as one that adds to one of several outputs."""
    value = np.zeros((len(tree.value), outputs))
    value[:, output] = tree.value[:, 0]
    return Tree(**{**vars(tree), "value": value})


def _in_turn(trees: list[Tree], outputs: int) -> list[Tree]:
    """Trees with one output, the first for the first of several outputs, the next for the next, and so on."""
    return [_for_output(tree, i % outputs, outputs) for i, tree in enumerate(trees)]


def _sklearn_histograms(model: Any) -> TreeModel:
    categorical = model.is_categorical_
    reordered = getattr(model, "_preprocessor", None) is not None  # categories come first
    order = None if not reordered else np.concatenate((np.flatnonzero(categorical), np.flatnonzero(~categorical)))

    def read() -> list[Tree]:
        known, place = model._bin_mapper.make_known_categories_bitsets()
        trees = [_of_histograms(tree, known, place) for row in model._predictors for tree in row]
        return _in_turn(trees, len(model._predictors[0]))

    def columns(rows: Any) -> FloatArray:
        return np.asarray(model._preprocess_X(rows, reset=False), dtype=np.float64)

    # predict of a Poisson model, say, is a function of the sum
    return TreeModel(read, columns, _decision(model, "_raw_predict"), order=order)


def _of_histograms(tree: Any, known: Any, place: Any) -> Tree:
    nodes, categories = tree.nodes, {}
    leaf = nodes["is_leaf"].astype(np.bool_)
    for node in np.flatnonzero(nodes["is_categorical"] & ~leaf):
        listed = _codes(tree.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        every = _codes(known[place[nodes["feature_idx"][node]]])
        unknown_left = bool(nodes["missing_go_to_left"][node])  # unknown codes go where missing values go
        categories[int(node)] = (np.setdiff1d(every, listed), False) if unknown_left else (listed, True)
    left, right = (np.where(leaf, -1, nodes[name].astype(np.int64)) for name in ("left", "right"))
    missing_left = nodes["missing_go_to_left"].astype(np.bool_)
    value = nodes["value"][:, None]
    return Tree(left, right, nodes["feature_idx"], nodes["num_threshold"], missing_left, value, categories)


def _codes(words: Any) -> IntArray:
    """The numbers of the bits that are set in words of 32 bits."""
    return np.flatnonzero(np.unpackbits(np.asarray(words, dtype="<u4").view(np.uint8), bitorder="little"))


# XGBoost


def _xgboost(model: Any) -> TreeModel:
    import xgboost

    wrapped = hasattr(model, "get_booster")
    booster = model.get_booster() if wrapped else model
    missing = float(model.missing) if wrapped else np.nan
    stopped = getattr(booster, "best_iteration", None) if wrapped else None
    if stopped is not None:  # by early stopping; a Booster by itself uses all trees
        booster = booster[: stopped + 1]
    content = json.loads(booster.save_raw("json"))["learner"]
    if content["gradient_booster"]["name"] == "gblinear":
        raise UnreadableTrees("it has no trees")
    kinds, stored = booster.feature_types or [], categories_of_xgboost(content)
    categorical = [j for j, kind in enumerate(kinds) if kind == "c"]

    def matrix(rows: Any) -> Any:
        named = isinstance(rows, pd.DataFrame)
        names, types = (None, None) if named else (booster.feature_names, booster.feature_types)
        return xgboost.DMatrix(rows, missing=missing, feature_names=names, feature_types=types, enable_categorical=True)

    def columns(rows: Any) -> FloatArray:
        if isinstance(rows, pd.DataFrame):
            known = {j: stored[j] if j < len(stored) else None for j in categorical}
            rows = _with_codes(rows, known, as_xgboost_reads)
        found = _single(_numbers(rows, np.nan))
        return np.where(found == np.float32(missing), np.nan, found)

    def total(rows: Any) -> FloatArray:
        return _two_dimensional(booster.predict(matrix(rows), output_margin=True))

    def contributions(rows: Any) -> FloatArray:
        found = np.asarray(booster.predict(matrix(rows), pred_contribs=True), dtype=np.float64)
        return found.reshape(len(found), -1, found.shape[-1]).swapaxes(1, 2)

    return TreeModel(lambda: _read_xgboost(content), columns, total, contributions)


def _with_codes(frame: pd.DataFrame, categories: dict[int, Any], spell: Any = pd.Index) -> pd.DataFrame:
    """The frame with codes in place of categories, ``spell``ed like those given; its own codes for None."""
    changed = {}
    for j, known in categories.items():
        column = frame.iloc[:, j]
        if isinstance(column.dtype, pd.CategoricalDtype):
            own = column.cat.categories
            place = np.arange(len(own)) if known is None else pd.Index(known).get_indexer(spell(own))
            codes = np.append(place, -1)[column.cat.codes]  # a missing value has the code -1
            changed[frame.columns[j]] = np.where(codes >= 0, codes, np.nan)
    return frame.assign(**changed) if changed else frame


def _read_xgboost(content: dict[str, Any]) -> list[Tree]:
    booster = content["gradient_booster"]
    dropped = booster.get("weight_drop")
    model = booster.get("gbtree", booster)["model"]
    outputs = max(1, int(content["learner_model_param"]["num_class"]))
    found = []
    for i, (tree, output) in enumerate(zip(model["trees"], model["tree_info"], strict=True)):
        if int(tree["tree_param"]["size_leaf_vector"]) > 1:
            raise UnreadableTrees("a leaf of its trees has several values")
        found.append(_for_output(_of_xgboost(tree, 1.0 if dropped is None else dropped[i]), output, outputs))
    return found


def _of_xgboost(tree: dict[str, Any], weight: float) -> Tree:
    left, right, column = (
        np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children", "split_indices")
    )
    condition = np.array(tree["split_conditions"], dtype=np.float32)
    codes, categories = np.array(tree["categories"], dtype=np.int64), {}
    for node, start, size in zip(
        tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
    ):
        categories[node] = codes[start : start + size], False
    below = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)  # XGBoost asks x < t
    missing_left = np.array(tree["default_left"], dtype=np.bool_)
    return Tree(left, right, column, below, missing_left, weight * condition[:, None].astype(np.float64), categories)


# LightGBM


def _lightgbm(model: Any) -> TreeModel:
    booster = getattr(model, "booster_", model)
    head, *trees = booster.model_to_string().partition("\nend of trees")[0].split("\nTree=")
    parsed = [dict(line.partition("=")[::2] for line in tree.splitlines()[1:]) for tree in trees]
    if any(tree.get("is_linear", "0") != "0" for tree in parsed):
        raise UnreadableTrees("its leaves hold linear models")
    kinds: dict[int, int] = {}  # how each column's missing values are coded: 0 not at all, 1 as zeros, 2 as NaN
    for tree in parsed:
        columns_of_tree, decisions = (_words(tree, name, np.int64) for name in ("split_feature", "decision_type"))
        numeric = decisions & 1 == 0
        kinds.update(zip(columns_of_tree[numeric].tolist(), (decisions[numeric] >> 2).tolist(), strict=True))

    per_round = int(head.partition("num_tree_per_iteration=")[2].split()[0])
    # a forest's answer is an average, but LightGBM adds up its raw scores and contributions
    weight = per_round / len(trees) if "\naverage_output" in head else 1.0

    def columns(rows: Any) -> FloatArray:
        if isinstance(rows, pd.DataFrame):
            places = [j for j, kind in enumerate(rows.dtypes) if isinstance(kind, pd.CategoricalDtype)]
            rows = _with_codes(rows, dict(zip(places, booster.pandas_categorical or [], strict=False)))
        found = _numbers(rows).copy()
        for j, kind in kinds.items():
            if kind < 2:
                zero = np.isnan(found[:, j]) | (np.abs(found[:, j]) <= _LEAST_OF_LIGHTGBM)
                found[zero, j] = 0.0 if kind == 0 else np.nan
        return found

    def read() -> list[Tree]:
        return _in_turn([_of_lightgbm(tree, weight) for tree in parsed], per_round)

    def total(rows: Any) -> FloatArray:
        return weight * _two_dimensional(model.predict(rows, raw_score=True))

    def contributions(rows: Any) -> FloatArray:
        found = model.predict(rows, pred_contrib=True)
        found = weight * _two_dimensional(found.toarray() if hasattr(found, "toarray") else found)
        return found.reshape(len(found), -1, booster.num_feature() + 1).swapaxes(1, 2)

    return TreeModel(read, columns, total, contributions)


def _words(tree: dict[str, str], name: str, kind: Any) -> Any:
    return np.array(tree.get(name, "").split(), dtype=kind)


def _of_lightgbm(tree: dict[str, str], weight: float) -> Tree:
    leaf_value = _words(tree, "leaf_value", np.float64)
    column, decision = (_words(tree, name, np.int64) for name in ("split_feature", "decision_type"))
    n, leaves = len(column), np.full(len(leaf_value), -1)
    left, right = (
        np.concatenate((np.where(child < 0, n + ~child, child), leaves))
        for child in (_words(tree, name, np.int64) for name in ("left_child", "right_child"))
    )
    threshold = _words(tree, "threshold", np.float64)
    starts, bits = (
        _words(tree, name, kind) for name, kind in (("cat_boundaries", np.int64), ("cat_threshold", np.uint32))
    )
    categories = {}
    for node in np.flatnonzero(decision & 1).tolist():
        i = int(threshold[node])
        categories[node] = _codes(bits[starts[i] : starts[i + 1]]), True
    missing_left = (decision & 3) == 2  # by default to the left, and not a split on categories
    blank = np.zeros(len(leaves))
    value = np.concatenate((np.zeros(n), weight * leaf_value))[:, None]
    return Tree(
        left, right, np.concatenate((column, leaves)), np.concatenate((threshold, blank)),
        np.concatenate((missing_left, blank.astype(np.bool_))), value, categories,
    )  # fmt: skip


# CatBoost


def _catboost(model: Any) -> TreeModel:
    import catboost

    def total(rows: Any) -> FloatArray:
        return _two_dimensional(model.predict(rows, prediction_type="RawFormulaVal"))

    def contributions(rows: Any) -> FloatArray:
        kinds = ("cat", "text", "embedding")
        places = {f"{kind}_features": getattr(model, f"get_{kind}_feature_indices")() for kind in kinds}
        found = model.get_feature_importance(catboost.Pool(rows, **places), type="ShapValues")
        return np.asarray(found).reshape(len(found), -1, found.shape[-1]).swapaxes(1, 2)

    return TreeModel(lambda: _read_catboost(model), lambda rows: _single(_numbers(rows)), total, contributions)


def _read_catboost(model: Any) -> list[Tree]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        content = json.loads(path.read_text())
    inputs = content["features_info"].get("float_features", [])
    columns = [each["flat_feature_index"] for each in inputs]
    right = [each["nan_value_treatment"] == "AsTrue" for each in inputs]
    scale = content["scale_and_bias"][0]
    found = []
    for tree in content.get("oblivious_trees", content.get("trees", [])):
        nodes: list[tuple[int, int, int, float, bool, Any]] = []
        _add_catboost(nodes, _symmetric(tree) if "splits" in tree else tree, columns, right)
        *of_nodes, value = zip(*nodes, strict=True)
        left, to_right, column, threshold, missing_left = map(np.array, of_nodes)
        width = max(np.size(each) for each in value)
        values = np.array([np.broadcast_to(each, width) for each in value], dtype=np.float64)
        found.append(Tree(left, to_right, column, threshold, missing_left, scale * values))
    return found


def _symmetric(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree whose nodes of one level have the same split, as nested nodes."""
    splits = tree["splits"] or []
    leaves = np.reshape(tree["leaf_values"], (1 << len(splits), -1))

    def node(level: int, leaf: int) -> dict[str, Any]:
        if level < 0:
            return {"value": leaves[leaf]}
        left, right = node(level - 1, leaf), node(level - 1, leaf | 1 << level)
        return {"split": splits[level], "left": left, "right": right}

    return node(len(splits) - 1, 0)


def _add_catboost(nodes: list[Any], node: dict[str, Any], columns: list[int], right: list[bool]) -> int:
    """Append a nested node and all below it; the number of the node."""
    number = len(nodes)
    split = node.get("split")
    if split is None:
        nodes.append((-1, -1, -1, 0.0, False, node["value"]))
        return number
    if split["split_type"] != "FloatFeature":
        raise UnreadableTrees("it splits on statistics of categories")
    nodes.append(None)
    i = split["float_feature_index"]
    children = [_add_catboost(nodes, node[side], columns, right) for side in ("left", "right")]
    nodes[number] = (*children, columns[i], float(np.float32(split["border"])), not right[i], 0.0)
    return number


_READERS: dict[tuple[str, str], Callable[[Any], TreeModel]] = {
    **{("sklearn", kind): _sklearn_forest for kind in ("DecisionTree", "ExtraTree", "ExtraTrees", "RandomForest")},
    ("sklearn", "GradientBoosting"): _sklearn_boosting,
    ("sklearn", "HistGradientBoosting"): _sklearn_histograms,
    ("xgboost", "Booster"): _xgboost,
    ("xgboost", "XGB"): _xgboost,
    ("lightgbm", "Booster"): _lightgbm,
    ("lightgbm", "LGBM"): _lightgbm,
    ("catboost", "CatBoost"): _catboost,
}
