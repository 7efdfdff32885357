"""Steps towards the nearest rows: which rows, how far, and the same ones whatever batch a row comes in."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.neighbors import KDTree

import made_up
from archive_helpers import from_tree, through_file, tree_of
from gpec.data import Schema
from gpec.errors import CorruptFileError, InputError, ParameterTypeError
from gpec.similar import NearestRows, SimilaritySampler, nearest

HALFWAY = "a slightly different one, moved halfway towards"


def same_bits(A, B):
    return A.shape == B.shape and A.tobytes() == B.tobytes()


def learned(X, seed=0, standardize=True, **parameters):
    schema, Z = Schema.learn(X, standardize=standardize)
    return schema, Z, NearestRows(**parameters).learn(schema, Z, seed)


def brute_force(schema, Z, pool, k):
    """Places in the pool of the ``k`` nearest different rows, by all distances; rows must have no equal distances."""
    D = cdist(schema.embed(Z), schema.embed(pool))
    D[(Z[:, None, :] == pool[None, :, :]).all(axis=2)] = np.inf
    return D.argsort(axis=1)[:, :k]


def mixed_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "colour": rng.choice(["blue", "green", "red"], n),
            "price": rng.normal(10.0, 3.0, n),
            "weight": rng.normal(size=n),
            "new": rng.random(n) < 0.5,
        }
    )
    frame.loc[rng.random(n) < 0.3, "weight"] = np.nan
    frame.loc[rng.random(n) < 0.2, "colour"] = None
    return frame


# Which rows


class TestNeighbours:
    def test_numbers_go_a_step_of_the_way_to_the_nearest(self):
        rng = np.random.default_rng(0)
        schema, Z, nearby = learned(rng.normal(size=(300, 4)) * [1, 10, 0.01, 5], n_neighbors=7, step=0.3)
        for rows in (Z[:40], schema.encode(rng.normal(size=(40, 4)) * [1, 10, 0.01, 5])):  # of the pool, and unseen
            neighbours = Z[brute_force(schema, rows, Z, 7)]
            expected = rows[:, None, :] + 0.3 * (neighbours - rows[:, None, :])
            np.testing.assert_allclose(nearby.rows(rows), expected, rtol=1e-12, atol=1e-14)

    def test_nearest_by_a_tree(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(2_000, 6))
        schema, Z, nearby = learned(X, step=1.0)
        queries = rng.normal(size=(600, 6))
        found = KDTree(schema.embed(Z)).query(schema.embed(queries), 10, return_distance=False)
        assert same_bits(nearby.rows(queries), Z[found])

    def test_scales_of_the_schema_count(self):
        X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 20.0], [-1.0, 50.0], [1.0, -60.0]])
        for standardize, expected in ((True, X[2]), (False, X[1])):
            _, Z, nearby = learned(X, n_neighbors=1, step=1.0, standardize=standardize)
            assert nearby.rows(Z[:1])[0, 0].tolist() == expected.tolist()

    @pytest.mark.parametrize("standardize", [True, False])
    @pytest.mark.parametrize("kind", ["cauchy", "far cluster", "whole numbers", "1e150", "one column"])
    def test_no_row_outside_is_nearer(self, kind, standardize):
        """Sums of products lose the digits in which some of these rows differ."""
        rng = np.random.default_rng(2)
        X = {
            "cauchy": rng.standard_cauchy((500, 3)) ** 3,
            "far cluster": 1e9 + rng.normal(size=(500, 3)),
            "whole numbers": rng.integers(0, 4, (500, 5)).astype(float),
            "1e150": 1e150 * rng.uniform(0.1, 1, (500, 3)),
            "one column": rng.normal(size=(500, 1)),
        }[kind]
        schema, Z, nearby = learned(X, step=1.0, standardize=standardize)
        rows, pool = Z[:60], np.unique(Z, axis=0)
        unit = np.abs(schema.embed(Z)).max()

        def distances(others):
            way = (schema.embed(rows)[:, None, :].astype(np.longdouble) - others) / unit
            return np.sqrt((way**2).sum(axis=2)).astype(np.float64)

        D = distances(schema.embed(pool))
        D[(rows[:, None, :] == pool).all(axis=2)] = np.inf
        found = schema.embed(nearby.rows(rows).reshape(600, -1)).reshape(60, 10, -1)
        np.testing.assert_allclose(distances(found), np.sort(D, axis=1)[:, :10], rtol=1e-9)

    def test_squares_that_vanish(self):
        X = 1e-170 * np.random.default_rng(2).normal(size=(50, 2))
        _, Z, nearby = learned(X, step=1.0, standardize=False)
        found = nearby.rows(Z)
        assert not (found == Z[:, None, :]).all(axis=2).any()
        assert set(map(tuple, found.reshape(-1, 2))) <= set(map(tuple, X))

    def test_ordered_by_distance(self):
        schema, Z, nearby = learned(np.random.default_rng(3).normal(size=(100, 3)), step=1.0)
        found = nearby.rows(Z[:5])
        for row, others in zip(Z[:5], found, strict=True):
            D = cdist(schema.embed(row[None]), schema.embed(others))[0]
            assert (np.diff(D) > 0).all()

    def test_of_equally_near_rows_the_same_for_all(self):
        X = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
        chosen = set()
        for scale in range(1, 41):
            schema, Z = Schema.learn(scale * X)
            found, other = (NearestRows(1, 1.0).learn(schema, rows, 0).rows(Z[[0, 0]]) for rows in (Z, Z[::-1]))
            assert found[0, 0].tolist() == found[1, 0].tolist() == other[0, 0].tolist()
            chosen.add(tuple((found[0, 0] / scale).tolist()))
        assert chosen == {(1, 0), (-1, 0), (0, 1), (0, -1)}  # by its content, not the first in the table

    def test_of_equally_near_rows_the_first_of_the_pool(self):
        X = np.array([[0.0], [2.0], [3.0], [5.0], [7.0]])
        schema, Z = Schema.learn(X)
        for seed in range(10):
            nearby = NearestRows(2, 1.0).learn(schema, Z, seed)
            first = next(x for x in nearby.pool[:, 0].tolist() if x in (2, 3))  # both 0.5 from 2.5
            assert nearby.rows(np.array([[2.5]]))[0, :, 0].tolist() == [first, 5 - first]

    def test_identical_rows_do_not_count_and_of_copies_one(self):
        X = np.repeat(np.array([[0.0], [1.0], [3.0], [7.0]]), 5, axis=0)
        _, _, nearby = learned(X, n_neighbors=3, step=1.0)
        assert nearby.rows(np.array([[0.0], [2.9], [7.0]]))[:, :, 0].tolist() == [[1, 3, 7], [3, 1, 0], [3, 1, 0]]

    def test_missing_is_identical_to_missing(self):
        X = np.array([[np.nan, 1.0], [np.nan, 1.0], [np.nan, 2.0], [5.0, 1.0], [6.0, 2.0]])
        _, Z, nearby = learned(X, n_neighbors=1, step=1.0)
        assert nearby.rows(Z[:1])[0, 0, 1] == 2.0

    def test_fewer_rows_than_neighbours(self):
        _, Z, nearby = learned(np.array([[0.0], [0.5], [0.5]]))
        assert nearby.rows(Z[:2])[:, :, 0].tolist() == [[0.25], [0.25]]
        assert nearby.rows(np.array([[3.5]]))[:, :, 0].tolist() == [[2.0]]
        assert nearby.phrase == f"{HALFWAY} its nearest neighbour"

    def test_all_rows_the_same(self):
        with pytest.raises(InputError, match=r"The 4 rows given to fit are all equal, so no row has a nearest"):
            learned(np.ones((4, 2)))
        with pytest.raises(InputError, match=r"The 3 rows .* equal in the columns that are not fixed, so"):
            learned(np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]), fixed=[0])

    def test_pool(self, monkeypatch):
        monkeypatch.setattr(nearest, "_LARGEST_POOL", 50)
        X = np.repeat(np.random.default_rng(4).normal(size=(200, 2)), 3, axis=0)
        schema, Z, nearby = learned(X, step=1.0)
        pool = nearby.pool
        assert len(np.unique(pool, axis=0)) == 50
        assert set(map(tuple, pool)) <= set(map(tuple, X))
        assert set(map(tuple, nearby.rows(Z).reshape(-1, 2))) <= set(map(tuple, pool))
        other = NearestRows().learn(schema, Z, 1).pool
        assert len(set(map(tuple, other)) & set(map(tuple, pool))) < 30  # 12.5 expected

    def test_largest_pool(self):
        _, _, nearby = learned(np.random.default_rng(5).normal(size=(100_500, 2)))
        assert nearby.pool.shape == (100_000, 2)

    def test_many_rows_by_a_tree(self):
        """Blocks of fewer rows, and groups of many rows of the pool that do not divide it."""
        rng = np.random.default_rng(6)
        schema, Z, nearby = learned(rng.normal(size=(40_003, 3)), step=1.0)
        queries = rng.normal(size=(130, 3)) * 2
        found = KDTree(schema.embed(Z)).query(schema.embed(queries), 10, return_distance=False)
        together = nearby.rows(queries)
        assert same_bits(together, Z[found])
        assert same_bits(np.concatenate([nearby.rows(row[None]) for row in queries]), together)


# How far


class TestSwitches:
    def test_categories_and_missing_values(self):
        """A state is the row's or the neighbour's; numbers known in both rows lie between."""
        frame = mixed_frame()
        schema, Z, whole = learned(frame, n_neighbors=150, step=1.0)
        neighbours = whole.rows(Z)
        similar_rows = NearestRows(150, 0.25).learn(schema, Z, 0).rows(Z)
        own = np.broadcast_to(Z[:, None, :], neighbours.shape)
        colour, price, weight, new = (frame.columns.get_loc(name) for name in ("colour", "price", "weight", "new"))
        np.testing.assert_allclose(
            similar_rows[..., price], 0.75 * own[..., price] + 0.25 * neighbours[..., price], rtol=1e-12
        )
        both = ~np.isnan(own[..., weight] + neighbours[..., weight])
        between = 0.75 * own[..., weight] + 0.25 * neighbours[..., weight]
        np.testing.assert_allclose(similar_rows[..., weight][both], between[both], rtol=1e-9, atol=1e-12)
        neither = np.isnan(own[..., weight]) & np.isnan(neighbours[..., weight])
        assert neither.any()
        assert np.isnan(similar_rows[..., weight][neither]).all()
        for j, able in ((colour, True), (new, True), (weight, ~both)):
            one, two, got = (np.nan_to_num(A[..., j], nan=-99.0) for A in (own, neighbours, similar_rows))
            differs = (one != two) & able
            assert differs.sum() > 100
            assert ((got == one) | (got == two))[differs].all()
            share = (got == two)[differs].mean()
            assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / differs.sum())
            stays = (one == two) & able
            assert (got == one)[stays].all()

    def test_columns_switch_independently(self):
        seen = set()
        for number in range(1, 151):
            X = pd.DataFrame({f"c{j}": ["a", "b"] for j in range(4)} | {"id": [0.0, float(number)]})
            schema, Z = Schema.learn(X)
            seen.add(tuple(NearestRows().learn(schema, Z, 0).rows(Z[:1])[0, 0, :4]))
        assert len(seen) == 16

    def test_draws_depend_on_both_rows(self):
        """The way there and other ways are drawn apart."""
        n = 400
        X = pd.DataFrame({"c": ["a"] * n + ["b"], "x": np.arange(n + 1.0)})
        _, Z, nearby = learned(X, n_neighbors=n, step=0.5, whole=False)
        last = nearby.rows(Z[-1:])[0, :, 0]  # from one row to 400 others
        assert 150 < last.sum() < 250
        order = nearby.rows(Z[:n])
        first = np.array([rows[(rows[:, 1] - x) * 2 + x == n, 0] for rows, x in zip(order, Z[:n, 1], strict=True)])
        assert 150 < first.sum() < 250  # and from those to it

    def test_whole_step_is_the_neighbour_and_a_small_one_the_row(self):
        _, Z, nearby = learned(mixed_frame(), step=1.0)
        rows = {row.tobytes() for row in Z}
        assert all(row.tobytes() in rows for row in nearby.rows(Z[:20]).reshape(-1, 4))
        _, Z, nearby = learned(mixed_frame(), step=1e-12)
        np.testing.assert_allclose(nearby.rows(Z), np.repeat(Z[:, None], 10, axis=1), rtol=1e-6)

    def test_equal_numbers_stay_exactly(self):
        rng = np.random.default_rng(6)
        X = np.column_stack((np.full(50, 0.1), rng.normal(size=50)))
        for step in (0.1, 0.3, 0.7):
            _, Z, nearby = learned(X, step=step)
            assert (nearby.rows(Z)[:, :, 0] == 0.1).all()

    def test_nothing_overflows(self):
        X = np.random.default_rng(7).uniform(-1, 1, (30, 2)) * 1.7e308
        _, Z, nearby = learned(X)
        assert np.isfinite(nearby.rows(Z)).all()

    def test_dates_are_numbers(self):
        X = pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2020-01-03", "2020-02-10"]), "x": [1.0, 1.0, 5.0]})
        schema, Z, nearby = learned(X, n_neighbors=1)
        rows = schema.decode(nearby.rows(Z[:1])[0])
        assert rows["when"].tolist() == [pd.Timestamp("2020-01-02")]

    def test_images(self):
        schema, Z, nearby = learned(np.random.default_rng(8).random((20, 4, 4)), n_neighbors=3)
        assert schema.decode(nearby.rows(Z[:1])[0]).shape == (3, 4, 4)

    def test_passengers(self):
        """Text, true/false columns and missing values, checked value by value as the user sees them."""
        frame = pd.read_csv(io.StringIO(made_up.titanic(np.random.default_rng(0)))).drop(columns=["survived", "alive"])
        schema, Z, whole = learned(frame, step=1.0, n_neighbors=20)
        halves = NearestRows(n_neighbors=20).learn(schema, Z, 0).rows(Z)
        different = Z[~frame.duplicated().to_numpy()]
        E = schema.embed(different)
        switched = possible = 0
        for i in range(0, len(Z), 37):
            neighbours = whole.rows(Z[i : i + 1])[0]
            D = np.sort(np.linalg.norm(E - schema.embed(Z[i : i + 1]), axis=1))
            assert D[0] == 0
            found = np.linalg.norm(schema.embed(neighbours) - schema.embed(Z[i : i + 1]), axis=1)
            np.testing.assert_allclose(found, D[1:21], rtol=1e-12)
            there, got = schema.decode(neighbours), schema.decode(halves[i])
            for name in frame.columns:
                for one, two, new in zip([frame[name].iloc[i]] * 20, there[name], got[name], strict=True):
                    if frame.columns.get_loc(name) in schema.categories or pd.isna(one) or pd.isna(two):
                        mine, theirs = (new == end or (pd.isna(new) and pd.isna(end)) for end in (one, two))
                        assert mine or theirs
                        possible += not (mine and theirs)
                        switched += theirs and not mine
                    elif frame[name].dropna().mod(1).eq(0).all():
                        assert new in (np.floor((one + two) / 2), np.ceil((one + two) / 2))
                    else:
                        assert new == pytest.approx((one + two) / 2, rel=1e-12)
        assert possible > 60
        assert abs(switched / possible - 0.5) < 4 * 0.5 / np.sqrt(possible)


# Whole numbers


def counts_frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "price": rng.normal(10.0, 3.0, n),
            "smoker": rng.integers(0, 2, n),
            "children": pd.array(rng.poisson(2.0, n), dtype="Int64"),
        }
    )
    frame.loc[rng.random(n) < 0.2, "children"] = None
    return frame


class TestWhole:
    def test_rounded_without_bias(self):
        """``x + step (x' - x)``, or the next whole number below or above it, so often that the mean is right."""
        frame = counts_frame()
        _, Z, nearby = learned(frame, n_neighbors=250, step=0.3)
        got, neighbours = nearby.rows(Z), learned(frame, n_neighbors=250, step=1.0)[2].rows(Z)
        own = np.broadcast_to(Z[:, None], got.shape)
        line = own + 0.3 * (neighbours - own)
        np.testing.assert_allclose(got[..., 1], line[..., 1], rtol=1e-12)
        for j in (0, 2, 3):
            known = ~np.isnan(line[..., j])
            between, rounded = line[..., j][known], got[..., j][known]
            assert (rounded == np.rint(rounded)).all()
            assert (np.abs(rounded - between) < 1).all()
            assert (rounded >= np.minimum(own, neighbours)[..., j][known]).all()
            assert (rounded <= np.maximum(own, neighbours)[..., j][known]).all()
            chance = between - np.floor(between + 1e-9)
            error = np.sqrt(np.maximum(chance * (1 - chance), 0).sum())  # standard deviation of the sum
            assert error > 50
            assert abs((rounded - between).sum()) < 4 * error

    def test_flags_switch_with_the_probability_of_the_step(self):
        rng = np.random.default_rng(1)
        X = np.column_stack((rng.integers(0, 2, (400, 3)), rng.normal(size=400)))
        _, Z, nearby = learned(X, n_neighbors=100, step=0.2)
        got, neighbours = nearby.rows(Z)[..., :3], learned(X, n_neighbors=100, step=1.0)[2].rows(Z)[..., :3]
        own = np.broadcast_to(Z[:, None, :3], got.shape)
        assert set(np.unique(got)) == {0.0, 1.0}
        for value in (0, 1):
            differs = (own == value) & (neighbours != value)
            share = (got != value)[differs].mean()
            assert abs(share - 0.2) < 4 * 0.4 / np.sqrt(differs.sum())
        assert (got == own)[own == neighbours].all()

    def test_flags_switch_independently(self):
        seen = set()
        for number in range(1, 151):
            X = np.array([[0.0, 0, 0, 0, 0.5], [1, 1, 1, 1, number]])
            _, Z, nearby = learned(X)
            seen.add(tuple(nearby.rows(Z[:1])[0, 0, :4]))
        assert len(seen) == 16

    def test_draws_depend_on_both_rows(self):
        n = 400
        X = np.column_stack((np.append(np.zeros(n), 1.0), np.arange(n + 1.0) + 0.5))
        _, Z, nearby = learned(X, n_neighbors=n)
        assert 150 < nearby.rows(Z[-1:])[0, :, 0].sum() < 250
        order = nearby.rows(Z[:n])
        first = np.array([rows[rows[:, 1] == (x + n + 0.5) / 2, 0] for rows, x in zip(order, Z[:n, 1], strict=True)])
        assert 150 < first.sum() < 250

    def test_mean_and_end(self):
        """Halfway from 0 to 5: 2 or 3, equally often; a whole step is the neighbour."""
        found = []
        for number in range(1, 401):
            X = np.array([[0.0, 0.5], [5.0, 0.5 + number]])
            schema, Z, nearby = learned(X)
            found.append(nearby.rows(Z[:1])[0, 0, 0])
            assert NearestRows(step=1.0).learn(schema, Z, 0).rows(Z)[:, 0].tolist() == X[::-1].tolist()
        assert set(found) == {2.0, 3.0}
        assert abs(np.mean(found) - 2.5) < 4 * 0.5 / np.sqrt(400)

    def test_other_columns_keep_their_fractions(self):
        """One number that is not whole, in any row of fit, and the column is not whole."""
        X = np.array([[0.0, 0.0], [5.0, 5.0], [70.5, 99.0]])
        _, Z, nearby = learned(X, n_neighbors=1)
        got = nearby.rows(Z[:1])[0, 0]
        assert got[0] == 2.5
        assert got[1] in (2.0, 3.0)

    def test_all_rows_of_fit_decide_not_the_pool(self, monkeypatch):
        monkeypatch.setattr(nearest, "_LARGEST_POOL", 5)
        X = np.column_stack((np.arange(200.0), np.arange(200.0)))
        X[150, 0] = 150.5
        for seed in range(10):
            schema, Z = Schema.learn(X)
            nearby = NearestRows().learn(schema, Z, seed)
            assert nearby.whole.tolist() == [False, True]

    def test_the_old_way(self):
        frame = counts_frame()
        schema, Z, nearby = learned(frame, whole=False, step=0.3)
        neighbours = learned(frame, step=1.0)[2].rows(Z)
        line = Z[:, None] + 0.3 * (neighbours - Z[:, None])
        both = ~np.isnan(line)
        np.testing.assert_allclose(nearby.rows(Z)[both], line[both], rtol=1e-9)
        assert schema.for_model(nearby.rows(Z)[:, 0])["children"].dtype == "Float64"

    def test_without_whole_numbers_nothing_is_rounded(self):
        _, Z, nearby = learned(mixed_frame())
        assert same_bits(nearby.rows(Z), learned(mixed_frame(), whole=False)[2].rows(Z))

    def test_a_row_whose_number_is_not_whole_moves_like_others(self):
        X = np.array([[0.0, 0.5], [1.0, 1.5], [0.0, 2.5], [1.0, 9.5]])
        _, _, nearby = learned(X, n_neighbors=3)
        assert nearby.rows(np.array([[0.5, 0.5]]))[0].tolist() == [[0.25, 0.5], [0.75, 1.0], [0.25, 1.5]]
        got = nearby.rows(np.array([[7.0, 0.5]]))[0, :, 0]  # whole, but seen nowhere in fit
        assert set(got) <= {3.0, 4.0}

    def test_missing_values(self):
        """They switch; numbers known in both rows stay whole."""
        frame = counts_frame()
        _, Z, nearby = learned(frame, n_neighbors=100)
        got, neighbours = nearby.rows(Z)[..., 3], learned(frame, n_neighbors=100, step=1.0)[2].rows(Z)[..., 3]
        own = np.broadcast_to(Z[:, None, 3], got.shape)
        one = np.isnan(own) ^ np.isnan(neighbours)
        assert ((got == own) | (got == neighbours) | np.isnan(got))[one].all()
        gone = np.isnan(got)[one].mean()
        assert abs(gone - 0.5) < 4 * 0.5 / np.sqrt(one.sum())
        assert np.isnan(got[np.isnan(own) & np.isnan(neighbours)]).all()
        assert (got == np.rint(got))[~np.isnan(got)].all()

    def test_fixed_columns_keep_their_values(self):
        _, Z, nearby = learned(counts_frame(), fixed=["age", "children"])
        got = nearby.rows(Z)
        np.testing.assert_array_equal(got[..., [0, 3]], np.repeat(Z[:, None, [0, 3]], 10, axis=1))
        assert (got[..., 2] == np.rint(got[..., 2])).all()
        assert nearby.whole.tolist() == [False, False, True, False]

    def test_types_of_pandas(self):
        frame = counts_frame()
        schema, Z, nearby = learned(frame)
        rows = schema.for_model(nearby.rows(Z)[:, 0])
        assert rows["children"].dtype == "Int64"
        assert rows["age"].isin(range(18, 90)).all()
        assert rows["smoker"].isin([0, 1]).all()

    def test_types_of_polars(self):
        polars = pytest.importorskip("polars")
        rng = np.random.default_rng(2)
        frame = polars.DataFrame({"age": rng.integers(18, 90, 50), "price": rng.normal(size=50)})
        schema, Z, nearby = learned(frame)
        assert schema.for_model(nearby.rows(Z)[:, 0]).schema == frame.schema
        schema, Z, nearby = learned(frame, whole=False)
        assert schema.for_model(nearby.rows(Z)[:, 0]).schema["age"] == polars.Float64

    def test_dates_and_codes_are_not_numbers(self):
        frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=30), "code": np.arange(30) % 3})
        schema, Z = Schema.learn(frame, categorical_features=["code"])
        assert not NearestRows().learn(schema, Z, 0).whole.any()


