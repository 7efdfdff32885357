"""The search between two rows: which way a path takes, which changes of class count, and which rows make pairs."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpec.boundary import _pairs
from gpec.boundary._pairs import PairStream
from gpec.boundary._search import Collection, Paths, SearchScale, bisect
from gpec.data import Schema
from gpec.models import Model

NAN = np.nan
NUMBERS = np.arange(7) < 4

# Paths


def pairs_of_rows(missing, n=40):
    """Rows of numbers (columns 0 to 3) and categories (4 to 6), of which some lack values."""
    rng = np.random.default_rng(0)
    Z = np.column_stack((rng.normal(size=(2 * n, 4)), rng.integers(0, 3, (2 * n, 3)))).astype(float)
    Z[rng.random(Z.shape) < missing] = NAN
    schema = Schema.learn(Z, categorical_features=[4, 5, 6])[0]
    return schema, Z[:n], Z[n:]


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_numbers_move_in_a_line_and_all_else_switches_once(missing):
    schema, A, B = pairs_of_rows(missing)
    paths, every = Paths(schema, A, B, np.random.default_rng(1)), np.arange(len(A))
    times = np.linspace(0, 1, 4001)
    way = np.stack([paths.at(np.full(len(A), t), every) for t in times])
    np.testing.assert_array_equal(way[0], A)
    np.testing.assert_array_equal(way[-1], B)
    lacks_a, lacks_b = np.isnan(A), np.isnan(B)
    assert np.isnan(way[:, lacks_a & lacks_b]).all()  # kept
    assert not np.isnan(way[:, ~lacks_a & ~lacks_b]).any()  # never invented
    both = ~lacks_a & ~lacks_b & NUMBERS
    line = (1 - times[:, None]) * A[both] + times[:, None] * B[both]
    np.testing.assert_allclose(way[:, both], line, atol=1e-12)
    np.testing.assert_allclose(
        paths.length, np.linalg.norm(np.where(both, B - A, 0.0)[:, :4] / schema.scale[:4], axis=1)
    )
    one = lacks_a != lacks_b
    assert one.any() == bool(missing)
    switches = one | (~NUMBERS & ~(lacks_a & lacks_b) & (A != B))
    states = way[:, switches]  # nothing but those of the two ends
    is_a = (states == A[switches]) | (np.isnan(states) & lacks_a[switches])
    is_b = (states == B[switches]) | (np.isnan(states) & lacks_b[switches])
    assert (is_a ^ is_b).all()
    np.testing.assert_array_equal((np.diff(is_b.astype(int), axis=0) == 1).sum(axis=0), 1)
    first = []
    for pair in every:
        here = way[:, pair]
        changed = ~((here[1:] == here[:-1]) | (np.isnan(here[1:]) & np.isnan(here[:-1])))[:, switches[pair]]
        assert changed.sum(axis=1).max(initial=0) <= 1  # never two at once
        moments = np.flatnonzero(changed.any(axis=1))
        if len(moments) > 1:  # and no bracket that is short enough holds two
            assert np.diff(times[moments]).min() > paths.longest_step[pair]
            first.append((moments[0], np.flatnonzero(switches[pair])[changed[moments[0]].argmax()]))
    moments, columns = zip(*first, strict=True)
    assert len(set(moments)) > 20  # at random positions
    assert set(columns) >= {4, 5, 6}  # in random order


def test_each_switch_lies_in_the_middle_half_of_its_share_of_the_way():
    rng = np.random.default_rng(0)
    schema, Z = Schema.learn(rng.integers(4, size=(400, 5)).astype(float), categorical_features=range(5))
    A, B = np.split(Z, 2)
    paths = Paths(schema, A, B, rng)
    share = []
    for switches, at in zip(paths.switches, paths.switch_at, strict=True):
        n = switches.sum()
        share += (n * np.sort(at[switches]) - np.arange(n)).tolist()
    assert len(share) == (A != B).sum()
    assert 0.25 <= min(share) < 0.27
    assert 0.73 < max(share) <= 0.75


# Lengths


@pytest.mark.parametrize("n", [500, 2_000, 4_100, 10_000, 40_000])
def test_the_unit_is_that_of_all_rows(n):
    """The unit of raw rows is taken from a part of them where there are many."""
    X = 7.0 * np.random.default_rng(n).normal(size=(n, 3)) + 100.0
    schema, Z = Schema.learn(X, standardize=False)
    search_scale = SearchScale.of(schema, Z, 1e-6)
    unit = np.median(np.linalg.norm(X - np.median(X, axis=0), axis=1)) / np.sqrt(3)
    assert search_scale.unit == pytest.approx(unit, rel=0.05 if n > 2_000 else 1e-9)
    assert search_scale.tolerance == pytest.approx(1e-6 * search_scale.unit)
    assert SearchScale.of(Schema.learn(X)[0], Z, 1e-6).unit == 1.0


# Slivers: boundary points are changes between classes that last for a while


WIDTH, PERIOD, CHANGE = 0.05, 1.0, 6.03


def striped(rows):
    """The class changes at 6.03, and for a twentieth of a unit after each whole number away from it."""
    x = rows[:, 0]
    sliver = (np.mod(x, PERIOD) < WIDTH) & (np.abs(x - CHANGE) > 0.5)
    return ((x > CHANGE) ^ sliver) * 1.0


def crossings(clear, unit):
    """Where paths of length 10 are found to cross; all lengths times ``unit``."""
    rng = np.random.default_rng(0)
    A, B = (unit * np.column_stack((start + 0.3 * rng.random(300), np.zeros(300))) for start in (0.1, 10.1))
    schema, Z = Schema.learn(np.concatenate((A, B)), standardize=False)
    model = Model(lambda rows: striped(rows / unit), schema)
    model.labels(Z)
    search_scale = SearchScale(unit, 1e-6 * unit, clear * unit)
    sample, _ = bisect(model, A, B, np.zeros(300, dtype=np.int64), search_scale, rng)
    assert len(sample) == 300
    return sample.points[:, 0] / unit


@pytest.mark.parametrize("unit", [0.5, 1.0, 2.5, 1e-3])
@pytest.mark.parametrize("clear", [0.2, 0.4])
def test_slivers_of_less_than_half_that_length_are_passed_over(clear, unit):
    np.testing.assert_allclose(crossings(clear, unit), CHANGE, atol=1e-5)


@pytest.mark.parametrize("unit", [0.5, 1.0, 2.5, 1e-3])
@pytest.mark.parametrize("clear", [0.04, 1e-4])
def test_classes_that_last_longer_are_not(clear, unit):
    x = crossings(clear, unit)
    assert 0.02 < (np.abs(x - CHANGE) > 0.4).mean() < 0.5
    offset = np.mod(x + 0.5, PERIOD) - 0.5
    near = np.abs(x - CHANGE) < 1e-5
    assert (near | (np.abs(offset) < 1e-5) | (np.abs(offset - WIDTH) < 1e-5)).all()


@pytest.mark.parametrize(
    ("n_outputs", "wanted", "missing"),
    [(1, 7, {0: 7}), (3, 7, {0: 4, 1: 4, 2: 4}), (3, 8, {0: 4, 1: 4, 2: 4}), (2, 1, {0: 1, 1: 1})],
)
def test_every_point_serves_two_of_several_classes(n_outputs, wanted, missing):
    found = Collection(SimpleNamespace(n_outputs=n_outputs), SimpleNamespace(tolerance=1e-6), wanted)
    assert found.missing() == missing


# Pairs of rows of opposite class: each once, the nearest first


def stream(n: int = 40, *, nearest: bool = True, seed: int = 0, share: float = 0.4):
    rng = np.random.default_rng(7)
    E = rng.normal(size=(n, 3))
    side = rng.random(n) < share
    inside, outside = np.flatnonzero(side), np.flatnonzero(~side)
    return PairStream(E, inside, outside, nearest=nearest, rng=np.random.default_rng(seed)), E, inside, outside


def as_set(taken) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in taken}


def partners_up_to(rank: int, E, inside, outside) -> set[tuple[int, int]]:
    """Each row with its ``rank`` nearest rows on the other side, by brute force."""
    D = np.linalg.norm(E[inside][:, None] - E[outside][None], axis=2)
    near_outside, near_inside = D.argsort(axis=1)[:, :rank], D.argsort(axis=0)[:rank]
    one = {(int(i), int(outside[k])) for i, row in zip(inside, near_outside, strict=True) for k in row}
    two = {(int(inside[k]), int(o)) for o, column in zip(outside, near_inside.T, strict=True) for k in column}
    return one | two


@pytest.mark.parametrize("nearest", [True, False])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_every_pair_comes_once(nearest, step):
    source, _, inside, outside = stream(nearest=nearest)
    taken = []
    while len(batch := source.take(step)):
        taken += [(int(a), int(b)) for a, b in batch]
    assert len(taken) == len(set(taken)) == len(inside) * len(outside)
    assert {a for a, _ in taken} == set(inside.tolist())
    assert {b for _, b in taken} == set(outside.tolist())
    assert len(source.take(5)) == 0


def test_nearest_pairs_come_first_then_further_partners():
    source, E, inside, outside = stream()
    taken: set[tuple[int, int]] = set()
    for rank in range(1, 11):
        expected = partners_up_to(rank, E, inside, outside)
        taken |= as_set(source.take(len(expected) - len(taken)))
        assert taken == expected, f"partner {rank}"
    assert len(taken) < len(inside) * len(outside)  # the rest is random
    assert len(source.take(10_000)) == len(inside) * len(outside) - len(taken)


def test_random_pairs_are_not_the_nearest():
    source, E, inside, outside = stream(nearest=False)
    nearest = partners_up_to(1, E, inside, outside)
    taken = as_set(source.take(len(nearest)))
    assert len(taken) == len(nearest)
    assert len(taken & nearest) < len(nearest) / 2


@pytest.mark.parametrize("nearest", [True, False])
def test_more_pairs_than_are_enumerated(nearest, monkeypatch):
    monkeypatch.setattr(_pairs, "_ENUMERATED", 10)
    monkeypatch.setattr(_pairs, "_CHUNK", 16)
    source, _, inside, outside = stream(60, nearest=nearest)
    taken = source.take(500)
    assert len(as_set(taken)) == 500
    assert np.isin(taken[:, 0], inside).all()
    assert np.isin(taken[:, 1], outside).all()


def test_chunks_do_not_matter_to_which_pairs_come_first(monkeypatch):
    monkeypatch.setattr(_pairs, "_CHUNK", 5)
    source, E, inside, outside = stream()
    expected = partners_up_to(1, E, inside, outside)
    assert as_set(source.take(len(expected))) == expected


@pytest.mark.parametrize("nearest", [True, False])
def test_same_seed_same_pairs(nearest):
    first, second, other = (stream(nearest=nearest, seed=seed)[0].take(20) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_one_row_on_a_side():
    E = np.arange(6.0)[:, None]
    source = PairStream(E, np.array([2]), np.array([0, 1, 3, 4, 5]), nearest=True, rng=np.random.default_rng(0))
    assert as_set(source.take(100)) == {(2, k) for k in (0, 1, 3, 4, 5)}


def test_a_few_nearest_pairs_come_from_all_rows(monkeypatch):
    monkeypatch.setattr(_pairs, "_CHUNK", 4)
    firsts = set().union(*(as_set(stream(seed=seed)[0].take(3)) for seed in range(12)))
    assert len(firsts) > 10  # not always the pairs of the first four rows


def test_a_few_nearest_pairs_come_from_both_sides():
    _, E, inside, outside = stream()
    D = np.linalg.norm(E[inside][:, None] - E[outside][None], axis=2)
    of_inside = {(int(i), int(outside[k])) for i, k in zip(inside, D.argmin(axis=1), strict=True)}
    of_outside = {(int(inside[k]), int(o)) for o, k in zip(outside, D.argmin(axis=0), strict=True)}
    few = set().union(*(as_set(stream(seed=seed)[0].take(8)) for seed in range(5)))
    assert few & (of_inside - of_outside)
    assert few & (of_outside - of_inside)


def test_pairs_on_a_line_are_neighbours_and_missing_values_are_next_to_all():
    line = np.array([3.0, np.nan, 0.0, 1.0, 2.0])
    inside, outside = np.array([2, 4]), np.array([0, 1, 3])  # in order: 0 in, 1 out, 2 in, 3 out; missing out
    source = PairStream(line[:, None], inside, outside, nearest=True, rng=np.random.default_rng(0), line=line)
    assert as_set(source.take(100)) == {(2, 3), (4, 3), (4, 0), (2, 1), (4, 1)}
    assert len(source.take(1)) == 0


@pytest.mark.parametrize(("count", "batches"), [(1, 1), (7, 1), (8, 2), (50, 8)])
def test_no_more_batches_are_drawn_than_are_asked_for(monkeypatch, count, batches):
    """Of seven pairs each, so that the number asked for is rarely met exactly."""
    drawn = []

    def by_seven(inside, outside, rng):
        for i in range(20):
            drawn.append(i)
            yield np.column_stack((np.full(7, inside[i]), outside[:7]))

    monkeypatch.setattr(_pairs, "_random_pairs", by_seven)
    sides = np.arange(20), np.arange(20, 40)
    source = PairStream(np.zeros((40, 1)), *sides, nearest=False, rng=np.random.default_rng(0))
    taken = source.take(count)
    assert len(taken) == count
    assert len(drawn) == batches
    further = source.take(batches * 7 - count)  # what is left of the last batch comes next
    assert len(drawn) == batches
    assert len(as_set(np.concatenate((taken, further)))) == batches * 7
