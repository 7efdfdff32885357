"""Alters archives, each variant with a valid checksum, and says what comes of opening them.

``python altered_archives.py FOLDER VARIANTS`` reads the files of :func:`write_files` in one folder, then those of
:func:`write_variants` in another, and prints a line of JSON for each variant: a program, whose memory can be measured.
"""

import copy
import importlib.util
import json
import math
import resource
import signal
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

import gpec
from archive_helpers import opened, sealed
from gpec.app import make_app
from gpec.errors import GPECError
from gpec.kernels import WEG

MAX_BYTES = 10**7
NAMES = ["explanation", "texts", "fit", "paper"]
ROWS = np.random.default_rng(0).normal(size=(60, 3))
FRESH = np.random.default_rng(1).normal(size=(40, 3))
ODD = [None, True, -1, 0, 1, 3, 1e308, -1e308, math.nan, math.inf, 2**70, "", "auto", "x" * 1000, [], [1], {"dict": {}}]
TYPES = ["|b1", "|i1", "|u1", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8", "<U2", "object", "list"]


def model(X):
    return 1 / (1 + np.exp(-X[:, 0] - X[:, 1] ** 2 + 1))


def explainer(X):
    return np.column_stack((X[:, 0], X[:, 1] ** 2, 0 * X[:, 2]))


def write_files(folder):
    """The files that are altered."""
    common = {"n_boundary": 20, "random_state": 0, "progress": False}
    g = gpec.GPEC(model, explainer, n_explained=30, **common).fit(ROWS).calibrate(FRESH)
    g.save(folder / "fit")
    e = g.explain(ROWS[:5])
    e.save(folder / "explanation")
    names = np.array([f"row {i}, [{i}]" for i in range(5)], dtype=object)
    data = np.array([[f"a{i}", 1.5 * i, None] for i in range(5)], dtype=object)
    replace(e, data=data, row_names=names).save(folder / "texts")
    paper = gpec.GPEC(model, explainer, n_explained=10, kernel=0.5 * WEG(), similar=None, **common)
    paper.fit(ROWS).save(folder / "paper")


def use(path, name):
    """Read a file, and do with it what a user does."""
    if name in ("fit", "paper"):
        g = gpec.GPEC.load(path, model=model, explainer=explainer, max_bytes=MAX_BYTES)
        e = g.explain(ROWS[:3], attribution="posterior")
    else:
        e = gpec.Explanation.load(path, max_bytes=MAX_BYTES)
        e.to_frame()
    lower, upper = e.interval()
    assert np.isfinite(e.values).all()
    assert (e.variance >= 0).all()
    assert (lower <= upper).all()
    e.statement()
    repr(e)
    if importlib.util.find_spec("dash"):
        make_app([path])


# Changes: each takes the header, the content of each array and a generator


def places(tree):
    """All (container, key) in a tree."""
    inside = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    return [place for key, value in inside for place in ((tree, key), *places(value))]


def any_place(header, rng):
    found = places(header["tree"])
    return found[rng.integers(len(found))]


def odd_value(header, contents, rng):
    container, key = any_place(header, rng)
    container[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])


def other_value(header, contents, rng):
    (one, a), (other, b) = any_place(header, rng), any_place(header, rng)
    one[a] = copy.deepcopy(other[b])


def missing(header, contents, rng):
    container, key = any_place(header, rng)
    del container[key]


def unknown(header, contents, rng):
    dicts = [c[k] for c, k in places(header["tree"]) if k == "dict"]
    dicts[rng.integers(len(dicts))][["more", "", "fit", "__class__", "lam_"][rng.integers(5)]] = 1


def deeper(header, contents, rng):
    container, key = any_place(header, rng)
    for _ in range([10, 90, 200, 400][rng.integers(4)]):
        container[key] = [container[key]] if rng.random() < 0.5 else {"dict": {"a": container[key]}}


def many_values(header, contents, rng):
    container, key = any_place(header, rng)
    container[key] = [[]] * int(10 ** rng.uniform(2, 6))


def number_changed(header, contents, rng):
    container, key = any_place(header, rng)
    if isinstance(container[key], (int, float)):
        container[key] = container[key] * [-1, 0, 2, 1e6, 0.5][rng.integers(5)]


def doubled_references(header, contents, rng):
    refers = [(c, k) for c, k in places(header["tree"]) if k == "array"]
    (one, a), (other, b) = (refers[rng.integers(len(refers))] for _ in range(2))
    one[a] = other[b]
    del header["arrays"][len(header["arrays"]) if rng.random() < 0.7 else -1 :]


def line_changed(header, contents, rng):
    line = header["arrays"][rng.integers(len(header["arrays"]))]
    line[rng.integers(4)] = [*ODD, [10**9, 10**9], 10**15, "F", [0, 10**40], "<U999999"][rng.integers(len(ODD) + 5)]


def retyped(header, contents, rng):
    line = header["arrays"][rng.integers(len(header["arrays"]))]
    line[0] = TYPES[rng.integers(len(TYPES))]


def array_of(header, contents, i):
    dtype, shape, order, _ = header["arrays"][i]
    if dtype in ("list", "object"):
        return None
    return np.frombuffer(contents[i], dtype=dtype).reshape(shape, order=order)


def set_array(header, contents, i, array):
    contents[i] = np.ascontiguousarray(array).tobytes()
    header["arrays"][i] = [array.dtype.str, list(array.shape), "C", len(contents[i])]


