"""The fourth block in words: what really changes with regularisation, and who notices."""

from __future__ import annotations

import numpy as np

from paper._regularisation_numbers import (
    cells,
    notices,
    percent,
    table_draws,
    verb,
)
from paper._regularised import OURS
from paper._runs import Run, plus_minus

__all__ = ["SAID", "stability_lines"]

# Methods of the fourth block and their names there.
SAID = {
    "GPEC": "GPEC, published",
    "Naive-GP": "Naive-GP, published",
    "BayesSHAP": "BayesSHAP",
    "BayesLIME": "BayesLIME",
    "CXPlain": "CXPlain",
    OURS: OURS,
}


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
        f"![What is said against what is so](figures/{run.size}/table1_said_and_so.png)",
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
