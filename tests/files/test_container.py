"""The file format: arrays and JSON, whole or not at all, never code."""

import os
import stat
import threading

import numpy as np
import pytest

import gpec
from archive_helpers import document, opened, resealed, sealed
from gpec import Explanation
from gpec.errors import CorruptFileError, InputError
from gpec.runtime import archive as files

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
    "big endian": np.array([1.5, 2.5], dtype=">f8").astype("<f8"),
    "cut": np.arange(12.0).reshape(3, 4)[:, 1:3],
    "long list": ["a,b", "[c]", "{d}", 'e"\\\n', "é\ud800", None, True, 2**80, 0.1, float("inf")] * 20,
    "no text": np.array([], dtype="<U1"),
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
    "array",
    [
        np.array([["red", 1.5], [None, True]], dtype=object),
        np.array("red", dtype=object),
        np.array(1.5, dtype=object),
        np.empty((0, 3), dtype=object),
    ],
)
def test_object_arrays_are_json_never_pickles(tmp_path, array):
    files.write(tmp_path / "file", "Test", {"a": array})
    found = files.read(tmp_path / "file", "Test")["a"]
    assert (found.dtype, found.shape, found.tolist()) == (object, array.shape, array.tolist())
    assert opened((tmp_path / "file").read_bytes())[0]["arrays"][0][0] == "object"


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", 1j, np.array([1j]), np.array(["2020"], dtype="M8[D]"), len, lambda X: X]
)
def test_values_that_cannot_be_saved(tmp_path, value):
    with pytest.raises(InputError, match="Cannot save a value of type"):
        files.write(tmp_path / "file", "Test", {"deep": [value]})
    assert os.listdir(tmp_path) == []


def write_ones(path, n, **changes):
    """A small file that takes much memory."""
    line = {"dtype": "<f8", "shape": [n], "order": "C", "n_bytes": 8 * n, **changes}
    path.write_bytes(sealed(document({"dict": {"a": {"array": 0}}}, [line.values()]), np.ones(n).tobytes()))


def tree_of(*numbers):
    return {"dict": {f"a{i}": {"array": number} for i, number in enumerate(numbers)}}


TWO = ["<f8", [2], "C", 16]
GARBLED = {
    "nothing": (b"",),
    "no json": (b"\xff{",),
    "deep json": (b"[" * 100_000,),
    "deep dicts": (b'{"kind":"Test","arrays":[],"tree":' + b'{"dict":{"a":' * 120 + b"1" + b"}}" * 120 + b"}",),
    "a huge number": (b'{"kind":"Test","arrays":[],"tree":{"dict":{"a":' + b"9" * 10_000 + b"}}}",),
    "no kind": ({},),
    "more": ({**document({"dict": {}}), "more": 1},),
    "a list for a document": ([1],),
    "a list for a tree": (document([1, 2]),),
    "a number for a tree": (document(3),),
    "a text for a tree": (document("ab"),),
    "no array": (document(tree_of(9)),),
    "a list for an array": (document({"dict": {"a": {"array": [1]}}}),),
    "true for an array": (document({"dict": {"a": {"array": True}}}, [TWO, TWO]), bytes(32)),
    "a negative array": (document(tree_of(-1), [TWO]), bytes(16)),
    "an unknown word": (document({"dict": {"a": {"code": "1"}}}),),
    "two words": (document({"dict": {}, "array": 0}, [TWO]), bytes(16)),
    "a list for a dict": (document({"dict": [1]}),),
    "an array that nothing refers to": (document(tree_of(0), [TWO, TWO]), bytes(32)),
    "half an array": (document(tree_of(0), [TWO]), bytes(15)),
    "more than the array": (document(tree_of(0), [TWO]), bytes(17)),
    "much more than the array": (document(tree_of(0), [TWO]), bytes(10**7)),
    "another size than the shape": (document(tree_of(0), [["<f8", [3], "C", 16]]), bytes(16)),
    "a negative size": (document(tree_of(0), [["<f8", [-2], "C", -16]]),),
    "sizes that are no numbers": (document(tree_of(0), [["<f8", [2.0], "C", 16]]), bytes(16)),
    "no shape": (document(tree_of(0), [["<f8", 2, "C", 16]]), bytes(16)),
    "many axes": (document(tree_of(0), [["<f8", [1] * 33, "C", 8]]), bytes(8)),
    "nothing, hugely": (document(tree_of(0), [["<f8", [0, 10**30], "C", 0]]),),
    "pickles": (document(tree_of(0), [["|O", [1], "C", 8]]), bytes(8)),
    "a record": (document(tree_of(0), [[[["a", "<f8"]], [1], "C", 8]]), bytes(8)),
    "an expression for a type": (document(tree_of(0), [["<f8,exit()", [1], "C", 8]]), bytes(8)),
    "texts of endless length": (document(tree_of(0), [["<U99999999999", [0], "C", 0]]),),
    "an unknown order": (document(tree_of(0), [["<f8", [2], "A", 16]]), bytes(16)),
    "a line too short": (document(tree_of(0), [["<f8", [2], "C"]]), bytes(16)),
    "a half truth": (document(tree_of(0), [["|b1", [2], "C", 2]]), b"\x01\x02"),
    "no such character": (document(tree_of(0), [["<U1", [1], "C", 4]]), b"\xff" * 4),
    "a list that is longer": (document(tree_of(0), [["list", [2], "C", 7]]), b"[1,2,3]"),
    "a list that is shorter": (document(tree_of(0), [["list", [4], "C", 7]]), b"[1,2,3]"),
    "a list of lists": (document(tree_of(0), [["list", [2], "C", 7]]), b"[[],[]]"),
    "a dict for a list": (document(tree_of(0), [["list", [1], "C", 2]]), b"{}"),
    "a text for a list": (document(tree_of(0), [["list", [1], "C", 3]]), b'"["'),
    "a list with two axes": (document(tree_of(0), [["list", [1, 1], "C", 3]]), b"[1]"),
}


