"""The dial: some similar rows of each row are explained, the others predicted from them.

Each case is computed once and kept as a file of its own, so that a run that was interrupted goes on where it stopped.
"""

import json
import time

import numpy as np

import gpec
from benchmarks._trust.case import KnownTruth, changes_inside, flat, rank
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import CASES, N_EXPLAINED, TABLES
from benchmarks._trust.tables import NAMES
from gpec.intervals import ConformityScores, rules
from gpec.metrics import coverage, interval_score

SEEDS = (92, 93)  # nothing was chosen on them
N_WORDS = (100, N_EXPLAINED, 400)
EXPLAINED = (0, 1, 2, 3, 5)
TO_CLOSE = {1: 0.20, 2: 0.40, 3: 0.55, 5: 0.75}  # of the gap to a rank correlation of 1
LEVEL = 0.95


def run():
    for seed in SEEDS:
        for table, kind in CASES:
            once(folder("dial") / "cases" / f"{table}-{kind}-{seed}.json", case, table, kind, seed)
        for table in TABLES:
            once(folder("dial") / "words" / f"{table}-{seed}.json", words, table, seed)
    return collect()


def collect():
    def read(part):
        return [json.loads(path.read_text()) for path in sorted((folder("dial") / part).glob("*.json"))]

    return {part: read(part) for part in ("cases", "words")}


class DialCase(KnownTruth):
    """A problem, a fit that predicts, and the truth about the similar rows of its test rows."""

    def __init__(self, table, kind, seed):
        super().__init__(table, kind, seed)
        p = self.problem
        common = {"background": p.background, "random_state": seed, "progress": False}
        common["categorical_features"] = p.categorical or "auto"
        self.g = gpec.GPEC(p.model, self.explainer, mode="predict", n_explained=N_EXPLAINED, **common).fit(p.fit)

    def figures(self, m):
        g, p = self.g.calibrate(self.problem.calibration, n_similar_explained=m), self.problem
        started = time.process_time()
        e = g.explain(p.test)  # the explainer knows these rows already
        seconds = time.process_time() - started
        mixed = g._fitted.calibration.mixed
        return {**self.quality(flat(e.width), *changes_inside(self.truth, e)), "mixed": mixed, "seconds": seconds}

    def quality(self, width, lower, upper):
        truth, some = self.truth, self.truth.spread > 0
        changes, unit = truth.changes[:, :, some], truth.spread[some]
        return {
            "Spearman": rank(width, truth.size),
            "score": float(interval_score(changes / unit, lower[:, :, some] / unit, upper[:, :, some] / unit)),
            "coverage": coverage(truth.changes, lower, upper),
        }

    def farthest_alone(self, m):
        """The root mean square change of the ``m`` farthest similar rows, times the quantile of one row more.

        The square is mixed with its mean over calibration rows, by a weight that is chosen on these.
        """
        truth, p, K = self.truth, self.problem, self.truth.changes.shape[1]
        sampler, schema = self.g._fitted.similarity, self.alone.model_.schema

        def farthest_first(rows):
            similar = sampler.rows(schema.encode(rows))
            near = schema.embed(similar.reshape(-1, similar.shape[2])).reshape(len(rows), K, -1)
            distance = np.linalg.norm(near - schema.embed(schema.encode(rows))[:, None], axis=2)
            return similar, np.argsort(-distance, axis=1, kind="stable")

        similar, order = farthest_first(p.calibration)
        n, each = len(similar), np.arange(len(similar))
        other = order[each, m + np.random.default_rng(self.seed).integers(K - m, size=n)]
        chosen = similar[each[:, None], np.hstack((order[:, :m], other[:, None]))]
        there = self.explainer(chosen.reshape(-1, similar.shape[2])).values.reshape(n, m + 1, -1)
        changes = np.abs(there - flat(self.explainer(p.calibration).values)[:, None])
        square, of_row = (changes[:, :m] ** 2).mean(axis=1), np.array([*[1 / K] * m, (K - m) / K])
        _, order = farthest_first(p.test)
        seen = np.take_along_axis(truth.changes, order[:, :m, None], axis=1)
        of_test, found = (seen**2).mean(axis=1), {}
        for weight in (0.02, 0.05, 0.1, 0.2, 0.4):
            usual = square.mean(axis=0) + np.finfo(float).tiny
            size = np.sqrt((1 - weight) * square + weight * usual)
            scores = (changes / size[:, None]).reshape(n * (m + 1), -1, 1)
            multiple = ConformityScores(scores, np.tile(of_row, n), True, m + 1).quantile(LEVEL)[:, 0]
            beyond = np.maximum(changes - (multiple * size)[:, None], 0)
            cost = 2 * multiple * size.mean(axis=0) + 2 / (1 - LEVEL) * (beyond * of_row[:, None]).sum(axis=1).mean(
                axis=0
            )
            found[(cost / np.sqrt(usual)).mean()] = multiple * np.sqrt((1 - weight) * of_test + weight * usual)
        half = np.repeat((found[min(found)] + truth.rounding)[:, None], K, axis=1)
        return self.quality(of_test, -half, half)


def case(table, kind, seed):
    one = DialCase(table, kind, seed)
    n, K = one.truth.similar_rows.shape[:2]
    about = {"rows": n, "explainer": one.seconds["truth"] / (n * (K + 1))}
    line = {"table": table, "kind": kind, "seed": seed, **about, "dial": {m: one.figures(m) for m in EXPLAINED}}
    line["alone"] = {m: one.farthest_alone(m) for m in EXPLAINED[1:-1]}
    usual, rules._SYMMETRIC = rules._SYMMETRIC, 1.0
    try:
        line["symmetric"] = {m: one.figures(m) for m in (0, 3)}
    finally:
        rules._SYMMETRIC = usual
    return line


