"""Fig. 8: images with the upper and the lower bound of their superpixels' attributions."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import gpec
from paper._image_intervals import BLOCKS, LEVEL, image_draw
from paper._runs import Run, mean_and_error, plus_minus

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_WORDS = {
    "digits": _NUMBERS,
    "MNIST": _NUMBERS,
    "Fashion-MNIST": (
        "T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
    ),
    "CIFAR-10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
}  # fmt: skip
_PUBLISHED = {"digits": 16, "MNIST": 196, "Fashion-MNIST": 196, "CIFAR-10": 96}  # superpixels


def settings(size: str, seeds: int | None) -> dict[str, Any]:
    flat = {
        "toy": {"hidden": (32,), "n_train": 1_200, "n_epochs": 15, "batch_size": 32},
        "small": {"hidden": (200, 100), "n_train": 6_000, "n_epochs": 8, "batch_size": 64},
        "paper": {"hidden": (700, 400, 200, 100), "n_train": 60_000, "n_epochs": 30, "batch_size": 128},
    }[size]
    resnet = {"hidden": 0.125, "n_train": 60_000, "n_epochs": 10, "batch_size": 128}
    names = ["digits"] if size == "toy" else ["MNIST", "Fashion-MNIST", "CIFAR-10"]
    return {
        "networks": {name: resnet if name == "CIFAR-10" and size == "paper" else flat for name in names},
        "superpixels": {name: {"published": _PUBLISHED[name], "ours": 16 if size == "toy" else 30} for name in names},
        "draws": seeds or {"toy": 1, "small": 1, "paper": 3}[size],
        "n_samples": 200,
        "width of a superpixel": "median of its pixels",
        "n_pool": {"toy": 600, "small": 2_000, "paper": 10_000}[size],
        "n_explained": {"toy": 10, "small": 20, "paper": 100}[size],
        "n_images": {"toy": 4, "small": 6, "paper": 20}[size],
        "attacks": {"toy": (15, 15), "small": (60, 60), "paper": (500, 50)}[size],
    }


def run(run: Run) -> None:
    for name in run.settings["networks"]:
        for draw in range(run.settings["draws"]):
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
        plt.close(figure)


def _draw_column(column: Any, run: Run, name: str, block: str) -> None:
    found = run.values[f"{name}, draw 0"]
    image, panel = np.array(found["image"]), found["panel"][block]
    values, half = (np.broadcast_to(np.array(panel[key]), image.shape).ravel() for key in ("values", "half"))
    word = _WORDS[name][found["class"]]
    # Every interval is symmetric, so a normal one of the same width has the same bounds.
    e = gpec.Explanation(
        values, (half / norm.ppf((1 + LEVEL) / 2)) ** 2, np.zeros_like(half), None, None, image.ravel(),
        feature_names=[str(i) for i in range(image.size)], output_names=word, confidence_level=LEVEL,
        axes=("feature",),
    )  # fmt: skip
    gpec.plots.image(e, ax=column, shape=image.shape, picture=True)
    n = found["facts"][block][0]["superpixels"]
    column[0].set_title(f"{name}: {word}, p = {found['probability']:.2f}\n{n} superpixels", fontsize="medium")


def numbers(run: Run, name: str, block: str, part: str, what: str) -> np.ndarray:
    """One number for each picture that has superpixels of this kind."""
    facts = [fact for d in range(run.settings["draws"]) for fact in run.values[f"{name}, draw {d}"]["facts"][block]]
    return np.array([fact[part][what] for fact in facts if part in fact])


def ratios(run: Run, name: str, block: str, what: str) -> np.ndarray:
    """Blank over object, for each picture."""
    facts = [fact for d in range(run.settings["draws"]) for fact in run.values[f"{name}, draw {d}"]["facts"][block]]
    both = [fact for fact in facts if "blank" in fact and fact["object"][what] > 0]
    return np.array([fact["blank"][what] / fact["object"][what] for fact in both])


def compare(ratio: Any) -> str:
    """Whether blank superpixels have wider intervals than the object: a word by mean and standard error."""
    ratio = np.asarray(ratio, dtype=float)
    if np.abs(ratio - 1).max() < 1e-4:
        return "equal"
    mean, error = mean_and_error(ratio)
    return "wider" if mean - 2 * error > 1 else "narrower" if mean + 2 * error < 1 else "not different"


def report(run: Run) -> list[str]:
    s = run.settings
    names = list(s["networks"])
    grey = [name for name in names if len(ratios(run, name, BLOCKS[0], "width"))]
    verdicts = {block: {name: compare(ratios(run, name, block, "width")) for name in grey} for block in BLOCKS}
    held = [name for name in grey if any(verdicts[block][name] == "wider" for block in BLOCKS[:2])]
    return [
        "## Fig. 8: what do the intervals say about images?",
        "",
        "**Question.** An image is explained by its superpixels: patches of like colour that are there or not. Does "
        "the interval of each help to read the picture?",
        "",
        "**The paper** shows one image each of MNIST, Fashion-MNIST and CIFAR-10 with the upper and the lower bound of "
        "BayesLIME's attributions, over 196, 196 and 96 superpixels. It says that the interval improves the "
        "interpretation, and that it is especially wide for background pixels of MNIST and Fashion-MNIST. "
        "It gives no numbers.",
        "",
        f"**We find** ({s['n_images'] * s['draws']} test images of one class for each data set, ± standard error over "
        "images; "
        + "; ".join(_network(run, name) for name in names)
        + f"; {s['n_explained']} images explained, {s['n_samples']} perturbations each). On MNIST and "
        "Fashion-MNIST a blank superpixel is one without ink. Taking it away changes nothing, so its true attribution "
        "is 0, and an interval that excludes 0 there is a false alarm:",
        "",
        "| data set | intervals | superpixels | width, object | width, blank | blank / object | excludes 0, object "
        "| excludes 0, blank |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(run, name, block) for name in names for block in BLOCKS),
        "",
        "*Equal noise* is the paper's protocol (unit scale, noise 1e-4). *BayesLIME's noise* puts BayesLIME's own "
        "variance in its place. *Ours* learns the scale and speaks of similar images, over fewer superpixels.",
        "",
        f"![As published: image, upper bound, value, lower bound](figures/{run.size}/fig08_images_published.png)",
        "",
        f"![Ours: image, upper bound, value, lower bound](figures/{run.size}/fig08_images.png)",
        "",
        f"**Does it hold?** Intervals as published are wider where the image is blank {_on(held, grey)}. "
        + " ".join(f"{block[0].upper()}{block[1:]}: {_verdicts(verdicts[block])}." for block in BLOCKS)
        + " The sign is firm, as the interval excludes 0, for these shares of the superpixels on the object "
        f"(of a photograph, of all): as published with {BLOCKS[1]} {_firm(run, names, BLOCKS[1])}; "
        f"ours {_firm(run, names, BLOCKS[2])}.",
        "",
        "**Why they differ.** " + _why(run, grey, verdicts),
    ]


def _network(run: Run, name: str) -> str:
    right = 100 * np.mean([run.values[f"{name}, draw {d}"]["accuracy"] for d in range(run.settings["draws"])])
    how, word = run.settings["networks"][name], _WORDS[name][run.values[f"{name}, draw 0"]["class"]]
    kind = "fully connected" if isinstance(how["hidden"], list) else f"ResNet-18 of {how['hidden']:g} times the width"
    return f"{name}: {word}, {kind}, trained on at most {how['n_train']:,} images, {right:.0f}% right"


def _line(run: Run, name: str, block: str) -> str:
    n = np.mean([fact["superpixels"] for fact in run.values[f"{name}, draw 0"]["facts"][block]])
    cells = [name, block, f"{n:.0f}"]
    for what in ("width", "ratio", "firm"):
        if what == "ratio":
            ratio = ratios(run, name, block, "width")
            cells.append(plus_minus(ratio, 3) if len(ratio) else "")
            continue
        for part in ("object", "blank"):
            found = numbers(run, name, block, part, what)
            digits = 3 if what == "width" else 2
            cells.append(plus_minus(found, digits) if len(found) else "")
    return f"| {' | '.join(cells)} |"


def _on(held: list[str], names: list[str]) -> str:
    return "on " + " and ".join(held) if held else "on none of " + " and ".join(names)


def _verdicts(words: dict[str, str]) -> str:
    return ", ".join(f"{word} on {name}" for name, word in words.items())


def _firm(run: Run, names: list[str], block: str) -> str:
    shares = [f"{100 * numbers(run, name, block, 'object', 'firm').mean():.0f}% on {name}" for name in names]
    return ", ".join(shares)


def _why(run: Run, grey: list[str], verdicts: dict[str, dict[str, str]]) -> str:
    text = ""
    if all(word == "equal" for word in verdicts["equal noise"].values()):
        text += (
            "With equal noise the paper's variance is that of the image: every superpixel has the same. What differs "
            "within a picture can only come from BayesLIME's own variance. "
        )
    if not any(word == "wider" for block in BLOCKS[:2] for word in verdicts[block].values()):
        text += (
            "The published picture suggests otherwise to the eye: around a value near 0 the upper bound is red and the "
            "lower one blue, and around a large value both are red, though both intervals are equally wide. "
        )
    if all(word == "narrower" for word in verdicts["ours"].values()):
        text += (
            "Ours are narrower where the image is blank, as they should be: the truth there is 0, and similar images "
            "are mostly blank there, too. "
        )
    noise = {name: float(ratios(run, name, "BayesLIME's noise", "size").mean()) for name in grey}
    ours = {name: float(ratios(run, name, "ours", "size").mean()) for name in grey}
    text += (
        "The attributions themselves tell how far to believe the picture: those of blank superpixels, whose truth is "
        "0, are "
        + _shares(noise)
        + " as large as those on the object with the paper's number of superpixels, and "
        + _shares(ours)
        + " with ours. "
    )
    if min(noise.values()) > 0.5:
        text += (
            f"{run.settings['n_samples']} perturbations do not suffice for so many superpixels: most of what the "
            "published picture shows is chance."
        )
    return text.strip()


def _shares(found: dict[str, float]) -> str:
    return " and ".join(f"{100 * share:.0f}% ({name})" for name, share in found.items())
