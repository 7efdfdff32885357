"""The regularisation test: truth and protocol against independent code, and verdicts that follow the numbers."""

from __future__ import annotations

import copy

import matplotlib as mpl
import numpy as np
import pytest
from paper._models import Problem, booster
from paper._published import LEVELS, MEANS
from paper._regularisation_numbers import verdict
from paper._regularisation_report import fall
from paper._runs import Run
from paper._stability import agreement, published_boundary, published_naive, real_changes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neighbors import NearestNeighbors

from gpec.explainers import TreeShap
from paper import regularisation

FALLS = [[1.0, 0.9, 0.5], [1.1, 1.0, 0.7], [0.9, 0.9, 0.4]]


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1, 5, 20, 1]
    return X, (X[:, 0] + X[:, 1] / 5 + 0.5 * rng.normal(size=n) > 0).astype(int)


def test_verdicts_follow_paired_differences():
    falls = np.array(FALLS)
    assert verdict(falls) == "falls"
    assert verdict(falls[:, ::-1]) == "rises"
    assert verdict(falls[:1]) == "unsettled"  # one draw has no error
    # levels differ far more between draws than within: only pairs tell
    assert verdict(falls + np.array([[0.0], [50.0], [100.0]])) == "falls"
    assert verdict([[1.0, 0.5], [1.0, 1.6], [1.0, 0.8]]) == "unsettled"


def test_table_1_is_what_the_paper_says_of_it():
    for (name, what), rows in MEANS.items():
        assert len(rows["GPEC"]) == len(LEVELS[name, what]) == 3
        assert (np.diff(rows["GPEC"]) <= 0).all()
    rise = [(name, what) for (name, what), rows in MEANS.items() if np.diff(rows["Naive-GP"]).max() > 0]
    assert ("Online Shoppers", "gamma") in rise
    assert ("Census", "gamma") not in rise


def test_naive_gp_is_a_gaussian_process_with_the_likeliest_lengths():
    rng = np.random.default_rng(1)
    rows, query = rng.normal(scale=10, size=(30, 2)), rng.normal(scale=10, size=(7, 2))
    Y = np.column_stack((np.sin(rows[:, 0] / 5), 0.1 * rows[:, 1]))
    found = published_naive(rows, Y, query)
    for column, width in zip(Y.T, found.T, strict=True):
        best, sigma = -np.inf, None
        for length in np.geomspace(1, 100, 41):
            gp = GaussianProcessRegressor(RBF(length) + WhiteKernel(1e-4), alpha=0.0, optimizer=None)
            gp.fit(rows, column - column.mean())
            if gp.log_marginal_likelihood_value_ > best:
                best = gp.log_marginal_likelihood_value_
                sigma = np.sqrt(np.maximum(gp.predict(query, return_std=True)[1] ** 2 - 1e-4, 0))
        assert np.allclose(width, 4 * sigma, atol=1e-4)


def test_real_changes_are_those_of_rows_half_way_to_the_nearest():
    X, y = table()
    model = booster(X[:200], y[:200], X[200:], y[200:], 0.0, half=False, seed=0)
    draw = Problem({0.0: model}, X[:200], X[:50], X[200:], X[:0], X[:20])
    query = X[200:206]
    found = real_changes(draw, 0.0, query)
    spread = draw.pool.std(axis=0)
    nearest = NearestNeighbors(n_neighbors=10).fit(draw.pool / spread).kneighbors(query / spread)[1]
    explainer = TreeShap().fit(model, draw.pool, background=draw.background, random_state=0)
    for row, near, change in zip(query, nearest, found, strict=True):
        there = explainer((row + draw.pool[near]) / 2).values
        assert np.allclose(change, np.sqrt(((there - explainer(row[None]).values) ** 2).mean(axis=0)), atol=1e-9)


def test_published_boundary_keeps_points_without_a_jump_only():
    X, y = table(400)
    model = booster(X[:300], y[:300], X[300:], y[300:], 0.0, half=False, seed=0)
    found = published_boundary(model, X[:300], 300, seed=0)
    assert 50 <= len(found) < 300
    gaps = [np.abs(model.inplace_predict(end) - 0.5) for end in found.ends()]
    if len(found) > 50:
        assert np.min(gaps, axis=0).max() <= 0.05


