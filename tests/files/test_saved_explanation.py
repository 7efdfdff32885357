"""Explanations as files."""

import numpy as np
import pytest

from archive_helpers import read_tree, write_tree
from explanation_helpers import explanation
from gpec import Explanation
from gpec.errors import CorruptFileError, InputError
from gpec.intervals.rules import SimilarRows

ARRAYS = ("values", "model_variance", "noise_variance", "explainer_variance", "base_values", "data")


def assert_same(a, b):
    for name in ARRAYS:
        first, second = getattr(a, name), getattr(b, name)
        if first is None:
            assert second is None, name
            continue
        assert first.shape == second.shape, name
        assert first.dtype == second.dtype, name
        assert first.tobytes() == second.tobytes() if first.dtype != object else (first == second).all(), name
    for name in ("feature_names", "output_names", "confidence_level", "diagnostics", "axes"):
        assert getattr(a, name) == getattr(b, name), name


@pytest.mark.parametrize(
    "e",
    [
        explanation(),
        explanation(classes=4, confidence_level=0.8),
        explanation(explainer_variance=None, base_values=None),
        explanation()[2],
        explanation(classes=4)[:, "age", "other"],
        explanation(classes=4)[1, "age", "other"],
        explanation()[[]],
        explanation(data=np.array([["red", 1.5, True]] * 5, dtype=object)),
        explanation(data=np.array([["red", 1.5, True]] * 5, dtype=object))[0, "age"],
        explanation(data=np.array([["red", 1.5, True]] * 5, dtype=object))[[]],
        explanation(classes=4, data=np.array([["red", 1.5, None]] * 5, dtype=object))[:, ["bmi", "age"]],
        explanation(data=np.array([["é", "b", "c"]] * 5)),
    ],
    ids=range(12),
)
def test_save_and_load(tmp_path, e):
    e.save(tmp_path / "e.gpec")
    assert_same(e, Explanation.load(tmp_path / "e.gpec"))


def test_load_of_a_fitted_explanation(tmp_path, make, X):
    e = make().fit(X).explain(X[:3])
    e.save(str(tmp_path / "e.gpec"))
    loaded = Explanation.load(str(tmp_path / "e.gpec"))
    assert_same(e, loaded)
    assert (loaded.lower == e.lower).all()


def test_load_of_another_kind(tmp_path, make, X):
    make().fit(X).save(tmp_path / "g.gpec")
    with pytest.raises(InputError, match="holds a saved GPEC, not a saved Explanation"):
        Explanation.load(tmp_path / "g.gpec")


CHANGES = {
    "no axes": lambda tree: tree.pop("axes"),
    "no values": lambda tree: tree.pop("values"),
    "a number for axes": lambda tree: tree.update(axes=3),
    "something more": lambda tree: tree.update(surprise=1),
    "too little data": lambda tree: tree.update(data=["a"]),
    "texts for values": lambda tree: tree.update(data=["a"], values="b"),
    "no rule": lambda tree: tree.pop("rule"),
    "a rule without a promise": lambda tree: tree.update(rule={}),
    "a text for a rule": lambda tree: tree.update(rule="latent"),
    "a list for a promise": lambda tree: tree.update(rule={"promise": ["latent"]}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_load_of_a_file_that_lacks_a_part(tmp_path, change):
    path = tmp_path / "e.gpec"
    explanation().save(path)
    tree = read_tree(path, "Explanation")
    CHANGES[change](tree)
    write_tree(path, "Explanation", tree)
    with pytest.raises(CorruptFileError, match="Explanation"):
        Explanation.load(path)


def test_unknown_promise(tmp_path):
    path = tmp_path / "e.gpec"
    explanation().save(path)
    tree = read_tree(path, "Explanation")
    assert tree["rule"] == {"kind": "latent"}
    tree["rule"]["kind"] = "certainty"
    write_tree(path, "Explanation", tree)
    with pytest.raises(CorruptFileError, match="'certainty'"):
        Explanation.load(path)


def test_a_rule_without_similar_rows(tmp_path):
    path = tmp_path / "e"
    nothing = np.empty((5, 3, 0))
    explanation(rule=SimilarRows(nothing, nothing, None, "near")).save(path)
    with pytest.raises(CorruptFileError, match=r"Explanation\.rule has no similar rows"):
        Explanation.load(path)


def test_more_memory_than_allowed(tmp_path):
    explanation().save(tmp_path / "e")
    with pytest.raises(InputError, match=r"e takes .* of memory, more than the 1e-06 GB allowed; .*max_bytes="):
        Explanation.load(tmp_path / "e", max_bytes=1000)
