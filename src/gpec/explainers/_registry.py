"""The explainer for a name, an object or a function."""

from __future__ import annotations

from typing import Any

from gpec.errors import InputError, ParameterTypeError
from gpec.explainers.adapters import CallableExplainer, Precomputed, ShapAdapter
from gpec.explainers.base import Explainer
from gpec.explainers.captum import CaptumAdapter
from gpec.explainers.cxplain import CXPlain
from gpec.explainers.kernelshap import KernelShap
from gpec.explainers.lime import BayesLime, BayesShap, Lime
from gpec.explainers.shapley import ExactShapley, ShapleySampling
from gpec.explainers.tree import TreeShap

_BY_NAME: dict[str, type[Explainer]] = {
    "bayeslime": BayesLime,
    "bayesshap": BayesShap,
    "cxplain": CXPlain,
    "exact": ExactShapley,
    "kernelshap": KernelShap,
    "lime": Lime,
    "shapley_sampling": ShapleySampling,
    "tree": TreeShap,
}
_CAPTUM = "captum:"  # then the name of its method


def make_explainer(explainer: Any) -> Explainer:
    """A new explainer, not bound to a model, for a name, an object of gpec or shap, or a function."""
    if isinstance(explainer, Explainer):
        # a new object, so that binding it to a model does not change the user's; its parameters are not copied
        fresh = type(explainer)(**explainer.get_params(deep=False))
        fresh.check()
        return fresh
    if isinstance(explainer, str):
        if explainer not in _BY_NAME and not explainer.startswith(_CAPTUM):
            raise InputError(
                f"explainer={explainer!r} is not one of {sorted([*_BY_NAME, _CAPTUM + '<Name>'])}; a shap explainer or "
                "any function X -> (n, d) can be passed instead."
            )
        named = _BY_NAME[explainer]() if explainer in _BY_NAME else CaptumAdapter(explainer.removeprefix(_CAPTUM))
        named.check()
        return named
    if isinstance(explainer, type):
        raise ParameterTypeError(f"explainer is the class {explainer.__name__}; pass an instance of it.")
    of_shap = type(explainer).__module__.partition(".")[0] == "shap"
    if of_shap and type(explainer).__name__ == "Explanation":
        if explainer.data is None:
            raise InputError("explainer is a shap.Explanation without its rows; set its data to the rows explained.")
        return Precomputed(explainer.data, explainer.values, base_values=explainer.base_values)
    if callable(explainer):
        return ShapAdapter(explainer) if of_shap else CallableExplainer(explainer)
    raise ParameterTypeError(
        f"explainer must be a name, an explainer object or a callable, got {type(explainer).__name__}."
    )
