"""A word before a long run, and rows explained on several threads."""

import re
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from explainer_helpers import IRIS, SPECIES, fitted, linear, network, tangled
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import gpec
from extras import catboost, lightgbm, torch, xgboost
from gpec.errors import ModelCallError, SlowExplainerWarning
from gpec.explainers import (
    Attribution,
    BayesLime,
    BayesShap,
    CallableExplainer,
    CXPlain,
    ExactShapley,
    Explainer,
    KernelShap,
    Lime,
    ShapKernel,
    ShapleySampling,
    base,
)
from gpec.explainers.noise import observe
from gpec.images import SuperpixelExplainer

ROWS = np.random.default_rng(7).normal(size=(60, 8))


# A word beforehand


def test_the_cost_is_said_before_the_model_is_asked():
    wide = np.random.default_rng(0).normal(size=(300, 14))

    def model(rows):
        if len(rows) > 200:  # masked rows
            raise RuntimeError("asked")
        return linear(rows)

    explainer = ExactShapley().fit(model, wide, background=100)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ModelCallError, match="asked"):
            explainer(wide[:200])
    assert [warning.category for warning in caught] == [SlowExplainerWarning]
    assert re.fullmatch(
        r"Explaining 200 rows with ExactShapley takes about 326,\d{3},\d{3} model rows; fewer background rows cost "
        "less, explainer='kernelshap' has a budget, and explainer='tree' needs no calls of a tree model.",
        str(caught[0].message),
    )
    assert caught[0].filename == __file__  # the line that asked


def test_a_short_run_says_nothing(recwarn):
    fitted("exact", tangled, ROWS)(ROWS[:3])
    assert not recwarn.list


class Slow(Explainer):
    """Says how many model rows it needs, and takes some seconds for its first block on a clock of the test."""

    threads, remedy = True, "use less"

    def __init__(self, clock, model_rows=None, seconds=0.0):
        self.clock, self.needs, self.seconds = clock, model_rows, seconds

    def model_rows(self, Z):
        return self.needs

    def _explain(self, Z, seeds):
        if (Z == 0).all(axis=1).any():
            self.clock.append(self.seconds)
        return Attribution(np.zeros(Z.shape))


@pytest.fixture
def slow(monkeypatch):
    """``slow(n, at_once, model_rows, seconds)``: explain ``n`` rows, the first block in this time."""

    def explain(n, at_once, model_rows=None, seconds=0.0, n_jobs=1, columns=3):
        clock, rows = [], np.vstack((np.zeros(columns), np.random.default_rng(0).normal(size=(n - 1, columns))))
        monkeypatch.setattr(base, "time", SimpleNamespace(perf_counter=lambda: sum(clock)))
        ready = Slow(clock, model_rows, seconds).fit(lambda rows: np.full(len(rows), 0.5), rows, background=2)
        ready.rows_at_once = at_once
        return ready(rows, n_jobs=n_jobs)

    return explain


def test_minutes_are_told_by_the_first_block(slow):
    expected = r"^Explaining 200 rows with Slow takes about 5,000,000 model rows, about 5 min; use less\.$"
    with pytest.warns(SlowExplainerWarning, match=expected) as caught:
        slow(200, 2, 5_000_000, 3.0)
    assert len(caught) == 1
    with pytest.warns(SlowExplainerWarning, match=r"^Explaining 9 rows with Slow takes about 70 s; use less\.$"):
        slow(9, 1, None, 7.8)
    slow(50, 3, None, 3.0)  # 50 s: warnings are errors here
    slow(100, 3, None, 3.0, n_jobs=2)


def test_rows_with_many_columns_cost_more(slow):
    """Ten rows with 500 features take minutes, though their model rows are fewer than 20 million."""
    with pytest.warns(SlowExplainerWarning, match=r"^Explaining 10 rows with Slow takes about 9,980,010 model rows; u"):
        slow(10, 10, 9_980_010, columns=500)
    slow(10, 10, 9_980_010, columns=30)


