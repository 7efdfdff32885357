"""The arrays that kernels read: embedding, the columns of each feature, the model's outputs and effects."""

import pickle

import numpy as np
import pandas as pd
import pytest

from gpec.data import Rows, Schema
from gpec.errors import InputError
from gpec.models import Model

X = np.random.default_rng(0).normal(size=(12, 3))
REGRESSION = Model(lambda X: X[:, 0], Schema.learn(X)[0], model_output="value").kind


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

    @pytest.mark.parametrize("name", ["outputs", "effects"])
    def test_what_was_not_filled_in_is_named(self, name):
        for rows in (Rows.of(X), Rows.of(X)[:3], Rows.join([Rows.of(X), Rows.of(X)])):
            assert getattr(rows, name) is None
            with pytest.raises(InputError, match=f"These rows come without {name}, which the kernel reads"):
                rows.require(name)

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


class TestSelections:
    rows = Rows(2 * X, X, outputs=10 * X[:, :2], effects=X[:, :, None], kind=REGRESSION)

    @pytest.mark.parametrize(
        "index",
        [slice(3, 7), slice(None, None, 2), np.array([5, 1, 5]), np.arange(12) > 8, slice(0, 1)],
        ids=["slice", "step", "numbers", "mask", "one"],
    )
    def test_a_selection_has_the_arrays_of_its_rows(self, index):
        part = self.rows[index]
        np.testing.assert_array_equal(part.embedded, 2 * X[index])
        np.testing.assert_array_equal(part.encoded, X[index])
        np.testing.assert_array_equal(part.outputs, 10 * X[index, :2])
        np.testing.assert_array_equal(part.effects, X[index, :, None])
        assert part.kind.is_regression
        assert len(part) == len(X[index])

    def test_joined_rows(self):
        mixed = Rows.join([self.rows[6:], self.rows[:6]])[3:9]
        np.testing.assert_array_equal(mixed.encoded, np.vstack((X[9:], X[:3])))
        np.testing.assert_array_equal(mixed.outputs, 10 * mixed.encoded[:, :2])
        np.testing.assert_array_equal(mixed.effects, mixed.encoded[:, :, None])

    def test_an_array_is_joined_only_if_all_parts_have_it(self):
        joined = Rows.join([self.rows, Rows(2 * X, X, outputs=10 * X[:, :2])])
        assert joined.effects is None
        assert joined.outputs.shape == (24, 2)

    def test_pickled(self):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(self.rows[2:5])).outputs, 10 * X[2:5, :2])


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
