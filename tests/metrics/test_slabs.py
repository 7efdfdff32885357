"""Coverage in the worst slab: against all slabs tried one by one, and where the answer is known."""

import numpy as np
import pytest

from gpec.errors import GPECError
from gpec.metrics import coverage, slabs, worst_slab_coverage


def every_slab(places, hits, weights, share):
    """Coverage and ends of each slab along one direction that holds its share, one by one."""
    for a in np.unique(places):
        for b in np.unique(places[places >= a]):
            held = (a <= places) & (places <= b)
            if weights[held].sum() >= share * weights.sum() - 1e-9:
                yield np.average(hits[held], weights=weights[held]), a, b


def held_weight(places, weights, a, b):
    return weights[(a <= places) & (places <= b)].sum()


def bounds_for(covered):
    """Bounds between which the truth 0 lies where it should."""
    lower = np.where(covered, -1.0, 1.0)
    return np.zeros(lower.shape), lower, lower + 2.0


def halves(n, seed):
    """Rows among which the slab is chosen, and those on which it is measured: with all in it, they alone count."""
    alone = bounds_for(np.eye(n, dtype=bool))
    measured = worst_slab_coverage(np.zeros((n, 1)), *alone, share=1.0, by_feature=True, random_state=seed) > 0
    assert measured.sum() == n - n // 2
    return np.flatnonzero(~measured), np.flatnonzero(measured)


