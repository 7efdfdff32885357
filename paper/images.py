"""Fig. 8: images with the upper and the lower bound of their superpixels' attributions."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import gpec
from paper._image_intervals import LEVEL, image_draw
from paper._images_report import CLASSES, report, tables, verdicts
from paper._runs import Run

__all__ = ["draw", "report", "run", "settings", "tables", "verdicts"]

_PUBLISHED = {"digits": 16, "MNIST": 196, "Fashion-MNIST": 196, "CIFAR-10": 96}  # superpixels


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    flat = {
        "toy": {"hidden": (32,), "n_train": 1_200, "n_epochs": 15, "batch_size": 32},
        "small": {"hidden": (200, 100), "n_train": 6_000, "n_epochs": 8, "batch_size": 64},
        "paper": {"hidden": (700, 400, 200, 100), "n_train": 5_000, "n_epochs": 8, "batch_size": 64},
    }[size]
    resnet = {"hidden": 0.125, "n_train": 3_000, "n_epochs": 8, "batch_size": 32}
    names = ["digits"] if size == "toy" else ["MNIST", "Fashion-MNIST", "CIFAR-10"]
    return {
        "networks": {name: resnet if name == "CIFAR-10" and size == "paper" else flat for name in names},
        "superpixels": {name: {"published": _PUBLISHED[name], "ours": 16 if size == "toy" else 30} for name in names},
        "draws": seeds or {"toy": 1, "small": 1, "paper": 2}[size],
        "n_samples": 200,
        "width of a superpixel": "median of its pixels",
        "n_pool": {"toy": 600, "small": 2_000, "paper": 2_000}[size],
        "n_explained": {"toy": 10, "small": 20, "paper": 40}[size],
        "n_images": {"toy": 4, "small": 6, "paper": 8}[size],
        "attacks": {"toy": (15, 15), "small": (60, 60), "paper": (100, 50)}[size],
    }


def run(run: Run) -> None:
    for draw in range(run.settings["draws"]):
        for name in run.settings["networks"]:
            run.once(f"{name}, draw {draw}", lambda name=name, draw=draw: image_draw(run.settings, name, draw))


def draw(run: Run) -> None:
    for block, figure_name in (("BayesLIME's noise", "fig08_images_published"), ("ours", "fig08_images")):
        names = list(run.settings["networks"])
        figure, axes = plt.subplots(
            4, len(names), figsize=(3.4 * len(names) + 0.6, 11), layout="constrained", squeeze=False
        )
        for column, name in zip(axes.T, names, strict=True):
            _draw_column(column, run, name, block)
        words = (
            "scale learned, similar images" if block == "ours" else "as published, with BayesLIME's variance as noise"
        )
        figure.suptitle(f"BayesLIME with GPEC's {100 * LEVEL:.0f}% intervals,\n{words}")
        run.save(figure, figure_name)


def _draw_column(column: Any, run: Run, name: str, block: str) -> None:
    found = run.values[f"{name}, draw 0"]
    image, panel = np.array(found["image"]), found["panel"][block]
    values, half = (np.broadcast_to(np.array(panel[key]), image.shape).ravel() for key in ("values", "half"))
    word = CLASSES[name][found["class"]]
    # Every interval is symmetric, so a normal one of the same width has the same bounds.
    e = gpec.Explanation(
        values, (half / norm.ppf((1 + LEVEL) / 2)) ** 2, np.zeros_like(half), None, None, image.ravel(),
        feature_names=[str(i) for i in range(image.size)], output_names=word, confidence_level=LEVEL,
        axes=("feature",),
    )  # fmt: skip
    gpec.plots.image(e, ax=column, shape=image.shape, picture=True)
    n = found["facts"][block][0]["superpixels"]
    column[0].set_title(f"{name}: {word}, p = {found['probability']:.2f}\n{n} superpixels", fontsize="medium")
