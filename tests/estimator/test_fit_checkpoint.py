"""``fit(..., checkpoint=folder)``: what is done stays done, and the fit is the same to the bit."""

import pickle

import numpy as np
import pandas as pd
import pytest

import gpec
from gpec import _files
from gpec._checkpoint import Checkpoint
from gpec.boundary import BisectionSampler
from gpec.errors import CheckpointError, CorruptFileError, InputError, ModelCallError, ParameterTypeError
from gpec.explainers import KernelShap, ShapleySampling
from gpec.explainers.base import Explainer
from gpec.explainers.cxplain import CXPlain
from gpec.kernels import RBF, WEG
from gpec.similar import NearestRows
from small_models import curved, slopes, slopes_of_three, three_classes


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of seven rows where there would be one of all; each is kept at once."""
    for kind in (Explainer, KernelShap, ShapleySampling):
        monkeypatch.setattr(kind, "rows_at_once", 7)
    monkeypatch.setattr("gpec._checkpoint._SECONDS", 0.0)


@pytest.fixture
def interrupted(monkeypatch):
    """``interrupted(fit, most)``: calls ``fit`` until it ends, stopping it after ``most`` new things were kept."""
    once, left = Checkpoint._once, [0]

    def counting(self, key, work):
        found, was_there = once(self, key, work)
        left[0] -= not was_there
        if left[0] < 0:
            raise KeyboardInterrupt
        return found, was_there

    monkeypatch.setattr(Checkpoint, "_once", counting)

    def run(fit, most):
        for attempt in range(1_000):
            left[0] = most
            try:
                return fit(), attempt
            except KeyboardInterrupt:
                pass
        raise AssertionError("no end")

    return run


def bits(g):
    """Everything a file would keep of a fit, but for how it ran."""
    state = g._fitted.state()
    settings = {name: value for name, value in state["settings"].items() if name not in ("n_jobs", "progress")}
    return _files.digest({**state, "settings": settings})


CASES = {
    "kernelshap": {"explainer": "kernelshap"},
    "a function": {"explainer": slopes},
    "an explainer that draws": {"explainer": ShapleySampling(n_permutations=4), "kernel": "rbf"},
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
    "objects": {"kernel": RBF("evidence") * WEG(), "similar": NearestRows(n_neighbors=3)},
}


@pytest.mark.parametrize("case", CASES)
def test_interrupted_again_and_again_the_fit_is_the_same(make_auto, interrupted, X, tmp_path, case):
    g = make_auto(**CASES[case])
    expected = bits(g.fit(X))
    assert g.diagnostics_["stages_resumed"] == []
    assert g.diagnostics_["rows_resumed"] == {}

    def fit():
        return make_auto(**CASES[case]).fit(X, checkpoint=tmp_path / "kept")

    again, attempts = interrupted(fit, 17)
    assert attempts >= 2
    assert bits(again) == expected
    whole = fit()
    assert bits(whole) == expected
    outputs = 3 if case == "three classes" else 1
    stages = [f"{stage} {output}" for output in range(outputs) for stage in ("graph", "kernel", "posterior")]
    assert whole.diagnostics_["stages_resumed"] == ["boundary", *stages]
    resumed = whole.diagnostics_["rows_resumed"]
    assert resumed["explainer 0"] == 25 + (0 if case == "the paper" else 25)  # and as many similar rows
    assert set(resumed) <= {f"explainer {run}" for run in range(3)} | {"drawn rows", "similar rows"}


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
    again, attempts = interrupted(lambda: build().fit(X, checkpoint=tmp_path / "kept"), 9)
    assert attempts > 2
    assert bits(again) == expected
    whole = build().fit(X, checkpoint=tmp_path / "kept")
    assert "explainer's learning" in whole.diagnostics_["stages_resumed"]
    assert whole.explain(X[:3]).values.shape == (3, 3)


def test_given_boundary_and_given_attributions(make_auto, interrupted, X, tmp_path):
    boundary = make_auto().fit(X).boundary_

    def fit(checkpoint=None):
        g = make_auto(explainer=None, boundary=boundary, kernel="weg")
        return g.fit(X, X_explained=X[:30], attributions=slopes(X[:30]), checkpoint=checkpoint)

    expected = bits(fit())
    again, attempts = interrupted(lambda: fit(tmp_path / "kept"), 0)
    assert attempts > 2
    assert bits(again) == expected


def test_other_threads_and_bars_go_on_with_it(make, interrupted, X, tmp_path, capsys):
    expected = bits(make(explainer="kernelshap").fit(X))
    jobs = iter([1, 2, 1, 2, 2, 1] * 20)

    def fit():
        g = make(explainer="kernelshap", n_jobs=next(jobs), progress=True)
        return g.fit(X, checkpoint=tmp_path / "kept")

    again, attempts = interrupted(fit, 8)
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
            seeds.append(_files.read(tmp_path / "kept" / "identity.gpec", "Checkpoint")["notes"]["seed"])

    again, attempts = interrupted(fit, 10)
    assert attempts > 2
    assert len(set(seeds)) == 1
    assert again.diagnostics_["seed"] == seeds[0]
    assert bits(again) == bits(make(random_state=seeds[0]).fit(X))


def test_calibrate_goes_on(make_auto, interrupted, X, tmp_path):
    g = make_auto(kernel="weg").fit(X[:60])
    expected = bits(pickle.loads(pickle.dumps(g)).calibrate(X[60:]))  # noqa: S301
    _, attempts = interrupted(lambda: g.calibrate(X[60:], checkpoint=tmp_path / "kept"), 4)
    assert attempts > 2
    assert bits(g) == expected


@pytest.mark.parametrize("explainer", [slopes, "kernelshap"])
def test_model_fails_at_every_call_and_the_next_call_goes_on(make, counting, X, tmp_path, explainer):
    def breaks(call, rows):
        if call == fatal:
            raise ConnectionError("no answer")

    def build():
        return make(model, explainer, n_boundary=10, n_explained=9, background=4)

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
        model.n_calls = -n_calls
        assert bits(g.fit(X, checkpoint=tmp_path / f"kept {fatal}")) == expected
        if fatal > 2:  # the model is known by its answers, at the beginning and the end
            assert model.n_calls < 3 - fatal + 1


class TestOtherWork:
    @pytest.fixture
    def kept(self, make, X, tmp_path):
        make().fit(X, checkpoint=tmp_path / "kept")
        return tmp_path / "kept"

    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"n_boundary": 61}, "n_boundary"),
            ({"random_state": 1}, "background and in random_state"),
            ({"random_state": None}, "random_state"),
            ({"explainer": "kernelshap"}, "explainer"),
            ({"explainer": curved}, "explainer"),
            ({"kernel": RBF(2.0)}, "kernel"),
            ({"similar": NearestRows()}, "similar"),
            ({"noise": 0.1}, "noise"),
            ({"groups": {"two": [0, 1]}}, "explainer and in groups"),
            ({"boundary": BisectionSampler(tolerance=1e-5)}, "boundary"),
            ({"threshold": 0.4}, "threshold"),
        ],
    )
    def test_other_settings(self, make, counting, X, kept, changes, named):
        model = counting(curved)
        with pytest.raises(CheckpointError, match=f"is of other work: it differs in {named}; give another folder"):
            make(model, **changes).fit(X, checkpoint=kept)
        assert model.n_calls == 0

    def test_other_rows(self, make, counting, X, kept):
        model = counting(curved)
        with pytest.raises(CheckpointError, match="differs in background and in the rows; give"):
            make(model).fit(X[::-1], checkpoint=kept)
        with pytest.raises(CheckpointError, match="differs in the rows; give"):
            make(model, background=X[:10]).fit(X[:119], checkpoint=self.given_background(make, X, kept))
        with pytest.raises(CheckpointError, match="differs in the rows to explain; give"):
            make(model).fit(X, X_explained=X[:30], checkpoint=kept)
        with pytest.raises(CheckpointError, match="differs in the rows to explain and in the attributions given; give"):
            make(model).fit(X, attributions=slopes(X), checkpoint=kept)
        assert model.n_calls == 0

    @staticmethod
    def given_background(make, X, kept):
        folder = kept.parent / "given background"
        make(background=X[:10]).fit(X, checkpoint=folder)
        return folder

    def test_named_columns(self, make, X, kept):
        with pytest.raises(CheckpointError, match="differs in the rows"):
            make(lambda rows: curved(rows.to_numpy()), lambda rows: slopes(rows.to_numpy())).fit(
                pd.DataFrame(X, columns=["a", "b", "c"]), checkpoint=kept
            )

    @pytest.mark.parametrize(
        "model",
        [lambda rows: curved(rows) * 0.999, lambda rows: three_classes(rows)],
        ids=["other answers", "other classes"],
    )
    def test_other_model(self, make, X, kept, model):
        with pytest.raises(CheckpointError, match="differs in the model; give another folder"):
            make(model).fit(X, checkpoint=kept)

    def test_model_that_differs_elsewhere_only(self, make, X, kept):
        """Its answers to the first rows are the same, but its boundary lies elsewhere."""
        first = {row.tobytes() for row in X[:20]}

        def model(rows):
            known = np.array([row.tobytes() in first for row in np.asarray(rows)])
            return np.where(known, curved(rows), curved(rows * 2.0))

        with pytest.raises(CheckpointError, match="differs in the model"):
            make(model).fit(X, checkpoint=kept)

    def test_rounding_makes_no_other_model(self, make, X, kept):
        assert bits(make(lambda rows: curved(rows) * (1 - 1e-9)).fit(X, checkpoint=kept)) == bits(make().fit(X))

    def test_the_same_model_and_settings_in_other_words(self, make, counting, X, kept):
        g = make(counting(curved), boundary=BisectionSampler(), n_jobs=2, progress=True)
        assert g.fit(pd.DataFrame(X).to_numpy(), checkpoint=kept).diagnostics_["stages_resumed"]

    def test_of_explain(self, make, X, kept, tmp_path):
        g = make().fit(X)
        with pytest.raises(CheckpointError, match="is of fit, not of explain; give another folder"):
            g.explain(X[:5], checkpoint=kept)
        g.explain(X[:5], checkpoint=tmp_path / "explained")
        with pytest.raises(CheckpointError, match="is of explain, not of fit; give another folder"):
            make().fit(X, checkpoint=tmp_path / "explained")

    def test_folder_of_something_else(self, make, X, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(CheckpointError, match="holds other files"):
            make().fit(X, checkpoint=tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    @pytest.mark.parametrize("random_state", [0, None])
    def test_a_file(self, make, counting, X, tmp_path, random_state):
        (tmp_path / "file").write_text("")
        model = counting(curved)
        with pytest.raises(InputError, match="is a file; give a folder"):
            make(model, random_state=random_state).fit(X, checkpoint=tmp_path / "file")
        with pytest.raises(InputError, match="nowhere does not exist"):
            make(model, random_state=random_state).fit(X, checkpoint=tmp_path / "nowhere" / "kept")
        with pytest.raises(ParameterTypeError, match="checkpoint=True must be the path of a folder"):
            make(model, random_state=random_state).fit(X, checkpoint=True)
        assert model.n_calls == 0

    def test_killed_while_the_first_file_was_written(self, make, X, tmp_path):
        (tmp_path / ".identity.gpec.0123456789abcdef").write_text("half")
        assert make().fit(X, checkpoint=tmp_path).diagnostics_["stages_resumed"] == []

    def test_damaged(self, make, X, kept):
        path = next(kept.glob("blocks-*"))
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptFileError, match="damaged"):
            make().fit(X, checkpoint=kept)

    def test_a_disk_that_is_full(self, make, X, tmp_path, monkeypatch):
        def full(*_):
            raise OSError(28, "No space left on device")

        make().fit(X, checkpoint=tmp_path / "kept")
        monkeypatch.setattr("gpec._files.write_whole", full)
        with pytest.raises(CheckpointError, match="Cannot write the checkpoint .*: No space left on device; make room"):
            make().fit(X, checkpoint=tmp_path / "new")
        for path in (tmp_path / "kept").glob("blocks-*"):
            path.unlink()
        with pytest.raises(CheckpointError, match="Cannot write the checkpoint .*: No space left on device; make room"):
            make().fit(X, checkpoint=tmp_path / "kept")


def test_an_error_comes_before_that_of_a_full_disk(make, counting, X, tmp_path, monkeypatch):
    def breaks(call, rows):
        if call == 5:
            monkeypatch.setattr("gpec._files.write_whole", full)
            raise ConnectionError("no answer")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpec._checkpoint._SECONDS", 1e9)  # nothing is written before the end
    with pytest.raises(ModelCallError, match="no answer") as error:
        make(counting(curved, before=breaks)).fit(X, checkpoint=tmp_path / "kept")
    assert "No space left on device" in error.value.__notes__[0]
