"""Boundary points by bisection: closed forms, the evidence of each point, shortages, categories, repeatability."""

from dataclasses import fields
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from gpec.boundary import BisectionSampler, BoundarySample
from gpec.boundary.search import Path
from gpec.errors import (
    BoundaryNotFoundError,
    FewBoundaryPointsWarning,
    InputError,
    ModelCallError,
    ModelOutputError,
    ParameterTypeError,
)
from gpec.model import Model
from gpec.table import Table

TOLERANCE = 1e-6
W = np.array([2.0, -1.0, 0.5])


def gauss(n: int = 300, d: int = 3, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, d))


def plane(X):
    return expit(X @ W[: X.shape[1]] + 0.3)


def circle(X):
    return expit(4 - 4 * (X**2).sum(axis=1))


def three_sectors(X):
    angles = 2 * np.pi * np.arange(3) / 3
    return softmax(3 * X[:, :2] @ np.array([np.cos(angles), np.sin(angles)]), axis=1)


class Recorder:
    """A model that keeps every row it was shown."""

    def __init__(self, model):
        self.model, self.shown = model, []

    def __call__(self, X):
        self.shown.append(X.copy())
        return self.model(X)

    @property
    def n_rows(self) -> int:
        return sum(len(rows) for rows in self.shown)


def draw(model, X, n=100, *, sampler=None, seed=0, **options) -> BoundarySample:
    sampler = BisectionSampler() if sampler is None else sampler
    return sampler.sample(model, X, n, random_state=seed, progress=False, **options)


def judge(model, X, **options) -> Model:
    """The model again, for looking at the points."""
    table, Z = Table.learn(X)
    checked = Model(model, table, **options)
    checked.labels(Z[:2])
    return checked


def length(table: Table, A, B):
    numbers = table.continuous
    return np.linalg.norm((A - B)[:, numbers] / table.scale[numbers], axis=1)


def assert_evidence(sample: BoundarySample, model: Model, *, tolerance: float = TOLERANCE) -> None:
    """What every point promises: the class ``label`` just before it, another one just beyond, a short bracket."""
    before, beyond = sample.ends()
    np.testing.assert_array_equal(model.labels(before), sample.label)
    assert (model.labels(beyond) != sample.label).all()
    # the ends are computed again from the middle of the bracket
    assert (length(model.table, before, beyond) <= tolerance * (1 + 1e-6)).all()
    assert (2 * sample.residual <= tolerance).all()
    # across a step of 1e-4 standardised units, too
    step = 0.5e-4 * sample.direction
    low, high = sample.points - step, sample.points + step
    jumps = np.flatnonzero(sample.switched >= 0)
    high[jumps, sample.switched[jumps]] = sample.switched_to[jumps]
    assert (model.labels(low) != model.labels(high)).all()


def assert_distinct(sample: BoundarySample) -> None:
    for label in np.unique(sample.label):
        own = sample.of(label)
        keys = np.column_stack((own.points, own.switched, own.switched_to))
        assert len(np.unique(keys, axis=0)) == len(own)


def assert_same_bits(a: BoundarySample, b: BoundarySample) -> None:
    for field in fields(BoundarySample):
        one, two = np.asarray(getattr(a, field.name)), np.asarray(getattr(b, field.name))
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes(), field.name


EVERY_SAMPLER = [BisectionSampler(pairing, rows) for pairing, rows in product(("nearest", "random"), ("data", "box"))]


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_points_of_a_plane(sampler):
    unit = np.array([1e3, 1.0, 1e-3])
    X = gauss() * unit
    sample = draw(lambda rows: plane(rows / unit), X, 200, sampler=sampler)
    assert len(sample) == 200
    slope = sample.direction / unit @ W
    assert (slope > 0).all()  # from class 0 to class 1
    # never further from the plane, along the path, than half the last bracket
    height = (sample.points / unit) @ W + 0.3
    assert (np.abs(height) <= sample.residual * slope + 1e-12).all()
    assert (sample.residual > 0).all()
    assert np.abs(height).max() > 0  # not the exact root: the evidence is the bracket


def test_points_of_a_circle():
    sample = draw(circle, gauss(d=2), 200)
    np.testing.assert_allclose(np.linalg.norm(sample.points, axis=1), 1.0, atol=TOLERANCE)
    angles = np.sort(np.arctan2(sample.points[:, 1], sample.points[:, 0]))
    assert np.diff(angles).max() < 0.5  # all around


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9])
def test_threshold_moves_the_boundary(threshold):
    sample = draw(plane, gauss(), threshold=threshold)
    np.testing.assert_allclose(plane(sample.points), threshold, atol=1e-6)


