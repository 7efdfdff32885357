"""Speed and accuracy of geodesics and kernel against the plain implementation."""

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

from benchmarks import census, plain
from gpec.boundary import BisectionSampler
from gpec.geometry import GeodesicGraph
from gpec.gp import ExactPosterior, fixed_parameters
from gpec.kernels import WEG

NOISE, ROWS = 1e-4, 100
SIZES, SEEDS = {5_000: 10, 10_000: 4}, (5, 6, 7)  # boundary points, and how often to measure
SOURCES = 200  # that the plain implementation searches from; the seconds of all are scaled from these
ERRORS = (("nearest", 5), ("nearest", 6), ("nearest", 7), ("random", 5))


def ours(points, explained, queries):
    """Variances, kernel, graph, and seconds of processor time; everything from points to variances."""
    worked = time.process_time()
    graph = GeodesicGraph.build(points)
    kernel = WEG().fit(graph, explained)
    variance = posterior_variance(kernel, explained, queries)
    return variance, kernel, graph, time.process_time() - worked


def posterior_variance(kernel, explained, queries):
    zero, noise = np.zeros((len(explained), 1)), np.full((len(explained), 1), NOISE)
    posterior = ExactPosterior(kernel, explained, zero, noise, fixed_parameters(1.0, 1))
    return posterior.predict(queries).variance[:, 0]


def all_distances(graph):
    return replace(graph, landmarks=np.arange(len(graph))).distances


def agreement(ours, theirs):
    return np.abs(ours - theirs).mean() / theirs.mean(), np.corrcoef(ours, theirs)[0, 1]


def points_and_rows(model, X, J, pairing, seed):
    sample = BisectionSampler(pairing=pairing).sample(model, X, J, random_state=seed, progress=False)
    center, scale = X.mean(axis=0), X.std(axis=0)
    rows = (X[np.random.default_rng(seed).permutation(len(X))[: 2 * ROWS]] - center) / scale
    return (sample.points - center) / scale, rows[:ROWS], rows[ROWS:]


def processor():
    """What the ratio depends on: networkx gains more from some processors than linear algebra does."""
    name = Path("/proc/cpuinfo").read_text().partition("model name")[2].partition("\n")[0].strip(" \t:")
    kernels = {one.get("architecture") for one in threadpool_info() if one["internal_api"] == "openblas"}
    return f"{name}, BLAS for {', '.join(sorted(map(str, kernels)))}"


def run():
    model, X = census.model_and_rows()
    here = processor()
    earlier = json.loads((Path(__file__).parent / "results.json").read_text())["against_plain"]["seconds"]
    return {
        "seconds": [
            *(line for line in earlier if line["processor"] != here),
            *(
                {"processor": here, **compare_seconds(J, seed, *points_and_rows(model, X, J, "nearest", seed))}
                for J in SIZES
                for seed in SEEDS
            ),
        ],
        "errors": [line for case in ERRORS for line in compare(*case, *points_and_rows(model, X, 5_000, *case))],
    }


def compare_seconds(J, seed, points, explained, queries):
    """Ours and theirs, in turn."""
    found, theirs = [], []
    for _ in range(SIZES[J]):
        found.append(ours(points, explained, queries))
        theirs.append(plain.geodesics(points, 10, SOURCES))
    _, kernel, graph, _ = found[0]
    some, sources, _ = theirs[0]
    distances = all_distances(graph)
    np.testing.assert_allclose(distances[sources], some, rtol=1e-9, atol=1e-12)
    started = time.process_time()
    plain.variances(np.exp(-kernel.lam_ * distances), points, explained, queries, kernel.rho_, NOISE)
    line = {
        "J": J,
        "seed": seed,
        "plain_seconds": min(one[2] for one in theirs) + time.process_time() - started,
        "one_worked": min(one[3] for one in found),
    }
    print(line, flush=True)
    return line


def compare(pairing, seed, points, explained, queries):
    """Variances, ours against the plain implementation's."""
    lines = []
    variance, kernel, graph, _ = ours(points, explained, queries)
    G = np.exp(-kernel.lam_ * all_distances(graph))
    G_repaired = plain.repaired(G)
    for rho in (kernel.rho_, 0.1, 1.0, 10.0):
        default = rho == kernel.rho_
        if not default:
            variance = posterior_variance(WEG(rho=rho).fit(graph, explained), explained, queries)
        raw, valid = (plain.variances(part, points, explained, queries, rho, NOISE) for part in (G, G_repaired))
        error, correlation = agreement(variance, valid)
        raw_error, raw_correlation = agreement(variance, raw)
        lines.append(
            {
                "pairing": pairing,
                "seed": seed,
                "rho": f"{rho:.3g}" + (" (default)" if default else ""),
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


def report(x):
    out = [
        "| processor | J | seed | plain, s | gpec, s | times faster |",
        "|---|---|---|---|---|---|",
    ]
    for line in x["seconds"]:
        theirs, one = line["plain_seconds"], line["one_worked"]
        out.append(
            f"| {line['processor']} | {line['J']:,} | {line['seed']} | {theirs:.0f} | {one:.2f} | "
            f"**{theirs / one:.0f}** |"
        )
    out += [
        "",
        "| pairs | seed | rho | error | correlation | error against raw G | least raw |",
        "|---|---|---|---|---|---|---|",
    ]
    return out + [
        f"| {line['pairing']} | {line['seed']} | {line['rho']} | {line['error']:.2%} | {line['correlation']:.5f} | "
        f"{line['raw_error']:.0%} | {line['raw_least']:.4f} |"
        for line in x["errors"]
    ]
