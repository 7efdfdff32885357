"""Peak memory, and the time of many rows; each measurement in a process of its own."""

import time
from pathlib import Path

import numpy as np

from benchmarks.growth import apart


def peak():
    """Largest resident memory of this process so far, in GB (ru_maxrss would count the parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024**2


def fit_memory(J):
    """Peak memory of a whole fit."""
    import gpec
    from benchmarks import census

    model, X = census.model_and_rows()
    before = peak()
    attributions = np.random.default_rng(0).standard_normal((200, X.shape[1]))
    started = time.perf_counter()
    g = gpec.GPEC(model, None, kernel="weg", n_boundary=J, random_state=0, progress=False)
    g.fit(X, X_explained=X[:200], attributions=attributions)
    return {"before": before, "peak": peak(), "seconds": time.perf_counter() - started}


def million():
    """Memory of a million rows explained, above input and result."""
    from benchmarks.inference import fitted

    g, X, rng = fitted(J=2_000, L=1_000)
    rows = X[rng.integers(len(X), size=1_000_000)]
    before = peak()
    started = time.perf_counter()
    e = g.explain(rows, attribution="posterior")
    seconds = time.perf_counter() - started
    result = (e.values.nbytes + e.model_variance.nbytes + e.noise_variance.nbytes) / 1024**3
    return {"above": peak() - before - result, "result": result, "input": rows.nbytes / 1024**3, "seconds": seconds}


def many_explained():
    """Conditioning on 20,000 explained rows through the low-rank path."""
    import gpec
    from benchmarks import census

    model, X = census.model_and_rows()
    rng = np.random.default_rng(0)
    rows = X[rng.permutation(len(X))[:20_000]]
    attributions = rng.standard_normal((20_000, X.shape[1]))
    g = gpec.GPEC(model, None, kernel="weg", similar=None, random_state=0, progress=False)
    g.fit(X, X_explained=rows, attributions=attributions)
    return {
        "seconds": g.diagnostics_["seconds"]["gp"],
        "rank": g.posterior_.n_pivots,
        "residual": g.posterior_.residual,
    }


def run():
    return {
        "fit": apart("memory", "fit_memory(50_000)"),
        "million": apart("memory", "million()"),
        "many": apart("memory", "many_explained()"),
    }


def report(x):
    return [
        "| what | measured | target |",
        "|---|---|---|",
        f"| peak memory of `fit`, J = 50,000, D = 12 (before it {x['fit']['before']:.2f} GB) | "
        f"**{x['fit']['peak']:.2f} GB**, {x['fit']['seconds']:.0f} s | 3 GB |",
        f'| 1,000,000 rows explained (`attribution="posterior"`), memory above input and result | '
        f"**{x['million']['above']:.2f} GB**, {x['million']['seconds']:.0f} s | 1 GB |",
        f"| conditioning on 20,000 explained rows, 12 features (rank {x['many']['rank']}, residual "
        f"{x['many']['residual']:.1e}) | **{x['many']['seconds']:.1f} s** | seconds |",
    ]