def reshaped(header, contents, rng):
    i = int(rng.integers(len(contents)))
    array = array_of(header, contents, i)
    if array is not None and array.ndim:
        n, axis = array.shape[0], int(rng.integers(array.ndim))
        how = rng.integers(5)
        new = [array[: n // 2], np.concatenate((array, array)), array.ravel(), array[None], np.swapaxes(array, 0, axis)]
        set_array(header, contents, i, new[how])


def converted(header, contents, rng):
    i = int(rng.integers(len(contents)))
    array = array_of(header, contents, i)
    if array is not None:
        with np.errstate(all="ignore"):
            set_array(header, contents, i, array.astype(TYPES[rng.integers(10)]))


def numbers_changed(header, contents, rng):
    i = int(rng.integers(len(contents)))
    array = array_of(header, contents, i)
    if array is None or not array.size:
        return
    array = array.copy()
    some = rng.random(array.shape) < [0.05, 1.0][rng.integers(2)]
    if array.dtype.kind == "f":
        array[some] = [np.nan, np.inf, -1.0, 0.0, 1e308, -1e308, 1e-308, 7.0][rng.integers(8)]
    elif array.dtype.kind in "iu":
        array[some] = [0, 1, 2**31, 2**62, len(array), len(array) - 1][rng.integers(6)]
        array = -array if rng.random() < 0.2 else array
    else:
        array = array[::-1]
    set_array(header, contents, i, array)


def shuffled(header, contents, rng):
    i = int(rng.integers(len(contents)))
    array = array_of(header, contents, i)
    if array is not None and array.ndim:
        set_array(header, contents, i, rng.permutation(array))


def more_rows(header, contents, rng):
    """All arrays with a size that another has too grow by the same factor: sizes still fit each other."""
    arrays = [array_of(header, contents, i) for i in range(len(contents))]
    sizes = sorted({size for array in arrays if array is not None for size in array.shape})
    size, factor = sizes[rng.integers(len(sizes))], int([0, 2, 30][rng.integers(3)])
    total = sum(array.nbytes * factor for array in arrays if array is not None and size in array.shape)
    if total > 3 * 10**7:
        return
    for i, array in enumerate(arrays):
        if array is not None and size in array.shape:
            set_array(header, contents, i, np.repeat(array, factor, axis=array.shape.index(size)))


def huge(header, contents, rng):
    line = header["arrays"][rng.integers(len(header["arrays"]))]
    if isinstance(line[1], list) and line[0] not in ("list", "object"):
        line[1] = [int(10 ** rng.uniform(4, 18)), *line[1][1:]]
        line[3] = math.prod(line[1]) * np.dtype(line[0]).itemsize


def bomb(header, contents, rng):
    i = int(rng.integers(len(contents)))
    n = int(10 ** rng.uniform(5, 7.5))
    kind = ["|i1", "|u1", "<f8", "<f4", "<U9"][rng.integers(5)]
    set_array(header, contents, i, np.zeros(max(1, n // np.dtype(kind).itemsize), dtype=kind))


def more_content(header, contents, rng):
    i = int(rng.integers(len(contents)))
    contents[i] = contents[i][: len(contents[i]) // 2] if rng.random() < 0.5 else contents[i] + bytes(10**6)


CHANGES = [
    odd_value, other_value, missing, unknown, deeper, many_values, number_changed, doubled_references, line_changed,
    retyped, reshaped, converted, numbers_changed, shuffled, more_rows, huge, bomb, more_content,
]  # fmt: skip


def altered(content, rng):
    """A variant, and the names of the changes."""
    header, packed = opened(content)
    contents, start = [], 0
    for line in header["arrays"]:
        contents.append(packed[start : start + line[3]])
        start += line[3]
    names = []
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        change = CHANGES[rng.integers(len(CHANGES))]
        names.append(change.__name__)
        try:
            change(header, contents, rng)
        except Exception:  # a change that the ones before have made impossible
            names[-1] += " (not)"
    return sealed(json.dumps(header).encode(), b"".join(contents)), names


def _too_long(*_):
    raise TimeoutError("more than 60 seconds")


def outcome(path, name):
    start = time.process_time()
    signal.alarm(60)
    try:
        use(path, name)
        result = "read"
    except GPECError as error:
        result = "refused"
        if len(str(error)) > 1500:
            result = f"a message of {len(str(error))} characters: {str(error)[:200]}"
    except Exception as error:
        result = f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.alarm(0)
    return result, time.process_time() - start


def peak():
    """Greatest memory of this process since it was set back, where that can be done; in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the process that started this one had
        return next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def set_peak_back():
    """Let :func:`peak` begin with the memory of this moment."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def write_variants(folder, seed, count):
    """Altered files in a folder of their own, which is returned; their names tell what they are."""
    rng, variants = np.random.default_rng(seed), folder / f"variants-{seed}"
    variants.mkdir()
    for i in range(count):
        name = NAMES[rng.integers(len(NAMES))]
        content, changes = altered((folder / name).read_bytes(), rng)
        (variants / f"{i:04} {name} {', '.join(changes)}").write_bytes(content)
    return variants


def main(folder, variants):
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    for name in NAMES:  # what is done once only, such as imports
        assert outcome(folder / name, name)[0] == "read"
    usual = {name: max(outcome(folder / name, name)[1] for _ in range(3)) for name in NAMES}
    set_peak_back()
    base = peak()
    resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, resource.getrlimit(resource.RLIMIT_AS)[1]))  # a MemoryError
    for path in sorted(variants.iterdir()):
        name = path.name.split()[1]
        set_peak_back()
        result, seconds = outcome(path, name)
        line = {"file": path.name, "result": result, "seconds": seconds, "usual": usual[name], "grown": peak() - base}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
