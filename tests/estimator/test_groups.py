"""Features explained as one, and features that depend on each other, through the whole of GPEC."""

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec.data import Groups, Schema
from gpec.errors import InputError, ParameterTypeError
from gpec.kernels import Matern, Own


@pytest.fixture
def frame(X):
    return pd.DataFrame(X[:, :3], columns=["street", "age", "city"])


GROUPS = {"address": ["street", "city"]}


def test_attributions_and_variances_add(make_auto, frame):
    def explain(rows):
        values = np.asarray(rows) * [1.0, 2.0, 3.0]
        return values, np.full(values.shape, 0.01)

    g = make_auto(explainer=explain, groups=GROUPS).fit(frame)
    e = g.explain(frame[:4])
    assert e.feature_names == ["address", "age"]
    np.testing.assert_allclose(e.values[:, 0], frame["street"][:4] + 3 * frame["city"][:4])
    np.testing.assert_allclose(e.values[:, 1], 2 * frame["age"][:4])
    np.testing.assert_allclose(e.explainer_variance, [[0.02, 0.01]] * 4)
    assert e.data[0, 0] == f"street={frame['street'][0]:.4g}, city={frame['city'][0]:.4g}"
    assert e["address"].shape == (4,)
    assert (e.lower <= e.values).all()
    assert (e.values <= e.upper).all()


def test_a_later_fit_with_other_groups_explains_anew(make_auto, frame):
    g = make_auto(groups=GROUPS).fit(frame)
    for groups in ({"old": ["street", "age"]}, None):
        again = g.set_params(groups=groups).fit(frame).attributions_.values
        np.testing.assert_array_equal(again, make_auto(groups=groups).fit(frame).attributions_.values)


def test_a_group_is_calibrated_like_a_feature(make_auto, frame):
    g = make_auto(groups=GROUPS).fit(frame[:60]).calibrate(frame[60:])
    assert "Checked on 60 rows not used in fitting" in g.explain(frame[:3]).statement()
    assert g.explain(frame[:3], attribution="posterior").shape == (3, 2)


def test_given_attributions_are_added(make_auto, frame):
    given = np.random.default_rng(0).normal(size=(30, 3))
    g = make_auto(explainer=None, groups=GROUPS, n_explained="auto").fit(
        frame, X_explained=frame[:30], attributions=given
    )
    np.testing.assert_allclose(g.attributions_.values[:, 0], given[:, [0, 2]].sum(axis=1))


def test_files(make_auto, frame, tmp_path):
    g = make_auto(groups=GROUPS).fit(frame)
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    assert again.groups == GROUPS
    np.testing.assert_array_equal(again.explain(frame[:5]).upper, g.explain(frame[:5]).upper)


@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        ({"a": ["street", "city"], "b": ["city"]}, InputError, "'a' and 'b' overlap in the column 'city'"),
        ({"a": ["nowhere"]}, InputError, "'nowhere', which is not a column"),
        ({"a": []}, InputError, r"groups\['a'\] is empty"),
        ({"age": ["street"]}, InputError, "'age', which is also a column"),
        (["street"], ParameterTypeError, "must be a dict"),
        ({"a": "street"}, ParameterTypeError, "must be a list of columns"),
    ],
)
def test_bad_groups(make_auto, frame, groups, error, words):
    with pytest.raises(error, match=words):
        make_auto(groups=groups).fit(frame)


def test_what_is_missing_in_a_group_is_called_so():
    days = pd.to_datetime(["2021-03-01", "2021-03-02", None])
    frame = pd.DataFrame({"town": ["ulm", None, "bonn"], "since": days, "age": [1.5, np.nan, 3.0]})
    schema, Z = Schema.learn(frame)
    (texts,) = Groups.of({"all": list(frame.columns)}, schema).data(Z, schema).T
    assert texts.tolist() == [
        "town=ulm, since=2021-03-01, age=1.5",
        "town=missing, since=2021-03-02, age=missing",
        "town=bonn, since=missing, age=3",
    ]


def test_groups_of_categories_share_all_their_coordinates():
    table = pd.DataFrame({"colour": ["red", "blue", "green"], "size": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"]})
    schema, _ = Schema.learn(table)
    groups = Groups.of({"look": ["colour", "kind"]}, schema)
    together = groups.coordinates(schema)
    assert [len(columns) for columns in together] == [5, 1]
    assert sorted(np.concatenate(together).tolist()) == list(range(6))


@pytest.mark.parametrize("task_kernel", ["clusters", "low_rank", np.eye(3), {"graph": np.ones((3, 3)) - np.eye(3)}])
def test_dependent_features(make_auto, frame, task_kernel, tmp_path):
    g = make_auto(task_kernel=task_kernel).fit(frame)
    assert not g.diagnostics_["kernel_by_feature"]
    assert set(g.diagnostics_["tasks"][0]) == {"weight", "nats"}
    e = g.explain(frame[:5])
    assert (e.lower <= e.values).all()
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=g.model, explainer=g.explainer)
    np.testing.assert_array_equal(again.explain(frame[:5]).upper, e.upper)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"task_kernel": np.eye(2)}, r"has shape \(2, 2\) but there are 3 features"),
        ({"task_kernel": np.array([[1.0, 2, 0], [2, 1, 0], [0, 0, 1]])}, "positive semi-definite"),
        ({"task_kernel": "low_rank", "kernel": Matern(Own())}, "excludes Own"),
        ({"task_kernel": "words"}, "'clusters', 'low_rank'"),
    ],
)
def test_bad_tasks_before_the_model_is_called(make_auto, counting, models, frame, parameters, words):
    model = counting(models.curved)
    with pytest.raises(InputError, match=words):
        make_auto(model, **parameters).fit(frame)
    assert model.n_rows == 0


def test_patches_of_an_image_are_groups():
    rng = np.random.default_rng(0)
    images = rng.random((60, 2, 2))
    upper = Schema.learn(images)[0].names[:2]

    def model(pictures):
        return 1 / (1 + np.exp(-8 * (pictures[:, 0].sum(axis=1) - pictures[:, 1, 0] - 0.5)))

    explained = gpec.GPEC(
        model, "exact", groups={"upper": list(upper)}, n_explained=15, n_boundary=50, background=10, random_state=0
    ).fit(images).explain(images[:3])  # fmt: skip
    assert explained.feature_names[0] == "upper"
    assert explained.shape == (3, 3)
    assert f"{images[0, 0, 0]:.4g}" in explained.data[0, 0]
