"""The boundary sample itself: its evidence, its parts, and whether it belongs to a model."""

import re
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import assert_same_bits, draw, gauss, judge, plane, three_sectors
from scipy.special import expit

from archive_helpers import from_tree, tree_of
from gpec.boundary import BoundarySample
from gpec.boundary.base import join
from gpec.errors import CorruptFileError, InputError, ModelMismatchError, ParameterTypeError

RNG = np.random.default_rng(0)
X = gauss(d=2)
MIXED = pd.DataFrame({"x": RNG.normal(size=300), "kind": RNG.choice(["a", "b", "c"], 300), "y": RNG.normal(size=300)})


def shifted(rows):
    return plane(rows + 0.3)


def by_kind(rows):
    level = rows["kind"].map({"a": -1.0, "b": 0.0, "c": 1.0}).to_numpy()
    return expit(5 * (rows["x"].to_numpy() + 0.5 * rows["y"].to_numpy() - level))


@pytest.fixture(scope="module")
def mixed() -> BoundarySample:
    return draw(by_kind, MIXED, 200)


@pytest.fixture(scope="module")
def binary() -> BoundarySample:
    return draw(plane, X, 150)


@pytest.fixture(scope="module")
def multi() -> BoundarySample:
    return draw(three_sectors, X, 60)


# ---------------------------------------------------------------- its parts


def test_shapes_and_types(mixed):
    J = len(mixed)
    assert J == 200
    assert mixed.points.shape == mixed.direction.shape == (J, 3)
    for name in ("residual", "label", "switched", "switched_to"):
        assert getattr(mixed, name).shape == (J,), name
    for name in ("points", "direction", "residual", "switched_to"):
        assert getattr(mixed, name).dtype == np.float64, name
    for name in ("label", "switched"):
        assert getattr(mixed, name).dtype == np.int64, name
    assert (mixed.label == 0).all()
    assert set(mixed.switched) == {-1, 1}  # both kinds of crossing occur
    np.testing.assert_array_equal(mixed.switched_to == -1, mixed.switched == -1)


def test_it_cannot_be_changed(binary):
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'residual'"):
        binary.residual = np.zeros(len(binary))


def test_ends_by_hand():
    sample = BoundarySample(
        points=np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]]),
        direction=np.array([[3.0, -4.0, 0.0], [0.5, 0.0, 0.0]]),
        residual=np.array([0.5, 2.0]),
        label=np.array([0, 0]),
        n_model_rows=7,
        switched=np.array([-1, 2]),
        switched_to=np.array([-1.0, 4.0]),
    )
    before, beyond = sample.ends()
    np.testing.assert_array_equal(before, [[-0.5, 4.0, 0.0], [0.0, 2.0, 0.0]])
    np.testing.assert_array_equal(beyond, [[2.5, 0.0, 0.0], [2.0, 2.0, 4.0]])
    np.testing.assert_array_equal(sample.points, [[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]])


def test_take_and_of(multi):
    part = multi.take(np.array([5, 2]))
    assert len(part) == 2
    np.testing.assert_array_equal(part.points, multi.points[[5, 2]])
    np.testing.assert_array_equal(part.residual, multi.residual[[5, 2]])
    for y in range(3):
        own = multi.of(y)
        assert (own.label == y).all()
        np.testing.assert_array_equal(own.points, multi.points[multi.label == y])
        np.testing.assert_array_equal(own.direction, multi.direction[multi.label == y])
        assert own.n_model_rows == multi.n_model_rows
    assert sum(len(multi.of(y)) for y in range(3)) == len(multi)


def test_flipped_swaps_the_ends(mixed):
    copies = {field.name: np.copy(getattr(mixed, field.name)) for field in fields(mixed)}
    other = np.arange(len(mixed))
    flipped = mixed.flipped(other)
    (before, beyond), (far, near) = mixed.ends(), flipped.ends()
    np.testing.assert_array_equal(far, beyond)
    np.testing.assert_array_equal(near, before)
    np.testing.assert_array_equal(flipped.label, other)
    assert_same_bits(flipped.flipped(mixed.label), mixed)
    for name, copy in copies.items():
        np.testing.assert_array_equal(getattr(mixed, name), copy, err_msg=name)


def test_join_adds_up(binary, multi):
    both = join([binary, multi])
    assert len(both) == len(binary) + len(multi)
    assert both.n_model_rows == binary.n_model_rows + multi.n_model_rows
    assert_same_bits(replace(both.take(np.arange(len(binary))), n_model_rows=binary.n_model_rows), binary)


def test_state_round_trip(mixed):
    state = tree_of(mixed)
    assert_same_bits(from_tree(BoundarySample, state), mixed)
    with pytest.raises(CorruptFileError, match=r"BoundarySample\.residual is missing"):
        from_tree(BoundarySample, {name: value for name, value in state.items() if name != "residual"})


