"""Attribution methods of the captum library, selected by name."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from gpec.data._background import typical_row
from gpec.errors import InputError, MissingExtraError, ParameterTypeError
from gpec.explainers._linked import Link, LinkedExplainer
from gpec.explainers.adapters import preserved_numpy_seed
from gpec.explainers.attribution import Attribution
from gpec.models import Model
from gpec.models._torch import as_tensor, evaluation_mode
from gpec.typing import FloatArray


@dataclass(frozen=True)
class _Method:
    baseline: Literal["one", "many"] | None  # the baseline is the typical row, all background rows, or none
    stochastic: bool = False
    cheap: bool = False  # gradients of a fixed number of rows
    adds_up: bool = False  # attributions add up to the probability minus that of the baseline
    options: tuple[tuple[str, Any], ...] = ()


_METHODS = {
    "Deconvolution": _Method(None, cheap=True),
    "DeepLift": _Method("one", cheap=True),
    "DeepLiftShap": _Method("many", cheap=True),
    "FeatureAblation": _Method("one"),
    "GradientShap": _Method("many", stochastic=True),
    "GuidedBackprop": _Method(None, cheap=True),
    "InputXGradient": _Method(None, cheap=True),
    "IntegratedGradients": _Method("one", cheap=True, adds_up=True),
    "KernelShap": _Method("one", stochastic=True, adds_up=True),
    "Lime": _Method("one", stochastic=True),
    "Occlusion": _Method("one", options=(("sliding_window_shapes", (1,)),)),
    "Saliency": _Method(None, cheap=True),
    "ShapleyValueSampling": _Method("one", stochastic=True, adds_up=True),
    "ShapleyValues": _Method("one", adds_up=True),
}


_DEEP_LIFT = ("DeepLift", "DeepLiftShap")
_NODES = 256  # of the quadrature; the softmax can be steep


@dataclass(eq=False, repr=False)
class CaptumAdapter(LinkedExplainer):
    """An attribution method of captum for a torch Module; ``explainer="captum:Saliency"`` selects one.

    If the Module returns logits, a sigmoid or softmax is added, so that probabilities are explained: with two classes
    that of the positive class, ``(n, d)``, else that of each class, ``(n, d, c)``. With ``link="logit"`` log-odds are
    explained instead. A regressor is not changed. The baseline is the mean of the background rows (for a categorical
    column, the most frequent category). GradientShap and DeepLiftShap use all background rows. Each row is explained
    separately, with its own seed. The states of NumPy's and torch's generators and the Module's mode are restored.

    Parameters
    ----------
    method : str
        "IntegratedGradients", "DeepLift" and others; the error for an unknown name lists all. Not supported are methods
        for a layer, FeaturePermutation (it depends on the other rows), NoiseTunnel (it wraps another method) and LRP
        (it has no rule for probabilities).
    options : dict, optional
        Passed to captum's ``attribute``, for instance ``{"n_steps": 200}`` or ``{"n_samples": 500}``.
    link : {"identity", "logit"}
        Explain probabilities, or log-odds.

    Notes
    -----
    captum calls the Module itself, so these calls are not counted as model rows. The attributions of DeepLift and
    DeepLiftShap add up to the probability minus that of the baseline, if the Module returns logits and captum has rules
    for all its layers. captum has no rule for the softmax of several classes; gpec integrates along it (see
    ``_deep_lift``). If the Module itself ends with a Softmax, the attributions do not add up.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from gpec.explainers.captum import CaptumAdapter
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> module = torch.nn.Linear(3, 1)
    >>> _ = torch.nn.init.constant_(module.weight, 1.0)
    >>> CaptumAdapter("Saliency").fit(module, X)(X[:2]).values.shape
    (2, 3)
    """

    rows_at_once = 1  # a float32 Module's answers depend on the batch

    method: str = "IntegratedGradients"
    options: dict[str, Any] | None = None
    _: KW_ONLY
    link: Link = "identity"

    @property
    def cheap(self) -> bool:  # type: ignore[override]  # read-only: it follows from the method
        """True for gradients, which need few passes through the Module."""
        return _METHODS[self.method].cheap

    def check(self) -> None:
        super().check()
        if not isinstance(self.method, str) or self.method not in _METHODS:
            raise InputError(f"captum's method {self.method!r} is not one of {sorted(_METHODS)}.")
        if self.options is not None and not isinstance(self.options, dict):
            raise ParameterTypeError(f"options={self.options!r} must be a dict or None.")
        for package in ("torch", "captum"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(
                    f'captum\'s {self.method} needs {package}, which is not installed; pip install "gpec[torch]".'
                )

    def bind(self, model: Model, background: FloatArray) -> None:
        super().bind(model, background)
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(model.user_model, torch.nn.Module):
            raise ParameterTypeError(
                f"explainer='captum:{self.method}' explains a torch Module, but the model is a "
                f"{type(model.user_model).__name__}; use explainer='kernelshap', which works for any model."
            )
        if model.schema.missing.any():
            raise InputError(
                f"explainer='captum:{self.method}' does not support missing values, and some rows have them; "
                "impute them first, or use explainer='kernelshap'."
            )
        self._method = _METHODS[self.method]
        self.stochastic = self._method.stochastic
        rows = background if self._method.baseline == "many" else typical_row(background, model.schema)[None]
        if self._method.baseline == "many" and len(rows) == 1:
            rows = np.repeat(rows, 2, axis=0)  # captum requires several
        self._baselines = as_tensor(model.user_model, model.schema.decode(rows))
        self._base_values = self.outputs_of(rows).mean(axis=0) if self._method.adds_up else None

    def _explain(self, Z: FloatArray, seeds: list[int]) -> Attribution:
        import captum.attr
        import torch

        options = {**dict(self._method.options), **(self.options or {})}
        if self._method.baseline is not None:
            options.setdefault("baselines", self._baselines)
        module = self.model_.user_model
        attributions = []
        with evaluation_mode(module), warnings.catch_warnings():
            # captum warns about temporary hooks
            warnings.filterwarnings("ignore", message="Setting (forward, )?backward hooks", category=UserWarning)
            if self.method in _DEEP_LIFT and self.model_.n_outputs > 1 and self.model_.output == "logit":
                inputs, baselines = as_tensor(module, self.model_.schema.decode(Z)), options.pop("baselines")
                return Attribution(_deep_lift(module, inputs, baselines, self.link, options))
            method = getattr(captum.attr, self.method)(_explained(self.model_, self.link))
            for label in range(self.model_.n_outputs):
                # the same random numbers for each class
                devices = range(torch.cuda.device_count())
                with preserved_numpy_seed(seeds[0]), torch.random.fork_rng(devices=devices):
                    torch.manual_seed(seeds[0])
                    inputs = as_tensor(module, self.model_.schema.decode(Z)).requires_grad_(True)
                    answer = method.attribute(inputs, target=label, **options)
                attributions.append(answer.detach().cpu().double().numpy())
        base = None if self._base_values is None else np.tile(self._base_values, (len(Z), 1))
        return Attribution(np.stack(attributions, axis=-1), base_values=base)


def _explained(model: Model, link: Link) -> Any:
    """The user's Module with an output layer that gives probabilities or log-odds ``(n, 1)`` or ``(n, c)``.

    The values of a regressor are not changed.
    """
    import torch

    class Explained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = model.user_model
            # A Module, not a function, so that DeepLift's rule applies. A softmax is a sigmoid of the log-odds of a
            # class against all others.
            self.sigmoid = torch.nn.Sigmoid()

        def forward(self, rows: Any) -> Any:
            output = self.module(rows)
            output = output[:, None] if output.ndim == 1 else output
            columns = output.shape[1]
            if model.output == "value":
                return output
            if model.output == "probability":
                output = output[:, 1:] if columns == 2 else output
                # 0 and 1 have no finite log-odds
                return output if link == "identity" else torch.logit(output, eps=torch.finfo(output.dtype).eps / 2)
            if columns > 2:
                itself = torch.eye(columns, dtype=torch.bool, device=output.device)
                output = output - output[:, None].masked_fill(itself, -torch.inf).logsumexp(dim=2)
            elif columns == 2:
                output = output[:, 1:] - output[:, :1]
            return output if link == "logit" else self.sigmoid(output)

    return Explained().eval()


def _deep_lift(module: Any, inputs: Any, baselines: Any, link: Link, options: dict[str, Any]) -> FloatArray:
    """DeepLift's values for each of several classes ``(n, ..., c)`` of rows given as tensors, averaged over baselines.

    captum has no rule for a softmax, so its values for probabilities do not add up. Its rules hold up to the logits:
    the contributions ``C_kj`` of the features to logit k add up to its change, ``sum_j C_kj = dl_k``. The change of an
    output ``f`` (a probability or its log-odds) is divided among the logits by the integral of its gradient along the
    straight line from the baseline's logits to the row's,

        w_k = int_0^1 df/dl_k (l0 + t dl) dt,   sum_k w_k dl_k = f(l0 + dl) - f(l0),

    and the value of a feature is ``sum_k w_k C_kj``. For a function of one variable this is DeepLift's own rule.
    """
    import torch
    from captum.attr import DeepLift

    n, b = len(inputs), len(baselines)
    rows = inputs.detach().repeat_interleave(b, dim=0).requires_grad_(True)
    references = baselines.repeat(n, *(1 for _ in baselines.shape[1:]))
    with torch.no_grad():
        end, start = (module(part).cpu().double().numpy() for part in (rows, references))
    lift = DeepLift(module)
    parts = [
        lift.attribute(rows, baselines=references, target=k, **options).detach().cpu().double().numpy()
        for k in range(end.shape[1])
    ]
    values = np.einsum("bck,kb...->b...c", _shares(start, end, link), np.stack(parts))
    return np.asarray(values.reshape(n, b, *values.shape[1:]).mean(axis=1))


def _shares(start: FloatArray, end: FloatArray, link: Link) -> FloatArray:
    """``w (b, c, k)``: the integrated derivative of output ``c`` by logit ``k``."""
    places, weights = _quadrature()
    logits = start[:, None] + places[:, None] * (end - start)[:, None]
    own = np.eye(logits.shape[2])
    if link == "identity":
        p = softmax(logits, axis=2)
        return np.asarray(
            np.einsum("t,btc,ck->bck", weights, p, own) - np.einsum("t,btc,btk->bck", weights, p, p, optimize=True)
        )
    others = [softmax(np.where(itself > 0, -np.inf, logits), axis=2) for itself in own]
    return np.asarray(own - np.stack([np.einsum("t,btk->bk", weights, q) for q in others], axis=1))


@lru_cache(maxsize=1)
def _quadrature() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    return (places + 1) / 2, weights / 2
