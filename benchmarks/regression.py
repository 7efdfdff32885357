"""Do intervals keep what they promise for regressors, and what do level sets tell?

The cases of ``benchmarks.trust`` with numbers to predict: the same sizes, the same truth. Each is kept in a file of its
own.
"""

import json
from pathlib import Path

import numpy as np
from scipy.sparse import block_diag, csr_array

import gpec
from benchmarks._trust.case import Case, flat, neighbour_figures, plain, rank, similar_figures, value_figures
from benchmarks._trust.kept import folder, once
from benchmarks._trust.problems import N_EXPLAINED, REGRESSION_CASES
from benchmarks._trust.tables import COVERAGE, fill, mean, shown
from gpec.boundary import LevelSetSampler
from gpec.geometry import GeodesicGraph
from gpec.gp import learn_kernel
from gpec.kernels import WEG, Effect, Matern, Output, Own, Rest

PAGE = Path(__file__).parents[1] / "docs" / "regression.md"
SEEDS = (43, 44, 45)  # nothing was chosen on them
RANK = 0.75
NAMES = {
    "house values": "California, value of houses",
    "diabetes": "Diabetes, progression",
    "hours": "Census, hours a week",
    "duration": "Online Shoppers, seconds",
}
QUARTILES = (0.25, 0.5, 0.75)
GRAPHS = ("median", "quartiles, one graph", "quartiles, a graph each")


def run():
    for seed in SEEDS:
        for table, kind in REGRESSION_CASES:
            once(folder("regression") / f"{table}-{kind}-{seed}.json", _case, table, kind, seed)
    kept = (folder("regression") / f"{table}-{kind}-{seed}.json" for table, kind in REGRESSION_CASES for seed in SEEDS)
    found = [json.loads(path.read_text()) for path in kept if path.exists()]
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
        "effect": _effect(case),
        "levels": _levels(case),
        "quantiles": _quantiles(case),
        "neighbours": neighbour_figures(case.truth, case.problem.test)["runs"],
        "adds_up_to": case.g._fitted.observations.adds_up_to,
        "kernel": plain(case.g.diagnostics_["kernel"]),
        "statements": [case.similar.statement(), case.value.statement()],
        "seconds": case.seconds,
    }


def _effect(case):
    """What the term Effect gains and costs: the same with the kernel of classifiers."""
    p = case.problem
    settings = {"kernel": Matern(Own(), Rest(), Output(), WEG()), "boundary": case.g.boundary_}
    g = gpec.GPEC(p.model, case.explainer, n_explained=N_EXPLAINED, **settings, **case.common).fit(p.fit)
    value = g.explain(p.test, attribution="posterior")
    return {
        "nats": float(case.g.diagnostics_["kernel"][0]["nats"].get("effect", 0.0)),
        "rank": rank(flat(g.explain(p.test).width), case.truth.size),
        "R2": value_figures(case, value)["R2"],
        "model_rows": [e.diagnostics["model_rows"] / len(p.test) for e in (value, case.value)],
    }


def _levels(case):
    """What level sets tell: nats of evidence beside the rest of the row, and NLPD of unseen rows with and without."""
    found = {"nats": float(case.g.diagnostics_["kernel"][0]["nats"].get("weg", 0.0)), "nlpd": {}}
    found["nlpd"]["with"] = value_figures(case, case.value)["nlpd"]
    for name, kernel in (("without", Matern(Own(), Rest(), Output(), Effect())), ("weg", "weg")):
        e = case.refit(kernel=kernel).explain(case.problem.test, attribution="posterior")
        found["nlpd"][name] = value_figures(case, e)["nlpd"]
    return found


