"""Archives: arrays and JSON, whole or not at all, never code."""

import hashlib
import io
import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import gpec
from gpec import Explanation, storage
from gpec.errors import CorruptFileError, GPECError, InputError, ModelCallError, ModelMismatchError, ParameterTypeError
from gpec.kernels import EG, RBF, WEG

TREE = {
    "none": None,
    "text": "é\ud800",  # half a character, as broken text has it
    "number": 3,
    "large": 2**80,
    "float": 0.1,
    "nan": float("nan"),
    "infinite": float("inf"),
    "true": True,
    "empty": {},
    "list": [1, [2.5, "x", None], {"deep": [np.arange(3)]}],
    "an array stands here": {"array": "a0", "dict": 1},
    "matrix": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "empty array": np.empty((0, 4)),
    "scalar array": np.array(2.5),
    "ints": np.array([1, -2], dtype=np.int32),
    "flags": np.array([True, False]),
    "texts": np.array(["a", "bc"]),
    "float32": np.array([0.1], dtype=np.float32),
}


def assert_equal(found, expected):
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for key, value in expected.items():
            assert_equal(found[key], value)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_equal(a, b)
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    elif isinstance(expected, float) and np.isnan(expected):
        assert np.isnan(found)
    else:
        assert type(found) is type(expected)
        assert found == expected


def test_round_trip(tmp_path):
    storage.write(tmp_path / "file", "Test", TREE)
    assert_equal(storage.read(tmp_path / "file", "Test"), TREE)


def test_numpy_scalars_become_numbers(tmp_path):
    storage.write(tmp_path / "file", "Test", {"a": np.float64(0.1), "b": np.int64(3), "c": np.bool_(True)})
    assert storage.read(tmp_path / "file", "Test") == {"a": 0.1, "b": 3, "c": True}


def test_tuples_become_lists(tmp_path):
    storage.write(tmp_path / "file", "Test", {"a": (1, 2)})
    assert storage.read(tmp_path / "file", "Test") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([["red", 1.5], [None, True]], dtype=object), [["red", 1.5], [None, True]]),
        (np.array("red", dtype=object), "red"),
        (np.array(1.5, dtype=object), 1.5),
    ],
)
def test_object_arrays_are_lists_never_pickles(tmp_path, array, expected):
    storage.write(tmp_path / "file", "Test", {"a": array})
    assert storage.read(tmp_path / "file", "Test") == {"a": expected}
    with zipfile.ZipFile(io.BytesIO((tmp_path / "file").read_bytes()[storage._HEADER :])) as archive:
        assert archive.namelist() == ["tree.json"]


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", 1j, np.array([1j]), np.array(["2020"], dtype="M8[D]"), len, lambda X: X]
)
def test_values_that_cannot_be_saved(tmp_path, value):
    with pytest.raises(InputError, match="Cannot save a value of type"):
        storage.write(tmp_path / "file", "Test", {"deep": [value]})
    assert os.listdir(tmp_path) == []


def sealed(members):
    """A file with the right checksum and these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    body = buffer.getvalue()
    return storage._MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def huge():
    """The header of an array of 80 TB, and no content."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    return buffer.getvalue()


def npy(array, **options):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def document(tree, **changes):
    return json.dumps({"kind": "Test", "tree": tree, **changes})


def test_pickles_in_a_file_are_not_run(tmp_path):
    trace = tmp_path / "trace"
    evil = np.array([Evil(trace)], dtype=object)
    pickle.dumps(evil)  # it could be stored
    content = sealed({"tree.json": document({"dict": {"a": {"array": "a0"}}}), "a0.npy": npy(evil, allow_pickle=True)})
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CorruptFileError, match="damaged"):
        storage.read(tmp_path / "file", "Test")
    assert not trace.exists()


GARBLED = {
    "nothing": {},
    "no document": {"a0.npy": npy(np.arange(3))},
    "no json": {"tree.json": b"\xff{"},
    "deep json": {"tree.json": "[" * 100_000},
    "no kind": {"tree.json": "{}"},
    "a list for a document": {"tree.json": "[1]"},
    "a list for a tree": {"tree.json": document([1, 2])},
    "a number for a tree": {"tree.json": document(3)},
    "a text for a tree": {"tree.json": document("ab")},
    "no array": {"tree.json": document({"dict": {"a": {"array": "a9"}}})},
    "a list for an array": {"tree.json": document({"dict": {"a": {"array": [1]}}})},
    "an unknown mark": {"tree.json": document({"dict": {"a": {"code": "1"}}})},
    "a list for a dict": {"tree.json": document({"dict": [1]})},
    "half an array": {"tree.json": document({"dict": {}}), "a0.npy": npy(np.arange(9))[:-5]},
    "an array of nothing": {"tree.json": document({"dict": {}}), "a0.npy": b""},
    "a huge array": {"tree.json": document({"dict": {}}), "a0.npy": huge()},
}


