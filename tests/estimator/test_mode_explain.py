"""Mode "explain": intervals are order statistics of the attributions of all similar rows."""

import warnings
from contextlib import nullcontext
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import gpec
from gpec import Explanation
from gpec.errors import (
    BoundaryNotFoundError,
    CalibrationWarning,
    ExplainerError,
    FewBoundaryPointsWarning,
    InputError,
    MissingPartError,
    ModelCallError,
)
from gpec.explainers import CallableExplainer, ExactShapley
from gpec.similar import MeasurementError, SimilarFunction
from small_models import CountingModel, curved, slopes, slopes_of_three, three_classes

CHEAP = CallableExplainer(slopes, cheap=True)
LEVELS = (0.3, 0.5, 0.8, 0.9, 0.95)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(120, 3))


def fitted(X, explainer=CHEAP, model=curved, **parameters):
    return gpec.GPEC(model, explainer, random_state=0, progress=False, **parameters).fit(X)


def narrowest(value, others, level):
    """By trying all ranges whose ends are the value or one of the others."""
    needed = np.ceil(level * len(others) - 1e-9)
    ends = np.append(others, value)
    ranges = [(min(a, b), max(a, b)) for a, b in combinations(ends, 2)] + [(value, value)]
    good = [
        (high - low, low, high)
        for low, high in ranges
        if low <= value <= high and ((others >= low) & (others <= high)).sum() >= needed
    ]
    return min(good)


@pytest.mark.parametrize("level", LEVELS)
def test_fixed_similar_rows_give_the_narrowest_range_around_the_value(X, level):
    e = fitted(X).explain(X[:6], confidence_level=level)
    for i, f in np.ndindex(e.shape):
        width, low, high = narrowest(e.values[i, f], e.similar_values[i, :, f], level)
        assert e.lower[i, f] >= low - 1e-12 or e.upper[i, f] <= high + 1e-12
        assert e.width[i, f] == pytest.approx(width, abs=1e-12)
        assert e.lower[i, f] <= e.values[i, f] <= e.upper[i, f]