def test_logits_and_probabilities_have_the_same_boundary():
    a = draw(lambda X: X @ W + 0.3, gauss(), model_output="logit")
    b = draw(plane, gauss())
    assert_same_bits(a, b)


def test_sharp_step_is_found_without_any_probability_near_a_half():
    sample = draw(lambda X: np.where(X[:, 0] > 0.25, 0.99, 0.01), gauss())
    np.testing.assert_allclose(sample.points[:, 0], 0.25, atol=TOLERANCE)


# ---------------------------------------------------------------- the last bracket


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-9])
@pytest.mark.parametrize("standardize", [True, False])
def test_bracket_is_shorter_than_the_tolerance(tolerance, standardize):
    X = 5 + 3 * gauss()
    sample = draw(plane, X, 50, sampler=BisectionSampler(tolerance=tolerance), standardize=standardize)
    scale = X.std(axis=0) if standardize else 1.0
    before, beyond = sample.ends()
    np.testing.assert_allclose(np.linalg.norm((beyond - before) / scale, axis=1), 2 * sample.residual, rtol=1e-4)
    assert (2 * sample.residual <= tolerance).all()
    assert (2 * sample.residual > tolerance / 4).all()  # and no row was wasted on a shorter one
    np.testing.assert_allclose(np.linalg.norm(sample.direction / scale, axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
@pytest.mark.parametrize("whole", [False, True], ids=["floats", "whole numbers"])
def test_forest(sampler, whole):
    X = 4 * gauss(800, 4)
    X = np.rint(X) if whole else X
    y = X[:, 0] * X[:, 1] + 4 * X[:, 2] > 0
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    sample = draw(forest, X, 300, sampler=sampler)
    assert len(sample) == 300
    assert_evidence(sample, judge(forest, X))
    assert_distinct(sample)


@pytest.mark.parametrize("pairing", ["nearest", "random"])
def test_gradient_boosted_trees_cost_at_most_45_rows_a_point(pairing):
    xgboost = pytest.importorskip("xgboost")
    X = gauss(3000, 6)
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * gauss(3000, 1, seed=1)[:, 0] > 0).astype(int)
    trees = xgboost.XGBClassifier(n_estimators=60, max_depth=4, n_jobs=1, random_state=0).fit(X, y)
    recorder = Recorder(trees.predict_proba)
    sample = draw(recorder, X, 1000, sampler=BisectionSampler(pairing))
    assert len(sample) == 1000
    assert recorder.n_rows <= 45 * 1000
    assert_evidence(sample, judge(trees, X))
    assert_distinct(sample)


def test_single_tree_on_its_own_thresholds():
    # every threshold of the tree is a value of the data, and rows sit on it
    X = np.random.default_rng(0).integers(0, 8, (400, 3)).astype(float)
    tree = DecisionTreeClassifier(random_state=0).fit(X, X.sum(axis=1) % 2)
    sample = draw(lambda rows: tree.predict_proba(np.ceil(rows)), X, 150)
    assert_evidence(sample, judge(lambda rows: tree.predict_proba(np.ceil(rows)), X))


def test_float32_model():
    weights = W.astype(np.float32)

    def model(X):
        return expit(X.astype(np.float32) @ weights + np.float32(0.3))

    X = 1e3 + gauss()
    sample = draw(lambda rows: model(rows - 1e3), X, 100)
    before, beyond = sample.ends()
    assert (model(before - 1e3) <= 0.5).all()
    assert (model(beyond - 1e3) > 0.5).all()
    assert (2 * sample.residual <= 8 * TOLERANCE).all()


def test_a_class_that_lasts_for_a_hair_is_not_a_boundary():
    # away from the plane the class changes for 2e-5 every 0.01: bisection runs into such slivers
    def model(X):
        sliver = (np.mod(X[:, 0], 0.01) < 2e-5) & (np.abs(X @ W) > 0.01)
        return ((X @ W > 0) ^ sliver) * 1.0

    X = gauss()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_evidence(draw(model, X, 600, sampler=BisectionSampler("random")), judge(model, X))


@pytest.mark.parametrize("model", [plane, three_sectors], ids=["two", "three"])
def test_brackets_of_a_few_bits(model):
    # the ends are computed again from the middle, and here rounding moves them across the boundary
    X = 5 + gauss()
    sampler = BisectionSampler(tolerance=2e-15)
    sample = draw(lambda rows: model(rows - 5), X, 300, sampler=sampler)
    before, beyond = sample.ends()
    checked = judge(lambda rows: model(rows - 5), X)
    np.testing.assert_array_equal(checked.labels(before), sample.label)
    assert (checked.labels(beyond) != sample.label).all()


def test_rounding_loses_no_pair():
    X = few_rows(4, 7)
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 28 distinct"):
        draw(plane, X, 1000, sampler=BisectionSampler(tolerance=2e-15))


# ---------------------------------------------------------------- pairs


def distance_to_segments(points, A, B):
    """Least distance of each point to the segments from ``A`` to ``B``."""
    edge = B - A
    t = ((points[:, None] - A) * edge).sum(axis=2) / (edge**2).sum(axis=1)
    nearest = A + np.clip(t, 0, 1)[..., None] * edge
    return np.linalg.norm(points[:, None] - nearest, axis=2).min(axis=1)


def nearest_segments(X, labels):
    own, other = X[~labels], X[labels]
    D = np.linalg.norm(own[:, None] - other[None], axis=2)
    i, j = np.arange(len(own)), np.arange(len(other))
    A = np.concatenate((own[i], own[D.argmin(axis=0)]))
    B = np.concatenate((other[D.argmin(axis=1)], other[j]))
    return A, B


def test_nearest_pairs_come_first():
    X = gauss(200)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    A, B = nearest_segments(X, plane(X) > 0.5)
    nearest, random = (draw(plane, X, 80, sampler=BisectionSampler(pairing)) for pairing in ("nearest", "random"))
    # rows are moved by at most a thousandth of a standard deviation before they are paired
    assert (distance_to_segments(nearest.points, A, B) < 3e-3).all()
    assert (distance_to_segments(random.points, A, B) > 3e-3).mean() > 0.8


def test_points_lie_between_data_rows():
    X = gauss(40, 2)
    negative, positive = X[plane(X) <= 0.5], X[plane(X) > 0.5]
    every = np.array(list(product(negative, positive)))
    sample = draw(plane, X, 200, sampler=BisectionSampler("random"))
    assert (distance_to_segments(sample.points, every[:, 0], every[:, 1]) < 3e-3).all()


def test_nearest_pairs_run_out():
    X = gauss(40)
    labels = plane(X) > 0.5
    n_pairs, (A, _) = int(labels.sum() * (~labels).sum()), nearest_segments(X, labels)
    assert n_pairs > 300
    sample = draw(plane, X, n_pairs - 5)  # warnings are errors: no shortage is reported
    assert len(sample) == n_pairs - 5 > len(A)
    assert_distinct(sample)
    assert_evidence(sample, judge(plane, X))


def test_box_rows_are_drawn_from_the_bounding_box():
    X = gauss(50, 2)
    recorder = Recorder(circle)
    draw(recorder, X, 100, sampler=BisectionSampler(rows="box"))
    shown = np.concatenate(recorder.shown)
    assert (shown >= X.min(axis=0)).all()
    assert (shown <= X.max(axis=0)).all()
    first = recorder.shown[0]
    assert len(first) >= 1000
    np.testing.assert_allclose(first.mean(axis=0), (X.min(axis=0) + X.max(axis=0)) / 2, atol=0.2)  # uniform
    assert not (first[:, None] == X[None]).all(axis=2).any()


def test_box_finds_a_boundary_that_no_row_crosses():
    angles = np.linspace(0, 2 * np.pi, 100)
    X = 3 * np.column_stack((np.cos(angles), np.sin(angles)))
    with pytest.raises(BoundaryNotFoundError, match=r"boundary=BisectionSampler\(rows='box'\)"):
        draw(circle, X)
    sample = draw(circle, X, sampler=BisectionSampler(rows="box"))
    np.testing.assert_allclose(np.linalg.norm(sample.points, axis=1), 1.0, atol=2 * TOLERANCE)


def test_box_looks_again_for_a_rare_class():
    X = gauss(100, 2)
    area = np.prod(np.ptp(X, axis=0))
    radius = np.sqrt(5e-4 * area / np.pi)  # one row in 2,000; the box is searched 1,000 rows at a time
    center = X.mean(axis=0)
    for seed in range(5):
        sample = draw(
            lambda rows: (np.linalg.norm(rows - center, axis=1) < radius) * 1.0,
            X,
            20,
            sampler=BisectionSampler(rows="box"),
            seed=seed,
        )
        np.testing.assert_allclose(np.linalg.norm(sample.points - center, axis=1), radius, atol=1e-5)


@pytest.mark.parametrize("pairing", ["nearest", "random"])
def test_data_rows_stay_in_the_range_of_the_data(pairing):
    X = gauss(100)
    recorder = Recorder(plane)
    draw(recorder, X, 100, sampler=BisectionSampler(pairing))
    shown = np.concatenate(recorder.shown)
    assert (shown >= X.min(axis=0)).all()
    assert (shown <= X.max(axis=0)).all()


def test_a_part_of_many_rows_is_enough():
    X = gauss(50_000, 2)
    recorder = Recorder(plane)
    draw(recorder, X, 50)
    assert recorder.n_rows < 25_000


def test_rare_class_is_looked_for_in_all_rows():
    X = np.zeros((30_000, 2))
    X[:, 1] = np.linspace(-1, 1, 30_000)
    X[777, 0] = 10.0
    spent = []
    for seed in range(4):
        recorder = Recorder(lambda rows: expit(rows[:, 0] - 5))
        assert len(draw(recorder, X, 20, seed=seed)) == 20
        spent.append(recorder.n_rows)
    assert max(spent) > 30_000 > 25_000 > min(spent)  # only where the first 20,000 rows were of one class


# ---------------------------------------------------------------- shortages


def few_rows(n_negative: int, n_positive: int, d: int = 3):
    X = gauss(400, d)
    side = plane(X) > 0.5
    return np.concatenate((X[~side][:n_negative], X[side][:n_positive]))


def test_fewer_points_than_asked_for():
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 28 distinct .* instead of n_boundary=1000, because"):
        sample = draw(plane, few_rows(4, 7), 1000)
    assert len(sample) == 28  # every pair
    assert_distinct(sample)


def test_ten_points_are_the_least():
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 10 distinct"):
        assert len(draw(plane, few_rows(5, 2), 11)) == 10
    with pytest.raises(BoundaryNotFoundError, match=r"^Only 9 distinct boundary points were found, but at least 10"):
        draw(plane, few_rows(3, 3), 10)


def test_one_feature_has_one_point():
    with pytest.raises(BoundaryNotFoundError, match=r"^Only [12] distinct boundary points"):
        draw(plane, gauss(200, 1))


def test_the_same_point_twice_is_one_point():
    # all pairs cross the boundary at x0 = 0 and nearly the same x1
    X = np.column_stack((np.linspace(-1, 1, 60), np.full(60, 2.0)))
    X[0, 1] = 2.0 + 1e-9
    with pytest.raises(BoundaryNotFoundError, match="distinct boundary points"):
        draw(lambda rows: expit(rows[:, 0]), X, standardize=False)


def test_repeated_rows_do_not_count_again():
    X = few_rows(4, 7)
    with pytest.warns(FewBoundaryPointsWarning, match=r"^Found 28 distinct"):
        sample = draw(plane, np.repeat(X, 30, axis=0), 1000)
    assert sample.n_model_rows < 28 * 60


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_predicted_class(value):
    message = rf"^The model predicts class {int(value)} for all 300 rows tried, .* change threshold"
    with pytest.raises(BoundaryNotFoundError, match=message):
        draw(lambda X: np.full(len(X), value), gauss())


def test_one_predicted_class_by_its_name():
    X = gauss()
    classifier = LogisticRegression().fit(X, np.where(X[:, 0] > 0, "good", "bad"))
    with pytest.raises(BoundaryNotFoundError, match=r"^The model predicts class 'good' for all"):
        draw(classifier, np.abs(X) + 20.0 * np.eye(3)[0])


def test_class_that_is_never_predicted():
    def model(X):
        return np.column_stack((three_sectors(X) * 0.9, np.full(len(X), 0.1)))

    with pytest.raises(BoundaryNotFoundError, match=r"^The model never predicts class 3 for the 300 rows tried"):
        draw(model, gauss())


def test_shortage_of_one_class_names_it():
    X = np.concatenate((gauss(150, 2) * 0.3 + [3.0, 0.0], gauss(150, 2, 1) * 0.3 - [3.0, 0.0], [[0.0, 30.0]]))

    def model(rows):
        return softmax(np.column_stack((rows[:, 0], -rows[:, 0], rows[:, 1] - 15)), axis=1)

    sample = draw(model, X, 40)
    assert np.bincount(sample.label).min() >= 40
    with pytest.warns(FewBoundaryPointsWarning, match=r"boundary points for class 2 instead of n_boundary=500"):
        sample = draw(model, X, 500)
    assert 290 <= len(sample.of(2)) <= 300  # one row of class 2, paired with every other


def test_points_that_come_often_do_not_end_the_search():
    # each of some 1,600 pairs crosses at one of 216 switches: most find a point again
    X = pd.DataFrame(list(product("abc", "abc", "abc", "abc")), columns=list("pqrs"))

    def parity(rows):
        return sum(rows[name].map(ord).to_numpy() for name in rows) % 2 * 1.0

    n_edges = 81 * 4 * 2 // 2 * 2 // 3  # of three switches of a column, two change the parity
    for n in (n_edges - 1, n_edges // 2):
        assert len(draw(parity, X, n, sampler=BisectionSampler("random"))) == n


def test_rare_points_are_waited_for():
    # the boundary is x = 0 in each of 41 categories, of which 40 have a single row
    X = np.column_stack((np.linspace(-1, 1, 1600), np.zeros(1600)))
    X[540:580, 1] = np.arange(1, 41)
    for seed in range(5):
        sample = draw(
            lambda rows: (rows[:, 0] > 0) * 1.0,
            X,
            38,
            sampler=BisectionSampler("random"),
            seed=seed,
            categorical_features=[1],
        )
        assert len(sample) == 38


# ---------------------------------------------------------------- several classes


@pytest.fixture(scope="module")
def sectors() -> BoundarySample:
    return draw(three_sectors, gauss(d=2), 150)


def test_multiclass_evidence(sectors):
    assert_evidence(sectors, judge(three_sectors, gauss(d=2)))
    assert_distinct(sectors)
    assert (np.bincount(sectors.label) >= 150).all()
    assert len(np.bincount(sectors.label)) == 3


def test_top_two_probabilities_meet(sectors):
    # App. C.3: F_y is the maximum and equals the largest of the others
    p = three_sectors(sectors.points)
    own = p[np.arange(len(p)), sectors.label]
    others = p.copy()
    others[np.arange(len(p)), sectors.label] = -1.0
    np.testing.assert_allclose(own, others.max(axis=1), atol=1e-5)
    np.testing.assert_allclose(own, p.max(axis=1), atol=1e-5)


def test_each_point_is_kept_for_both_its_classes(sectors):
    far = judge(three_sectors, gauss(d=2)).labels(sectors.ends()[1])
    own = {(*point, label, other) for point, label, other in zip(sectors.points, sectors.label, far, strict=True)}
    turned = {(*point, other, label) for point, label, other in zip(sectors.points, sectors.label, far, strict=True)}
    assert own == turned
    assert len(own) == len(sectors)
    assert {(label, other) for *_, label, other in own} == {(a, b) for a in range(3) for b in range(3) if a != b}


def test_multiclass_does_not_sample_much_more_than_asked_for():
    counts = np.bincount(draw(three_sectors, gauss(d=2), 10).label)
    assert counts.min() >= 10
    assert counts.max() <= 20


def test_multiclass_forest():
    X = gauss(600, 3)
    forest = RandomForestClassifier(15, random_state=0).fit(X, X.argmax(axis=1))
    sample = draw(forest, X, 100)
    assert_evidence(sample, judge(forest, X))
    assert_distinct(sample)
    assert (np.bincount(sample.label) >= 100).all()


def test_two_columns_are_two_classes():
    two = draw(lambda X: np.column_stack((1 - plane(X), plane(X))), gauss())
    assert_same_bits(two, draw(plane, gauss()))
    assert (two.label == 0).all()


# ---------------------------------------------------------------- categories


def census(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "town": rng.choice(["Lima", "Oslo", "Rome"], n),
            "age": rng.normal(40, 10, n),
            "member": rng.random(n) > 0.4,
            "size": pd.Categorical(rng.choice(["S", "L"], n), categories=["S", "M", "L"]),
            "pay": rng.normal(size=n),
        }
    )


def census_score(X) -> np.ndarray:
    town = X["town"].map({"Lima": -1.0, "Oslo": 0.2, "Rome": 1.0}).to_numpy()
    size = (X["size"].astype(str) == "L").to_numpy() * 1.0
    age, member, pay = ((X[name].to_numpy() * 1.0) for name in ("age", "member", "pay"))
    return (age - 40) / 10 + town * (2 * member - 1) + 0.7 * size + 0.5 * pay


def census_model(X) -> np.ndarray:
    return expit(census_score(X))


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_categories_switch_and_are_never_interpolated(sampler):
    X = census()
    recorder = Recorder(census_model)
    sample = draw(recorder, X, 300, sampler=sampler)
    shown = pd.concat(recorder.shown)
    for name in ("town", "member", "size"):
        assert shown[name].dtype == X[name].dtype
        assert set(shown[name]) == set(X[name]), name  # "M" is declared but never observed
    assert_evidence(sample, judge(census_model, X))
    assert_distinct(sample)

    # at most one category switches across the last bracket, and it is the one that is named
    before, beyond = sample.ends()
    changed = (before != beyond)[:, [0, 2, 3]]
    assert (changed.sum(axis=1) == (sample.switched >= 0)).all()
    np.testing.assert_array_equal(
        np.array([0, 2, 3])[changed.argmax(axis=1)][changed.any(axis=1)], sample.switched[sample.switched >= 0]
    )
    assert set(sample.switched) >= ({-1, 0, 2, 3} if sampler.pairing == "random" else {-1, 0})
    # directions never move a category
    assert not sample.direction[:, [0, 2, 3]].any()
    codes = sample.points[:, [0, 2, 3]]
    np.testing.assert_array_equal(codes, np.rint(codes))

    # closed form: the score vanishes where nothing switches, and changes its sign where something does
    table = Table.learn(X)[0]
    low, high = (census_score(table.decode(end)) for end in (before, beyond))
    assert (low <= 0).all()
    assert (high > 0).all()
    jump = sample.switched >= 0
    np.testing.assert_allclose(low[~jump], 0, atol=1e-5)
    assert np.abs(high[jump] - low[jump]).min() > 0.1


def test_pipeline_with_one_hot_encoder():
    X = census()
    encoder = make_column_transformer((OneHotEncoder(), ["town", "member", "size"]), remainder="passthrough")
    pipeline = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(X, census_score(X) > 0)
    for rows in ("data", "box"):  # the encoder raises if it meets a category it does not know
        sample = draw(pipeline, X, 100, sampler=BisectionSampler(rows=rows))
        assert_evidence(sample, judge(pipeline, X))


def grid_model(n_classes: int):
    def model(X):
        total = sum(X[name].map({"a": 0, "b": 1, "c": 2}).to_numpy() for name in X)
        return (total % 2) * 1.0 if n_classes == 2 else np.eye(n_classes)[total % n_classes]

    return model


@pytest.mark.parametrize("n_classes", [2, 3])
def test_purely_categorical_rows(n_classes):
    # Rows are the corners of a 3 x 3 x 3 grid: the boundary is every edge whose ends differ in class, each once.
    X = pd.DataFrame(list(product("abc", repeat=3)), columns=list("pqr"))
    corners = list(product(range(3), repeat=3))
    edges = {
        (a, b)
        for a in corners
        for b in corners
        if sum(i != j for i, j in zip(a, b, strict=True)) == 1 and sum(a) % n_classes != sum(b) % n_classes
    }
    if n_classes == 2:
        edges = {(a, b) for a, b in edges if sum(a) % 2 == 0}  # seen from class 0
    with pytest.warns(FewBoundaryPointsWarning):
        sample = draw(grid_model(n_classes), X, 1000)
    before, beyond = sample.ends()
    found = [(tuple(map(int, a)), tuple(map(int, b))) for a, b in zip(before, beyond, strict=True)]
    assert len(found) == len(set(found))
    assert set(found) == edges
    np.testing.assert_array_equal(sample.label, [sum(a) % n_classes for a, _ in found])
    assert not sample.residual.any()
    assert (sample.switched >= 0).all()


def test_pairs_that_differ_in_many_categories():
    # No two of these rows differ in fewer than four columns: a point is found only if they switch one at a time.
    rng = np.random.default_rng(0)
    X = rng.choice([0.0, 1.0], (60, 30))
    differences = (X[:, None] != X[None]).sum(axis=2)
    assert differences[~np.eye(60, dtype=bool)].min() > 3
    spent = []
    for seed in range(3):
        recorder = Recorder(lambda rows: rows.sum(axis=1) % 2 * 1.0)
        sampler = BisectionSampler("random")
        sample = draw(recorder, X, 64, sampler=sampler, seed=seed, categorical_features=list(range(30)))
        before, beyond = sample.ends()
        np.testing.assert_array_equal((before != beyond).sum(axis=1), 1)
        assert (before.sum(axis=1) % 2 == 0).all()
        assert (beyond.sum(axis=1) % 2 == 1).all()
        assert len(np.unique(sample.switched)) > 15
        spent.append(recorder.n_rows)
    # Some log2(4 * 20) steps and 4 rows to check: no pair is lost and nothing is taken for a sliver.
    # A point found twice costs a second round.
    assert min(spent) <= 60 + 64 * 12


def test_path_switches_one_category_at_a_time():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=80), rng.integers(0, 3, (80, 5)).astype(float)))
    table, Z = Table.learn(X, categorical_features=[1, 2, 3, 4, 5])
    A, B = Z[:40], Z[40:]
    path, every = Path(table, A, B, np.random.default_rng(1)), np.arange(40)
    times = np.linspace(0, 1, 2001)
    walk = np.stack([path.at(np.full(40, t), every) for t in times])
    np.testing.assert_array_equal(walk[0], A)
    np.testing.assert_array_equal(walk[-1], B)
    np.testing.assert_allclose(walk[:, :, 0], (1 - times[:, None]) * A[:, 0] + times[:, None] * B[:, 0], atol=1e-12)
    switches = (np.diff(walk[:, :, 1:], axis=0) != 0).sum(axis=0)
    np.testing.assert_array_equal(switches, A[:, 1:] != B[:, 1:])  # each differing column once, the others never
    for pair in every:
        moments = np.flatnonzero((np.diff(walk[:, pair, 1:], axis=0) != 0).any(axis=1))
        assert len(moments) == switches[pair].sum()  # never two at once
        if len(moments) > 1:  # and no bracket that is short enough holds two
            assert np.diff(times[moments]).min() > path.longest_step[pair]
    first = [(np.diff(walk[:, pair, 1:], axis=0) != 0).any(axis=1).argmax() for pair in every]
    assert len(set(first)) > 20  # at random positions
    leading = {int((np.diff(walk[:, k, 1:], axis=0) != 0)[first[k]].argmax()) for k in every if switches[k].any()}
    assert leading == {0, 1, 2, 3, 4}  # in random order


