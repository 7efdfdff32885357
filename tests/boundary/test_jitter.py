"""The jitter before pairing: rows leave the places where trees change their answer, and keep order and class."""

import numpy as np
import pytest
from boundary_helpers import Recorder, draw, gauss, plane
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from gpec.data import Schema
from gpec.errors import ModelCallError

RNG = np.random.default_rng(0)
N = 1_000
SINGLE = 2**24  # from here on single precision leaves out whole numbers


def outlier():
    column = RNG.uniform(-2.4, 2.4, N)
    column[7] = 1e6
    return column


COLUMNS = {
    "exp(3z)": np.exp(3 * RNG.normal(size=N)),
    "exp(9z)": np.exp(9 * RNG.normal(size=N)),
    "cauchy": RNG.standard_cauchy(N),
    "one outlier": outlier(),
    "one outlier below": -outlier(),
    "ties": RNG.integers(0, 4, N).astype(float),
    "constant": np.full(N, 0.1),
    "two values": (RNG.random(N) < 0.3) * 1.0,
    "whole numbers up to 1e12": RNG.integers(0, 10**12, N).astype(float),
    "neighbours beyond single precision": (SINGLE + RNG.integers(0, 600, N)).astype(float),
    "a date in seconds": 1.7e9 + RNG.integers(0, 400, N),
    "tiny": 1e-300 * RNG.normal(size=N),
    "huge": 1e300 * RNG.normal(size=N),
    "neighbours in double precision": 1.0 + np.finfo(float).eps * RNG.integers(0, 50, N),
    "mostly 0": np.where(RNG.random(N) < 0.9, 0.0, RNG.exponential(5_000, N)),
}


def paired(model, Z, seed=0, **options):
    """The rows as they are paired, in the order of ``Z``, and the number of rows asked about before.

    Of many rows these are the first 16,384, which the model gets at once.

    A further column, which the model does not see, holds their numbers.
    """
    before, found = [], []

    def recorded(rows):
        if len(rows) == min(len(Z), 16_384):
            found.append(rows.copy())
            raise RuntimeError("that is enough")
        before.append(len(rows))
        return model(rows[:, :-1])

    with pytest.raises(ModelCallError, match="that is enough"):
        draw(recorded, np.column_stack((Z, np.arange(len(Z)))), seed=seed, **options)
    rows = found[0][np.argsort(found[0][:, -1])]
    return rows[:, :-1], np.rint(rows[:, -1]).astype(int), sum(before)


def jittered(Z, way=1, **options):
    """Rows as a model moves them that changes where they move up (``way=-1``), or nowhere."""
    values = [np.unique(column) for column in Z.T]

    def jumps(rows):
        ranks = [np.searchsorted(known, column) for known, column in zip(values, rows.T, strict=True)]
        return 0.4 + 0.2 * (np.sum(ranks, axis=0) % 2)

    return paired(jumps if way == -1 else lambda rows: np.full(len(rows), 0.4), Z, **options)[0]


@pytest.mark.parametrize("way", [1, -1], ids=["up", "down"])
@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_stays_before_the_next_one(name, way):
    column = COLUMNS[name]
    step = way * (jittered(column[:, None], way=way)[:, 0] - column)
    values = np.unique(way * column)
    gap = np.append(np.diff(values), 0.0)[np.searchsorted(values, way * column)]
    assert (step >= 0).all()
    assert (step <= 0.01 * gap + np.spacing(np.abs(column))).all()
    assert not step[gap == 0].any()  # within the range of the data
    assert (step < gap)[gap > 0].all()
    if name not in ("constant", "neighbours beyond single precision", "neighbours in double precision"):
        assert (step > 0)[gap > 0].mean() > 0.95  # and it does move


MODELS = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(20, random_state=0),
    "extra trees": ExtraTreesClassifier(20, max_depth=6, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=30, random_state=0),
}


def fitted(kind, Z, y):
    if kind.startswith("xgboost"):
        xgboost = pytest.importorskip("xgboost")
        method = "exact" if kind.endswith("exact") else "hist"
        model = xgboost.XGBClassifier(n_estimators=30, tree_method=method, n_jobs=1, random_state=0)
    elif kind == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=30, min_child_samples=5, n_jobs=1, verbose=-1, random_state=0)
    else:
        model = MODELS[kind]
    return model.fit(Z, y)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "huge"])