@pytest.mark.parametrize(("explainer", "model"), [(slopes, curved), (slopes_of_three, three_classes)])
def test_similar_values_are_what_the_explainer_answers(X, explainer, model):
    g = fitted(X, CallableExplainer(explainer, cheap=True), model)
    e = g.explain(X[:5])
    truth = explainer(g.similar_rows(X[:5])).reshape(5, 10, *e.shape[1:])
    np.testing.assert_array_equal(e.similar_values, truth)
    np.testing.assert_allclose(e.model_variance, ((truth - e.values[:, None]) ** 2).mean(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(e.sign_certainty, (np.sign(truth) == np.sign(e.values)[:, None]).mean(axis=1))
    assert not e.noise_variance.any()
    assert ((truth >= e.lower[:, None]) & (truth <= e.upper[:, None])).all()  # 95% of ten are ten
    np.testing.assert_array_equal(e[2, :2].similar_values, truth[2, :, :2])
    assert set(e.diagnostics["seconds"]) == {"explainer", "similar rows"}


def test_random_draws_hold_a_further_one_as_often_as_promised(X):
    """39 draws from the 1st to the 39th hold 95%, from the 4th to the 36th 80%: for each row, over draws."""
    errors = {0: 0.3, 1: 0.3, 2: 0.3}
    rows, repeats = X[:20], 60
    inside = {0.95: [], 0.8: []}
    for repeat in range(repeats):
        g = fitted(X, similar=MeasurementError(errors, random_state=repeat))
        e = g.explain(rows)
        fresh = slopes(rows + 0.3 * np.random.default_rng(repeat).normal(size=rows.shape))
        for level, found in inside.items():
            lower, upper = e.interval(level)
            found.append((fresh >= lower) & (fresh <= upper))
    assert e.similar_values.shape == (20, 39, 3)
    for level, found in inside.items():
        share = np.mean(found)
        # the extension to the value adds at most a little; rows within a repeat are independent, features are not
        assert level - 3 * np.sqrt(level * (1 - level) / (20 * repeats)) <= share <= level + 0.03


def test_ranks_are_fixed_before_the_draws(X):
    e = fitted(X, similar=MeasurementError({0: 0.5})).explain(X[:4])
    ranked = np.sort(e.similar_values, axis=1)
    for level, beyond in ((0.95, 1), (0.9, 2), (0.8, 4), (0.5, 10)):
        lower, upper = e.interval(level)
        np.testing.assert_array_equal(lower, np.minimum(e.values, ranked[:, beyond - 1]))
        np.testing.assert_array_equal(upper, np.maximum(e.values, ranked[:, 39 - beyond]))


def test_draws_are_independent_and_predictions_take_even_ones(X):
    error = MeasurementError({0: 1.0})
    explained = fitted(X, similar=error).similar_rows(X[:30]).reshape(30, 39, 3)[:, :, 0] - X[:30, :1]
    predicted = fitted(X, slopes, similar=error, n_explained=20).similar_rows(X[:30]).reshape(30, 16, 3)[:, :, 0]
    spread_of_means = [array.mean(axis=1).std() for array in (explained, predicted - X[:30, :1])]
    assert 0.7 / np.sqrt(39) < spread_of_means[0] < 1.3 / np.sqrt(39)
    assert spread_of_means[1] < 0.5 / np.sqrt(16)  # even draws cancel


def test_a_level_that_the_draws_cannot_give(X):
    g = fitted(X, similar=MeasurementError({0: 0.5}))
    with pytest.raises(InputError, match=r"level of 0.99 needs 199 independent draws of each row, and there are 39"):
        g.explain(X[:2], confidence_level=0.99)
    with pytest.raises(InputError, match=r"level of 0.99 needs 199 independent draws"):
        g.explain(X[:2], keep_similar=False).interval(0.99)
    g = fitted(X, similar=MeasurementError({0: 0.5}, n_draws=199))
    assert g.explain(X[:2], confidence_level=0.99).similar_values.shape == (2, 199, 3)


@pytest.mark.parametrize(("n_draws", "level", "word"), [(5, 0.5, "unclear"), (9, 0.8, "likely"), (39, 0.8, "firm")])
def test_draws_that_give_no_95_percent_give_no_firm_sign(X, n_draws, level, word):
    near = MeasurementError({0: 0.01}, n_draws=n_draws)
    for keep in (True, False):
        e = fitted(X, similar=near).explain(X[:20], confidence_level=level, keep_similar=keep)
        assert word in e.firmness
        if word != "firm":
            assert set(e.firmness.ravel()) <= {word, "unclear"}
            assert e.firm_share.max() == 0


@pytest.mark.parametrize("n_draws", [8, 50])
def test_the_level_named_in_the_refusal_can_be_had(X, n_draws):
    g = fitted(X, similar=MeasurementError({0: 0.5}, n_draws=n_draws))
    with pytest.raises(InputError, match="of at most") as refused:
        g.explain(X[:2], confidence_level=0.97)
    level = float(str(refused.value).rpartition(" ")[2].rstrip("."))
    assert g.explain(X[:2], confidence_level=level).similar_values.shape[1] == n_draws


def test_a_single_draw_has_no_interval(X):
    with pytest.raises(InputError, match=r"39 independent draws of each row, and there is 1; ask for more draws\.$"):
        fitted(X, similar=MeasurementError({0: 0.5}, n_draws=1)).explain(X[:2])


def test_no_explainer_in_mode_explain(X):
    with pytest.raises(InputError, match=r"mode='explain' runs .*, but explainer=None; pass an explainer"):
        gpec.GPEC(curved, None, mode="explain").fit(X)


def test_a_random_function_of_rows(X):
    def measured(rows):
        return [rows + 0.1 * np.random.default_rng(k).normal(size=rows.shape) for k in range(39)]

    e = fitted(X, similar=SimilarFunction(measured, random=True)).explain(X[:3])
    assert "with a probability of at least 95%" in e.statement()
    with pytest.raises(InputError, match="needs 199 independent draws"):
        e.interval(0.99)
    few = SimilarFunction(lambda rows: measured(rows)[:5], random=True)
    with pytest.raises(InputError, match="needs 39 independent draws of each row, and there are 5"):
        fitted(X, similar=few).explain(X[:3])
    assert fitted(X, similar=lambda rows: measured(rows)[:5]).explain(X[:3]).similar_values.shape[1] == 5


def test_equal_rows_are_explained_once(X):
    explainer = CountingModel(slopes)
    g = fitted(X, CallableExplainer(explainer, cheap=True), similar=lambda rows: [rows + 1, rows + 1, rows + 2])
    explainer.n_rows = 0
    g.explain(np.repeat(X[:4], 5, axis=0))
    assert explainer.n_rows == 20 + 4 * 2  # the rows themselves as always; of 60 similar rows eight differ


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blocks_and_threads_do_not_matter(X, n_jobs, monkeypatch):
    whole = fitted(X).explain(X)
    monkeypatch.setattr("gpec.pipeline.similar_rows._NUMBERS", 500)
    parts = fitted(X, n_jobs=n_jobs).explain(X)
    np.testing.assert_array_equal(parts.similar_values, whole.similar_values)
    np.testing.assert_array_equal(parts.lower, whole.lower)


def test_an_interrupted_call_goes_on(X, tmp_path):
    explainer = CountingModel(slopes)
    g = fitted(X, CallableExplainer(explainer, cheap=True))
    whole = g.explain(X[:40])
    explainer.n_calls, explainer.before = 0, lambda call, _: 1 / (call != 4)
    with pytest.raises(ExplainerError):
        g.explain(X[:40], checkpoint=tmp_path / "kept")
    explainer.before, explainer.n_rows = None, 0
    e = g.explain(X[:40], checkpoint=tmp_path / "kept")
    assert explainer.n_rows < 40 + 400
    assert e.diagnostics["rows_resumed"]
    np.testing.assert_array_equal(e.similar_values, whole.similar_values)


def test_attributions_of_similar_rows_that_are_not_kept(X, tmp_path):
    g = fitted(X)
    kept, e = g.explain(X[:8], confidence_level=0.7), g.explain(X[:8], confidence_level=0.7, keep_similar=False)
    assert e.similar_values is None
    assert e.statement() == kept.statement()
    for level in (0.7, 0.8, 0.95):
        np.testing.assert_array_equal(e.interval(level), kept.interval(level))
    for name in ("firmness", "firm_share", "sign_certainty", "variance"):
        np.testing.assert_array_equal(getattr(e, name), getattr(kept, name))
    with pytest.raises(InputError, match=r"explain again with confidence_level=0.9 or keep_similar=True"):
        e.interval(0.9)
    with pytest.raises(InputError, match="were not kept; explain again with keep_similar=True"):
        e.rank_certainty(1)
    e.save(tmp_path / "e")
    loaded = Explanation.load(tmp_path / "e")
    np.testing.assert_array_equal(loaded[1:3, 0].interval(0.8), kept[1:3, 0].interval(0.8))


def test_too_many_to_keep(X, monkeypatch):
    monkeypatch.setattr("gpec.pipeline.similar_rows._KEPT", 8 * 10 * 3 - 1)
    g = fitted(X)
    assert g.explain(X[:8]).similar_values is None
    assert g.explain(X[:7]).similar_values is not None


def test_noise_is_part_of_the_change(X):
    g = fitted(X, CallableExplainer(lambda X: (slopes(X), np.full(X.shape, 1e-4)), cheap=True))
    e = g.explain(X[:5])
    square = ((e.similar_values - e.values[:, None]) ** 2).mean(axis=1)
    np.testing.assert_allclose(e.variance, square, rtol=1e-9)
    np.testing.assert_allclose(e.noise_variance, np.minimum(2e-4, square), rtol=1e-9)


def test_saved_and_loaded(X, tmp_path):
    g = fitted(X, ExactShapley(), mode="explain", background=10)
    e = g.explain(X[:4])
    g.save(tmp_path / "g")
    e.save(tmp_path / "e")
    again = gpec.GPEC.load(tmp_path / "g", model=curved, explainer=ExactShapley())
    assert again.mode == "explain"
    np.testing.assert_array_equal(again.explain(X[:4]).similar_values, e.similar_values)
    loaded = Explanation.load(tmp_path / "e")
    np.testing.assert_array_equal(loaded[:, 1].similar_values, e[:, 1].similar_values)
    assert loaded.statement(0.8) == e.statement(0.8)


class TestAuto:
    def test_cheap_explainers(self, X):
        assert fitted(X).diagnostics_["mode"] == "explain"
        assert fitted(X, slopes, n_explained=20).diagnostics_["mode"] == "predict"

    @pytest.mark.parametrize("given", [{"kernel": "rbf"}, {"boundary": "bisection"}, {"similar": None}])
    def test_what_speaks_for_predicting(self, X, given):
        assert fitted(X, n_explained=20, **given).diagnostics_["mode"] == "predict"

    def test_given_attributions(self, X):
        g = gpec.GPEC(curved, CHEAP, n_explained=20, progress=False)
        assert g.fit(X, attributions=slopes(X)).diagnostics_["mode"] == "predict"

    def test_the_paper(self, X):
        assert fitted(X, **gpec.PAPER, n_boundary=60, n_explained=20).diagnostics_["mode"] == "predict"


class TestRefusals:
    def test_what_needs_a_gaussian_process(self, X):
        g = fitted(X)
        for name in ("posterior_", "kernel_"):
            with pytest.raises(MissingPartError, match=f"This fit has no {name}; .*fit with mode='predict'"):
                getattr(g, name)
        with pytest.raises(InputError, match=r"refine needs a Gaussian process.*fit with mode='predict'"):
            g.refine(X[:5])
        with pytest.raises(InputError, match="attribution='posterior' needs a Gaussian process"):
            g.explain(X[:5], attribution="posterior")
        assert not hasattr(g, "posterior_")

    def test_there_is_nothing_to_calibrate(self, X):
        g = fitted(X)
        with pytest.warns(CalibrationWarning, match="nothing to calibrate"):
            assert g.calibrate(X[:30]) is g

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"mode": "regression"}, "mode='regression' must be 'auto', 'explain' or 'predict'"),
            ({"mode": "exact"}, "mode='exact' is not one of"),
            ({"mode": "explain", "similar": None}, "similar=None names none; pass mode='predict'"),
            ({"mode": "explain", "kernel": "weg"}, "mode='explain' uses no kernel"),
            ({"mode": "explain", "task_kernel": "clusters"}, "mode='explain' uses no task_kernel"),
        ],
    )
    def test_settings(self, X, parameters, message):
        model = CountingModel(curved)
        with pytest.raises(InputError, match=message):
            fitted(X, model=model, **parameters)
        assert model.n_calls == 0

    def test_attributions_are_given(self, X):
        with pytest.raises(InputError, match="attributions are given to fit; pass mode='predict'"):
            gpec.GPEC(curved, CHEAP, mode="explain").fit(X, attributions=slopes(X))

    def test_a_similar_row_that_cannot_be_explained(self, X):
        def picky(rows):
            if (rows[:, 0] > 50).any():
                raise ValueError("out of range")
            return slopes(rows)

        def far(rows):
            moved = rows + 0.1
            moved[rows[:, 1] == X[3, 1], 0] = 99.0
            return [rows + 0.2, moved]

        g = fitted(X[10:], CallableExplainer(picky, cheap=True), similar=far)
        with pytest.raises(ExplainerError, match=r"A row similar to row 3 cannot be .*similar=.*: .*out of range"):
            g.explain(X[:8])
        np.testing.assert_array_equal(g.explain(X[4:8]).values, slopes(X[4:8]))

    def test_a_similar_row_that_the_model_refuses(self, X):
        def before(call, rows):
            if (rows[:, 0] > 50).any():
                raise ValueError("out of range")

        def far(rows):
            moved = rows + 0.1
            moved[rows[:, 1] == X[2, 1], 0] = 99.0
            return [rows + 0.2, moved]

        model = CountingModel(curved, before=before)
        g = fitted(X[10:], ExactShapley(), model, mode="explain", similar=far, background=5)
        with pytest.raises(ModelCallError, match=r"A row similar to row 2 cannot be .*categorical_features"):
            g.explain(X[:8])


