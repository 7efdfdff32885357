"""The regularisation test in short: does uncertainty fall as models are regularised?"""

from __future__ import annotations

import numpy as np

from paper._published import MEANS
from paper._regularisation_numbers import by_draws, change, decreases, percent, table_draws, verdict
from paper._regularisation_tables import ASKED, WITHIN, naive_check
from paper._regularisation_truth import TITLE, noticed, really_falls
from paper._report import FAILS, HOLDS, PART, UNSETTLED, Claim, judged, more, overall
from paper._runs import Run, plus_minus

__all__ = ["fall", "report", "verdicts"]

_HEADING = "Table 1, 5, 6"


def fall(words: list[str]) -> str:
    """A verdict on "it falls" from what each table says: "falls", "rises" or "unsettled"."""
    if "falls" not in words:
        return FAILS if "rises" in words else UNSETTLED
    return HOLDS if set(words) == {"falls"} else PART


def _words(run: Run, block: str, method: str = "GPEC") -> list[str]:
    return [verdict(by_draws(table_draws(run, name), block, method)) for name in run.settings["tables"]]


def verdicts(run: Run) -> list[Claim]:
    tables = run.settings["tables"]
    printed = [name for name in tables if decreases(MEANS[name, "gamma"]["GPEC"])]
    found = []
    for what, block, paper in (
        ("as published", "published", f"on {len(printed)} of {len(tables)} tables"),
        ("one protocol for all", "ours", ""),
    ):
        words = _words(run, block)
        ours = f"falls on {words.count('falls')}, rises on {words.count('rises')} of {len(tables)}"
        found.append(Claim(_HEADING, f"GPEC's width falls with regularisation, {what}", paper, ours, fall(words)))
    off = naive_check(run)
    if off is not None:
        found.append(
            Claim(
                _HEADING, "a check of the protocol: Naive-GP on Census", ", ".join(f"{one:g}" for one in ASKED),
                f"off by {', '.join(f'{one:.3f}' for one in off)}", judged(int((off <= WITHIN).sum()), len(off)),
            )
        )  # fmt: skip
    falling, seen = really_falls(run), noticed(run, "GPEC")
    return [
        Claim(
            TITLE, "regularisation makes explanations more stable", "not asked",
            f"on {len(falling)} of {len(tables)} tables", judged(len(falling), len(tables)),
        ),
        Claim(
            TITLE, "GPEC as published notices", "not asked", f"on {len(seen)} of {len(tables)} tables",
            judged(len(seen), len(tables)),
        ),
        *found,
    ]  # fmt: skip


def report(run: Run) -> list[str]:
    tables, s = run.settings["tables"], run.settings["table"]
    printed = [name for (name, _), rows in MEANS.items() if decreases(rows["GPEC"])]
    asked = [one.verdict for one in verdicts(run) if "width falls" in one.claim]
    gammas = ", ".join(f"{gamma:g}" for gamma in s["gammas"])
    return [
        f"## {_HEADING}: does uncertainty fall as regularisation grows?",
        "",
        f"{overall(asked)} A regularised model is simpler, so its explanations should be less uncertain. In the "
        f"paper's Table 1 GPEC's mean width falls at every step in {len(printed)} of {len(MEANS)} rows. We run its "
        "protocol again (*as published*), with the number J of boundary points *made equal*, and with *one protocol* "
        "for all methods, in units of the attributions. Changes are from the first gamma, XGBoost's penalty on leaves, "
        "to the last.",
        "",
        f"| | paper, gamma {gammas} | as published | J made equal | one protocol, GPEC | Naive-GP | attributions |",
        "|---|---|---|---|---|---|---|",
        *(_line(run, name) for name in tables),
        "",
        _in_short(run),
        "",
        f"![Width against regularisation](figures/{run.size}/table1_regularisation.png)",
        "",
        f"**Why they differ.** {_why(run)}",
        "",
        more(_HEADING),
    ]


def _line(run: Run, name: str) -> str:
    draws = table_draws(run, name)
    paper = ", ".join(f"{number:g}" for number in MEANS[name, "gamma"]["GPEC"] or ())
    own, equal = (change(by_draws(draws, "published", what)) for what in ("GPEC", "GPEC, equal J"))
    ours, naive = (percent(by_draws(draws, "ours", method)) for method in ("GPEC", "Naive-GP"))
    size = percent(np.array([one["size"] for one in draws]))
    return f"| {name} | {paper} | {own} | {equal} | {ours}% | {naive}% | {size}% |"


def _in_short(run: Run) -> str:
    """For how many tables the claim holds, by each measure."""
    falls = {
        what: _words(run, block, method).count("falls")
        for what, block, method in (
            ("own", "published", "GPEC"), ("equal", "published", "GPEC, equal J"), ("ours", "ours", "GPEC"),
            ("naive", "ours", "Naive-GP"),
        )
    }  # fmt: skip
    draws = {name: table_draws(run, name) for name in run.settings["tables"]}
    sizes = {name: np.array([one["size"] for one in some]) for name, some in draws.items()}
    shares = {name: by_draws(some, "ours", "GPEC") / sizes[name] for name, some in draws.items()}
    return (
        f"Of {len(run.settings['tables'])} tables, GPEC's width falls beyond its error on {falls['own']} as published, "
        f"on {falls['equal']} with J made equal, and on {falls['ours']} with one protocol."
        + (f" So does Naive-GP's, on {falls['naive']}, and it knows nothing of the boundary." if falls["naive"] else "")
        + f" The attributions themselves get smaller on {_falling(run, sizes)} (last column); as a share of their "
        f"size, GPEC's width falls on {_falling(run, shares)}."
    )


def _falling(run: Run, numbers: dict[str, np.ndarray]) -> int:
    return sum(verdict(numbers[name]) == "falls" for name in run.settings["tables"])


def _why(run: Run) -> str:
    gained, always, n = [], 0, 0
    for name in run.settings["tables"]:
        draws = table_draws(run, name)
        counts = np.array([one["J"] for one in draws if "J" in one], dtype=float)
        own, equal = (by_draws(draws, "published", what) for what in ("GPEC", "GPEC, equal J"))
        gained += list((own / equal - 1)[counts > 1.1 * counts.min(axis=1, keepdims=True)])
        always, n = always + sum(decreases(one) for one in own), n + len(own)
    text = (
        f"The paper has one draw; of our {n} draws of its protocol the width falls throughout in {always}. Its process "
        "has unit scale, whatever the attributions are. And J differs between its columns"
    )
    if len(gained) > 1:
        text += (
            ", which moves the level: with over a tenth more points it is "
            f"{plus_minus(100 * np.array(gained), 0)}% wider"
        )
    return text + "."
