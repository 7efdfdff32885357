"""Arrays that are used again."""

import threading

import numpy as np

from gpec._spare import spare

N = 20_000


def test_memory_of_an_array_that_nobody_holds_is_used_again():
    first = spare(N)
    place = first.ctypes.data
    del first
    assert spare(100, N // 100).ctypes.data == place


def test_what_somebody_holds_is_never_given_to_another():
    rng = np.random.default_rng(0)
    held, sums = [], []
    for i in range(300):
        array = spare(int(rng.integers(10_000, 40_000)))
        array[:] = i
        kept = (array, array[5:], array.reshape(-1, 1).T)[i % 3]  # a view holds it as well
        del array
        held.append(kept)
        sums.append(i)
        if len(held) > 7:
            drop = int(rng.integers(len(held)))
            held.pop(drop)
            sums.pop(drop)
        for one, value in zip(held, sums, strict=True):
            assert one.min() == one.max() == value


def test_threads_have_arrays_of_their_own():
    place, there = spare(N).ctypes.data, []
    thread = threading.Thread(target=lambda: there.append(spare(N)))
    thread.start()
    thread.join()
    assert there[0].ctypes.data != place


def test_small_and_very_large_arrays_are_not_kept():
    for n in (100, 300_000):
        first = spare(n)
        assert first.base is None
