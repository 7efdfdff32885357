"""``g.cost(X)`` says beforehand what is then spent."""

import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import gpec
from extras import torch
from gpec.boundary import BisectionSampler, LevelSetSampler
from gpec.errors import InputError, NotFittedError, SlowExplainerWarning
from gpec.explainers import Attribution, CallableExplainer, CXPlain, Explainer, KernelShap, Lime
from gpec.similar import MeasurementError
from small_models import CountingModel, curved, slopes, slopes_of_three, three_classes


def plane(X):
    return np.asarray(X) @ [1.0, -2.0, 0.5]


def make(model, explainer, **parameters):
    return gpec.GPEC(model, explainer, **{"background": 10, "random_state": 0, "progress": False, **parameters})


def fresh(n=30):
    return np.random.default_rng(9).normal(size=(n, 3))


SPENT = [
    (curved, "exact", {"kernel": "rbf"}),
    (curved, "kernelshap", {"kernel": "rbf", "draw": "uniform"}),
    (three_classes, "exact", {"kernel": "rbf"}),
    (plane, "exact", {"kernel": "rbf", "model_output": "value"}),
    (curved, "exact", {"kernel": "rbf", "similar": None}),
    (curved, Lime(50), {"kernel": "rbf", "noise": "resample", "n_resamples": 3}),
    (curved, "exact", {"mode": "explain"}),
    (three_classes, KernelShap(), {"mode": "explain"}),
    (curved, "exact", {"mode": "explain", "similar": MeasurementError({0: 0.5, 1: 0.1, 2: 0.1})}),
    (plane, "exact", {"mode": "explain", "model_output": "value"}),
]


@pytest.mark.parametrize(("function", "explainer", "parameters"), SPENT)
def test_model_rows_are_those_that_are_spent(X, function, explainer, parameters):
    model = CountingModel(function)
    g = make(model, explainer, **parameters)
    told = g.cost(X)["model_rows"]

    def spent(call, *rows):
        model.n_rows = 0
        call(*rows)
        return model.n_rows

    assert told["fit: total"] == pytest.approx(spent(g.fit, X), rel=0.01)
    assert told["explain"] == pytest.approx(spent(g.explain, X), rel=0.01)
    told = g.cost(fresh())["model_rows"]
    assert told["explain"] == pytest.approx(spent(g.explain, fresh()), rel=0.01)
    if g.diagnostics_["mode"] == "predict" and parameters.get("similar", "auto") is not None:
        assert told["calibrate"] == pytest.approx(spent(g.calibrate, fresh()), rel=0.01)
    else:
        assert told["calibrate"] == 0


@pytest.mark.parametrize("mode", ["explain", "predict"])
def test_trees_ask_the_model_for_no_more_than_their_rows(X, mode):
    forest = RandomForestClassifier(5, random_state=0).fit(X, X[:, 0] > 0)
    g = make(forest, "tree", mode=mode, background=20)
    told = g.cost(X)["model_rows"]
    assert told["explain"] == g.fit(X).explain(X).diagnostics["model_rows"]
    if mode == "explain":
        assert told["fit: total"] == g.diagnostics_["model_rows"]


@pytest.mark.parametrize("mode", ["explain", "predict"])
def test_runs_of_a_function_are_counted_and_its_model_rows_are_unknown(X, mode):
    explainer = CountingModel(slopes_of_three)
    g = make(three_classes, CallableExplainer(explainer), mode=mode, noise="resample", n_resamples=4)
    told = g.cost(X)
    for step in ("fit: total", "explain"):
        assert told["model_rows"].isna()[step]
    explainer.n_rows = 0
    g.fit(X)
    assert told["explainer_runs"]["fit: total"] == explainer.n_rows == g.cost(X)["explainer_runs"]["fit: total"]
    explainer.n_rows = 0
    g.explain(X)
    assert told["explainer_runs"]["explain"] == explainer.n_rows
    if mode == "predict":
        explainer.n_rows = 0
        g.calibrate(fresh())
        assert told["explainer_runs"]["calibrate"] == 4 * explainer.n_rows  # for 30 rows of 120


def test_equal_rows_and_equal_similar_rows_are_counted_once(X):
    rows = np.repeat(X[:20], 4, axis=0)
    explainer = CountingModel(slopes)
    g = make(curved, CallableExplainer(explainer, cheap=True), similar=lambda rows: [rows + 1, rows + 1, rows + 2])
    told = g.cost(rows)["explainer_runs"]["explain"]
    g.fit(rows)
    explainer.n_rows = 0
    g.explain(rows)
    assert told == explainer.n_rows == 80 + 20 * 2


