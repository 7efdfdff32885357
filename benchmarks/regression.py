"""Do intervals keep what they promise for regressors, and what do level sets tell?

The cases of ``benchmarks.trust`` with numbers to predict: the same sizes, the same truth. Each is kept in a file of its
own.
"""

import json
from pathlib import Path

import numpy as np

import gpec
from benchmarks._trust.case import Case, flat, neighbour_figures, plain, rank, similar_figures, value_figures
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import REGRESSION_CASES
from benchmarks._trust.tables import COVERAGE, fill, mean, shown
from gpec.boundary import LevelSetSampler
from gpec.kernels import WEG, Matern, Output, Own, Rest

PAGE = Path(__file__).parents[1] / "docs" / "regression.md"
SEEDS = (40, 41, 42)  # nothing was chosen on them
RANK = 0.75
MORE_ROWS = 800
NAMES = {
    "house values": "California, value of houses",
    "diabetes": "Diabetes, progression",
    "hours": "Census, hours a week",
    "duration": "Online Shoppers, seconds",
}
LEVELS = {"median": (0.5,), "three levels": (0.25, 0.5, 0.75)}


def run():
    for seed in SEEDS:
        for table, kind in REGRESSION_CASES:
            once(folder("regression") / f"{table}-{kind}-{seed}.json", _case, table, kind, seed)
    found = [json.loads(path.read_text()) for path in sorted(folder("regression").glob("*.json"))]
    if PAGE.exists():
        PAGE.write_text(fill(PAGE.read_text(), _parts(found)))
    return found


def _case(table, kind, seed):
    case = Case(table, kind, seed)
    paper = case.refit(**gpec.PAPER).explain(case.problem.test, attribution="posterior")
    return {
        "table": table,
        "kind": kind,
        "seed": seed,
        "similar": similar_figures(case),
        "value": value_figures(case, case.value),
        "value_before": value_figures(case, case.value_before),
        "paper": {"change": rank(flat(paper.std), case.truth.size)},
        "levels": _levels(case),
        "more": _with_more_rows(case) if kind == "trees" else None,
        "neighbours": neighbour_figures(case.truth, case.problem.test)["runs"],
        "adds_up_to": case.g._fitted.observation.adds_up_to,
        "kernel": plain(case.g.diagnostics_["kernel"]),
        "statements": [case.similar.statement(), case.value.statement()],
        "seconds": case.seconds,
    }


def _with_more_rows(case):
    """Spearman's correlation when more rows are explained, where the table has them."""
    p = case.problem
    if len(p.fit) < MORE_ROWS:
        return None
    g = gpec.GPEC(p.model, case.explainer, n_explained=MORE_ROWS, **case.common).fit(p.fit)
    return rank(flat(g.explain(p.test).width), case.truth.size)


def _levels(case):
    """What level sets add beside the rest of the row and in its place: nats of evidence, and NLPD of unseen rows."""
    found = {"nats": {}, "instead": {}, "nlpd": {}}
    common = {**case.common, "similar": None}
    answer = case.alone(case.g.X_explained_)
    for name, quantiles in LEVELS.items():
        for part, terms in (("nats", (Own(), Rest(), Output(), WEG())), ("instead", (Own(), Output(), WEG()))):
            boundary = case.g.boundary_ if name == "median" else LevelSetSampler(quantiles)
            g = gpec.GPEC(case.problem.model, None, kernel=Matern(*terms), boundary=boundary, **common)
            g.fit(
                case.problem.fit,
                X_explained=case.g.X_explained_,
                attributions=answer.values,
                attribution_variance=answer.variance,
            )
            found[part][name] = float(g.diagnostics_["kernel"][0]["nats"].get("weg", 0.0))
    found["nlpd"]["with"] = value_figures(case, case.value)["nlpd"]
    for name, kernel in (("without", Matern(Own(), Rest(), Output())), ("weg", "weg")):
        e = case.refit(kernel=kernel).explain(case.problem.test, attribution="posterior")
        found["nlpd"][name] = value_figures(case, e)["nlpd"]
    return found


