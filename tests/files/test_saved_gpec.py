"""A fitted GPEC as a file."""

import os

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import gpec
from archive_helpers import from_tree, read_tree, write_tree
from gpec.errors import CorruptFileError, InputError, ModelCallError, ModelMismatchError, ParameterTypeError
from gpec.intervals.normalizer import ResidualNormalizer
from gpec.kernels import EG, RBF, WEG


def assert_same_answers(g, loaded, X):
    for options in ({}, {"attribution": "posterior"}, {"confidence_level": 0.5}):
        a, b = g.explain(X, **options), loaded.explain(X, **options)
        for name in ("values", "model_variance", "noise_variance", "lower", "upper"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), (options, name)
        for name in ("explainer_variance", "base_values"):
            first, second = getattr(a, name), getattr(b, name)
            assert (first is None) == (second is None)
            assert first is None or first.tobytes() == second.tobytes()
        assert a.feature_names == b.feature_names
        assert a.output_names == b.output_names
        assert (np.asarray(a.data) == np.asarray(b.data)).all()


KERNELS = {
    "weg": "weg",
    "rbf": "rbf",
    "EG": EG(lam=0.7),
    "WEG": WEG(0.5, 2.0, normalize=False),
    "sum": 0.5 * WEG() + 0.5 * RBF(),
    "product": WEG(rho=1.0) * RBF(2.0),
    "nested": (WEG() + RBF()) * (0.3 * EG() + RBF(3.0)),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("classes", [2, 3])
def test_round_trip_is_bit_identical(tmp_path, make, models, X, kernel, classes):
    if classes == 2:
        model, explainer = models.curved, models.slopes
    else:
        model, explainer = models.three_classes, models.slopes_of_three
    g = make(model, explainer, kernel=KERNELS[kernel]).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=model, explainer=explainer)
    assert_same_answers(g, loaded, X[:9])
    if classes == 2:
        loaded.fit(X)  # the kernel's parameters came along
        assert_same_answers(g, loaded, X[:4])


NOISES = {
    "number": 0.01,
    "numpy number": np.float32(0.01),
    "one for each feature": [0.0, 0.1, 0.2],
    "one for each attribution": np.random.default_rng(0).random((25, 3)),
    "none": "none",
    "resample": "resample",
}


@pytest.mark.parametrize("noise", NOISES)
def test_round_trip_with_noise(tmp_path, make, X, noise):
    g = make(noise=NOISES[noise], n_resamples=3).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert_same_answers(g, loaded, X[:5])
    assert (loaded.attributions_.variance == g.attributions_.variance).all()
    np.testing.assert_array_equal(loaded.noise, g.noise)
    assert loaded.fit(X).explain(X[:5]).variance.tobytes() == g.explain(X[:5]).variance.tobytes()


def test_round_trip_of_given_attributions_and_variance(tmp_path, make, models, X):
    few = X[:20]
    variance = np.random.default_rng(0).random(few.shape)
    g = make(explainer=None).fit(X, X_explained=few, attributions=models.slopes(few), attribution_variance=variance)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model)
    a, b = (part.explain(X[:5], attribution="posterior") for part in (g, loaded))
    assert a.values.tobytes() == b.values.tobytes()
    assert a.variance.tobytes() == b.variance.tobytes()
    a, b = (part.explain(few[::-1]) for part in (g, loaded))
    assert a.values.tobytes() == b.values.tobytes() == models.slopes(few[::-1]).tobytes()
    assert a.explainer_variance.tobytes() == b.explainer_variance.tobytes() == variance[::-1].tobytes()
    assert (a.lower.tobytes(), a.statement()) == (b.lower.tobytes(), b.statement())
    with pytest.raises(InputError, match="Row 1 is not among the 20 rows whose attributions were given to fit"):
        loaded.explain(X[19:21])


def lengths(frame):
    """Attributions of any frame: the lengths of its texts, and its numbers."""
    return np.column_stack([frame[name].map(lambda v: float(len(str(v)))) for name in frame.columns])


@pytest.mark.parametrize("categorical_features", ["auto", ["colour"], [True, False, False, False, False]])
def test_round_trip_of_a_mixed_frame(tmp_path, make, mixed, categorical_features):
    g = make(mixed.model, lengths, categorical_features=categorical_features).fit(mixed.frame)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=mixed.model, explainer=lengths)
    assert_same_answers(g, loaded, mixed.frame[:4])
    assert_same_answers(g, loaded, mixed.frame[:4][["weight", "new", "colour", "price", "size"]])
    pd.testing.assert_frame_equal(loaded.X_explained_, g.X_explained_)
    assert loaded.feature_names_in_.tolist() == list(mixed.frame.columns)
    assert loaded.classes_.tolist() == ["no", "yes"]
    again = loaded.fit(mixed.frame).explain(mixed.frame[:4])
    assert again.variance.tobytes() == g.explain(mixed.frame[:4]).variance.tobytes()


