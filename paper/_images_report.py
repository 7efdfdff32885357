"""Fig. 8 in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from paper._image_intervals import BLOCKS
from paper._report import Claim, judged, more, overall
from paper._runs import Run, mean_and_error, plus_minus

__all__ = ["CLASSES", "compare", "numbers", "ratios", "report", "tables", "verdicts"]

_TITLE = "Fig. 8"
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CLASSES = {
    "digits": _NUMBERS,
    "MNIST": _NUMBERS,
    "Fashion-MNIST": (
        "T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"
    ),
    "CIFAR-10": ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
}  # fmt: skip


def _facts(run: Run, name: str, block: str) -> list[dict[str, Any]]:
    """Of each picture."""
    return [fact for d in range(run.settings["draws"]) for fact in run.values[f"{name}, draw {d}"]["facts"][block]]


def numbers(run: Run, name: str, block: str, part: str, what: str) -> np.ndarray:
    """One number for each picture that has superpixels of this kind."""
    return np.array([fact[part][what] for fact in _facts(run, name, block) if part in fact])


def ratios(run: Run, name: str, block: str, what: str) -> np.ndarray:
    """Blank over object, for each picture."""
    both = [fact for fact in _facts(run, name, block) if "blank" in fact and fact["object"][what] > 0]
    return np.array([fact["blank"][what] / fact["object"][what] for fact in both])


def compare(ratio: Any) -> str:
    """Whether blank superpixels have wider intervals than the object: a word by mean and standard error."""
    ratio = np.asarray(ratio, dtype=float)
    if np.abs(ratio - 1).max() < 1e-4:
        return "equal"
    mean, error = mean_and_error(ratio)
    return "wider" if mean - 2 * error > 1 else "narrower" if mean + 2 * error < 1 else "not different"


def _grey(run: Run) -> list[str]:
    """The data sets of which a part is known to be blank."""
    return [name for name in run.settings["networks"] if len(ratios(run, name, BLOCKS[0], "width"))]


def _words(run: Run, block: str) -> dict[str, str]:
    return {name: compare(ratios(run, name, block, "width")) for name in _grey(run)}


def _wider(run: Run) -> list[str]:
    """Where intervals as published are wider on the blank part, with either noise."""
    return [name for name in _grey(run) if any(_words(run, block)[name] == "wider" for block in BLOCKS[:2])]


def _shares(run: Run, block: str) -> dict[str, float]:
    """How large attributions of blank superpixels are, whose truth is 0, over those of the object."""
    return {name: float(ratios(run, name, block, "size").mean()) for name in _grey(run)}


def verdicts(run: Run) -> list[Claim]:
    grey, held = _grey(run), _wider(run)
    widths = " and ".join(f"{ratios(run, name, BLOCKS[1], 'width').mean():.2f} ({name})" for name in grey)
    helped = _helped(run, BLOCKS[1])
    return [
        Claim(
            _TITLE, "intervals are especially wide for the background of grey images", "by eye",
            f"background over object {widths}", judged(len(held), len(grey)),
        ),
        Claim(
            _TITLE, "the interval helps to tell object from background", "by eye",
            "it excludes 0 on object and background for " + " and ".join(_firm(run, name) for name in grey),
            judged(len(helped), len(grey)),
        ),
    ]  # fmt: skip


def _helped(run: Run, block: str) -> list[str]:
    """Where intervals exclude 0 more often on the object than where the truth is 0, beyond two standard errors."""
    found = []
    for name in _grey(run):
        both = [fact for fact in _facts(run, name, block) if "blank" in fact]
        mean, error = mean_and_error([fact["object"]["firm"] - fact["blank"]["firm"] for fact in both])
        if mean > 2 * error:
            found.append(name)
    return found


def _firm(run: Run, name: str) -> str:
    part = (100 * numbers(run, name, BLOCKS[1], part, "firm").mean() for part in ("object", "blank"))
    return " and ".join(f"{share:.0f}%" for share in part) + f" ({name})"


def _listed(shares: dict[str, float]) -> str:
    return " and ".join(f"{100 * share:.0f}% ({name})" for name, share in shares.items())


def report(run: Run) -> list[str]:
    s = run.settings
    return [
        "## Fig. 8: what do the intervals say about images?",
        "",
        f"{overall([one.verdict for one in verdicts(run)])} The paper shows an image of each data set with both "
        "bounds of BayesLIME's attributions of superpixels, patches of like colour that are there or not. It says that "
        "the interval is especially wide for the background of MNIST and Fashion-MNIST. A superpixel without ink "
        "changes nothing if it is taken away: its true attribution is 0, and an interval that excludes 0 there is a "
        f"false alarm ({s['n_images'] * s['draws']} images a data set, ± over images):",
        "",
        "| intervals | data set | width, blank over object | excludes 0, object | excludes 0, blank |",
        "|---|---|---|---|---|",
        *(_short(run, name, block) for block in BLOCKS for name in _grey(run)),
        "",
        f"![Ours: image, upper bound, value, lower bound](figures/{run.size}/fig08_images.png)",
        "",
        _holds(run) + " " + _why(run),
        "",
        more(_TITLE),
    ]


def _short(run: Run, name: str, block: str) -> str:
    ratio = ratios(run, name, block, "width")
    cells = [block if block == "ours" else f"as published, {block}", name, plus_minus(ratio, 2) if len(ratio) else ""]
    for part in ("object", "blank"):
        firm = numbers(run, name, block, part, "firm")
        cells.append(f"{100 * firm.mean():.0f}%" if len(firm) else "")
    return f"| {' | '.join(cells)} |"


def _holds(run: Run) -> str:
    grey, held = _grey(run), _wider(run)
    where = "on " + " and ".join(held) if held else "on none of " + " and ".join(grey)
    ours = ", ".join(f"{word} on {name}" for name, word in _words(run, "ours").items())
    return f"Intervals as published are wider where the image is blank {where}; ours are {ours}."


def _why(run: Run) -> str:
    text = ""
    if all(word == "equal" for word in _words(run, "equal noise").values()):
        text += "With equal noise the paper's variance is one for the image: every superpixel has the same. "
    if not _wider(run):
        text += (
            "The eye is misled: around 0 the bounds are red and blue, around a large value both are red, though both "
            "intervals are equally wide. "
        )
    shares = _shares(run, BLOCKS[1])
    text += (
        f"BayesLIME's attributions of blank superpixels are {_listed(shares)} as large as the object's with the "
        f"paper's number of superpixels, and {_listed(_shares(run, 'ours'))} with ours. "
    )
    if min(shares.values()) > 0.5:
        text += (
            f"So with {run.settings['n_samples']} perturbations more than half of a typical published value is chance."
        )
    return text.strip()


def tables(run: Run) -> list[str]:
    s, names = run.settings, list(run.settings["networks"])
    return [
        f"## {_TITLE}",
        "",
        f"{s['n_images'] * s['draws']} test images of one class for each data set, over {s['draws']} trainings; ± is "
        f"over images. {s['n_explained']} images explained, {s['n_samples']} perturbations each; the boundary from "
        f"attacks on {s['attacks'][0]} images a class of {s['n_pool']:,}. *Equal noise* is the paper's protocol (unit "
        "scale, noise 1e-4), *BayesLIME's noise* puts BayesLIME's own variance in its place, *ours* learns the scale "
        "and speaks of similar images, over fewer superpixels. *Size* is the mean size of an attribution.",
        "",
        *(f"- {_network(run, name)}" for name in names),
        "",
        "| data set | intervals | superpixels | width, object | width, blank | blank / object | verdict | size, object "
        "| size, blank | excludes 0, object | excludes 0, blank |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_line(run, name, block) for name in names for block in BLOCKS),
        "",
        f"![As published: image, upper bound, value, lower bound](figures/{run.size}/fig08_images_published.png)",
    ]


def _network(run: Run, name: str) -> str:
    draws = [run.values[f"{name}, draw {d}"] for d in range(run.settings["draws"])]
    right = 100 * np.mean([one["accuracy"] for one in draws])
    how, words = run.settings["networks"][name], sorted({CLASSES[name][one["class"]] for one in draws})
    kind = (
        f"fully connected, {'-'.join(map(str, how['hidden']))} hidden units"
        if isinstance(how["hidden"], list)
        else f"ResNet-18 of {how['hidden']:g} times the width"
    )
    return (
        f"{name}: {' and '.join(words)}; {kind}, {how['n_epochs']} epochs on {how['n_train']:,} images, {right:.0f}% "
        "right."
    )


def _line(run: Run, name: str, block: str) -> str:
    pieces = np.mean([fact["superpixels"] for fact in _facts(run, name, block)])
    ratio = ratios(run, name, block, "width")
    compared = [plus_minus(ratio, 3), compare(ratio)] if len(ratio) else ["", ""]
    shown = {what: [_mean(run, name, block, part, what) for part in ("object", "blank")] for what in _DIGITS}
    return (
        f"| {' | '.join([name, block, f'{pieces:.0f}', *shown['width'], *compared, *shown['size'], *shown['firm']])} |"
    )


_DIGITS = {"width": 3, "size": 4, "firm": 2}


def _mean(run: Run, name: str, block: str, part: str, what: str) -> str:
    found = numbers(run, name, block, part, what)
    return plus_minus(found, _DIGITS[what]) if len(found) else ""
