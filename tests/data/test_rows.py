"""What kernels see of rows: their embedding, their features' own columns, and the model's answers on demand."""

import pickle
from threading import Barrier, Thread

import numpy as np
import pandas as pd
import pytest

from gpec.data import Rows, Schema
from gpec.errors import InputError

X = np.random.default_rng(0).normal(size=(12, 3))


class Asked:
    """A model's log-odds that note which rows they were asked for."""

    def __init__(self):
        self.rows = []

    def __call__(self, Z):
        self.rows.append(Z.copy())
        return Z[:, :2] * 10.0

    @property
    def n_rows(self):
        return sum(len(rows) for rows in self.rows)


@pytest.fixture
def ask():
    return Asked()


def rows_of(ask, Z=X):
    return Rows(2 * Z, Z, ask=ask)


class TestPlainArrays:
    def test_an_array_is_its_own_embedding(self):
        rows = Rows.of(X)
        assert len(rows) == 12
        np.testing.assert_array_equal(rows.embedded, X)
        np.testing.assert_array_equal(rows.encoded, X)
        np.testing.assert_array_equal(rows.own(1), X[:, [1]])

    def test_rows_are_left_as_they_are(self):
        rows = Rows.of(X)
        assert Rows.of(rows) is rows

    def test_lists_and_frames(self):
        np.testing.assert_array_equal(Rows.of(X.tolist()).embedded, X)
        np.testing.assert_array_equal(Rows.of(pd.DataFrame(X)).embedded, X)

    def test_there_is_no_model_to_ask(self):
        for rows in (Rows.of(X), Rows.of(X)[:3], Rows.join([Rows.of(X), Rows.of(X)])):
            with pytest.raises(InputError, match="These rows come from a plain array; a kernel that asks the model"):
                _ = rows.outputs

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            ([1.0, 2.0], r"Y must have shape \(rows, features\) with at least one row, got shape \(2,\)"),
            (np.zeros((0, 2)), r"at least one row, got shape \(0, 2\)"),
            ([[0.0, np.nan]], r"Y has .*nan.* at index \(0, 1\)"),
        ],
    )
    def test_bad_arrays(self, bad, message):
        with pytest.raises(InputError, match=message):
            Rows.of(bad, "Y")


