"""torch Modules: logits, and the module left as it was."""

import sys

import numpy as np
import pandas as pd
import pytest
from model_helpers import checked, rows
from scipy.special import expit, softmax

from gpec.errors import InputError, ModelCallError, ModelOutputError


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


def ending_in(torch, function, outputs):
    """A network whose last step is not one of its parts."""

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = dropout_network(torch, outputs, torch.float64)

        def forward(self, X):
            return function(self.inner(X))

    return Hidden().eval()


@pytest.mark.parametrize(("ending", "outputs"), [("Sigmoid", 1), ("Softmax", 2), ("Softmax", 3)])
@pytest.mark.parametrize("hidden", [False, True])
def test_module_that_gives_probabilities_without_saying_so(torch, ending, outputs, hidden):
    last = torch.nn.Sigmoid() if ending == "Sigmoid" else torch.nn.Softmax(1)
    network = dropout_network(torch, outputs, torch.float64)
    module = ending_in(torch, last, outputs) if hidden else torch.nn.Sequential(network, last).eval()
    model, Z = checked(module)
    for _ in range(2):
        with pytest.raises(InputError, match=rf"like those of a {ending}, .*model_output='probability', or 'logit' if"):
            model.labels(Z)
    answers = module(torch.as_tensor(Z)).detach().numpy()
    stated, _ = checked(module, model_output="probability")
    np.testing.assert_array_equal(stated.probabilities(Z), answers[:, 1:] if outputs == 2 else answers)
    insisting, _ = checked(module, model_output="logit")
    expected = {1: lambda: expit(answers), 2: lambda: softmax(answers, 1)[:, 1:], 3: lambda: softmax(answers, 1)}
    np.testing.assert_allclose(insisting.probabilities(Z), expected[outputs](), rtol=1e-12)


def test_probabilities_are_noticed_after_a_few_rows(torch):
    model, Z = checked(ending_in(torch, torch.sigmoid, 1))
    for row in range(9):
        model.labels(Z[row : row + 1])
    with pytest.raises(InputError, match="like those of a Sigmoid"):
        model.labels(Z[9:10])


def test_probabilities_of_several_labels_are_noticed_by_the_last_part(torch):
    module = torch.nn.Sequential(dropout_network(torch, 3, torch.float64), torch.nn.Sigmoid())
    model, Z = checked(module)
    with pytest.raises(InputError, match="like those of a Sigmoid"):
        model.labels(Z)
    stated, _ = checked(module, model_output="probability")
    with pytest.raises(ModelOutputError, match="sum to"):
        stated.labels(Z)


@pytest.mark.parametrize("outputs", [2, 3])
def test_logarithms_of_probabilities_are_logits(torch, outputs):
    inner = dropout_network(torch, outputs, torch.float64).eval()
    model, Z = checked(torch.nn.Sequential(inner, torch.nn.LogSoftmax(1)))
    plain, _ = checked(inner)
    np.testing.assert_allclose(model.probabilities(Z), plain.probabilities(Z), rtol=1e-12)


def test_logarithm_of_one_probability_is_not_a_logit(torch):
    module = torch.nn.Sequential(dropout_network(torch, 1, torch.float64), torch.nn.LogSigmoid())
    model, Z = checked(module)
    with pytest.raises(InputError, match="look like those of a LogSigmoid"):
        model.labels(Z)


def test_a_gate_inside_is_not_an_ending(torch):
    class Gated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = torch.nn.Sigmoid()

        def forward(self, X):
            return 4 * X[:, 0] * self.gate(X[:, 1])

    model, Z = checked(Gated())
    np.testing.assert_array_equal(model.labels(Z), Z[:, 0] > 0)


def test_logits_that_turn_out_small_later_are_still_logits(torch):
    class First(torch.nn.Module):
        def forward(self, X):
            return X[:, 0]

    model, Z = checked(First())
    for row in range(12):  # one small logit says little
        model.labels(Z[row : row + 1])
    assert model.probabilities(np.full((1, 3), 0.5))[0, 0] == pytest.approx(expit(0.5))


def test_module_on_nullable_columns(torch):
    X = pd.DataFrame({"a": pd.array([1, 2, 3], dtype="Int64"), "b": pd.array([0.5, 1.5, -2.5], dtype="Float64")})
    module = torch.nn.Linear(2, 1).double()
    model, Z = checked(module, X, model_output="logit")
    expected = module(torch.as_tensor(Z)).detach().numpy()
    np.testing.assert_array_equal(model.probabilities(Z), expit(expected))


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
    class CostEstimate(torch.nn.Module):
        def forward(self, X):
            self.seen = (torch.is_grad_enabled(), X.requires_grad, X.dtype)
            return X[:, 0]

    module = CostEstimate()
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