@pytest.mark.parametrize("case", GARBLED)
def test_garbled_content_under_a_right_checksum(tmp_path, case):
    (tmp_path / "file").write_bytes(sealed(GARBLED[case]))
    with pytest.raises(CorruptFileError, match="file"):
        storage.read(tmp_path / "file", "Test")


def test_header_that_runs_code_is_refused(tmp_path):
    member = npy(np.arange(3))
    evil = member.replace(b"'descr': '<i8'", b"'descr': exit()")
    assert evil != member
    (tmp_path / "file").write_bytes(sealed({"tree.json": document({"dict": {}}), "a0.npy": evil}))
    with pytest.raises(CorruptFileError, match="damaged"):
        storage.read(tmp_path / "file", "Test")


def test_other_kind(tmp_path):
    storage.write(tmp_path / "file", "Explanation", {})
    with pytest.raises(InputError, match=r"file holds a saved Explanation, not a saved GPEC"):
        storage.read(tmp_path / "file", "GPEC")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.read(tmp_path / "none", "GPEC")


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match=r"none[/\\]file: the folder .*none does not exist"):
        storage.write(tmp_path / "none" / "file", "Test", {})


# 1,000 damaged files


@pytest.fixture(scope="module")
def small_archives(tmp_path_factory):
    """Three small files: a tree, an explanation, a fitted GPEC."""
    folder = tmp_path_factory.mktemp("archives")
    storage.write(folder / "tree", "Test", {"a": np.arange(4.0), "b": ["x", 1]})
    rng = np.random.default_rng(0)
    values, data = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    Explanation(values, values**2, values**2, None, None, data, ["a", "b"], "1").save(folder / "explanation")
    X = rng.normal(size=(40, 2))
    gpec.GPEC(lambda X: X[:, 0] > 0, lambda X: X, n_boundary=10, n_explained=4, random_state=0).fit(X).save(
        folder / "gpec"
    )
    return folder


def damage(content, rng):
    """One of: flipped bits, overwritten stretch, cut, something left out, something added."""
    how = rng.integers(5)
    content = bytearray(content)
    at = int(rng.integers(len(content)))
    if how == 0:
        for _ in range(int(rng.integers(1, 4))):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif how == 1:
        stretch = rng.bytes(int(rng.integers(1, 40)))
        content[at : at + len(stretch)] = stretch
    elif how == 2:
        del content[at:]
    elif how == 3:
        del content[at : at + int(rng.integers(1, 40))]
    else:
        content[at:at] = rng.bytes(int(rng.integers(1, 40)))
    return bytes(content)


READERS = {
    "tree": lambda path: storage.read(path, "Test"),
    "explanation": Explanation.load,
    "gpec": lambda path: gpec.GPEC.load(path, model=lambda X: X[:, 0] > 0, explainer=lambda X: X),
}


@pytest.mark.parametrize(("name", "count"), [("tree", 400), ("explanation", 300), ("gpec", 300)])
def test_damaged_files(small_archives, tmp_path, name, count):
    content = (small_archives / name).read_bytes()
    READERS[name](small_archives / name)  # undamaged it can be read
    rng = np.random.default_rng(7)
    path = tmp_path / "file"
    refused = 0
    while refused < count:
        damaged = damage(content, rng)
        if damaged == content:
            continue
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            READERS[name](path)
        refused += 1


def test_every_single_bit_of_the_header_counts(small_archives, tmp_path):
    content = (small_archives / "tree").read_bytes()
    path = tmp_path / "file"
    for position in range(storage._HEADER + 4):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CorruptFileError):
                storage.read(path, "Test")


@pytest.mark.parametrize("content", [b"", b"gpec", storage._MAGIC, storage._MAGIC + b"0" * 64, b"PK\x03\x04" * 50])
def test_files_that_are_something_else(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CorruptFileError, match="file"):
        storage.read(tmp_path / "file", "Test")


# Whole or not at all


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "file"
    storage.write(path, "Test", {"a": 1})

    def fail(*arguments):
        raise error

    monkeypatch.setattr(storage.os, step, fail)
    with pytest.raises(type(error)):
        storage.write(path, "Test", {"a": np.arange(1000.0)})
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["file"]
    assert storage.read(path, "Test") == {"a": 1}