def report(results):
    return [line for lines in _parts(results).values() for line in (*lines, "")][:-1]


def _parts(results):
    return {"bars": _bars(results), "promises": _promises(results), "levels": _level_sets(results)}


def _cases(results):
    for table, kind in REGRESSION_CASES:
        some = [one for one in results if (one["table"], one["kind"]) == (table, kind)]
        if some:
            yield f"{NAMES[table]}, {kind}", some


def _bars(results):
    lines = ["| asked for | found | met |", "|---|---|---|"]
    cases = list(_cases(results))
    for title, part in (("similar rows", "similar"), ("the value", "value")):
        found = {name: mean(some, lambda x, part=part: x[part]["coverage"]) for name, some in cases}
        missed = [f"{name} ({v:.1%})" for name, v in found.items() if not COVERAGE[0] <= v <= COVERAGE[1]]
        lines.append(_bar(f"{title}: coverage 95 ± 1.5%, each", found, ".1%", missed))
    found = {name: mean(some, lambda x: x["similar"]["rank"]) for name, some in cases}
    missed = [f"{name} ({v:.2f})" for name, v in found.items() if v < RANK]
    middle = float(np.mean(list(found.values())))
    lines.append(_bar(f"similar rows: Spearman of width and change {RANK}, each", found, ".2f", missed))
    lines.append(f"| the same, mean | {middle:.2f} | {'yes' if middle >= RANK else 'no'} |")
    seeds = ", ".join(str(seed) for seed in sorted({one["seed"] for one in results}))
    return [f"{len(results)} cases, seeds {seeds}.", "", *lines]


def _bar(asked, found, form, missed):
    low, high, middle = min(found.values()), max(found.values()), np.mean(list(found.values()))
    met = "yes" if not missed else "not by " + "; ".join(missed)
    return f"| {asked} | {low:{form}} to {high:{form}}, mean {middle:{form}} | {met} |"


def _promises(results):
    columns = {
        "similar rows: coverage": (lambda x: x["similar"]["coverage"], ".1%"),
        "after fit alone": (lambda x: x["similar"]["before"]["coverage"], ".1%"),
        "worst slab": (lambda x: x["similar"]["worst_slab"], ".1%"),
        "Spearman": (lambda x: x["similar"]["rank"], ".2f"),
        "800 explained": (lambda x: x["more"], ".2f"),
        "paper's variance": (lambda x: x["paper"]["change"], ".2f"),
        "2 similar rows explained": (lambda x: x["neighbours"]["2"], ".2f"),
        "the value: coverage": (lambda x: x["value"]["coverage"], ".1%"),
        "after fit": (lambda x: x["value_before"]["coverage"], ".1%"),
        "R2": (lambda x: x["value"]["R2"], ".2f"),
    }
    return _table(results, columns)


def _level_sets(results):
    columns = {
        "beside the rest: median, nats": (lambda x: x["levels"]["nats"]["median"], ".0f"),
        "three levels": (lambda x: x["levels"]["nats"]["three levels"], ".0f"),
        "in its place: median, nats": (lambda x: x["levels"]["instead"]["median"], ".0f"),
        "three levels, nats": (lambda x: x["levels"]["instead"]["three levels"], ".0f"),
        "NLPD without level sets": (lambda x: x["levels"]["nlpd"]["without"], ".2f"),
        "with": (lambda x: x["levels"]["nlpd"]["with"], ".2f"),
        "level sets alone": (lambda x: x["levels"]["nlpd"]["weg"], ".2f"),
    }
    return _table(results, columns)


def _table(results, columns):
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    return lines + [
        f"| {name} | {' | '.join(shown(some, figure, form) for figure, form in columns.values())} |"
        for name, some in _cases(results)
    ]