@pytest.mark.parametrize("share", [0.07, 0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_search_finds_the_worst_of_all_slabs(share, ties, weighted):
    rng = np.random.default_rng([int(100 * share), ties, weighted])
    for rate in (0.5, 0.9):
        places = rng.integers(0, 9, (5, 40)).astype(float) if ties else rng.normal(size=(5, 40))
        hits = (rng.random((40, 3)) < rate).mean(axis=1)
        weights = rng.integers(0, 4, 40).astype(float) if weighted else np.ones(40)
        tried = [(slab, line) for line in places for slab in every_slab(line, hits, weights, share)]
        least = min(slab[0] for slab, _ in tried)
        most = max(held_weight(line, weights, *slab[1:]) for slab, line in tried if slab[0] <= least + 1e-12)
        lines = slabs._sort(places, weights, share)
        everything = slabs._Slab(np.average(hits, weights=weights), weights.sum())
        found = slabs._worst(lines, hits, everything)
        assert found.coverage == pytest.approx(least, abs=1e-12)
        assert found.weight == pytest.approx(most, rel=1e-12)
        if found is not everything:
            line = places[found.line]
            held = (found.first <= line) & (line <= found.last)
            assert np.average(hits[held], weights=weights[held]) == pytest.approx(least, abs=1e-12)
            assert weights[held].sum() == pytest.approx(most, rel=1e-12)
        assert slabs._worst(lines, hits, found) is found
        smaller = slabs._Slab(found.coverage, 0.9 * found.weight)  # as bad, found along other lines
        assert slabs._worst(lines, hits, smaller).weight == pytest.approx(most, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.2, 0.35])
def test_chosen_on_one_half_and_measured_on_the_other(seed, share):
    """Along the columns alone, with weights that leave no two slabs alike."""
    rng = np.random.default_rng(seed)
    n = 60
    X, weights, covered = rng.integers(0, 12, (n, 3)), rng.uniform(0.5, 2.0, n), rng.random((n, 4)) < 0.8
    hits = covered.mean(axis=1)
    first, second = halves(n, seed)
    tried = [
        (*slab, column)
        for column in range(3)
        for slab in every_slab(X[first, column], hits[first], weights[first], share)
    ]
    _, a, b, column = min(tried)
    held = second[(a <= X[second, column]) & (X[second, column] <= b)]
    result = worst_slab_coverage(
        X, *bounds_for(covered), share=share, n_directions=0, weights=weights, random_state=seed
    )
    assert result == pytest.approx(np.average(hits[held], weights=weights[held]), rel=1e-12)


@pytest.mark.parametrize("inside", [0.0, 0.5])
def test_a_region_without_coverage_is_found(inside):
    """A slanted slab with a quarter of the rows, of which a known share is covered; all others are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6_000, 2)) * [1.0, 1e4]
    place = X @ [0.6, 0.8e-4]
    bad = (place > np.quantile(place, 0.4)) & (place < np.quantile(place, 0.65))
    covered = ~bad | (rng.random(6_000) < inside)
    assert coverage(*bounds_for(covered)) == pytest.approx(1 - 0.25 * (1 - inside), abs=0.02)
    found = [worst_slab_coverage(X, *bounds_for(covered), n_directions=200, random_state=seed) for seed in range(4)]
    assert np.mean(found) == pytest.approx(inside, abs=0.03)


def test_a_group_is_found_by_its_column():
    """Eight columns of 0 and 1, and one group without coverage: no random direction has it for itself."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (1_000, 8))
    assert worst_slab_coverage(X, *bounds_for(X[:, 5] == 0), n_directions=5) == 0.0


def test_intervals_that_cover_equally_everywhere_score_their_coverage():
    """Chosen and measured on the same rows they would not."""
    halved, same = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X, covered = rng.normal(size=(300, 4)), rng.random(300) < 0.95
        halved.append(worst_slab_coverage(X, *bounds_for(covered), n_directions=100, random_state=seed))
        lines = slabs._sort(next(slabs._projections(X[:150], 100, seed)), np.ones(150), 0.2)
        same.append(slabs._worst(lines, covered[:150].astype(float), slabs._Slab(1.0, 0.0)).coverage)
    assert np.mean(halved) == pytest.approx(0.95, abs=0.015)
    assert 0.6 < np.mean(same) < 0.85


def test_each_feature_as_if_alone():
    rng = np.random.default_rng(1)
    X, covered = rng.normal(size=(200, 3)), rng.random((200, 4, 2)) < rng.uniform(0.5, 1.0, (4, 2))
    arrays = bounds_for(covered)
    result = worst_slab_coverage(X, *arrays, n_directions=30, by_feature=True)
    assert result.shape == (4, 2)
    for feature in range(4):
        for output in range(2):
            alone = [array[:, feature, output] for array in arrays]
            assert result[feature, output] == worst_slab_coverage(X, *alone, n_directions=30)
    assert len(np.unique(result)) > 4
    two = worst_slab_coverage(X, *(array[:, :, 0] for array in arrays), n_directions=30, by_feature=True)
    assert np.array_equal(two, result[:, 0])
    one = [array[:, 0, 0] for array in arrays]
    assert isinstance(worst_slab_coverage(X, *one, n_directions=30, by_feature=True), float)


def test_whole_arrays_share_one_slab():
    """Two features that fail at opposite ends: together no slab is worse than half."""
    x = np.arange(2_000.0)
    covered = np.stack([x >= 500, x < 1_500], axis=1)
    arrays = bounds_for(covered)
    assert worst_slab_coverage(x[:, None], *arrays) == 0.5
    assert worst_slab_coverage(x[:, None], *arrays, by_feature=True) == pytest.approx([0.0, 0.0])


def test_all_rows_are_the_only_slab_that_holds_them_all():
    rng = np.random.default_rng(2)
    X, covered, weights = rng.normal(size=(51, 2)), rng.random(51) < 0.7, rng.integers(1, 5, 51)
    _, second = halves(51, 9)
    result = worst_slab_coverage(X, *bounds_for(covered), share=1.0, weights=weights, random_state=9)
    assert result == pytest.approx(np.average(covered[second], weights=weights[second]), rel=1e-12)
    constant = worst_slab_coverage(np.full((51, 2), 0.1), *bounds_for(covered), weights=weights, random_state=9)
    assert constant == pytest.approx(result, rel=1e-12)


def small_case():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3))
    X[:, 2] = rng.integers(0, 3, 120)
    return X, bounds_for(rng.random((120, 5)) < 0.8)


