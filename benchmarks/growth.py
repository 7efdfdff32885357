"""How time grows with the number of boundary points; each measurement in a process of its own."""

import json
import subprocess
import sys
import time

import numpy as np


def geometry(J, neighbors):
    """Seconds from boundary points to the fitted kernel."""
    from benchmarks import census
    from gpec.boundary import BisectionSampler
    from gpec.geometry import GeodesicGraph
    from gpec.geometry._neighbors import approximate_neighbors, exact_neighbors
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


def apart(module, call):
    code = f"import json; from benchmarks import {module}; print(json.dumps({module}.{call}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    result = json.loads(done.stdout.splitlines()[-1])
    print(call, result, flush=True)
    return result


def run():
    return {
        "small": apart("growth", "geometry(5_000, 'exact')"),
        "large": apart("growth", "geometry(50_000, 'exact')"),
        "small_approximate": apart("growth", "geometry(5_000, 'approximate')"),
        "large_approximate": apart("growth", "geometry(50_000, 'approximate')"),
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
    ]
