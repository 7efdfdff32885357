"""Generated tables and models through the whole way: finite numbers, or a typed error in one sentence."""

import os
import traceback
import warnings
import zlib
from collections import Counter
from importlib.util import find_spec

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import gpec
from gpec.errors import GPECError

RUNS = int(os.environ.get("GPEC_TABLES", "50"))  # `make soak` has 5,000
FIRST = int(os.environ.get("GPEC_FIRST_TABLE", "0"))  # its seed; to run one again


def column(kind, n, rng):
    """A column of a kind that users have, some of them strange."""
    values = rng.normal(size=n)
    days = pd.Timestamp("2020") + pd.to_timedelta(rng.integers(0, 500, n), unit="D")
    words = rng.choice(["a", "b", "", "ü=1"], n)
    return {
        "float": lambda: values,
        "float32": lambda: values.astype(np.float32),
        "float16": lambda: values.astype(np.float16),
        "huge": lambda: values * 1e150,
        "tiny": lambda: values * 1e-150,
        "far": lambda: values * 1e-6 + 1e9,
        "int8": lambda: rng.integers(-3, 4, n).astype(np.int8),
        "uint64": lambda: rng.integers(0, 2**63, n).astype(np.uint64),
        "Int64": lambda: pd.array(rng.integers(0, 9, n), dtype="Int64"),
        "Int64 missing": lambda: pd.array(np.where(rng.random(n) < 0.2, None, rng.integers(0, 9, n)), dtype="Int64"),
        "Float64": lambda: pd.array(values, dtype="Float64"),
        "boolean": lambda: pd.array(np.where(rng.random(n) < 0.2, None, values > 0), dtype="boolean"),
        "bool": lambda: values > 0,
        "constant": lambda: np.full(n, 7.0),
        "missing": lambda: np.where(rng.random(n) < 0.3, np.nan, values),
        "all missing": lambda: np.full(n, np.nan),
        "infinite": lambda: np.where(rng.random(n) < 0.05, np.inf, values),
        "category": lambda: pd.Categorical(words),
        "ordered": lambda: pd.Categorical(rng.choice([3, 1, 2], n), categories=[3, 1, 2, 9], ordered=True),
        "texts": lambda: words,
        "texts missing": lambda: np.where(rng.random(n) < 0.2, None, words.astype(object)),
        "dates": lambda: days,
        "dates with zone": lambda: pd.DatetimeIndex(days).tz_localize("Europe/Berlin"),
        "dates missing": lambda: pd.Series(days).where(rng.random(n) < 0.8).to_numpy(),
        "durations": lambda: pd.to_timedelta(rng.integers(0, 9_999, n), unit="s"),
        "periods": lambda: pd.PeriodIndex(days, freq="M"),
        "mixed": lambda: pd.Series([1, "x", 2.5, None, True, (1, 2)], dtype=object)[rng.integers(6, size=n)].to_numpy(),
        "lists": lambda: pd.Series([[1, 2]] * n),
        "complex": lambda: values + 1j,
        "bytes": lambda: np.array([b"a", b"b"], dtype=object)[rng.integers(2, size=n)],
        "arrow float": lambda: pd.array(values, dtype="double[pyarrow]"),
        "arrow int": lambda: pd.array(rng.integers(0, 9, n), dtype="int32[pyarrow]"),
        "arrow bool": lambda: pd.array(values > 0, dtype="bool[pyarrow]"),
        "arrow text": lambda: pd.array(words, dtype="string[pyarrow]"),
        "arrow dates": lambda: pd.array(days, dtype="timestamp[us][pyarrow]"),
    }[kind]()


KINDS = [
    "float", "float32", "float16", "huge", "tiny", "far", "int8", "uint64", "Int64", "Int64 missing", "Float64",
    "boolean", "bool", "constant", "missing", "all missing", "infinite", "category", "ordered", "texts",
    "texts missing", "dates", "dates with zone", "dates missing", "durations", "periods", "mixed", "lists",
    "complex", "bytes", "arrow float", "arrow int", "arrow bool", "arrow text", "arrow dates",
]  # fmt: skip
if find_spec("pyarrow") is None:
    KINDS = [kind for kind in KINDS if not kind.startswith("arrow")]


def _code(value):
    """A number for a text; the same for all marks of a missing value."""
    text = str(value)
    return 0 if text in ("None", "nan", "<NA>", "NaT") else zlib.crc32(text.encode())


def numbers(rows):
    """Any rows as numbers of moderate size, so that any table can have a model."""
    table = pd.DataFrame(rows)
    codes = [np.array([_code(value) for value in table[name].astype(object)]) for name in table.columns]
    real = [pd.to_numeric(table[name].astype(object), errors="coerce").astype(float) for name in table.columns]
    parts = [np.where(np.isnan(r), 0.1 * (c % 7), np.tanh(r)) for r, c in zip(real, codes, strict=True)]
    return np.column_stack(parts)


