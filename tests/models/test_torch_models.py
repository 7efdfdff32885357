"""torch Modules: logits, and the module left as it was."""

import sys

import numpy as np
import pytest
from model_helpers import checked, rows
from scipy.special import expit, softmax

from gpec.errors import ModelCallError, ModelOutputError


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def dropout_network(torch, outputs: int, dtype):
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5)), torch.nn.Linear(8, outputs)
    ).to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_module_gives_logits(torch, outputs, dtype):
    module = dropout_network(torch, outputs, getattr(torch, dtype)).eval()
    model, Z = checked(module)
    logits = module(torch.as_tensor(Z, dtype=getattr(torch, dtype))).detach().double().numpy()
    expected = {1: lambda: expit(logits), 2: lambda: softmax(logits, 1)[:, 1:], 3: lambda: softmax(logits, 1)}
    np.testing.assert_allclose(model.probabilities(Z), expected[outputs](), rtol=1e-12)
    assert model.output == "logit"
    assert model.n_classes == max(outputs, 2)


def test_module_that_gives_probabilities(torch):
    module = torch.nn.Sequential(dropout_network(torch, 1, torch.float64), torch.nn.Sigmoid()).eval()
    model, Z = checked(module, model_output="probability")
    np.testing.assert_array_equal(model.probabilities(Z), module(torch.as_tensor(Z)).detach().numpy())


def test_module_is_left_as_it_was(torch):
    module = dropout_network(torch, 1, torch.float32).train()
    module[0].eval()  # a frozen part of a network in training
    modes = [part.training for part in module.modules()]
    assert True in modes
    assert False in modes
    state = torch.get_rng_state()
    model, Z = checked(module)
    first = model.probabilities(Z)
    np.testing.assert_array_equal(model.probabilities(Z), first)  # no dropout
    assert [part.training for part in module.modules()] == modes
    assert all(parameter.grad is None and parameter.requires_grad for parameter in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_module_is_called_without_gradients(torch):
    class Watch(torch.nn.Module):
        def forward(self, X):
            self.seen = (torch.is_grad_enabled(), X.requires_grad, X.dtype)
            return X[:, 0]

    module = Watch()
    model, Z = checked(module)
    model.labels(Z)
    assert module.seen == (False, False, torch.get_default_dtype())


def test_module_that_raises_is_put_back(torch):
    module = dropout_network(torch, 1, torch.float32).train()
    model, Z = checked(module, rows(12, d=4))
    with pytest.raises(ModelCallError, match="raised RuntimeError on call 1"):
        model.labels(Z)
    assert all(part.training for part in module.modules())


def test_tensor_that_requires_grad_is_not_an_answer(torch):
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    model, Z = checked(lambda X: torch.sigmoid(torch.as_tensor(X) @ weight))
    with pytest.raises(ModelOutputError, match=r"returned a Tensor on call 1 .*requires grad"):
        model.labels(Z)
    model, Z = checked(lambda X: torch.sigmoid(torch.as_tensor(X) @ weight).detach())
    np.testing.assert_allclose(model.probabilities(Z), expit(Z.sum(axis=1, keepdims=True)), rtol=1e-12)


def test_neither_torch_nor_xgboost_is_needed(monkeypatch):
    for name in ("torch", "xgboost"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    model, Z = checked(lambda X: expit(X[:, 0]))
    np.testing.assert_array_equal(model.labels(Z), Z[:, 0] > 0)
    assert "torch" not in sys.modules
    assert "xgboost" not in sys.modules