class TestBoundary:
    def test_none_is_sampled_before_it_is_asked_for(self, X):
        model = CountingModel(curved)
        g = fitted(X, model=model)
        assert model.n_rows <= 3 * 20
        with pytest.raises(MissingPartError, match="call sample_boundary"):
            g.boundary_  # noqa: B018
        assert model.n_rows <= 3 * 20
        assert len(g.sample_boundary().boundary_) == 300
        before = g.explain(X[:3])
        np.testing.assert_array_equal(fitted(X).explain(X[:3]).lower, before.lower)

    def test_none_for_a_kernel_that_does_not_use_it(self, X):
        model = CountingModel(curved)
        g = fitted(X, slopes, model, kernel="rbf", n_explained=30)
        assert g.diagnostics_["boundary"] == "not needed"
        assert model.n_rows < 1_000
        with pytest.raises(MissingPartError, match="This fit has no graph_"):
            g.graph_  # noqa: B018

    @pytest.mark.parametrize("mode", ["explain", "predict"])
    def test_a_model_that_never_predicts_one_class(self, X, mode):
        def rare(rows):
            return 0.2 * curved(rows)

        with pytest.warns(FewBoundaryPointsWarning) if mode == "predict" else nullcontext():
            g = fitted(X, slopes, rare, mode=mode, n_explained=40)
        assert g.explain(X[:3]).width.shape == (3, 3)
        assert g.diagnostics_["boundary"].startswith("not")
        with pytest.raises(BoundaryNotFoundError, match="threshold"):
            g.sample_boundary()
        with pytest.raises(MissingPartError, match="no boundary or found none"):
            g.boundary_  # noqa: B018
        if mode == "predict":
            with pytest.raises(BoundaryNotFoundError, match="no boundary lies between them"):
                fitted(X, slopes, rare, kernel="weg", n_explained=40)

    def test_how_many_points(self, X):
        assert fitted(X, slopes, n_explained=20).diagnostics_["boundary_points"] == [300]
        assert fitted(X, slopes, n_explained=20, kernel="weg").diagnostics_["boundary_points"] == [2_000]


def test_no_word_depends_on_the_seed():
    data, y = load_wine(return_X_y=True, as_frame=True)
    data = data.assign(kind=pd.cut(data["hue"], 3, labels=["low", "mid", "high"]), alcohol=data["alcohol"].round())
    numbers = data.assign(kind=data["kind"].cat.codes)
    model = RandomForestClassifier(20, random_state=0).fit(numbers, y == 1)
    words = []
    for seed in (0, 1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            g = gpec.GPEC(model, "tree", categorical_features=["kind"], random_state=seed).fit(numbers)
        words.append(g.explain(numbers).firmness)
    assert (words[0] == words[1]).all()
    assert (words[0] == words[2]).all()
    assert len(np.unique(words[0])) == 3