BOUNDARIES = [
    (curved, BisectionSampler(), 30),
    (curved, BisectionSampler(), 300),
    (curved, BisectionSampler(tolerance=1e-3, n_walk=10), 300),
    (three_classes, BisectionSampler(), 100),
    (three_classes, BisectionSampler(), 300),
    (plane, LevelSetSampler(), 300),
]


@pytest.mark.parametrize(("function", "sampler", "n_boundary"), BOUNDARIES)
def test_the_boundary_takes_about_as_many_rows_as_told(X, function, sampler, n_boundary):
    attributions = slopes_of_three if function is three_classes else slopes
    output = "value" if function is plane else "auto"
    g = make(function, attributions, kernel="weg", boundary=sampler, n_boundary=n_boundary, model_output=output)
    told = g.cost(X)["model_rows"]["fit: boundary"]
    spent = g.fit(X).boundary_.n_model_rows
    assert spent / 2 <= told <= 2 * spent


def test_few_points_are_sought_between_few_rows():
    rows = np.random.default_rng(0).normal(size=(20_000, 3))
    g = make(curved, slopes, n_explained=20)
    told = g.cost(rows)["model_rows"]["fit: boundary"]
    assert 0.8 < told / g.fit(rows).boundary_.n_model_rows < 1.25


def test_a_boundary_that_is_given_or_not_needed_costs_nothing(X):
    given = make(curved, slopes).fit(X).boundary_
    for parameters in ({"boundary": given}, {"kernel": "rbf"}, {"mode": "explain"}):
        assert make(curved, slopes, **parameters).cost(X)["model_rows"]["fit: boundary"] == 0

    class Own(BisectionSampler):
        def model_rows(self, model, Z, n_boundary):
            return super(BisectionSampler, self).model_rows(model, Z, n_boundary)

    told = make(curved, "exact", boundary=Own()).cost(X)["model_rows"]
    assert told.isna()["fit: boundary"]
    assert told.isna()["fit: total"]
    assert not told.isna()["explain"]


def test_it_leaves_no_trace(X):
    explainer, generator = KernelShap(64), np.random.default_rng(5)
    g = make(curved, explainer, random_state=generator, n_boundary=60, n_explained=20)
    before = generator.bit_generator.state
    told = g.cost(X)
    assert generator.bit_generator.state == before
    assert not hasattr(explainer, "model_")
    assert set(vars(g)) == set(g.get_params(deep=False))
    with pytest.raises(NotFittedError):
        g.explain(X)
    expected = make(curved, KernelShap(64), random_state=np.random.default_rng(5), n_boundary=60, n_explained=20)
    e, again = g.fit(X).explain(X[:5]), expected.fit(X).explain(X[:5])
    np.testing.assert_array_equal(e.lower, again.lower)
    diagnostics = dict(g.diagnostics_)
    assert list(told.columns) == list(g.cost(X).columns) == ["explainer_runs", "model_rows", "seconds"]
    assert g.diagnostics_ == diagnostics
    np.testing.assert_array_equal(g.explain(X[:5]).lower, e.lower)


@pytest.mark.parametrize("mode", ["explain", "predict"])
def test_of_a_fitted_one_it_tells_what_was_spent(X, mode, tmp_path):
    g = make(curved, "exact", mode=mode, n_boundary=60, n_explained=20).fit(X)
    g.save(tmp_path / "g.gpec")
    for one in (g, gpec.GPEC.load(tmp_path / "g.gpec", model=curved)):
        told = one.cost(fresh())
        assert list(told.index) == ["fit: total", "calibrate", "explain"]
        line = told.loc["fit: total"]
        assert line["model_rows"] == g.diagnostics_["model_rows"]
        assert line["explainer_runs"] == (20 if mode == "explain" else 40)
        assert line["seconds"] == pytest.approx(sum(g.diagnostics_["seconds"].values()))
        assert told["model_rows"]["explain"] == pytest.approx(g.explain(fresh()).diagnostics["model_rows"], rel=0.01)


def test_attributions_that_were_given_cost_no_run(X):
    g = make(curved, slopes, kernel="rbf").fit(X[:30], attributions=slopes(X[:30]))
    assert g.cost(X)["explainer_runs"].tolist() == [0, 240, 120]