def test_categories_of_an_array():
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=300), rng.normal(size=300), rng.choice([10.0, 20.0, 70.0], 300)))
    recorder = Recorder(lambda rows: expit(rows[:, 0] + rows[:, 1] - (rows[:, 2] - 30) / 20))
    sample = draw(recorder, X, 100, categorical_features=[2])
    assert set(np.concatenate(recorder.shown)[:, 2]) == {10.0, 20.0, 70.0}
    assert (sample.switched == 2).any()


# ---------------------------------------------------------------- counts and repeatability


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
@pytest.mark.parametrize("model", [plane, three_sectors], ids=["two", "three"])
def test_rows_are_counted(sampler, model):
    recorder = Recorder(model)
    assert draw(recorder, gauss(), 60, sampler=sampler).n_model_rows == recorder.n_rows


def test_only_the_rows_of_this_sample_are_counted():
    model = judge(plane, gauss())
    sampler = BisectionSampler()
    first, second = (sampler.draw(model, gauss(), 50, seed=0, progress=False) for _ in range(2))
    assert_same_bits(first, second)
    assert first.n_model_rows + second.n_model_rows == model.n_rows - 2


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_same_seed_same_bits(sampler):
    first, second, other = (draw(census_model, census(), 50, sampler=clone(sampler), seed=seed) for seed in (1, 1, 2))
    assert_same_bits(first, second)
    assert not set(map(bytes, first.points)) & set(map(bytes, other.points))


