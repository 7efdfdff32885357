"""Do intervals keep what they promise? Similar rows and values, beside what other methods say.

Each case (table, model, seed) is computed once and kept as a file of its own, so that a run that was interrupted goes
on where it stopped. ``GPEC_BENCH_CACHE`` names the folder, by default ``benchmarks/.cache``.
"""

import json
from importlib.util import find_spec
from pathlib import Path

from benchmarks._trust.case import Case, KnownTruth, measure
from benchmarks._trust.cost import cost
from benchmarks._trust.kept import folder, once
from benchmarks._trust.peers import calibrated_explanations, peers
from benchmarks._trust.problems import CASES
from benchmarks._trust.tables import fill, parts, report

__all__ = ["report", "run"]

PAGE = Path(__file__).parents[1] / "docs" / "trust.md"
PACKAGE = "calibrated-explanations"
PEER_SEEDS = (10, 11)  # on which other methods are run, too; these take longest, so one comes last
SEEDS = (10, 12, 13, 14, 11)  # nothing was chosen on them


def run():
    _once("cost", cost)
    for seed in SEEDS:
        for table, kind in CASES:
            _once(f"{table}-{kind}-{seed}", _case, table, kind, seed)
    if find_spec(PACKAGE.replace("-", "_")):  # it is no dependency, and may be installed later
        for seed in PEER_SEEDS:
            for table, kind in CASES:
                _once(f"{PACKAGE}/{table}-{kind}-{seed}", _calibrated, table, kind, seed)
    found = collect()
    PAGE.write_text(fill(PAGE.read_text(), parts(found)))
    return found


def collect():
    """What was computed so far."""
    cases = {path.stem: json.loads(path.read_text()) for path in sorted(_folder().glob("*.json"))}
    cost = cases.pop("cost", None)
    for path in (_folder() / PACKAGE).glob("*.json"):
        if path.stem in cases:
            cases[path.stem]["peers"][PACKAGE] = json.loads(path.read_text())
    return {"cost": cost, "cases": list(cases.values())}


def _once(name, function, *arguments):
    once(_folder() / f"{name}.json", function, *arguments)


def _case(table, kind, seed):
    case = Case(table, kind, seed)
    said = peers(case) if seed in PEER_SEEDS else None
    return {"table": table, "kind": kind, "seed": seed, **measure(case), "peers": said}


def _calibrated(table, kind, seed):
    return calibrated_explanations(KnownTruth(table, kind, seed))


def _folder():
    return folder("trust")
