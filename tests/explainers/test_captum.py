"""Methods of captum, by name."""

import re
import sys

import numpy as np
import pytest
from explainer_helpers import network
from scipy.special import expit, softmax

from extras import torch
from gpec.errors import ExplainerError, InputError, MissingExtraError, ParameterTypeError
from gpec.explainers import make_explainer
from gpec.explainers.captum import CaptumAdapter

attr = pytest.importorskip("captum.attr")
ROWS = np.random.default_rng(0).normal(size=(40, 3))
BACKGROUND = ROWS[20:]
STOCHASTIC = ["GradientShap", "KernelShap", "Lime", "ShapleyValueSampling"]
DETERMINISTIC = [
    "Deconvolution",
    "DeepLift",
    "DeepLiftShap",
    "FeatureAblation",
    "GuidedBackprop",
    "InputXGradient",
    "IntegratedGradients",
    "Occlusion",
    "Saliency",
    "ShapleyValues",
]
METHODS = sorted(STOCHASTIC + DETERMINISTIC)


def one_layer(outputs):
    module = torch.nn.Linear(3, outputs).double()
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(np.random.default_rng(1).normal(size=(outputs, 3))))
        module.bias.fill_(0.2)
    return module


def fitted(method, module, **options):
    return (
        make_explainer(f"captum:{method}").set_params(options=options or None).fit(module, ROWS, background=BACKGROUND)
    )


def probability(module, X):
    with torch.no_grad():
        z = module(torch.as_tensor(X)).numpy()
    if z.shape[1] == 1:
        return expit(z[:, 0])
    return expit(z[:, 1] - z[:, 0]) if z.shape[1] == 2 else softmax(z, axis=1)


def test_gradients_are_cheap_and_perturbations_are_not():
    assert make_explainer("captum:IntegratedGradients").cheap
    assert not make_explainer("captum:Occlusion").cheap


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_shape_repeatability_and_rows_alone(method, outputs):
    explainer = fitted(method, network(3, outputs))
    found = explainer(ROWS[:3])
    assert found.values.shape == ((3, 3, 3) if outputs == 3 else (3, 3))
    assert np.abs(found.values).max() > 1e-3
    np.testing.assert_array_equal(explainer(ROWS[:3]).values, found.values)
    np.testing.assert_array_equal(explainer(ROWS[2:3]).values, found.values[2:3])


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_saliency_and_input_times_gradient_in_closed_form(outputs):
    module = one_layer(outputs)
    W, p = module.weight.detach().numpy(), probability(module, ROWS[:4])
    if outputs < 3:
        slope = W[0] if outputs == 1 else W[1] - W[0]
        gradient = (p * (1 - p))[:, None] * slope
    else:
        gradient = np.einsum("nk,nkd->ndk", p, W[None] - (p @ W)[:, None])
    inputs = ROWS[:4] if outputs < 3 else ROWS[:4, :, None]
    np.testing.assert_allclose(fitted("Saliency", module)(ROWS[:4]).values, np.abs(gradient), atol=1e-12)
    np.testing.assert_allclose(fitted("InputXGradient", module)(ROWS[:4]).values, inputs * gradient, atol=1e-12)


@pytest.mark.parametrize("method", ["FeatureAblation", "Occlusion"])
def test_ablation_in_closed_form(method):
    module, mean = network(3, 1), BACKGROUND.mean(axis=0)
    found = fitted(method, module)(ROWS[:4]).values
    for j in range(3):
        without = ROWS[:4].copy()
        without[:, j] = mean[j]
        expected = probability(module, ROWS[:4]) - probability(module, without)
        np.testing.assert_allclose(found[:, j], expected, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize(
    ("method", "options", "atol"),
    [
        ("IntegratedGradients", {"n_steps": 200}, 5e-3),  # a sum for an integral
        ("ShapleyValues", {}, 1e-6),  # captum adds in single precision
        ("ShapleyValueSampling", {}, 1e-6),
        ("KernelShap", {}, 1e-5),  # it weighs the two ends by a large number
    ],
)
def test_attributions_add_up_from_the_typical_row(method, options, atol, outputs):
    module = network(3, outputs)
    found = fitted(method, module, **options)(ROWS[:3])
    base = probability(module, BACKGROUND.mean(axis=0)[None])
    np.testing.assert_allclose(found.base_values, np.broadcast_to(base, found.base_values.shape), atol=1e-12)
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, probability(module, ROWS[:3]), atol=atol)


