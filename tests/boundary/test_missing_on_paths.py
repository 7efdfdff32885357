"""Missing values on the way between two rows: kept where both lack them, else switched, never invented."""

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import (
    EVERY_SAMPLER,
    Recorder,
    assert_distinct,
    assert_evidence,
    assert_same_bits,
    census,
    draw,
    fitted_boundary,
    gauss,
    judge,
    plane,
)
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from archive_helpers import from_tree, through_file, tree_of
from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample
from gpec.boundary.base import join
from gpec.data import Schema
from gpec.errors import FewBoundaryPointsWarning, InputError

NAN = np.nan


def with_holes(n: int = 500, seed: int = 0) -> pd.DataFrame:
    """Numbers and categories that may be missing, and two columns that never are."""
    rng = np.random.default_rng(seed)
    frame = census(n, seed)
    frame.loc[rng.random(n) < 0.3, "age"] = NAN
    frame.loc[rng.random(n) < 0.2, "town"] = None
    return frame


def score(frame) -> np.ndarray:
    age = (frame["age"].to_numpy(dtype=float) - 40) / 10
    town = frame["town"].map({"Lima": -1.0, "Oslo": 0.2, "Rome": 1.0}).fillna(0.6).to_numpy(dtype=float)
    return np.where(np.isnan(age), -0.7, age) + town + 0.5 * frame["pay"].to_numpy() - 0.3


def model(frame) -> np.ndarray:
    return expit(score(frame))


@pytest.fixture(scope="module")
def sample() -> BoundarySample:
    return draw(model, with_holes(), 300, sampler=BisectionSampler("random"))


# ---------------------------------------------------------------- samples


@pytest.mark.parametrize("n_walk", [0, 15])
@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_every_point_keeps_its_evidence(sampler, n_walk):
    X, recorder = with_holes(), Recorder(model)
    found = draw(recorder, X, 150, sampler=BisectionSampler(sampler.pairing, sampler.rows, n_walk=n_walk))
    assert len(found) == 150
    assert_evidence(found, judge(model, X))
    assert_distinct(found)
    shown = pd.concat(recorder.shown)
    assert not shown[["member", "size", "pay"]].isna().any().any()  # columns that never lack a value
    assert shown["age"].isna().any()
    assert shown["town"].isna().any()
    assert set(shown["town"].dropna()) == {"Lima", "Oslo", "Rome"}


def test_what_is_switched(sample):
    columns = dict(enumerate(with_holes().columns))
    near, far = sample.ends()
    lacks_near, lacks_far = np.isnan(near), np.isnan(far)
    changes = lacks_near != lacks_far
    assert (changes.sum(axis=1) <= 1).all()
    for j, name in columns.items():
        rows = np.flatnonzero(changes[:, j])
        assert (sample.switched[rows] == j).all(), name
        np.testing.assert_array_equal(sample.switched_to[rows], far[rows, j])
        assert not sample.direction[rows, j].any()
    appears, vanishes = changes & lacks_near, changes & lacks_far
    for j in (0, 1):  # town and age come and go
        assert appears[:, j].any()
        assert vanishes[:, j].any()
    assert not sample.direction[np.isnan(sample.points)].any()
    assert np.isfinite(sample.direction).all()
    assert np.isfinite(sample.residual).all()
    assert (sample.switched == -1).any()
    assert (sample.switched_to[sample.switched == -1] == -1).all()


def test_closed_form(sample):
    """The score vanishes where nothing switches, and changes its sign where something does."""
    schema = Schema.learn(with_holes())[0]
    low, high = (score(schema.decode(end)) for end in sample.ends())
    assert (low <= 0).all()
    assert (high > 0).all()
    np.testing.assert_allclose(low[sample.switched == -1], 0, atol=1e-5)
    number_appears = (sample.switched == 1) & np.isnan(sample.points[:, 1])
    jump = (sample.switched_to[number_appears] - 40) / 10 + 0.7  # from what a missing age counts
    np.testing.assert_allclose((high - low)[number_appears], jump, atol=1e-5)


def test_flipped_swaps_the_ends(sample):
    flipped = sample.flipped(np.ones(len(sample), dtype=np.int64))
    (before, beyond), (far, near) = sample.ends(), flipped.ends()
    np.testing.assert_array_equal(far, beyond)
    np.testing.assert_array_equal(near, before)
    assert_same_bits(flipped.flipped(sample.label), sample)


def test_states_and_joins(sample):
    assert_same_bits(through_file(BoundarySample, sample), sample)
    both = join([sample, sample])
    np.testing.assert_array_equal(both.switched_to, np.tile(sample.switched_to, 2))


def test_codes_of_an_earlier_version_are_whole_numbers(sample):
    earlier = sample.take(np.flatnonzero(~np.isnan(sample.switched_to)))
    state = tree_of(earlier) | {"switched_to": earlier.switched_to.astype(np.int64)}
    assert from_tree(BoundarySample, state).switched_to.dtype == np.float64


def test_it_belongs_to_its_model(sample):
    sample.require_on_boundary(judge(model, with_holes()), seed=0)


def test_where_only_missing_values_matter():
    """The boundary is every switch between a number and none."""
    X = gauss(300, 2)
    X[np.random.default_rng(1).random(300) < 0.4, 0] = NAN
    found = draw(lambda rows: np.isnan(rows[:, 0]) * 1.0, X, 100)
    assert (found.switched == 0).all()
    assert np.isnan(found.switched_to).all()
    assert np.isfinite(found.points).all()
    again = draw(lambda rows: 1.0 - np.isnan(rows[:, 0]), X, 100)  # and from the other side
    assert np.isnan(again.points[:, 0]).all()
    # a number is that of a row: it does not move on its way
    steps = np.abs(again.switched_to[:, None] - X[np.isfinite(X[:, 0]), 0]).min(axis=1)
    assert steps.max() < 1e-3


