"""Objects as trees of arrays, numbers and texts, and back: what is declared is what is checked."""

import re
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from explanation_helpers import explanation
from gpec import Explanation
from gpec.errors import CorruptFileError, InputError
from gpec.intervals.conformal import ConformityScores
from gpec.intervals.rules import SimilarRows
from gpec.runtime.state import MAY_BE_MISSING, NOT_STORED, Limits, OneOf, Shape, Tagged, from_state, to_state
from gpec.typing import BoolArray, FloatArray, IntArray


@dataclass
class Part:
    weights: Annotated[FloatArray, Shape("n", "column"), Limits(least=0)]
    words: tuple[str, ...]
    owner: Annotated[str, NOT_STORED] = "nobody"


class Method(Tagged, tag="kind"):
    pass


@dataclass
class Exact(Method):
    kind = "exact"
    share: Annotated[float, Limits(0, 1, strict=True)]


@dataclass
class Whole:
    owner: str
    rows: Annotated[FloatArray, Shape("n", "column"), MAY_BE_MISSING]
    count: Annotated[IntArray, Shape("n")]
    seen: BoolArray
    parts: tuple[Part, ...]
    table: dict[int, float]
    colour: Annotated[str, OneOf("red", "blue")] | None
    on: bool
    n: Annotated[int, Limits(least=1)]
    method: Method


def whole():
    part = Part(np.ones((3, 2)), ("a", "b"))
    return Whole(
        "me",
        np.array([[1, np.nan]]),
        np.array([4]),
        np.array([True]),
        (part, part),
        {3: 0.5},
        "red",
        True,
        2,
        Exact(0.5),
    )


def test_there_and_back():
    before = whole()
    state = to_state(before)
    assert state["method"] == {"kind": "exact", "share": 0.5}
    assert set(state["parts"][0]) == {"weights", "words"}
    after = from_state(Whole, {**state, "parts": list(state["parts"]), "table": {"3": 0.5}, "colour": None})
    assert (after.table, after.colour, after.parts[0].words) == ({3: 0.5}, None, ("a", "b"))
    assert after.parts[1].owner == "me"  # of the object around it
    assert after.rows is before.rows  # no copy
    assert from_state(Part, to_state(before.parts[0])).owner == "nobody"


