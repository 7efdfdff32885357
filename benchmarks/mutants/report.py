"""The page docs/mutants.md, from results.jsonl and judged.json."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

PAGE = """# Would the tests notice a fault?

A small fault is put into a copy of the code: a `+` becomes a `-`, a 1 a 2, a `<` a `<=`. Then the tests run. If one
fails, the fault is *killed*. If all pass it *survived*: either the fault changes nothing that anyone could see
(*equivalent*), or a test is missing.

{table}

Measured on {day} with gpec {version}, on mutants drawn at random (seed 0). *Share*: killed of those tried that are not
equivalent, with its exact binomial 95% interval. {late} of the killed ran out of time.

*At first* is the share before tests were added for the survivors of this very sample. It is the fair estimate for
mutants that were not tried; *share* is too kind to be one. The aim is 90% in each room. The interval at first lies
above that in: {shown}. In the others more mutants must be tried.

## How to rerun

    make mutants N=200 SEED=0   # without N all of them, for many hours
    make mutants N=200 AGAIN=1  # those that survived, after tests were added
    make mutants N=0            # only this page

`JOBS=2` uses two processes. Results are kept in `benchmarks/mutants/results.jsonl`, and a run that was stopped goes
on. A greater `N` tries the same mutants first. Nothing is changed in the working tree.

## What is counted

The faults are those of cosmic-ray. Its own runner starts Python and reads all tests anew for each, so a small one in
`benchmarks/mutants` loads the libraries once, gives each fault a fork, and draws a sample. It runs the tests that reach
the changed statement: those of the room first, the fast ones first, then those of its neighbours, 30 seconds of them
at most. A mutant that takes twice as long and 40 seconds more counts as killed. Tests that fail without a fault are
not used.

Not counted, by rule:

- type annotations, docstrings, `__all__`, and everything inside `raise` and `warnings.warn`: no result depends on them;
- `@abstractmethod`: it speaks to authors of subclasses;
- arithmetic made bitwise, or the reverse: a `TypeError` at the first touch, which would flatter the tests;
- what is no Python: the star of a signature is taken for a product.

## Those that survived

{survivors}

## Killed by a test that was added for them

{added}
"""


def write_page(root: Path, every: dict[str, list[Any]], results: list[dict[str, Any]]) -> None:
    judged = json.loads((Path(__file__).parent / "judged.json").read_text("utf-8"))
    present = {mutant.key for known in every.values() for mutant in known}
    results = [result for result in results if result["key"] in present and result["outcome"] != "no code"]
    head = (
        "| room | mutants | tried | killed | equivalent | survived | share | 95% interval | at first | 95% interval |"
    )
    rows = [head, "|---|" + "---:|" * 9]
    rooms = [(room, len(known), [r for r in results if r["room"] == room]) for room, known in every.items()]
    for room, total, tried in [*rooms, ("all", sum(map(len, every.values())), results)]:
        count = Counter(_verdict(result, judged) for result in tried)
        count["added"] = sum(_added(result, judged) for result in tried)
        rows.append(f"| {room} | {total} | {len(tried)} | {_counts(count)} |")
    left = [result for result in results if result["outcome"] == "survived"]
    left.sort(key=lambda r: (r["module"], r["line"], r["key"]))
    page = PAGE.format(
        table="\n".join(rows),
        day=date.today(),
        version=_version(root),
        shown=", ".join(room for room, _, tried in rooms if _is_shown(tried, judged)) or "none",
        late=sum(result["outcome"] == "late" for result in results),
        survivors="\n".join(_entry(result, judged) for result in left) or "None.",
        added="\n".join(
            _line(result) + f"\n  killed by `{result['test'].removeprefix('tests/')}`."
            for result in results
            if _added(result, judged)
        )
        or "None.",
    )
    (root / "docs" / "mutants.md").write_text(page, "utf-8")


def _verdict(result: dict[str, Any], judged: dict[str, Any]) -> str:
    if result["outcome"] != "survived":
        return "killed"
    return "equivalent" if judged.get(result["key"], {}).get("verdict") == "equivalent" else "survived"


def _counts(count: Counter[str]) -> str:
    n = count["killed"] + count["survived"]
    cells = f"{count['killed']} | {count['equivalent']} | {count['survived']}"
    shares = [_share(count["killed"] - less, n) if n else " | " for less in (0, count["added"])]
    return f"{cells} | {' | '.join(shares)}"


def _share(killed: int, n: int) -> str:
    interval = binomtest(killed, n).proportion_ci(0.95)
    return f"{killed / n:.0%} | {interval.low:.0%} to {interval.high:.0%}"


def _added(result: dict[str, Any], judged: dict[str, Any]) -> bool:
    """Whether it is killed, but only since a test was added for it."""
    return result["outcome"] == "killed" and judged.get(result["key"], {}).get("verdict") == "test added"


def _is_shown(tried: list[dict[str, Any]], judged: dict[str, Any]) -> bool:
    verdicts = [_verdict(result, judged) for result in tried]
    n = len(tried) - verdicts.count("equivalent")
    killed = verdicts.count("killed") - sum(_added(result, judged) for result in tried)
    return bool(n and binomtest(killed, n).proportion_ci(0.95).low >= 0.9)


def _line(result: dict[str, Any]) -> str:
    where = f"{result['module'].removeprefix('src/gpec/')}, line {result['line']}"
    return f"- {where}: `{_short(result['before'])}` became `{_short(result['after'])}`,"


def _entry(result: dict[str, Any], judged: dict[str, Any]) -> str:
    judgement = judged.get(result["key"], {"verdict": "not judged yet", "why": ""})
    return f"{_line(result)}\n  **{judgement['verdict']}**. {judgement['why']}".rstrip()


def _short(code: str) -> str:
    return " ".join(code.split()).replace("`", "'") or "nothing"


def _version(root: Path) -> str:
    return (root / "src/gpec/_version.py").read_text("utf-8").split("__version__ = ")[1].strip().strip('"')