# Fixed columns


class TestFixed:
    def test_they_keep_the_value_and_take_no_part_in_distances(self):
        frame = pd.DataFrame(np.random.default_rng(9).normal(size=(200, 4)), columns=list("abcd"))
        _, Z, nearby = learned(frame, fixed=["b", "d"])
        _, _, without = learned(frame[["a", "c"]])
        got = nearby.rows(Z[:50])
        assert same_bits(got[:, :, [0, 2]], without.rows(Z[:50][:, [0, 2]]))
        assert (got[:, :, [1, 3]] == Z[:50, None][:, :, [1, 3]]).all()
        assert nearby.phrase.endswith(" nearest neighbours, with 'b' and 'd' unchanged")

    def test_categories_and_missing_values(self):
        frame = mixed_frame()
        schema, Z, nearby = learned(frame, step=1.0, fixed=["colour", "weight"])
        got = nearby.rows(Z)
        np.testing.assert_array_equal(got[:, :, [0, 2]], np.repeat(Z[:, None, [0, 2]], 10, axis=1))
        _, _, without = learned(frame[["price", "new"]], step=1.0)
        np.testing.assert_array_equal(got[:, :, [1, 3]], without.rows(Z[:, [1, 3]]))
        assert schema.n_features == 4

    def test_rows_that_differ_only_there_do_not_count(self):
        X = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [4.0, 1.0], [5.0, 2.0]])
        _, Z, nearby = learned(X, n_neighbors=2, step=1.0, fixed=[0])
        assert nearby.rows(Z[:3]).tolist() == [[[x, 1], [x, 2]] for x in (1, 2, 3)]
        assert len(nearby.pool) == 3

    @pytest.mark.parametrize(
        "fixed",
        [[1, 2], (1, 2), range(1, 3), [-3, -2], ["b", 2], [["b", "c"]], [range(1, 3)], np.array([1, 2]), {"b", "c"},
         ["c", "b", "b"], pd.Index(["b", "c"])],
    )  # fmt: skip
    def test_ways_to_name_them(self, fixed):
        frame = pd.DataFrame(np.random.default_rng(10).normal(size=(20, 4)), columns=list("abcd"))
        _, _, nearby = learned(frame, fixed=fixed)
        assert nearby.fixed.tolist() == [1, 2]

    def test_labels_before_positions(self):
        frame = pd.DataFrame(np.random.default_rng(10).normal(size=(20, 3)), columns=[2, 1, 7])
        assert learned(frame, fixed=[2, 7])[2].fixed.tolist() == [0, 2]
        pairs = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")])
        frame.columns = pairs
        assert learned(frame, fixed=[("a", "y")])[2].fixed.tolist() == [1]

    def test_names_of_an_array(self):
        assert learned(np.eye(3), fixed=["x1"])[2].fixed.tolist() == [1]