def test_failed_first_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(storage.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        storage.write(tmp_path / "file", "Test", {"a": 1})
    assert os.listdir(tmp_path) == []


def test_the_name_appears_only_when_all_is_written(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    real = os.fsync

    def look(descriptor):
        seen.append((path.exists(), len(os.listdir(tmp_path))))
        real(descriptor)

    monkeypatch.setattr(storage.os, "fsync", look)
    storage.write(path, "Test", {"a": 1})
    assert seen == [(False, 1)]
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_file_can_be_shared(tmp_path):
    mask = os.umask(0o022)
    try:
        storage.write(tmp_path / "file", "Test", {})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


# A fitted GPEC as a file


def assert_same_answers(g, loaded, X):
    for options in ({}, {"attribution": "posterior"}, {"confidence_level": 0.5}):
        a, b = g.explain(X, **options), loaded.explain(X, **options)
        for name in ("values", "boundary_variance", "noise_variance", "lower", "upper"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), (options, name)
        for name in ("explainer_variance", "base_values"):
            first, second = getattr(a, name), getattr(b, name)
            assert (first is None) == (second is None)
            assert first is None or first.tobytes() == second.tobytes()
        assert a.feature_names == b.feature_names
        assert a.output_names == b.output_names
        assert (np.asarray(a.data) == np.asarray(b.data)).all()


KERNELS = {
    "weg": "weg",
    "rbf": "rbf",
    "EG": EG(lam=0.7),
    "WEG": WEG(0.5, 2.0, normalize=False),
    "sum": 0.5 * WEG() + 0.5 * RBF(),
    "product": WEG(rho=1.0) * RBF(2.0),
    "nested": (WEG() + RBF()) * (0.3 * EG() + RBF(3.0)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_round_trip_is_bit_identical(tmp_path, make, models, X, kernel, classes):
    if classes == 2:
        model, explainer = models.curved, models.slopes
    else:
        model, explainer = models.three_classes, models.slopes_of_three
    g = make(model, explainer, kernel=KERNELS[kernel]).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=model, explainer=explainer)
    assert_same_answers(g, loaded, X[:9])
    if classes == 2:
        loaded.fit(X)  # the kernel's parameters came along
        assert_same_answers(g, loaded, X[:4])


NOISES = {
    "number": 0.01,
    "numpy number": np.float32(0.01),
    "one for each feature": [0.0, 0.1, 0.2],
    "one for each attribution": np.random.default_rng(0).random((25, 3)),
    "none": "none",
    "resample": "resample",
}


@pytest.mark.parametrize("noise", NOISES)
def test_round_trip_with_noise(tmp_path, make, X, noise):
    g = make(noise=NOISES[noise], n_resamples=3).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert_same_answers(g, loaded, X[:5])
    assert (loaded.attributions_.variance == g.attributions_.variance).all()
    np.testing.assert_array_equal(loaded.noise, g.noise)
    assert loaded.fit(X).explain(X[:5]).variance.tobytes() == g.explain(X[:5]).variance.tobytes()


def test_round_trip_of_given_attributions_and_variance(tmp_path, make, models, X):
    few = X[:20]
    variance = np.random.default_rng(0).random(few.shape)
    g = make(explainer=None).fit(X, X_explained=few, attributions=models.slopes(few), attribution_variance=variance)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model)
    a, b = (part.explain(X[:5], attribution="posterior") for part in (g, loaded))
    assert a.values.tobytes() == b.values.tobytes()
    assert a.variance.tobytes() == b.variance.tobytes()
    with pytest.raises(InputError, match="There is no explainer"):
        loaded.explain(X[:5])


def lengths(frame):
    """Attributions of any frame: the lengths of its texts, and its numbers."""
    return np.column_stack([frame[name].map(lambda v: float(len(str(v)))) for name in frame.columns])


@pytest.mark.parametrize("categorical_features", ["auto", ["colour"], [True, False, False, False, False]])
def test_round_trip_of_a_mixed_frame(tmp_path, make, mixed, categorical_features):
    g = make(mixed.model, lengths, categorical_features=categorical_features).fit(mixed.frame)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=mixed.model, explainer=lengths)
    assert_same_answers(g, loaded, mixed.frame[:4])
    assert_same_answers(g, loaded, mixed.frame[:4][["weight", "new", "colour", "price", "size"]])
    pd.testing.assert_frame_equal(loaded.X_explained_, g.X_explained_)
    assert loaded.feature_names_in_.tolist() == list(mixed.frame.columns)
    assert loaded.classes_.tolist() == ["no", "yes"]
    again = loaded.fit(mixed.frame).explain(mixed.frame[:4])
    assert again.variance.tobytes() == g.explain(mixed.frame[:4]).variance.tobytes()


def test_round_trip_of_an_explainer_by_name(tmp_path, make, X):
    g = make(explainer="kernelshap", n_explained=5).fit(X)
    g.save(tmp_path / "g")
    assert_same_answers(g, gpec.GPEC.load(tmp_path / "g", model=g.model), X[:3])


@pytest.mark.parametrize("labels", [[0, 1, 2], [("a", 1), ("a", 2), ("b", 1)], ["x", 5, 2.5]])
def test_round_trip_of_column_labels_that_are_no_texts(tmp_path, make, X, labels):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(labels)
    g = make().fit(frame)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert_same_answers(g, loaded, frame[:4])
    assert list(loaded.X_explained_.columns) == labels


def test_what_is_loaded(tmp_path, make, X):
    g = make(lam=0.5, n_jobs=2, background=X[:7], random_state=np.random.default_rng(5)).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert loaded.diagnostics_ == g.diagnostics_
    assert loaded.n_features_in_ == 3
    assert not hasattr(loaded, "feature_names_in_")
    assert loaded.random_state == g.diagnostics_["seed"]
    np.testing.assert_array_equal(loaded.background, X[:7])
    for name in ("points", "direction", "residual", "label", "switched", "switched_to"):
        assert getattr(loaded.boundary_, name).tobytes() == getattr(g.boundary_, name).tobytes(), name
    assert loaded.boundary_.n_model_rows == g.boundary_.n_model_rows
    assert loaded.graph_.distances.tobytes() == g.graph_.distances.tobytes()
    assert loaded.posterior_.condition == g.posterior_.condition
    kept = {"model", "explainer", "kernel", "lam", "rho", "n_boundary", "n_neighbors", "noise", "n_jobs", "threshold"}
    for name in kept:
        assert loaded.get_params(deep=False)[name] == g.get_params(deep=False)[name], name
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "g").read_bytes()


