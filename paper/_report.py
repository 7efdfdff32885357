"""The report: a first page of verdicts, a short section for each result, and an appendix with every number.

A script has ``report(run)``, its section of RESULTS.md. It may have ``tables(run)``, its section of TABLES.md,
``verdicts(run)``, its lines of the first page, and ``lead(run)``, a section that stands before all others.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from paper._runs import HERE, Run

__all__ = ["FAILS", "HOLDS", "PART", "UNSETTLED", "Claim", "Part", "appendix", "judged", "more", "overall", "results"]

HOLDS, PART, FAILS, UNSETTLED = "holds", "holds in part", "fails", "unsettled"
_VERBS = {
    HOLDS: ("holds", "hold"),
    PART: ("holds in part", "hold in part"),
    FAILS: ("fails", "fail"),
    UNSETTLED: ("is unsettled", "are unsettled"),
}
Part = tuple[Any, Run]  # a script, and what it found
_PLACE = "<!-- claims -->"  # in opening.md


class Claim(NamedTuple):
    """A line of the first page."""

    where: str  # how the heading of its section begins: "Fig. 5"
    claim: str
    paper: str
    ours: str
    verdict: str


def judged(held: int, asked: int) -> str:
    """What is to be said of a claim that was tested in several cases."""
    return HOLDS if held == asked else PART if held else FAILS


def overall(words: list[str]) -> str:
    """One word for several verdicts, as a bold beginning of a section; what holds nowhere does not hold in part."""
    word = words[0] if len(set(words)) == 1 else PART if {HOLDS, PART} & set(words) else FAILS
    return f"**{word[0].upper()}{word[1:]}.**"


def slug(title: str) -> str:
    """The place of a heading, as forges and the site make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def more(title: str) -> str:
    """The line that ends a section: where the rest of its numbers is."""
    return f"All numbers: [{title}](TABLES.md#{slug(title)})."


def results(parts: list[Part]) -> str:
    """RESULTS.md."""
    leads = [lead for script, run in parts if (lead := _made(script, "lead", run))]
    sections = [*leads, *(script.report(run) for script, run in parts)]
    headings = [line[3:] for lines in sections for line in lines if line.startswith("## ")]
    claims = [claim for script, run in parts for claim in _made(script, "verdicts", run)]
    opening = (HERE / "opening.md").read_text().replace(_PLACE, "\n".join(_summary(claims, headings)))
    return _joined(opening, sections, (HERE / "closing.md").read_text())


def appendix(parts: list[Part]) -> str:
    """TABLES.md; each section leads back to where it is summed up."""
    sections = []
    for script, run in parts:
        title, *lines = _made(script, "tables", run) or [""]
        if title:
            heading = next((line[3:] for line in script.report(run) if line.startswith("## ")), "")
            back = ["", f"In short: [{heading}](RESULTS.md#{slug(heading)})."] if heading else []
            sections.append([title, *back, *lines])
    opening, closing = ((HERE / name).read_text().rstrip() for name in ("appendix.md", "choices.md"))
    return _joined(opening, sections, closing)


def _made(script: Any, what: str, run: Run) -> list[Any]:
    return getattr(script, what)(run) if hasattr(script, what) else []


def _joined(opening: str, sections: list[list[str]], closing: str) -> str:
    return "\n\n".join([opening.rstrip(), *("\n".join(lines).strip() for lines in sections), closing.strip()]) + "\n"


def _summary(claims: list[Claim], headings: list[str]) -> list[str]:
    """The table of all claims in the order of their sections, and how many hold."""
    if not claims:
        return ["Nothing has been run yet."]
    places = [
        next((i for i, title in enumerate(headings) if title.startswith(f"{one.where}:")), None) for one in claims
    ]
    order = sorted(zip(places, claims, strict=True), key=lambda found: len(headings) if found[0] is None else found[0])
    counts = Counter(one.verdict for one in claims)
    told = [f"{counts[word]} {_VERBS[word][counts[word] > 1]}" for word in _VERBS if counts[word]]
    return [
        f"Of {len(claims)} claims {', '.join(told)}.",
        "",
        "| where | claim | paper | ours | verdict |",
        "|---|---|---|---|---|",
        *(f"| {_link(one, place, headings)} | {' | '.join(one[1:4])} | **{one.verdict}** |" for place, one in order),
    ]


def _link(one: Claim, place: int | None, headings: list[str]) -> str:
    return one.where if place is None else f"[{one.where}](#{slug(headings[place])})"