def test_a_slow_explainer_of_the_users_own_is_noticed(monkeypatch, models, X):
    monkeypatch.setattr("gpec.explainers._cost.LONG", 0.1)
    calls = []

    def slow(rows):
        calls.append(len(rows))
        time.sleep(0.02)
        return models.slopes(rows)

    explainer = fitted(CallableExplainer(slow), models.curved, X)
    explainer.rows_at_once = 1
    with pytest.warns(SlowExplainerWarning, match=r"Explaining 12 rows with CallableExplainer takes about 0 s; expl"):
        explainer.explain(X[:12], seed=0)
    assert len(calls) == 12


def test_runs_are_counted_together_and_said_once(monkeypatch):
    monkeypatch.setattr("gpec.explainers._cost._MANY_MODEL_ROWS", 3 * 10 * 60)
    options = {"n_resamples": 10, "seed": 0}
    explainer = fitted(Lime(60), tangled, ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observe(explainer, ROWS[:3], noise="resample", **options)
    with pytest.warns(SlowExplainerWarning, match="takes about 2,400 model rows; a smaller n_samples") as caught:
        observe(explainer, ROWS[:4], noise="resample", **options)
    assert len(caught) == 1


TOLD = [
    (BayesLime(60), 0.01),
    (BayesShap(60, n_background=3), 0.01),
    (ExactShapley(), 0.02),
    (KernelShap(100), 0.02),
    (KernelShap(), 0.02),
    (Lime(70), 0.01),
    (ShapKernel(100), 0.05),
    (ShapleySampling(300), 0.4),  # those that come twice are predicted once
]


@pytest.mark.parametrize(("explainer", "tolerance"), TOLD, ids=lambda one: repr(one) if one else "")
def test_the_cost_is_what_it_costs(explainer, tolerance, counting):
    rows = ROWS.copy()
    rows[::2, :4] = np.round(rows[::2, :4])  # some values repeat
    model = counting(tangled)
    ready = fitted(explainer, model, rows)
    before, told = model.n_rows, ready.model_rows(rows[20:26])
    ready(rows[20:26])
    assert model.n_rows - before == pytest.approx(told, rel=tolerance)


def test_the_cost_of_many_rows_is_told_by_some():
    many = np.random.default_rng(1).normal(size=(5_000, 8))
    ready = fitted(ExactShapley(), tangled, ROWS)
    assert ready.model_rows(many) == 5_000 * (20 * 254 + 1)


def test_more_features_than_coalitions_can_be_counted():
    """2^1100 is no double."""
    wide = np.random.default_rng(0).normal(size=(6, 1_100))
    ready = fitted(KernelShap(), lambda rows: np.full(len(rows), 0.5), wide, background=wide[:1])
    assert ready.model_rows(wide[1:2]) == 4 * 1_100 - 4 + 1
    assert not ready(wide[1:2]).values.any()


# Threads


def slowly(rows):
    time.sleep(0.001)
    return tangled(rows)


class Threads:
    """A model that notes which threads asked it."""

    def __init__(self, function=slowly):
        self.function, self.seen = function, set()

    def __call__(self, rows):
        self.seen.add(threading.get_ident())
        return self.function(rows)


PARALLEL = [
    BayesLime(60),
    BayesShap(60),
    ExactShapley(),
    ExactShapley(link="logit"),
    KernelShap(40),
    Lime(60),
    ShapleySampling(80),
]


@pytest.mark.parametrize("explainer", PARALLEL, ids=repr)
def test_bits_do_not_depend_on_the_number_of_threads(explainer, monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", 200)
    model = Threads()
    ready = fitted(explainer, model, ROWS)
    one = ready(ROWS[:30])
    assert model.seen == {threading.get_ident()}
    for n_jobs in (2, 5):
        model.seen.clear()
        several = ready(ROWS[:30], n_jobs=n_jobs)
        assert len(model.seen) > 1
        for name in ("values", "variance", "base_values"):
            np.testing.assert_array_equal(getattr(several, name), getattr(one, name))


@pytest.mark.parametrize(
    "build",
    [
        lambda: catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, thread_count=1),
        lambda: HistGradientBoostingClassifier(max_iter=5),
        lambda: LogisticRegression(max_iter=1_000),
        lambda: RandomForestClassifier(5, random_state=0),
        lambda: lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1),
        lambda: xgboost.XGBClassifier(n_estimators=5, n_jobs=1),
    ],
    ids=["catboost", "histograms", "logistic", "forest", "lightgbm", "xgboost"],
)
def test_common_models_may_be_asked_by_several_threads(build, monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", 500)
    ready = fitted(ExactShapley(), build().fit(IRIS, SPECIES))
    one, several = (ready(IRIS[:40], n_jobs=n_jobs).values for n_jobs in (1, 4))
    np.testing.assert_array_equal(several, one)


def test_calls_and_rows_are_counted_under_threads(monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", 200)
    counts = []
    for n_jobs in (1, 4):
        ready = fitted(KernelShap(40), slowly, ROWS)
        ready(ROWS, n_jobs=n_jobs)
        counts.append((ready.model_.n_calls, ready.model_.n_rows))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "explainer",
    [CallableExplainer(lambda rows: 0.1 * rows), CXPlain(2, n_train=30, n_epochs=1), ShapKernel(20)],
    ids=lambda one: type(one).__name__,
)
def test_others_stay_on_one_thread(explainer):
    assert not explainer.threads


def test_an_explainer_of_the_users_own_stays_on_one_thread(monkeypatch):
    class Own(Explainer):
        rows_at_once = 2

        def _explain(self, Z, seeds):
            assert threading.current_thread() is threading.main_thread()
            return Attribution(np.zeros(Z.shape))

    fitted(Own(), tangled, ROWS)(ROWS[:9], n_jobs=3)


def test_a_module_is_asked_by_one_thread(monkeypatch):
    """It is put into evaluation mode and back around each call; two threads would undo each other."""
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", 200)
    module, seen = network(8, 1), set()
    module.append(torch.nn.Dropout(0.5))
    module.register_forward_hook(lambda *_: seen.add(threading.get_ident()))
    module.train()
    fitted(KernelShap(40), module, ROWS)(ROWS[:20], n_jobs=4)
    assert seen == {threading.get_ident()}
    assert module.training


def test_images_are_shared_between_threads():
    images = np.random.default_rng(0).uniform(size=(20, 8, 8))
    model = Threads(lambda X: np.clip(np.asarray(X).reshape(len(X), -1)[:, ::3].mean(axis=1), 0, 1))
    pieces = np.arange(64).reshape(8, 8) // 8
    ready = fitted(SuperpixelExplainer(KernelShap(40), segments=pieces, baseline=0.0), model, images)
    one, two = (ready(images, n_jobs=n_jobs).values for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert len(model.seen) > 1
    ready = fitted(SuperpixelExplainer(ShapKernel(40), segments=pieces, baseline=0.0), model, images)
    assert not ready.threads


def test_blocks_do_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", (20 * 254 + 1) * 3)
    sizes = []

    class Noted(ExactShapley):
        def _explain(self, Z, seeds):
            sizes.append(len(Z))
            return super()._explain(Z, seeds)

    ready = fitted(Noted(), tangled, ROWS)
    for n_jobs in (1, 3):
        sizes.clear()
        ready(ROWS[20:28], n_jobs=n_jobs)
        assert sorted(sizes) == [2, 3, 3]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_errors_name_the_rows(n_jobs, monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", (20 * 254 + 1) * 3)
    bad = ROWS[20:40].copy()
    bad[13, 0] = 77.0

    def fails(rows):
        if (np.asarray(rows)[:, 0] == 77.0).any():
            raise ZeroDivisionError("no answer")
        return tangled(rows)

    with pytest.raises(ModelCallError, match=r"no answer; this was while explaining rows 12 to 14\.") as caught:
        fitted(ExactShapley(), fails, ROWS)(bad, n_jobs=n_jobs)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_resampling_runs_on_threads_too(monkeypatch):
    monkeypatch.setattr(base, "_MODEL_ROWS_AT_ONCE", 200)
    found = []
    for n_jobs in (1, 2):
        model = Threads()
        options = {"noise": "resample", "n_resamples": 3, "n_explained": 12, "background": ROWS[:20], "n_boundary": 20}
        g = gpec.GPEC(model, Lime(60), n_jobs=n_jobs, random_state=0, progress=False, **options).fit(ROWS)
        found.append(g.attributions_)
    one, two = found
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.variance, two.variance)
    assert (one.variance > 0).all()
    assert len(model.seen) > 1


def test_the_class_is_public():
    assert issubclass(gpec.errors.SlowExplainerWarning, UserWarning)
