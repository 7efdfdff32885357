"""Explainers of others, brought into one shape."""

import numpy as np
import pandas as pd
import pytest
import shap
import torch
import xgboost
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from gpec.errors import ExplainerError, InputError, ModelCallError, ParameterTypeError
from gpec.explainers import Attribution, CallableExplainer, Explainer, KernelShap, ShapAdapter, TreeShap, make_explainer
from gpec.explainers.adapters import Precomputed, ShapKernel
from gpec.explainers.base import check_attribution, row_seed
from gpec.model import Model
from gpec.table import Table

IRIS, SPECIES = load_iris(return_X_y=True)
# Off the thresholds of trees: shap's C code rounds both to single precision.
IRIS += np.random.default_rng(0).uniform(-0.01, 0.01, IRIS.shape)


def bound(explainer, model, X=IRIS, background=None):
    """An explainer introduced to a model that has been called once."""
    table, Z = Table.learn(X)
    checked = Model(model, table)
    checked.probabilities(Z[:5])
    explainer = make_explainer(explainer)
    explainer.bind(checked, Z[:20] if background is None else background)
    return explainer


@pytest.fixture(scope="module")
def forests():
    two = RandomForestClassifier(8, max_depth=3, random_state=0).fit(IRIS, SPECIES == 1)
    three = RandomForestClassifier(8, max_depth=3, random_state=0).fit(IRIS, SPECIES)
    return {2: two, 3: three}


def probability_of(model, X):
    p = model.predict_proba(X)
    return p[:, 1] if p.shape[1] == 2 else p


# Which explainer is meant


def test_names():
    assert type(make_explainer("kernelshap")) is KernelShap
    assert type(make_explainer("tree")) is TreeShap
    assert type(make_explainer("cxplain")).__name__ == "CXPlain"
    assert make_explainer("captum:Saliency").method == "Saliency"
    with pytest.raises(InputError, match=r"explainer='nonsense' is not one of \[.*\].*X -> \(n, d\)") as error:
        make_explainer("nonsense")
    for name in ("'kernelshap'", "'tree'", "'cxplain'", "'captum:<Name>'"):
        assert name in str(error.value)


def test_named_explainers_are_made_anew_and_checked(monkeypatch):
    assert make_explainer("tree") is not make_explainer("tree")
    monkeypatch.setattr(TreeShap, "check", lambda self: (_ for _ in ()).throw(InputError("not today")))
    with pytest.raises(InputError, match="not today"):
        make_explainer("tree")


def test_functions_and_shap_objects(forests):
    assert type(make_explainer(lambda X: X)) is CallableExplainer
    assert type(make_explainer(np.asarray)) is CallableExplainer
    assert type(make_explainer(shap.TreeExplainer(forests[2]))) is ShapAdapter


@pytest.mark.parametrize("explainer", [ShapKernel, shap.TreeExplainer, dict])
def test_a_class_is_not_an_explainer(explainer):
    with pytest.raises(ParameterTypeError, match=f"explainer is the class {explainer.__name__}; pass an instance"):
        make_explainer(explainer)


@pytest.mark.parametrize("explainer", [3, None, [1]])
def test_other_things_are_not_explainers(explainer):
    with pytest.raises(ParameterTypeError, match=f"explainer must be.*got {type(explainer).__name__}"):
        make_explainer(explainer)


class Uncopyable:
    """An explainer that holds a lock, say, and counts its calls."""

    def __init__(self):
        self.n_calls = 0

    def __call__(self, X):
        self.n_calls += 1
        return np.asarray(X)

    def __deepcopy__(self, memo):
        raise TypeError("cannot be copied")


@pytest.mark.parametrize("wrap", [lambda function: function, CallableExplainer])
def test_users_function_is_used_not_copied(models, X, wrap):
    function = Uncopyable()
    explainer = bound(wrap(function), models.curved, X)
    explainer.explain(X[:3], seed=0)
    assert function.n_calls == 1


def test_users_object_is_left_alone(models, X):
    own = ShapKernel(n_samples=20)
    explainer = bound(own, models.curved, X)
    assert explainer is not own
    assert explainer.n_samples == 20
    assert vars(own) == {"n_samples": 20}


