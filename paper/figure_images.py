"""Figure of App. F.3: images of MNIST, Fashion-MNIST and CIFAR-10, with both bounds of their superpixels' intervals.

    python -m paper.figure_images docs/images.png

BayesLIME over superpixels of each image, expanded to pixels; GPEC over the pixels; the predicted class is shown.
"""

from __future__ import annotations

import sys
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import torch
from paper.networks import accuracy, fully_connected, resnet18, train

from gpec import GPEC, datasets
from gpec.boundary import AdversarialSampler
from gpec.errors import IncompleteDataWarning
from gpec.explainers import BayesLime
from gpec.images import SuperpixelExplainer

# loader, network, epochs, test image
PANELS = (
    (datasets.mnist, fully_connected, 8, 0),
    (datasets.fashion_mnist, fully_connected, 8, 0),
    (datasets.cifar10, lambda: resnet18(width=0.125), 10, 4),
)


def explained(load, build, n_epochs, image):
    """The test image, bounds of its pixels for the predicted class, and how sure the model is of which class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteDataWarning)
        data = load()
    X_train, X_test = data.X_train / 255.0, data.X_test / 255.0
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build()
        started = time.perf_counter()
        train(network, X_train, data.y_train, n_epochs=n_epochs)
    right = accuracy(network, X_test, data.y_test)
    print(f"{data.name}: accuracy {right:.1%} after {time.perf_counter() - started:.0f} s")
    rows = X_train[np.random.default_rng(0).permutation(len(X_train))[:3_000]]
    g = GPEC(
        network,
        SuperpixelExplainer(BayesLime(200), n_segments=30, baseline="mean"),
        boundary=AdversarialSampler(40, 6),
        n_explained=60,
        standardize=False,
        random_state=0,
    ).fit(rows)
    e = g.explain(X_test[image : image + 1])
    with torch.no_grad():
        p = torch.softmax(network(torch.as_tensor(X_test[image : image + 1], dtype=torch.float32)), dim=1)[0].numpy()
    label = int(p.argmax())
    shape = X_test.shape[1:]
    bounds = [np.asarray(part)[0, :, label].reshape(shape) for part in (e.upper, e.lower)]
    seconds = {stage: round(value, 1) for stage, value in g.diagnostics_["seconds"].items()}
    print(f"  fit {seconds}, {len(g.boundary_)} boundary points, P({data.class_names[label]}) = {p[label]:.2f}")
    return X_test[image], bounds, f"{data.name}: {data.class_names[label]} ({p[label]:.2f}), network {right:.1%}"


def draw(panels, path):
    figure, axes = plt.subplots(3, len(panels), figsize=(3.6 * len(panels), 10), layout="constrained")
    for column, (image, bounds, title) in zip(axes.T, panels, strict=True):
        column[0].imshow(image if image.ndim == 2 else np.moveaxis(image, 0, -1), cmap="gray_r")
        column[0].set_title(title, fontsize=10)
        flat = [bound if bound.ndim == 2 else bound[0] for bound in bounds]  # the same in all channels
        most = max(np.abs(bound).max() for bound in flat)
        for axis, bound, name in zip(column[1:], flat, ("upper bound", "lower bound"), strict=True):
            drawn = axis.imshow(bound, cmap="RdBu_r", vmin=-most, vmax=most)
            axis.set_title(name, fontsize=10)
        figure.colorbar(drawn, ax=column[1:], orientation="horizontal", label="attribution of the superpixel")
    for axis in axes.flat:
        axis.set_axis_off()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw([explained(*panel) for panel in PANELS], sys.argv[1])
