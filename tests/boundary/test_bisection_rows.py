"""Which rows bisection pairs: the nearest first, from the data or from its box; repeatable and counted."""

from itertools import product

import numpy as np
import pytest
from boundary_helpers import (
    EVERY_SAMPLER,
    TOLERANCE,
    Recorder,
    assert_distinct,
    assert_evidence,
    assert_same_bits,
    census,
    census_model,
    circle,
    draw,
    gauss,
    judge,
    plane,
    three_sectors,
)
from scipy.special import expit
from sklearn.base import clone

from gpec.boundary import BisectionSampler
from gpec.data import Schema
from gpec.errors import BoundaryNotFoundError

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
    X /= Schema.learn(X)[0].scale
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


# ---------------------------------------------------------------- rows


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


def test_callers_rows_stay_as_they_were():
    X = gauss()
    X.setflags(write=False)
    copy = X.copy()
    draw(plane, X)
    np.testing.assert_array_equal(X, copy)


def test_float32_rows_give_the_answer_of_their_float64_copy():
    X = gauss().astype(np.float32)
    assert_same_bits(draw(plane, X), draw(plane, X.astype(np.float64)))


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
    assert first.n_model_rows + second.n_model_rows == model.n_rows - 20  # seen before


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
