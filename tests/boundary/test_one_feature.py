"""Rows of one feature: few points, perhaps one, are the whole boundary."""

import warnings

import numpy as np
import pandas as pd
import pytest
from boundary_helpers import EVERY_SAMPLER, Recorder, assert_evidence, draw, fitted_boundary, gauss, judge, plane
from scipy.special import expit, softmax
from sklearn.tree import DecisionTreeClassifier

import gpec
from gpec.boundary import AdversarialSampler, BisectionSampler, BoundarySample
from gpec.errors import BoundaryNotFoundError, InputError
from gpec.geometry import GeodesicGraph
from gpec.kernels import EG, WEG

X = gauss(300, 1)


def threshold(rows):
    return expit(3 * (np.asarray(rows)[:, 0] - 0.25))


def stripes(rows):
    return expit(20 * np.sin(3 * np.asarray(rows)[:, 0]))


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_one_threshold_is_one_point(sampler):
    recorder = Recorder(threshold)
    sample = draw(recorder, X, 2_000, sampler=sampler)  # warnings are errors: nothing is missing
    assert len(sample) == 1
    np.testing.assert_allclose(sample.points, [[0.25]], atol=1e-6)
    assert_evidence(sample, judge(threshold, X))
    most = max(len(rows) for rows in recorder.shown)
    assert recorder.n_rows < most + 400  # one pair, and a few rows to find out how the model answers


@pytest.mark.parametrize("sampler", EVERY_SAMPLER, ids=repr)
def test_every_change_between_neighbours_is_found(sampler):
    sample = draw(stripes, X, 200, sampler=sampler)
    inner = np.arange(np.ceil(3 * X.min() / np.pi), 3 * X.max() / np.pi) * np.pi / 3
    np.testing.assert_allclose(np.sort(sample.points[:, 0]), inner, atol=1e-5)
    assert_evidence(sample, judge(stripes, X))


def test_neighbours_that_are_nobodys_nearest_partner():
    """0 and 10 are neighbours of opposite class, but both have nearer rows of the other class."""
    line = np.array([-1.0, 0.0, 10.0, 11.0])[:, None]
    sample = draw(lambda rows: ((rows[:, 0] > -0.5) & (rows[:, 0] < 5) | (rows[:, 0] > 10.5)) * 1.0, line, 10)
    np.testing.assert_allclose(np.sort(sample.points[:, 0]), [-0.5, 5.0, 10.5], atol=1e-5)


def test_no_more_points_than_asked_for():
    assert len(draw(lambda rows: (np.sin(40 * rows[:, 0]) > 0) * 1.0, X, 12)) == 12


def test_several_classes():
    def model(rows):
        return softmax(np.column_stack((-5 * rows[:, 0], np.full(len(rows), 2.0), 5 * rows[:, 0])), axis=1)

    sample = draw(model, X, 500)
    np.testing.assert_array_equal(np.bincount(sample.label), [1, 2, 1])
    np.testing.assert_allclose(np.abs(sample.points), 0.4, atol=1e-5)
    assert_evidence(sample, judge(model, X))
    sample.require_on_boundary(judge(model, X), seed=0)


def test_columns_that_never_vary_do_not_count():
    rows = np.column_stack((np.full(300, 7.3), X, np.zeros(300)))
    sample = draw(lambda rows: threshold(rows[:, 1:]), rows, 100)
    np.testing.assert_allclose(sample.points, [[7.3, 0.25, 0.0]], atol=1e-6)
    given = lambda boundary: fitted_boundary(boundary, lambda rows: threshold(rows[:, 1:]), rows)  # noqa: E731
    assert given(sample) is sample
    with pytest.raises(InputError, match="boundary has 1 points, but at least 10 are needed"):
        given(sample.points)  # on trust, it could be a point of any surface


def test_a_few_points_of_a_surface_are_not_enough():
    sample = draw(plane, gauss(), 20)
    for n in (9, 1):
        with pytest.raises(InputError, match=f"boundary has {n} points, but at least 10"):
            fitted_boundary(sample.take(np.arange(n)), plane, gauss())


def test_one_category():
    frame = pd.DataFrame({"kind": list("abcd") * 30})
    sample = draw(lambda rows: rows["kind"].isin(["a", "b"]).to_numpy() * 1.0, frame, 50)
    before, beyond = sample.ends()
    found = {(int(a), int(b)) for a, b in zip(before[:, 0], beyond[:, 0], strict=True)}
    assert found == {(2, 0), (2, 1), (3, 0), (3, 1)}
    assert len(sample) == 4


def test_one_class_is_still_an_error():
    with pytest.raises(BoundaryNotFoundError, match="predicts class 0 for all 300 rows tried"):
        draw(lambda rows: np.zeros(len(rows)), X)


def test_attacks():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(1, 1)
    with torch.no_grad():
        module.weight.fill_(3.0)
        module.bias.fill_(-0.75)
    sample = AdversarialSampler(20, 5).sample(module, X, 100, random_state=0, progress=False, model_output="logit")
    np.testing.assert_allclose(sample.points, 0.25, atol=1e-5)


# ---------------------------------------------------------------- what follows from few points


def test_graph_and_kernels_of_one_point():
    graph = GeodesicGraph.build([[0.25]])
    assert graph.landmarks.tolist() == [0]
    assert (graph.median_distance, graph.n_components, graph.is_exact) == (1.0, 1, True)
    for kernel in (WEG(), WEG(normalize=False), EG()):
        np.testing.assert_array_equal(kernel.fit(graph, X).gram(X), np.ones((300, 300)))


@pytest.mark.parametrize("n_points", [1, 2, 3])
def test_graph_and_kernels_of_few_points(n_points):
    graph = GeodesicGraph.build(np.arange(n_points, dtype=float)[:, None])
    K = WEG().fit(graph, X).gram(X)
    assert np.isfinite(K).all()
    assert np.linalg.eigvalsh(K).min() > -1e-10 * n_points


@pytest.mark.parametrize("model", [threshold, stripes, DecisionTreeClassifier(max_depth=1).fit(X, X[:, 0] > 0.25)])
def test_gpec(model, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = gpec.GPEC(model, random_state=0).fit(X)
        e = g.explain(X)
    assert np.isfinite(e.variance).all()
    assert (e.variance > 0).all()
    assert g.diagnostics_["boundary_points"] == [len(g.boundary_)]
    for boundary in (g.boundary_, g.boundary_.points):
        again = gpec.GPEC(model, boundary=boundary, random_state=0).fit(X).explain(X[:5])
        np.testing.assert_allclose(again.variance, e.variance[:5], rtol=1e-7)
    g.save(tmp_path / "one.gpec")
    loaded = gpec.GPEC.load(tmp_path / "one.gpec", model=model)
    loaded = loaded.explain(X[:5], attribution="posterior").variance
    np.testing.assert_allclose(loaded, g.explain(X[:5], attribution="posterior").variance, rtol=1e-12)


def test_no_points_at_all_are_refused():
    with pytest.raises(InputError, match="boundary has 0 points, but at least 1 are needed"):
        fitted_boundary(np.zeros((0, 1)), threshold, X)
    with pytest.raises(InputError, match=r"boundary has \[0\] points by class, but this model needs at least 1 for"):
        BoundarySample.from_points(np.zeros((0, 1))).require_on_boundary(judge(threshold, X), seed=0)


def test_walks_do_no_harm():
    sample = draw(threshold, X, 100, sampler=BisectionSampler(n_walk=20))
    np.testing.assert_allclose(sample.points, [[0.25]], atol=1e-6)
