"""Arrays are packed without loss: large ones of few digits into half of the space, all of them by zip."""

import io
import zipfile

import numpy as np
import pytest

from gpec import _files

RNG = np.random.default_rng(0)
SINGLE = RNG.normal(size=(300, 50)).astype(np.float32).astype(np.float64)


def members(path):
    return zipfile.ZipFile(io.BytesIO(path.read_bytes()[_files._HEADER :])).infolist()


def there_and_back(path, array):
    _files.write(path, "Test", {"a": array})
    return _files.read(path, "Test")["a"]


@pytest.mark.parametrize(
    "array",
    [
        SINGLE,
        np.asfortranarray(SINGLE),
        SINGLE[::-1, ::2].T.repeat(2, axis=0),
        SINGLE.reshape(30, 10, 50),
        np.where(SINGLE > 1, np.nan, SINGLE),
        np.where(SINGLE > 1, -0.0, np.where(SINGLE < -1, np.inf, SINGLE)),
    ],
    ids=["matrix", "fortran", "strided", "three axes", "missing", "signs and infinities"],
)
def test_doubles_of_few_digits_take_half_of_the_space(tmp_path, array):
    found = there_and_back(tmp_path / "file", array)
    assert found.dtype == np.float64
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()
    assert (tmp_path / "file").stat().st_size < 0.5 * array.nbytes


@pytest.mark.parametrize("size", [9_999, 10_001])
@pytest.mark.parametrize("values", [RNG.normal(size=10_001), np.full(10_001, 1e300), np.full(10_001, 1e-300)])
def test_other_doubles_keep_all_their_digits(tmp_path, values, size):
    assert there_and_back(tmp_path / "file", values[:size]).tobytes() == values[:size].tobytes()


@pytest.mark.parametrize("array", [np.zeros((100, 100)), np.arange(9_000), RNG.integers(17, size=9_000).astype(float)])
def test_what_repeats_itself_is_packed(tmp_path, array):
    assert there_and_back(tmp_path / "file", array).tobytes() == array.tobytes()
    assert (tmp_path / "file").stat().st_size < 0.35 * array.nbytes


def test_an_array_in_two_places_is_one_array(tmp_path):
    exact = RNG.normal(size=30)
    bytes_ = np.arange(12_000).astype(np.uint8)
    _files.write(tmp_path / "file", "Test", {"a": SINGLE, "b": [SINGLE, exact], "c": exact, "d": [bytes_, bytes_]})
    assert len(members(tmp_path / "file")) == 4
    found = _files.read(tmp_path / "file", "Test")
    assert found["a"] is found["b"][0]
    assert found["c"] is found["b"][1]
    assert found["d"][0] is found["d"][1]
    assert found["d"][0].tobytes() == bytes_.tobytes()
    _files.write(tmp_path / "again", "Test", found)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_file_does_not_tell_when_it_was_written(tmp_path):
    _files.write(tmp_path / "file", "Test", {"a": SINGLE, "b": 1})
    assert {member.date_time for member in members(tmp_path / "file")} == {(1980, 1, 1, 0, 0, 0)}
