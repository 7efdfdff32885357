"""Work that another process does, and may be killed at."""

import time
from pathlib import Path

import numpy as np

import gpec
from gpec.explainers import KernelShap
from gpec.runtime import checkpoint as _checkpoint
from gpec.runtime.fingerprint import fingerprint
from gpec.runtime.state import to_state
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
    _checkpoint._SECONDS = 0.02
    g = build(several, n_jobs=n_jobs)
    if case == "fit":
        state = to_state(g.fit(X, checkpoint=folder)._fitted.saved())
        state = {**state, "settings": {**state["settings"], "n_jobs": None}}
    else:
        fitted = Path(out).with_name(f"fitted {several}.gpec")
        if not fitted.exists():
            g.fit(X).save(fitted)
        g = gpec.GPEC.load(fitted, model=g.model).set_params(n_jobs=n_jobs)
        e = g.explain(X[:60], checkpoint=folder)
        state = {name: getattr(e, name) for name in ("values", "boundary_variance", "noise_variance", "lower", "upper")}
    Path(out).write_text(fingerprint(state))