@pytest.mark.parametrize("kind", ["xgboost", "xgboost exact", "lightgbm", *MODELS])
def test_rows_keep_their_predicted_class(name, kind):
    Z = np.column_stack((COLUMNS[name], COLUMNS["ties"], gauss(N, 1, seed=3)))
    rank = np.argsort(np.argsort(Z[:, 0]))
    y = ((rank * 7 // N) % 2 ^ (Z[:, 1] > 1) ^ (Z[:, 2] > 1)).astype(int)
    trees = fitted(kind, Z, y)
    for seed in range(3):
        moved = paired(trees.predict_proba, Z, seed)[0]
        # the threshold of an extra tree lies anywhere between two values
        assert (trees.predict(moved) != trees.predict(Z)).mean() <= (0.02 if kind == "extra trees" else 0.0)


STEPS = {
    "belongs to those above": (lambda v: v >= np.rint(v), 1),
    "belongs to those below": (lambda v: v > np.rint(v), -1),
    "stands alone": (lambda v: v == np.rint(v), 0),
    "is smooth": (lambda v: 0.05 * v, 1),
}


@pytest.mark.parametrize("first", STEPS)
@pytest.mark.parametrize("second", STEPS)
def test_the_model_chooses_the_way_of_each_column(first, second):
    """A value that is a whole number: what it belongs to decides which way it may move."""
    (one, way_of_one), (two, way_of_two) = STEPS[first], STEPS[second]
    Z = np.column_stack((RNG.integers(-3, 4, (200, 2)).astype(float), np.zeros(200), np.tile([0.0, 1.0], 100)))
    Z[::50, 0] = np.nan

    def model(rows):
        return (0.4 + 0.2 * np.nan_to_num(one(rows[:, 0])) + 0.2 * two(rows[:, 1])).clip(0, 1)

    moved, _, before = paired(model, Z, categorical_features=[3])
    # a smooth column goes along with the other one
    ways = {way_of_one if first != "is smooth" else way_of_two, way_of_two if second != "is smooth" else way_of_one}
    expected = [way_of_one, way_of_two]
    if len(ways) == 1 and 0 not in ways:
        expected = list(ways) * 2
        assert before <= 3 * 128
    assert before <= 8 * 128
    step = np.nan_to_num(moved - Z)
    np.testing.assert_array_equal(np.sign(step.min(axis=0)) + np.sign(step.max(axis=0)), [*expected, 0, 0])
    np.testing.assert_array_equal(np.isnan(moved), np.isnan(Z))
    np.testing.assert_allclose(model(moved), model(Z), atol=1e-3)


def test_nothing_is_asked_where_nothing_can_move():
    recorder = Recorder(lambda rows: rows[:, 0])
    rows = np.tile([[0.0, 5.0], [1.0, 5.0]], (20, 1))
    draw(recorder, rows, categorical_features=[0])
    np.testing.assert_array_equal(np.sort(recorder.shown[0], axis=0), rows[:2])


def test_few_rows_are_spent_on_many_columns():
    Z = gauss(300, 400)
    jumpy = set(Z.ravel().tolist())
    moved, _, before = paired(lambda rows: np.isin(rows, list(jumpy)).mean(axis=1), Z)  # each value stands alone
    np.testing.assert_array_equal(moved, Z)
    assert before <= 3 * 128 + 2 * 4_096


def test_a_row_moves_by_at_most_a_thousandth_of_the_spread():
    Z = np.column_stack((np.repeat([0.0, 1e3, 2e3], 100), gauss(300, 1)))
    step = np.abs(jittered(Z) - Z)[:, 0].max() / Z[:, 0].std()
    assert 5e-4 < step <= 1e-3
    numbered = np.column_stack((Z, np.arange(300.0)))
    offset = np.linalg.norm(numbered - np.median(numbered, axis=0), axis=1)
    spread = np.median(offset[offset > 0]) / np.sqrt(3)
    raw = np.abs(jittered(Z, standardize=False) - Z)[:, 0].max() / spread
    assert 5e-4 < raw <= 1e-3


def test_a_lesser_gap_on_either_side_counts():
    """The value next to an outlier does not move towards it."""
    Z = np.repeat([0.0, 1.0, 2.0, 1e6], 100)[:, None]
    moved = jittered(Z, standardize=False)[Z[:, 0] == 2]
    assert 2.0 < moved.min() < moved.max() <= 2.01
    moved = jittered(-Z, way=-1, standardize=False)[Z[:, 0] == 2]
    assert -2.0 > moved.max() > moved.min() >= -2.01


def test_missing_values_stay_missing():
    Z = gauss(300)
    Z[::3, 1] = np.nan
    moved = jittered(Z)
    np.testing.assert_array_equal(np.isnan(moved), np.isnan(Z))
    assert (moved[1::3] > Z[1::3]).mean() > 0.9


def test_rows_outside_of_a_block_of_rows_count():
    """Neighbouring values are those of all rows, not of the rows that are moved together."""
    Z = np.arange(30_000.0)[:, None]
    moved, numbers, _ = paired(lambda rows: np.full(len(rows), 0.4), Z)
    assert len(moved) < len(Z)
    assert 0 < (moved - Z[numbers]).max() <= 0.01


# ---------------------------------------------------------------- in the search


@pytest.mark.parametrize("name", ["exp(3z)", "cauchy", "mostly 0", "whole numbers up to 1e12", "one outlier"])
def test_boundary_of_a_heavy_tail(name):
    Z = np.column_stack((COLUMNS[name], gauss(N, 2)))
    values = np.unique(Z[:, 0])
    cut = values[max(int(0.18 * len(values)) - 1, 0)]  # a tree's: some rows lie on it
    model = Recorder(lambda rows: (rows[:, 0] >= cut) * 1.0)
    sample = draw(model, Z, 100)
    rows = next(rows for rows in model.shown if len(rows) == N)  # those to be paired
    assert (rows[:, 0] >= cut).mean() == (Z[:, 0] >= cut).mean()
    spread = Schema.learn(Z)[0].scale[0]
    np.testing.assert_allclose(sample.points[:, 0], cut, atol=2e-6 * spread)


def test_one_value_in_a_column_that_does_not_matter():
    Z = np.column_stack((gauss(N, 2), COLUMNS["one outlier"]))
    sample = draw(lambda rows: plane(rows[:, :2]), Z, 300)
    far = np.abs(sample.points[:, 2]) > 2.4
    assert far.sum() <= 1  # between the row that is far and its partner
    for standardize in (True, False):
        again = draw(lambda rows: plane(rows[:, :2]), np.delete(Z, 7, axis=0), 300, standardize=standardize)
        assert (np.abs(again.points[:, 2]) <= 2.4).all()