# ---------------------------------------------------------------- points taken on trust


def test_from_points_copies():
    points = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    sample = BoundarySample.from_points(points)
    np.testing.assert_array_equal(sample.points, points)
    assert sample.points.dtype == np.float64
    sample.points[:] = 0.0
    assert points.any()
    assert sample.n_model_rows == 0
    assert not sample.residual.any()
    assert (sample.switched == -1).all()
    assert (sample.label == 0).all()


@pytest.mark.parametrize(
    ("points", "error", "message"),
    [
        (np.zeros(3), InputError, r"boundary must have 2 dimensions \(points, features\), got shape \(3,\)"),
        (np.zeros((2, 2, 2)), InputError, r"got shape \(2, 2, 2\)"),
        ([[0.0, np.nan, -np.inf]], InputError, r"boundary has -inf at index \(0, 2\)"),
        ([[np.inf, 0.0]], InputError, r"boundary has .*inf.* at index \(0, 0\)"),
        ([["a", "b"]], ParameterTypeError, "boundary must be an array of real numbers"),
        (np.ones((2, 2), dtype=complex), ParameterTypeError, "boundary must be an array of real numbers"),
    ],
)
def test_from_bad_points(points, error, message):
    with pytest.raises(error, match=message):
        BoundarySample.from_points(points)


# ---------------------------------------------------------------- does it belong to the model


def test_own_model_is_accepted_and_few_rows_are_spent(binary, multi, mixed):
    for sample, model in ((binary, judge(plane, X)), (multi, judge(three_sectors, X)), (mixed, judge(by_kind, MIXED))):
        before = model.n_rows
        sample.require_on_boundary(model, seed=0)
        assert 0 < model.n_rows - before <= 200


def test_another_model_is_refused(binary, mixed):
    with pytest.raises(ModelMismatchError, match=r"across 100 of 100 points checked; sample it again"):
        binary.require_on_boundary(judge(shifted, X), seed=0)
    moved = judge(lambda rows: by_kind(rows.assign(x=rows["x"] + 0.5)), MIXED)
    with pytest.raises(ModelMismatchError, match="boundary does not belong to this model"):
        mixed.require_on_boundary(moved, seed=0)


def test_same_classes_in_another_order_are_refused(multi):
    permuted = judge(lambda rows: three_sectors(rows)[:, [1, 2, 0]], X)
    with pytest.raises(ModelMismatchError, match="boundary does not belong to this model"):
        multi.require_on_boundary(permuted, seed=0)


def test_two_classes_may_be_named_the_other_way_round(binary):
    other = judge(lambda rows: 1 - plane(rows), X)
    assert (other.labels(binary.ends()[0]) == 1).all()  # not the class that the sample names
    before = other.n_rows
    binary.require_on_boundary(other, seed=0)
    assert other.n_rows - before == 200  # and yet it was looked at, not taken on trust


@pytest.mark.parametrize(("error", "belongs"), [(1e-6, True), (1e-4, True), (1e-2, False)])
def test_rounding_of_the_model_is_forgiven_but_not_another_boundary(binary, error, belongs):
    def rounding(rows):  # as a network in single precision does: it depends on how many rows are asked about
        return plane(rows + (error if len(rows) == 100 else 0.0))

    assert binary.residual.max() < 1e-6
    checked = judge(rounding, X)
    if belongs:
        binary.require_on_boundary(checked, seed=0)
    else:
        with pytest.raises(ModelMismatchError, match="100 of 100 points"):
            binary.require_on_boundary(checked, seed=0)


def test_too_few_points(binary):
    binary.take(np.arange(10)).require_on_boundary(judge(plane, X), seed=0)
    with pytest.raises(InputError, match=r"boundary has \[9\] points by class, but this model needs at least 10"):
        binary.take(np.arange(9)).require_on_boundary(judge(plane, X), seed=0)
    with pytest.raises(InputError, match=r"boundary has \[0\] points"):
        BoundarySample.from_points(np.zeros((0, 2))).require_on_boundary(judge(plane, X), seed=0)


def test_wrong_number_of_classes(binary, multi):
    with pytest.raises(InputError, match=r"boundary has \[150, 0, 0\] points by class.*each of 3"):
        binary.require_on_boundary(judge(three_sectors, X), seed=0)
    counts = np.bincount(multi.label).tolist()
    message = re.escape(f"boundary has {counts} points by class, but this model needs at least 10 for each of 1;")
    with pytest.raises(InputError, match=message):
        multi.require_on_boundary(judge(plane, X), seed=0)


def test_points_on_trust_cost_nothing():
    model = judge(plane, X)
    before = model.n_rows
    BoundarySample.from_points(np.zeros((10, 2))).require_on_boundary(model, seed=0)
    assert model.n_rows == before
