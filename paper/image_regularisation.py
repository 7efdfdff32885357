"""Tables 1, 5, 6, images: does uncertainty fall as networks are regularised?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from paper._published import ERRORS, LEVELS, MEANS
from paper._regularisation_numbers import cells, change, percent, printed, verb
from paper._regularisation_picture import WORDS, draw_slopes
from paper._regularised_images import IMAGE_METHODS, image_draw
from paper._runs import Run, plus_minus

__all__ = ["draw", "report", "run", "settings"]


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    paper = size == "paper"
    return {
        "images": {"toy": [], "small": ["MNIST"], "paper": ["MNIST", "Fashion-MNIST"]}[size],
        "draws": seeds or 3,
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
    for name in s["images"]:
        for what in ("l2", "beta"):
            for seed in range(s["draws"]):
                run.once(
                    f"{name}, {what}, draw {seed}",
                    lambda name=name, what=what, seed=seed: image_draw(
                        name, what, LEVELS[name, what], seed, s["image"]
                    ),
                )


def draw(run: Run) -> None:
    panels = []
    for name, what, draws in _parts(run):
        numbers = {"GPEC, as the paper prints it": np.array([MEANS[name, what]["GPEC"]])}
        numbers["GPEC, as published"] = np.array([one["GPEC"] for one in draws])
        numbers |= {method: np.array([one[method] for one in draws]) for method in IMAGE_METHODS[1:]}
        panels.append((name, what, numbers | {"real change": np.array([one["actual"] for one in draws])}))
    if panels:
        figure = draw_slopes(panels)
        run.save(figure, "table1_images")
        plt.close(figure)


def _parts(run: Run) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for name in run.settings["images"]:
        for what in ("l2", "beta"):
            yield name, what, [run.values[f"{name}, {what}, draw {i}"] for i in range(run.settings["draws"])]


def report(run: Run) -> list[str]:
    parts = list(_parts(run))
    s = run.settings["image"]
    if not parts:
        return ["**Images** were not run at this size."]
    names = ", ".join(dict.fromkeys(name for name, _, _ in parts))
    left = [name for name in ("MNIST", "Fashion-MNIST", "CIFAR-10") if name not in names.split(", ")]
    found = [
        f"**Images.** {names}, as published but smaller: fully connected networks "
        f"784-{'-'.join(map(str, s['hidden']))}-10, {s['n_epochs']} epochs on {s['n_train']:,} images, "
        f"{run.settings['draws']} trainings; boundaries from {s['attacks'][0]} untargeted and "
        f"{s['attacks'][1]} targeted attacks a class (paper: 500 and 50), {s['n_explained']} explained and "
        f"{s['n_images']} test images ({s['n_perturbed']} for BayesSHAP, BayesLIME and the real changes of "
        "DeepLIFT among images half-way to the five nearest). Not run: CXPlain"
        + (f", {' and '.join(left)}" if left else "")
        + ", and our own interval over 7,840 attributions.",
        "",
        "| | | paper | least | middle | most regularised | last less first, paired |",
        "|---|---|---|---|---|---|---|",
    ]
    words = []
    for name, what, draws in parts:
        where = f"{name}, {WORDS[what]} {', '.join(f'{level:g}' for level in LEVELS[name, what])}"
        for method in IMAGE_METHODS:
            by_draw = np.array([one[method] for one in draws])
            theirs = printed(MEANS[name, what][method], ERRORS[name, what].get(method))
            found.append(f"| {where} | {method} | {theirs} | {cells(by_draw)} | {change(by_draw)} |")
        actual, right = (np.array([one[key] for one in draws]) for key in ("actual", "accuracy"))
        found.append(f"| {where} | **real change** of DeepLIFT | | {cells(actual, 6)} | {change(actual, 6)} |")
        found.append(f"| {where} | *accuracy* | | {cells(right)} | {change(right)} |")
        own = np.array([one["GPEC"] for one in draws])
        rank = np.array([np.mean(one["rank GPEC"]) for one in draws])
        words.append(
            f"{name}, {WORDS[what]}: GPEC's width {verb(own)} ({percent(own)}%), the real change {verb(actual)} "
            f"({percent(actual)}%); over images the two agree with a rank correlation of {plus_minus(rank, 2)}"
        )
    return [*found, "", "**Does it hold?** " + "; ".join(words) + "."]
