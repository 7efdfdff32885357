"""Measure everything and write RESULTS.md: ``make bench``, or ``python -m benchmarks sampling inference`` for parts.

``python -m benchmarks report`` measures nothing and writes the page anew from results.json.
"""

import json
import os
import platform
import sys
from datetime import date
from importlib import import_module
from pathlib import Path

import gpec

HERE = Path(__file__).parent
PARTS = {
    "against_plain": (
        "Geodesics and kernel against a plain implementation of the paper",
        "Census (12 features), XGBoost, J = 5,000 and 10,000, nearest pairs, 100 explained and 100 queried rows, k "
        "= 10, noise 1e-4, unit scale. *plain*: networkx shortest paths from every point and dense J x J products, "
        "the eigenvalue repair it would need not counted; processor time, searches from a part of the points scaled "
        "up to all. *gpec*: everything from points to variances, the choice of lam and rho included; processor time. "
        "Both: the least of ten runs (J = 5,000) or four, taken in turn. The ratio depends on the processor. "
        "*error*, J = 5,000: mean absolute error of the variances as a share of their mean, against the plain "
        "implementation with the negative eigenvalues of G clipped. Against G as it comes the error says nothing: "
        "that G is indefinite, so its 'variances' are not variances (see the least one). The number of landmarks "
        "and the cut were chosen on seeds 0 to 4.",
    ),
    "sampling": ("Boundary points", "An XGBoost model on Census, nearest pairs."),
    "inference": ("Inference against the arithmetic limit", ""),
    "choices": (
        "Evidence behind the choices",
        "How many neighbours, which landmarks, and whether to clip the landmark kernel before or after projecting. "
        "Census, XGBoost, J = 5,000, default lam and rho, 100 explained and 100 queried rows.",
    ),
    "growth": (
        "Growth",
        "Each in a process of its own, best of two. Geodesics and kernel: processor time. The others: elapsed time; "
        "XGBoost on Census, 100 background rows, J = 5,000, 200 explained rows where nothing else is said.",
    ),
    "fit_cores": (
        "`fit` on both cores",
        "Census, 8,000 rows given, 200 explained against 100 background rows, J = 5,000. Seconds elapsed with "
        "`n_jobs=1` / `n_jobs=2`, best of three taken in turn; the bits of both are the same.",
    ),
    "auto_kernel": (
        "The learned kernel at work",
        "Seconds are of processor time. The machine was shared: KernelSHAP's own time for a row varied from 37 to 77 "
        "ms between the lines of the last table, so its ratios are rough; with 37 ms the last line would be 41 and 16 "
        "times. Most of the rows that refinement chooses are those whose intervals are to become narrower.",
    ),
    "boundary_terms": (
        "What the boundary is good for",
        "Tables, models and rows as in *Trust*, seeds 20 and 21, on which nothing was chosen. What each way to use the "
        "boundary adds to the log evidence beside the row's own value, the rest of the row and the model's answer (200 "
        "explained rows; 0: switched off, it adds less than one nat), and the NLPD of 150 unseen rows (80 for "
        "networks; lower is better).",
    ),
    "sizes": (
        "How many explained rows and boundary points",
        "Census (distinct rows, 8,000 of them given to `fit`), XGBoost with 100 trees of depth 4, TreeSHAP against "
        "25 background rows, calibrated on 200 rows; mean of two seeds on which nothing was chosen. Seconds are of "
        "processor time of one core, on a machine that was busy. Widths are of 95% intervals, in standard deviations "
        "of each attribution. *Spearman*: rank correlation, within a feature, of the width with the actual change "
        "among ten similar rows (60 rows).",
    ),
    "boundary_points": (
        "300 boundary points or 2,000",
        'Tables, models and rows as in *Trust*, mode "predict", 200 explained rows. Scores are in standard deviations '
        "of each attribution; lower is better.",
    ),
    "baselines": (
        "Data sets",
        "Five-fold cross-validation, stratified and shuffled: XGBoost with its defaults for tables (mean of three "
        "shuffles), 100 extra trees on raw pixels for images (one shuffle; AUROC one against all).",
    ),
    "bayes": ("BayesLIME, BayesSHAP and LIME", ""),
    "shapley": ("Shapley values", ""),
    "coalitions": (
        "KernelSHAP at equal numbers of model rows",
        "Root mean squared error of a Shapley value, over rows and seeds on which nothing was chosen, beside those "
        "of shapiq 1.8 and shap. The truth: exact trees, enumeration, terms of a polynomial, or 16 other runs of "
        "2,000. All pay for a coalition with one model row for each background row. Two rows of each; the "
        "others ran twice, gpec with 12 seeds, over which the variance is.",
    ),
    "rough": (
        "Many rows explained roughly, and budgets",
        "Tables, models and rows as in *Trust*, KernelSHAP against 10 background rows, seeds on which nothing was "
        "chosen. The truth is KernelSHAP with all samples (2d + 512 for each background row).",
    ),
    "cxplain": ("CXPlain", ""),
    "explainers": (
        "Every explainer on 100 rows",
        "Census, XGBoost on one thread, 100 background rows, each explainer with its defaults. Peers that go row by "
        "row are timed on 5 or 20 rows and scaled, and so is `exact`, on 10.",
    ),
    "trust": (
        "Do intervals keep what they promise?",
        "See docs/trust.md for what is measured, and what it means.",
    ),
    "dial": (
        "Some similar rows explained, the others predicted",
        'Tables, models and rows as in *Trust*, mode "predict". The bars were set beforehand; choices were made on '
        "seeds 20 to 22 and 90.",
    ),
    "explained": (
        'Mode "explain": intervals that are exact for each row',
        'Tables, models and explainers as in *Trust*, trees with "tree" against 100 background rows, networks with '
        "KernelSHAP; seeds on which nothing was chosen. *similar rows*: share of the ten similar rows inside the 95% "
        "interval. *further draws*: with 39 draws of a measurement error of 0.2 standard deviations in each column, "
        "the share of 20 further draws inside, with its standard error over rows; also in the predicted class and the "
        "decile of the output where it is least, and for the riskiest 2% of the rows given to `fit`.",
    ),
    "given": (
        "Attributions that users have already",
        "Trees and rows as in *Trust*, TreeSHAP of log-odds against 25 background rows, seeds that chose nothing. "
        "The values of up to 1,000 rows are given to `fit`, which learns from 500. Share of the ten similar "
        "rows inside the 95% interval, by brute force, with its standard error over rows: after `calibrate` on 200 "
        "other rows with the explainer, for the rows *learned from*, those *only shown*, and 150 *new* ones, whose "
        "values are given to `explain`; and *not calibrated*, without an explainer, for those only shown. *Spearman*: "
        "width and actual change, within a feature. Seconds of `fit` elapsed, on a machine that was busy.",
    ),
    "regression": (
        "Regressors: do intervals keep what they promise, and what do level sets tell?",
        "See docs/regression.md. XGBoost with TreeSHAP against 25 background rows (200 rows to calibrate, 150 to "
        "test), and a network of 32 and 16 units with KernelSHAP against 10 (150 and 80); 200 explained rows. Nats: "
        "what the distance along level sets adds to the log evidence of these 200 rows.",
    ),
    "endpoint": (
        "A model behind an endpoint",
        "A whole `fit` of 40 rows (4 in the first line), 8 features, KernelSHAP with 20 background rows, 100 rows a "
        "call. The server is a process on the same cores. A call takes 50 ms, and one in 20 is answered by status 503 "
        "after 50 ms, with the Retry-After of the second column. *asked again*: rows that were asked more than once, "
        "all by the check that the model answers the same twice. *ratio*: seconds over calls x 50 ms / calls at a time "
        "(target 1.3).",
    ),
    "networks": ("A network on MNIST", ""),
    "memory": ("Memory, and many rows", "Each in a process of its own."),
    "scale": (
        "What a row costs",
        "Microseconds of processor time of one core, best of three. A cheap model "
        "and a cheap explainer, whose own costs come on top; a kernel without boundary term, its lengths given; ten "
        "similar rows.",
    ),
    "distributed": ("A million rows on two workers", ""),
    "report_page": ("The report of 10,000 rows", ""),
    "page": (
        "The playground: slider to picture",
        "Headless Chromium, page and server on the same two cores; what an earlier move to the same place left is "
        "forgotten before each move.",
    ),
}


def main(chosen):
    store = HERE / "results.json"
    results = json.loads(store.read_text()) if store.exists() else {}
    for name in [name for name in chosen or PARTS if name != "report"]:
        print(f"== {name}", flush=True)
        results[name] = json.loads(json.dumps(import_module(f"benchmarks.{name}").run(), default=float))
        store.write_text(json.dumps(results, indent=1) + "\n")
    lines = [
        "# Benchmark results",
        "",
        f"gpec {gpec.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {date.today()}. "
        "Written by `make bench`. Each ratio is measured in one run; the sections of this "
        "page may come from runs of different days or commits, since parts can be run alone. Absolute times depend on "
        "the machine.",
    ]
    for name, (title, note) in PARTS.items():
        if name in results:
            lines += ["", f"## {title}", "", *([note, ""] if note else [])]
            lines += import_module(f"benchmarks.{name}").report(results[name])
    (HERE / "RESULTS.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
