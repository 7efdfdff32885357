"""The evidence behind three choices: how many neighbours, which landmarks, and where to clip."""

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from benchmarks import census, plain
from benchmarks.against_plain import NOISE, ROWS, agreement, posterior_variance
from gpec.boundary import BisectionSampler
from gpec.geometry import GeodesicGraph
from gpec.geometry.graph import _landmarks
from gpec.kernels import WEG
from gpec.kernels._factor import Factor, factorize


def sphere_error(n, k, seed=0):
    """Mean relative error of distances from 50 points of a unit sphere."""
    points = np.random.default_rng(seed).standard_normal((n, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    graph = GeodesicGraph.build(points, n_neighbors=k)
    found = replace(graph, landmarks=np.arange(50)).distances
    exact = np.arccos(np.clip(points[:50] @ points.T, -1, 1))
    apart = exact > 0.1
    return float((np.abs(found - exact)[apart] / exact[apart]).mean())


def spread_out(points, component, count, rng):
    return _landmarks(points, count, component, rng)


def farthest(points, component, count, rng):
    _, first = np.unique(component, return_index=True)
    chosen = list(first)
    gap = np.min([((points - points[i]) ** 2).sum(axis=1) for i in chosen], axis=0)
    while len(chosen) < count:
        chosen.append(int(gap.argmax()))
        gap = np.minimum(gap, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return np.sort(chosen)


def at_random(points, component, count, rng):
    _, first = np.unique(component, return_index=True)
    return np.union1d(first, rng.permutation(len(points))[:count])


def clipped_first(graph, lam, cut):
    """Nystrom with the landmark block clipped before it is inverted."""
    C = np.exp(-lam * graph.distances).T
    a, V = eigh(C[graph.landmarks])
    keep = a > cut * a[-1]
    B = C @ (V[:, keep] / np.sqrt(a[keep]))
    B /= np.maximum(np.linalg.norm(B, axis=1), 1.0)[:, None]
    return Factor(B, 1.0 - (B**2).sum(axis=1), 0.0)


def run(J=5_000):
    sphere = {f"{n},{k}": sphere_error(n, k) for n in (500, 2_000, 8_000) for k in (5, 10, 20, 40)}
    model, X = census.model_and_rows()
    rows = (X[np.random.default_rng(0).permutation(len(X))[: 2 * ROWS]] - X.mean(axis=0)) / X.std(axis=0)
    explained, queries = rows[:ROWS], rows[ROWS:]
    lines = []
    for pairing in ("nearest", "random"):
        sample = BisectionSampler(pairing=pairing).sample(model, X, J, random_state=0, progress=False)
        points = (sample.points - X.mean(axis=0)) / X.std(axis=0)
        base = GeodesicGraph.build(points, n_landmarks=J)
        kernel = WEG().fit(GeodesicGraph.build(points, n_landmarks=1_000), explained)
        lam, rho = kernel.lam_, kernel.rho_
        truth = plain.variances(plain.repaired(np.exp(-lam * base.distances)), points, explained, queries, rho, NOISE)
        for L in (500, 1_000, 2_000):
            for name, choose in (("k-means++", spread_out), ("farthest", farthest), ("random", at_random)):
                marks = choose(points, base.component, L, np.random.default_rng(0))
                graph = GeodesicGraph(points, base.adjacency, base.component, marks, base.multiplicity)
                factors = {"after": factorize(graph, lam), "before": clipped_first(graph, lam, 1e-8)}
                for clip, factor in factors.items():
                    kernel = WEG(lam=lam, rho=rho).fit(graph, explained)
                    kernel.B_, kernel.r_ = factor.B, factor.r
                    error, correlation = agreement(posterior_variance(kernel, explained, queries), truth)
                    lines.append([pairing, L, name, clip, error, correlation])
                    print(lines[-1], flush=True)
    return {"sphere": sphere, "landmarks": lines}


def report(x):
    out = ["Mean relative error of geodesic distances on a unit sphere, n points, k neighbours:", ""]
    out += ["| n | k = 5 | k = 10 | k = 20 | k = 40 |", "|---|---|---|---|---|"]
    for n in (500, 2_000, 8_000):
        out.append(f"| {n:,} | " + " | ".join(f"{x['sphere'][f'{n},{k}']:.1%}" for k in (5, 10, 20, 40)) + " |")
    out += [
        "",
        "Error of the variances (mean absolute error / mean; correlation) with L landmarks, against all points:",
        "",
    ]
    out += ["| pairs | L | landmarks | clipped after projection | clipped before |", "|---|---|---|---|---|"]
    table = {}
    for pairing, L, name, clip, error, correlation in x["landmarks"]:
        table.setdefault((pairing, L, name), {})[clip] = f"{error:.1%}; {correlation:.4f}"
    for (pairing, L, name), cells in table.items():
        out.append(f"| {pairing} | {L:,} | {name} | {cells['after']} | {cells['before']} |")
    return out
