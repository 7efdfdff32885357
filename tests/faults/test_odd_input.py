"""Input that only looks bad gets a right answer, and numbers of any size a finite one."""

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import gpec
from gpec.errors import BoundaryNotFoundError, ExplainerError, InputError
from gpec.kernels import EG, RBF, WEG


def answer(g, X, **options):
    e = g.explain(X, **options)
    for part in (e.values, e.variance, e.lower, e.upper, e.width):
        assert np.isfinite(part).all()
    return e


def test_one_feature(make, X):
    def waves(X):
        return expit(10 * np.sin(9 * X[:, 0]))

    g = make(waves, lambda X: X, n_boundary=10).fit(X[:, :1])
    assert answer(g, X[:4, :1]).shape == (4, 1)


def test_constant_feature(make, X):
    constant = np.column_stack((X, np.full(len(X), 7.0)))
    g = make(lambda X: expit(X[:, 0]), lambda X: X).fit(constant)
    assert answer(g, constant[:4]).shape == (4, 4)
    moved = constant[:4].copy()
    moved[:, 3] += 3.0  # where it does differ later
    assert answer(g, moved).shape == (4, 4)


def test_duplicated_rows(make, X):
    twice = np.concatenate((X, X, X))
    answer(make(n_explained=200).fit(twice), X[:4])
    same = np.repeat(X[:1], 10, axis=0)
    g = make().fit(X, X_explained=same)
    assert answer(g, same[:2]).variance.max() < answer(g, X[:2]).variance.max() + 1e-12


def test_constant_attributions(make, X):
    e = answer(make(explainer=lambda X: np.full(X.shape, 0.25)).fit(X), X[:4], attribution="posterior")
    np.testing.assert_allclose(e.values, 0.25)
    assert (e.variance == 0).all()


DATES = {
    "dates": (pd.date_range("2020", periods=120), lambda column: (column - pd.Timestamp("2020")) / pd.Timedelta("1D")),
    "durations": (pd.timedelta_range("1h", periods=120, freq="h"), lambda column: column / pd.Timedelta("1h")),
}


@pytest.mark.parametrize("case", DATES)
def test_dates_of_fit(make, models, X, case):
    """They count as numbers, and the model gets them as they were."""
    days, count = DATES[case]
    named = pd.DataFrame(X, columns=["a", "b", "c"]).assign(a=days)

    def numeric(frame):
        return np.column_stack((count(frame["a"]) / 60 - 1, frame["b"], frame["c"]))

    kinds = set()

    def model(frame):
        kinds.add(frame["a"].dtype.kind)
        return models.curved(numeric(frame))

    found = answer(make(model, lambda frame: models.slopes(numeric(frame))).fit(named), named[:5])
    expected = answer(make().fit(numeric(named)), numeric(named)[:5])
    assert kinds == {days.dtype.kind}
    np.testing.assert_allclose(found.values, expected.values, atol=1e-6)
    np.testing.assert_allclose(found.std, expected.std, rtol=0.2)  # other random rows, of the same columns


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: X.tolist(),
        lambda X: X.astype(object),
        np.asfortranarray,
        lambda X: pd.DataFrame(X),
        lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
        lambda X: pd.DataFrame(X).astype("Float64"),
        lambda X: np.ma.array(X),
        lambda X: X[::-1][::-1],
    ],
    ids=range(8),
)
def test_other_containers(make, X, convert):
    expected = make().fit(X).explain(X[:4])
    g = make().fit(convert(X))
    found = g.explain(convert(X[:4]))
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.variance, expected.variance)


def test_whole_numbers(make):
    whole = np.random.default_rng(0).integers(-5, 5, (200, 3))
    expected = answer(make().fit(whole.astype(float)), whole[:4].astype(float))
    for kind in (np.int8, np.int64, np.uint8):
        counts = (whole + 5).astype(kind) if kind is np.uint8 else whole.astype(kind)
        g = make(lambda X, s=5.0 * (kind is np.uint8): make().model(X - s)).fit(counts)
        found = answer(g, counts[:4])
        if kind is not np.uint8:
            np.testing.assert_array_equal(found.variance, expected.variance)


@pytest.mark.parametrize("order", [["c", "a", "b"], ["b", "a", "c"]])
def test_reordered_columns_are_realigned(make, models, X, order):
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = make().fit(named).explain(named[:5])
    g = make(background=named[:5][order]).fit(named, X_explained=named[:25][order])
    straight = make(background=named[:5]).fit(named, X_explained=named[:25])
    np.testing.assert_array_equal(g.explain(named[:5]).variance, straight.explain(named[:5]).variance)
    g = make().fit(named)
    found = g.explain(named[:5][order])
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.variance, expected.variance)
    np.testing.assert_array_equal(found.data, expected.data)
    assert found.feature_names == ["a", "b", "c"]


