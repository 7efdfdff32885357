"""The networks of the paper (App. E.1), and their training.

    fully connected  784-700-400-200-100-10 for MNIST and Fashion-MNIST
    ResNet-18        for images of 32 x 32, 64-128-256-512 channels times ``width``

Activations are ReLU or ``Softplus(beta)``, which bends less sharply the smaller ``beta`` is; ``weight_decay`` is the l2
penalty. Both are what the paper's Table 1 varies.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from tqdm.auto import tqdm

__all__ = ["accuracy", "fully_connected", "load_weights", "resnet18", "save_weights", "train"]


def fully_connected(sizes=(784, 700, 400, 200, 100, 10), *, softplus_beta=None) -> nn.Sequential:
    """The paper's network for grey images; takes images ``(n, 28, 28)`` or rows ``(n, 784)``, gives logits."""
    layers: list[nn.Module] = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), _activation(softplus_beta)]
    return nn.Sequential(*layers[:-1])


def resnet18(*, n_classes=10, width=1.0, softplus_beta=None) -> nn.Sequential:
    """ResNet-18 with a 3 x 3 stem, as is usual for 32 x 32 images; ``width`` below 1 for machines without a GPU."""
    channels = [max(8, round(width * count)) for count in (64, 128, 256, 512)]
    layers: list[nn.Module] = [
        nn.Conv2d(3, channels[0], 3, padding=1, bias=False), nn.BatchNorm2d(channels[0]), _activation(softplus_beta)
    ]  # fmt: skip
    before = channels[0]
    for stage, count in enumerate(channels):
        for block in range(2):
            layers.append(_Block(before, count, stride=2 if stage > 0 and block == 0 else 1, beta=softplus_beta))
            before = count
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, n_classes))


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, stride: int, beta: float | None) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            _activation(beta),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )
        self.activation = _activation(beta)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.path(x) + self.shortcut(x))


def _activation(softplus_beta: float | None) -> nn.Module:
    return nn.ReLU() if softplus_beta is None else nn.Softplus(beta=softplus_beta)


def train(
    network: nn.Module,
    X: np.ndarray,
    y: np.ndarray,
    *,
    n_epochs: int = 30,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    weight_decay: float = 0.0,
    patience: int = 3,
    validation_share: float = 1 / 6,
    seed: int = 0,
    progress: bool | None = None,
) -> dict[str, list[float]]:
    """Train in place on images scaled to [0, 1]; the weights that did best on held-out rows are kept.

    Training stops when ``patience`` epochs bring no better validation accuracy. Returns the history: training loss and
    validation accuracy by epoch. ``weight_decay`` is the l2 penalty (coupled, as in the paper, not AdamW's).
    """
    generator = torch.Generator().manual_seed(seed)
    rows = torch.as_tensor(X, dtype=torch.float32)
    labels = torch.as_tensor(y, dtype=torch.int64)
    order = torch.randperm(len(rows), generator=generator)
    held_out = order[: round(validation_share * len(rows))]
    kept = order[len(held_out) :]
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    history: dict[str, list[float]] = {"loss": [], "validation_accuracy": []}
    best, best_state, since = -1.0, copy.deepcopy(network.state_dict()), 0
    with tqdm(total=n_epochs, desc="training", disable=None if progress is None else not progress) as bar:
        for _ in range(n_epochs):
            network.train()
            shuffled = kept[torch.randperm(len(kept), generator=generator)]
            total = 0.0
            for batch in shuffled.split(batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(network(rows[batch]), labels[batch])
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(batch)
            history["loss"].append(total / len(kept))
            history["validation_accuracy"].append(accuracy(network, rows[held_out], labels[held_out]))
            schedule.step(history["loss"][-1])
            bar.update()
            bar.set_postfix(validation=f"{history['validation_accuracy'][-1]:.4f}")
            since += 1
            if history["validation_accuracy"][-1] > best:
                best, best_state, since = history["validation_accuracy"][-1], copy.deepcopy(network.state_dict()), 0
            if since >= patience:
                break
    network.load_state_dict(best_state)
    network.eval()
    return history


def accuracy(network: nn.Module, X, y) -> float:
    """Share of rows predicted rightly, in evaluation mode."""
    network.eval()
    rows, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    with torch.no_grad():
        right = sum(int((network(part).argmax(1) == label).sum()) for part, label in zip(
            rows.split(1_024), labels.split(1_024), strict=True))  # fmt: skip
    return right / len(rows)


def save_weights(network: nn.Module, path: str | Path) -> None:
    save_file({name: value.contiguous() for name, value in network.state_dict().items()}, path)


def load_weights(network: nn.Module, path: str | Path) -> nn.Module:
    network.load_state_dict(load_file(path))
    return network.eval()