class Twice(Explainer):
    """What a user may write; it keeps the seeds it was given."""

    stochastic = False

    def __init__(self, factor=2.0):
        self.factor = factor

    def _explain(self, Z, seeds):
        self.seeds = seeds
        return Attribution(self.factor * Z)


def test_own_subclass(models, X):
    explainer = bound(Twice(3.0), models.curved, X)
    np.testing.assert_array_equal(explainer.explain(X[:4], seed=0).values, 3.0 * X[:4])
    assert clone(Twice(3.0)).factor == 3.0


def test_each_row_has_a_seed_of_its_own(models, X):
    explainer = bound(Twice(), models.curved, X)

    def seeds(rows, **options):
        explainer.explain(rows, **options)
        return explainer.seeds

    first = seeds(X, seed=0)
    assert len(first) == len(set(first)) == len(X)
    assert seeds(X[::-1], seed=0) == first[::-1]
    assert seeds(np.repeat(X[:1], 2, axis=0), seed=0) == [first[0]] * 2
    assert not set(first) & set(seeds(X, seed=1))
    assert not set(first) & set(seeds(X, seed=0, run=1))


# Callables


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
    found = bound(answer, models.curved, X).explain(X[:4], seed=0)
    assert found.values.shape == (4, 3)
    assert found.values.dtype == np.float64
    np.testing.assert_array_equal(found.values, expected(X[:4]))
    assert found.variance is None


def test_answers_of_several_classes(models, X):
    for answer in (models.slopes_of_three, lambda X: list(np.moveaxis(models.slopes_of_three(X), 2, 0))):
        found = bound(answer, models.three_classes, X).explain(X[:4], seed=0)
        np.testing.assert_array_equal(found.values, models.slopes_of_three(X[:4]))


def test_pair_of_values_and_variance(models, X):
    found = bound(lambda X: (X, X**2), models.curved, X).explain(X[:4], seed=0)
    np.testing.assert_array_equal(found.variance, X[:4] ** 2)
    pair = bound(lambda X: (np.stack((-X, X), -1), np.stack((X**4, X**2), -1)), models.curved, X)
    np.testing.assert_array_equal(pair.explain(X[:4], seed=0).variance, X[:4] ** 2)


def test_callable_gets_rows_as_the_model_does(mixed):
    seen = []

    def explainer(frame):
        seen.append(frame)
        frame["price"] = 0.0  # it may even spoil them
        return np.zeros(frame.shape)

    adapter = bound(explainer, mixed.model, mixed.frame)
    Z = adapter.model_.table.encode(mixed.frame[:3])
    before = Z.copy()
    adapter.explain(Z, seed=0)
    assert list(seen[0].columns) == list(mixed.frame.columns)
    assert (seen[0].dtypes.drop("price") == mixed.frame.dtypes.drop("price")).all()
    assert (before == Z).all()


def test_answer_does_not_share_memory(models, X):
    kept = np.array(X[:4])
    found = bound(lambda X: kept, models.curved, X).explain(X[:4], seed=0)
    found.values[:] = 7
    assert (kept == X[:4]).all()


def test_many_rows_come_in_blocks(models, X):
    sizes = []

    def explainer(rows):
        sizes.append(len(rows))
        return rows, rows**2

    adapter = bound(explainer, models.curved, X)
    rows = np.random.default_rng(0).normal(size=(2_100, 3))
    found = adapter.explain(rows, seed=0)
    assert sizes == [1_024, 1_024, 52]
    np.testing.assert_array_equal(found.values, rows)
    np.testing.assert_array_equal(found.variance, rows**2)


