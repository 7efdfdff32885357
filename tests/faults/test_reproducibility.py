"""Same seed, same bits; nobody else's arrays or generators are touched; batches do not matter."""

import importlib.util
import random
import runpy
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import shap
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier

from extras import torch
from gpec.boundary import BisectionSampler
from gpec.explainers import KernelShap, ShapleySampling
from gpec.kernels import EG, RBF, WEG

PARTS = ("values", "model_variance", "noise_variance", "lower", "upper")


def bits(e):
    return {name: getattr(e, name).tobytes() for name in PARTS}


def assert_same_bits(a, b):
    for name in PARTS:
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name


# 12. A fresh process, any number of jobs

PROGRAM = """
import hashlib, sys, warnings
import numpy as np, pandas as pd
from sklearn.ensemble import RandomForestClassifier
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import shap
import gpec
from gpec.pipeline import explain as _explaining
from gpec.explainers import ShapleySampling
from gpec.kernels import RBF, WEG

X = np.random.default_rng(0).normal(size=(150, 3))

def curved(X):
    return 1 / (1 + np.exp(-X[:, 0] + 2 * X[:, 1] - 0.3 * X[:, 2] ** 2))

def three(X):
    scores = np.exp(np.column_stack((2 * X[:, 0], 2 * X[:, 1], -X[:, 0] - X[:, 1])))
    return scores / scores.sum(axis=1, keepdims=True)

def run(model, explainer, rows, n_jobs, **settings):
    settings = {"n_boundary": 60, "n_explained": 12, "background": 6, "random_state": 7, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gpec.errors.StochasticExplainerWarning)
        warnings.simplefilter("ignore", gpec.errors.FewBoundaryPointsWarning)
        g = gpec.GPEC(model, explainer, n_jobs=n_jobs, progress=False, **settings).fit(rows)
    total = hashlib.sha256()
    for e in (g.explain(rows[:30]), g.explain(rows, attribution="posterior")):
        for part in (e.values, e.variance, e.noise_variance, e.lower):
            total.update(np.ascontiguousarray(part).tobytes())
    total.update(g.boundary_.points.tobytes())
    return total.hexdigest()

def digests(n_jobs):
    before, _explaining._BLOCK = _explaining._BLOCK, 16  # several blocks, so that jobs have something to do
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(c=np.where(X[:, 2] > 0, "u", "v"))
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, curved(X) > 0.5)
    try:
        return [
            run(curved, lambda X: X, X, n_jobs),
            run(curved, ShapleySampling(2), X, n_jobs, n_explained=5),
            run(curved, ShapleySampling(2), X, n_jobs, n_explained=4, noise="resample", n_resamples=3),
            run(three, lambda X: np.stack((X, X**2, -X), -1), X, n_jobs, kernel=0.5 * WEG() + RBF()),
            run(forest, "tree", X, n_jobs, boundary=gpec.boundary.BisectionSampler(pairing="random")),
            run(curved, shap.SamplingExplainer(curved, X[:3]), X, n_jobs, n_explained=4),
            run(lambda f: curved(np.column_stack((f["a"], f["b"], f["c"] == "u"))),
                lambda f: np.column_stack((f["a"], f["b"], f["a"])), frame, n_jobs),
            run(curved, lambda X: (X, 0.1 + X**2), X, n_jobs, n_landmarks=20, **gpec.PAPER | {"noise": "auto"}),
        ]
    finally:
        _explaining._BLOCK = before

if __name__ == "__main__":
    print("\\n".join(digests(int(sys.argv[1]))))
"""


def test_same_bits_in_a_fresh_process_and_with_any_number_of_jobs(tmp_path, one_process_environment):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    digests = runpy.run_path(str(path))["digests"]
    here = digests(1)
    assert len(set(here)) == len(here)
    assert digests(1) == here
    assert digests(2) == here
    command = [sys.executable, "-W", "ignore", str(path), "2"]
    fresh = subprocess.run(  # noqa: S603  our own program
        command, capture_output=True, text=True, env=one_process_environment, cwd=tmp_path, timeout=120, check=False
    )
    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout.split() == here