def test_a_switch_found_from_both_sides_is_one_point():
    """With three classes each switch is looked for twice: from missing to the number, and back."""
    kinds = np.arange(24.0)
    X = np.array([[value, kind] for kind in kinds for value in (NAN, 1.0, 3.0)])

    def three(rows):
        return np.eye(3)[np.where(np.isnan(rows[:, 0]), 0, np.where(rows[:, 0] > 2, 2, 1))]

    with pytest.warns(FewBoundaryPointsWarning, match="distinct boundary points for class 2 instead of n_boundary"):
        found = draw(three, X, 100_000, categorical_features=[1])
    before, beyond = found.ends()
    switches = found.switched == 0
    edges = [frozenset((a.tobytes(), b.tobytes())) for a, b in zip(before[switches], beyond[switches], strict=True)]
    assert len(edges) >= 24
    assert set(pd.Series(edges).value_counts()) == {2}  # once for each of its two classes


def test_one_feature():
    X = gauss(200, 1)
    X[::4] = NAN
    found = draw(lambda rows: np.where(np.isnan(rows[:, 0]), 0.9, rows[:, 0] > 0.2), X, 1_000)
    plain = found.switched == -1
    np.testing.assert_allclose(found.points[plain], [[0.2]], atol=1e-6)
    below = (X[:, 0] <= 0.2).sum()
    assert (found.switched == 0).sum() == below  # each number of the other class is one switch away
    assert np.isnan(found.switched_to[~plain]).all()


def test_boosted_trees():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 4))
    X[rng.random(X.shape) < 0.2] = NAN
    X[:, 3] = rng.integers(0, 5, 800)
    y = np.nansum(X[:, :3], axis=1) + 0.8 * np.isnan(X[:, 0]) + 0.3 * X[:, 3] > 0.6
    trees = HistGradientBoostingClassifier(max_iter=40, random_state=0).fit(X, y)
    recorder = Recorder(trees.predict_proba)
    found = draw(recorder, X, 300)
    assert_evidence(found, judge(trees, X))
    assert_distinct(found)
    assert not np.isnan(np.concatenate(recorder.shown)[:, 3]).any()
    assert found.n_model_rows == recorder.n_rows < 60 * 300


def test_missing_values_that_do_not_matter_change_no_count():
    X = gauss(300, 3)
    X[:, 2] = np.where(np.arange(300) % 3 == 0, NAN, X[:, 2])
    found = draw(lambda rows: plane(rows[:, :2]), X, 100)
    np.testing.assert_allclose(found.points[:, :2] @ [2.0, -1.0], -0.3, atol=1e-5)
    assert (found.switched == -1).all()
    assert np.isnan(found.points[:, 2]).any()


# ---------------------------------------------------------------- rows from the box


def test_box_rows_lack_values_as_often_as_the_data():
    X, recorder = with_holes(2_000), Recorder(model)
    draw(recorder, X, 1_000, sampler=BisectionSampler(rows="box"))
    first = recorder.shown[0]
    for name in X:
        assert abs(first[name].isna().mean() - X[name].isna().mean()) < 0.05, name
    known = first["age"].dropna()
    assert known.between(X["age"].min(), X["age"].max()).all()
    np.testing.assert_allclose(known.mean(), (X["age"].min() + X["age"].max()) / 2, atol=2.0)  # uniform


def test_box_with_a_column_that_is_missing_altogether():
    X = gauss(200, 3)
    X[:, 2] = NAN
    for rows in ("data", "box"):
        found = draw(lambda rows: plane(rows[:, :2]), X, 50, sampler=BisectionSampler(rows=rows))
        assert np.isnan(found.points[:, 2]).all()
        assert (found.switched == -1).all()


def test_without_standardisation():
    X = 1e-7 * gauss(300, 3)
    X[::4, 2] = NAN
    found = draw(lambda rows: plane(rows[:, :2] / 1e-7), X, 100, standardize=False)
    np.testing.assert_allclose(found.points[:, :2] / 1e-7 @ [2.0, -1.0], -0.3, atol=1e-5)


# ---------------------------------------------------------------- what is given, what is refused


def test_given_points_may_lack_values(sample):
    X = with_holes()
    for points in (sample.points, Schema.learn(X)[0].decode(sample.points), sample):
        np.testing.assert_array_equal(fitted_boundary(points, model, X).points, sample.points)
    points = BoundarySample.from_points([[1.0, NAN]]).points
    np.testing.assert_array_equal(points, [[1.0, NAN]])


@pytest.mark.parametrize("column", ["pay", "member"])
def test_given_points_may_not_lack_what_no_row_lacks(sample, column):
    X, points = with_holes(), sample.points.copy()
    points[3, list(X).index(column)] = NAN
    with pytest.raises(InputError, match=rf"boundary has a missing value in row 3, column '{column}'"):
        fitted_boundary(points, model, X)


def test_attacks_refuse_missing_values():
    torch = pytest.importorskip("torch")
    X = gauss(100, 3)
    X[5, 1] = NAN
    with pytest.raises(InputError, match=r"^AdversarialSampler .* missing values .*BisectionSampler\(\), or impute"):
        AdversarialSampler().sample(torch.nn.Linear(3, 2), X, 20)
