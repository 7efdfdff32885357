"""The tables of ``benchmarks.trust``: mean over seeds and its standard error, with the bars beside them."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks._trust.problems import CASES, THREE_CLASSES

Results = list[dict[str, Any]]
Figure = Callable[[dict[str, Any]], float | None]

NAMES = {
    "census": "Census",
    "shoppers": "Online Shoppers",
    "german": "German Credit",
    "nhanes": "NHANES",
    "pima": "Pima",
    "breast": "Breast cancer",
    THREE_CLASSES: "California, 3 classes",
}
COVERAGE = (0.935, 0.965)
WORST_SLAB = 0.90
RANK = 0.80
CLEARLY = 0.3  # nats of NLPD
PAIRS = 12  # tables and models with two classes
MOST = 10  # of them
OURS = "gpec"
OF_THE_VALUE = "gpec, deviation of the value"
LABELS = {"the paper's kernel, scale learned": "gpec with the paper's kernel"}  # and all else that gpec learns


def report(found: dict[str, Any]) -> list[str]:
    return [line for part in parts(found).values() for line in (*part, "")][:-1]


def parts(found: dict[str, Any]) -> dict[str, list[str]]:
    """The tables by name."""
    results = found["cases"]
    return {
        "bars": _bars(results, found["cost"]),
        "similar": _similar(results),
        "value": _value(results),
        "kernels": _densities(results),
        "widths": _widths(results),
        "others": _others(results),
        "errors": _errors(results),
        "neighbours": _neighbours(results),
    }


def fill(page: str, tables: dict[str, list[str]]) -> str:
    """The page with each ``<!-- name -->`` to ``<!-- /name -->`` filled with that table."""
    for name, lines in tables.items():
        opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, inside, after = page.partition(opening)
        if inside:
            _, end, rest = after.partition(closing)
            page = "\n".join((before + opening, "", *lines, "", end + rest))
    return page


def _cases(results: Results) -> Iterable[tuple[str, Results]]:
    for table, kind in CASES:
        some = [one for one in results if (one["table"], one["kind"]) == (table, kind)]
        if some:
            yield f"{NAMES[table]}, {kind}", some


def mean(some: Results, figure: Figure) -> float:
    found = [value for value in map(figure, some) if value is not None]
    return float(np.mean(found)) if found else np.nan


def shown(some: Results, figure: Figure, form: str = ".3f") -> str:
    """Mean and standard error."""
    found = [value for value in map(figure, some) if value is not None]
    if not found:
        return ""
    error = f" ± {np.std(found, ddof=1) / np.sqrt(len(found)):{form}}" if len(found) > 1 else ""
    return f"{np.mean(found):{form}}{error}".replace("%", "") + ("%" if form.endswith("%") else "")


def _table(results: Results, columns: dict[str, tuple[Figure, str]]) -> list[str]:
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {name} | {' | '.join(shown(some, figure, form) for figure, form in columns.values())} |"
        for name, some in _cases(results)
    ]
    over = [[mean(some, figure) for figure, _ in columns.values()] for _, some in _cases(results)]
    means = [
        f"{value:{form}}" if np.isfinite(value) else ""
        for value, (_, form) in zip(_column_means(over), columns.values(), strict=True)
    ]
    return [*lines, f"| **mean** | {' | '.join(means)} |"]


def _column_means(rows: list[list[float]]) -> list[float]:
    return [float(np.mean([v for v in column if np.isfinite(v)] or [np.nan])) for column in zip(*rows, strict=True)]


def _similar(results: Results) -> list[str]:
    columns: dict[str, tuple[Figure, str]] = {
        "coverage": (lambda x: x["similar"]["coverage"], ".1%"),
        "after fit alone": (lambda x: x["similar"]["before"]["coverage"], ".1%"),
        "worst slab": (lambda x: x["similar"]["worst_slab"], ".1%"),
        "worst feature": (lambda x: x["similar"]["worst_feature"], ".1%"),
        "same attribution": (lambda x: x["similar"]["ties"], ".1%"),
        "coverage of the others": (lambda x: x["similar"]["uncertain"], ".1%"),
        "Spearman": (lambda x: x["similar"]["rank"], ".2f"),
    }
    return ["**Similar rows**, 95% intervals.", "", *_table(results, columns)]


def _value(results: Results) -> list[str]:
    columns: dict[str, tuple[Figure, str]] = {
        "coverage": (lambda x: x["value"]["auto"]["coverage"], ".1%"),
        "after fit alone": (lambda x: x["value_before"]["coverage"], ".1%"),
        "worst slab": (lambda x: x["value"]["auto"]["worst_slab"], ".1%"),
        "R2": (lambda x: x["value"]["auto"]["R2"], ".2f"),
        "R2, features alike": (lambda x: x["value"]["auto"]["R2_standardised"], ".2f"),
        "Spearman of deviation and error": (lambda x: x["value"]["auto"]["rank_error"], ".2f"),
    }
    return ['**The value**, 95% intervals of `attribution="posterior"`.', "", *_table(results, columns)]


def _densities(results: Results) -> list[str]:
    columns: dict[str, tuple[Figure, str]] = {
        **{kernel: (lambda x, kernel=kernel: x["value"][kernel]["nlpd"], ".2f") for kernel in ("auto", "rbf", "weg")},
        "best other less auto": (_nlpd_gain, ".2f"),
    }
    return ["**NLPD of standardised attributions** by kernel; lower is better.", "", *_table(results, columns)]


def _nlpd_gain(x: dict[str, Any]) -> float:
    value = x["value"]
    return min(value["rbf"]["nlpd"], value["weg"]["nlpd"]) - value["auto"]["nlpd"]


def _widths(results: Results) -> list[str]:
    columns: dict[str, tuple[Figure, str]] = {
        "auto": (lambda x: x["value"]["auto"]["width"], ".2f"),
        "rbf": (lambda x: x["value"]["rbf"]["width"], ".2f"),
        "weg": (lambda x: x["value"]["weg"]["width"], ".2f"),
        "forest": (lambda x: x["regressors"]["forest"]["width"], ".2f"),
        "boosting": (lambda x: x["regressors"]["boosting"]["width"], ".2f"),
        "forest, coverage": (lambda x: x["regressors"]["forest"]["coverage"], ".1%"),
        "boosting, coverage": (lambda x: x["regressors"]["boosting"]["coverage"], ".1%"),
        "forest, worst slab": (lambda x: x["regressors"]["forest"]["worst_slab"], ".1%"),
        "boosting, worst slab": (lambda x: x["regressors"]["boosting"]["worst_slab"], ".1%"),
    }
    return [
        "**Mean width** of calibrated 95% intervals of the value, in standard deviations of each attribution.",
        "",
        *_table(results, columns),
    ]


def _methods(results: Results) -> list[str]:
    named: dict[str, None] = {}
    for one in results:
        named.update(dict.fromkeys(one["peers"] or ()))
    return list(named)


def _peer(name: str, what: str) -> Figure:
    return lambda x: ((x["peers"] or {}).get(name) or {}).get(what)


def _peer_seeds(results: Results) -> str:
    seeds = sorted({one["seed"] for one in results if one["peers"]})
    return f"seed{'s' if len(seeds) > 1 else ''} {' and '.join(map(str, seeds))}"


def _others(results: Results) -> list[str]:
    columns = {LABELS.get(name, name): (_peer(name, "change"), ".2f") for name in _methods(results)}
    return [
        "**What others say**: Spearman's correlation, within features, with the root mean square change among similar "
        f"rows (60 test rows; {_peer_seeds(results)}).",
        "",
        *_table(results, columns),
    ]


def _errors(results: Results) -> list[str]:
    names = [name for name in _methods(results) if any(_peer(name, "error")(one) is not None for one in results)]
    return [
        "**The same, with the error of the value that each method gives itself** "
        f"(60 test rows; {_peer_seeds(results)}).",
        "",
        *_table(results, {LABELS.get(name, name): (_peer(name, "error"), ".2f") for name in names}),
    ]


def _neighbours(results: Results) -> list[str]:
    columns: dict[str, tuple[Figure, str]] = {"gpec: 0": (lambda x: x["similar"]["rank"], ".2f")}
    for k in ("1", "2", "4", "10"):
        columns[f"{k} explained"] = (lambda x, k=k: x["neighbours"]["runs"][k], ".2f")
    for k in ("1", "2", "4"):
        columns[f"{k}, scored on the others"] = (lambda x, k=k: x["neighbours"]["held_out"][k], ".2f")
    for name, title in (
        ("shapash", "unsteadiness, 10"),
        ("lipschitz", "Lipschitz, 10"),
        ("sensitivity", "sensitivity, 10"),
    ):
        columns[title] = (lambda x, name=name: x["neighbours"].get(name), ".2f")
    return [
        "**Explaining similar rows themselves**: Spearman's correlation with the change among all ten.",
        "",
        *_table(results, columns),
    ]


def _bars(results: Results, cost: dict[str, float] | None) -> list[str]:
    """What was asked for, what was found, and whether it is met."""
    cases = [(name, some) for name, some in _cases(results)]
    pairs = [(name, some) for name, some in cases if some[0]["table"] != THREE_CLASSES]

    def over(figure: Figure) -> dict[str, float]:
        return {name: mean(some, figure) for name, some in cases}

    lines = ["| asked for | found | met |", "|---|---|---|"]
    for title, part in (("similar rows", lambda x: x["similar"]), ("the value", lambda x: x["value"]["auto"])):
        found = over(lambda x, part=part: part(x)["coverage"])
        outside = {name: f"{100 * v:.1f}%" for name, v in found.items() if not COVERAGE[0] <= v <= COVERAGE[1]}
        lines.append(_bar(f"{title}: coverage 95 ± 1.5%", found.values(), ".1%", outside))
        found = over(lambda x, part=part: part(x)["worst_slab"])
        below = {name: f"{100 * v:.1f}%" for name, v in found.items() if v < WORST_SLAB}
        lines.append(_bar(f"{title}: worst slab 90%", found.values(), ".1%", below))
    ranks = list(over(lambda x: x["similar"]["rank"]).values())
    met = "yes" if np.mean(ranks) >= RANK else f"no, by {RANK - np.mean(ranks):.2f}"
    lines.append(
        f"| similar rows: Spearman 0.80, mean | {np.mean(ranks):.2f} ({min(ranks):.2f} to {max(ranks):.2f}) | {met} |"
    )
    gains = over(_nlpd_gain)
    clear, lower = sum(v >= CLEARLY for v in gains.values()), sum(v > 0 for v in gains.values())
    met = "yes" if lower == len(gains) and 2 * clear >= len(gains) else "no"
    lines.append(
        f"| the value: NLPD of auto below RBF and WEG on all, by 0.3 on half | below on {lower} of {len(gains)}, by "
        f"0.3 on {clear} | {met} |"
    )
    narrower = sum(
        mean(some, lambda x: x["value"]["auto"]["width"])
        < min(mean(some, lambda x, r=r: x["regressors"][r]["width"]) for r in ("forest", "boosting"))
        for _, some in pairs
    )
    lines.append(_count("the value: narrower than split conformal around a forest and boosting", narrower, len(pairs)))
    for name in _methods(results):
        if name in (OURS, OF_THE_VALUE):
            continue
        wins = [
            mean(some, _peer(OURS, "change")) > mean(some, _peer(name, "change"))
            for _, some in pairs
            if np.isfinite(mean(some, _peer(name, "change")))
        ]
        lines.append(_count(f"ahead of {LABELS.get(name, name)}: change among similar rows", sum(wins), len(wins)))
        wins = [
            mean(some, _peer(OF_THE_VALUE, "error")) > mean(some, _peer(name, "error"))
            for _, some in pairs
            if np.isfinite(mean(some, _peer(name, "error")))
        ]
        if wins:
            lines.append(_count(f"ahead of {LABELS.get(name, name)}: error of the value", sum(wins), len(wins)))
    if cost is not None:
        more = cost["gp"] / cost["explainer"]
        lines.append(
            f"| similar rows: at most 20% more time than KernelSHAP (its defaults, Census, {cost['rows']} rows) | "
            f"{more:.0%} ({cost['gp']:.2f} s beside {cost['explainer']:.2f} s) | {'yes' if more <= 0.2 else 'no'} |"
        )
    seeds = sorted({one["seed"] for one in results})
    return [f"{len(results)} cases, seeds {', '.join(map(str, seeds))}.", "", *lines]


def _bar(asked: str, found: Iterable[float], form: str, missed: dict[str, str]) -> str:
    found = list(found)
    met = "yes" if not missed else "not by " + "; ".join(f"{name} ({v})" for name, v in missed.items())
    return f"| {asked}, each | {min(found):{form}} to {max(found):{form}}, mean {np.mean(found):{form}} | {met} |"


def _count(asked: str, wins: int, of: int) -> str:
    needed = MOST if of == PAIRS else int(np.ceil(MOST / PAIRS * of))
    return f"| {asked}, on {MOST} of {PAIRS} | {wins} of {of} | {'yes' if wins >= needed else 'no'} |"