@pytest.mark.parametrize("values", [[("a", 1), ("b", (2, 3))], [("a", 1), "text", 3]])
def test_round_trip_of_categories_that_are_tuples(tmp_path, make, X, values):
    kinds = pd.Series([values[i % len(values)] for i in range(len(X))], dtype=object)
    frame = pd.DataFrame({"kind": kinds, "size": X[:, 0]})

    def model(frame):
        return expit(frame["size"].to_numpy() + 2.0 * np.array([kind == ("a", 1) for kind in frame["kind"]]) - 1.0)

    g = make(model, lengths).fit(frame)
    g.save(tmp_path / "g")
    assert_same_answers(g, gpec.GPEC.load(tmp_path / "g", model=model, explainer=lengths), frame[:4])


def test_round_trip_of_an_explainer_by_name(tmp_path, make, X):
    g = make(explainer="kernelshap", n_explained=5).fit(X)
    g.save(tmp_path / "g")
    assert_same_answers(g, gpec.GPEC.load(tmp_path / "g", model=g.model), X[:3])


@pytest.mark.parametrize("labels", [[0, 1, 2], [("a", 1), ("a", 2), ("b", 1)], ["x", 5, 2.5]])
def test_round_trip_of_column_labels_that_are_no_texts(tmp_path, make, X, labels):
    frame = pd.DataFrame(X)
    frame.columns = pd.Index(labels)
    g = make().fit(frame)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert_same_answers(g, loaded, frame[:4])
    assert list(loaded.X_explained_.columns) == labels


def test_what_is_loaded(tmp_path, make, X):
    g = make(lam=0.5, n_jobs=2, background=X[:7], random_state=np.random.default_rng(5)).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert loaded.diagnostics_ == g.diagnostics_
    assert loaded.n_features_in_ == 3
    assert not hasattr(loaded, "feature_names_in_")
    assert loaded.random_state == g.diagnostics_["seed"]
    np.testing.assert_array_equal(loaded.background, X[:7])
    for name in ("points", "direction", "residual", "label", "switched", "switched_to"):
        assert getattr(loaded.boundary_, name).tobytes() == getattr(g.boundary_, name).tobytes(), name
    assert loaded.boundary_.n_model_rows == g.boundary_.n_model_rows
    assert loaded.graph_.distances.tobytes() == g.graph_.distances.tobytes()
    assert loaded.posterior_.condition == g.posterior_.condition
    kept = {"model", "explainer", "kernel", "lam", "rho", "n_boundary", "n_neighbors", "noise", "n_jobs", "threshold"}
    for name in kept:
        assert loaded.get_params(deep=False)[name] == g.get_params(deep=False)[name], name
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "g").read_bytes()


def test_loading_calls_the_model_for_a_few_rows_only(tmp_path, make, models, counting, X):
    make().fit(X).save(tmp_path / "g")
    model = counting(models.curved)
    gpec.GPEC.load(tmp_path / "g", model=model, explainer=models.slopes)
    assert model.n_calls <= 3  # the rows it is known by, and both sides of the boundary points
    assert model.n_rows <= 20 + 2 * 60


def test_wrong_model(tmp_path, make, models, X):
    make().fit(X).save(tmp_path / "g")
    for model in (lambda X: 1 - models.curved(X), lambda X: np.clip(models.curved(X) + 1e-3, 0, 1)):
        with pytest.raises(ModelMismatchError, match=r"not the one that was fitted: its answers to 20 stored rows"):
            gpec.GPEC.load(tmp_path / "g", model=model)
    with pytest.raises(ModelMismatchError, match="in its number of classes"):
        gpec.GPEC.load(tmp_path / "g", model=models.three_classes)


def test_wrong_model_that_answers_the_stored_rows_as_the_right_one(tmp_path):
    """Sure of every row it was trained on, a tree is known by its boundary only."""
    X, y = load_wine(return_X_y=True)
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    g = gpec.GPEC(tree, lambda X: np.stack([X] * 3, axis=-1), n_boundary=60, random_state=0, progress=False)
    g.fit(X).save(tmp_path / "g")
    others = [KNeighborsClassifier(1).fit(X, y)]
    others += [DecisionTreeClassifier(random_state=seed).fit(X, y) for seed in (1, 2)]
    for other in others:
        np.testing.assert_array_equal(other.predict_proba(X[:20]), tree.predict_proba(X[:20]))
        with pytest.raises(ModelMismatchError, match="boundary"):
            gpec.GPEC.load(tmp_path / "g", model=other)
    twin = DecisionTreeClassifier(random_state=0).fit(X, y)
    loaded = gpec.GPEC.load(tmp_path / "g", model=twin)
    e, f = (part.explain(X[:5], attribution="posterior") for part in (g, loaded))
    assert e.variance.tobytes() == f.variance.tobytes()