LARGE = """
import hashlib
import numpy as np
import gpec

X = np.random.default_rng(0).normal(size=(2_000, 5))
small = {"n_boundary": 1_500, "background": 8, "random_state": 0, "progress": False}
model, explainer = lambda X: 1 / (1 + np.exp(-X[:, 0] * X[:, 1])), lambda X: np.sin(X) * X[:, ::-1]
for more in ({"n_explained": 400}, {"n_explained": 150, "kernel": "weg"}):
    g = gpec.GPEC(model, explainer, **small, **more).fit(X)
    e = g.explain(X[:40], attribution="posterior")
    for part in (g.boundary_.points, e.values, e.variance, e.upper):
        print(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest())
"""


def test_bits_do_not_depend_on_the_threads_of_others(one_process_environment):
    """Matrices that are large enough for BLAS to share them out."""
    found = [
        subprocess.run(  # noqa: S603  our own program
            [sys.executable, "-W", "ignore", "-c", LARGE],
            capture_output=True,
            text=True,
            env={**one_process_environment, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            timeout=120,
            check=True,
        ).stdout.split()
        for threads in ("1", "2")
    ]
    assert len(found[0]) == 8
    assert found[0] == found[1]


def test_fitting_again_gives_the_same_bits(make, X):
    g = make()
    first = g.fit(X).explain(X[:5])
    assert_same_bits(g.fit(X).explain(X[:5]), first)  # much of it kept
    assert_same_bits(clone(g).fit(X).explain(X[:5]), first)  # all of it done again


def test_explaining_again_gives_the_same_bits(make, X):
    g = make(explainer=ShapleySampling(2), n_explained=4, noise="resample", n_resamples=3).fit(X)
    first = g.explain(X[:3])
    g.explain(X[5:9])
    assert_same_bits(g.explain(X[:3]), first)


# 13. The global generators


TORCH = importlib.util.find_spec("torch") is not None


def states():
    return (
        random.getstate(),
        np.random.get_state()[1].tobytes(),
        np.random.get_state()[2:],
        TORCH and torch.random.get_rng_state().numpy().tobytes(),
    )


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    if TORCH:
        torch.manual_seed(seed)


@pytest.fixture(params=["callable", "kernelshap", "sampled", "resampled", "shap object", "tree", "torch", "box"])
def estimator(request, make, models, X):
    """GPECs of every kind of explainer that could draw numbers."""
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, models.curved(X) > 0.5)
    if request.param == "torch":
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
        return make(net.train(), n_boundary=30)
    parameters = {
        "callable": {},
        "kernelshap": {"explainer": "kernelshap"},
        "sampled": {"explainer": ShapleySampling(2), "noise": "none"},
        "resampled": {"explainer": ShapleySampling(2), "noise": "resample", "n_resamples": 2},
        "shap object": {"explainer": shap.SamplingExplainer(models.curved, X[:3]), "noise": "none"},
        "tree": {"model": forest, "explainer": "tree"},
        "box": {"boundary": BisectionSampler(rows="box", pairing="random")},
    }[request.param]
    return make(**{"n_explained": 4, "n_boundary": 30, "n_landmarks": 10, **parameters})


def test_global_generators_are_not_changed(estimator, X):
    seed_everything(3)
    before = states()
    estimator.fit(X)
    assert states() == before
    estimator.explain(X[:3])
    assert states() == before


def test_global_generators_are_not_read(estimator, X):
    seed_everything(3)
    first = estimator.fit(X).explain(X[:3])
    seed_everything(4)
    twin = clone(estimator)  # the same one would keep what it has
    assert_same_bits(twin.fit(X).explain(X[:3]), first)
    seed_everything(5)
    assert_same_bits(estimator.explain(X[:3]), first)


def test_callers_generator_moves_on(make, X):
    """A Generator handed over is used, so that two fits from one differ."""
    rng = np.random.default_rng(0)
    a, b = (make(random_state=rng).fit(X) for _ in range(2))
    assert a.diagnostics_["seed"] != b.diagnostics_["seed"]


# 14. Batches and order


