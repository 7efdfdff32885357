"""Table 2, 3 and 4 in words."""

from __future__ import annotations

import numpy as np

from paper._methods import METHODS
from paper._report import Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus
from paper._times_numbers import (
    COMPARABLE,
    IMAGES,
    LEARNING,
    LEAST,
    PAPER_INFERENCE,
    PAPER_POINTS,
    PAPER_TRAINING,
    PERTURBING,
    comparable,
    logs_of,
    ours_of,
    slower,
)

__all__ = ["report", "tables", "verdicts"]

_TITLE = "Table 2, 3, 4"


def verdicts(run: Run) -> list[Claim]:
    names = list(run.settings["seeds"])
    pairs, learned = ([(name, method) for name in names for method in some] for some in (PERTURBING, LEARNING))
    ours, theirs = _factors(run, pairs)
    beaten = sum(slower(logs_of(run, *pair)) for pair in pairs)
    alike = sum(comparable(logs_of(run, *pair)) for pair in learned)
    return [
        Claim(
            "Table 2, 3, 4",
            "once fitted, faster than BayesSHAP and BayesLIME",
            f"{min(theirs):,.0f} to {max(theirs):,.0f} times",
            f"{min(ours):,.1f} to {max(ours):,.0f} times",
            judged(beaten, len(pairs)),
        ),
        Claim(
            "Table 2, 3, 4",
            "and comparable to Naive-GP and CXPlain",
            "comparable",
            f"within a factor of {COMPARABLE:g} in {alike} of {len(learned)} cases",
            judged(alike, len(learned)),
        ),
    ]


def report(run: Run) -> list[str]:
    s = run.settings
    names = list(s["seeds"])
    return [
        "## Table 2, 3, 4: how long does it take?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} What does a method cost once, in training, and what for "
        f"every {s['n_query']} rows, in inference? The paper finds GPEC's inference about as fast as that of Naive-GP "
        "and CXPlain, which learn beforehand, and far faster than perturbing every row. We time all in one run, in "
        "seconds of processor time. *Over GPEC* is a method's inference as a multiple of GPEC's.",
        "",
        "| paper / ours | GPEC's inference, s | "
        + " | ".join(f"{method} over GPEC" for method in PERTURBING)
        + " | GPEC's training, s |",
        "|---|---|" + "---|" * (1 + len(PERTURBING)),
        *(_short_line(run, name) for name in names),
        "",
        f"![Seconds of inference and training, ours and the paper's](figures/{run.size}/table02_times.png)",
        "",
        _holds(run),
        "",
        f"**Why they differ.** {_why(run)}",
        "",
        more(_TITLE),
    ]


def tables(run: Run) -> list[str]:
    s = run.settings
    names, how = list(s["seeds"]), s["images"]
    runs = ", ".join(f"{name} {seeds}" for name, seeds in s["seeds"].items())
    return [
        f"## {_TITLE}",
        "",
        f"Runs: {runs}; {s['n_explained']} explained rows, {s['n_boundary']:,} boundary points, "
        f"{s['n_samples']} perturbations; seconds of processor time, standard errors over runs; ratios are to GPEC in "
        "the same run.",
        "",
        f"| inference, {s['n_query']} rows | | paper, s | ours, s | paper, ratio | ours, ratio |",
        "|---|---|---|---|---|---|",
        *(_inference_line(run, name, method) for name in names for method in METHODS),
        "",
        "| training | | paper, s | ours, s | ours over paper |",
        "|---|---|---|---|---|",
        *(line for name in names for line in _training_lines(run, name)),
        "",
        "Share of GPEC's training that goes into sampling the boundary: "
        + ", ".join(f"{_share(run, name):.0%} on {name}" for name in names)
        + f"; in the paper, {_paper_shares(names)}.",
        "",
        "We find the boundary by bisection between rows of different classes; the paper attacks rows of tables without "
        "gradients. The time to explain the training rows, which GPEC and Naive-GP share, is left out: "
        + ", ".join(f"{name} {plus_minus(ours_of(run, name, 'explanations'), 1)} s" for name in names)
        + (
            f". MNIST has a network 784-{'-'.join(map(str, how['hidden']))}-10 (paper: 784-700-400-200-100-10), "
            f"{how['attacks'][0]} and {how['attacks'][1]} attacks a class (paper: 500 and 50), {how['n_networks']} "
            f"networks of CXPlain, and perturbs {how['n_perturbed']} images (scaled up to {s['n_query']}). "
            "Fashion-MNIST has the same sizes and was left out; CIFAR-10 was not timed, as the paper used a GPU."
            if IMAGES in names
            else ". Images were not timed."
        ),
    ]


def _ratio(run: Run, name: str, method: str) -> tuple[str, float]:
    """A method's inference over GPEC's: the paper's as text, and ours."""
    paper, base = PAPER_INFERENCE[name][method], PAPER_INFERENCE[name]["GPEC"]
    theirs = f"{paper / base:,.{0 if paper > 10 * base else 2}f}" if paper else f"< {LEAST / base:.2g}"
    return theirs, float(np.exp(logs_of(run, name, method).mean()))