@pytest.mark.parametrize("link", ["identity", "logit"])
@pytest.mark.parametrize("outputs", [1, 2, 3, 6])
@pytest.mark.parametrize("method", ["DeepLift", "DeepLiftShap"])
def test_deep_lift_adds_up(method, outputs, link):
    """With several classes captum's rules alone left a gap of up to 1.7 in such networks."""
    for seed in range(4):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers = torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, outputs)
        module = torch.nn.Sequential(*layers).double()
        with torch.no_grad():
            module[2].weight *= 8  # sure of itself
        explainer = CaptumAdapter(method, link=link).fit(module, ROWS, background=BACKGROUND)
        rows = BACKGROUND if method == "DeepLiftShap" else BACKGROUND.mean(axis=0)[None]
        found = explainer.explain(ROWS[:6], seed=0).values.sum(axis=1) + explainer.outputs_of(rows).mean(axis=0)
        np.testing.assert_allclose(found, explainer.outputs_of(ROWS[:6]), atol=1e-9)


def test_deep_lift_of_one_layer_in_closed_form():
    """Linear logits: each feature has its part of their change, and the softmax is integrated along it."""
    module = one_layer(3)
    W, mean = module.weight.detach().numpy(), BACKGROUND.mean(axis=0)
    found = fitted("DeepLift", module)(ROWS[:3]).values
    steps = (np.arange(4_000) + 0.5) / 4_000
    for i in range(3):
        on_the_way = softmax((mean + steps[:, None] * (ROWS[i] - mean)) @ W.T + 0.2, axis=1)
        slope = np.einsum("tc,ck->ck", on_the_way, np.eye(3)) - on_the_way.T @ on_the_way
        np.testing.assert_allclose(found[i], ((slope / 4_000) @ W * (ROWS[i] - mean)).T, atol=1e-6)


def test_deep_lift_takes_a_baseline_of_the_users():
    module, zero = network(3, 3), torch.zeros(1, 3, dtype=torch.float64)
    found = fitted("DeepLift", module, baselines=zero)(ROWS[:4]).values.sum(axis=1)
    np.testing.assert_allclose(found, probability(module, ROWS[:4]) - probability(module, zero.numpy()), atol=1e-9)


def test_agrees_with_captum_itself():
    module = network(3, 2)
    found = fitted("IntegratedGradients", module, n_steps=20)(ROWS[:3]).values

    def p(x):
        z = module(x)
        return torch.softmax(z, dim=1)

    own = attr.IntegratedGradients(p).attribute(
        torch.as_tensor(ROWS[:3]), baselines=torch.as_tensor(BACKGROUND.mean(axis=0)[None]), target=1, n_steps=20
    )
    np.testing.assert_allclose(found, own.detach().numpy(), atol=1e-12)


def test_module_of_probabilities():
    module = torch.nn.Sequential(network(3, 3), torch.nn.Softmax(dim=1))
    direct = CaptumAdapter("Saliency").fit(module, ROWS, model_output="probability")(ROWS[:3]).values
    np.testing.assert_allclose(direct, CaptumAdapter("Saliency").fit(module[0], ROWS)(ROWS[:3]).values, atol=1e-12)
    two = torch.nn.Sequential(network(3, 2), torch.nn.Softmax(dim=1))
    direct = CaptumAdapter("InputXGradient").fit(two, ROWS, model_output="probability")(ROWS[:3]).values
    np.testing.assert_allclose(direct, CaptumAdapter("InputXGradient").fit(two[0], ROWS)(ROWS[:3]).values, atol=1e-12)


@pytest.mark.parametrize("method", STOCHASTIC)
def test_stochastic_methods_say_so_and_have_seeds(method):
    explainer = fitted(method, network(3, 1), n_samples=5)
    assert explainer.stochastic is True
    first = explainer.explain(ROWS[:2], seed=0).values
    np.testing.assert_array_equal(explainer.explain(ROWS[:2], seed=0).values, first)
    assert np.abs(explainer.explain(ROWS[:2], seed=1).values - first).max() > 1e-6
    assert np.abs(explainer.explain(ROWS[:2], seed=0, run=1).values - first).max() > 1e-6


def test_deterministic_methods_say_so():
    for method in DETERMINISTIC:
        explainer = fitted(method, network(3, 1))
        assert explainer.stochastic is False
        first = explainer.explain(ROWS[:1], seed=0).values
        np.testing.assert_array_equal(explainer.explain(ROWS[:1], seed=9).values, first)


