"""The fourth block in words: what really changes with regularisation, and who notices."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._regularisation_numbers import (
    cells,
    notices,
    percent,
    table_draws,
    verb,
    verdict,
)
from paper._regularised import OURS
from paper._runs import Run, plus_minus

__all__ = ["SAID", "TITLE", "lead", "noticed", "really_falls", "stability_lines"]

TITLE = "What the paper lacks"

# Methods of the fourth block and their names there.
SAID = {
    "GPEC": "GPEC, published",
    "Naive-GP": "Naive-GP, published",
    "BayesSHAP": "BayesSHAP",
    "BayesLIME": "BayesLIME",
    "CXPlain": "CXPlain",
    OURS: OURS,
}


def _some(run: Run, name: str) -> list[dict[str, Any]]:
    """The draws of a table in which the truth was counted."""
    return [one["stability"] for one in table_draws(run, name) if "stability" in one]


def _methods(run: Run) -> list[str]:
    return list(_some(run, run.settings["tables"][0])[0]["said"])


def _actual(run: Run, name: str) -> np.ndarray:
    return np.array([one["actual"] for one in _some(run, name)])


def _said(run: Run, name: str, method: str) -> np.ndarray:
    return np.array([one["said"][method] for one in _some(run, name)])


def noticed(run: Run, method: str) -> list[str]:
    """The tables on which a method's width goes the way of the truth."""
    return [name for name in run.settings["tables"] if notices(_said(run, name, method), _actual(run, name))]


def really_falls(run: Run) -> list[str]:
    """The tables on which explanations really become more stable."""
    return [name for name in run.settings["tables"] if verdict(_actual(run, name)) == "falls"]


def mean_rank(run: Run, method: str) -> float:
    """How well a method tells which rows are unstable: rank correlation, mean over tables and models."""
    return float(
        np.mean([np.mean([one["rank"][method] for one in _some(run, name)]) for name in run.settings["tables"]])
    )


def lead(run: Run) -> list[str]:
    """The fourth block in short, as a section of its own."""
    tables, s, methods = run.settings["tables"], run.settings["table"], _methods(run)
    falling = really_falls(run)
    ranks = {method: mean_rank(run, method) for method in methods}
    best = max(methods, key=lambda method: ranks[method])
    lines = [f"| **real change** | {' | '.join(f'{percent(_actual(run, name))}%' for name in tables)} | | |"]
    for method in methods:
        changes = " | ".join(f"{percent(_said(run, name, method))}%" for name in tables)
        lines.append(
            f"| {SAID[method]} | {changes} | {len(noticed(run, method))} of {len(tables)} | {ranks[method]:.2f} |"
        )
    return [
        f"## {TITLE}: do explanations really become more stable, and who notices?",
        "",
        f"**Explanations become more stable on {_of(falling, tables)}; GPEC as published notices on "
        f"{_of(noticed(run, 'GPEC'), tables)}.** Behind all of the paper's claims stands a question that it does not "
        "ask: where a method says that an explanation is uncertain, do explanations of similar rows *really* differ? "
        "We train XGBoost without regularisation (gamma 0) and with much of it (gamma "
        f"{s['gammas'][-1]}), go half of the way from a test row to its ten nearest training rows, explain these "
        "similar rows exactly, and take the root mean square change. A method *notices* if its width goes the way of "
        "the truth, beyond its error. *Rank* is its rank correlation with the truth over rows: 1 if it knows which "
        "rows are unstable, 0 if not. The last line is this package's own interval for similar rows.",
        "",
        f"| change of the width | {' | '.join(tables)} | notices | rank |",
        "|---|" + "---|" * (len(tables) + 2),
        *lines,
        "",
        f"![What is said against what is so](figures/{run.size}/table1_said_and_so.png)",
        "",
        (
            "The best guide is our own interval: it asks the model about similar rows, which no other method does. "
            if best == OURS
            else f"The best guide is {SAID[best]}, ahead of our own interval ({ranks[OURS]:.2f}). "
        )
        + "GPEC's width tells whether an explained row is near the same piece of boundary; it never looks at an "
        "attribution.",
        "",
        "All numbers: [block 4](TABLES.md#table-1-5-6).",
    ]


def _of(some: list[str], names: list[str]) -> str:
    return f"{len(some)} of {len(names)} tables"


def stability_lines(run: Run) -> list[str]:
    tables, s = run.settings["tables"], run.settings["table"]
    ends = (s["gammas"][0], s["gammas"][-1])
    methods = list(table_draws(run, tables[0])[0]["stability"]["said"])
    found = [
        f"**Block 4: what the paper lacks.** Do explanations really become more stable? For {s['n_compared']} "
        f"test rows of each of {s['n_stability']} draws, ten similar rows (half of the way to the ten nearest "
        "training rows) are explained by exact TreeSHAP, and the root mean square change of each attribution is "
        "the truth. Beside it stands what each method says of the same rows and models. *Notices* means that what "
        f"is said changes from gamma {ends[0]} to {ends[1]} in the direction of the truth, 0 lying outside the 95% "
        "interval of the paired changes; *rank* is Spearman's correlation over rows, within features, of what is "
        "said with the truth.",
        "",
        f"| | | gamma {ends[0]} | gamma {ends[1]} | change in % | notices | rank at {ends[0]} | rank at {ends[1]} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in tables:
        some = [one["stability"] for one in table_draws(run, name) if "stability" in one]
        actual = np.array([one["actual"] for one in some])
        found.append(f"| {name} | **real change** | {cells(actual, 4)} | {percent(actual)} | | | |")
        for method in methods:
            said = np.array([one["said"][method] for one in some])
            ranks = np.array([one["rank"][method] for one in some])
            noticing = "yes" if notices(said, actual) else "no"
            found.append(
                f"| {name} | {SAID[method]} | {cells(said)} | {percent(said)} | {noticing} | "
                f"{plus_minus(ranks[:, 0], 2)} | {plus_minus(ranks[:, 1], 2)} |"
            )
    return [
        *found,
        "",
        _stability_words(run, methods),
    ]


def _stability_words(run: Run, methods: list[str]) -> str:
    words, ranks, noticed = [], {}, {}
    for name in run.settings["tables"]:
        some = [one["stability"] for one in table_draws(run, name) if "stability" in one]
        actual, relative = (np.array([one[what] for one in some]) for what in ("actual", "relative"))
        words.append(
            f"On {name} the real change {verb(actual)} ({percent(actual)}%), and as a share of the "
            f"attributions' size it {verb(relative)} ({percent(relative)}%)"
        )
        for method in methods:
            said = np.array([one["said"][method] for one in some])
            noticed[method] = noticed.get(method, 0) + notices(said, actual)
            ranks.setdefault(method, []).append(np.mean([one["rank"][method] for one in some]))
    best = max(methods, key=lambda method: float(np.mean(ranks[method])))
    counts = ", ".join(f"{SAID[method]} on {noticed[method]}" for method in methods)
    order = ", ".join(f"{SAID[method]} {np.mean(ranks[method]):.2f}" for method in methods)
    return (
        "**Does regularisation make explanations more stable, and who notices?** "
        + ". ".join(words)
        + f". Of {len(run.settings['tables'])} tables the change is noticed by: {counts}. Which rows are unstable "
        f"is told by, mean rank correlation: {order}. The best of them is {SAID[best]}"
        + (
            ": it asks the model about the similar rows themselves, which no other method does."
            if best == OURS
            else f", ahead of our own interval ({np.mean(ranks[OURS]):.2f})."
        )
    )