# The same for every row, whatever is beside it


class TestBatches:
    @pytest.fixture(
        params=["numbers", "whole numbers", "mixed", "counts", "many columns"],
    )
    def table(self, request):
        rng = np.random.default_rng(11)
        return {
            "numbers": lambda: rng.normal(size=(700, 5)),
            "whole numbers": lambda: rng.integers(0, 3, (700, 6)).astype(float),
            "mixed": lambda: mixed_frame(700),
            "counts": lambda: counts_frame(700),
            "many columns": lambda: rng.normal(size=(700, 80)).round(1),
        }[request.param]()

    def test_one_by_one_in_blocks_and_in_another_order(self, table):
        _, Z, nearby = learned(table)
        together = nearby.rows(Z)
        for size in (1, 3, 64):
            parts = [nearby.rows(Z[start : start + size]) for start in range(0, 192, size)]
            assert same_bits(np.concatenate(parts), together[:192])
        order = np.random.default_rng(12).permutation(len(Z))
        assert same_bits(nearby.rows(Z[order]), together[order])
        assert same_bits(nearby.rows(np.asfortranarray(Z)), together)

    def test_block_size(self, table, monkeypatch):
        _, Z, nearby = learned(table)
        together = nearby.rows(Z)
        monkeypatch.setattr(nearest, "_ROWS_AT_ONCE", 7)
        assert same_bits(nearby.rows(Z), together)

    def test_seeds(self, table):
        schema, Z, nearby = learned(table)
        assert same_bits(NearestRows().learn(schema, Z, 0).rows(Z), nearby.rows(Z))
        assert same_bits(NearestRows().learn(schema, Z, 1).rows(Z), nearby.rows(Z))  # all rows are in the pool

    def test_input_is_left_alone(self, table):
        _, Z, nearby = learned(table)
        before = Z.copy()
        Z.setflags(write=False)
        nearby.rows(Z)
        assert same_bits(Z, before)

    def test_negative_zero_and_other_nan_are_the_same_row(self):
        frame = mixed_frame(100)
        frame.loc[:20, "price"] = 0.0
        frame.loc[:20, "weight"] = np.nan
        _, Z, nearby = learned(frame)
        odd = Z.copy()
        odd[:20, 1] = -0.0
        odd[:20, 2] = np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)
        np.testing.assert_array_equal(nearby.rows(odd[:20]), nearby.rows(Z[:20]))

    def test_no_rows(self):
        _, Z, nearby = learned(mixed_frame(), n_neighbors=4)
        assert nearby.rows(Z[:0]).shape == (0, 4, 4)

    def test_global_generator_is_left_alone(self, table):
        before = np.random.get_state()[1].tobytes()
        _, Z, nearby = learned(table)
        nearby.rows(Z[:5])
        assert np.random.get_state()[1].tobytes() == before