def test_loading_calls_the_model_for_a_few_rows_only(tmp_path, make, models, counting, X):
    make().fit(X).save(tmp_path / "g")
    model = counting(models.curved)
    gpec.GPEC.load(tmp_path / "g", model=model, explainer=models.slopes)
    assert model.n_calls == 1
    assert model.n_rows <= 25


def test_wrong_model(tmp_path, make, models, X):
    make().fit(X).save(tmp_path / "g")
    for model in (lambda X: 1 - models.curved(X), lambda X: np.clip(models.curved(X) + 1e-3, 0, 1)):
        with pytest.raises(ModelMismatchError, match=r"not the one that was fitted: its answers to 20 stored rows"):
            gpec.GPEC.load(tmp_path / "g", model=model)
    with pytest.raises(ModelMismatchError, match="in its number of classes"):
        gpec.GPEC.load(tmp_path / "g", model=models.three_classes)


def test_model_of_other_columns(tmp_path, make, X):
    make().fit(X).save(tmp_path / "g")
    other = LogisticRegression().fit(X[:, :2], X[:, 0] > 0)
    with pytest.raises(ModelCallError, match="2 features") as error:
        gpec.GPEC.load(tmp_path / "g", model=other)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("model", [None, 3, "model", LogisticRegression])
def test_no_model(tmp_path, make, X, model):
    make().fit(X).save(tmp_path / "g")
    with pytest.raises(ParameterTypeError, match="model"):
        gpec.GPEC.load(tmp_path / "g", model=model)


def test_unknown_explainer(tmp_path, make, models, X):
    make().fit(X).save(tmp_path / "g")
    with pytest.raises(InputError, match="explainer='nonsense'"):
        gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer="nonsense")


def test_explainer_of_another_kind_may_be_given(tmp_path, make, models, X):
    g = make().fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=lambda X: 7.0 * models.slopes(X))
    np.testing.assert_array_equal(loaded.explain(X[:3]).values, 7.0 * models.slopes(X[:3]))
    assert loaded.explain(X[:3]).variance.tobytes() == g.explain(X[:3]).variance.tobytes()


def test_save_before_fit(tmp_path, make):
    with pytest.raises(gpec.errors.NotFittedError, match="call fit"):
        make().save(tmp_path / "g")
    assert os.listdir(tmp_path) == []


def test_kernel_of_ones_own_cannot_be_saved(tmp_path, make, X):
    class Own(RBF):
        pass

    g = make(kernel=Own()).fit(X)
    with pytest.raises(InputError, match="kernel of the class Own cannot be saved"):
        g.save(tmp_path / "g")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("part", ["table", "layers", "explained", "attributions", "noise", "seed", "probe", "boundary"])
@pytest.mark.parametrize("how", ["lacks", "garbles"])
def test_archive_that_lacks_a_part(tmp_path, make, models, X, part, how):
    make().fit(X).save(tmp_path / "g")
    tree = storage.read(tmp_path / "g", "GPEC")
    if how == "lacks":
        del tree[part]
    else:
        tree[part] = "garbled"
    storage.write(tmp_path / "g", "GPEC", tree)
    with pytest.raises(GPECError) as error:
        gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=models.slopes)
    assert isinstance(error.value, CorruptFileError)