def test_model_of_other_columns(tmp_path, make, X):
    make().fit(X).save(tmp_path / "g")
    other = LogisticRegression().fit(X[:, :2], X[:, 0] > 0)
    with pytest.raises(ModelCallError, match="2 features") as error:
        gpec.GPEC.load(tmp_path / "g", model=other)
    assert isinstance(error.value.__cause__, ValueError)


@pytest.mark.parametrize("model", [None, 3, "model", LogisticRegression])
def test_no_model(tmp_path, make, X, model):
    make().fit(X).save(tmp_path / "g")
    with pytest.raises(ParameterTypeError, match="model"):
        gpec.GPEC.load(tmp_path / "g", model=model)


def test_unknown_explainer(tmp_path, make, models, X):
    make().fit(X).save(tmp_path / "g")
    with pytest.raises(InputError, match="explainer='nonsense'"):
        gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer="nonsense")


def test_explainer_of_another_kind_may_be_given(tmp_path, make, models, X):
    g = make().fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=lambda X: 7.0 * models.slopes(X))
    np.testing.assert_array_equal(loaded.explain(X[:3]).values, 7.0 * models.slopes(X[:3]))
    assert loaded.explain(X[:3]).variance.tobytes() == g.explain(X[:3]).variance.tobytes()


def test_save_before_fit(tmp_path, make):
    with pytest.raises(gpec.errors.NotFittedError, match="call fit"):
        make().save(tmp_path / "g")
    assert os.listdir(tmp_path) == []


class Own(RBF):
    """A kernel of one's own."""


def test_kernel_of_ones_own(tmp_path, make, X):
    g = make(kernel=0.5 * WEG() + Own("evidence")).fit(X)
    g.save(tmp_path / "g")
    loaded = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert_same_answers(g, loaded, X[:9])
    assert isinstance(loaded.kernel_.second_, Own)


def test_kernel_of_an_unknown_kind(tmp_path, make, X):
    g = make(kernel=Own()).fit(X)
    g.save(tmp_path / "g")
    tree = read_tree(tmp_path / "g", "GPEC")
    tree["fitted"]["output_models"][0]["kernel"]["kind"] = "elsewhere.Own"
    write_tree(tmp_path / "g", "GPEC", tree)
    with pytest.raises(CorruptFileError, match=r"unknown kind 'elsewhere\.Own'; import the module that defines it"):
        gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)


PARTS = [
    "fitted",
    "diagnostics",
    "fitted/settings",
    "fitted/schema",
    "fitted/schema/names",
    "fitted/background",
    "fitted/seed",
    "fitted/model_fingerprint",
    "fitted/model_fingerprint/answer",
    "fitted/boundary",
    "fitted/boundary/points",
    "fitted/observations",
    "fitted/observations/sample",
    "fitted/observations/sample/rows",
    "fitted/observations/attribution",
    "fitted/observations/attribution/values",
    "fitted/observations/U",
    "fitted/observations/learned",
    "fitted/output_models",
    "fitted/output_models/0/graph",
    "fitted/output_models/0/graph/points",
    "fitted/output_models/0/kernel",
    "fitted/output_models/0/parameters",
]


@pytest.mark.parametrize("how", ["lacks", "garbles"])
@pytest.mark.parametrize("part", PARTS)
def test_file_that_lacks_a_part(tmp_path, make, models, X, part, how):
    make().fit(X).save(tmp_path / "g")
    tree = read_tree(tmp_path / "g", "GPEC")
    *path, last = part.split("/")
    inner = tree
    for key in path:
        inner = inner[int(key) if isinstance(inner, list) else key]
    assert last in inner
    if how == "lacks":
        del inner[last]
    else:
        inner[last] = "garbled"
    write_tree(tmp_path / "g", "GPEC", tree)
    with pytest.raises(CorruptFileError, match=rf"g: GPEC\.{part.replace('/', '.')} is |kernel that lacks a part"):
        gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=models.slopes)


def changed(path, change):
    tree = read_tree(path, "GPEC")
    change(tree["fitted"])
    write_tree(path, "GPEC", tree)


def no_such_neighbour(tree):
    edges = tree["output_models"][0]["graph"]["adjacency"]
    edges["indices"] = np.full_like(edges["indices"], 10**6)


