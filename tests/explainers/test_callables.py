"""Functions and subclasses of users: what they may answer, and what is said of answers that do not fit."""

import numpy as np
import pandas as pd
import pytest
import shap
from explainer_helpers import fitted
from sklearn.base import clone

from extras import torch
from gpec.errors import ExplainerError
from gpec.explainers import Attribution, Explainer


class Twice(Explainer):
    """What a user may write; it keeps the seeds it was given."""

    stochastic = False

    def __init__(self, factor=2.0):
        self.factor = factor

    def _explain(self, Z, seeds):
        self.seeds = seeds
        return Attribution(self.factor * Z)


def test_own_subclass(models, X):
    explainer = fitted(Twice(3.0), models.curved, X)
    np.testing.assert_array_equal(explainer(X[:4]).values, 3.0 * X[:4])
    assert clone(Twice(3.0)).factor == 3.0


def test_each_row_has_a_seed_of_its_own(models, X):
    explainer = fitted(Twice(), models.curved, X)

    def seeds(rows, **options):
        explainer.explain(rows, **options)
        return explainer.seeds

    first = seeds(X, seed=0)
    assert len(first) == len(set(first)) == len(X)
    assert seeds(X[::-1], seed=0) == first[::-1]
    assert seeds(np.repeat(X[:1], 2, axis=0), seed=0) == [first[0]] * 2
    assert not set(first) & set(seeds(X, seed=1))
    assert not set(first) & set(seeds(X, seed=0, run=1))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda X: X, lambda X: X),
        (lambda X: X.astype(np.float32), lambda X: X.astype(np.float32).astype(float)),
        (lambda X: X.tolist(), lambda X: X),
        (lambda X: pd.DataFrame(X), lambda X: X),
        (lambda X: torch.as_tensor(X), lambda X: X),
        (lambda X: X[:, :, None], lambda X: X),
        (lambda X: np.stack((-X, X), axis=-1), lambda X: X),
        (lambda X: [-X, X], lambda X: X),
        (lambda X: Attribution(X), lambda X: X),
        (lambda X: shap.Explanation(values=X, base_values=np.zeros(len(X))), lambda X: X),
        (lambda X: np.round(X).astype(int), np.round),
    ],
    ids=range(11),
)
def test_answers_of_two_classes(models, X, answer, expected):
    found = fitted(answer, models.curved, X)(X[:4])
    assert found.values.shape == (4, 3)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.values, expected(X[:4]))
    assert found.variance is None


def test_answers_of_several_classes(models, X):
    for answer in (models.slopes_of_three, lambda X: list(np.moveaxis(models.slopes_of_three(X), 2, 0))):
        found = fitted(answer, models.three_classes, X)(X[:4])
        np.testing.assert_array_equal(found.values, models.slopes_of_three(X[:4]))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 1), (4, 3, 2)])
def test_inside_there_is_an_axis_for_the_one_output_of_two_classes(models, X, shape):
    answer = Attribution(np.ones(shape), np.ones(shape), 0.5)
    explainer = fitted(lambda X: answer, models.curved, X)
    inside, outside = explainer.explain(X[:4], seed=0), explainer(X[:4])
    assert inside.values.shape == inside.variance.shape == (4, 3, 1)
    assert inside.base_values.shape == (4, 1)
    assert outside.values.shape == outside.variance.shape == (4, 3)
    assert outside.base_values.shape == (4,)


def test_what_one_block_of_rows_lacks_the_whole_lacks(models, X):
    parts = [Attribution(X[:2, :, None], X[:2, :, None] ** 2), Attribution(X[2:5, :, None])]
    whole = Attribution.join(parts)
    np.testing.assert_array_equal(whole.values[:, :, 0], X[:5])
    assert whole.variance is None
    np.testing.assert_array_equal(Attribution.join(parts[:1]).variance, parts[0].variance)


def test_pair_of_values_and_variance(models, X):
    found = fitted(lambda X: (X, X**2), models.curved, X)(X[:4])
    np.testing.assert_array_equal(found.variance, X[:4] ** 2)
    pair = fitted(lambda X: (np.stack((-X, X), -1), np.stack((X**4, X**2), -1)), models.curved, X)
    np.testing.assert_array_equal(pair(X[:4]).variance, X[:4] ** 2)


def test_callable_gets_rows_as_the_model_does(mixed):
    seen = []

    def explainer(frame):
        seen.append(frame)
        frame["price"] = 0.0  # it may even spoil them
        return np.zeros(frame.shape)

    adapter = fitted(explainer, mixed.model, mixed.frame)
    Z = adapter.model_.schema.encode(mixed.frame[:3])
    before = Z.copy()
    adapter.explain(Z, seed=0)
    assert list(seen[0].columns) == list(mixed.frame.columns)
    assert (seen[0].dtypes.drop("price") == mixed.frame.dtypes.drop("price")).all()
    assert (before == Z).all()


def test_answer_does_not_share_memory(models, X):
    kept = np.array(X[:4])
    found = fitted(lambda X: kept, models.curved, X)(X[:4])
    found.values[:] = 7
    assert (kept == X[:4]).all()


def test_many_rows_come_in_blocks(models, X):
    sizes = []

    def explainer(rows):
        sizes.append(len(rows))
        return rows, rows**2

    adapter = fitted(explainer, models.curved, X)
    rows = np.random.default_rng(0).normal(size=(2_100, 3))
    found = adapter(rows)
    assert sizes == [64] * 32 + [52]
    np.testing.assert_array_equal(found.values, rows)
    np.testing.assert_array_equal(found.variance, rows**2)


