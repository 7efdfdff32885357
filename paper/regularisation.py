"""Tables 1, 5, 6, tables: does uncertainty fall as regularisation grows? Do explanations really become more stable?"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._models import TABLES, column_names
from paper._published import MEANS
from paper._regularisation_numbers import by_draws, table_draws
from paper._regularisation_picture import draw_slopes
from paper._regularisation_report import report, verdicts
from paper._regularisation_tables import tables
from paper._regularisation_truth import SAID, lead
from paper._regularised import OURS, chosen_parameters, naive_draw, table_draw
from paper._runs import Run

__all__ = ["draw", "lead", "report", "run", "settings", "tables", "verdicts"]


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    toy = size == "toy"
    return {
        "tables": ["German Credit"] if toy else list(TABLES),
        "draws": seeds or {"toy": 2, "small": 10, "paper": 20}[size],
        "naive_draws": 2 if toy else 40,
        "table": {
            "gammas": [0, 10] if toy else [0, 5, 10],
            "n_explained": 40 if toy else 100,
            "n_query": 20 if toy else 100,
            "n_fresh": 40 if toy else 100,
            "n_compared": 12 if toy else 60,
            "n_boundary": {"toy": 60, "small": 500, "paper": 1_000}[size],
            "n_evidence": {"toy": 40, "small": 200, "paper": 500}[size],
            "n_pairs": {"toy": 120, "small": 1_500, "paper": 4_000}[size],
            "n_published": {"toy": 1, "small": 8, "paper": 10}[size],
            "n_stability": {"toy": 1, "small": 4, "paper": 6}[size],
            "local": ["BayesLIME"] if toy else ["BayesSHAP", "BayesLIME"],
            "kernel": "rbf" if toy else "auto",
            "n_networks": {"toy": 0, "small": 5, "paper": 10}[size],
        },
    }


def run(run: Run) -> None:
    s = run.settings
    for name in s["tables"]:
        parameters = run.once(f"{name}, parameters", lambda name=name: chosen_parameters(name, s["table"]))
        for seed in range(s["draws"]):
            run.once(
                f"{name}, draw {seed}",
                lambda name=name, seed=seed, parameters=parameters: table_draw(name, seed, s["table"], parameters),
            )
    first = s["tables"][0]
    run.once(f"{first}, columns", lambda: column_names(first))
    run.once(f"{first}, Naive-GP", lambda: [naive_draw(first, seed, s["table"]) for seed in range(s["naive_draws"])])


def draw(run: Run) -> None:
    figure = draw_slopes([(name, "gamma", _table_lines(run, name)) for name in run.settings["tables"]])
    run.save(figure, "table1_regularisation")
    _said_and_so(run)


def _table_lines(run: Run, name: str) -> dict[str, np.ndarray]:
    """Numbers by line of the chart, ``(draws, levels)``; two levels are the least and the most regularised."""
    draws = table_draws(run, name)
    some = [one["stability"] for one in draws if "stability" in one]
    return {
        "GPEC, as the paper prints it": np.array([MEANS[name, "gamma"]["GPEC"]]),
        "GPEC, as published": by_draws(draws, "published", "GPEC"),
        **{method: by_draws(draws, "ours", method) for method in draws[0]["ours"]},
        OURS: np.array([one["said"][OURS] for one in some]),
        "real change": np.array([one["actual"] for one in some]),
    }


def _said_and_so(run: Run) -> None:
    """What each method says of a row against how much its explanation really changes, in the unregularised model."""
    names = run.settings["tables"]
    methods = [method for method in SAID if method in table_draws(run, names[0])[0]["stability"]["said"]]
    figure, axes = plt.subplots(
        len(names), len(methods), figsize=(2.5 * len(methods), 2.6 * len(names) + 0.3), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for line, name in zip(axes, names, strict=True):
        draws = [one for one in table_draws(run, name) if "stability" in one]
        rows = [one["stability"]["rows"] for one in draws]
        actual = np.concatenate([one["actual"] for one in rows])
        for ax, method in zip(line, methods, strict=True):
            said = np.concatenate([one[method] for one in rows])
            ax.plot(actual, said, ".", color="#0072B2", markersize=4, alpha=0.5, markeredgewidth=0)
            rank = np.mean([one["stability"]["rank"][method][0] for one in draws])
            ax.set_title(f"{SAID[method] if name == names[0] else ''}\nrank {rank:.2f}", fontsize=10)
            ax.set_ylim(0, 1.05 * max(float(said.max()), 1e-12))
            ax.set_xlim(0, None)
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"{name}\nwidth that is said")
    figure.supxlabel("how much the attributions of similar rows really differ (root mean square, mean over features)")
    run.save(figure, "table1_said_and_so")