HOSTILE = {
    "an edge outside": (no_such_neighbour, r"graph indices? .*"),
    "a landmark outside": (
        lambda t: t["output_models"][0]["graph"].update(landmarks=np.array([10**6])),
        r"graph has no points, or landmarks",
    ),
    "a label of no output": (
        lambda t: t["boundary"].update(label=np.full_like(t["boundary"]["label"], 2**62)),
        r"GPEC\.fitted has boundary points of more than 1 outputs",
    ),
    "groups of no columns": (
        lambda t: t["settings"].update(groups={"a": ["none"]}),
        r"GPEC\.fitted has groups that cannot be used",
    ),
    "an unknown setting": (lambda t: t["settings"].update(depth=3), r"GPEC\.fitted has the unknown setting 'depth'"),
    "a setting out of range": (
        lambda t: t["settings"].update(n_boundary=-1),
        r"g: GPEC\.fitted\.settings cannot be used: n_boundary=-1",
    ),
    "no scores": (
        lambda t: t["calibration"]["similar"].update(weights=np.zeros(40)),
        r"calibration\.similar has no scores",
    ),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder with a saved fit that has trees and scores, and its model."""
    rng = np.random.default_rng(0)
    X, fresh = rng.normal(size=(60, 3)), rng.normal(size=(40, 3))

    def model(X):
        return 1 / (1 + np.exp(-X[:, 0] - X[:, 1] ** 2 + 1))

    def explainer(X):
        return np.column_stack((X[:, 0], X[:, 1] ** 2, 0 * X[:, 2]))

    g = gpec.GPEC(model, explainer, n_boundary=20, n_explained=40, random_state=0, progress=False).fit(X)
    path = tmp_path_factory.mktemp("hostile") / "g"
    g.calibrate(fresh).save(path)
    return path, model, explainer


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_file_must_not_hold(hostile, tmp_path, case):
    path, model, explainer = hostile
    (tmp_path / "g").write_bytes(path.read_bytes())
    change, message = HOSTILE[case]
    changed(tmp_path / "g", change)
    with pytest.raises(CorruptFileError, match=message):
        gpec.GPEC.load(tmp_path / "g", model=model, explainer=explainer)


def test_a_fit_whose_matrices_take_too_much_memory(hostile):
    path, model, explainer = hostile
    with pytest.raises(InputError, match=r"g takes .* of memory, more than"):
        gpec.GPEC.load(path, model=model, explainer=explainer, max_bytes=1000)


@pytest.mark.parametrize("name", ["model_output", "threshold"])
def test_a_long_setting_is_not_repeated_in_the_message(hostile, tmp_path, name):
    path, model, explainer = hostile
    (tmp_path / "g").write_bytes(path.read_bytes())
    changed(tmp_path / "g", lambda t: t["settings"].update({name: [[]] * 500}))
    with pytest.raises(InputError, match=rf"^{name}=\[\[\]") as caught:
        gpec.GPEC.load(tmp_path / "g", model=model, explainer=explainer)
    assert len(str(caught.value)) < 300


def test_a_fit_with_many_explained_rows_is_loaded(tmp_path):
    X = np.random.default_rng(0).normal(size=(13_000, 2))  # a square matrix of so many rows takes 1.4 GB
    few = {"n_boundary": 20, "background": 2, "kernel": "rbf", "random_state": 0, "progress": False}
    g = gpec.GPEC(lambda X: 1 / (1 + np.exp(-X[:, 0])), None, similar=None, output_scale=1.0, **few)
    g.fit(X, attributions=X).save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=g.model)
    found, expected = (fit.explain(X[:3], attribution="posterior").values for fit in (again, g))
    np.testing.assert_array_equal(found, expected)


TREES = {
    "good": ({}, None),
    "no end": ({"left": np.array([1, 0, 2]), "right": np.array([1, 0, 2])}, "paths have no end"),
    "outside": ({"right": np.array([9, 1, 2])}, "nodes that do not exist"),
    "no root": ({"roots": np.array([3])}, "nodes that do not exist"),
    "values in any order": ({"values": np.array([2.0, 1.0])}, "values that are not sorted"),
}


@pytest.mark.parametrize("case", TREES)
def test_trees_from_a_file_have_an_end(case):
    change, fault = TREES[case]
    good = {"roots": np.array([0]), "left": np.array([1, 1, 2]), "right": np.array([2, 1, 2]), "values": None}
    sizes = {"size": np.ones((3, 1, 1)), "mean": np.ones((1, 1)), "left_out": np.ones((4, 1, 1))}
    state = {**good, **sizes, "feature": np.zeros(3, dtype=int), "threshold": np.zeros(3), **change}
    if fault is None:
        assert len(from_tree(ResidualNormalizer, state).roots) == 1
    else:
        with pytest.raises(CorruptFileError, match=fault):
            from_tree(ResidualNormalizer, state)
