"""Tables 1, 5, 6: does uncertainty fall as regularisation grows? And do explanations really become more stable?"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._models import TABLES, column_names
from paper._published import LEVELS, MEANS
from paper._regularisation_numbers import by_draws, image_parts, table_draws
from paper._regularisation_report import lines
from paper._regularisation_truth import SAID, WORDS
from paper._regularised import OURS, chosen_parameters, naive_draw, table_draw
from paper._regularised_images import IMAGE_METHODS, image_draw
from paper._runs import Run

__all__ = ["draw", "report", "run", "settings"]

# The colours of Okabe and Ito, and a mark for each method.
_LOOK = {
    "GPEC, as the paper prints it": ("#888888", "x", ":"),
    "GPEC, as published": ("#0072B2", "o", "--"),
    "GPEC": ("#0072B2", "o", "-"),
    "Naive-GP": ("#E69F00", "s", "-"),
    "BayesSHAP": ("#009E73", "^", "-"),
    "BayesLIME": ("#CC79A7", "v", "-"),
    "CXPlain": ("#56B4E9", "D", "-"),
    OURS: ("#D55E00", "P", "-"),
    "real change": ("#000000", "*", "-"),
}


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    toy, paper = size == "toy", size == "paper"
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
        "images": {"toy": [], "small": ["MNIST"], "paper": ["MNIST", "Fashion-MNIST"]}[size],
        "image_draws": 3,
        "image": {
            "hidden": [700, 400, 200, 100] if paper else [100, 50],
            "n_train": 10_000 if paper else 4_000,
            "n_epochs": 20 if paper else 4,
            "n_pool": 1_000 if paper else 300,
            "n_explained": 100 if paper else 40,
            "n_images": 100 if paper else 30,
            "n_perturbed": 20 if paper else 6,
            "attacks": [100, 10] if paper else [20, 3],
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
    for name in s["images"]:
        for what in ("l2", "beta"):
            for seed in range(s["image_draws"]):
                run.once(
                    f"{name}, {what}, draw {seed}",
                    lambda name=name, what=what, seed=seed: image_draw(
                        name, what, LEVELS[name, what], seed, s["image"]
                    ),
                )


def draw(run: Run) -> None:
    _slopes(run)
    _said_and_so(run)


def report(run: Run) -> list[str]:
    return lines(run)


def _slopes(run: Run) -> None:
    """Width against regularisation, in percent of the width without, for each data set and method."""
    panels = [(name, "gamma", _table_lines(run, name)) for name in run.settings["tables"]]
    for name, what, draws in image_parts(run):
        numbers = {"GPEC, as the paper prints it": np.array([MEANS[name, what]["GPEC"]])}
        numbers["GPEC, as published"] = np.array([one["GPEC"] for one in draws])
        numbers |= {method: np.array([one[method] for one in draws]) for method in IMAGE_METHODS[1:]}
        panels.append((name, what, numbers | {"real change": np.array([one["actual"] for one in draws])}))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    size = (4.1 * columns, 3.6 * rows + 0.7)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, sharey=True)
    shown: dict[str, Any] = {}
    for ax, (name, what, numbers) in zip(axes.flat, panels, strict=False):
        levels = LEVELS[name, what]
        for method in (method for method in _LOOK if method in numbers):
            shown[method] = _slope(ax, numbers[method], len(levels), list(_LOOK).index(method))
        ax.axhline(100, color="#888888", linewidth=0.8)
        ax.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        ax.set_xlabel(f"{WORDS[what]} (more regularised to the right)")
        ax.set_title(name)
        ax.set_ylim(0, 135)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("mean width, % of the leftmost")
    order = [method for method in _LOOK if method in shown]
    named = [{"GPEC": "GPEC, scale learned"}.get(method, method) for method in order]
    figure.legend([shown[method] for method in order], named, loc="outside lower center", ncols=5, frameon=False)
    run.save(figure, "table1_regularisation")
    plt.close(figure)


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


def _slope(ax: Any, by_draw: np.ndarray, n_levels: int, place: int) -> Any:
    share = 100 * by_draw / by_draw[:, :1]
    error = share.std(axis=0, ddof=1) / np.sqrt(len(share)) if len(share) > 1 else None
    method = list(_LOOK)[place]
    color, mark, style = _LOOK[method]
    at = np.linspace(0, n_levels - 1, share.shape[1]) + 0.025 * (place - len(_LOOK) / 2)
    return ax.errorbar(
        at, share.mean(axis=0), yerr=error, color=color, marker=mark, markersize=5, capsize=2, linewidth=1.4,
        linestyle=style, markerfacecolor="white" if style == "--" else color,
    )  # fmt: skip


def _said_and_so(run: Run) -> None:
    """What each method says of a row against how much its explanation really changes, in the unregularised model."""
    tables = run.settings["tables"]
    methods = [method for method in SAID if method in table_draws(run, tables[0])[0]["stability"]["said"]]
    figure, axes = plt.subplots(
        len(tables), len(methods), figsize=(2.5 * len(methods), 2.6 * len(tables) + 0.3), layout="constrained",
        squeeze=False,
    )  # fmt: skip
    for line, name in zip(axes, tables, strict=True):
        draws = [one for one in table_draws(run, name) if "stability" in one]
        rows = [one["stability"]["rows"] for one in draws]
        actual = np.concatenate([one["actual"] for one in rows])
        for ax, method in zip(line, methods, strict=True):
            said = np.concatenate([one[method] for one in rows])
            ax.plot(actual, said, ".", color="#0072B2", markersize=4, alpha=0.5, markeredgewidth=0)
            rank = np.mean([one["stability"]["rank"][method][0] for one in draws])
            ax.set_title(f"{SAID[method] if name == tables[0] else ''}\nrank {rank:.2f}", fontsize=10)
            ax.set_ylim(0, 1.05 * max(float(said.max()), 1e-12))
            ax.set_xlim(0, None)
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(f"{name}\nwidth that is said")
    figure.supxlabel("how much the attributions of similar rows really differ (root mean square, mean over features)")
    run.save(figure, "table1_said_and_so")
    plt.close(figure)