@pytest.mark.parametrize("case", GARBLED)
def test_garbled_content_under_a_right_checksum(tmp_path, case):
    (tmp_path / "file").write_bytes(sealed(*GARBLED[case]))
    with pytest.raises(CorruptFileError, match="file is damaged: ") as refusal:
        files.read(tmp_path / "file", "Test")
    assert len(str(refusal.value)) < len(str(tmp_path)) + 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff" * 8,
        sealed(document({"dict": {}}), n_packed=10)[files._LINE :],
        sealed(document({"dict": {}}), n_packed=10**6)[files._LINE :],
        sealed(b" " * (files._MOST_HEADER + 1))[files._LINE :],
        sealed(document({"dict": {}}))[files._LINE :] + b"more",
        sealed(document({"dict": {}}))[files._LINE : -2],
    ],
    ids=["nothing", "endless", "short", "long", "large", "more", "less"],
)
def test_parts_of_another_length(tmp_path, body):
    (tmp_path / "file").write_bytes(resealed(body))
    with pytest.raises(CorruptFileError, match="file is damaged: "):
        files.read(tmp_path / "file", "Test")


# What a file takes


def test_a_small_file_that_takes_much_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    write_ones(tmp_path / "file", 10**6)
    assert (tmp_path / "file").stat().st_size < 10**5
    assert files.read(tmp_path / "file", "Test", 9 * 10**6)["a"].sum() == 10**6
    monkeypatch.setattr(files.np, "empty", lambda *_, **__: pytest.fail("memory was taken"))
    message = r"file takes 0\.008\d* GB of memory, more than the 0\.007 GB allowed; .* max_bytes=800\d+ in Python"
    with pytest.raises(InputError, match=message):
        files.read(tmp_path / "file", "Test", 7 * 10**6)


def test_an_array_counts_as_often_as_it_is_referred_to_and_as_large_numbers(tmp_path):
    """Each may be converted to an array of its own of eight bytes a number."""
    line = ["|i1", [10**5], "C", 10**5]
    (tmp_path / "file").write_bytes(sealed(document(tree_of(*[0] * 10), [line]), bytes(10**5)))
    with pytest.raises(InputError, match=r"takes 0\.008\d* GB"):
        files.read(tmp_path / "file", "Test", 7 * 10**6)
    assert len(files.read(tmp_path / "file", "Test")) == 10