FAULTS = {
    "missing field": (lambda s: s.pop("n"), "Whole.n is missing"),
    "unknown field": (lambda s: s.update(more=1), "Whole.more is unknown"),
    "a field that is not stored": (lambda s: s["parts"][0].update(owner="x"), "Whole.parts.0.owner is unknown"),
    "dtype": (
        lambda s: s.update(count=np.ones(1)),
        "Whole.count is an array of float64, but must be an array of int64",
    ),
    "text for an array": (lambda s: s.update(seen="no"), "Whole.seen is 'no', but must be an array of bool"),
    "infinite": (lambda s: s.update(rows=np.array([[1, np.inf]])), "Whole.rows has numbers that are infinite"),
    "not finite": (
        lambda s: s["parts"][0].update(weights=np.full((3, 2), np.nan)),
        "Whole.parts.0.weights has numbers that are not finite",
    ),
    "negative": (
        lambda s: s["parts"][1].update(weights=-np.ones((3, 2))),
        "Whole.parts.1.weights is from -1 to -1, but must be at least 0",
    ),
    "axes": (lambda s: s.update(rows=np.ones(1)), "Whole.rows has shape (1,), but must have the axes (n, column)"),
    "size within an object": (
        lambda s: s.update(count=np.array([1, 2])),
        "Whole.count has shape (2,), but the size of the axis 'n' is 1 elsewhere",
    ),
    "size within the file": (
        lambda s: s["parts"][0].update(weights=np.ones((3, 5))),
        "Whole.parts.0.weights has shape (3, 5), but the size of the axis 'column' is 2 elsewhere",
    ),
    "word": (lambda s: s.update(colour="green"), "Whole.colour is 'green', but must be one of 'red', 'blue'"),
    "number for a truth": (lambda s: s.update(on=1), "Whole.on is 1, but must be true or false"),
    "truth for a number": (lambda s: s.update(n=True), "Whole.n is True, but must be a whole number"),
    "too small": (lambda s: s.update(n=0), "Whole.n is 0, but must be at least 1"),
    "text for a list": (lambda s: s["parts"][0].update(words="ab"), "Whole.parts.0.words is 'ab', but must be a list"),
    "key": (
        lambda s: s.update(table={"x": 1.0}),
        "Whole.table cannot be read: ValueError(\"invalid literal for int() with base 10: 'x'\")",
    ),
    "nan": (lambda s: s.update(table={"1": np.nan}), "Whole.table.1 is nan, but must be a finite number"),
    "edge": (
        lambda s: s["method"].update(share=1.0),
        "Whole.method.share is 1.0, but must be greater than 0 and less than 1",
    ),
    "text for an object": (
        lambda s: s.update(method="exact"),
        "Whole.method is 'exact', but must be a table of fields",
    ),
    "no tag": (lambda s: s["method"].pop("kind"), "Whole.method is of the unknown kind None"),
    "unknown tag": (
        lambda s: s["method"].update(kind="rough"),
        "Whole.method is of the unknown kind 'rough'; import the module that defines it",
    ),
    "list for a tag": (lambda s: s["method"].update(kind=["exact"]), "Whole.method is of the unknown kind ['exact']"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_not_as_declared_is_named(fault):
    state = to_state(whole())
    change, message = FAULTS[fault]
    change(state)
    with pytest.raises(CorruptFileError, match=f"^{re.escape(message)}"):
        from_state(Whole, state)


def test_what_a_file_cannot_name_or_hold_is_refused():
    class Nameless(Exact):
        pass

    class Closed(Method):
        kind = "closed"

        def __init__(self, x):
            self.x = x

    with pytest.raises(InputError, match="Nameless has no kind of its own"):
        to_state(Nameless(0.5))
    with pytest.raises(InputError, match="Closed has an __init__ of its own; a file can hold it if it is a dataclass"):
        to_state(Closed(3))


def similar_rows(shape):
    scores = ConformityScores(np.ones((30, *shape[1:])), np.ones(30), fresh=True)
    return SimilarRows(np.zeros((*shape, 2)), np.ones((*shape, 2)), scores, "a twin")


PARTS = {
    "confidence_level": 1.0,
    "values": np.full((5, 3), np.nan),
    "noise_variance": -np.ones((5, 3)),
    "explainer_variance": np.ones((5, 2)),
    "base_values": np.ones((5, 1)),
    "data": np.ones((4, 3)),
    "feature_names": ["one"],
    "output_names": ["one", "two"],
    "row_names": np.array(["a"]),
    "axes": ("row", "column"),
    "predictions": np.ones(4),
    "rule": similar_rows((5, 4)),
    "diagnostics": "none",
}


@pytest.mark.parametrize("part", PARTS)
def test_an_explanation_whose_parts_do_not_fit_is_not_loaded(tmp_path, part):
    explanation(rule=similar_rows((5, 3))).save(tmp_path / "e")
    assert Explanation.load(tmp_path / "e").rule.phrase == "a twin"
    explanation(**{"rule": similar_rows((5, 3)), part: PARTS[part]}).save(tmp_path / "e")
    with pytest.raises(CorruptFileError, match=rf"e: Explanation\.{part}"):
        Explanation.load(tmp_path / "e")


@pytest.mark.parametrize("cut", [0, (0, 1), (slice(None), 1), (slice(2), slice(2), 1), (0, 0, 0)], ids=str)
def test_parts_of_an_explanation_are_loaded(tmp_path, cut):
    e = explanation(classes=4, rule=similar_rows((5, 3, 4)))[cut]
    e.save(tmp_path / "e")
    assert Explanation.load(tmp_path / "e").lower.tobytes() == e.lower.tobytes()