def words(table, seed):
    """The share of words (firm, likely, unclear) that another ``random_state`` changes, by what is explained."""
    one, found = DialCase(table, "trees", seed), {}
    p = one.problem
    for n in N_WORDS:
        fits = []
        for random_state in (seed, seed + 1000):
            common = {"background": p.background, "random_state": random_state, "progress": False}
            fits.append(gpec.GPEC(p.model, one.explainer, mode="predict", n_explained=n, **common).fit(p.fit))
        for m in (0, 1, 3) if n == N_EXPLAINED else (0,):
            said = [g.calibrate(p.calibration, n_similar_explained=m).explain(p.test).firmness for g in fits]
            found[f"{n} rows, {m} similar"] = float((said[0] != said[1]).mean())
    return {"table": table, "seed": seed, "changed": found}


def report(results):
    results, said = results["cases"], results["words"]
    heads = [*map(str, EXPLAINED), *(f"{m} alone" for m in EXPLAINED[1:-1])]
    out = [
        f"**Some similar rows explained**: {_seeds(results)}; 200 explained rows, calibrated with the same number. "
        "Spearman's rank correlation of an interval's width with the real change over all ten similar rows, and in "
        "brackets the interval score in standard deviations of each attribution (lower is better). *alone*: as many "
        "similar rows, the farthest, explained without a Gaussian process, calibrated in the same way.",
        "",
        f"| table, model | {' | '.join(heads)} |",
        "|---|" + "---|" * len(heads),
    ]
    for (table, kind), some in _by_case(results).items():
        dial = [_both(some, "dial", m) for m in EXPLAINED]
        alone = [_both(some, "alone", m) for m in EXPLAINED[1:-1]]
        out.append(f"| {NAMES[table]}, {kind} | {' | '.join((*dial, *alone))} |")
    means = [_both(results, "dial", m) for m in EXPLAINED], [_both(results, "alone", m) for m in EXPLAINED[1:-1]]
    out += [f"| **mean** | {' | '.join((*means[0], *means[1]))} |", "", *_bars(results), "", *_costs(results)]
    out += ["", "Words (firm, likely, unclear) that another `random_state` changes, trees:", ""]
    kinds = said[0]["changed"]
    out += [f"| table | {' | '.join(kinds)} |", "|---|" + "---|" * len(kinds)]
    for table in TABLES:
        shares = [np.mean([x["changed"][kind] for x in said if x["table"] == table]) for kind in kinds]
        out.append(f"| {NAMES[table]} | {' | '.join(f'{share:.1%}' for share in shares)} |")
    shares = [np.mean([x["changed"][kind] for x in said]) for kind in kinds]
    return [*out, f"| **mean** | {' | '.join(f'{share:.1%}' for share in shares)} |"]


def _bars(results):
    """What was asked for beforehand, and what was found."""
    cases = _by_case(results)
    first = np.mean([_mean(some, "dial", 0, "Spearman") for some in cases.values()])
    out = ["| figure | asked | found |", "|---|---|---|"]
    for m, asked in TO_CLOSE.items():
        mean = np.mean([_mean(some, "dial", m, "Spearman") for some in cases.values()])
        out.append(
            f"| gap to a rank correlation of 1 closed by {m} | {asked:.0%} | {(mean - first) / (1 - first):.0%} |"
        )
    for m in EXPLAINED[1:-1]:
        for name, sign in (("Spearman", 1), ("score", -1)):
            ahead = [sign * (_mean(x, "dial", m, name) - _mean(x, "alone", m, name)) > 0 for x in cases.values()]
            out.append(f"| ahead of {m} alone, {name} | 11 of 13 | {sum(ahead)} of {len(ahead)} |")
    lower = [_mean(x, "dial", 0, "score") / _mean(x, "symmetric", 0, "score") - 1 for x in cases.values()]
    found = f"{np.mean(lower):+.0%}, {sum(x < 0 for x in lower)} of {len(lower)}"
    out.append(f"| interval score against symmetric widths | -5%, 11 of 13 | {found} |")
    for m in EXPLAINED:
        covered = [_mean(some, "dial", m, "coverage") for some in cases.values()]
        error = np.std(covered, ddof=1) / np.sqrt(len(covered))
        out.append(f"| coverage with {m} | 95 ± 1.5% | {np.mean(covered):.1%} ± {error:.1%} |")
    return out


def _costs(results):
    """Processor time of prediction beside that of the explainer, for each row."""
    out = ["Milliseconds a row, beside the runs of the explainer (mean over cases):", ""]
    out += ["| similar rows explained | prediction | explainer, network cases |", "|---|---|---|"]
    for m in EXPLAINED:
        own = np.mean([x["dial"][str(m)]["seconds"] / x["rows"] for x in results])
        runs = np.mean([(1 + m) * x["explainer"] for x in results if x["kind"] == "network"])
        out.append(f"| {m} | {1000 * own:.0f} | {1000 * runs:.0f} |")
    return out


def _by_case(results):
    return {
        key: [x for x in results if (x["table"], x["kind"]) == key]
        for key in CASES
        if any((x["table"], x["kind"]) == key for x in results)
    }


def _mean(some, part, m, name):
    return float(np.mean([x[part][str(m)][name] for x in some]))


def _both(some, part, m):
    return f"{_mean(some, part, m, 'Spearman'):.3f} ({_mean(some, part, m, 'score'):.2f})"


def _seeds(results):
    seeds = sorted({x["seed"] for x in results})
    return f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(map(str, seeds))}, on which nothing was chosen"