WRONG = {
    "too few rows": (lambda X: X[1:], r"has shape \(3, 3\) for 4 rows of a model with 2 classes; expected \(4, 3\)"),
    "too few features": (lambda X: X[:, 1:], r"has shape \(4, 2\)"),
    "transposed": (lambda X: X.T, r"has shape \(3, 4\)"),
    "one number": (lambda X: 0.5, r"has shape \(\)"),
    "one a row": (lambda X: X[:, 0], r"has shape \(4,\)"),
    "three outputs": (lambda X: np.stack((X, X, X), -1), r"has shape \(4, 3, 3\)"),
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
        bound(answer, models.curved, X).explain(X[:4], seed=0)


def test_wrong_answer_names_the_row_in_a_later_block(models, X):
    rows = np.random.default_rng(0).normal(size=(1_100, 3))
    explainer = bound(lambda X: np.where(rows[1_030, 2] == X, np.nan, X), models.curved, X)
    with pytest.raises(ExplainerError, match="has nan at row 1030, feature 2"):
        explainer.explain(rows, seed=0)


def test_one_output_for_three_classes(models, X):
    with pytest.raises(ExplainerError, match=r"expected \(4, 3, 3\), one column of attributions for each class"):
        bound(models.slopes, models.three_classes, X).explain(X[:4], seed=0)


def test_explainer_that_raises(models, X):
    def explainer(X):
        raise ZeroDivisionError("too thin")

    with pytest.raises(ExplainerError, match=r"raised ZeroDivisionError on rows 0 to 3 of 4: too thin") as error:
        bound(explainer, models.curved, X).explain(X[:4], seed=0)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_interrupt_passes_through(models, X):
    def explainer(X):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bound(explainer, models.curved, X).explain(X[:4], seed=0)


# Base values

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
    model = bound(ShapKernel(), models.curved if classes == 2 else models.three_classes, X).model_
    values = np.zeros((n, 3)) if outputs is None else np.zeros((n, 3, outputs))
    found = check_attribution(Attribution(values, base_values=base), n, 3, model).base_values
    if expected is None:
        assert found is None
    else:
        assert found.shape == np.shape(expected)
        np.testing.assert_array_equal(found, expected)


# TreeSHAP and KernelSHAP


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 70])
def test_tree_shap_adds_up_to_the_probability(forests, classes, n):
    forest = forests[classes]
    explainer = bound("tree", forest)
    rows = IRIS[40 : 40 + n]
    found = explainer.explain(rows, seed=0)
    assert found.values.shape == ((n, 4) if classes == 2 else (n, 4, 3))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, probability_of(forest, rows), atol=1e-6)
    expected = np.broadcast_to(probability_of(forest, IRIS[:20]).mean(axis=0), found.base_values.shape)
    np.testing.assert_allclose(found.base_values, expected, atol=1e-6)
    assert explainer.stochastic is False
    assert explainer.unit == "probability"


def test_tree_shap_rounds_the_background_as_the_forest_does():
    rows, classes = load_iris(return_X_y=True)  # of one decimal, many just at a threshold
    forest = RandomForestClassifier(8, max_depth=3, random_state=0).fit(rows, classes == 1)
    found = bound("tree", forest, rows).explain(rows[40:44], seed=0)
    expected = forest.predict_proba(rows[40:44])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [GradientBoostingClassifier(n_estimators=5, max_depth=2), xgboost.XGBClassifier(n_estimators=5, max_depth=2)],
)
def test_boosted_trees_are_explained_in_probabilities_too(model):
    model = model.fit(IRIS, SPECIES == 1)
    found = bound("tree", model).explain(IRIS[48:52], seed=0)
    expected = model.predict_proba(IRIS[48:52])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-5)


@pytest.mark.parametrize("model", [lambda X: X[:, 0] > 5, LogisticRegression().fit(IRIS, SPECIES == 1)])
def test_tree_shap_of_something_else(model):
    with pytest.raises(ExplainerError, match=r"TreeExplainer does not take this \w+ .*use explainer='kernelshap'"):
        bound("tree", model)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_kernel_shap_adds_up_to_the_probability(models, X, classes, n):
    function = models.curved if classes == 2 else models.three_classes
    found = bound(ShapKernel(), function, X).explain(X[:n], seed=0)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, function(X[:n]), atol=1e-9)
    np.testing.assert_allclose(
        found.base_values, np.broadcast_to(function(X[:20]).mean(axis=0), found.base_values.shape)
    )


def test_kernel_shap_is_exact_for_an_additive_model(X):
    weights = np.array([0.1, -0.05, 0.0])
    found = bound(ShapKernel(), lambda X: 0.5 + X @ weights, X).explain(X[:5], seed=0)
    np.testing.assert_allclose(found.values, weights * (X[:5] - X[:20].mean(axis=0)), atol=1e-8)


def test_kernel_shap_of_one_feature(X):
    found = bound(ShapKernel(), lambda X: 1 / (1 + np.exp(-X[:, 0])), X[:, :1]).explain(X[:4, :1], seed=0)
    p = 1 / (1 + np.exp(-X[:, 0]))
    np.testing.assert_allclose(found.values[:, 0], p[:4] - p[:20].mean(), atol=1e-9)


