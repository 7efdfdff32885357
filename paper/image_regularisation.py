"""Tables 1, 5, 6, images: does uncertainty fall as networks are regularised?"""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._image_regularisation_report import parts, report, tables, verdicts
from paper._published import MEANS
from paper._regularisation_picture import draw_slopes
from paper._regularised import OURS
from paper._regularised_images import METHODS, as_printed, image_draw
from paper._runs import Run

__all__ = ["draw", "report", "run", "settings", "tables", "verdicts"]

_GREY = ("MNIST", "Fashion-MNIST")

_TOY = {
    "hidden": [20], "n_train": 1_000, "n_epochs": 15, "batch_size": 16, "n_pool": 300, "n_attributed": 12,
    "n_explained": 20, "n_images": 8, "n_compared": 4, "attacks": [12, 2], "n_steps": 10, "n_networks": 2,
    "n_learned": 30, "n_cxplain": 3,
}  # fmt: skip
_SMALL = {
    "hidden": [40], "n_train": 2_000, "n_epochs": 6, "batch_size": 32, "n_pool": 300, "n_attributed": 10,
    "n_explained": 40, "n_images": 30, "n_compared": 3, "attacks": [12, 1], "n_steps": 10, "n_networks": 2,
    "n_learned": 30, "n_cxplain": 5,
}  # fmt: skip
_PAPER = {
    "hidden": [700, 400, 200, 100], "n_train": 4_000, "n_epochs": 10, "batch_size": 64, "n_pool": 500,
    "n_attributed": 30, "n_explained": 100, "n_images": 100, "n_compared": 8, "attacks": [25, 2], "n_steps": 10,
    "n_networks": 3, "n_learned": 60, "n_cxplain": 10,
}  # fmt: skip

# A ResNet-18 of an eighth of the width, trained for half a minute, missed a class under Softplus: it has no boundary.
_COLOUR = _SMALL | {"hidden": [100], "n_train": 6_000, "n_epochs": 10, "n_pool": 1_000}


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    how = {
        "toy": {"digits": _TOY},
        "small": {**dict.fromkeys(_GREY, _SMALL), "CIFAR-10": _COLOUR},
        "paper": {**dict.fromkeys(_GREY, _PAPER), "CIFAR-10": _COLOUR},
    }[size]
    usual = {"toy": 1, "small": 2, "paper": 3}[size]
    draws = dict.fromkeys(how, seeds or usual)
    return {"image": how, "draws": draws}


def run(run: Run) -> None:
    for name, how in run.settings["image"].items():
        for seed in range(run.settings["draws"][name]):
            for what in ("l2", "beta"):
                run.once(
                    f"{name}, {what}, draw {seed}",
                    lambda name=name, what=what, seed=seed, how=how: image_draw(name, what, seed, how),
                )


def draw(run: Run) -> None:
    panels = []
    for what in ("l2", "beta"):
        for name, kind, draws in parts(run):
            if kind == what:
                numbers = {"GPEC, as the paper prints it": np.array([MEANS[as_printed(name), what]["GPEC"]])}
                numbers["GPEC, as published"] = draws["GPEC"]
                numbers |= {method: draws[method] for method in (*METHODS[1:], OURS) if method in draws}
                panels.append((name, what, numbers | {"real change": draws["actual"]}))
    figure = draw_slopes(panels)
    run.save(figure, "table1_images")
