"""Networks for images, and the intervals of superpixels by each way to make them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import gpec
from gpec.boundary import AdversarialSampler
from gpec.errors import NoiseFloorWarning
from gpec.explainers import BayesLime
from gpec.images import SuperpixelExplainer, superpixels
from paper._models import images
from paper._published import PARAMETERS
from paper.networks import accuracy, fully_connected, resnet18, train

__all__ = ["BLOCKS", "LEVEL", "OneAgainstRest", "best_known", "facts_of", "image_draw"]

BLOCKS = ("equal noise", "BayesLIME's noise", "ours")
LEVEL = 0.95
_CLASSES = {"digits": 0, "MNIST": 7, "Fashion-MNIST": 9}  # that are shown; else the one that the network knows best


class OneAgainstRest(torch.nn.Module):
    """A network of many classes as one of two: the class of the picture has the probability it had."""

    def __init__(self, network: torch.nn.Module, label: int) -> None:
        super().__init__()
        self.network, self.label = network, label

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.network(x)
        rest = torch.cat([logits[:, : self.label], logits[:, self.label + 1 :]], dim=1)
        return torch.stack([rest.logsumexp(dim=1), logits[:, self.label]], dim=1)


def image_draw(s: dict[str, Any], name: str, seed: int) -> dict[str, Any]:
    """A network, some pictures of one class, and the intervals of their superpixels by each way to make them."""
    X, y, X_test, y_test = images(name)
    order = np.random.default_rng([seed, 8]).permutation(len(X))
    network = _trained(name, X[order[: s["networks"][name]["n_train"]]], y[order], s["networks"][name], seed)
    right = accuracy(network, X_test[:2_000], y_test[:2_000])
    answers, truth = _answers(network, X_test[:2_000]), y_test[:2_000]
    label = _CLASSES.get(name, best_known(answers, truth))
    pool = order[: s["n_pool"]]
    some = _half_and_half(pool, y[pool] == label, s["n_explained"])
    known = (answers.argmax(axis=1) == label) & (truth == label)
    shown = np.argsort(~known, kind="stable")[: s["n_images"]]
    query = X_test[shown].astype(float)
    model = OneAgainstRest(network, label).eval()
    found = _intervals(s, name, model, X[pool].astype(float), X[some].astype(float), query, seed)
    for block, (values, half) in found.items():
        found[block] = (values, _by_superpixels(query, half, _segments(s, name, block)))
    facts = {
        block: [
            facts_of(image, values, half, _segments(s, name, block))
            for image, values, half in zip(query, *found[block], strict=True)
        ]
        for block in BLOCKS
    }
    panel = {
        block: {"values": _channel(found[block][0][0], query), "half": _channel(found[block][1][0], query)}
        for block in BLOCKS
    }
    probability = float(_answers(network, query[:1])[0, label])
    return {
        "accuracy": right,
        "class": label,
        "probability": probability,
        "facts": facts,
        **({"image": query[0], "panel": panel} if seed == 0 else {}),
    }


def _trained(name: str, X: np.ndarray, y: np.ndarray, how: dict[str, Any], seed: int) -> torch.nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if isinstance(how["hidden"], float):
            network = resnet18(width=how["hidden"])
        else:
            network = fully_connected((X[0].size, *how["hidden"], 10))
        train(
            network, X, y[: len(X)], n_epochs=how["n_epochs"], batch_size=how["batch_size"], seed=seed, progress=False
        )
    return network


def _answers(network: torch.nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        parts = torch.as_tensor(X, dtype=torch.float32).split(1_024)
        return torch.cat([torch.softmax(network(part), dim=1) for part in parts]).numpy()


def best_known(answers: np.ndarray, truth: np.ndarray) -> int:
    """The class of most rows whose class has a probability above a half."""
    right = answers[np.arange(len(truth)), truth] > 0.5
    return int(np.bincount(truth[right], minlength=answers.shape[1]).argmax())


def _half_and_half(rows: np.ndarray, inside: np.ndarray, n: int) -> np.ndarray:
    """``n`` rows, half of them of the class."""
    return np.concatenate([rows[inside][: n // 2], rows[~inside][: n - n // 2]])


def _segments(s: dict[str, Any], name: str, block: str) -> int:
    return int(s["superpixels"][name]["ours" if block == "ours" else "published"])


def _intervals(
    s: dict[str, Any], name: str, model: Any, pool: np.ndarray, explained: np.ndarray, query: np.ndarray, seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Attributions of each pixel and half of the width of its interval, by each block."""
    lam, rho = PARAMETERS.get(name, (1.0, 0.01))
    published = {**gpec.PAPER, "lam": lam, "rho": rho}
    common = {"random_state": seed, "progress": False, "background": explained}
    boundary: Any = AdversarialSampler(*s["attacks"])
    found = {}
    for block, chosen in {
        "BayesLIME's noise": {**published, "noise": "auto"},
        "ours": {"kernel": "weg", "standardize": False},
    }.items():
        explainer = SuperpixelExplainer(
            BayesLime(s["n_samples"]), n_segments=_segments(s, name, block), baseline="mean" if query.ndim == 4 else 0.0
        )
        g = gpec.GPEC(model, explainer, boundary=boundary, **common, **chosen)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseFloorWarning)  # where BayesLIME's variance is next to nothing
            g.fit(pool, X_explained=explained)
        boundary = g.boundary_  # the same for all
        e = g.explain(query, confidence_level=LEVEL)
        found[block] = (e.values, e.width / 2)
    # With scale and noise given, the variance does not depend on the attributions.
    g = gpec.GPEC(model, None, boundary=boundary, **common, **published)
    g.fit(pool, X_explained=explained, attributions=np.zeros((len(explained), query[0].size)))
    e = g.explain(query, attribution="posterior", confidence_level=LEVEL)
    found["equal noise"] = (found["BayesLIME's noise"][0], e.width / 2)
    return found


def _by_superpixels(query: np.ndarray, half: np.ndarray, n_segments: int) -> np.ndarray:
    """The median of each superpixel's pixels: each has its own Gaussian process, and few rows to learn it from."""
    result = np.empty_like(half)
    for image, before, after in zip(query, half, result, strict=True):
        owner = np.broadcast_to(superpixels(image, n_segments), image.shape).ravel()
        for piece in np.unique(owner):
            after[owner == piece] = np.median(before[owner == piece])
    return result


def facts_of(image: np.ndarray, values: np.ndarray, half: np.ndarray, n_segments: int) -> dict[str, Any]:
    """Means over the superpixels on the object, and over those that are blank: there the attribution should be 0."""
    pieces = superpixels(image, n_segments)
    first = np.unique(pieces, return_index=True)[1]  # a pixel of each
    values, half = (array.reshape(-1, pieces.size)[0][first] for array in (values, half))
    ink = image if image.ndim == 2 else np.ones_like(image[0])  # of a photograph no part is known to be blank
    blank = np.array([not ink[pieces == piece].any() for piece in range(len(first))])
    firm = np.abs(values) > half
    found: dict[str, Any] = {"superpixels": len(first)}
    for part, there in (("object", ~blank), ("blank", blank)):
        if there.any():
            found[part] = {
                "width": 2 * half[there].mean(), "size": np.abs(values[there]).mean(), "firm": firm[there].mean()
            }  # fmt: skip
    return found


def _channel(array: np.ndarray, query: np.ndarray) -> np.ndarray:
    """One channel of pixels; superpixels are the same in all."""
    return array.reshape(-1, *query.shape[-2:])[0]
