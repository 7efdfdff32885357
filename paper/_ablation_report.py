"""Fig. 6 and 13 in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._report import FAILS, HOLDS, Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus

__all__ = [
    "BAYES", "DRAWN", "ERRORS", "EXPLAINERS", "FEW", "MANY", "MEAN", "RESAMPLED", "adds_up", "exceeds", "report",
    "tables", "verdicts",
]  # fmt: skip

BAYES, MEAN, DRAWN = "BayesSHAP", "Shapley sampling", "Shapley sampling, background rows drawn"
EXPLAINERS = (BAYES, MEAN, DRAWN)
MANY, FEW = 200, 5  # samples
RESAMPLED = 10  # explanations behind each variance of Shapley sampling (Eq. 3)
ERRORS = 4.0  # standard errors that count as more than Monte-Carlo error, as there are many cells
_TITLE = "Fig. 6, 13"


def adds_up(gaps: Any) -> bool:
    """Whether combined variance and the sum of its parts agree, to a hundred-thousandth of the prior variance."""
    return bool(np.max(gaps) < 1e-5)


def exceeds(one: Any, other: Any) -> bool:
    """Whether the first is larger, draw by draw: the logarithm of their ratio, beyond two standard errors."""
    mean, error = mean_and_error(np.log(np.maximum(one, 1e-12)) - np.log(np.maximum(other, 1e-12)))
    return bool(mean - 2 * error > 0)


def _keys(run: Run) -> list[tuple[str, str]]:
    return [(name, explainer) for name in run.settings["planes"] for explainer in EXPLAINERS]


def _gaps(run: Run) -> list[float]:
    return [gap for key in _keys(run) for gap in _draws(run, *key, "gap")]


def _noisier(run: Run, other: str) -> list[str]:
    """The planes on which BayesSHAP's noise part exceeds that of another explainer."""
    return [
        name
        for name in run.settings["planes"]
        if exceeds(*(_draws(run, name, e, "noise part") for e in (BAYES, other)))
    ]


def _lower(run: Run) -> float:
    """The largest share of cells whose variance fewer samples lower beyond error."""
    return max(share for key in _keys(run) for share in _draws(run, *key, "share lower beyond error"))


def verdicts(run: Run) -> list[Claim]:
    names = run.settings["planes"]
    noisier, fair = _noisier(run, MEAN), _noisier(run, DRAWN)
    return [
        Claim(
            "Fig. 6, 13",
            "boundary and explainer's noise add up",
            "by eye",
            f"to {max(_gaps(run)):.0e} of the prior variance",
            HOLDS if adds_up(_gaps(run)) else FAILS,
        ),
        Claim(
            "Fig. 6, 13",
            "BayesSHAP is noisier than Shapley sampling",
            "by eye",
            f"on {len(noisier)} of {len(names)} planes; on {len(fair)} with the same background",
            judged(len(noisier) + len(fair), 2 * len(names)),
        ),
        Claim(
            "Fig. 6, 13",
            f"with {FEW} samples, not {MANY}, uncertainty falls nowhere",
            "at no point",
            "at no point beyond Monte-Carlo error" if _lower(run) == 0 else f"at up to {_lower(run):.1%} of the points",
            HOLDS if _lower(run) == 0 else FAILS,
        ),
    ]


def report(run: Run) -> list[str]:
    names = run.settings["planes"]
    fair = _noisier(run, DRAWN)
    return [
        "## Fig. 6, 13: do the two parts of the uncertainty add up?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} GPEC adds the uncertainty that the boundary leaves to the "
        "explainer's own noise. The paper shows both parts, finds more noise in BayesSHAP than in Shapley sampling, "
        f"and says that {FEW} samples instead of {MANY} lower the uncertainty nowhere. Below are mean variances, times "
        "10,000. Shapley sampling replaces absent features by the mean row, as in the reference code; *drawn*, by "
        "background rows, as BayesSHAP does.",
        "",
        *_short_table(run),
        "",
        f"![Combined variance, boundary part and noise part](figures/{run.size}/fig06_ablation.png)",
        "",
        _holds(run),
        "",
        "**Why they differ.** Shapley sampling from one mean row has little to vary: two features have only two "
        "orders. Where both explainers draw background rows, BayesSHAP's noise exceeds the other's "
        + _where(fair, names)
        + ("." if fair else ": the advice to prefer Shapley sampling is about the baseline, not about the explainer."),
        "",
        more(_TITLE),
    ]