@pytest.mark.parametrize("method", METHODS)
def test_generators_module_and_gradients_are_left_alone(method):
    module = torch.nn.Sequential(network(3, 2), torch.nn.Dropout(0.5))
    module.train()
    module[0].eval()
    explainer = fitted(method, module)
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.get_rng_state().clone(), np.random.get_state()[1].copy()
    first = explainer(ROWS[:1]).values
    np.testing.assert_allclose(fitted(method, module[0])(ROWS[:1]).values, first, atol=1e-12)  # no dropout
    assert torch.equal(torch.get_rng_state(), expected[0])
    assert (np.random.get_state()[1] == expected[1]).all()
    assert module.training
    assert not module[0].training
    assert module[1].training
    assert all(weight.grad is None for weight in module.parameters())
    assert not any(part._forward_hooks or part._backward_hooks for part in module.modules())


def test_module_that_fails_is_put_back_and_named():
    class Fails(torch.nn.Module):
        def forward(self, x):
            if x.requires_grad:
                raise ValueError("no gradients here")
            return x[:, :1]

    module = Fails().train()
    with pytest.raises(ExplainerError, match="raised ValueError on rows 0 to 0 of 2: no gradients here") as error:
        fitted("Saliency", module)(ROWS[:2])
    assert isinstance(error.value.__cause__, ValueError)
    assert module.training


def test_single_precision_rows_alone_have_the_same_bits():
    explainer = fitted("IntegratedGradients", network(3, 3, torch.float32))
    together = explainer(ROWS[:6]).values
    alone = np.concatenate([explainer(ROWS[i : i + 1]).values for i in range(6)])
    np.testing.assert_array_equal(alone, together)


def test_categories_are_not_averaged():
    rows, module = ROWS.copy(), network(3, 1)
    rows[:, 2] = np.repeat([1.0, 4.0, 9.0], [18, 6, 16])  # the mean of the codes 0, 1 and 2 is nearest to that of 4
    explainer = CaptumAdapter("FeatureAblation").fit(module, rows, background=40, categorical_features=[2])
    np.testing.assert_allclose(explainer(rows[:2]).values[:, 2], 0.0, atol=1e-12)
    without = rows[-2:] * [1, 1, 0] + [0, 0, 1]
    expected = probability(module, rows[-2:]) - probability(module, without)
    np.testing.assert_allclose(explainer(rows[-2:]).values[:, 2], expected, atol=1e-12)
    assert np.abs(expected).min() > 1e-3


def test_one_background_row_is_enough_for_all():
    for method in ("DeepLiftShap", "GradientShap"):
        assert make_explainer(f"captum:{method}").fit(network(3, 1), ROWS, background=1)(ROWS[:1]).values.shape == (
            1,
            3,
        )


def test_options_reach_captum():
    rough, fine = (fitted("IntegratedGradients", network(3, 1), n_steps=n)(ROWS[:3]).values for n in (2, 500))
    assert np.abs(rough - fine).max() > 1e-4
    with pytest.raises(ExplainerError, match="n_stepz"):
        fitted("IntegratedGradients", network(3, 1), n_stepz=3)(ROWS[:1])


def test_unknown_names_get_the_list():
    with pytest.raises(InputError, match=re.escape(f"'LayerGradCam' is not one of {METHODS}.")):
        make_explainer("captum:LayerGradCam")
    with pytest.raises(InputError, match="'' is not one of"):
        make_explainer("captum:")
    with pytest.raises(ParameterTypeError, match="options=3 must be a dict"):
        make_explainer(CaptumAdapter("Saliency", options=3))


def test_all_names_are_captums():
    for name in METHODS:
        assert hasattr(attr, name)


def test_other_models_are_refused(models):
    with pytest.raises(
        ParameterTypeError, match=r"'captum:Saliency' explains a torch Module, but the model is a function"
    ):
        make_explainer("captum:Saliency").fit(models.curved, ROWS)


@pytest.mark.parametrize("package", ["captum", "torch"])
def test_missing_package(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf'needs {package}.*pip install "gpec\[torch\]"'):
        make_explainer("captum:Saliency")


def test_in_a_gpec(make):
    g = make(network(3, 3), "captum:IntegratedGradients", n_boundary=20, n_explained=6).fit(ROWS)
    assert g.explain(ROWS[:2]).values.shape == (2, 3, 3)
    assert g.diagnostics_["unit"] == "probability"
