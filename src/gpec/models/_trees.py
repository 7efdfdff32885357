"""Whether the trees of XGBoost and LightGBM are trees: where they are not, prediction reads beyond their memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from gpec.errors import CorruptFileError
from gpec.models._booster_calls import is_booster
from gpec.typing import IntArray


def check_trees(model: Any) -> None:
    """Raise a CorruptFileError if a Booster's trees name nodes, columns, categories or classes that do not exist."""
    if is_booster(model, "xgboost"):
        _of_xgboost(json.loads(model.save_raw("json"))["learner"])
    elif is_booster(model, "lightgbm"):
        _of_lightgbm(model.model_to_string())


def _of_xgboost(learner: dict[str, Any]) -> None:
    shape, booster = learner["learner_model_param"], learner["gradient_booster"]
    n_features, n_outputs = int(shape["num_feature"]), max(int(shape["num_class"]), 1) * int(shape["num_target"])
    model = booster.get("gbtree", booster)["model"]
    if "weights" in model:  # linear
        _require(len(model["weights"]) == (n_features + 1) * n_outputs)
        return
    n_trees = len(model["trees"])
    steps = np.array(model["iteration_indptr"])
    _require(len(model["tree_info"]) == n_trees == len(booster.get("weight_drop", model["trees"])))
    _require(steps[0] == 0 and steps[-1] == n_trees and (np.diff(steps) >= 0).all())
    _require_below(n_outputs, np.array(model["tree_info"]))
    for tree in model["trees"]:
        left, right = (np.array(tree[name], dtype=np.int64) for name in ("left_children", "right_children"))
        inner = left != -1
        children = np.concatenate((left[inner], right[inner]))
        _require(len(np.unique(children)) == len(children) and (children != 0).all())
        _require_below(len(left), children)
        # leaves with a value for each output have their number in place of the right child
        _require(int(tree["tree_param"]["size_leaf_vector"]) in (0, 1, n_outputs))
        _require_below(len(tree.get("leaf_weights", ())) // n_outputs + 1, right[~inner] + 1)
        _require_below(n_features, np.array(tree["split_indices"])[inner])
        starts, sizes = (np.array(tree[f"categories_{name}"], dtype=np.int64) for name in ("segments", "sizes"))
        by_category = np.flatnonzero(np.array(tree["split_type"])[inner] == 1)
        _require(np.isin(np.flatnonzero(inner)[by_category], tree["categories_nodes"]).all())
        _require(len(starts) == len(sizes) and (np.concatenate((starts, sizes)) >= 0).all())
        _require_below(len(tree["categories"]) + 1, starts + sizes)


def _of_lightgbm(text: str) -> None:
    parts = text.partition("\nend of trees")[0].split("\nTree=")
    head, *trees = (dict(line.split("=", 1) for line in part.splitlines() if "=" in line) for part in parts)
    n_features, n_classes = int(head["max_feature_idx"]) + 1, int(head["num_class"])
    stated = [int(word[10:]) for word in head.get("objective", "").split() if word.startswith("num_class:")]
    _require({n_classes, int(head["num_tree_per_iteration"]), *stated} == {n_classes} and len(trees) % n_classes == 0)
    for tree in trees:
        n = int(tree["num_leaves"])
        left, right, columns = (_numbers(tree, name) for name in ("left_child", "right_child", "split_feature"))
        # each leaf, and each inner node but the root, is the child of one node
        _require(n == 1 or sorted([*left, *right]) == [*range(-n, 0), *range(1, n - 1)])
        _require_below(n_features, columns, _numbers(tree, "leaf_features"))
        edges, by_category = _numbers(tree, "cat_boundaries"), _numbers(tree, "decision_type") % 2 == 1
        _require_below(int(tree["num_cat"]), _numbers(tree, "threshold", np.float64)[by_category])
        _require(not len(edges) or (edges[0] == 0 and (np.diff(edges) >= 0).all()))
        _require_below(len(_numbers(tree, "cat_threshold")) + 1, edges)


def _numbers(tree: dict[str, str], name: str, dtype: Any = np.int64) -> IntArray:
    return np.array(tree.get(name, "").split(), dtype=dtype)


def _require_below(bound: int, *numbers: IntArray) -> None:
    _require(all(((found >= 0) & (found < bound)).all() for found in numbers))


def _require(right: Any) -> None:
    if not right:
        raise CorruptFileError("The trees name nodes, columns, categories or classes that do not exist.")