def test_kernel_shap_knows_whether_it_samples(models, X):
    assert bound(ShapKernel(), models.curved, X).stochastic is False
    assert bound(ShapKernel(n_samples=6), models.curved, X).stochastic is False  # all 2^3 - 2 coalitions
    assert bound(ShapKernel(n_samples=5), models.curved, X).stochastic is True
    wide = np.random.default_rng(0).normal(size=(30, 12))
    assert bound(ShapKernel(), lambda X: (X[:, 0] > 0) * 1.0, wide).stochastic is True
    wide = np.random.default_rng(0).normal(size=(30, 60))
    assert bound(ShapKernel(n_samples=10**30), lambda X: (X[:, 0] > 0) * 1.0, wide).stochastic is True


@pytest.mark.parametrize("n_samples", [0, -3, "many"])
def test_kernel_shap_refuses_a_number_of_samples(n_samples):
    with pytest.raises(InputError, match="n_samples="):
        make_explainer(ShapKernel(n_samples=n_samples))


@pytest.mark.parametrize("n_samples", [2.5, None, True])
def test_kernel_shap_refuses_a_type_of_samples(n_samples):
    with pytest.raises(ParameterTypeError, match="n_samples="):
        make_explainer(ShapKernel(n_samples=n_samples))


def test_kernel_shap_takes_categories(mixed):
    explainer = bound(ShapKernel(n_samples=40), mixed.model, mixed.frame)
    Z = explainer.model_.table.encode(mixed.frame[:2])
    found = explainer.explain(Z, seed=0)
    expected = mixed.model.predict_proba(mixed.frame[:2])[:, 1]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, expected, atol=1e-9)


def test_model_that_fails_inside_kernel_shap(counting, models, X, capsys):
    def before(call, X):
        if call > 1:
            raise ValueError("model is tired")

    with pytest.raises(ModelCallError, match="model is tired") as error:
        bound(ShapKernel(), counting(models.curved, before=before), X)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("n_samples", ["auto", 6, 4])
def test_rows_do_not_depend_on_the_rows_beside_them(models, X, n_samples):
    explainer = bound(ShapKernel(n_samples), models.curved, X)
    together = explainer.explain(X[:6], seed=3).values
    alone = np.concatenate([explainer.explain(X[i : i + 1], seed=3).values for i in range(6)])
    backwards = explainer.explain(X[:6][::-1], seed=3).values[::-1]
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-12)
    np.testing.assert_allclose(backwards, together, rtol=0, atol=1e-12)


def test_seeds_and_runs(models, X):
    explainer = bound(ShapKernel(n_samples=4), models.curved, X)
    first = explainer.explain(X[:6], seed=3).values
    np.testing.assert_array_equal(explainer.explain(X[:6], seed=3).values, first)
    assert np.abs(explainer.explain(X[:6], seed=4).values - first).max() > 1e-3
    assert np.abs(explainer.explain(X[:6], seed=3, run=1).values - first).max() > 1e-3


def test_zero_has_no_sign(models, X):
    explainer = bound(ShapKernel(n_samples=4), models.curved, X)
    row = np.array([[0.0, 1.0, -1.0]])
    np.testing.assert_array_equal(
        explainer.explain(row, seed=3).values, explainer.explain(row * [-1.0, 1.0, 1.0], seed=3).values
    )


# Known answers


def known(models, **changes):
    rows = np.random.default_rng(3).normal(size=(6, 3))
    parts = {"rows": rows, "values": models.slopes(rows), "variance": rows**2, "base_values": rows[:, 0]}
    return rows, Precomputed(**{**parts, **changes})


def test_known_answers_are_looked_up(models, X):
    rows, explainer = known(models)
    explainer = bound(explainer, models.curved, X)
    order = [4, 0, 4, 2]
    found = explainer.explain(rows[order], seed=0)
    np.testing.assert_array_equal(found.values, models.slopes(rows)[order])
    np.testing.assert_array_equal(found.variance, rows[order] ** 2)
    np.testing.assert_array_equal(found.base_values, rows[order, 0])
    assert explainer.stochastic is False
    bare = bound(known(models, variance=None, base_values=None)[1], models.curved, X).explain(rows[:2], seed=0)
    assert bare.variance is None
    assert bare.base_values is None