def test_number_of_points_is_exact_for_every_request():
    for n in (10, 11, 64, 65, 257):
        assert len(draw(plane, gauss(), n)) == n


def test_generators_as_random_state():
    for make in (np.random.default_rng, np.random.RandomState):
        assert_same_bits(draw(plane, gauss(), 20, seed=make(5)), draw(plane, gauss(), 20, seed=make(5)))
        source = make(5)
        first, second = draw(plane, gauss(), 20, seed=source), draw(plane, gauss(), 20, seed=source)
        assert (first.points != second.points).any()
    unseeded = [draw(plane, gauss(), 20, seed=None) for _ in range(2)]
    assert (unseeded[0].points != unseeded[1].points).any()


@pytest.mark.parametrize("seed", [0, None])
def test_global_generator_is_left_alone(seed):
    np.random.seed(123)
    before = np.random.get_state()
    for sampler in EVERY_SAMPLER:
        draw(census_model, census(), 20, sampler=sampler, seed=seed)
    after = np.random.get_state()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_global_generator_is_not_read():
    np.random.seed(1)
    first = draw(plane, gauss(), 20)
    np.random.seed(2)
    assert_same_bits(first, draw(plane, gauss(), 20))


def test_callers_rows_stay_as_they_were():
    X = gauss()
    X.setflags(write=False)
    copy = X.copy()
    draw(plane, X)
    np.testing.assert_array_equal(X, copy)