BATCHES = {
    "weg": {},
    "noise": {"noise": 0.01},
    "varying noise": {"explainer": lambda X: (np.asarray(X) * 2.0, 0.1 + np.asarray(X) ** 2)},
    "paper": {"output_scale": 1.0, "lam": 1.0, "rho": 0.1, "noise": 1e-4, "standardize": False},
    "no noise": {"output_scale": 1.0, "noise": "none"},
    "sharp": {"rho": 1e4},
    "rbf": {"kernel": "rbf"},
    "eg": {"kernel": EG()},
    "composed": {"kernel": 0.5 * WEG(normalize=False) + RBF() * WEG()},
    "landmarks": {"n_landmarks": 15},
    "kernelshap": {"explainer": "kernelshap", "n_explained": 6},
    "sampled": {"explainer": ShapleySampling(2), "noise": "none", "n_explained": 6},
    "resampled": {"explainer": ShapleySampling(2), "noise": "resample", "n_resamples": 3, "n_explained": 6},
}


def assert_close(a, b, posterior):
    # The mean is a sum of large numbers of both signs where the kernel matrix is badly conditioned.
    tolerance = max(1e-10, 1e-16 * posterior.condition)
    np.testing.assert_allclose(a.values, b.values, rtol=0, atol=tolerance * max(1.0, np.abs(b.values).max()))
    for name in ("model_variance", "noise_variance"):
        # in units of k(x, x), which is what a variance is a small difference of
        np.testing.assert_allclose(
            getattr(a, name) / posterior.scale, getattr(b, name) / posterior.scale, rtol=0, atol=1e-10
        )


@pytest.mark.parametrize("case", BATCHES)
def test_batches_and_order_do_not_matter(make, X, case):
    g = make(**BATCHES[case]).fit(X)
    rows = X[:12]
    for attribution in ("explainer", "posterior"):
        together = g.explain(rows, attribution=attribution)
        order = np.random.default_rng(0).permutation(12)
        mixed_up = g.explain(rows[order], attribution=attribution)
        assert_close(mixed_up, together[order], g.posterior_)
        for i in range(12 if attribution == "posterior" else 4):
            assert_close(g.explain(rows[i : i + 1], attribution=attribution), together[[i]], g.posterior_)
        twice = g.explain(np.concatenate((rows, rows)), attribution=attribution)
        assert_close(twice[:12], together, g.posterior_)
        assert_close(twice[12:], together, g.posterior_)


def test_batches_of_several_classes(make, models, X):
    g = make(models.three_classes, models.slopes_of_three).fit(X)
    together = g.explain(X[:6])
    for i in range(6):
        alone = g.explain(X[i : i + 1])
        for c in range(3):
            assert_close(alone[:, :, c], together[[i], :, c], g.posterior_[c])


def test_batches_of_a_mixed_frame(make, mixed):
    g = make(mixed.model, KernelShap(24), n_explained=3, noise="none").fit(mixed.frame)
    together = g.explain(mixed.frame[:4])
    assert_close(g.explain(mixed.frame[:4][::-1]), together[::-1], g.posterior_)
    for i in range(2):
        assert_close(g.explain(mixed.frame[i : i + 1]), together[[i]], g.posterior_)


# 10. The caller's arrays


def everything(X, models):
    """One of each array that can be handed over."""
    few = X[:20].copy()
    return {
        "X": X.copy(),
        "X_explained": few,
        "attributions": models.slopes(few),
        "attribution_variance": 0.1 + few**2,
        "background": X[30:40].copy(),
        "boundary": np.column_stack((np.linspace(-2, 2, 40), np.linspace(-1, 1, 40) ** 2, np.linspace(1, -1, 40))),
        "queries": X[50:60].copy(),
    }


def use(make, models, given, **more):
    fit = {name: given[name] for name in ("X_explained", "attributions", "attribution_variance")}
    g = make(background=given["background"], boundary=given["boundary"], explainer="kernelshap", **more)
    g.fit(given["X"], **fit)
    return g, [g.explain(given["queries"][:3]), g(given["queries"], attribution="posterior")]