def test_known_answers_of_several_classes(models, X):
    rows, explainer = known(models, variance=None, base_values=[0.1, 0.2, 0.7])
    explainer.set_params(values=models.slopes_of_three(rows))
    found = bound(explainer, models.three_classes, X).explain(rows[3:5], seed=0)
    np.testing.assert_array_equal(found.values, models.slopes_of_three(rows[3:5]))
    np.testing.assert_array_equal(found.base_values, [[0.1, 0.2, 0.7]] * 2)


def test_unknown_row_is_named_by_its_place(models, X):
    rows, explainer = known(models)
    many = np.repeat(rows[:1], 1_500, axis=0)  # more than one block of other explainers
    many[1_200] += 1e-12
    with pytest.raises(InputError, match="Row 1200 is not among the 6 rows whose attributions were given"):
        bound(explainer, models.curved, X).explain(many, seed=0)


def test_equal_rows_and_zeros_of_either_sign(models, X):
    rows = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    explainer = bound(Precomputed(rows, np.arange(9.0).reshape(3, 3)), models.curved, X)
    np.testing.assert_array_equal(explainer.explain(-rows[:1] * [1, -1, -1], seed=0).values, [[0.0, 1.0, 2.0]])


def test_known_answers_that_do_not_fit(models, X):
    with pytest.raises(ExplainerError, match=r"has shape \(5, 3\) for 6 rows"):
        bound(known(models, values=np.zeros((5, 3)))[1], models.curved, X)
    with pytest.raises(InputError, match="rows has 2 features, but 3 are expected"):
        bound(known(models, rows=np.zeros((6, 2)))[1], models.curved, X)


@pytest.mark.parametrize("classes", [2, 3])
def test_explanation_of_shap_is_an_explainer(forests, classes):
    explanation = shap.TreeExplainer(forests[classes])(IRIS[60:70])
    explainer = bound(explanation, forests[classes])
    found = explainer.explain(IRIS[63:66], seed=0)
    expected = explanation.values[3:6]
    np.testing.assert_array_equal(found.values, expected[:, :, 1] if classes == 2 else expected)
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.base_values, probability_of(forests[classes], IRIS[63:66]), atol=1e-6
    )
    with pytest.raises(InputError, match="Row 1 is not among the 10 rows"):
        explainer.explain(IRIS[69:71], seed=0)


def test_spread_of_an_explanation_is_not_taken_for_its_variance(models, X):
    explanation = shap.Explanation(values=models.slopes(X), data=X, error_std=np.ones(X.shape))
    assert bound(explanation, models.curved, X).explain(X[:3], seed=0).variance is None


def test_explanation_without_rows():
    with pytest.raises(InputError, match=r"shap\.Explanation without its rows; set its data"):
        make_explainer(shap.Explanation(values=np.zeros((2, 2))))


def test_known_answers_of_a_frame(mixed):
    values = np.arange(5.0 * len(mixed.frame)).reshape(-1, 5)
    explainer = bound(Precomputed(mixed.frame, values), mixed.model, mixed.frame)
    Z = explainer.model_.table.encode(mixed.frame[7:9])
    np.testing.assert_array_equal(explainer.explain(Z, seed=0).values, values[7:9])
    explanation = shap.Explanation(values=values, data=mixed.frame.to_numpy())
    explainer = bound(explanation, mixed.model, mixed.frame)
    np.testing.assert_array_equal(explainer.explain(Z, seed=0).values, values[7:9])


# shap's own objects


@pytest.fixture(scope="module")
def logistic():
    two = LogisticRegression(max_iter=1_000).fit(IRIS, SPECIES == 1)
    three = LogisticRegression(max_iter=1_000).fit(IRIS, SPECIES)
    return {2: two, 3: three}


def shap_object(kind, model):
    if kind == "tree":
        return shap.TreeExplainer(model)
    return getattr(shap, kind)(model.predict_proba, IRIS[::15])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["ExactExplainer", "KernelExplainer", "PermutationExplainer", "tree"])
def test_shap_objects(logistic, forests, kind, classes):
    model = forests[classes] if kind == "tree" else logistic[classes]
    explainer = bound(shap_object(kind, model), model)
    for n in (1, 2, 3):  # as many rows as outputs is where base values go wrong
        rows = IRIS[60 : 60 + n]
        found = explainer.explain(rows, seed=0)
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, probability_of(model, rows), atol=1e-6)
        assert found.values.shape == ((n, 4) if classes == 2 else (n, 4, 3))