def _quantiles(case):
    """Nats that one level and several add beside the rest of the row, and in its place."""
    fitted, found = case.g._fitted, {"beside": {}, "instead": {}}
    Y, U = fitted.observations.attribution.values[:, :, 0], fitted.observations.U[:, :, 0]

    def graph(*quantiles, **settings):
        settings |= {"kernel": "weg", "similar": None, "boundary": LevelSetSampler(quantiles)}
        given = {"X_explained": case.g.X_explained_, "attributions": Y}
        return gpec.GPEC(case.problem.model, None, **settings, **case.common).fit(case.problem.fit, **given).graph_

    share = len(QUARTILES)
    apart = [graph(q, n_boundary=2_000 // share, n_landmarks=1_250 // share) for q in QUARTILES]
    for name, one in zip(GRAPHS, (case.g.graph_, graph(*QUARTILES), _side_by_side(apart)), strict=True):
        others = (Own(), Output(), Effect())
        for part, terms in (("beside", (*others, Rest(), WEG())), ("instead", (*others, WEG()))):
            kernel = Matern(*terms)
            rows = fitted.rows_for(fitted.observations.rows, kernel)
            learned = learn_kernel(kernel.fit(one, rows), rows, Y, U)
            found[part][name] = float(learned.nats_.get("weg", 0.0))
    return found


def _side_by_side(graphs):
    """One graph of several, no edge between them: what lies on different levels is infinitely far apart."""
    points = np.cumsum([0, *map(len, graphs)])
    pieces = np.cumsum([0, *(graph.n_components for graph in graphs)])
    return GeodesicGraph(
        points=np.concatenate([graph.points for graph in graphs]),
        adjacency=csr_array(block_diag([graph.adjacency for graph in graphs])),
        component=np.concatenate([graph.component + first for graph, first in zip(graphs, pieces, strict=False)]),
        landmarks=np.concatenate([graph.landmarks + first for graph, first in zip(graphs, points, strict=False)]),
        multiplicity=np.concatenate([graph.multiplicity for graph in graphs]),
    )


def report(results):
    return [line for lines in _parts(results).values() for line in (*lines, "")][:-1]


def _parts(results):
    return {
        "bars": _bars(results),
        "promises": _promises(results),
        "effect": _effects(results),
        "levels": _level_sets(results),
        "quantiles": _how_many(results),
    }


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
        "paper's variance": (lambda x: x["paper"]["change"], ".2f"),
        "2 similar rows explained": (lambda x: x["neighbours"]["2"], ".2f"),
        "the value: coverage": (lambda x: x["value"]["coverage"], ".1%"),
        "after fit": (lambda x: x["value_before"]["coverage"], ".1%"),
        "R2": (lambda x: x["value"]["R2"], ".2f"),
    }
    return _table(results, columns)


def _effects(results):
    columns = {
        "nats": (lambda x: x["effect"]["nats"], ".0f"),
        "Spearman without": (lambda x: x["effect"]["rank"], ".2f"),
        "with": (lambda x: x["similar"]["rank"], ".2f"),
        "R2 without": (lambda x: x["effect"]["R2"], ".3f"),
        "R2 with": (lambda x: x["value"]["R2"], ".3f"),
        "model rows a predicted row: without": (lambda x: x["effect"]["model_rows"][0], ".0f"),
        "model rows: with": (lambda x: x["effect"]["model_rows"][1], ".0f"),
    }
    return _table(results, columns)


def _level_sets(results):
    columns = {
        "beside the rest, nats": (lambda x: x["levels"]["nats"], ".1f"),
        "NLPD without level sets": (lambda x: x["levels"]["nlpd"]["without"], ".2f"),
        "with": (lambda x: x["levels"]["nlpd"]["with"], ".2f"),
        "level sets alone": (lambda x: x["levels"]["nlpd"]["weg"], ".2f"),
    }
    return _table(results, columns)


def _how_many(results):
    columns = {
        f"{words}: {name}": (lambda x, part=part, name=name: x["quantiles"][part][name], ".0f")
        for part, words in (("beside", "beside the rest"), ("instead", "in its place"))
        for name in GRAPHS
    }
    return _table(results, columns)


def _table(results, columns):
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    return lines + [
        f"| {name} | {' | '.join(shown(some, figure, form) for figure, form in columns.values())} |"
        for name, some in _cases(results)
    ]