WRONG = {
    "too few rows": (lambda X: X[1:], r"has shape \(3, 3\) for 4 rows of a model with 2 classes; expected \(4, 3\)"),
    "too few features": (lambda X: X[:, 1:], r"has shape \(4, 2\)"),
    "transposed": (lambda X: X.T, r"has shape \(3, 4\)"),
    "one number": (lambda X: 0.5, r"has shape \(\)"),
    "one a row": (lambda X: X[:, 0], r"has shape \(4,\)"),
    "three outputs": (lambda X: np.stack((X, X, X), -1), r"has shape \(4, 3, 3\) .* expected \(4, 3\)\."),
    "two outputs of too few rows": (lambda X: np.stack((X[1:], X[1:]), -1), r"has shape \(3, 3, 2\)"),
    "NaN": (lambda X: np.where(X[2, 1] == X, np.nan, X), "has nan at row 2, feature 1"),
    "infinite": (lambda X: np.where(X[3, 0] == X, -np.inf, X), "has -inf at row 3, feature 0"),
    "nothing": (lambda X: None, "cannot be read as an array of real numbers: it is None"),
    "text": (lambda X: np.full(X.shape, "high"), "cannot be read as an array of real numbers"),
    "complex": (lambda X: X + 1j, "cannot be read as an array of real numbers"),
    "ragged": (lambda X: [[1.0], [1.0, 2.0]], "cannot be read as an array of real numbers"),
    "ragged classes": (lambda X: [X, X[1:]], "cannot be read as an array of real numbers"),
    "a tensor with gradients": (
        lambda X: torch.as_tensor(X).requires_grad_(True),
        "cannot be read as an array of real numbers",
    ),
    "a dict": (lambda X: {"values": X}, "cannot be read as an array of real numbers"),
    "variance of another shape": (lambda X: (X, X[:, 0]), r"The explainer's variance has shape \(4,\)"),
    "negative variance": (lambda X: (X, -(X**2)), "The explainer's variance has a negative number at row 0, feature 0"),
    "NaN variance": (lambda X: (X, X * np.nan), "The explainer's variance has nan at row 0, feature 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_answers(models, X, case):
    answer, message = WRONG[case]
    with pytest.raises(ExplainerError, match=message):
        fitted(answer, models.curved, X)(X[:4])


def test_wrong_answer_names_the_row_in_a_later_block(models, X):
    rows = np.random.default_rng(0).normal(size=(1_100, 3))
    explainer = fitted(lambda X: np.where(rows[1_030, 2] == X, np.nan, X), models.curved, X)
    with pytest.raises(ExplainerError, match="has nan at row 1030, feature 2"):
        explainer(rows)


def test_one_output_for_three_classes(models, X):
    with pytest.raises(ExplainerError, match=r"expected \(4, 3, 3\), one column of attributions for each class"):
        fitted(models.slopes, models.three_classes, X)(X[:4])


def test_explainer_that_raises(models, X):
    def explainer(X):
        raise ZeroDivisionError("too thin")

    with pytest.raises(ExplainerError, match=r"raised ZeroDivisionError on rows 0 to 3 of 4: too thin") as error:
        fitted(explainer, models.curved, X)(X[:4])
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_interrupt_passes_through(models, X):
    def explainer(X):
        raise KeyboardInterrupt("pressed")

    with pytest.raises(KeyboardInterrupt, match="pressed"):
        fitted(explainer, models.curved, X)(X[:4])


BASES = {
    # base given, outputs of the values, classes, rows -> base values kept
    "a number": (0.5, None, 2, 4, [0.5] * 4),
    "one for each row": ([1, 2, 3, 4], None, 2, 4, [1, 2, 3, 4]),
    "two outputs": ([0.7, 0.3], 2, 2, 4, [0.3] * 4),
    "two outputs, two rows": ([0.7, 0.3], 2, 2, 2, [0.3] * 2),
    "two outputs for each row": ([[0.7, 0.3]] * 4, 2, 2, 4, [0.3] * 4),
    "one column": ([[0.3]] * 4, 1, 2, 4, [0.3] * 4),
    "one row": ([0.3], None, 2, 1, [0.3]),
    "three outputs": ([0.2, 0.3, 0.5], 3, 3, 4, [[0.2, 0.3, 0.5]] * 4),
    "three outputs, three rows": ([0.2, 0.3, 0.5], 3, 3, 3, [[0.2, 0.3, 0.5]] * 3),
    "three outputs for each row": ([[0.2, 0.3, 0.5]] * 4, 3, 3, 4, [[0.2, 0.3, 0.5]] * 4),
    "a number for three classes": (0.0, 3, 3, 2, [[0.0] * 3] * 2),
    "none": (None, None, 2, 4, None),
    "NaN": (np.nan, None, 2, 4, None),
    "of other rows": ([1, 2, 3], None, 2, 4, None),
    "of other outputs": ([[0.2, 0.3, 0.5]] * 4, None, 2, 4, None),
    "of three dimensions": (np.zeros((4, 1, 1)), None, 2, 4, None),
    "texts": ("high", None, 2, 4, None),
}


@pytest.mark.parametrize("case", BASES)
def test_base_values(models, X, case):
    base, outputs, classes, n, expected = BASES[case]
    values = np.zeros((n, 3)) if outputs is None else np.zeros((n, 3, outputs))
    model = models.curved if classes == 2 else models.three_classes
    found = fitted(lambda X: Attribution(values, base_values=base), model, X)(X[:n]).base_values
    if expected is None:
        assert found is None
    else:
        assert found.shape == np.shape(expected)
        np.testing.assert_array_equal(found, expected)