def own_answer(explainer, row, seed):
    """What shap itself says of one row with the seed that the row has."""
    state = np.random.get_state()
    np.random.seed(row_seed(seed, 0, row))
    try:
        return np.asarray(explainer(row[None]).values)[0]
    finally:
        np.random.set_state(state)


MADE = {
    "ExactExplainer": lambda model: shap.ExactExplainer(model.predict_proba, IRIS[::15]),
    "KernelExplainer": lambda model: shap.KernelExplainer(model.predict_proba, IRIS[::15]),
    "LinearExplainer": lambda model: shap.LinearExplainer(model, IRIS[::15]),
    "PartitionExplainer": lambda model: shap.PartitionExplainer(
        model.predict_proba, shap.maskers.Partition(IRIS[::15])
    ),
    "SamplingExplainer": lambda model: shap.SamplingExplainer(model.predict_proba, IRIS[::15]),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", MADE)
def test_answer_is_the_objects_own(logistic, kind, classes):
    model = logistic[classes]
    explainer = MADE[kind](model)
    assert type(explainer).__name__ == kind
    found = bound(explainer, model).explain(IRIS[60:63], seed=5).values
    for row, values in zip(IRIS[60:63], found, strict=True):
        own = own_answer(explainer, row, 5)
        np.testing.assert_allclose(values, own[:, 1] if classes == 2 and own.ndim == 2 else own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_answer_of_tree_is_its_own(forests, classes):
    explainer = shap.TreeExplainer(forests[classes])
    own = explainer(IRIS[60:63]).values
    found = bound(explainer, forests[classes]).explain(IRIS[60:63], seed=0).values
    np.testing.assert_allclose(found, own[:, :, 1] if classes == 2 else own, rtol=0, atol=1e-12)


def network(outputs):
    rng = np.random.default_rng(4)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, outputs))
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.as_tensor(rng.normal(size=weight.shape)))
    return module


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("kind", ["DeepExplainer", "GradientExplainer"])
def test_shap_objects_of_a_torch_module(kind, outputs):
    module = network(outputs)
    explainer = getattr(shap, kind)(module, torch.as_tensor(IRIS[::15], dtype=torch.float32))
    adapter = bound(explainer, module)
    found = adapter.explain(IRIS[60:63], seed=5).values
    assert found.shape == ((3, 4, 3) if outputs == 3 else (3, 4))
    assert adapter.stochastic is (False if kind == "DeepExplainer" else None)
    for row, values in zip(IRIS[60:63], found, strict=True):
        np.random.seed(row_seed(5, 0, row))
        own = np.asarray(explainer(torch.as_tensor(row[None], dtype=torch.float32)).values)[0]
        np.testing.assert_allclose(values, own if outputs == 3 else own[:, -1], rtol=0, atol=1e-5)


# shap's permutations


def game(X):
    """Interactions of three features, which one permutation and its reverse do not settle."""
    return 1 / (1 + np.exp(-2 * X[:, 0] * X[:, 1] * X[:, 2] - X[:, 3] * X[:, 4] - X[:, 5]))


@pytest.fixture(scope="module")
def wide():
    return np.random.default_rng(0).normal(size=(40, 6))


@pytest.mark.parametrize("classes", [2, 3])
def test_variance_of_permutations_is_that_from_seed_to_seed(wide, classes):
    model = (
        game
        if classes == 2
        else (lambda X: np.column_stack((game(X) / 2, game(-X) / 2, 1 - game(X) / 2 - game(-X) / 2)))
    )
    explainer = bound(shap.PermutationExplainer(model, wide[:4], max_evals=80), model, wide)  # 6 permutations
    runs = [explainer.explain(wide[10:12], seed=seed) for seed in range(100)]
    between = np.var([run.values for run in runs], axis=0, ddof=1)
    claimed = np.mean([run.variance for run in runs], axis=0)
    assert claimed.shape == ((2, 6) if classes == 2 else (2, 6, 3))
    ratio = claimed.sum() / between.sum()
    assert 0.85 < ratio < 1.18
    # shap's own spread over single passes says something else
    spread = shap.PermutationExplainer(model, wide[:4], seed=0)(
        wide[10:12], max_evals=80, error_bounds=True, silent=True
    ).error_std
    assert np.mean(spread**2) / between.mean() > 4


