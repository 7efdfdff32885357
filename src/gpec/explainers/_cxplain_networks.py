"""The networks of CXPlain: an MLP for tables and a U-Net for images.

All members of an ensemble are trained together. The first axis of each parameter is the member, and torch's ``vmap``
batches products and groups convolutions by member. So ten members take little longer than one. torch's generators are
not used; each member has its own NumPy generator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from gpec.typing import FloatArray

_BATCH = 64
_NUMBERS_AT_ONCE = 4_000_000  # of all members' activations: 32 MB
_PATIENCE = 15  # epochs without an improvement of any member
_LEARNING_RATE = 3e-3


class Architecture(ABC):
    """A network that maps rows to the log-shares of parts, given its weights."""

    @abstractmethod
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of one member's weights and biases, alternating."""

    @abstractmethod
    def forward(self, weights: list[Any], inputs: Any) -> Any:
        """One member's logits ``(n, parts, outputs)`` for the tensor ``inputs`` of shape ``(n, k)``."""

    @abstractmethod
    def activations(self) -> int:
        """Approximate number of values that one member computes for one row."""

    def rows_at_once(self, members: int) -> int:
        """Number of rows whose activations fit into the memory limit."""
        return int(np.clip(_NUMBERS_AT_ONCE // (members * self.activations()), 1, 512))

    def draw(self, rng: np.random.Generator) -> list[FloatArray]:
        """Initial weights of one member: He's scale, and a tenth of it for the last layer."""
        shapes, weights = self.shapes(), []
        for shape, units in zip(shapes[::2], shapes[1::2], strict=True):
            inputs_of_unit = np.prod(shape) / np.prod(units)
            weights += [rng.standard_normal(shape) * np.sqrt(2.0 / inputs_of_unit), np.zeros(units)]
        weights[-2] *= 0.1
        return weights

    def log_shares(self, weights: list[Any], inputs: Any) -> Any:
        """Logarithms of all members' shares, which add up to 1 over the parts; ``inputs (members, n, k)``."""
        import torch

        return torch.func.vmap(self.forward)(weights, inputs).log_softmax(dim=2)

    def shares(self, weights: list[FloatArray], rows: FloatArray) -> FloatArray:
        """Shares ``(members, n, parts, outputs)`` of rows ``(n, k)``, in double precision."""
        import torch

        tensors = [torch.from_numpy(weight) for weight in weights]
        inputs = torch.from_numpy(rows).expand(len(weights[0]), *rows.shape)
        with torch.no_grad(), _one_thread():
            return np.asarray(self.log_shares(tensors, inputs).exp().numpy())


class MLP(Architecture):
    """Two hidden layers of ``hidden`` units."""

    def __init__(self, n_inputs: int, n_parts: int, n_outputs: int, hidden: int) -> None:
        self.n_inputs, self.n_parts, self.n_outputs, self.hidden = n_inputs, n_parts, n_outputs, hidden

    def shapes(self) -> list[tuple[int, ...]]:
        sizes = (self.n_inputs, self.hidden, self.hidden, self.n_parts * self.n_outputs)
        return [shape for a, b in pairwise(sizes) for shape in ((a, b), (1, b))]

    def activations(self) -> int:
        return self.n_inputs + 2 * self.hidden + self.n_parts * self.n_outputs

    def forward(self, weights: list[Any], inputs: Any) -> Any:
        layers = list(zip(weights[::2], weights[1::2], strict=True))
        for W, b in layers[:-1]:
            inputs = (inputs @ W + b).relu()
        W, b = layers[-1]
        return (inputs @ W + b).unflatten(1, (self.n_parts, self.n_outputs))


class UNet(Architecture):
    """A U-Net with two levels of downsampling, on a map of cells.

    A cell is half a patch wide, or a whole patch if its side is odd, and its pixels are channels of the map. Shares are
    computed for patches, so a finer map would only cost time. The logit of a patch is the mean over its cells.
    """

    def __init__(self, image_shape: tuple[int, int, int], patch: int, n_outputs: int, hidden: int) -> None:
        self.image_shape, self.n_outputs, self.hidden = image_shape, n_outputs, hidden
        self.cells = 2 - patch % 2  # a patch is this many cells wide
        self.cell = patch // self.cells
        self.height, self.width = (-(-side // patch) * self.cells for side in image_shape[1:])

    def shapes(self) -> list[tuple[int, ...]]:
        c, f = self.image_shape[0] * self.cell**2, self.hidden
        # down, down, bottom, up, up (each after its skip is joined), and the map itself
        plan = [(f, c, 3), (2 * f, f, 3), (4 * f, 2 * f, 3), (2 * f, 6 * f, 3), (f, 3 * f, 3), (self.n_outputs, f, 1)]
        return [shape for out, into, side in plan for shape in ((out, into, side, side), (out,))]

    def activations(self) -> int:
        per_cell = self.image_shape[0] * self.cell**2 + 9 * self.hidden + self.n_outputs
        return per_cell * (self.height + 3) * (self.width + 3)

    def forward(self, weights: list[Any], inputs: Any) -> Any:
        import torch
        from torch.nn.functional import avg_pool2d, conv2d, interpolate, max_pool2d

        layers = list(zip(weights[::2], weights[1::2], strict=True))
        fine = conv2d(self._cells(inputs), *layers[0], padding="same").relu()
        middle = conv2d(max_pool2d(fine, 2), *layers[1], padding="same").relu()
        coarse = conv2d(max_pool2d(middle, 2), *layers[2], padding="same").relu()
        joined = torch.cat((middle, interpolate(coarse, scale_factor=2)), dim=1)
        up = conv2d(joined, *layers[3], padding="same").relu()
        joined = torch.cat((fine, interpolate(up, scale_factor=2)), dim=1)
        up = conv2d(joined, *layers[4], padding="same").relu()
        logits = conv2d(up, *layers[5])[:, :, : self.height, : self.width]
        return avg_pool2d(logits, self.cells).flatten(2).transpose(1, 2)

    def _cells(self, inputs: Any) -> Any:
        """Rows as maps ``(n, channels, height, width)``, padded so that they can be halved twice."""
        from torch.nn.functional import pad, pixel_unshuffle

        _, h, w = self.image_shape
        images = inputs.unflatten(1, self.image_shape)
        padded_height, padded_width = ((side + -side % 4) * self.cell for side in (self.height, self.width))
        return pixel_unshuffle(pad(images, (0, padded_width - w, 0, padded_height - h), mode="replicate"), self.cell)


def train(
    architecture: Architecture,
    rows: FloatArray,
    targets: FloatArray,
    rngs: list[np.random.Generator],
    n_epochs: int,
) -> list[FloatArray]:
    """Weights of one member for each generator, each fitted to a bootstrap sample of the rows.

    ``targets (n, parts, outputs)`` are shares over the parts; the loss is the Kullback-Leibler divergence from them.
    The result has, for each member, the weights of the epoch with the lowest loss on the rows outside its sample.
    """
    import torch

    n, members = len(rows), len(rngs)
    drawn = [rng.integers(n, size=n) for rng in rngs]
    held_out = np.stack([np.bincount(sample, minlength=n) == 0 for sample in drawn])
    held_out[~held_out.any(axis=1)] = True
    fresh = zip(*(architecture.draw(rng) for rng in rngs), strict=True)
    weights = [torch.tensor(np.stack(parts), dtype=torch.float32, requires_grad=True) for parts in fresh]
    best = [weight.detach().clone() for weight in weights]
    least = torch.full((members,), torch.inf)
    x, t = torch.tensor(rows, dtype=torch.float32), torch.tensor(targets, dtype=torch.float32)
    unseen = torch.tensor(held_out, dtype=torch.float32)
    optimizer = torch.optim.Adam(weights, lr=_LEARNING_RATE)
    patience, size = _PATIENCE, min(_BATCH, architecture.rows_at_once(members))
    with _one_thread():
        for _ in range(n_epochs):
            order = np.stack([rng.permutation(sample) for rng, sample in zip(rngs, drawn, strict=True)])
            for start in range(0, n, size):
                batch = torch.from_numpy(order[:, start : start + size])
                loss = -(t[batch] * architecture.log_shares(weights, x[batch])).mean(dim=1).sum()
                gradients = torch.autograd.grad(loss, weights)
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.grad = gradient
                optimizer.step()
            with torch.no_grad():
                losses = _losses(architecture, weights, x, t)
                left_out = (losses * unseen).sum(dim=1) / unseen.sum(dim=1)
                better = left_out < least
                least = torch.where(better, left_out, least)
                for saved, weight in zip(best, weights, strict=True):
                    saved[better] = weight[better]
            patience = _PATIENCE if better.any() else patience - 1
            if patience == 0:
                break
    return [weight.double().numpy() for weight in best]


def _losses(architecture: Architecture, weights: list[Any], x: Any, t: Any) -> Any:
    """Loss of each member on each row, ``(members, n)``."""
    import torch

    blocks = []
    step = architecture.rows_at_once(len(weights[0]))
    for start in range(0, len(x), step):
        part = x[start : start + step]
        log_shares = architecture.log_shares(weights, part.expand(len(weights[0]), *part.shape))
        blocks.append(-(t[start : start + step] * log_shares).sum(dim=(2, 3)))
    return torch.cat(blocks, dim=1)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: small products are faster, and their bits do not depend on the number of cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
