"""Rows given to the model are compared with what they were, without being made a second time."""

import numpy as np
import pytest

from gpec.data import Schema
from gpec.errors import ModelOutputError
from gpec.models import Model


def model_that(change, X):
    """A model that does something to its rows, and the encoded rows."""
    schema, Z = Schema.learn(X)

    def predict(rows):
        change(rows)
        return np.full(len(rows), 0.5)

    return Model(predict, schema), Z


def lacking():
    X = np.arange(12.0).reshape(4, 3)
    X[2, 1] = np.nan
    return X


def test_missing_values_that_stay_missing_are_untouched():
    model, Z = model_that(lambda rows: None, lacking())
    np.testing.assert_array_equal(model.probabilities(Z), np.full((4, 1), 0.5))


@pytest.mark.parametrize(("value", "place"), [(0.0, (2, 1)), (np.nan, (2, 0)), (7.5, (2, 2))])
def test_a_changed_number_is_found_beside_missing_values(value, place):
    model, Z = model_that(lambda rows: rows.__setitem__(place, value), lacking())
    with pytest.raises(ModelOutputError, match=r"changed its input rows \(call 1, row 2\)"):
        model.probabilities(Z)


def test_a_changed_pixel_is_found():
    images = np.random.default_rng(0).random((5, 1, 4, 4))
    model, Z = model_that(lambda rows: rows.__setitem__((3, 0, 1, 2), 2.0), images)
    with pytest.raises(ModelOutputError, match=r"changed its input rows \(call 1, row 3\)"):
        model.probabilities(Z)


def test_rows_of_another_shape_are_found():
    images = np.random.default_rng(0).random((5, 1, 4, 4))
    model, Z = model_that(lambda rows: rows.resize((5, 16), refcheck=False), images)
    with pytest.raises(ModelOutputError, match=r"changed its input rows \(call 1, row 0\)"):
        model.probabilities(Z)


def test_numbers_are_decoded_once_for_each_call():
    model, Z = model_that(lambda rows: None, np.random.default_rng(0).normal(size=(9, 3)))
    calls, decode = [], model._decode
    model._decode = lambda rows: calls.append(len(rows)) or decode(rows)
    model.probabilities(Z)
    assert calls == [9]