@pytest.mark.parametrize("scales", [[1.0, 1e3, 1e-3], [1e-150, 1.0, 1e150], [1e-300, 1e300, 1.0]])
def test_units_do_not_matter(scales):
    X, arrays = small_case()
    assert worst_slab_coverage(X * scales, *arrays) == worst_slab_coverage(X, *arrays)
    assert worst_slab_coverage(X + np.array([0.0, 64.0, -2.0]), *arrays) == worst_slab_coverage(X, *arrays)


def test_blocks_do_not_matter(monkeypatch):
    """With weights that leave no two slabs alike, and directions so few that no two hold the same rows."""
    X, arrays = small_case()
    options = {"by_feature": True, "n_directions": 5, "weights": np.random.default_rng(0).uniform(1.0, 2.0, len(X))}
    whole = worst_slab_coverage(X, *arrays, **options)
    for size in (1, 3 * len(X)):
        monkeypatch.setattr(slabs, "_BLOCK", size)
        assert worst_slab_coverage(X, *arrays, **options) == pytest.approx(whole, rel=1e-12)


def test_equal_rows_are_never_apart():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(7, 5))
    of = rng.integers(0, 7, 200)
    places = np.concatenate(list(slabs._projections(rows[of], 300, 0)))
    assert len(places) == 305
    assert all(len(np.unique(line)) == 7 for line in places)


def test_the_same_numbers_for_the_same_seed():
    X, arrays = small_case()
    before = np.random.get_state()[1].copy()
    results = [worst_slab_coverage(X, *arrays, random_state=seed) for seed in (0, 1, 2, 3)]
    assert results == [worst_slab_coverage(X, *arrays, random_state=seed) for seed in (0, 1, 2, 3)]
    assert len(set(results)) > 1
    assert worst_slab_coverage(X, *arrays) == results[0]
    assert np.array_equal(np.random.get_state()[1], before)


ONES = np.ones(6)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": np.ones((5, 2))}, "X has 5 rows and truth has 6"),
        ({"X": ONES}, r"X has the shape \(6,\); it must have rows and columns"),
        ({"X": np.ones((6, 0))}, r"X has the shape \(6, 0\)"),
        ({"X": np.full((6, 2), np.nan)}, "X has nan"),
        ({"X": np.full((6, 2), "a")}, "X must be an array of real numbers"),
        ({"truth": np.ones((6, 2))}, "shapes"),
        ({"lower": ONES * np.inf}, "lower has inf"),
        ({"truth": 1.0, "lower": 1.0, "upper": 1.0}, "single numbers"),
        ({"truth": [], "lower": [], "upper": []}, "truth is empty"),
        ({"X": [[1.0]], "truth": [1.0], "lower": [1.0], "upper": [1.0]}, "at least 2 are needed"),
        ({"share": 0.0}, "share=0.0"),
        ({"share": 1.01}, "share=1.01 must be greater than 0 and at most 1"),
        ({"share": np.nan}, "share=nan"),
        ({"share": "all"}, "share='all'"),
        ({"n_directions": -1}, "n_directions=-1"),
        ({"n_directions": 2.5}, "n_directions=2.5"),
        ({"weights": np.ones(5)}, r"weights has the shape \(5,\)"),
        ({"weights": np.ones((6, 1))}, r"weights has the shape \(6, 1\)"),
        ({"weights": np.zeros(6)}, "weights are all 0"),
        ({"weights": -ONES}, "weights has -1.0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"random_state": "now"}, "random_state='now'"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_bad_input(change, words):
    good = {"X": np.ones((6, 2)), "truth": ONES, "lower": ONES, "upper": ONES}
    assert worst_slab_coverage(**good) == 1.0
    with pytest.raises(GPECError, match=words):
        worst_slab_coverage(**{**good, **change})


def test_a_slab_without_rows_to_measure():
    """The slab is a single row, the only one that is not covered."""
    covered = np.array([False, True, True, True])
    for seed in range(20):
        if 0 in halves(4, seed)[0]:
            with pytest.raises(GPECError, match="One half has no row of the slab; give more rows or a larger share"):
                worst_slab_coverage(np.arange(4.0)[:, None], *bounds_for(covered), random_state=seed)
            break
    else:
        pytest.fail("no seed puts row 0 into the first half")