def test_values_of_the_header_count(tmp_path):
    (tmp_path / "file").write_bytes(sealed(document({"dict": {"a": [[]] * 10**6}})))
    with pytest.raises(InputError, match=r"takes 0\.32 GB"):
        files.read(tmp_path / "file", "Test", 2 * 10**8)


def test_a_huge_array_without_content(tmp_path):
    (tmp_path / "file").write_bytes(sealed(document(tree_of(0), [["<f8", [10**13], "C", 8 * 10**13]])))
    with pytest.raises(InputError, match=r"file takes 8e\+04 GB of memory, more than the 4 GB allowed"):
        files.read(tmp_path / "file", "Test")
    (tmp_path / "file").write_bytes(sealed(document(tree_of(0), [["<f8", [10**8], "C", 8 * 10**8]])))
    with pytest.raises(CorruptFileError, match="the arrays end too early"):
        files.read(tmp_path / "file", "Test")


def test_too_large_a_header_is_not_written(tmp_path):
    with pytest.raises(InputError, match="too many parts"):
        files.write(tmp_path / "file", "Test", {"a": ["x" * 10**6] * 5})
    assert os.listdir(tmp_path) == []


def test_a_file_larger_than_memory(tmp_path):
    files.write(tmp_path / "file", "Test", {})
    os.truncate(tmp_path / "file", 10**12)  # without content: it takes no space
    with pytest.raises(InputError, match=r"file takes 990 GB of memory, more than the 4 GB allowed"):
        files.read(tmp_path / "file", "Test")


def test_no_memory(tmp_path, monkeypatch):
    files.write(tmp_path / "file", "Test", {"a": np.arange(3)})

    def full(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(files.np, "empty", full)
    with pytest.raises(InputError, match="file takes more memory than there is"):
        files.read(tmp_path / "file", "Test")


def test_a_file_without_permission_is_not_called_damaged(tmp_path, monkeypatch):
    files.write(tmp_path / "file", "Test", {})

    def denied(path, mode):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "open", denied, raising=False)  # root may read every file
    with pytest.raises(InputError, match=r"file cannot be read: Permission denied\.$"):
        files.read(tmp_path / "file", "Test")


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are POSIX")
@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_what_is_no_regular_file(tmp_path, kind):
    path = tmp_path / "file"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    raised = []

    def read():
        try:
            files.read(path, "Test")
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=read, daemon=True)  # a pipe without a writer must not block
    thread.start()
    thread.join(10)
    assert len(raised) == 1
    assert isinstance(raised[0], InputError)
    assert "is a folder, a pipe or a device; give a file that gpec saved" in str(raised[0])


RNG = np.random.default_rng(0)


@pytest.mark.parametrize("array", [np.zeros((100, 100)), np.arange(9_000), RNG.integers(17, size=9_000).astype(float)])
def test_what_repeats_itself_is_packed(tmp_path, array):
    files.write(tmp_path / "file", "Test", {"a": array})
    assert (tmp_path / "file").stat().st_size < 0.35 * array.nbytes


def test_an_array_in_two_places_is_one_array(tmp_path):
    one, other = RNG.normal(size=30), np.arange(12)
    files.write(tmp_path / "file", "Test", {"a": one, "b": [one, other], "c": other})
    assert len(opened((tmp_path / "file").read_bytes())[0]["arrays"]) == 2
    found = files.read(tmp_path / "file", "Test")
    assert found["a"] is found["b"][0]
    assert found["c"] is found["b"][1]
    files.write(tmp_path / "again", "Test", found)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_equal_trees_are_equal_files(tmp_path):
    for name in ("file", "again"):
        files.write(tmp_path / name, "Test", TREE)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_file_of_an_earlier_version(tmp_path):
    (tmp_path / "file").write_bytes(b"gpec archive 3 " + b"0" * 64 + b"\nPK")
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
    for position in range(files._LINE + 4):
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