def _short_line(run: Run, name: str) -> str:
    inference = f"{PAPER_INFERENCE[name]['GPEC']:,.2f} / {ours_of(run, name, 'inference', 'GPEC').mean():.3f}"
    ratios = [f"{theirs} / {ours:.3g}" for theirs, ours in (_ratio(run, name, method) for method in PERTURBING)]
    training = f"{60 * PAPER_TRAINING[name]['GPEC']:,.0f} / {ours_of(run, name, 'training', 'GPEC').mean():.1f}"
    return f"| {name} | {inference} | {' | '.join(ratios)} | {training} |"


def _factors(run: Run, pairs: list[tuple[str, str]]) -> tuple[list[float], list[float]]:
    """How many times GPEC's time others take: ours, and the paper's."""
    ours = [float(np.exp(logs_of(run, *pair).mean())) for pair in pairs]
    return ours, [PAPER_INFERENCE[name][method] / PAPER_INFERENCE[name]["GPEC"] for name, method in pairs]


def _inference_line(run: Run, name: str, method: str) -> str:
    paper, ratio = PAPER_INFERENCE[name][method], _ratio(run, name, method)[0]
    mean, error = mean_and_error(logs_of(run, name, method))
    own = f"{np.exp(mean):,.2f}" + (f" ± {np.exp(mean) * error:.2f}" if np.isfinite(error) and error > 0 else "")
    ours = plus_minus(ours_of(run, name, "inference", method))
    return f"| {name} | {method} | {paper:,.2f} | {ours} | {'1' if method == 'GPEC' else ratio} | {own} |"


def _training_lines(run: Run, name: str) -> list[str]:
    lines = []
    for word in ("GPEC", "sampling", *LEARNING):
        paper = 60 * PAPER_TRAINING[name][word]
        ours = ours_of(run, name, "sampling") if word == "sampling" else ours_of(run, name, "training", word)
        title = "of it, sampling" if word == "sampling" else word
        lines.append(f"| {name} | {title} | {paper:,.0f} | {plus_minus(ours, 2)} | {ours.mean() / paper:.1g} |")
    return lines


def _holds(run: Run) -> str:
    names = list(run.settings["seeds"])
    pairs, learned = ([(name, method) for name in names for method in some] for some in (PERTURBING, LEARNING))
    beaten = [pair for pair in pairs if slower(logs_of(run, *pair))]
    alike = [pair for pair in learned if comparable(logs_of(run, *pair))]
    ours, theirs = _factors(run, pairs)
    shares = [_share(run, name) for name in names]
    return (
        f"GPEC is faster than BayesSHAP and BayesLIME in {'all' if len(beaten) == len(pairs) else len(beaten)} of "
        f"{len(pairs)} comparisons: their time is {min(ours):,.1f} to {max(ours):,.0f} times GPEC's, in the paper "
        f"{min(theirs):,.0f} to {max(theirs):,.0f}. It is within a factor of {COMPARABLE:g} of Naive-GP and CXPlain in "
        f"{'all' if len(alike) == len(learned) else len(alike)} of {len(learned)}. Sampling the boundary takes "
        f"{min(shares):.0%} to {max(shares):.0%} of GPEC's training, in the paper {_paper_shares(names)}."
    )


def _share(run: Run, name: str) -> float:
    return float((ours_of(run, name, "sampling") / ours_of(run, name, "training", "GPEC")).mean())


def _paper_shares(names: list[str]) -> str:
    shares = [PAPER_TRAINING[name]["sampling"] / PAPER_TRAINING[name]["GPEC"] for name in names]
    return f"{min(shares):.0%} to {max(shares):.0%}" if len(shares) > 1 else f"{shares[0]:.0%}"


def _why(run: Run) -> str:
    def gain(method: str) -> float:
        """How many times the paper's seconds are ours; geometric mean over the data sets."""
        logs = [
            np.log(max(PAPER_INFERENCE[name][method], LEAST) / ours_of(run, name, "inference", method).mean())
            for name in run.settings["seeds"]
        ]
        return float(np.exp(np.mean(logs)))

    gains = {method: gain(method) for method in ("GPEC", *PERTURBING)}
    uneven = min(gains[method] for method in PERTURBING) > 3 * gains["GPEC"]
    return (
        "Two machines and two implementations. Our "
        + ", ".join(f"{method} takes 1/{factor:,.0f}" for method, factor in gains.items())
        + " of the paper's time. "
        + (
            "The last two gain most, as the perturbations of many rows go to the model in one call: we take much of "
            "the paper's gap for one of implementation. "
            if uneven
            else ""
        )
        + (
            f"GPEC has {run.settings['n_boundary']:,} boundary points on tables here and up to {PAPER_POINTS:,} in "
            "the paper, and its time grows with them. "
            if run.settings["n_boundary"] < PAPER_POINTS
            else ""
        )
    ).rstrip()
