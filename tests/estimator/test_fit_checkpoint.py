"""``fit(..., checkpoint=folder)``: what is done stays done, and the fit is the same to the bit."""

import pickle

import numpy as np
import pytest

import gpec
from archive_helpers import bits, read_tree
from gpec.boundary import BisectionSampler, LevelSetSampler
from gpec.errors import ModelCallError
from gpec.explainers import KernelShap, ShapleySampling
from gpec.explainers.adapters import CallableExplainer
from gpec.explainers.cxplain import CXPlain
from gpec.kernels import RBF, WEG
from gpec.similar import NearestRows
from small_models import curved, slopes, slopes_of_three, three_classes


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of seven rows where there would be one of all; each is kept at once."""
    for kind in (CallableExplainer, KernelShap, ShapleySampling):
        monkeypatch.setattr(kind, "rows_at_once", 7)
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 0.0)


@pytest.fixture
def interrupted(monkeypatch):
    """``interrupted(fit, most)``: calls ``fit`` until it ends, stopping it after ``most`` new things were kept."""
    cache = gpec.runtime.checkpoint.BlockCache
    cached, left = cache.cached, [np.inf]

    def counting(self, stage, function, rows):
        def counted(part):
            left[0] -= 1
            return function(part)

        from_cache = cached(self, stage, counted, rows)

        def interrupting(part):
            found = from_cache(part)
            if left[0] < 0:
                raise KeyboardInterrupt
            return found

        return interrupting

    monkeypatch.setattr(cache, "cached", counting)

    def run(fit, most):
        for attempt in range(1_000):
            left[0] = most
            try:
                return fit(), attempt
            except KeyboardInterrupt:
                pass
            finally:
                left[0] = np.inf
        raise AssertionError("no end")

    return run


CASES = {
    "kernelshap": {"explainer": "kernelshap"},
    "a function": {"explainer": slopes},
    "an explainer that draws": {"explainer": ShapleySampling(n_permutations=4), "kernel": "weg"},
    "several runs": {
        "explainer": ShapleySampling(n_permutations=4),
        "noise": "resample",
        "n_resamples": 3,
        "kernel": "weg",
    },
    "three classes": {"model": three_classes, "explainer": slopes_of_three},
    "dependent features": {"task_kernel": "low_rank", "kernel": "weg"},
    "the paper": {**gpec.PAPER, "similar": None},
    "groups": {"groups": {"two": [0, 1]}, "explainer": "kernelshap", "kernel": "weg"},
    "walking": {"boundary": BisectionSampler(n_walk=5), "kernel": "weg"},
    "a regressor": {
        "model_output": "value",
        "explainer": "kernelshap",
        "kernel": "auto",
        "boundary": LevelSetSampler((0.3, 0.7)),
    },
    "objects": {"kernel": RBF("evidence") * WEG(), "similar": NearestRows(n_neighbors=3)},
}


@pytest.mark.parametrize("case", CASES)
def test_interrupted_again_and_again_the_fit_is_the_same(make_auto, interrupted, X, tmp_path, case, monkeypatch):
    g = make_auto(**CASES[case])
    expected = bits(g.fit(X))
    assert g.diagnostics_["rows_resumed"] == {}

    def fit(folder="kept"):
        return make_auto(**CASES[case]).fit(X, checkpoint=tmp_path / folder)

    again, attempts = interrupted(fit, 13)
    assert attempts >= 2
    assert bits(again) == expected
    whole = fit()
    assert bits(whole) == expected
    resumed = whole.diagnostics_["rows_resumed"]
    assert resumed["explainer 0"] == 25 + (0 if case == "the paper" else 25)  # and as many similar rows
    assert {"model", "boundary"} < set(resumed)
    runs = {f"explainer {run}" for run in range(3)}
    assert set(resumed) <= {"model", "boundary", "drawn rows", "similar rows"} | runs
    monkeypatch.setattr("gpec.runtime.checkpoint._SECONDS", 1e9)  # all is written at the end, unchanged
    assert bits(fit("late")) == expected
    assert bits(fit("late")) == expected


def test_interrupted_after_each_thing_it_keeps(make, interrupted, X, tmp_path):
    expected = bits(make(explainer="kernelshap").fit(X))
    again, attempts = interrupted(lambda: make(explainer="kernelshap").fit(X, checkpoint=tmp_path / "kept"), 0)
    assert attempts > 20
    assert bits(again) == expected


def test_interrupted_while_the_explainer_learns(make_auto, interrupted, X, tmp_path):
    pytest.importorskip("torch")

    def build():
        explainer = CXPlain(n_estimators=2, n_train=60, n_epochs=3)
        return make_auto(explainer=explainer, kernel="weg")

    expected = bits(build().fit(X))
    again, attempts = interrupted(lambda: build().fit(X, checkpoint=tmp_path / "kept"), 15)
    assert attempts >= 2
    assert bits(again) == expected
    whole = build().fit(X, checkpoint=tmp_path / "kept")
    assert whole.diagnostics_["rows_resumed"]["learning"] == len(X)
    assert whole.explain(X[:3]).values.shape == (3, 3)


def test_given_boundary_and_given_attributions(make_auto, interrupted, X, tmp_path):
    boundary = make_auto().fit(X).boundary_

    def fit(checkpoint=None):
        g = make_auto(explainer=None, boundary=boundary, kernel="weg")
        return g.fit(X, X_explained=X[:30], attributions=slopes(X[:30]), checkpoint=checkpoint)

    expected = bits(fit())
    again, attempts = interrupted(lambda: fit(tmp_path / "kept"), 0)
    assert attempts > 0
    assert bits(again) == expected


def test_other_threads_and_bars_go_on_with_it(make, interrupted, X, tmp_path, capsys):
    expected = bits(make(explainer="kernelshap").fit(X))
    jobs = iter([1, 2, 1, 2, 2, 1] * 20)

    def fit():
        g = make(explainer="kernelshap", n_jobs=next(jobs), progress=True)
        return g.fit(X, checkpoint=tmp_path / "kept")

    again, attempts = interrupted(fit, 6)
    assert attempts > 3
    assert bits(again) == expected


def test_an_earlier_fit_of_the_object_and_a_checkpoint(make, interrupted, X, tmp_path):
    """What the object remembers is not kept, nor does it stand in for what is."""
    expected = bits(make(n_explained=40).fit(X))
    g = make(n_explained=20).fit(X)

    def refit():
        return g.set_params(n_explained=40).fit(X, checkpoint=tmp_path / "kept")

    assert bits(refit()) == expected
    again, _ = interrupted(lambda: make(n_explained=40).fit(X, checkpoint=tmp_path / "kept"), 3)
    assert bits(again) == expected


@pytest.mark.parametrize("make_state", [lambda: None, lambda: np.random.default_rng(5)])
def test_a_seed_that_was_drawn_is_that_of_the_first_call(make, interrupted, X, tmp_path, make_state):
    state, seeds = make_state(), []

    def fit():
        g = make(random_state=state)
        try:
            return g.fit(X, checkpoint=tmp_path / "kept")
        finally:
            seeds.append(read_tree(tmp_path / "kept" / "_identity.gpec", "Checkpoint")["notes"]["seed"])

    again, attempts = interrupted(fit, 10)
    assert attempts > 2
    assert len(set(seeds)) == 1
    assert again.diagnostics_["seed"] == seeds[0]
    assert bits(again) == bits(make(random_state=seeds[0]).fit(X))


def test_calibrate_goes_on(make_auto, interrupted, X, tmp_path):
    g = make_auto(kernel="weg").fit(X[:60])
    expected = bits(pickle.loads(pickle.dumps(g)).calibrate(X[60:]))
    _, attempts = interrupted(lambda: g.calibrate(X[60:], checkpoint=tmp_path / "kept"), 4)
    assert attempts > 2
    assert bits(g) == expected


def test_model_fails_at_every_call_and_the_next_call_goes_on(make, counting, X, tmp_path):
    def breaks(call, rows):
        if call == fatal:
            raise ConnectionError("no answer")

    def build():
        return make(model, "kernelshap", n_boundary=10, n_explained=9, background=4)

    model, fatal = counting(curved, before=breaks), 0
    expected = bits(build().fit(X))
    n_calls = model.n_calls
    assert 10 <= n_calls < 100
    for fatal in range(1, n_calls + 1):
        model.n_calls = 0
        g = build()
        with pytest.raises(ModelCallError, match="no answer"):
            g.fit(X, checkpoint=tmp_path / f"kept {fatal}")
        assert not [name for name in vars(g) if name.endswith("_") or name.startswith("_")]
        model.n_calls = -2 * n_calls
        assert bits(g.fit(X, checkpoint=tmp_path / f"kept {fatal}")) == expected
        # what was done is not done again, but for half a block; the model is asked who it is, and about the boundary
        assert model.n_calls + 2 * n_calls <= n_calls - (fatal - 1) + 6
