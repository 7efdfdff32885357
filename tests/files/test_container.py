"""The file format: arrays and JSON, whole or not at all, never code."""

import io
import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pytest

import gpec
from gpec import Explanation
from gpec.errors import CorruptFileError, InputError
from gpec.runtime import archive as files
from gpec.runtime.fingerprint import fingerprint

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
    files.write(tmp_path / "file", "Test", TREE)
    assert_equal(files.read(tmp_path / "file", "Test"), TREE)


def test_numpy_scalars_become_numbers(tmp_path):
    files.write(tmp_path / "file", "Test", {"a": np.float64(0.1), "b": np.int64(3), "c": np.bool_(True)})
    assert files.read(tmp_path / "file", "Test") == {"a": 0.1, "b": 3, "c": True}


def test_tuples_become_lists(tmp_path):
    files.write(tmp_path / "file", "Test", {"a": (1, 2)})
    assert files.read(tmp_path / "file", "Test") == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([["red", 1.5], [None, True]], dtype=object), [["red", 1.5], [None, True]]),
        (np.array("red", dtype=object), "red"),
        (np.array(1.5, dtype=object), 1.5),
    ],
)
def test_object_arrays_are_lists_never_pickles(tmp_path, array, expected):
    files.write(tmp_path / "file", "Test", {"a": array})
    assert files.read(tmp_path / "file", "Test") == {"a": expected}
    with zipfile.ZipFile(io.BytesIO((tmp_path / "file").read_bytes()[files._HEADER :])) as archive:
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
        files.write(tmp_path / "file", "Test", {"deep": [value]})
    assert os.listdir(tmp_path) == []


def sealed(members):
    """A file with the right checksum and these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    body = buffer.getvalue()
    return files._MAGIC + fingerprint(body).encode() + b"\n" + body


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
        files.read(tmp_path / "file", "Test")
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
        files.read(tmp_path / "file", "Test")


def test_header_that_runs_code_is_refused(tmp_path):
    member = npy(np.arange(3))
    evil = member.replace(b"'descr': '<i8'", b"'descr': exit()")
    assert evil != member
    (tmp_path / "file").write_bytes(sealed({"tree.json": document({"dict": {}}), "a0.npy": evil}))
    with pytest.raises(CorruptFileError, match="damaged"):
        files.read(tmp_path / "file", "Test")


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("array", [np.zeros((100, 100)), np.arange(9_000), RNG.integers(17, size=9_000).astype(float)])
def test_what_repeats_itself_is_packed(tmp_path, array):
    files.write(tmp_path / "file", "Test", {"a": array})
    assert (tmp_path / "file").stat().st_size < 0.35 * array.nbytes


def members(path):
    return zipfile.ZipFile(io.BytesIO(path.read_bytes()[files._HEADER :])).infolist()


def test_an_array_in_two_places_is_one_array(tmp_path):
    one, other = RNG.normal(size=30), np.arange(12)
    files.write(tmp_path / "file", "Test", {"a": one, "b": [one, other], "c": other})
    assert len(members(tmp_path / "file")) == 3
    found = files.read(tmp_path / "file", "Test")
    assert found["a"] is found["b"][0]
    assert found["c"] is found["b"][1]
    files.write(tmp_path / "again", "Test", found)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_file_does_not_tell_when_it_was_written(tmp_path):
    files.write(tmp_path / "file", "Test", {"a": np.arange(3), "b": 1})
    assert {member.date_time for member in members(tmp_path / "file")} == {(1980, 1, 1, 0, 0, 0)}


def test_a_file_of_an_earlier_version(tmp_path):
    (tmp_path / "file").write_bytes(b"gpec archive 2 " + b"0" * 64 + b"\nPK")
    with pytest.raises(CorruptFileError, match="file is a file of another version of gpec; save it again with this"):
        files.read(tmp_path / "file", "Test")


def test_other_kind(tmp_path):
    files.write(tmp_path / "file", "Explanation", {})
    with pytest.raises(InputError, match=r"file holds a saved Explanation, not a saved GPEC"):
        files.read(tmp_path / "file", "GPEC")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        files.read(tmp_path / "none", "GPEC")


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match=r"none[/\\]file: the folder .*none does not exist"):
        files.write(tmp_path / "none" / "file", "Test", {})


# 1,000 damaged files


@pytest.fixture(scope="module")
def small_archives(tmp_path_factory):
    """Three small files: a tree, an explanation, a fitted GPEC."""
    folder = tmp_path_factory.mktemp("archives")
    files.write(folder / "tree", "Test", {"a": np.arange(4.0), "b": ["x", 1]})
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
    "tree": lambda path: files.read(path, "Test"),
    "explanation": Explanation.load,
    "gpec": lambda path: gpec.GPEC.load(path, model=lambda X: X[:, 0] > 0, explainer=lambda X: X),
}


DAMAGED = "file is (damaged: its checksum|a file of another version|not a file of gpec)"


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
        with pytest.raises(CorruptFileError, match=DAMAGED):
            READERS[name](path)
        refused += 1


def test_every_single_bit_of_the_header_counts(small_archives, tmp_path):
    content = (small_archives / "tree").read_bytes()
    path = tmp_path / "file"
    for position in range(files._HEADER + 4):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(CorruptFileError, match=DAMAGED):
                files.read(path, "Test")


@pytest.mark.parametrize("content", [b"", b"gpec", files._MAGIC, files._MAGIC + b"0" * 32, b"PK\x03\x04" * 50])
def test_files_that_are_something_else(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CorruptFileError, match="file"):
        files.read(tmp_path / "file", "Test")


# Whole or not at all


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt("Ctrl-C")])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failed_write_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "file"
    files.write(path, "Test", {"a": 1})

    def fail(*arguments):
        raise error

    monkeypatch.setattr(files.os, step, fail)
    with pytest.raises(type(error), match=str(error)):
        files.write(path, "Test", {"a": np.arange(1000.0)})
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["file"]
    assert files.read(path, "Test") == {"a": 1}


def test_failed_first_write_leaves_nothing(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        files.write(tmp_path / "file", "Test", {"a": 1})
    assert os.listdir(tmp_path) == []


def test_the_name_appears_only_when_all_is_written(tmp_path, monkeypatch):
    path, seen = tmp_path / "file", []
    real = os.fsync

    def look(descriptor):
        seen.append((path.exists(), len(os.listdir(tmp_path))))
        real(descriptor)

    monkeypatch.setattr(files.os, "fsync", look)
    files.write(path, "Test", {"a": 1})
    assert seen == [(False, 1)]
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_file_can_be_shared(tmp_path):
    mask = os.umask(0o022)
    try:
        files.write(tmp_path / "file", "Test", {})
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