@pytest.mark.parametrize("categorical_features", [[0], ["x0"], [True, False, False], np.array([0]), [-3]])
def test_categories_of_an_array(make, categorical_features):
    rng = np.random.default_rng(0)
    rows = np.column_stack((rng.integers(0, 3, 150), rng.normal(size=(150, 2))))
    g = make(lambda X: expit(2 * (X[:, 0] == 1) + X[:, 1]), categorical_features=categorical_features).fit(rows)
    assert set(g.boundary_.points[:, 0]) <= {0.0, 1.0, 2.0}
    answer(g, rows[:4])


# Any small run gives finite numbers or a named error


@st.composite
def runs(draw):
    """A small data set, a model, attributions and settings, some of them strange."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(20, 60)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["normal", "heavy", "whole", "copies", "line"]))
    X = {
        "normal": lambda: rng.normal(size=(n, d)),
        "heavy": lambda: rng.standard_cauchy(size=(n, d)),
        "whole": lambda: rng.integers(-3, 4, (n, d)).astype(float),
        "copies": lambda: rng.normal(size=(5, d))[rng.integers(5, size=n)],
        "line": lambda: rng.normal(size=(n, 1)) * rng.normal(size=d),
    }[kind]()
    X = X * 10.0 ** draw(st.integers(-6, 6)) + draw(st.sampled_from([0.0, 1.0, -1e3]))
    center, slope = X[rng.integers(n)], rng.normal(size=d) / (X.std(axis=0) + 1e-12)
    steps = draw(st.booleans())

    def model(rows):
        score = 3 * np.sin((rows - center) @ slope) + 0.1
        return (score > 0).astype(float) if steps else expit(score)

    size = 10.0 ** draw(st.integers(-9, 9))
    flat = draw(st.booleans())

    def explainer(rows):
        values = size * np.tanh((rows - center) * slope)
        return np.where(np.arange(d) == 0, size, values) if flat else values

    kernels = ["weg", "rbf", 0.5 * WEG() + RBF(), WEG(normalize=False), EG(), WEG() * RBF()]
    settings = {
        "kernel": draw(st.sampled_from(kernels)),
        "noise": draw(st.sampled_from(["auto", 0.0, 1e-4 * size**2, size**2, 1e6 * size**2, "resample"])),
        "output_scale": draw(st.sampled_from(["evidence", 1.0, 1e-6])),
        "standardize": draw(st.booleans()),
        "components": draw(st.sampled_from(["separate", "bridge"])),
        "n_neighbors": draw(st.integers(1, 12)),
        "n_explained": draw(st.integers(3, 15)),
        "n_boundary": draw(st.integers(10, 40)),
        "n_landmarks": draw(st.sampled_from(["auto", 5])),
        "n_resamples": 2,
    }
    if kind in ("copies", "line") or d == 1:  # too few changes of class lie between such rows
        settings["boundary"] = X[rng.permutation(n)] + (0.1 * X.std(axis=0) + 1e-9) * rng.normal(size=(n, d))
    queries = np.concatenate((X[:3], X[:2] + 1e-9, 10 * X[:2], 1e6 * X[:1], np.zeros((1, d))))
    return X, model, explainer, settings, queries


RUNS = int(os.environ.get("GPEC_RUNS", "100"))  # `make soak` has 10,000


@pytest.mark.filterwarnings("ignore::gpec.errors.NoiseFloorWarning")  # small noise is among the runs
@pytest.mark.filterwarnings("ignore::gpec.errors.FewBoundaryPointsWarning")
@pytest.mark.filterwarnings("ignore::gpec.errors.PosteriorWarning")
def test_every_number_is_finite():
    """No run fails but for want of a boundary: 2 of 1,000 models predict one class for all rows tried."""
    answered = []

    @settings(max_examples=RUNS)
    @given(runs())
    def check(run):
        X, model, explainer, parameters, queries = run
        g = gpec.GPEC(model, explainer, random_state=0, progress=False, **parameters)
        try:
            g.fit(X)
            answers = [g.explain(queries), g.explain(queries, attribution="posterior", confidence_level=0.999)]
        except BoundaryNotFoundError:
            return
        answered.append(run)
        for e in answers:
            parts = (e.values, e.model_variance, e.noise_variance, e.variance, e.std, e.lower, e.upper, e.width)
            for part in parts:
                assert np.isfinite(part).all()
            assert (e.model_variance >= 0).all()
            assert (e.noise_variance >= 0).all()
            assert (e.lower <= e.values).all()
            assert (e.values <= e.upper).all()

    check()
    assert len(answered) >= 0.98 * RUNS


# Scales


@pytest.mark.filterwarnings("ignore::gpec.errors.FewBoundaryPointsWarning")
@pytest.mark.parametrize("exponent", [-150, -140, -100, -50, -10, 10, 50, 100, 140, 150])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("kernel", ["weg", "rbf", "paper"])
def test_scales_of_inputs(models, X, exponent, standardize, kernel):
    scale = 10.0**exponent
    settings = gpec.PAPER if kernel == "paper" else {"kernel": kernel}
    settings = {**settings, "standardize": standardize, "n_boundary": 40, "n_explained": 15, "random_state": 0}
    g = gpec.GPEC(lambda X: models.curved(X / scale), lambda X: models.slopes(X / scale), **settings)
    e = g.fit(X * scale).explain(X[:5] * scale)
    assert np.isfinite(e.lower).all()
    assert np.isfinite(e.upper).all()
    assert (e.variance >= 0).all()
    if standardize:
        g = gpec.GPEC(models.curved, models.slopes, **settings).fit(X)
        np.testing.assert_allclose(e.variance, g.explain(X[:5]).variance, rtol=1e-5)


@pytest.mark.parametrize("exponent", [-150, -140, -100, -50, -10, 10, 50, 100, 140, 150])
@pytest.mark.parametrize("noise", ["auto", "resample", "given", "varying"])
def test_scales_of_attributions(make, models, X, exponent, noise):
    scale = 10.0**exponent
    given = {"given": 1e-4 * scale**2, "varying": np.linspace(0, 1e-4, 12)[:, None] * scale**2}.get(noise, noise)
    g = make(explainer=lambda X: scale * models.slopes(X), noise=given, n_explained=12, n_resamples=2, n_boundary=40)
    e = g.fit(X).explain(X[:5], attribution="posterior")
    for part in (e.values, e.variance, e.lower, e.upper):
        assert np.isfinite(part).all()
    if abs(exponent) <= 140:
        given = {"given": 1e-4, "varying": np.linspace(0, 1e-4, 12)[:, None]}.get(noise, noise)
        one = make(noise=given, n_explained=12, n_resamples=2, n_boundary=40).fit(X)
        one = one.explain(X[:5], attribution="posterior")
        np.testing.assert_allclose(e.std / scale, one.std, rtol=1e-3)
        np.testing.assert_allclose(e.values / scale, one.values, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [1.1e151, 1e160, 1e300])
def test_attributions_too_large_to_be_squared(make, models, X, size):
    def explainer(X):
        return size * np.sign(models.slopes(X))

    with pytest.raises(ExplainerError, match=r"The explainer's answer has .* at most 1e\+151 in size"):
        make(explainer=explainer).fit(X)
    with pytest.raises(InputError, match=r"^attributions has .* at most 1e\+151 in size"):
        make().fit(X, attributions=explainer(X))
    with pytest.raises(ExplainerError, match=r"The explainer's variance has .* at most 1e\+302 in size"):
        make(explainer=lambda X: (X, np.full(X.shape, 1.1e302))).fit(X)


TINY = {
    "one feature": (np.array([1.0, 1e-170, 1e-320]), "auto"),
    "one feature, with noise": (np.array([1.0, 1e-170, 1e-320]), 1e-3),
    "all features": (1e-200, "auto"),
    "much noise": (1e-7, 1.0),
}


@pytest.mark.parametrize("case", TINY)
def test_attributions_too_small_to_be_squared(make, models, X, case):
    """Features that hardly matter, or noise that drowns them, must not stop the others."""
    size, noise = TINY[case]
    g = make(explainer=lambda X: size * models.slopes(X), noise=noise)
    e = g.fit(X).explain(X[:5], attribution="posterior")
    assert np.isfinite(e.lower).all()
    assert np.isfinite(e.upper).all()


NOISE_THAT_DROWNS = {"much": (1e-150, 1.0), "very much": (1.0, 1e300), "much in one place": (1.0, "one place")}


@pytest.mark.parametrize("given", [False, True], ids=["explained", "given"])
@pytest.mark.parametrize("case", NOISE_THAT_DROWNS)
def test_noise_that_drowns_everything(make, models, X, case, given):
    """Nothing can be learned then, and deviations of 1e46 came out."""
    size, noise = NOISE_THAT_DROWNS[case]
    if noise == "one place":
        noise = np.where(np.arange(25)[:, None] == 7, 1e40, 1e-4)
    g = make(explainer=lambda X: size * models.slopes(X), noise=noise)
    more = {"X_explained": X[:25], "attributions": size * models.slopes(X[:25])} if given else {}
    with pytest.raises(InputError, match=r"noise variance reaches 1e?.* where attributions reach"):
        g.fit(X, **more)
    assert not hasattr(g, "boundary_")
    small = make(explainer=lambda X: size * models.slopes(X), noise=1e6 * size**2)  # this much is a setting like others
    assert np.isfinite(small.fit(X, **more).explain(X[:5], attribution="posterior").std).all()