def test_float32_rows_give_the_answer_of_their_float64_copy():
    X = gauss().astype(np.float32)
    assert_same_bits(draw(plane, X), draw(plane, X.astype(np.float64)))


# ---------------------------------------------------------------- extremes and faults


@pytest.mark.parametrize("exponent", [-150, -30, 30, 150])
def test_any_unit(exponent):
    unit = 10.0**exponent
    sample = draw(lambda rows: plane(rows / unit), gauss() * unit)
    np.testing.assert_allclose(sample.points / unit @ W + 0.3, 0.0, atol=1e-5)
    assert np.isfinite(sample.direction).all()
    assert (2 * sample.residual <= TOLERANCE).all()


@pytest.mark.parametrize("exponent", [-150, -6, 6, 150])
def test_any_unit_without_standardisation(exponent):
    unit = 10.0**exponent
    sampler = BisectionSampler(tolerance=1e-6 * unit)
    sample = draw(lambda rows: plane(rows / unit), gauss() * unit, sampler=sampler, standardize=False)
    assert len(sample) == 100
    np.testing.assert_allclose(sample.points / unit @ W + 0.3, 0.0, atol=1e-5)
    assert (2 * sample.residual <= sampler.tolerance).all()


def test_units_side_by_side():
    unit = np.array([1e-150, 1.0, 1e150])
    sample = draw(lambda rows: plane(rows / unit), gauss() * unit)
    np.testing.assert_allclose(sample.points / unit @ W + 0.3, 0.0, atol=1e-5)


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_constant_column_stays_constant_to_the_last_bit(sampler):
    X = np.column_stack((gauss(d=2), np.full(300, 7.3)))
    recorder = Recorder(lambda rows: plane(rows[:, :2]))
    sample = draw(recorder, X, sampler=sampler)
    assert (np.concatenate(recorder.shown)[:, 2] == 7.3).all()
    assert not sample.direction[:, 2].any()


