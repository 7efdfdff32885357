"""``refine``: which rows are chosen, and what the posterior becomes."""

import numpy as np
import pytest

import gpec
from gpec.data import Rows
from gpec.errors import InputError, NotFittedError
from gpec.gp import ExactPosterior
from gpec.kernels import RBF, Matern, Output
from gpec.similar import MeasurementError, NearestRows


def variance(posterior, rows):
    return posterior.predict(rows).variance


def further(posterior, row):
    """The posterior given one more row, which has no noise."""
    more = np.zeros((1, posterior.Y.shape[1]))
    Y, U = np.concatenate((posterior.Y, more)), np.concatenate((posterior.U, more))
    return ExactPosterior(posterior.kernel, Rows.join([posterior.rows, row]), Y, U, posterior.parameters)


def test_choices_are_those_of_brute_force(make, X):
    """Each row chosen is the best once those before it are known; candidates are the targets and the rows of fit."""
    g = make(kernel=RBF(0.7), standardize=False, n_explained=8).fit(X[:40])
    targets, posterior = Rows.of(X[40:46]), g.posterior_
    first = variance(posterior, targets).mean(axis=0)
    explained = (X[:46, None] == g.X_explained_).all(axis=2).any(axis=1)
    candidates = X[:46][~explained]
    for chosen in g.refine(X[40:46], n=3).refinement_.X:
        before = variance(posterior, targets)
        after = [further(posterior, Rows.of(row[None])) for row in candidates]
        gains = [((before - variance(one, targets)) / first).sum() for one in after]
        best = int(np.argmax(gains))
        np.testing.assert_array_equal(chosen, candidates[best])
        posterior = after[best]


def test_intervals_become_narrower_and_say_so(make_auto, X):
    g = make_auto().fit(X)
    rows = X[-20:]
    before = g.explain(rows, attribution="posterior")
    assert g.refine(rows, n=8) is g
    after = g.explain(rows, attribution="posterior")
    assert len(g.X_explained_) == 25 + 8
    assert len(g.refinement_.X) == 8
    assert g.refinement_.width_before == pytest.approx(before.width.mean())
    assert g.refinement_.width_after == pytest.approx(after.width.mean())
    assert after.std.mean() < before.std.mean()
    assert "Checked approximately" in after.statement()
    assert "8 more rows" in str(g.refinement_)


def test_it_equals_a_posterior_from_scratch(make_auto, X):
    g = make_auto().fit(X).refine(X[-20:], n=5)
    fresh = ExactPosterior(
        g.kernel_, g.posterior_.rows, g.posterior_.Y, g.posterior_.U, g.posterior_.parameters
    ).predict(g.posterior_.rows[:7])
    ours = g.posterior_.predict(g.posterior_.rows[:7])
    np.testing.assert_allclose(ours.mean, fresh.mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(ours.variance, fresh.variance, rtol=1e-6, atol=1e-12)


def value(X):
    """As those of a network, its last bits depend on how many rows it is asked for together."""
    X = np.asarray(X, dtype=np.float64)
    return 1e3 * np.tanh(X).sum(axis=1) + 1e-9 * (len(X) % 7)


def by_value(X):
    return np.column_stack([np.sin(value(X) / 300.0)] * 3)


@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("curved", {}),
        ("curved", {"similar": None, "kernel": "weg"}),
        ("curved", {"task_kernel": "low_rank", "kernel": "weg"}),
        ("curved", {"explainer": "bayesshap"}),
        ("three_classes", {"explainer": "exact"}),
        (value, {"model_output": "value", "explainer": by_value, "kernel": Matern(Output()), "n_explained": 60}),
    ],
    ids=["default", "paper", "tasks", "noise", "three classes", "regressor"],
)
def test_a_file_gives_the_same_bits(make_auto, models, X, tmp_path, model, settings, attribution):
    model = getattr(models, model) if isinstance(model, str) else model
    g = make_auto(model, **settings).fit(X)
    for n in (5, 3):
        g.refine(X[-20:], n=n)
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=model, explainer=g.explainer)
    rows = np.random.default_rng(1).normal(size=(40, 3))
    ours, theirs = (one.explain(rows, attribution=attribution) for one in (g, again))
    for name in ("values", "model_variance", "noise_variance", "lower", "upper"):
        np.testing.assert_array_equal(getattr(theirs, name), getattr(ours, name), err_msg=name)