def test_permutations_are_unbiased(wide):
    exact = bound(shap.ExactExplainer(game, wide[:4]), game, wide).explain(wide[10:11], seed=0).values
    explainer = bound(shap.PermutationExplainer(game, wide[:4]), game, wide)
    runs = np.array([explainer.explain(wide[10:11], seed=seed).values for seed in range(40)])
    error = runs.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(runs.mean(axis=0) - exact) < 4 * error + 1e-12).all()


def test_permutations_spend_no_more_than_shap_would(wide, counting):
    model = counting(game)
    explainer = shap.PermutationExplainer(model, wide[:4], max_evals=130)
    before = model.n_rows
    explainer(wide[10:11], silent=True)
    own, before = model.n_rows - before, model.n_rows
    adapter = ShapAdapter(explainer)
    table, Z = Table.learn(wide)
    checked = Model(game, table)
    checked.probabilities(Z[:2])
    adapter.bind(checked, Z[:4])
    adapter.explain(wide[10:11], seed=0)
    assert 0 < model.n_rows - before <= own


def test_pairs_of_passes_settle_interactions_of_two(wide):
    def model(X):
        return 0.5 + 0.01 * X[:, 0] * X[:, 1] + 0.02 * X[:, 2]

    found = bound(shap.PermutationExplainer(model, wide[:4]), model, wide).explain(wide[10:12], seed=0)
    assert found.variance.max() < 1e-30  # though single passes differ
    exact = bound(shap.ExactExplainer(model, wide[:4]), model, wide).explain(wide[10:12], seed=0)
    np.testing.assert_allclose(found.values, exact.values, atol=1e-12)


def test_one_permutation_has_no_variance(wide):
    explainer = bound(shap.PermutationExplainer(game, wide[:4], max_evals=25), game, wide)
    assert explainer.explain(wide[10:11], seed=0).variance is None


def test_which_shap_objects_are_deterministic(logistic, forests):
    assert bound(shap.TreeExplainer(forests[2]), forests[2]).stochastic is False
    assert bound(shap.LinearExplainer(logistic[2], IRIS[:20]), logistic[2]).stochastic is False
    kernel = bound(shap.KernelExplainer(logistic[2].predict_proba, IRIS[:5]), logistic[2])
    assert kernel.stochastic is None
    assert kernel.rows_at_once == 1  # each row its own seed


def test_shap_object_draws_with_the_rows_seed(X):
    wide = np.random.default_rng(0).normal(size=(30, 12))

    def model(X):
        return 1 / (1 + np.exp(-X[:, 0] * X[:, 1]))

    explainer = bound(shap.SamplingExplainer(model, wide[:5]), model, wide)
    first = explainer.explain(wide[:2], seed=1).values
    np.testing.assert_array_equal(explainer.explain(wide[:2], seed=1).values, first)
    assert np.abs(explainer.explain(wide[:2], seed=1, run=1).values - first).max() > 0
    assert np.abs(explainer.explain(wide[1:2], seed=1).values - first[1]).max() < 1e-12


def test_shap_object_shows_no_bars_of_its_own(logistic, capfd):
    explainer = bound(shap.KernelExplainer(logistic[2].predict_proba, IRIS[:5]), logistic[2])
    explainer.explain(IRIS[:3], seed=0)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("explainer", ["kernelshap", ShapKernel(4), "object"])
def test_numpys_generator_is_left_alone(models, X, explainer):
    if explainer == "object":
        explainer = shap.KernelExplainer(models.curved, X[:5])
    np.random.seed(11)
    before = np.random.get_state()[1].copy(), np.random.get_state()[2]
    bound(explainer, models.curved, X).explain(X[:2], seed=0)
    assert (np.random.get_state()[1] == before[0]).all()
    assert np.random.get_state()[2] == before[1]


def test_numpys_generator_is_left_alone_by_an_explainer_that_fails(models, X):
    np.random.seed(11)
    expected = np.random.RandomState(11).random()
    explainer = bound(ShapKernel(4), models.curved, X)
    explainer._shap = None
    with pytest.raises(ExplainerError, match="AttributeError"):
        explainer.explain(X[:2], seed=0)
    assert np.random.random() == expected