class Timed(Explainer):
    """Takes ``each`` seconds for a row, on a clock of the test; for some rows it needs more model rows."""

    threads, rows_at_once, stochastic = True, 10, False

    def __init__(self, clock, each):
        self.clock, self.each = clock, each

    def model_rows(self, Z):
        return int(np.where(Z[:, 0] > 50, 80, 10).sum())

    def _explain(self, Z, seeds):
        self.clock.append(self.each * len(Z))
        return Attribution(np.zeros(Z.shape))


@pytest.fixture
def seconds(X, monkeypatch):
    def told(each, model_each=0.0, n_jobs=1, **parameters):
        clock = []
        monkeypatch.setattr("gpec.pipeline.cost.time", SimpleNamespace(perf_counter=lambda: sum(clock)))

        def model(rows):
            clock.append(model_each * len(rows))
            return curved(rows)

        g = make(model, Timed(clock, each), n_jobs=n_jobs, **{"similar": None, "kernel": "rbf", **parameters})
        return g.cost(X)["seconds"], clock

    return told


def test_seconds_grow_with_rows_and_shrink_with_threads(seconds):
    one, clock = seconds(0.5)
    assert one["fit: total"] == pytest.approx(120 * 0.5)
    assert one["explain"] == pytest.approx(120 * 0.5)
    assert sum(clock) == pytest.approx(0.5)  # one row was enough
    assert seconds(0.5, n_jobs=3)[0]["explain"] == pytest.approx(40 * 0.5)
    assert seconds(0.5, n_jobs=50)[0]["explain"] == pytest.approx(10 * 0.5)  # of 12 blocks
    assert seconds(0.5, noise="resample", n_resamples=3)[0]["explain"] == pytest.approx(60.0)  # deterministic: one run


def test_similar_rows_that_need_more_model_rows_take_longer(seconds):
    told, _ = seconds(0.5, mode="explain", kernel="auto", similar=lambda rows: [rows + 100.0])
    assert told["explain"] == pytest.approx(120 * 0.5 * (1 + 8))


def test_seconds_of_the_model(seconds):
    told, clock = seconds(0.0, 0.01)
    assert told["fit: draw"] == pytest.approx(40 * 0.01)
    assert sum(clock) < 3
    told, _ = seconds(0.0, 0.01, similar="auto")
    assert told["explain"] == pytest.approx(120 * 11 * 0.01)


def test_a_timing_is_short(X):
    rows = np.tile(X, (40, 1)) + 1e-3 * np.arange(4_800)[:, None]

    def slowly(rows):
        time.sleep(0.002 * len(rows))
        return slopes(rows)

    explainer = CountingModel(slowly)
    told = make(curved, explainer, kernel="rbf").cost(rows)
    assert explainer.n_rows <= 1 + 4 + 16 + 64 + 256
    assert 0.5 < told["seconds"]["explain"] / (4_800 * 0.002) < 2


def test_an_explainer_that_learns(X):
    torch.manual_seed(0)  # asks for torch
    g = make(curved, CXPlain(2, n_train=40, n_epochs=2), mode="explain")
    told = g.cost(X)["model_rows"]
    assert told.isna()["fit: explainer"]
    g.fit(X)
    assert told["explain"] == g.explain(X).diagnostics["model_rows"]


def test_without_an_explainer_there_is_nothing_to_tell(X):
    with pytest.raises(InputError, match="explainer=None needs attributions"):
        make(curved, None).cost(X)


def test_a_table_has_whole_numbers(X):
    told = make(curved, "exact").cost(pd.DataFrame(X, columns=list("abc")))
    assert [str(kind) for kind in told.dtypes] == ["Int64", "Int64", "float64"]
    assert (told.loc["fit: total"] == told.loc[told.index.str.startswith("fit: ")].iloc[:-1].sum()).all()


def test_the_warning_names_the_other_mode(X, monkeypatch):
    monkeypatch.setattr("gpec.explainers._cost._MANY_MODEL_ROWS", 1_000)
    g = make(curved, "exact", mode="explain")
    with pytest.warns(SlowExplainerWarning, match=r"model rows; mode='predict' explains few similar rows, and fewer"):
        g.fit(X)
    g = make(curved, "exact", mode="predict", kernel="rbf", n_explained=40)
    with pytest.warns(SlowExplainerWarning, match=r"model rows; fewer background rows cost less"):
        g.fit(X)