def tables(run: Run) -> list[str]:
    s = run.settings
    least = min(z for key in _keys(run) for z in _draws(run, *key, "least change in errors"))
    return [
        f"## {_TITLE}",
        "",
        f"{s['draws']} draws of {s['n_train']} training rows, {s['runs']} runs of the explainer on each, "
        f"lambda {s['lam']:g}, rho {s['rho']:g}; variances under unit scale, times 10,000. Shapley sampling starts "
        f"from the mean row, as in the reference code; its variance comes from {RESAMPLED} runs (Eq. 3). A second "
        "version draws background rows instead, as BayesSHAP does:",
        "",
        *_table(run),
        "",
        f"The least change from {MANY} to {FEW} samples is {least:.1f} standard errors (where the variance is the "
        "prior's already, none is possible); Monte-Carlo error is taken to be "
        f"{ERRORS:g} of them, as there are many cells. The reference code lifts every variance to at least 1e-4, which "
        f"would hide most of both parts at {MANY} samples; here the floor is 1e-6. `gpec`'s own Shapley sampling pairs "
        "each order with its reverse, so that with two features it is exact and its noise part is 0.",
        "",
        f"![Variance with {MANY} and with {FEW} samples, and the difference](figures/{run.size}/fig13_samples.png)",
    ]


def _short_table(run: Run) -> list[str]:
    titles = [f"{word}, {n}" for word in ("BayesSHAP", "Shapley", "drawn") for n in (MANY, FEW)]
    lines = [f"| noise part, samples | boundary part | {' | '.join(titles)} |", "|---|" + "---|" * (1 + len(titles))]
    for name in run.settings["planes"]:
        cells = [_scaled(run, name, BAYES, "boundary part", 0)]
        cells += [_scaled(run, name, e, what, 0) for e in EXPLAINERS for what in ("noise part", "noise part, few")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _table(run: Run) -> list[str]:
    lines = [
        f"| plane | explainer | boundary part | noise part, {MANY} samples | noise part, {FEW} samples | share of "
        "cells higher |",
        "|---|---|---|---|---|---|",
    ]
    for name, explainer in _keys(run):
        cells = [_scaled(run, name, explainer, what, 2) for what in ("boundary part", "noise part", "noise part, few")]
        cells.append(f"{np.mean(_draws(run, name, explainer, 'share higher')):.1%}")
        lines.append(f"| {name} | {explainer} | {' | '.join(cells)} |")
    return lines


def _holds(run: Run) -> str:
    gaps, lower = _gaps(run), _lower(run)
    return (
        f"The parts {'add up' if adds_up(gaps) else 'do NOT add up'}: they differ from the paper's Eq. 2, "
        f"solved by itself, by at most {max(gaps):.0e} of the prior variance. "
        f"BayesSHAP's noise part exceeds Shapley sampling's {_where(_noisier(run, MEAN), run.settings['planes'])}, "
        "beyond two standard errors. "
        + (
            "Fewer samples lower the variance of no cell by more than Monte-Carlo error."
            if lower == 0
            else f"Fewer samples lower the variance of up to {lower:.1%} of the cells by more than Monte-Carlo error."
        )
    )


def _where(held: list[str], names: list[str]) -> str:
    if len(held) == len(names):
        return "on " + ("both planes" if len(names) > 1 else names[0])
    return f"only on {held[0]}" if held else "on neither plane" if len(names) > 1 else f"not on {names[0]}"


def _draws(run: Run, name: str, explainer: str, what: str) -> list[float]:
    return [run.values[f"{name}, draw {i}"][explainer][what] for i in range(run.settings["draws"])]


def _scaled(run: Run, name: str, explainer: str, what: str, digits: int) -> str:
    return plus_minus(1e4 * np.array(_draws(run, name, explainer, what)), digits)
