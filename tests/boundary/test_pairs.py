"""Pairs of rows of opposite class: each once, the nearest first."""

import numpy as np
import pytest

from gpec.boundary import _pairs
from gpec.boundary._pairs import PairStream


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