def test_model_that_fails_half_way():
    calls = []

    def model(X):
        calls.append(1)
        if len(calls) == 7:
            raise OSError("connection lost")
        return plane(X)

    with pytest.raises(ModelCallError, match=r"raised OSError on call 7 .*connection lost") as caught:
        draw(model, gauss())
    assert isinstance(caught.value.__cause__, OSError)


def test_model_that_cannot_answer_between_rows():
    whole = np.rint(2 * gauss())

    def model(X):
        return np.where((np.abs(X - np.rint(X)) < 0.01).all(axis=1), plane(X), np.nan)

    with pytest.raises(ModelOutputError, match=r"returned nan on call 2, row \d+; it must give finite numbers"):
        draw(model, whole)


@pytest.mark.parametrize(
    ("sampler", "options", "error", "message"),
    [
        (BisectionSampler(pairing="near"), {}, InputError, "pairing='near' is not one of 'nearest', 'random'"),
        (BisectionSampler(rows="all"), {}, InputError, "rows='all' is not one of 'data', 'box'"),
        (BisectionSampler(tolerance=0), {}, InputError, "tolerance=0 must be a finite number greater than 0"),
        (BisectionSampler(tolerance=-1e-3), {}, InputError, "tolerance=-0.001 must be"),
        (BisectionSampler(tolerance=np.nan), {}, InputError, "tolerance=nan must be"),
        (BisectionSampler(tolerance="fine"), {}, ParameterTypeError, "tolerance='fine' must be a number"),
        (BisectionSampler(), {"n_boundary": 9}, InputError, "n_boundary=9 must be at least 10"),
        (BisectionSampler(), {"n_boundary": 20.5}, ParameterTypeError, "n_boundary=20.5 must be a whole number"),
        (BisectionSampler(), {"n_boundary": True}, ParameterTypeError, "n_boundary=True must be a whole number"),
        (BisectionSampler(), {"random_state": -1}, InputError, "random_state=-1 must not be negative"),
        (BisectionSampler(), {"random_state": "seed"}, ParameterTypeError, "random_state='seed' must be"),
        (BisectionSampler(), {"progress": "yes"}, InputError, "progress='yes' is not one of 'auto', True, False"),
        (BisectionSampler(), {"standardize": "no"}, InputError, "standardize='no' is not one of True, False"),
        (BisectionSampler(), {"threshold": 2}, InputError, "threshold=2 must be a number between 0 and 1"),
        (BisectionSampler(), {"model_output": "score"}, InputError, "model_output='score' is not one of"),
        (BisectionSampler(), {"categorical_features": ["z"]}, InputError, "categorical_features has 'z'"),
    ],
)
def test_bad_parameters_are_refused_before_the_first_call(sampler, options, error, message):
    recorder = Recorder(plane)
    with pytest.raises(error) as caught:
        sampler.sample(recorder, gauss(), **options)
    assert str(caught.value).startswith(message)
    assert recorder.n_rows == 0


def test_sampler_is_an_estimator():
    sampler = clone(BisectionSampler("random", "box", 1e-4))
    assert sampler.get_params() == {"pairing": "random", "rows": "box", "tolerance": 1e-4, "n_walk": 0}
    assert repr(sampler) == "BisectionSampler(pairing='random', rows='box', tolerance=0.0001)"
