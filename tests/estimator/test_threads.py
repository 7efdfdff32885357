"""The model is called by several threads at once: by blocks of one call, and by calls of different objects."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gpec
from gpec.kernels import RBF


class Crowd:
    """A model that notes how many callers are inside at once; each stays for a while for ``pause`` seconds."""

    def __init__(self, function):
        self.function, self.pause = function, 0.0
        self._lock, self._inside, self.most = Lock(), 0, 0

    def __call__(self, X):
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        time.sleep(self.pause)
        with self._lock:
            self._inside -= 1
        return self.function(X)


KINDS = pytest.mark.parametrize("kind", [{}, {"model_output": "value"}], ids=["classifier", "regressor"])


@KINDS
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_blocks_ask_at_once(make_auto, models, X, monkeypatch, kind, attribution):
    """Kernels ask for similar rows and, of a regressor, for exchanged features, each block for its own."""
    monkeypatch.setattr("gpec.pipeline.prediction._BLOCK", 16)
    monkeypatch.setattr("gpec.pipeline.explain._BLOCK", 16)
    monkeypatch.setattr("gpec.models.model._BATCH_ROWS", 16)
    model = Crowd(models.curved)
    g = make_auto(model, **kind).fit(X)
    assert model.most == 1
    model.pause = 0.05
    before = g._fitted.context.model.n_rows
    alone = g.explain(X[:64], attribution=attribution)
    assert model.most == 1
    asked = g._fitted.context.model.n_rows - before
    together = g.set_params(n_jobs=2).explain(X[:64], attribution=attribution)
    assert model.most == 2
    assert g._fitted.context.model.n_rows == before + 2 * asked
    np.testing.assert_array_equal(together.upper, alone.upper)


@KINDS
def test_fit_asks_on_its_threads(make_auto, models, X, monkeypatch, kind):
    monkeypatch.setattr("gpec.models.model._BATCH_ROWS", 8)
    found = {}
    for n_jobs in (1, 3):
        model = Crowd(models.curved)
        model.pause = 0.002
        g = make_auto(model, n_jobs=n_jobs, **kind).fit(X)
        assert (model.most > 1) == (n_jobs > 1)
        found[n_jobs] = g.diagnostics_["model_rows"], g.diagnostics_["model_calls"], g.explain(X[:9]).upper
    assert found[1][:2] == found[3][:2]
    np.testing.assert_array_equal(found[1][2], found[3][2])


def test_kernel_matrices_of_two_fits_are_made_at_once(make, X):
    """Each needs the other to have begun."""
    both = Barrier(2)

    class Meeting(RBF):
        def cross_to(self, Y, feature=None):
            both.wait(20)
            return super().cross_to(Y, feature)

    with ThreadPoolExecutor(2) as pool:
        fits = list(pool.map(lambda seed: make(kernel=Meeting(1.0), random_state=seed).fit(X), (0, 1)))
    for g, plain in zip(fits, (make(kernel=RBF(1.0), random_state=seed).fit(X) for seed in (0, 1)), strict=True):
        np.testing.assert_array_equal(g.posterior_.parameters.scale, plain.posterior_.parameters.scale)


def test_answers_to_explained_rows_have_the_bits_of_one_blas_thread(make_auto, models, X, tmp_path):
    """As they have when a file is loaded."""
    seen = []

    def model(Z):
        if np.shape(Z) == (25, 3):
            seen.append({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})
        return models.curved(Z)

    with threadpool_limits(2, user_api="blas"):
        g = make_auto(model, "exact").fit(X)
        asked = len(seen)
        g.save(tmp_path / "g")
        gpec.GPEC.load(tmp_path / "g", model=model)
    assert 0 < asked < len(seen)
    assert all(threads == {1} for threads in seen)


@KINDS
def test_two_gpecs_do_not_wait_for_each_other(make_auto, models, X, kind):
    asked, go_on, patient = Event(), Event(), []

    def waiting(Z):
        if patient:
            asked.set()
            assert go_on.wait(60)
        return models.curved(Z)

    one, other = make_auto(waiting, **kind).fit(X), make_auto(**kind).fit(X)
    patient.append(True)
    threads = [Thread(target=g.explain, args=(X[:20],), daemon=True) for g in (one, other)]
    threads[0].start()
    assert asked.wait(60)
    threads[1].start()
    threads[1].join(20)
    done = not threads[1].is_alive()
    assert threads[0].is_alive()
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert done