def test_gamma_takes_leaves_and_training_stops_on_the_test_set():
    X, y = table(400)
    leaves = []
    for gamma in (0.0, 10.0):
        model = booster(X[:300], y[:300], X[300:], y[300:], gamma, half=False, seed=0)
        leaves.append(sum(tree.count("leaf=") for tree in model.get_dump()))
        loss = [
            -np.mean(np.log(np.where(y[300:] == 1, p, 1 - p)))
            for p in (model[:k].inplace_predict(X[300:]) for k in range(1, model.num_boosted_rounds() + 1))
        ]
        assert np.argmin(loss) == len(loss) - 1
    assert leaves[1] < leaves[0]


def test_a_method_that_says_the_same_of_all_rows_agrees_with_nothing():
    actual = np.arange(12.0).reshape(6, 2)
    assert agreement(np.ones((6, 2)), actual) == 0.0
    assert agreement(actual, actual) == pytest.approx(1.0)


@pytest.fixture(scope="module")
def toy(small_data, tmp_path_factory):
    mpl.use("Agg")
    folder = tmp_path_factory.mktemp("paper")
    found = Run("regularisation", "toy", None, regularisation.settings("toy", None), folder)
    regularisation.run(found)
    regularisation.draw(found)
    return found


def test_toy_runs_draws_and_goes_on(toy):
    for name in ("table1_regularisation", "table1_said_and_so"):
        assert (toy.folder / "figures" / "toy" / f"{name}.png").stat().st_size > 5_000
    again = Run("regularisation", "toy", None, regularisation.settings("toy", None), toy.folder)
    assert again.values == toy.values
    regularisation.run(again)  # nothing is left to do
    assert again.seconds == toy.seconds


def test_the_report_says_what_the_numbers_say(toy):
    told = "\n".join(regularisation.tables(toy))
    assert "German Credit" in told
    assert "not settled" in told  # one draw of the published protocol settles nothing

    def with_numbers(said, actual):
        other = copy.copy(toy)
        other.values = copy.deepcopy(toy.values)
        other.settings = {**toy.settings, "draws": 3}
        one = other.values["German Credit, draw 0"]
        for seed in range(3):
            new = copy.deepcopy(one)
            for block in ("published", "ours"):
                new[block] = {method: [said[seed][0], said[seed][-1]] for method in new[block]}
            stability = new["stability"]
            stability["said"] = {method: [said[seed][0], said[seed][-1]] for method in stability["said"]}
            stability["actual"] = [actual[seed][0], actual[seed][-1]]
            other.values[f"German Credit, draw {seed}"] = new
        return other

    def tables(run):
        return "\n".join(regularisation.tables(run))

    rises = [row[::-1] for row in FALLS]
    down, up, both = with_numbers(FALLS, FALLS), with_numbers(rises, FALLS), with_numbers(rises, rises)
    assert "as published the claim holds" in tables(down)
    assert "as published the claim fails" in tables(up)
    assert "GPEC, published on 1" in tables(down)
    assert "GPEC, published on 0" in tables(up)
    assert "GPEC, published on 1" in tables(both)  # noticing a rise is noticing, too
    assert [one.verdict for one in regularisation.verdicts(down)] == ["holds"] * 4
    assert [one.verdict for one in regularisation.verdicts(up)] == ["holds", "fails", "fails", "fails"]
    assert [one.verdict for one in regularisation.verdicts(both)][:2] == ["fails", "holds"]
    assert "more stable on 1 of 1 tables; GPEC as published notices on 0 of 1" in "\n".join(regularisation.lead(up))
    assert "\n**Fails.**" in "\n".join(regularisation.report(up))
    assert "\n**Holds.**" in "\n".join(regularisation.report(down))


def test_the_best_guide_is_the_one_with_the_highest_rank(toy):
    other = copy.copy(toy)
    other.values = copy.deepcopy(toy.values)
    ranks = other.values["German Credit, draw 0"]["stability"]["rank"]
    ranks["gpec, similar rows"] = [1.0, 1.0]
    assert "The best guide is our own interval" in "\n".join(regularisation.lead(other))
    ranks["BayesLIME"] = [1.0, 1.0]
    ranks["gpec, similar rows"] = [0.5, 0.5]
    assert "The best guide is BayesLIME, ahead of our own interval (0.50)" in "\n".join(regularisation.lead(other))


def test_what_falls_nowhere_is_unsettled_unless_it_rises():
    assert fall(["falls", "falls"]) == "holds"
    assert fall(["falls", "rises"]) == fall(["falls", "unsettled"]) == "holds in part"
    assert fall(["unsettled", "unsettled"]) == "unsettled"
    assert fall(["unsettled", "rises"]) == "fails"
