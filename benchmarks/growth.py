"""How time grows with boundary points, explained rows and rows to come; each measurement in a process of its own."""

import json
import subprocess
import sys
import time

import numpy as np

EXPLAINED, PREDICTED, SIMILAR = (200, 800), (10_000, 100_000), (100, 1_000)


def geometry(J):
    """Seconds of processor time from boundary points to the fitted kernel."""
    from benchmarks import census
    from gpec.boundary import BisectionSampler
    from gpec.geometry import GeodesicGraph
    from gpec.kernels import WEG

    model, X = census.model_and_rows()
    sample = BisectionSampler().sample(model, X, J, random_state=0, progress=False)
    points, rows = (sample.points - X.mean(axis=0)) / X.std(axis=0), (X[:100] - X.mean(axis=0)) / X.std(axis=0)
    worked = np.inf
    for _ in range(3):
        begun = time.process_time()
        graph = GeodesicGraph.build(points, n_landmarks=1_000)
        WEG().fit(graph, rows).gram(rows)
        worked = min(worked, time.process_time() - begun)
    return {"J": len(graph), "one_worked": worked}


def fitting(N):
    """Seconds elapsed of stages of ``fit`` with N explained rows, on one core and on both."""
    from benchmarks.fit_cores import fit, models

    _, model, explainer, X = next(models())
    fit(model, explainer, X[:500], 2)  # what is compiled or imported is here
    return {
        name: _least([fit(model, explainer, X, n_jobs, N)[0].diagnostics_["seconds"] for _ in range(2)])
        for n_jobs, name in ((1, "one"), (2, "two"))
    }


def explaining(n, attribution):
    """Seconds elapsed for n rows, explained or predicted, on one core and on both."""
    from benchmarks.fit_cores import fit, models

    _, model, explainer, X = next(models())
    g = fit(model, explainer, X, 2)[0]
    rows, found = X[np.arange(n) % len(X)], {}
    for n_jobs, name in ((1, "one"), (2, "two")):
        g.set_params(n_jobs=n_jobs)
        found[name] = _least([g.explain(rows, attribution=attribution).diagnostics["seconds"] for _ in range(2)])
    return found


def _least(found):
    return {stage: min(seconds[stage] for seconds in found) for stage in found[0]}


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
        "small": apart("growth", "geometry(5_000)"),
        "large": apart("growth", "geometry(50_000)"),
        "fit": {N: apart("growth", f"fitting({N})") for N in EXPLAINED},
        "predicted": {n: apart("growth", f"explaining({n}, 'posterior')") for n in PREDICTED},
        "similar": {n: apart("growth", f"explaining({n}, 'explainer')") for n in SIMILAR},
    }


def report(x):
    def by_rows(what, part, stage):
        few, many = x[part].values()
        cells = []
        for cores in ("one", "two"):
            a, b = few[cores][stage], many[cores][stage]
            cells.append(f"{a:.2g} s to {b:.3g} s: **{b / a:.1f} times**")
        return f"| {what} | {cells[0]} | {cells[1]} |"

    few, many = (x[size]["one_worked"] for size in ("small", "large"))
    explained, predicted, similar = (f"{sizes[0]:,} to {sizes[1]:,}" for sizes in (EXPLAINED, PREDICTED, SIMILAR))
    return [
        "| what | on one core | on both |",
        "|---|---|---|",
        f"| geodesics + kernel, J = 5,000 to 50,000 | {few:.2f} s to {many:.1f} s: **{many / few:.1f} times** | |",
        by_rows(f"`fit`: the explainer (KernelSHAP), {explained} explained rows", "fit", "explainer"),
        by_rows("`fit`: the boundary's kernel and the learning of lengths, the same rows", "fit", "kernel"),
        by_rows("`fit`: scales, nuggets and the factorisation, the same rows", "fit", "gp"),
        by_rows(f"predicted rows, {predicted}", "predicted", "gp"),
        by_rows(f"KernelSHAP of {similar} rows", "similar", "explainer"),
        by_rows("intervals of similar rows, the same rows", "similar", "gp"),
    ]
