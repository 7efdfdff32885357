"""``explain(..., checkpoint=folder)``: what is done stays done, and the result is the same to the bit."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import gpec
from archive_helpers import write_tree
from gpec.errors import CheckpointError, CorruptFileError, InputError, ModelCallError, ModelMismatchError
from gpec.explainers import KernelShap, ShapleySampling
from gpec.explainers.adapters import CallableExplainer
from small_models import curved, slopes

KINDS = ["explainer", "posterior"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of seven rows where there would be one of all."""
    monkeypatch.setattr(CallableExplainer, "rows_at_once", 7)
    monkeypatch.setattr(KernelShap, "rows_at_once", 7)
    monkeypatch.setattr("gpec.pipeline.explain._BLOCK", 11)
    monkeypatch.setattr("gpec.pipeline.prediction._BLOCK", 5)


def same(one, other):
    for name in ("values", "model_variance", "noise_variance", "base_values", "predictions", "lower", "upper"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.statement() == other.statement()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("similar", ["auto", None])
def test_result_is_that_of_the_plain_call_and_of_a_second_one(make_auto, X, tmp_path, small_blocks, kind, similar):
    g = make_auto(similar=similar, kernel="weg").fit(X)
    plain = g.explain(X[:30], attribution=kind)
    first = g.explain(X[:30], attribution=kind, checkpoint=tmp_path / "kept")
    second = g.explain(X[:30], attribution=kind, checkpoint=tmp_path / "kept")
    same(plain, first)
    same(plain, second)
    assert first.diagnostics["rows_resumed"] == {}
    assert set(second.diagnostics["rows_resumed"].values()) == {30}


def test_what_was_explained_is_not_explained_again(make_auto, X, tmp_path, small_blocks):
    seen = []

    def explainer(rows):
        seen.extend(map(bytes, np.ascontiguousarray(rows)))
        if len(seen) > fail_after:
            raise RuntimeError("the machine is gone")
        return slopes(rows)

    fail_after = np.inf
    g = make_auto(explainer=explainer, kernel="weg").fit(X)
    plain = g.explain(X[:40])
    seen.clear()
    fail_after = 20
    with pytest.raises(gpec.errors.ExplainerError, match="the machine is gone"):
        g.explain(X[:40], checkpoint=tmp_path / "kept")
    fail_after = np.inf
    seen.clear()
    again = g.explain(X[:40], checkpoint=tmp_path / "kept")
    same(plain, again)
    assert again.diagnostics["rows_resumed"]["explainer 0"] == 14  # two blocks of seven; the third failed
    assert len(seen) == 26


def test_model_fails_at_every_call_and_the_next_run_goes_on(make_auto, counting, X, tmp_path, small_blocks):
    g = make_auto(explainer=KernelShap(), kernel="weg").fit(X)
    plain = g.explain(X[:15])
    g.save(tmp_path / "g.gpec")

    def loaded(model):
        return gpec.GPEC.load(tmp_path / "g.gpec", model=model, explainer=KernelShap())

    def breaks(call, rows):
        if call >= fatal:
            raise ConnectionError("no answer")

    model, fatal = counting(curved, before=breaks), np.inf
    asked = loaded(model)
    before = model.n_calls
    asked.explain(X[:15], checkpoint=tmp_path / "whole")
    assert 4 <= model.n_calls - before < 30
    for fatal in range(before + 1, model.n_calls + 1):
        model.n_calls = 0
        with pytest.raises(ModelCallError, match="no answer"):
            loaded(model).explain(X[:15], checkpoint=tmp_path / f"kept {fatal}")
        last = loaded(curved).explain(X[:15], checkpoint=tmp_path / f"kept {fatal}")
        same(plain, last)
    assert last.diagnostics["rows_resumed"]["explainer 0"] == 15


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_other_threads_go_on_with_it(make_auto, X, tmp_path, small_blocks, n_jobs):
    g = make_auto(explainer=KernelShap(), kernel="weg").fit(X)
    plain = g.explain(X[:30], checkpoint=tmp_path / "kept")
    for path in list(tmp_path.glob("kept/blocks-similar*")):
        path.unlink()
    same(plain, g.set_params(n_jobs=n_jobs).explain(X[:30], checkpoint=tmp_path / "kept"))


def test_a_loaded_and_a_calibrated_fit_go_on_with_it(make_auto, X, tmp_path):
    g = make_auto().fit(X[:80])
    g.explain(X[:10], attribution="posterior", checkpoint=tmp_path / "kept")
    g.save(tmp_path / "g.gpec")
    again = gpec.GPEC.load(tmp_path / "g.gpec", model=curved, explainer=slopes)
    same(g.explain(X[:10], attribution="posterior"), again.explain(X[:10], attribution="posterior"))
    e = again.calibrate(X[80:]).explain(X[:10], attribution="posterior", checkpoint=tmp_path / "kept")
    assert e.diagnostics["rows_resumed"] == {"posterior": 10}
    assert "Checked on 40 rows not used in fitting" in e.statement()


class TestOtherWork:
    @pytest.fixture
    def g(self, make_auto, X):
        return make_auto(kernel="weg").fit(X)

    @pytest.fixture
    def kept(self, g, X, tmp_path):
        g.explain(X[:5], checkpoint=tmp_path / "kept")
        return tmp_path / "kept"

    def test_other_rows(self, g, X, kept):
        with pytest.raises(CheckpointError, match="differs in the rows; give another folder"):
            g.explain(X[1:6], checkpoint=kept)

    def test_other_kind(self, g, X, kept):
        with pytest.raises(CheckpointError, match="differs in the kind of attribution"):
            g.explain(X[:5], attribution="posterior", checkpoint=kept)

    def test_other_fit(self, make_auto, X, kept):
        with pytest.raises(CheckpointError, match="differs in the fit"):
            make_auto(kernel="weg", n_explained=20).fit(X).explain(X[:5], checkpoint=kept)

    def test_the_same_fit_again(self, make_auto, X, kept):
        e = make_auto(kernel="weg", n_jobs=2).fit(X).explain(X[:5], checkpoint=kept)
        assert set(e.diagnostics["rows_resumed"].values()) == {5}

    def test_model_that_has_changed(self, make_auto, counting, X, tmp_path):
        model = counting(curved)
        g = make_auto(model, kernel="weg").fit(X)
        model.function = lambda rows: 1 - curved(rows)
        with pytest.raises(ModelMismatchError, match=r"^The model is not the one that was fitted"):
            g.explain(X[:5], checkpoint=tmp_path / "kept")

    def test_folder_of_something_else(self, g, X, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(CheckpointError, match="holds files that gpec did not write"):
            g.explain(X[:5], checkpoint=tmp_path)

    def test_a_file(self, g, X, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="is a file; give a folder"):
            g.explain(X[:5], checkpoint=tmp_path / "file")

    def test_no_folder_around_it(self, g, X, tmp_path):
        with pytest.raises(InputError, match="nowhere does not exist"):
            g.explain(X[:5], checkpoint=tmp_path / "nowhere" / "kept")

    def test_damaged_block(self, g, X, kept):
        path = next(kept.glob("blocks-*"))
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(CorruptFileError, match="damaged"):
            g.explain(X[:5], checkpoint=kept)

    def test_garbled_block(self, g, X, kept):
        write_tree(next(kept.glob("blocks-*")), "Blocks", {"blocks": [{"stage": "posterior"}]})
        with pytest.raises(CorruptFileError, match="missing or damaged part"):
            g.explain(X[:5], checkpoint=kept)


SCRIPT = """
import os, signal, sys
import numpy as np
import gpec, gpec.runtime.checkpoint
from small_models import curved, slopes
from gpec.explainers.adapters import CallableExplainer

CallableExplainer.rows_at_once = 3
gpec.runtime.checkpoint._SECONDS = 0.0
count = dict.fromkeys(["explained", "written"], 0)

def dies(moment):
    count[moment] += 1
    if sys.argv[4:] == [moment, str(count[moment])]:
        os.kill(os.getpid(), signal.SIGKILL)

def explainer(rows):
    dies("explained")
    return slopes(rows)

replace = os.replace
os.replace = lambda *paths: (dies("written"), replace(*paths))
X = np.random.default_rng(0).normal(size=(120, 3))
g = gpec.GPEC.load(sys.argv[1], model=curved, explainer=explainer)
g.explain(X[:60], checkpoint=sys.argv[2]).save(sys.argv[3])
"""


def test_killed_it_ends_with_the_same_bits(make_auto, X, tmp_path):
    g = make_auto(kernel="weg").fit(X)
    g.save(tmp_path / "g.gpec")
    command = [sys.executable, "-c", SCRIPT, tmp_path / "g.gpec", tmp_path / "kept", tmp_path / "e.gpec"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    for moment in (["explained", "6"], ["written", "4"], []):
        done = subprocess.run([*command, *moment], env=environment, check=False)  # noqa: S603
        assert done.returncode == (-signal.SIGKILL if moment else 0)
    again, plain = gpec.Explanation.load(tmp_path / "e.gpec"), g.explain(X[:60])
    same(plain, again)
    assert again.diagnostics["rows_resumed"]["explainer 0"] == 3 * (5 + 3)


def test_another_explainer_is_other_work(make_auto, X, tmp_path):
    """Objects are in no file, so the fit alone does not tell."""
    make_auto(explainer="kernelshap").fit(X).save(tmp_path / "g.gpec")

    def loaded(**objects):
        return gpec.GPEC.load(tmp_path / "g.gpec", model=curved, **objects)

    loaded(explainer=ShapleySampling(2)).explain(X[:4], checkpoint=tmp_path / "kept")
    for explainer in (ShapleySampling(3), KernelShap()):
        with pytest.raises(CheckpointError, match="differs in the explainer;"):
            loaded(explainer=explainer).explain(X[:4], checkpoint=tmp_path / "kept")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_what_cannot_be_a_name(make_auto, X, tmp_path, name):
    g = make_auto().fit(X)
    with pytest.raises(InputError, match="cannot be the name of a folder"):
        g.explain(X[:4], checkpoint=tmp_path / name)


def test_an_explainer_that_had_learned_nothing(make_auto, X, tmp_path):
    make_auto(explainer="kernelshap").fit(X).save(tmp_path / "g.gpec")
    g = gpec.GPEC.load(tmp_path / "g.gpec", model=curved, explainer="lime")
    for _ in range(2):
        with pytest.raises(
            InputError, match="The explainer Lime learns from the rows of fit, and the fit was made with"
        ):
            g.explain(X[:4])
