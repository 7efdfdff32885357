"""Boundary points by bisection: closed forms, the last bracket, several classes, units and faults."""

import re

import numpy as np
import pytest
from boundary_helpers import (
    EVERY_SAMPLER,
    TOLERANCE,
    Recorder,
    W,
    assert_distinct,
    assert_evidence,
    assert_same_bits,
    circle,
    draw,
    few_rows,
    gauss,
    judge,
    plane,
    three_sectors,
)
from scipy.special import expit
from sklearn.base import clone

from gpec.boundary import BisectionSampler, BoundarySample
from gpec.data import Schema
from gpec.errors import FewBoundaryPointsWarning, InputError, ModelCallError, ModelOutputError, ParameterTypeError

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


def typical_distance(X):
    """The unit of raw distances: from the middle, for one column."""
    return np.median(np.linalg.norm(X - np.median(X, axis=0), axis=1)) / np.sqrt(X.shape[1])


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-9])
@pytest.mark.parametrize("standardize", [True, False])
def test_bracket_is_shorter_than_the_tolerance(tolerance, standardize):
    X = 5 + 3 * gauss()
    sample = draw(plane, X, 50, sampler=BisectionSampler(tolerance=tolerance), standardize=standardize)
    scale = Schema.learn(X, standardize=standardize)[0].scale
    before, beyond = sample.ends()
    np.testing.assert_allclose(np.linalg.norm((beyond - before) / scale, axis=1), 2 * sample.residual, rtol=1e-4)
    longest = tolerance if standardize else tolerance * typical_distance(X)
    assert (2 * sample.residual <= longest).all()
    assert (2 * sample.residual > longest / 4).all()  # and no row was wasted on a shorter one
    np.testing.assert_allclose(np.linalg.norm(sample.direction / scale, axis=1), 1.0, rtol=1e-5)


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
    X /= Schema.learn(X)[0].scale
    X[:, 0] = 0.01 * np.floor(X[:, 0] / 0.01) + 0.005  # no row lies in a sliver itself
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


def test_two_columns_are_two_classes():
    two = draw(lambda X: np.column_stack((1 - plane(X), plane(X))), gauss())
    assert_same_bits(two, draw(plane, gauss()))
    assert (two.label == 0).all()


# ---------------------------------------------------------------- units


@pytest.mark.parametrize("exponent", [-150, -30, 30, 150])
def test_any_unit(exponent):
    unit = 10.0**exponent
    sample = draw(lambda rows: plane(rows / unit), gauss() * unit)
    np.testing.assert_allclose(sample.points / unit @ W + 0.3, 0.0, atol=1e-5)
    assert np.isfinite(sample.direction).all()
    assert (2 * sample.residual <= TOLERANCE).all()


@pytest.mark.parametrize("exponent", [-150, -7, 7, 150])
def test_any_unit_without_standardisation(exponent):
    unit = 10.0**exponent
    sample = draw(lambda rows: plane(rows / unit), gauss() * unit, standardize=False)
    assert len(sample) == 100
    np.testing.assert_allclose(sample.points / unit @ W + 0.3, 0.0, atol=1e-5)
    assert (2 * sample.residual <= TOLERANCE * unit).all()
    assert (2 * sample.residual > 0.1 * TOLERANCE * unit).all()
    np.testing.assert_allclose(np.linalg.norm(sample.direction, axis=1), 1.0, rtol=1e-5)
    plain = draw(plane, gauss(), standardize=False)
    assert sample.n_model_rows == plain.n_model_rows  # the search is the same in every unit
    np.testing.assert_allclose(sample.points / unit, plain.points, atol=1e-5)


def test_without_standardisation_one_far_row_does_not_blunt_the_search():
    X = gauss()
    X[0] = 1e6
    sample = draw(plane, X, standardize=False)
    assert (2 * sample.residual <= 2 * TOLERANCE).all()


def test_without_standardisation_columns_that_mostly_stand_still_have_a_unit():
    """Most rows lie in the middle of each column: the others tell the unit."""
    X = 1e-7 * gauss(400) * (np.random.default_rng(1).random((400, 3)) < 0.1)
    sample = draw(lambda rows: expit((rows[:, 0] + rows[:, 1] + rows[:, 2]) / 1e-7 - 0.5), X, 30, standardize=False)
    np.testing.assert_allclose(sample.points.sum(axis=1) / 1e-7, 0.5, atol=1e-5)


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


# ---------------------------------------------------------------- faults


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

    with pytest.raises(ModelOutputError, match=r"returned nan on call 3, row \d+; it must give finite numbers"):
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
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        sampler.sample(recorder, gauss(), **options)
    assert recorder.n_rows == 0


def test_sampler_is_an_estimator():
    sampler = clone(BisectionSampler("random", "box", 1e-4))
    assert sampler.get_params() == {"pairing": "random", "rows": "box", "tolerance": 1e-4, "n_walk": 0}
    assert repr(sampler) == "BisectionSampler(pairing='random', rows='box', tolerance=0.0001)"