def test_callers_arrays_stay_as_they_were(make, models, X):
    given = everything(X, models)
    before = {name: array.tobytes() for name, array in given.items()}
    g, _ = use(make, models, given)
    for name, array in given.items():
        assert array.tobytes() == before[name], name
        assert array.flags.writeable
    # and what was kept is not theirs
    expected = g.explain(X[:3])
    for array in given.values():
        array[:] = -7.0
    assert_same_bits(g.explain(X[:3]), expected)
    for name, kept in {
        "boundary": g.boundary_.points,
        "X_explained": g.X_explained_,
        "attributions": g.attributions_.values,
        "attribution_variance": g.attributions_.variance,
    }.items():
        assert kept.tobytes() == before[name], name


def test_callers_noise_stays_as_it_was(make, X):
    noise = np.full((25, 3), 0.1)
    make(noise=noise).fit(X).explain(X[:3])
    assert (noise == 0.1).all()


def test_callers_frames_stay_as_they_were(make, mixed):
    frame, queries = mixed.frame.copy(), mixed.frame[:5].copy()
    g = make(mixed.model, lambda frame: np.zeros(frame.shape), background=frame[5:9]).fit(frame, X_explained=frame[:9])
    g.explain(queries)
    pd.testing.assert_frame_equal(frame, mixed.frame)
    pd.testing.assert_frame_equal(queries, mixed.frame[:5])
    g.X_explained_.loc[:, "price"] = 0.0
    pd.testing.assert_frame_equal(frame, mixed.frame)


def test_explanation_does_not_share_the_callers_rows(make, X):
    rows = X[:4].copy()
    e = make().fit(X).explain(rows)
    rows[:] = 9.0
    np.testing.assert_array_equal(e.data, X[:4])


@pytest.mark.parametrize("how", ["memmap", "read-only"])
def test_arrays_that_cannot_be_written(make, models, X, tmp_path, how):
    given = everything(X, models)
    expected = use(make, models, given)[1]
    locked = {}
    for name, array in given.items():
        if how == "memmap":
            np.save(tmp_path / f"{name}.npy", array)
            locked[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        else:
            locked[name] = array.copy()
            locked[name].setflags(write=False)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for a, b in zip(use(make, models, locked)[1], expected, strict=True):
        assert_same_bits(a, b)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


# 11. float32


@pytest.mark.parametrize("kind", [np.float16, np.float32, "frame"])
def test_float32_gives_the_answer_of_its_float64_copy(make, models, X, kind):
    given = everything(X, models)
    if kind == "frame":
        rows = {"X", "X_explained", "background", "queries"}
        small = {
            name: pd.DataFrame(array.astype(np.float32), columns=["a", "b", "c"])
            if name in rows
            else array.astype(np.float32)
            for name, array in given.items()
        }
        large = {name: value.astype(np.float64) for name, value in small.items()}
    else:
        small = {name: array.astype(kind) for name, array in given.items()}
        large = {name: array.astype(np.float64) for name, array in small.items()}
    for a, b in zip(use(make, models, small)[1], use(make, models, large)[1], strict=True):
        assert_same_bits(a, b)
        assert a.values.dtype == np.float64


def test_float32_model(make, models, X):
    """A model that answers in single precision."""

    def model(X):
        return models.curved(X).astype(np.float32)

    e = make(model).fit(X.astype(np.float32)).explain(X[:5].astype(np.float32))
    f = make(model).fit(X.astype(np.float32).astype(float)).explain(X[:5].astype(np.float32).astype(float))
    assert bits(e) == bits(f)


@pytest.mark.parametrize("case", ["auto", "weg", "three"])
@pytest.mark.parametrize("attribution", ["explainer", "posterior"])
def test_the_bits_of_a_row_do_not_depend_on_its_batch(make_auto, models, X, case, attribution):
    """So the parts of a table, explained on several machines, are what the whole table would be."""
    of_three = {"model": models.three_classes, "explainer": models.slopes_of_three}
    g = make_auto(**{"auto": {}, "weg": {"kernel": "weg"}, "three": of_three}[case]).fit(X)
    whole = g.explain(X, attribution=attribution)
    for size in (1, 7, 33):
        for start in range(0, 3 * size, size):
            part = slice(start, start + size)
            assert_same_bits(g.explain(X[part], attribution=attribution), whole[part])