def test_diagnostics_follow(make_auto, models, counting, X, tmp_path):
    model = counting(models.curved)
    g = make_auto(model, n_explained=50).fit(X)
    first = g.diagnostics_
    assert (first["explained_rows"], first["model_rows"]) == (50, model.n_rows)
    e = g.explain(X[:30])  # spent on something else
    rows, calls = model.n_rows, model.n_calls
    g.refine(X[-20:], n=8)
    second = g.diagnostics_
    assert second["explained_rows"] == 58
    assert second["model_rows"] == first["model_rows"] + model.n_rows - rows
    assert second["model_calls"] == first["model_calls"] + model.n_calls - calls
    e.to_html(tmp_path / "report.html", gpec=g)
    assert "<dt>Rows explained to learn from</dt><dd>58</dd>" in (tmp_path / "report.html").read_text()
    assert second["left_out_R2"] == g._fitted.loo_r2 != first["left_out_R2"]
    assert second["condition"] == [g.posterior_.condition] != first["condition"]
    learned = g._fitted.normalizer is not None
    assert second["difficulty"] == ("learned from left-out rows" if learned else "predicted deviation")
    assert second["seconds"]["refine"] > 0
    assert second["seconds"]["boundary"] == first["seconds"]["boundary"]
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=model, explainer=models.slopes)
    assert again.diagnostics_ == second
    rows = model.n_rows
    third = again.refine(X[-20:], n=2).diagnostics_
    assert third["explained_rows"] == 60
    assert third["model_rows"] == second["model_rows"] + model.n_rows - rows
    assert third["seconds"]["refine"] > second["seconds"]["refine"]
    assert third.keys() == second.keys() == {*first}


def test_a_target_ends_it(make_auto, X):
    g = make_auto().fit(X)
    wide = g.explain(X[-20:], attribution="posterior").width.mean()
    g.refine(X[-20:], n=100, target=2 * wide)
    assert len(g.refinement_.X) == 0
    g.refine(X[-20:], n=20, target=1e-12)
    assert len(g.refinement_.X) == 20


def test_rows_are_not_explained_twice(make_auto, X):
    g = make_auto().fit(X)
    g.refine(X[-20:], n=10).refine(X[-20:], n=10)
    assert len(np.unique(g.X_explained_, axis=0)) == len(g.X_explained_)


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "similar",
    [None, MeasurementError({0: 0.1}), lambda X: [X + 0.1], NearestRows()],
    ids=["none", "errors", "function", "nearest"],
)
def test_rows_of_fit_are_candidates_whatever_is_similar(make_auto, models, X, tmp_path, similar, loaded):
    """Near the targets, which are all explained, only rows of fit are left to choose."""
    g = make_auto(similar=similar).fit(X, X_explained=X[:25])
    if loaded:
        g.save(tmp_path / "g")
        given = similar if callable(similar) else None
        g = gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=models.slopes, similar=given)
    g.refine(X[:5], n=7)
    assert len(g.refinement_.X) == 7
    assert {tuple(row) for row in g.refinement_.X} <= {tuple(row) for row in X[25:]}


def test_a_file_keeps_at_most_2000_rows_for_it(make, models, tmp_path):
    X = np.random.default_rng(0).normal(size=(5_000, 3))
    g = make().fit(X)
    g.save(tmp_path / "g")
    again = gpec.GPEC.load(tmp_path / "g", model=models.curved, explainer=models.slopes)
    for one in (g, again):
        assert one._fitted.pool.shape == (2_000, 3)
        assert {tuple(row) for row in one._fitted.pool} <= {tuple(row) for row in X}
    g = make(similar=NearestRows()).fit(X)
    g.save(tmp_path / "near")
    near = gpec.GPEC.load(tmp_path / "near", model=models.curved, explainer=models.slopes)._fitted
    assert near.pool is near.similarity.pool  # not there twice


def test_a_row_with_missing_values_is_explained_once(models):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    X[::2, 1] = np.nan
    X = np.vstack((X, X, X))

    def filled(function):
        return lambda X: function(np.nan_to_num(np.asarray(X, dtype=np.float64)))

    g = gpec.GPEC(
        filled(models.curved), filled(models.slopes), n_boundary=60, n_explained=20, random_state=0, progress=False
    )
    g.fit(X, X_explained=X[:20]).refine(X[60:], n=100)
    rows = np.nan_to_num(g.X_explained_, nan=99.0)
    assert len(np.unique(rows, axis=0)) == len(rows) == 60


@pytest.mark.parametrize(("parameters", "words"), [({"n": 0}, "n=0"), ({"target": -1.0}, "target=-1.0")])
def test_bad_input(make_auto, X, parameters, words):
    g = make_auto().fit(X)
    with pytest.raises(InputError, match=words):
        g.refine(X[-5:], **parameters)


def test_before_fit(make_auto, X):
    with pytest.raises(NotFittedError, match="call fit"):
        make_auto().refine(X)
