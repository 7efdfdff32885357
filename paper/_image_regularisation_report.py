"""The regularisation test of networks in words: what is said, what is so, and who notices."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._published import ERRORS, LEVELS, MEANS
from paper._regularisation_numbers import cells, change, decreases, notices, percent, printed, verdict
from paper._regularisation_picture import WORDS
from paper._regularised import OURS
from paper._regularised_images import METHODS, as_printed
from paper._report import FAILS, HOLDS, PART, UNSETTLED, Claim, judged, more, overall
from paper._runs import Run, plus_minus

__all__ = ["Part", "parts", "report", "tables", "verdicts"]

_TITLE = "Table 1, images"
_NAMES = {"GPEC": "GPEC, published", "Naive-GP": "Naive-GP, published"}
Part = tuple[str, str, dict[str, np.ndarray]]  # data set, what is varied, and numbers by draw and level


def parts(run: Run) -> list[Part]:
    """What was found for each data set and way to regularise."""
    found = []
    for name, n in run.settings["draws"].items():
        for what in ("l2", "beta"):
            draws = [run.values[f"{name}, {what}, draw {seed}"] for seed in range(n)]
            found.append((name, what, {key: np.array([one[key] for one in draws], dtype=float) for key in draws[0]}))
    return found


def _words(found: list[Part], key: str) -> list[str]:
    return [verdict(numbers[key]) for _, _, numbers in found]


def _count(words: list[str]) -> str:
    counts = {word: words.count(word) for word in ("falls", "rises", "unsettled")}
    return f"falls on {counts['falls']}, rises on {counts['rises']}, unsettled on {counts['unsettled']} of {len(words)}"


def _judged(words: list[str]) -> str:
    """Of the claim that all fall."""
    if "falls" not in words:
        return FAILS if "rises" in words else UNSETTLED
    return HOLDS if set(words) == {"falls"} else PART


def verdicts(run: Run) -> list[Claim]:
    found = parts(run)
    theirs = sum(decreases(MEANS[as_printed(name), what]["GPEC"]) for name, what, _ in found)
    said, so = (_words(found, key) for key in ("GPEC", "actual"))
    seen = len(_noticed(found, "GPEC"))
    return [
        Claim(
            _TITLE, "GPEC's width falls as networks are regularised", f"falls at every step on {theirs} of "
            f"{len(found)}", _count(said), _judged(said),
        ),
        Claim(
            _TITLE, "explanations of similar images really become more stable", "not asked", _count(so), _judged(so)
        ),
        Claim(
            _TITLE, "GPEC as published notices", "not asked", f"on {seen} of {len(found)}", judged(seen, len(found))
        ),
    ]  # fmt: skip


def _noticed(found: list[Part], method: str) -> list[str]:
    """Where a method was run and its width goes the way of the truth, beyond its own error."""
    return [
        f"{name}, {WORDS[what]}"
        for name, what, numbers in found
        if method in numbers and notices(numbers[method], numbers["actual"])
    ]


def _rank(found: list[Part], method: str) -> float:
    return float(np.mean([numbers[f"rank {method}"].mean() for _, _, numbers in found if method in numbers]))


def _run_methods(found: list[Part]) -> list[str]:
    return [method for method in (*METHODS, OURS) if any(method in numbers for _, _, numbers in found)]


def report(run: Run) -> list[str]:
    found = parts(run)
    said, so = (_words(found, key) for key in ("GPEC", "actual"))
    methods = _run_methods(found)
    ranks = {method: _rank(found, method) for method in methods}
    best = max(methods, key=lambda method: ranks[method])
    return [
        f"## {_TITLE}: does uncertainty fall as networks are regularised?",
        "",
        f"{overall([one.verdict for one in verdicts(run)[:1]])} GPEC's width {_count(said)} rows of the table; the "
        f"paper's falls at every step on "
        f"{sum(decreases(MEANS[as_printed(name), what]['GPEC']) for name, what, _ in found)}. Networks are regularised "
        "by an l2 penalty on their weights or by Softplus in place of ReLU, smoother the smaller its "
        f"beta; {_draws(run)} trainings of each. The *real change* is that of DeepLIFT's attributions of 4 x 4 "
        "patches among images half-way to the five nearest. From the least to the most regularised:",
        "",
        f"| change, % | {' | '.join(f'{name}, {WORDS[what]}' for name, what, _ in found)} | notices | rank |",
        "|---|" + "---|" * (len(found) + 2),
        f"| **real change** | {' | '.join(percent(numbers['actual']) for _, _, numbers in found)} | | |",
        *(_line(found, method, ranks[method]) for method in methods),
        "",
        f"![Mean widths against regularisation](figures/{run.size}/table1_images.png)",
        "",
        f"The real change {_count(so)}. *Notices* and *rank* are as for tables; {_NAMES.get(best, best)} has the best "
        f"rank. {_acted(found)}",
        "",
        more(_TITLE),
    ]


def _draws(run: Run) -> str:
    counts = run.settings["draws"]
    if len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{n} ({name})" for name, n in counts.items())


def _line(found: list[Part], method: str, rank: float) -> str:
    shown = [percent(numbers[method]) if method in numbers else "" for _, _, numbers in found]
    seen, asked = len(_noticed(found, method)), sum(method in numbers for _, _, numbers in found)
    return f"| {_NAMES.get(method, method)} | {' | '.join(shown)} | {seen} of {asked} | {rank:.2f} |"


def _acted(found: list[Part]) -> str:
    """Whether the penalty had a chance to act: what it did to the weights."""
    shares = {name: percent(numbers["weights"]) for name, what, numbers in found if what == "l2"}
    fell = [name for name, what, numbers in found if what == "l2" and verdict(numbers["weights"]) == "falls"]
    listed = ", ".join(f"{share}% ({name})" for name, share in shares.items())
    return (
        f"The penalty did act: the norm of the weights changes by {listed}."
        if len(fell) == len(shares)
        else f"The penalty hardly acted on {', '.join(name for name in shares if name not in fell)}: the norm of the "
        f"weights changes by {listed}."
    )


def tables(run: Run) -> list[str]:
    """Every number."""
    found = parts(run)
    lines = [
        f"## {_TITLE}",
        "",
        "Means and standard errors over trainings, each with images of its own. *As published*: 4 sigma of a process "
        "of unit scale for GPEC and Naive-GP, half a width for BayesSHAP and BayesLIME, a full one for CXPlain, whose "
        "attributions are shares of a loss. *Real change*, *ours* and *rank* speak of 4 x 4 patches of the image and "
        "all ten classes, 160 attributions an image instead of one a pixel; a method's width of a patch is the mean "
        "of its pixels'. *Covered* is the share of the similar images' attributions within our 95% interval.",
        "",
        *(f"- {_protocol(run, name)}" for name in run.settings["image"]),
        "",
        "| | | paper | least | middle | most regularised | last less first, paired | verdict | rank |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, what, numbers in found:
        where = f"{name}, {WORDS[what]} {', '.join(f'{level:g}' for level in LEVELS[as_printed(name), what])}"
        lines += [f"| {where} | {line} |" for line in _all_lines(as_printed(name), what, numbers)]
    return lines


def _all_lines(name: str, what: str, numbers: dict[str, np.ndarray]) -> list[str]:
    lines = []
    for method in (*METHODS, OURS):
        theirs = printed(MEANS[name, what][method], ERRORS[name, what].get(method)) if method in METHODS else ""
        if method not in numbers:
            lines.append(f"{method} | {theirs} | not run | | | | | ")
            continue
        rank = plus_minus(numbers[f"rank {method}"].mean(axis=1), 2)
        lines.append(f"{_NAMES.get(method, method)} | {theirs} | {_shown(numbers[method])} | {rank}")
    for key, title in {
        "actual": "**real change**", "relative": "as a share of the attributions", "covered": "*covered*",
        "accuracy": "*accuracy*", "weights": "*norm of the weights*", "J": "*boundary points a class*",
    }.items():  # fmt: skip
        lines.append(f"{title} | | {_shown(numbers[key])} | ")
    return lines


def _shown(by_draw: np.ndarray) -> str:
    return f"{cells(by_draw)} | {change(by_draw)} | {verdict(by_draw)}"


def _protocol(run: Run, name: str) -> str:
    s: dict[str, Any] = run.settings["image"][name]
    kind = f"fully connected, {'-'.join(map(str, s['hidden']))} hidden units"
    if name == "CIFAR-10":
        kind += " (paper: ResNet-18)"
    return (
        f"{name}: {kind}, {s['n_epochs']} epochs on {s['n_train']:,} images, {run.settings['draws'][name]} trainings; "
        f"the boundary from {s['attacks'][0]} untargeted and {s['attacks'][1]} targeted attacks a class (paper: 500 "
        f"and 50) of {s['n_steps']} steps on {s['n_pool']:,} images; {s['n_explained']} explained and {s['n_images']} "
        f"test images for GPEC; DeepLIFT of {s['n_attributed']} images for Naive-GP and ours; {s['n_compared']} test "
        f"images for BayesSHAP, BayesLIME, ours and the real change; {s['n_networks']} networks for CXPlain, learned "
        f"from {s['n_learned']} images."
    )