# Files


@pytest.mark.parametrize(
    ("frame", "fixed"),
    [(mixed_frame(), []), (mixed_frame(), ["price", "colour"]), (counts_frame(), []), (counts_frame(), ["age"])],
)
def test_through_a_file(frame, fixed):
    schema, Z, nearby = learned(frame, n_neighbors=4, step=0.3, fixed=fixed)
    again = through_file(SimilaritySampler, nearby, schema=through_file(Schema, schema))
    assert same_bits(again.rows(Z), nearby.rows(Z))
    assert again.phrase == nearby.phrase


def test_unknown_kind_in_a_file():
    schema, _, nearby = learned(np.eye(3))
    with pytest.raises(CorruptFileError, match=r"SimilaritySampler is of the unknown kind 'odd'; import the module"):
        from_tree(SimilaritySampler, tree_of(nearby) | {"kind": "odd"}, schema=schema)


# Words, parameters, wrong calls


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, f"{HALFWAY} one of its 10 nearest neighbours"),
        (
            {"step": 0.25, "n_neighbors": 3},
            "a slightly different one, moved 25% of the way towards one of its 3 nearest neighbours",
        ),
        ({"step": 1}, "one of its 10 nearest neighbours"),
        ({"n_neighbors": 1, "fixed": [0]}, f"{HALFWAY} its nearest neighbour, with 'x0' unchanged"),
        (
            {"fixed": [0, 1, 2]},
            f"{HALFWAY} one of its 10 nearest neighbours, with 'x0', 'x1' and 'x2' unchanged",
        ),
    ],
)
def test_phrase(parameters, words):
    assert learned(np.random.default_rng(13).normal(size=(30, 4)), **parameters)[2].phrase == words


