"""The paper's networks: shapes, activations, training, weights."""

import numpy as np
import pytest
import torch
from paper.networks import accuracy, fully_connected, load_weights, resnet18, save_weights, train
from torch import nn


def build(make, seed=0, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make(**options)


def test_the_fully_connected_network_has_the_papers_layers():
    network = fully_connected()
    sizes = [(layer.in_features, layer.out_features) for layer in network if isinstance(layer, nn.Linear)]
    assert sizes == [(784, 700), (700, 400), (400, 200), (200, 100), (100, 10)]
    assert network(torch.zeros(2, 28, 28)).shape == network(torch.zeros(2, 784)).shape == (2, 10)
    assert isinstance(network[-1], nn.Linear)  # logits


def test_resnet_18_has_18_layers_with_weights():
    network = resnet18()
    main = [
        m for m in network.modules() if isinstance(m, (nn.Conv2d, nn.Linear)) and getattr(m, "kernel_size", 0) != (1, 1)
    ]
    assert len(main) == 18
    assert sum(p.numel() for p in network.parameters()) == 11_173_962  # the usual count for 32 x 32 images
    small = resnet18(width=0.125, n_classes=7)
    assert small.eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 7)
    assert sum(p.numel() for p in small.parameters()) < 200_000


@pytest.mark.parametrize("make", [fully_connected, lambda **options: resnet18(width=0.125, **options)])
def test_softplus_takes_the_place_of_every_relu(make):
    kinds = {type(m) for m in make(softplus_beta=0.5).modules()}
    assert nn.Softplus in kinds
    assert nn.ReLU not in kinds
    assert all(m.beta == 0.5 for m in make(softplus_beta=0.5).modules() if isinstance(m, nn.Softplus))
    assert nn.ReLU in {type(m) for m in make().modules()}


@pytest.fixture(scope="module")
def stripes():
    """Images brighter above or below, or even: three classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    X = rng.uniform(0, 0.5, size=(300, 28, 28))
    X[y == 0, :14] += 0.2
    X[y == 1, 14:] += 0.2
    return X, y


def small(**options):
    return build(fully_connected, sizes=(784, 16, 3), **options)


def test_training_learns_and_keeps_the_best_weights(stripes):
    X, y = stripes
    network = small()
    history = train(network, X, y, n_epochs=8, batch_size=32, seed=1, progress=False)
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert accuracy(network, X, y) > 0.95
    assert not network.training
    order = torch.randperm(300, generator=torch.Generator().manual_seed(1))[:50].numpy()
    assert accuracy(network, X[order], y[order]) == max(history["validation_accuracy"])


def test_training_stops_when_nothing_improves(stripes):
    X, y = stripes
    history = train(small(), X, y, n_epochs=30, learning_rate=1e-12, patience=2, progress=False)
    assert len(history["loss"]) <= 5


def test_training_is_repeatable_and_leaves_the_global_generator_alone(stripes):
    X, y = stripes
    state = torch.random.get_rng_state()
    first, again = small(), small()
    train(first, X, y, n_epochs=2, progress=False)
    train(again, X, y, n_epochs=2, progress=False)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_l2_penalty_shrinks_weights(stripes):
    X, y = stripes
    norms = []
    for weight_decay in (0.0, 0.1):
        network = small()
        train(network, X, y, n_epochs=4, weight_decay=weight_decay, progress=False)
        norms.append(sum(float((p.detach() ** 2).sum()) for p in network.parameters()))
    assert norms[1] < 0.9 * norms[0]


def test_weights_are_saved_and_loaded(tmp_path):
    network = build(resnet18, width=0.125)
    network(torch.rand(4, 3, 32, 32))  # moves the batch norms
    save_weights(network, tmp_path / "net.safetensors")
    again = load_weights(build(resnet18, seed=1, width=0.125), tmp_path / "net.safetensors")
    rows = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(again(rows), network.eval()(rows))
