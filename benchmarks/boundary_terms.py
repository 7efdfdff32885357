"""What the boundary tells beside the row's own value, the rest of it and the model's answer; and other ways to use it.

Each way is one more squared distance inside the Matern kernel. Figures are what it adds to the log evidence of 200
explained rows, in nats, all lengths learned with and without it, and the NLPD of standardised attributions of unseen
rows.
"""

import numpy as np
from scipy.spatial.distance import cdist

import gpec
from benchmarks._trust.problems import CASES, problem
from gpec.gp import learn_kernel, make_posterior
from gpec.kernels import WEG, Matern, Output, Own, PointDistance, Rest
from gpec.metrics import nlpd

SEEDS = (20, 21)
TEST = 150


class _Place(PointDistance):
    """Distance between places that a row has by the boundary point next to it, ``_place(rows) -> (n, m)``."""

    def _fit(self, graph, rows):
        self.points_ = graph.points
        place = self._place(rows)
        spread = np.sqrt(place.var(axis=0).sum())
        self.spread_ = float(spread) if spread > 0 else 1.0
        super()._fit(graph, rows)

    def _nearest(self, rows):
        return self.points_[cdist(rows.embedded, self.points_, "sqeuclidean").argmin(axis=1)]

    def _points(self, rows, feature):
        return self._place(rows) / self.spread_


class Nearest(_Place):
    """Where the nearest boundary point lies."""

    def _place(self, rows):
        return self._nearest(rows)


class Displacement(_Place):
    """Which way, and how far, the nearest boundary point is."""

    def _place(self, rows):
        return rows.embedded - self._nearest(rows)


class Normal(_Place):
    """Which way the nearest boundary point is."""

    def _place(self, rows):
        way = rows.embedded - self._nearest(rows)
        return way / np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-12)


class Depth(_Place):
    """How far the nearest boundary point is, with the sign of the side."""

    needs_outputs = True

    def _place(self, rows):
        far = np.linalg.norm(rows.embedded - self._nearest(rows), axis=1, keepdims=True)
        return far * np.sign(rows.outputs[:, :1])


WAYS = {"WEG": WEG, "nearest point": Nearest, "displacement": Displacement, "normal": Normal, "depth": Depth}


def _evidence(kernel, graph, rows, Y):
    """The learned kernel, and what its last term adds in nats."""
    learned = learn_kernel(kernel.fit(graph, rows), rows, Y, np.zeros_like(Y))
    return learned, learned.nats_


def _score(kernel, rows, Y, test, truth):
    found = make_posterior(kernel, rows, Y, np.zeros_like(Y), "evidence", 0).predict(test)
    varies = truth.std(axis=0) > 1e-9 * np.abs(truth).max()
    unit = truth.std(axis=0)[varies]
    return nlpd(truth[:, varies] / unit, found.mean[:, varies] / unit, np.sqrt(found.variance[:, varies]) / unit)


def case(table, kind, seed):
    p = problem(table, kind, seed)
    settings = {"kernel": "weg", "similar": None, "n_boundary": 1_000, "background": p.background, "random_state": seed}
    g = gpec.GPEC(p.model, p.explainer, progress=False, **settings).fit(p.fit)
    fitted, graph, Y = g._fitted, g.graph_, np.asarray(g.attributions_.values)
    unseen = p.test[:TEST]
    truth = g.explain(unseen).values
    line = {"table": table, "kind": kind, "seed": seed, "nats": {}, "nlpd": {}, "instead": {}}

    for name, terms in {
        "none": (Own(), Rest(), Output()),
        **{name: (Own(), Rest(), Output(), way()) for name, way in WAYS.items()},
    }.items():
        matern = Matern(*terms)
        rows = fitted.rows_for(fitted.observations.rows, matern)
        kernel, nats = _evidence(matern, graph, rows, Y)
        key = terms[-1].__class__.__name__.lower()
        line["nats"][name] = 0.0 if name == "none" else nats.get(key, 0.0)
        line["nlpd"][name] = _score(kernel, rows, Y, fitted.rows_for(unseen, matern), truth)
    for name, rest in (("rest of the row", Rest), ("WEG", WEG), ("neither", None)):
        matern = Matern(Own(), Output()) if rest is None else Matern(Own(), Output(), rest())
        rows = fitted.rows_for(fitted.observations.rows, matern)
        kernel, _ = _evidence(matern, graph, rows, Y)
        line["instead"][name] = _score(kernel, rows, Y, fitted.rows_for(unseen, matern), truth)
    return line


def run():
    lines = []
    for table, kind in CASES[:-1]:
        for seed in SEEDS:
            lines.append(case(table, kind, seed))
            print(lines[-1], flush=True)
    return lines


def report(lines):
    out = ["| | " + " | ".join(f"{name}: nats, NLPD" for name in WAYS) + " | no boundary term: NLPD |"]
    out.append("|---|" + "---|" * (len(WAYS) + 1))
    for table, kind in CASES[:-1]:
        some = [line for line in lines if (line["table"], line["kind"]) == (table, kind)]

        def mean(part, name, some=some):
            return float(np.mean([line[part][name] for line in some]))

        cells = [f"{mean('nats', name):.0f}, {mean('nlpd', name):.2f}" for name in WAYS]
        out.append(f"| {table}, {kind} | " + " | ".join(cells) + f" | {mean('nlpd', 'none'):.2f} |")
    out += [
        "",
        "With the row's own value and the model's answer, what takes the place of the rest of the row? NLPD:",
        "",
        "| | the rest of the row | WEG | neither |",
        "|---|---|---|---|",
    ]
    for table, kind in CASES[:-1]:
        some = [line for line in lines if (line["table"], line["kind"]) == (table, kind)]
        cells = [f"{np.mean([line['instead'][name] for line in some]):.2f}" for name in some[0]["instead"]]
        out.append(f"| {table}, {kind} | " + " | ".join(cells) + " |")
    return out