def test_parameters_and_clone():
    given = NearestRows(3, 0.2, ("a",))
    assert repr(given) == "NearestRows(fixed=('a',), n_neighbors=3, step=0.2)"
    assert clone(given).get_params() == {"n_neighbors": 3, "step": 0.2, "fixed": ("a",), "whole": True}
    assert repr(NearestRows(whole=False)) == "NearestRows(whole=False)"


@pytest.mark.parametrize(
    ("parameters", "kind", "words"),
    [
        ({"n_neighbors": 0}, InputError, "n_neighbors=0 must be at least 1."),
        ({"n_neighbors": 2.0}, ParameterTypeError, "n_neighbors=2.0 must be a whole number."),
        ({"step": 0}, InputError, "step=0 must be a finite number greater than 0."),
        ({"step": float("nan")}, InputError, "step=nan must be a finite number greater than 0."),
        ({"step": 1.5}, InputError, "step=1.5 must be at most 1, which is the neighbour itself."),
        ({"step": "half"}, ParameterTypeError, "step='half' must be a number."),
        ({"whole": "yes"}, InputError, "whole='yes' is not one of True, False."),
        ({"whole": 1}, InputError, "whole=1 is not one of True, False."),
        ({"fixed": "a"}, ParameterTypeError, "fixed='a' must be a list of columns; for one column write ['a']."),
        ({"fixed": 1}, ParameterTypeError, "fixed=1 must be a list of columns; for one column write [1]."),
        ({"fixed": None}, ParameterTypeError, "fixed=None must be a list of columns, or () for none."),
        ({"fixed": ["z"]}, InputError, "fixed has 'z', which is not a column of X; columns are ['a', 'b']."),
        ({"fixed": [2]}, InputError, "fixed has column 2, but X has 2 columns."),
        ({"fixed": [-3]}, InputError, "fixed has column -3, but X has 2 columns."),
        ({"fixed": [True]}, InputError, "fixed has True, which is not a column of X; columns are ['a', 'b']."),
        ({"fixed": [0.0]}, InputError, "fixed has 0.0, which is not a column of X; columns are ['a', 'b']."),
        ({"fixed": [["a", ["b"]]]}, InputError, "fixed has ['b'], which is not a column of X; columns are ['a', 'b']."),
        ({"fixed": ["a", "b"]}, InputError, "fixed has all columns, so no row could change; leave some out."),
    ],
)
def test_wrong_parameters(parameters, kind, words):
    schema, Z = Schema.learn(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [1.0, 0.0, 5.0]}))
    for call in (NearestRows(**parameters).check, lambda schema: NearestRows(**parameters).learn(schema, Z, 0)):
        with pytest.raises(kind, match=f"^{re.escape(words)}$"):
            call(schema)
