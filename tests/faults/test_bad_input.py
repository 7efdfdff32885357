"""Bad input at every entry point: a typed error that names the argument and the value, before the first model call."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gpec
from gpec.boundary import BisectionSampler, BoundarySample
from gpec.errors import (
    BoundaryNotFoundError,
    InputError,
    ModelCallError,
    ModelOutputError,
    ParameterTypeError,
)
from gpec.explainers import KernelShap
from gpec.kernels import EG, RBF, WEG
from gpec.similar import NearestRows


@pytest.fixture
def model(counting, models):
    return counting(models.curved)


def rows(**changes):
    """20 rows of 3 features, with some entries changed: ``rows(at=(2, 1), to=nan)``."""
    X = np.random.default_rng(3).normal(size=(20, 3))
    if changes:
        X[changes["at"]] = changes["to"]
    return X


def frame(**columns):
    return pd.DataFrame(rows(), columns=["a", "b", "c"]).assign(**columns)


# Tables of rows that cannot be used: what they are, and words of the message besides the argument's name.
TABLES = {
    "NaN": (rows(at=(2, 1), to=np.nan), ["missing value", "row 2", "x1"]),
    "infinite": (rows(at=(4, 2), to=np.inf), ["infinite", "row 4", "x2"]),
    "minus infinite": (rows(at=(4, 2), to=-np.inf), ["infinite", "row 4", "x2"]),
    "one dimension": (rows()[:, 0], ["2 dimensions", "(20,)", "reshape"]),
    "five dimensions": (rows()[:, :, None, None, None], ["2 dimensions", "(20, 3, 1, 1, 1)"]),
    "a number": (3.5, ["2 dimensions", "()"]),
    "no rows": (rows()[:0], ["0 rows"]),
    "too few features": (rows()[:, :2], ["2 features", "3"]),
    "too many features": (np.hstack((rows(), rows())), ["6 features", "3"]),
    "complex": (rows() + 1j, ["complex"]),
    "sparse matrix": (sparse.csr_matrix(rows()), ["sparse", "toarray"]),
    "sparse array": (sparse.coo_array(rows()), ["sparse", "toarray"]),
    "sparse dictionary": (sparse.dok_matrix(rows()), ["sparse", "toarray"]),  # a dict, too
    "texts": (rows().astype(str).astype(object) + "x", ["not numeric", "x0"]),
    "mixed objects": (np.array([[1.0, "high", None]] * 5, dtype=object), ["x1"]),
    "dates": (np.array([["2020-01-01"] * 3] * 5, dtype="M8[D]"), ["dates"]),
    "ragged": ([[1.0, 2.0, 3.0], [1.0]], ["table"]),
    "a text": ("rows", ["str"]),
    "bytes": (b"rows", ["bytes"]),
    "a dict": ({"a": [1.0]}, ["dict"]),
    "masked": (np.ma.masked_greater(rows(), 1.0), ["masked"]),
    "too large": (rows(at=(3, 0), to=1e200), ["row 3", "too far"]),
}
# Not an error where the first rows are learned: the number of features is free there, dates are read, and whether the
# model takes missing values only the model can tell.
FREE = ("too few features", "too many features", "too large", "NaN", "dates")
LEARNED = {name: case for name, case in TABLES.items() if name not in FREE}


def assert_refused(action, argument, words, model):
    """The action raises a typed error with all these words, and the model was not called."""
    calls = model.n_calls
    with pytest.raises((InputError, ParameterTypeError)) as error:
        action()
    message = str(error.value)
    assert re.search(rf"\b{re.escape(argument)}\b", message), message
    for word in words:
        assert word in message, message
    assert message.endswith("."), message
    assert model.n_calls == calls, "the model was called before the input was refused"


@pytest.mark.parametrize("case", LEARNED)
def test_rows_of_fit(make, model, case):
    table, words = LEARNED[case]
    g = make(model)
    assert_refused(lambda: g.fit(table), "X", words, model)
    assert not hasattr(g, "boundary_")


def test_no_rows_at_all(make, model):
    assert_refused(lambda: make(model).fit(None), "X", ["NoneType"], model)


@pytest.mark.parametrize("case", TABLES)
def test_rows_to_be_explained_in_fit(make, model, X, case):
    table, words = TABLES[case]
    assert_refused(lambda: make(model).fit(X, X_explained=table), "X_explained", words, model)


# No distances are taken to the background, so its rows may lie anywhere.
@pytest.mark.parametrize("case", [case for case in TABLES if case not in ("a number", "too large")])
def test_background(make, model, X, case):
    table, words = TABLES[case]
    words = ["'rows'", "'auto'"] if case == "a text" else words
    assert_refused(lambda: make(model, background=table).fit(X), "background", words, model)


@pytest.mark.parametrize("case", TABLES)
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_rows_of_explain(make, model, X, case, attribution):
    table, words = TABLES[case]
    g = make(model).fit(X)
    assert_refused(lambda: g.explain(table, attribution=attribution), "X", words, model)
    assert_refused(lambda: g(table, attribution=attribution), "X", words, model)
    assert g.explain(X[:2]).shape == (2, 3)  # still fitted


FRAMES = {
    "dates as objects": (frame(a=pd.date_range("2020", periods=20).date), ["'a'", "dates", "to_datetime"]),
    "infinite": (frame(a=np.where(np.arange(20) == 4, np.inf, 0.0)), ["'a'", "infinite", "row 4"]),
    "sparse column": (frame(a=pd.arrays.SparseArray([0.0, 1.0] * 10)), ["'a'", "sparse", "to_dense"]),
    "complex": (frame(a=rows()[:, 0] + 1j), ["'a'", "complex"]),
    "two of a name": (pd.concat([frame(), frame()], axis=1), ["'a'", "name"]),
    "no columns": (frame()[[]], ["0 columns"]),
    "lists": (frame(a=pd.Series([[1, 2]] * 20)), ["'a'", "unhashable type: 'list'"]),
    "some lists": (frame(a=pd.Series([1.0, [2.0]] * 10)), ["'a'", "unhashable type: 'list'"]),
    "dictionaries": (frame(a=pd.Series([{"x": 1}] * 20)), ["'a'", "unhashable type: 'dict'"]),
    "text that is not UTF-8": (frame(a=pd.Series(["u", "\udcff"] * 10, dtype=object)), ["'a'", "not UTF-8"]),
    "a name that is not UTF-8": (
        frame().set_axis(pd.Index(["a", "b\udcff", "c"], dtype=object), axis=1),
        ["column name", "not UTF-8"],
    ),
}


@pytest.mark.parametrize("case", FRAMES)
def test_frames_of_fit(make, model, case):
    table, words = FRAMES[case]
    assert_refused(lambda: make(model).fit(table), "X", words, model)


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_nested_columns_of_arrow(make, model, kind):
    pa = pytest.importorskip("pyarrow")
    nested = {
        "struct": pa.array([{"x": 1}] * 20),
        "list": pa.array([[1, 2]] * 20),
        "map": pa.array([[("k", 1)]] * 20, pa.map_(pa.string(), pa.int8())),
    }[kind]
    table = pa.table({"a": rows()[:, 0], "b": nested})
    assert_refused(lambda: make(model).fit(table), "X", ["'b'", "unhashable"], model)
    column = pd.Series(nested, dtype=pd.ArrowDtype(nested.type))
    assert_refused(lambda: make(model).fit(frame(b=column)), "X", ["'b'", "not numeric"], model)


def test_lists_where_fit_had_categories(make, counting):
    model = counting(lambda X: 1 / (1 + np.exp(-3 * X["b"].to_numpy(float))))
    g = make(model, lambda X: np.zeros(X.shape)).fit(frame(a=["u", "v"] * 10))
    assert_refused(lambda: g.explain(frame(a=pd.Series([["u"]] * 20))), "X", ["'a'", "unhashable"], model)


def test_no_images(make, counting):
    images = np.random.default_rng(0).normal(size=(30, 2, 3))
    model = counting(lambda X: 1 / (1 + np.exp(-3 * X[:, 0, 0])))
    assert_refused(lambda: make(model).fit(images[:0]), "X", ["0 rows"], model)
    g = make(model, lambda X: X).fit(images)
    assert_refused(lambda: g.explain(images[:0]), "X", ["0 rows"], model)


# Frames with missing values: the model that cannot take them says so on its first call, and the message tells where.
MISSING = {
    "text": frame(a=["u", None] * 10),
    "category": frame(a=pd.Categorical(["u", None] * 10)),
    "integer": frame(a=pd.array([1, None] * 10, dtype="Int64")),
}


@pytest.mark.parametrize("case", MISSING)
def test_missing_values_that_the_model_refuses(make, model, case):
    g = make(model)
    with pytest.raises(ModelCallError, match=r"missing values \(as in row 1, column 'a'\).*imputer") as error:
        g.fit(MISSING[case])
    assert isinstance(error.value.__cause__, (TypeError, ValueError))
    assert model.n_calls == 1
    assert not hasattr(g, "boundary_")


def test_missing_values_that_make_the_model_answer_nan(make, model):
    g = make(model)
    with pytest.raises(ModelOutputError, match=r"nan on call 1, row 2, which has missing values.*imputer"):
        g.fit(rows(at=(2, 1), to=np.nan))
    assert model.n_calls == 1
    assert not hasattr(g, "boundary_")


MISSING_LATER = {
    "text": ("colour", [None, "red"], "colour"),
    "category": ("size", pd.Categorical(["S", None], categories=["S", "M", "L"], ordered=True), "size"),
    "truth": ("new", [None, True], "new"),
    "number": ("price", [1.0, np.nan], "price"),
}


@pytest.mark.parametrize("where", ["X", "X_explained", "background"])
@pytest.mark.parametrize("case", MISSING_LATER)
def test_missing_values_where_fit_had_none(make, counting, mixed, case, where):
    model = counting(mixed.model.predict_proba)
    column, values, name = MISSING_LATER[case]
    strange = mixed.frame[:2].assign(**{column: values})
    words = ["missing value", f"'{name}'", "impute"]
    if where == "X":
        g = make(model, lambda frame: np.zeros(frame.shape)).fit(mixed.frame)
        assert_refused(lambda: g.explain(strange), where, words, model)
    elif where == "X_explained":
        assert_refused(lambda: make(model).fit(mixed.frame, X_explained=strange), where, words, model)
    else:
        assert_refused(lambda: make(model, background=strange).fit(mixed.frame), where, words, model)


OTHER_FRAMES = {
    "missing column": (frame()[["a", "b"]], ["missing: ['c']"]),
    "further column": (frame(d=1.0), ["unexpected: ['d']"]),
    "renamed column": (frame().rename(columns={"b": "B"}), ["missing: ['b']", "unexpected: ['B']"]),
    "texts for numbers": (frame(a="high"), ["'a'", "not numeric"]),
    "dates for numbers": (frame(a=pd.date_range("2020", periods=20)), ["'a'", "dates"]),
    "durations for numbers": (frame(a=pd.timedelta_range("1h", periods=20)), ["'a'", "dates"]),
}


@pytest.mark.parametrize("case", OTHER_FRAMES)
@pytest.mark.parametrize("where", ["X", "X_explained", "background", "boundary"])
def test_frames_that_differ_from_those_of_fit(make, model, case, where):
    table, words = OTHER_FRAMES[case]
    if where == "X":
        g = make(model).fit(frame())
        assert_refused(lambda: g.explain(table), where, words, model)
    elif where == "X_explained":
        assert_refused(lambda: make(model).fit(frame(), X_explained=table), where, words, model)
    else:
        assert_refused(lambda: make(model, **{where: table}).fit(frame()), where, words, model)


def test_unknown_category(make, mixed):
    g = make(mixed.model, lambda frame: np.zeros(frame.shape)).fit(mixed.frame)
    strange = mixed.frame[:3].assign(colour=["red", "mauve", "red"])
    with pytest.raises(InputError, match=r"X has the category 'mauve' in row 1, column 'colour'"):
        g.explain(strange)


def positive(**changes):
    return np.abs(rows(**changes))


ATTRIBUTIONS = {
    "too few rows": (positive()[1:], ["(19, 3)", "(20, 3)"]),
    "too few features": (positive()[:, 1:], ["(20, 2)", "(20, 3)"]),
    "transposed": (positive().T, ["(3, 20)", "(20, 3)"]),
    "one dimension": (positive()[:, 0], ["(20,)", "(20, 3)"]),
    "four dimensions": (positive()[:, :, None, None], ["(20, 3, 1, 1)"]),
    "NaN": (positive(at=(2, 1), to=np.nan), ["nan", "(2, 1)"]),
    "infinite": (positive(at=(2, 1), to=np.inf), ["inf", "(2, 1)"]),
    "texts": (positive().astype(str), ["real numbers"]),
    "complex": (positive() + 1j, ["real numbers"]),
    "objects": (positive().astype(object), ["real numbers"]),
    "sparse": (sparse.csr_array(positive()), ["real numbers"]),
    "ragged": ([[1.0], [1.0, 2.0]], ["cannot be read"]),
    "a text": ("high", ["real numbers"]),
    "a number": (0.5, ["()", "(20, 3)"]),
}


@pytest.mark.parametrize("case", ATTRIBUTIONS)
@pytest.mark.parametrize("explained", [None, "given"])
def test_attributions(make, model, case, explained):
    values, words = ATTRIBUTIONS[case]
    X = rows() if explained is None else np.random.default_rng(0).normal(size=(90, 3))
    more = {} if explained is None else {"X_explained": rows()}
    assert_refused(lambda: make(model).fit(X, attributions=values, **more), "attributions", words, model)


@pytest.mark.parametrize("case", [*ATTRIBUTIONS, "negative"])
def test_attribution_variance(make, model, case):
    values, words = ATTRIBUTIONS[case] if case != "negative" else (-(rows() ** 2), ["(0, 0)", "at least 0"])
    assert_refused(
        lambda: make(model).fit(rows(), attributions=rows(), attribution_variance=values),
        "attribution_variance",
        words,
        model,
    )


def test_attribution_variance_alone(make, model, X):
    assert_refused(
        lambda: make(model).fit(X, attribution_variance=X**2), "attribution_variance", ["without attributions"], model
    )


def test_attributions_with_other_columns(make, model):
    values = pd.DataFrame(rows(), columns=["a", "b", "d"])
    assert_refused(lambda: make(model).fit(frame(), attributions=values), "attributions", ["'d'", "'c'"], model)


def test_attributions_for_another_number_of_classes(make, models, counting):
    """Only the model can tell how many classes there are; the message still names the argument."""
    with pytest.raises(InputError, match=r"^attributions has shape \(20, 3, 4\) .* 2 classes; expected \(20, 3\)"):
        make(models.curved).fit(rows(), attributions=np.zeros((20, 3, 4)))
    with pytest.raises(InputError, match=r"^attributions has shape \(20, 3\) .* 3 classes; expected \(20, 3, 3\)"):
        make(models.three_classes).fit(rows(), attributions=np.zeros((20, 3)))
    with pytest.raises(InputError, match=r"^attribution_variance has shape \(20, 3, 4\)"):
        make(models.curved).fit(rows(), attributions=rows(), attribution_variance=np.zeros((20, 3, 4)))


def test_no_explainer_and_no_attributions(make, model, X):
    assert_refused(lambda: make(model, None).fit(X), "explainer", ["attributions"], model)


BOUNDARIES = {
    "NaN": (rows(at=(2, 1), to=np.nan), ["missing value", "row 2", "x1"]),
    "infinite": (rows(at=(2, 1), to=np.inf), ["inf", "(2, 1)"]),
    "one dimension": (rows()[:, 0], ["2 dimensions", "(20,)"]),
    "three dimensions": (rows()[:, :, None], ["2 dimensions"]),
    "too few features": (rows()[:, :2], ["2 features", "3"]),
    "too few points": (rows()[:9], ["9 points", "10"]),
    "no points": (rows()[:0], ["0 points", "10"]),
    "too few known points": (BoundarySample.from_points(rows()[:9]), ["9 points", "10"]),
    "known points of other features": (BoundarySample.from_points(rows()[:, :2]), ["2 features", "3"]),
    "too large": (rows(at=(3, 0), to=1e300), ["row 3", "too far"]),
    "texts": (rows().astype(str), ["real numbers"]),
    "ragged": ([[1.0], [1.0, 2.0]], ["cannot be read"]),
    "a name": ("nearest", ["'nearest'", "'auto'"]),
    "nothing": (None, ["None", "'auto'"]),
    "a number": (7, ["7", "'auto'"]),
    "a class": (BisectionSampler, ["BisectionSampler", "sampler"]),
    "a function": (len, ["sampler"]),
}


@pytest.mark.parametrize("case", BOUNDARIES)
def test_boundary(make, model, X, case):
    boundary, words = BOUNDARIES[case]
    assert_refused(lambda: make(model, boundary=boundary).fit(X), "boundary", words, model)


@pytest.mark.parametrize("code", [-1.0, 3.0, 0.5])
def test_boundary_with_codes_that_are_no_categories(make, counting, mixed, code):
    model = counting(mixed.model.predict_proba)
    points = np.column_stack([np.zeros(20)] * 3 + [np.random.default_rng(0).normal(size=20)] * 2)
    points[4, 0] = code
    for boundary in (points, BoundarySample.from_points(points)):
        assert_refused(
            lambda boundary=boundary: make(model, boundary=boundary).fit(mixed.frame),
            "boundary",
            [str(code), "'colour'", "0 to 2"],
            model,
        )


# Parameters, one by one. "text" stands for a text that is not among the choices.
COUNTS = [0, -1, 2.5, None, "many", True, [5], np.nan]
PARAMETERS = {
    "n_boundary": [*COUNTS, 9],
    "n_neighbors": COUNTS,
    "n_landmarks": [*COUNTS, np.array([1, 2])],
    "n_explained": COUNTS,
    "fit_samples": COUNTS,
    "budget": [value for value in COUNTS if value is not None],
    "batch_size": [value for value in COUNTS if value is not None],
    "mode": ["regression", "classification", "exact", None, 3, True],
    "draw": ["evenly", None, 3, True],
    "n_resamples": [*COUNTS, 1],
    "components": ["joined", None, 3, True],
    "noise": ["loud", None, -1.0, np.nan, True],
    "output_scale": ["large", 0, 0.0, -1.0, np.inf, np.nan, None, True, [1.0], 1j],
    "lam": ["large", 0, -1.0, np.inf, np.nan, None, True, [1.0]],
    "rho": ["large", -1.0, np.inf, np.nan, None, True, [1.0]],
    "standardize": ["yes", None, 3, 1.0],
    "progress": ["yes", None, 3],
    "model_output": ["odds", None, 3],
    "threshold": [0, 1, -0.5, 1.5, "half", None, np.nan, True],
    "kernel": ["linear", None, 3, WEG],
    "similar": ["near", 3, True, [1], NearestRows],
    "task_kernel": ["alike", 3, True, [1.0], -np.eye(3), {"matrix": np.eye(3)}],
    "groups": ["all", 3, True, ["x0"], {"a": "x0"}, {"a": ["x0"], "b": ["x0"]}, {"a": ["y"]}, {"a": []}],
    "explainer": ["nonsense", 3, [1], KernelShap],
    "background": [0, -3, None, 2.5, True, "all"],
    "random_state": [-1, 1.5, "seed", [1]],
    "n_jobs": [0, 1.5, "two", True],
    "categorical_features": ["x0", ["y"], [7], [None], 5],
    "model": [None, 3, "model", KernelShap],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in PARAMETERS.items() for value in values], ids=repr
)
def test_parameters(make, model, X, name, value):
    g = make(model).set_params(**{name: value})
    shown = getattr(value, "__name__", None) or repr(value)
    words = [] if value is None or isinstance(value, (list, dict, np.ndarray)) else [shown.strip("'")]
    if name in ("model", "explainer", "kernel", "categorical_features"):
        words = [word for word in words if word not in ("None", "3", "model")]
    assert_refused(lambda: g.fit(X), name, words, model)
    assert not [attribute for attribute in vars(g) if attribute.endswith("_")]


def test_a_number_beyond_all_floats(make, model, X):
    assert_refused(lambda: make(model, lam=10**400).fit(X), "lam", ["finite"], model)


def test_rows_too_far_apart(make, model, X):
    assert_refused(lambda: make(model, standardize=False).fit(X * 1e200), "X", ["row", "too far", "standardize"], model)


def test_every_parameter_is_tried():
    known = set(gpec.GPEC(None).get_params())
    assert set(PARAMETERS) | {"boundary"} == known


OBJECTS = {
    "n_samples": {"explainer": KernelShap(n_samples=-1)},
    "lam": {"kernel": WEG(lam=-1.0)},
    "rho": {"kernel": 0.5 * RBF() + WEG(rho=-1.0)},
    "lengthscale": {"kernel": RBF(0.0) * EG()},
    "pairing": {"boundary": BisectionSampler(pairing="far")},
    "rows": {"boundary": BisectionSampler(rows="all")},
    "tolerance": {"boundary": BisectionSampler(tolerance=0.0)},
}


@pytest.mark.parametrize("name", OBJECTS)
def test_parameters_of_objects(make, model, X, name):
    with pytest.raises((InputError, ParameterTypeError), match=f"{name}="):
        make(model, **OBJECTS[name]).fit(X)


@pytest.mark.parametrize("name", OBJECTS)
def test_parameters_of_objects_are_refused_first(make, model, X, name):
    assert_refused(lambda: make(model, **OBJECTS[name]).fit(X), name, [], model)


@pytest.mark.parametrize("value", ["both", None, 3, True])
def test_attribution(make, model, X, value):
    g = make(model).fit(X)
    assert_refused(lambda: g.explain(X[:2], attribution=value), "attribution", [repr(value), "'posterior'"], model)


@pytest.mark.parametrize("value", [0, 1, 95, -0.1, np.nan, None, "high", True])
def test_confidence_level(make, model, X, value):
    g = make(model).fit(X)
    assert_refused(lambda: g.explain(X[:2], confidence_level=value), "confidence_level", [str(value)], model)


@pytest.mark.parametrize("change", [{"n_jobs": 0}, {"noise": "loud"}, {"n_resamples": 1}, {"progress": 3}])
def test_parameters_set_after_fit(make, model, X, change):
    g = make(model).fit(X).set_params(**change)
    assert_refused(lambda: g.explain(X[:2]), next(iter(change)), [], model)


@pytest.mark.parametrize("case", TABLES)
def test_rows_to_calibrate_with(make_auto, model, case):
    table, words = TABLES[case]
    g = make_auto(model, kernel=RBF(1.0)).fit(rows())
    assert_refused(lambda: g.calibrate(table), "X", words, model)


@pytest.mark.parametrize("case", ATTRIBUTIONS)
def test_attributions_to_calibrate_with(make_auto, model, case):
    values, words = ATTRIBUTIONS[case]
    g = make_auto(model, kernel=RBF(1.0)).fit(rows())
    assert_refused(lambda: g.calibrate(rows() + 0.1, attributions=values), "attributions", words, model)


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_explained_rows(make, model, X, n):
    words = ["at least 3 explained rows", f"got {n}"]
    assert_refused(lambda: make(model, n_explained=n).fit(X), "output_scale", words, model)
    assert_refused(lambda: make(model).fit(X, X_explained=X[:n]), "output_scale", words, model)
    g = make(model, output_scale=1.0).fit(X, X_explained=X[:n])
    assert np.isfinite(g.explain(X[:3]).variance).all()


# One class


@pytest.mark.parametrize("p", [0.0, 0.2, 1.0])
def test_one_class(make, counting, X, p):
    g = make(counting(lambda X: np.full(len(X), p)))
    with pytest.raises(BoundaryNotFoundError, match=rf"predicts class {int(p > 0.5)}"):
        g.fit(X)
    assert not [name for name in vars(g) if name.endswith("_")]


def test_class_never_predicted(make, models, X):
    def never(X):
        return np.column_stack((models.three_classes(X), np.zeros(len(X))))

    with pytest.raises(BoundaryNotFoundError, match="never predicts class 3"):
        make(never, lambda X: np.zeros((*X.shape, 4))).fit(X)


def test_one_row(make, models, X):
    with pytest.raises(InputError, match="at least 3 explained rows"):
        make().fit(X[:1])
    with pytest.raises(BoundaryNotFoundError, match="for all 1 rows"):
        make(output_scale=1.0).fit(X[:1])


def test_a_row_label_that_is_not_utf8_is_refused_before_the_explainer_runs():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["a", "b"])
    asked = []

    def explainer(rows):
        asked.append(len(rows))
        return 0.1 * np.asarray(rows)

    few = {"n_boundary": 20, "background": 2, "random_state": 0, "progress": False}
    g = gpec.GPEC(lambda Z: 1 / (1 + np.exp(-Z["a"].to_numpy())), explainer, **few).fit(X)
    asked.clear()
    labels = pd.Index(["x\udcff", "y"], dtype=object)
    with pytest.raises(InputError, match=r"X has a row label that is not UTF-8 text"):
        g.explain(X[:2].set_axis(labels))
    assert not asked
