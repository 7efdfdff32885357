"""Rows explained roughly, and budgets of model rows that are never exceeded."""

import copy
import re

import numpy as np
import pytest

import gpec
from gpec.errors import BudgetError, InputError
from gpec.explainers import Explainer, KernelShap, Lime, ShapleySampling
from gpec.explainers.cxplain import CXPlain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 6))
NEW = RNG.normal(size=(40, 6)) + 1.0


class Counting:
    """A function that counts the rows it is asked for."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, rows):
        self.n += len(rows)
        return self.function(rows)


def curved(rows):
    return 1 / (1 + np.exp(-rows[:, 0] - rows[:, 1] * rows[:, 2] - np.sin(2 * rows[:, 3])))


def made(model, explainer="kernelshap", **settings):
    usual = {"mode": "predict", "background": 5, "random_state": 0, "progress": False}
    return gpec.GPEC(model, explainer, **{**usual, **settings})


# How rows are explained in fit


def test_fit_explains_more_rows_with_fewer_samples():
    d = 12
    wide = np.random.default_rng(1).normal(size=(600, d))
    model = Counting(curved)
    few = made(model, background=20).fit(wide)
    rows, effort = model.n, few.diagnostics_["effort"]
    model.n = 0
    all_samples = made(model, background=20, n_explained=200).fit(wide)
    assert all_samples.diagnostics_["effort"] == {"rows": 200, "samples": "full", "expected_variance": {}}
    assert rows <= 0.25 * model.n
    assert effort["rows"] == len(few.X_explained_) > 100
    assert effort["samples"] == min(effort["expected_variance"], key=effort["expected_variance"].get) < 2 * d + 512
    assert few.explain(wide[:3]).diagnostics["samples"] == "full"


def test_a_noisy_explainer_gets_more_samples():
    """Where the noise of few samples drowns the attributions, more are taken."""
    noise = np.random.default_rng(3).normal(size=4_096)

    def rough(rows):  # hardly anything but interactions
        return 0.5 + 0.1 * np.tanh(noise[(np.abs(rows).sum(axis=1) * 1e6).astype(int) % 4_096]) + 0.001 * rows[:, 0]

    quiet = made(curved, KernelShap()).fit(X).diagnostics_["effort"]
    assert quiet["expected_variance"][quiet["samples"]] == 1.0
    loud = made(rough, KernelShap()).fit(X).diagnostics_["effort"]
    assert loud["samples"] > quiet["samples"]
    perturbed = made(rough, Lime()).fit(X).diagnostics_["effort"]["expected_variance"]
    assert perturbed[min(perturbed)] > min(perturbed.values())  # noise counts, not only the number of rows


@pytest.mark.parametrize("explainer", [KernelShap(n_samples=400), ShapleySampling(400), Lime(800)], ids=str)
def test_number_of_samples_is_settable(explainer):
    model = Counting(curved)
    wide = np.random.default_rng(1).normal(size=(300, 12))
    rough = made(model, explainer, fit_samples=100, n_explained=30, kernel="rbf").fit(wide)
    rows = model.n
    model.n = 0
    full = made(model, explainer, fit_samples="full", n_explained=30, kernel="rbf").fit(wide)
    assert rough.diagnostics_["effort"]["samples"] == 100
    assert rows < 0.6 * model.n
    same = np.asarray(rough.X_explained_) == np.asarray(full.X_explained_)
    assert same.all()
    assert np.sum(rough.attributions_.variance) > 2 * np.sum(full.attributions_.variance)


def test_rough_attributions_are_those_of_the_explainer_with_as_many_samples():
    g = made(curved, KernelShap(n_samples=400), fit_samples=36, n_explained=20, background=X[:5]).fit(X)
    own = KernelShap(n_samples=36).fit(curved, X, background=X[:5], random_state=0)(g.X_explained_)
    np.testing.assert_array_equal(g.attributions_.values, own.values)
    floor = np.mean(own.variance, axis=0)  # rows that are exact by chance must not outweigh the others
    np.testing.assert_allclose(g.attributions_.variance, np.maximum(own.variance, floor))


def test_saved_rough_fit_answers_the_same(tmp_path):
    g = made(curved, fit_samples=28, n_explained=40).fit(X)
    g.save(tmp_path / "g.gpec")
    again = gpec.GPEC.load(tmp_path / "g.gpec", model=curved)
    for attribution in ("explainer", "posterior"):
        one, other = (each.explain(NEW[:5], attribution=attribution) for each in (g, again))
        np.testing.assert_array_equal(one.lower, other.lower)
    g.refine(NEW, n=5)
    assert len(g.X_explained_) == 45


# Budgets


@pytest.mark.filterwarnings("ignore::gpec.errors.PosteriorWarning", "ignore::gpec.errors.FewBoundaryPointsWarning")
@pytest.mark.parametrize("seed", range(200))
def test_a_budget_is_never_exceeded(seed):
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 9)), int(rng.integers(30, 400))
    rows = rng.normal(size=(n, d)).round(int(rng.integers(1, 4)))
    weights = rng.normal(size=d)
    model, refused = Counting(lambda Z: 1 / (1 + np.exp(-Z @ weights - Z[:, 0] * Z[:, -1]))), True
    explainer = rng.choice(["kernelshap", "shapley_sampling", "lime", "bayesshap"])
    budget = int(np.exp(rng.uniform(np.log(3_000), np.log(60_000))))
    settings = {
        "budget": budget,
        "random_state": seed,
        "background": int(rng.integers(1, 12)),
        "kernel": rng.choice(["auto", "rbf", "weg"]),
        "draw": rng.choice(["output", "uniform"]),
        "fit_samples": [100, "auto", "full"][rng.integers(3)],
        "n_explained": [30, "auto", "auto"][rng.integers(3)],
        "model_output": rng.choice(["value", "probability"]),
    }
    g = made(model, explainer, **settings)
    try:
        g.fit(rows, targets=rows[:20] if rng.random() < 0.2 else None)
        assert model.n <= budget / 2
        g.calibrate(rng.normal(size=(int(rng.integers(20, 300)), d)))
        assert model.n <= budget
        budget, model.n = int(np.exp(rng.uniform(np.log(300), np.log(50_000)))), 0
        e = g.explain(rows[:10], budget=budget)
        assert model.n == e.diagnostics["model_rows"]
    except BudgetError as error:
        asked = re.search("about ([0-9,]+) are needed", str(error))
        refused = int(asked[1].replace(",", "")) > budget if asked else "that the kernel rests on" in str(error)
    except gpec.errors.BoundaryNotFoundError:
        refused = settings["kernel"] == "weg"
    assert refused
    assert model.n <= budget


def test_what_a_budget_error_asks_for_is_enough():
    model = Counting(curved)
    with pytest.raises(BudgetError, match=r"budget=3,000 model rows is too small to explain 20 rows and calibrate"):
        made(model, budget=3_000).fit(X)
    assert model.n < 3_000
    with pytest.raises(BudgetError) as caught:
        made(model, budget=3_000).fit(X)
    needed = int(re.search("about ([0-9,]+) are needed", str(caught.value))[1].replace(",", ""))
    model.n = 0
    g = made(model, budget=int(1.05 * needed)).fit(X).calibrate(NEW)
    assert model.n <= 1.05 * needed
    assert g.calibration_rows_ if hasattr(g, "calibration_rows_") else True


def test_a_larger_budget_goes_on_from_what_is_known():
    model = Counting(curved)
    g = made(model, budget=20_000).fit(X).calibrate(NEW)
    first, explained = model.n, np.asarray(g.X_explained_)
    g.set_params(budget=60_000).fit(X)
    again = np.asarray(g.X_explained_)
    np.testing.assert_array_equal(again[: len(explained)], explained)
    assert len(again) > len(explained)
    g.calibrate(NEW)
    assert first < model.n <= 60_000
    assert g.diagnostics_["model_rows"] < model.n - first + 1


def test_a_budget_that_is_hardly_larger_says_how_much_is_needed():
    model = Counting(curved)
    g = made(model, budget=15_000, kernel="rbf").fit(X).calibrate(NEW)
    with pytest.raises(BudgetError) as caught:
        g.set_params(budget=15_100, n_explained=100).fit(X)
    assert int(re.search("about ([0-9,]+) are needed", str(caught.value))[1].replace(",", "")) > 15_100


def test_a_budget_needs_an_explainer_that_tells_its_price():
    with pytest.raises(InputError, match="CallableExplainer does not tell how often it calls the model"):
        made(curved, lambda rows: rows, budget=20_000).fit(X)


def test_a_fit_that_was_stopped_goes_on_within_its_budget(tmp_path):
    class Stopping(Counting):
        left = 6_000

        def __call__(self, rows):
            self.left -= len(rows)
            if self.left < 0:
                raise KeyboardInterrupt
            return super().__call__(rows)

    model = Stopping(curved)
    whole = made(curved, budget=30_000).fit(X)
    with pytest.raises(KeyboardInterrupt):
        made(model, budget=30_000).fit(X, checkpoint=tmp_path / "c")
    model.left = np.inf
    g = made(model, budget=30_000).fit(X, checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(g.attributions_.values, whole.attributions_.values)
    np.testing.assert_array_equal(g.explain(NEW).upper, whole.explain(NEW).upper)


@pytest.mark.parametrize("n", [20, 40])
def test_few_rows_are_all_explained(n):
    """A quarter of the model rows that a fit on 200 rows needs, not of those that so few rows need."""
    g = made(curved, background=10, kernel="rbf").fit(X[:n])
    assert len(g.X_explained_) == n
    assert n == 40 or g.diagnostics_["effort"]["samples"] == "full"


def test_mode_explain_keeps_its_budget():
    model = Counting(curved)
    g = made(model, mode="explain", budget=2_000).fit(X)
    assert 1_000 < model.n <= 2_000
    assert 1 <= len(g.X_explained_) < 20
    with pytest.raises(BudgetError, match=r"budget=400 .* to explain one row: about [0-9]+ are needed"):
        made(model, mode="explain", budget=400).fit(X)


def test_what_an_explainer_learns_from_counts():
    """CXPlain asks the model before the first row is explained."""
    pytest.importorskip("torch")
    model, explainer = Counting(curved), CXPlain(n_estimators=2, n_epochs=1)
    with pytest.raises(BudgetError, match=r"budget=3,000 .* what the explainer learns from"):
        made(model, explainer, budget=3_000).fit(X)
    assert model.n < 100
    made(model, explainer, budget=20_000, kernel="rbf").fit(X)
    assert model.n <= 10_000


def test_an_explainer_of_ones_own_that_learns_needs_to_tell():
    class Learning(CXPlain):
        learning_rows = Explainer.learning_rows

    with pytest.raises(InputError, match="Learning does not tell how often it calls the model"):
        made(curved, Learning(), budget=20_000).fit(X)


def test_an_explainer_that_asks_more_than_it_says_is_stopped():
    class Wrong(KernelShap):
        def most_model_rows(self, Z):
            return np.full(len(Z), 10.0)

    model = Counting(curved)
    with pytest.raises(BudgetError, match="does not allow for another call of the model"):
        made(model, Wrong(), budget=5_000, fit_samples="full", kernel="rbf").fit(X)
    assert model.n <= 5_000


def test_a_budget_is_not_for_rows_of_dask():
    array = pytest.importorskip("dask.array")
    g = made(curved, n_explained=20, kernel="rbf").fit(X)
    with pytest.raises(InputError, match="budget is for rows in memory"):
        g.explain(array.from_array(NEW, chunks=(20, -1)), budget=100)


def test_a_large_budget_buys_samples_once_all_rows_are_explained():
    few = made(curved, budget=40_000, kernel="rbf").fit(X[:30]).diagnostics_["effort"]
    assert few["rows"] == 30
    assert few["samples"] == "full"


@pytest.mark.parametrize("stop", [8_000, 22_000])
def test_what_a_stopped_call_spent_counts(tmp_path, stop):
    """The same two calls after a stop, in fit or in calibrate, keep the budget together with those before it."""

    class Stopping(Counting):
        def __call__(self, rows):
            if self.n + len(rows) > stop:
                raise KeyboardInterrupt
            return super().__call__(rows)

    def both(model):
        g = made(model, budget=30_000, kernel="rbf").fit(X, checkpoint=tmp_path / "fit")
        first = g.diagnostics_["spent"]
        return first, g.calibrate(NEW, checkpoint=tmp_path / "calibrate")

    model = Stopping(curved)
    with pytest.raises(KeyboardInterrupt):
        both(model)
    again = Counting(curved)
    first, g = both(again)
    assert model.n + again.n <= min(g.diagnostics_["spent"], 30_000)
    assert first > 5_000
    assert again.n < 28_000


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("n_permutations", [2, 40, 2_000])
def test_most_model_rows_of_permutations_that_share_coalitions(d, n_permutations):
    model, background = Counting(lambda Z: Z[:, 0] * Z[:, -1]), X[:7, :d]
    explainer = ShapleySampling(n_permutations).fit(model, X[:, :d], background=background, model_output="value")
    model.n = 0
    explainer(X[20:25, :d])
    most = explainer.most_model_rows(X[20:25, :d]).sum()
    assert model.n <= most
    assert n_permutations < 2_000 or most <= model.n + 5


def test_calibrate_takes_no_row_that_only_widens_the_intervals():
    """The 95% quantile of 19, 39, 59, ... scores is tight; what more rows would cost buys samples."""
    g = made(curved, budget=20_000, kernel="rbf").fit(X)
    found = []
    for budget in (21_000, 24_000, 28_000, 34_000):
        g.set_params(budget=budget)
        n = int(
            re.search(r"Checked on (\d+) rows", copy.copy(g).calibrate(X[:300] + 0.01).explain(NEW[:1]).statement())[1]
        )
        found.append(n)
    assert all((n + 1) % 20 == 0 for n in found)
    assert found[0] < found[-1] < 300


def test_cost_of_calibrate_is_within_the_budget():
    model = Counting(curved)
    g = made(model, budget=20_000, kernel="rbf")
    before = g.cost(X).model_rows
    model.n = 0
    after = g.fit(X).cost(X).model_rows
    fit = g.diagnostics_["model_rows"]
    assert before["fit: total"] + before["calibrate"] <= 20_001
    model.n = 0
    g.calibrate(NEW)
    assert after["calibrate"] <= 20_001 - fit
    assert 0.9 * model.n <= after["calibrate"]


def test_posterior_needs_one_model_row_each():
    g = made(curved, n_explained=30, kernel="rbf").fit(X)
    assert g.explain(NEW, attribution="posterior", budget=len(NEW)).diagnostics["model_rows"] == len(NEW)


# Targets


def test_rows_are_chosen_for_targets():
    plain = made(curved, n_explained=60).fit(X)
    g = made(curved, n_explained=60).fit(X, targets=NEW)
    assert len(g.X_explained_) == 60
    widths = [each.explain(NEW, attribution="posterior").std.mean() for each in (g, plain)]
    assert widths[0] < 0.9 * widths[1]
    assert (g.explained_weights_ == 0).sum() == 30


def test_targets_within_a_budget():
    model = Counting(curved)
    made(model, budget=30_000).fit(X, targets=NEW).calibrate(NEW + 0.01)
    assert model.n <= 30_000


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({}, {"targets": NEW[:, :3]}, "targets"),
        ({"mode": "explain"}, {"targets": NEW}, "targets are for mode='predict'"),
        ({}, {"targets": NEW, "X_explained": NEW}, "targets choose which rows are explained"),
        ({"budget": 0}, {}, "budget"),
        ({"budget": 2.5}, {}, "budget"),
        ({"fit_samples": "few"}, {}, "fit_samples"),
        ({"fit_samples": 0}, {}, "fit_samples"),
        ({"fit_samples": 100, "explainer": "exact"}, {}, "fit_samples=100 is a number, but ExactShapley takes none"),
        ({"n_explained": "many"}, {}, "n_explained"),
    ],
)
def test_bad_input(settings, arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        made(curved, **settings).fit(X, **arguments)


@pytest.mark.parametrize(("budget", "n"), [(5_000, 5), (20_000, 7), (60_000, 21), (10_000_000, 100)])
def test_a_small_budget_takes_few_background_rows(budget, n):
    model = Counting(curved)
    g = gpec.GPEC(model, mode="predict", budget=budget, random_state=0, progress=False)
    if 5_000 < budget < 1e6:
        g.fit(X).calibrate(NEW)
        assert 0.4 * budget < model.n <= budget
    assert KernelShap().background_within(budget, 8) == n


def test_what_cannot_be_explained_roughly_is_explained_exactly():
    """With three features all coalitions are few: fewer samples would be as dear."""

    def model(rows):
        return curved(rows[:, [0, 1, 2, 0]])

    g = made(model, background=10).fit(np.random.default_rng(2).normal(size=(400, 3)))
    assert g.diagnostics_["effort"]["samples"] == "full"
    assert len(g.X_explained_) >= 150