class TestOutputs:
    def test_they_are_asked_for_when_wanted_and_once(self, ask):
        rows = rows_of(ask)
        _ = rows.embedded, rows.own(0), rows[:3], Rows.join([rows, rows])
        assert ask.n_rows == 0
        np.testing.assert_array_equal(rows.outputs, X[:, :2] * 10)
        np.testing.assert_array_equal(rows.outputs, X[:, :2] * 10)
        assert ask.n_rows == 12
        np.testing.assert_array_equal(ask.rows[0], X)  # encoded, not embedded

    @pytest.mark.parametrize(
        "index",
        [slice(3, 7), slice(None, None, 2), np.array([5, 1, 5]), np.arange(12) > 8, slice(0, 1)],
        ids=["slice", "step", "numbers", "mask", "one"],
    )
    @pytest.mark.parametrize("known", [True, False])
    def test_a_selection_has_those_of_its_rows(self, ask, index, known):
        rows = rows_of(ask)
        if known:
            _ = rows.outputs
        part = rows[index]
        np.testing.assert_array_equal(part.outputs, X[index, :2] * 10)
        np.testing.assert_array_equal(part.embedded, 2 * X[index])
        np.testing.assert_array_equal(part.encoded, X[index])
        assert len(part) == len(X[index])
        _ = rows.outputs, rows[2:4].outputs, part[:1].outputs
        assert ask.n_rows == 12  # all at once, and never again

    def test_joined_rows_ask_only_for_what_is_unknown(self, ask):
        first, second = rows_of(ask), rows_of(ask, X + 1)
        _ = first.outputs
        joined = Rows.join([first, second])
        np.testing.assert_array_equal(joined.embedded, 2 * np.vstack((X, X + 1)))
        np.testing.assert_array_equal(joined.encoded, np.vstack((X, X + 1)))
        np.testing.assert_array_equal(joined.outputs, np.vstack((X, X + 1))[:, :2] * 10)
        np.testing.assert_array_equal(second.outputs, (X + 1)[:, :2] * 10)
        np.testing.assert_array_equal(joined[[13, 0]].outputs, joined.encoded[[13, 0], :2] * 10)
        assert ask.n_rows == 24

    def test_parts_of_parts(self, ask):
        rows = rows_of(ask)
        mixed = Rows.join([rows[6:], rows[:6]])[3:9]
        np.testing.assert_array_equal(mixed.outputs, mixed.encoded[:, :2] * 10)
        np.testing.assert_array_equal(mixed.encoded, np.vstack((X[9:], X[:3])))
        assert ask.n_rows == 12

    def test_threads_ask_in_turn(self, ask):
        """Blocks of rows that run at the same time ask once for all of them."""
        rows, ready, found = rows_of(ask), Barrier(4), {}

        def work(i):
            ready.wait()
            found[i] = rows[3 * i : 3 * i + 3].outputs

        threads = [Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(np.vstack([found[i] for i in range(4)]), X[:, :2] * 10)
        assert ask.n_rows == 12

    def test_an_error_of_the_model_is_not_remembered(self, ask):
        failing = [True]

        def sometimes(Z):
            if failing.pop() if failing else False:
                raise RuntimeError("no")
            return ask(Z)

        rows = rows_of(sometimes)
        with pytest.raises(RuntimeError, match="no"):
            _ = rows[:2].outputs
        np.testing.assert_array_equal(rows[:2].outputs, X[:2, :2] * 10)

    def test_pickled_rows_keep_them(self, ask):
        rows = rows_of(ask)
        _ = rows.outputs
        again = pickle.loads(pickle.dumps(rows[2:5]))
        np.testing.assert_array_equal(again.outputs, X[2:5, :2] * 10)
        assert ask.n_rows == 12


class TestOwnColumns:
    def test_numbers_then_categories(self, mixed):
        schema, Z = Schema.learn(mixed.frame, categorical_features="auto")
        rows = Rows(schema.embed(Z), Z, schema.coordinates)
        assert rows.embedded.shape[1] == 2 + 3 + 3 + 2
        for f, name in enumerate(mixed.frame.columns):
            own = rows.own(f)
            if name in ("price", "weight"):
                assert own.shape == (200, 1)
                assert np.corrcoef(own[:, 0], mixed.frame[name])[0, 1] == pytest.approx(1.0, abs=1e-12)
                continue
            values = mixed.frame[name].astype(str).to_numpy()
            assert own.shape == (200, len(set(values)))
            distances = np.linalg.norm(own[:, None] - own, axis=2)
            np.testing.assert_array_equal(distances > 0, values[:, None] != values)
            assert np.ptp(distances[distances > 0]) < 1e-12  # whichever they are

    def test_every_column_belongs_to_one_feature(self, mixed):
        schema, Z = Schema.learn(mixed.frame, categorical_features="auto")
        rows = Rows(schema.embed(Z), Z, schema.coordinates)
        squared = sum(np.linalg.norm(rows.own(f)[:, None] - rows.own(f), axis=2) ** 2 for f in range(5))
        whole = np.linalg.norm(rows.embedded[:, None] - rows.embedded, axis=2) ** 2
        np.testing.assert_allclose(squared, whole, atol=1e-9)

    def test_selections_keep_them(self, mixed):
        schema, Z = Schema.learn(mixed.frame, categorical_features="auto")
        rows = Rows(schema.embed(Z), Z, schema.coordinates)
        np.testing.assert_array_equal(rows[5:9].own(0), rows.own(0)[5:9])
        np.testing.assert_array_equal(Rows.join([rows[:2], rows[7:8]]).own(1), rows.own(1)[[0, 1, 7]])