class Estimator:
    """A model of scikit-learn behind a conversion to numbers."""

    def __init__(self, inner, n_classes, rows, rng):
        X = numbers(rows)
        X = np.concatenate([X, X + 0.1, X - 0.1, X + 0.2])  # enough rows for each class
        target = np.arange(len(X)) % n_classes if n_classes else rng.normal(size=len(X))
        self._inner = inner.fit(X, target)
        if n_classes:
            self.classes_, self.predict_proba = self._inner.classes_, self._probabilities

    def _probabilities(self, X):
        return self._inner.predict_proba(numbers(X))

    def predict(self, X):
        return self._inner.predict(numbers(X))


def model_of(kind, rows, rng):
    """A model, and settings that it needs."""
    d = pd.DataFrame(rows).shape[1]
    slope = rng.normal(size=d)
    if kind == "callable":
        return lambda X: 1 / (1 + np.exp(-4 * np.sin(2 * numbers(X) @ slope))), {}
    if kind == "steps":
        return lambda X: (np.sin(3 * numbers(X) @ slope) > 0).astype(float), {}
    if kind == "value":
        return lambda X: 1e6 * np.sin(numbers(X) @ slope), {"model_output": "value"}
    if kind == "regressor":
        return Estimator(LinearRegression(), 0, rows, rng), {"model_output": "value"}
    return Estimator(LogisticRegression(), {"classifier": 2, "three": 3}[kind], rows, rng), {}


def run_of(seed):
    """A table, a model and settings."""
    rng = np.random.default_rng(seed)

    def one_of(*values):
        return values[rng.integers(len(values))]

    n = one_of(1, 2, 5, 30, 30, 60, 60)
    kinds = [*rng.choice(KINDS[:13], rng.integers(1, 5)), *rng.choice(KINDS, rng.integers(3))] * one_of(1, 1, 1, 1, 8)
    table = pd.DataFrame({f"c{j}": column(kind, n, rng) for j, kind in enumerate(kinds)})
    if n > 5 and one_of(True, False):  # duplicates
        table = table.iloc[rng.integers(n // 3, size=n)].reset_index(drop=True)
    if rng.random() < 0.1:
        table = table.to_numpy()
    model, needed = model_of(one_of("callable", "steps", "value", "regressor", "classifier", "three"), table, rng)
    explainers = gpec.explainers.KernelShap(64), gpec.explainers.ShapleySampling(64), gpec.explainers.Lime(50)
    return table, {
        "model": model,
        "explainer": one_of(*explainers, lambda X: 0.1 * numbers(X)),
        "kernel": one_of("auto", "rbf"),
        "standardize": one_of(True, False),
        "similar": one_of("auto", "auto", None),
        "background": one_of(1, 4),
        "n_boundary": one_of(20, 20, 20, 20, 21),
        "n_explained": 8,
        "random_state": 0,
        "progress": False,
        **needed,
    }


def whole_way(table, parameters, folder):
    """Each step of a user; the names of those that gave an answer."""
    g = gpec.GPEC(**parameters)
    done, messages = [], []

    def step(name, action):
        try:
            found = action()
        except GPECError as error:
            messages.append(str(error))
            return None
        done.append(name)
        return found

    if step("fit", lambda: g.fit(table)) is None:
        return done, messages
    step("calibrate", lambda: g.calibrate(table))
    some = table[:3]
    for attribution in ("explainer", "posterior"):
        e = step(attribution, lambda attribution=attribution: g.explain(some, attribution=attribution))
        if e is None:
            continue
        for part in (e.values, e.variance, e.lower, e.upper):
            assert np.isfinite(part).all()
        assert (e.variance >= 0).all()
        assert len(step("to_frame", e.to_frame)) == e.values.size
        step("plot", e.plot)
        plt.close("all")
        step("save", lambda e=e: e.save(folder / "e.gpec"))
        if done[-1] == "save":
            np.testing.assert_array_equal(gpec.Explanation.load(folder / "e.gpec").values, e.values)
    if e is not None and g.n_boundary % 2:  # the slowest step
        step("html", lambda: e.to_html(folder / "e.html", gpec=g))
    step("refine", lambda: g.refine(some, n=2))
    file = folder / "g.gpec"
    if step("save fit", lambda: g.save(file)) is None and done[-1] == "save fit":
        again = gpec.GPEC.load(file, model=g.model, explainer=g.explainer)
        np.testing.assert_array_equal(again.explain(some).values, g.explain(some).values)
    return done, messages


def test_no_error_without_a_type(tmp_path):
    mpl.use("Agg")
    reached, untyped = Counter(), {}
    for seed in range(FIRST, FIRST + RUNS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done, messages = whole_way(*run_of(seed), tmp_path)
        except Exception:  # each is a fault; all are listed at the end
            untyped[seed] = traceback.format_exc()
            continue
        reached.update(set(done))
        assert all(len(message) > 20 for message in messages), messages
    print(f"{RUNS} runs, {len(untyped)} untyped errors, steps reached: {dict(reached)}")
    assert not untyped, "\n".join(f"seed {seed}: {text}" for seed, text in list(untyped.items())[:20])
    if RUNS >= 50:  # fewer may all be refused
        assert reached["save fit"] > 0.3 * RUNS, reached
