"""How time and memory grow; each measurement in a process of its own, so that peak memory is its own."""

import json
import resource
import subprocess
import sys
import time

import numpy as np


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2  # GB


def geometry(J, neighbors):
    """Seconds from boundary points to the fitted kernel, and peak memory."""
    from benchmarks import census
    from gpec.boundary import BisectionSampler
    from gpec.geometry import GeodesicGraph
    from gpec.geometry.neighbors import approximate_neighbors, exact_neighbors
    from gpec.kernels import WEG

    model, X = census.model_and_rows()
    sample = BisectionSampler().sample(model, X, J, random_state=0, progress=False)
    points, rows = (sample.points - X.mean(axis=0)) / X.std(axis=0), (X[:100] - X.mean(axis=0)) / X.std(axis=0)
    best = np.inf
    for _ in range(2):
        started = time.perf_counter()
        graph = GeodesicGraph.build(points, n_landmarks=1_000, neighbors=neighbors)
        WEG().fit(graph, rows).gram(rows)
        best = min(best, time.perf_counter() - started)
    recall = None
    if neighbors == "approximate":
        exact, found = exact_neighbors(points, 10)[0], approximate_neighbors(points, 10, np.random.default_rng(0))[0]
        recall = float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(exact, found, strict=True)]))
    return {"J": len(graph), "seconds": best, "recall": recall}


def fit_memory(J):
    """Peak memory of a whole fit."""
    import gpec
    from benchmarks import census

    model, X = census.model_and_rows()
    before = peak()
    attributions = np.random.default_rng(0).standard_normal((200, X.shape[1]))
    started = time.perf_counter()
    gpec.GPEC(model, None, n_boundary=J, random_state=0, progress=False).fit(
        X, X_explained=X[:200], attributions=attributions
    )
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
    result = (e.values.nbytes + e.boundary_variance.nbytes + e.noise_variance.nbytes) / 1024**3
    return {"above": peak() - before - result, "result": result, "input": rows.nbytes / 1024**3, "seconds": seconds}


def many_explained():
    """Conditioning on 20,000 explained rows through the low-rank path."""
    import gpec
    from benchmarks import census

    model, X = census.model_and_rows()
    rng = np.random.default_rng(0)
    rows = X[rng.permutation(len(X))[:20_000]]
    attributions = rng.standard_normal((20_000, X.shape[1]))
    g = gpec.GPEC(model, None, random_state=0, progress=False).fit(X, X_explained=rows, attributions=attributions)
    return {
        "seconds": g.diagnostics_["seconds"]["gp"],
        "rank": len(g.posterior_.pivots),
        "residual": g.posterior_.residual,
    }


def _apart(call):
    code = f"import json; from benchmarks import growth; print(json.dumps(growth.{call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout.splitlines()[-1])
    print(call, result, flush=True)
    return result


def run():
    return {
        "small": _apart("geometry(5_000, 'exact')"),
        "large": _apart("geometry(50_000, 'exact')"),
        "small_approximate": _apart("geometry(5_000, 'approximate')"),
        "large_approximate": _apart("geometry(50_000, 'approximate')"),
        "fit": _apart("fit_memory(50_000)"),
        "million": _apart("million()"),
        "many": _apart("many_explained()"),
    }


def report(x):
    def ratio(suffix=""):
        return x[f"large{suffix}"]["seconds"] / x[f"small{suffix}"]["seconds"]

    return [
        "| what | measured | target |",
        "|---|---|---|",
        f"| geodesics + kernel, J = 5,000 to 50,000, exact neighbours | {x['small']['seconds']:.2f} s to "
        f"{x['large']['seconds']:.1f} s: **{ratio():.1f} times** | 35 |",
        f"| the same, approximate neighbours (recall {x['large_approximate']['recall']:.3f}) | "
        f"{x['small_approximate']['seconds']:.2f} s to {x['large_approximate']['seconds']:.1f} s: "
        f"**{ratio('_approximate'):.1f} times** | 25, recall 0.95 |",
        f"| peak memory of `fit`, J = 50,000, D = 12 (before it {x['fit']['before']:.2f} GB) | "
        f"**{x['fit']['peak']:.2f} GB**, {x['fit']['seconds']:.0f} s | 3 GB |",
        f'| 1,000,000 rows explained (`attribution="posterior"`), memory above input and result | '
        f"**{x['million']['above']:.2f} GB**, {x['million']['seconds']:.0f} s | 1 GB |",
        f"| conditioning on 20,000 explained rows, 12 features (rank {x['many']['rank']}, residual "
        f"{x['many']['residual']:.1e}) | **{x['many']['seconds']:.1f} s** | seconds |",
    ]
