"""Work that another process does, and may be killed at."""

import time
from pathlib import Path
from unittest import mock

import numpy as np

import gpec
from archive_helpers import bits, digest
from gpec.explainers import KernelShap
from small_models import curved, three_classes

X = np.random.default_rng(0).normal(size=(120, 3))
CASES = ("fit", "explain")


def slowly(function):
    """A model of which each call takes some time, so that no stage is over in no time."""

    def model(rows):
        time.sleep(0.004)
        return function(rows)

    return model


def build(several, **parameters):
    model = slowly(three_classes if several else curved)
    small = {"n_boundary": 60, "n_explained": 20, "background": 10, "random_state": 0, "progress": False}
    return gpec.GPEC(model, "kernelshap", **{**small, **parameters})


def work(case, several, n_jobs, folder, out):
    """Do it, and write down what a digest says of the result."""
    KernelShap.rows_at_once = 2
    with mock.patch("gpec.runtime.checkpoint._SECONDS", 0.02):
        found = digest_of(case, several, n_jobs, folder, out)
    Path(out).write_text(found)


def digest_of(case, several, n_jobs, folder, out):
    g = build(several, n_jobs=n_jobs)
    if case == "fit":
        return bits(g.fit(X, checkpoint=folder))
    fitted = Path(out).with_name(f"fitted {several}.gpec")
    if not fitted.exists():
        g.fit(X).save(fitted)
    g = gpec.GPEC.load(fitted, model=g.model).set_params(n_jobs=n_jobs)
    e = g.explain(X[:60], checkpoint=folder)
    names = ("values", "model_variance", "noise_variance", "lower", "upper")
    return digest([getattr(e, name) for name in names])
