"""A committed fit of the paper's settings that no change may move.

``paper_fit.json`` holds the rows and what ``GPEC(**PAPER)`` found for them. It is written by ``python
tests/estimator/test_paper_guard.py``, and only if the paper itself was read wrongly before.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import gpec
from small_models import slopes_of_three, three_classes

HERE = Path(__file__).with_name("paper_fit.json")
SMALL = {**gpec.PAPER, "n_boundary": 60, "n_explained": 20, "random_state": 0, "progress": False}


def risk(X):
    """Two islands of the positive class, so that the boundary has two components."""
    X = np.asarray(X, dtype=np.float64)
    islands = np.exp(-((X[:, 0] - 2) ** 2) - X[:, 1] ** 2) + np.exp(-((X[:, 0] + 2) ** 2) - (X[:, 1] - 1) ** 2)
    return 1 / (1 + np.exp(-8 * (islands - 0.4) - 0.5 * np.tanh(X[:, 2])))


CASES = {
    "two classes, kernelshap": (risk, {"explainer": "kernelshap", "background": 15}),
    "noise of the explainer": (risk, {"explainer": "bayesshap", "noise": "auto", "background": 15}),
    "three classes": (three_classes, {"explainer": slopes_of_three}),
}


def found(case, X):
    model, settings = CASES[case]
    g = gpec.GPEC(model, **{**SMALL, **settings}).fit(X)
    e = g.explain(X[:8], attribution="posterior")
    kernels = g.kernel_ if isinstance(g.kernel_, tuple) else (g.kernel_,)
    arrays = {
        "boundary": g.boundary_.points,
        "explained": g.X_explained_,
        "attributions": g.attributions_.values,
        "kernel": np.stack([kernel.gram(X[:10]) for kernel in kernels]),
        "mean": e.values,
        "boundary variance": e.model_variance,
        "noise variance": e.noise_variance,
    }
    return {name: np.asarray(array).tolist() for name, array in arrays.items()}


@pytest.mark.parametrize("case", CASES)
def test_the_paper_s_fit_stays_as_it_is(case):
    kept = json.loads(HERE.read_text())
    now = found(case, np.array(kept["X"]))
    assert now.keys() == kept[case].keys()
    for name, expected in kept[case].items():
        # variances are differences of numbers near 1: another BLAS moves them by some 1e-14
        atol = 1e-12 if "variance" in name else 1e-9 * np.abs(expected).max()
        np.testing.assert_allclose(now[name], expected, rtol=1e-9, atol=atol, err_msg=name)


def main():
    X = np.random.default_rng(0).normal(size=(120, 3)).round(3) * [2, 1.5, 1]
    HERE.write_text(json.dumps({"X": X.tolist(), **{case: found(case, X) for case in CASES}}, indent=None) + "\n")


if __name__ == "__main__":
    main()
