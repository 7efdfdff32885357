"""The one hash: equal for equal content, and only for that."""

import numpy as np
import pandas as pd
import pytest

from archive_helpers import digest, tree_through_file
from gpec.boundary import BisectionSampler
from gpec.explainers import Attribution, Explainer

FRAME = pd.DataFrame({"a": [1.5, np.nan], "b": ["x", None], "c": pd.Categorical(["u", "v"])})

DIFFERENT = [
    None,
    0,
    0.0,
    False,
    "0",
    b"0",
    [],
    [[]],
    {},
    [0],
    [0, 0],
    [[0], 0],
    {"a": 0},
    {"0": "a"},
    {"a": "b", "c": "d"},
    {"a": "b", "d": "c"},
    np.zeros(2),
    np.zeros((2, 1)),
    np.zeros(2, dtype=np.float32),
    np.array(["a", None], dtype=object),
    FRAME,
    FRAME.assign(a=[1.5, 0.0]),
    FRAME.assign(b=["x", "y"]),
    FRAME.rename(columns={"a": "d"}),
    FRAME.astype({"c": str}),
    BisectionSampler(),
    BisectionSampler(tolerance=1e-5),
    BisectionSampler,
    np.ndarray,
    abs,
]


def test_other_content_other_digest():
    assert len({digest(part) for part in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2), [1, 2]),
        (np.float64(0.1), 0.1),
        (np.array(["a", None], dtype=object), ["a", None]),
        (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)),
        (pd.Series([1.0, 2.0]), np.array([1.0, 2.0])),
        (FRAME, FRAME.copy()),
        (BisectionSampler(), BisectionSampler()),
        ({1: "a"}, {"1": "a"}),
    ],
)
def test_equal_content(one, other):
    assert digest(one) == digest(other)


def test_a_tree_and_what_a_file_keeps_of_it():
    tree = {"a": (1, [np.arange(3), np.float32(0.5)]), "b": np.array([["x", 1], [None, 2.5]], dtype=object)}
    assert digest(tree_through_file(tree)) == digest(tree)


class Mine(Explainer):
    """One of a user's own, with a function of theirs."""

    def __init__(self, function):
        self.function = function

    def _explain(self, Z, seeds):
        return Attribution(self.function(Z))


def test_objects_of_others_count_by_identity_or_by_name():
    def function(Z):
        return Z

    first = function

    def function(Z):
        return 2 * Z

    assert digest(Mine(first)) == digest(Mine(first))
    assert digest(Mine(first)) != digest(Mine(function))
    assert digest(Mine(first), lasting=True) == digest(Mine(function), lasting=True)
    assert digest(Mine(first), lasting=True) != digest(Mine(abs), lasting=True)
