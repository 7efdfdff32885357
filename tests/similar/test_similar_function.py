"""Functions of rows: what they get, what they may return, and a sentence for what they may not."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from archive_helpers import through_file
from gpec.data import Schema
from gpec.errors import InputError, ParameterTypeError
from gpec.similar import MeasurementError, NearestRows, SimilarFunction, SimilaritySampler, make_similar

ROWS = np.random.default_rng(0).normal(size=(10, 3))


def learned(function, X=ROWS):
    schema, Z = Schema.learn(X)
    return schema, Z, SimilarFunction(function).learn(schema, Z, 0)


def steps(X):
    """K = 2 for each row, as an array (n, K, d)."""
    return np.stack((X + 1, X + 2), axis=1)


# What the parameter means


def test_words_and_objects():
    given = NearestRows(3)
    assert make_similar(None) is None
    assert make_similar(given) is given
    assert make_similar("auto").get_params() == NearestRows().get_params()
    assert type(make_similar("auto")) is NearestRows
    made = make_similar(steps)
    assert type(made) is SimilarFunction
    assert made.function is steps


@pytest.mark.parametrize("wrong", ["nearest", 3, NearestRows, {"glucose": 5.0}, [steps], True])
def test_what_it_cannot_mean(wrong):
    with pytest.raises(ParameterTypeError, match=r"similar=.* must be 'auto', None, an object such as NearestRows\(\)"):
        make_similar(wrong)


# What it gets


def test_gets_rows_of_the_users_form():
    frame = pd.DataFrame({"c": ["a", "b", "a"], "x": [1.0, np.nan, 3.0], "when": pd.to_datetime(["2020-01-01"] * 3)})
    seen = []

    def function(X):
        seen.append(X.copy())
        X["x"] = 9.0  # its own copy
        return X

    _, Z, answers = learned(function, frame)
    before = Z.copy()
    got = answers.rows(Z)
    pd.testing.assert_frame_equal(seen[-1], frame)
    assert got[:, 0, 1].tolist() == [9.0] * 3
    np.testing.assert_array_equal(Z, before)


def test_gets_polars_if_fit_did():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1.0, 2.0], "c": ["u", "v"]})
    _, Z, answers = learned(lambda X: [X.with_columns(polars.col("a") + 1), X.with_columns(polars.col("a") + 2)], frame)
    assert answers.rows(Z)[:, :, 0].tolist() == [[2.0, 3.0], [3.0, 4.0]]


def test_tried_on_a_few_rows_before_anything_else():
    sizes = []

    def function(X):
        sizes.append(len(X))
        return X + 1

    learned(function)
    assert len(sizes) == 1
    assert 1 <= sizes[0] <= 5


# What it may return


@pytest.mark.parametrize(
    "function",
    [
        steps,
        lambda X: [X + 1, X + 2],
        lambda X: (X + 1, X + 2),
        lambda X: np.repeat(X, 2, axis=0) + np.tile([[1], [2]], (len(X), 1)),
        lambda X: pd.DataFrame(steps(X).reshape(-1, 3)),
        lambda X: steps(X).reshape(-1, 3).tolist(),
        lambda X: steps(X).astype(object),
    ],
)
def test_forms_of_the_answer(function):
    _, Z, answers = learned(function)
    for rows in (Z, Z[:1], Z[:3]):
        np.testing.assert_array_equal(answers.rows(rows), np.stack((rows + 1, rows + 2), axis=1))


def test_one_similar_row():
    _, Z, answers = learned(lambda X: X + 1)
    np.testing.assert_array_equal(answers.rows(Z), (Z + 1)[:, None, :])


def test_frames_with_columns_in_another_order():
    frame = pd.DataFrame({"c": ["a", "b"], "x": [1.0, 2.0]})
    _, Z, answers = learned(lambda X: X.assign(x=X["x"] + 1)[["x", "c"]], frame)
    assert answers.rows(Z)[:, 0].tolist() == [[0, 2], [1, 3]]


def test_images():
    images = np.random.default_rng(1).random((6, 4, 5))
    for function in (lambda X: np.stack((X + 1, X + 2), axis=1), lambda X: [X + 1, X + 2]):
        _, Z, answers = learned(function, images)
        np.testing.assert_array_equal(answers.rows(Z), np.stack((Z + 1, Z + 2), axis=1))
    _, Z, answers = learned(lambda X: np.repeat(X, 2, axis=0) * 2, images)
    assert answers.rows(Z).shape == (6, 2, 20)


def test_tensors():
    torch = pytest.importorskip("torch")
    _, Z, answers = learned(lambda X: torch.tensor(steps(X), requires_grad=True))
    np.testing.assert_array_equal(answers.rows(Z), np.stack((Z + 1, Z + 2), axis=1))


def test_some_of_the_rows_may_be_the_row_itself():
    _, Z, answers = learned(lambda X: [X, X + 1])
    assert answers.rows(Z).shape == (10, 2, 3)


# What it may not


def raises(X):
    raise KeyError("no such patient.")


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda X: None, ParameterTypeError, "similar(X) must be a table of rows (array or DataFrame), got NoneType."),
        (lambda X: "rows", ParameterTypeError, "similar(X) must be a table of rows"),
        (lambda X: 5.0, InputError, "similar(X) must have 2 dimensions"),
        (lambda X: [], InputError, "similar(X) must have 2 dimensions"),
        (lambda X: X[:0], InputError, "similar(X) has 0 rows; at least 1 is needed."),
        (lambda X: X[:, :2], InputError, "similar(X) has 2 features, but 3 are expected"),
        (lambda X: steps(X)[:, :, :2], InputError, "similar(X) has 2 features, but 3 are expected"),
        (
            lambda X: X[1:],
            InputError,
            "returned 2 rows for 3 rows; it must return the same number of similar rows for each.",
        ),
        (lambda X: np.ones((2, 4, 3)), InputError, "returned an array of shape (2, 4, 3) for 3 rows; its first axis"),
        (lambda X: np.ones((3, 0, 3)), InputError, "returned an array of shape (3, 0, 3) for 3 rows;"),
        (lambda X: [X + 1, X[:2]], InputError, "returned a list whose table 1 has 2 rows for 3 rows; each table must"),
        (lambda X: [X + 1, (X + 1)[:, :1]], InputError, "similar(X) has 1 features, but 3 are expected"),
        (lambda X: np.full(X.shape, np.nan), InputError, "similar(X) has a missing value in row 0, column 'x0', which"),
        (lambda X: X + np.inf, InputError, "similar(X) is infinite in row 0, column 'x0'"),
        (lambda X: X + 1j, InputError, "similar(X) has complex numbers"),
        (lambda X: np.full(X.shape, "a"), InputError, "similar(X) column 'x0' is not numeric in row 0"),
        (lambda X: X, InputError, "returned only row 0 itself for that row; return rows that differ from it."),
        (lambda X: [X, X.copy()], InputError, "returned only row 0 itself"),
        (lambda X: X + np.array([[0], [0], [1]]), InputError, "returned only row 0 itself"),
        (raises, InputError, "similar=raises raised KeyError: 'no such patient.'."),
    ],
)
def test_wrong_answers(function, kind, words):
    with pytest.raises(kind, match=re.escape(words)) as caught:
        learned(function)
    if function is raises:
        assert isinstance(caught.value.__cause__, KeyError)


def test_unknown_category():
    frame = pd.DataFrame({"c": ["a", "b"], "x": [1.0, 2.0]})
    with pytest.raises(InputError, match=r"similar\(X\) has the category 'z' in row 0, column 'c', which did"):
        learned(lambda X: X.assign(c="z"), frame)


def test_missing_where_missing_is_the_row_itself():
    frame = pd.DataFrame({"x": [np.nan, 1.0], "y": [0.0, 1.0]})
    with pytest.raises(InputError, match="returned only row 0 itself"):
        learned(lambda X: X.assign(x=X["x"] + 1), frame)


def test_another_number_of_rows_later():
    _, Z, answers = learned(lambda X: [X + k for k in range(1, 3 if len(X) < 10 else 4)])
    with pytest.raises(InputError, match=r"returned 3 similar rows for each row, and 2 before; the number must always"):
        answers.rows(Z)


def test_not_a_function():
    schema, _ = Schema.learn(ROWS)
    with pytest.raises(ParameterTypeError, match="function=3 must be a function of rows"):
        SimilarFunction(3).check(schema)


# Words and files


def test_phrase():
    assert learned(steps)[2].phrase == "one of the 2 rows that the function 'steps' makes of it"
    assert learned(lambda X: X + 1)[2].phrase == "the row that the function '<lambda>' makes of it"


class Shift:
    """A function that is an object."""

    def __call__(self, X):
        return X + 1


def test_a_file_keeps_the_name_only():
    schema, Z, answers = learned(Shift())
    again = through_file(SimilaritySampler, answers, schema=schema)
    assert again.phrase == answers.phrase == "the row that the function 'Shift' makes of it"
    with pytest.raises(InputError, match=r"came from the function 'Shift', which cannot be saved in a file; pass it"):
        again.rows(Z)
    assert again.with_function(Shift()).rows(Z).tobytes() == answers.rows(Z).tobytes()
    with pytest.raises(InputError, match="returned 2 similar rows for each row, and 1 before"):
        again.with_function(steps).rows(Z)


def test_parameters_and_clone():
    assert clone(SimilarFunction(steps)).function is steps
    assert isinstance(clone(MeasurementError({0: 1.0})), MeasurementError)
