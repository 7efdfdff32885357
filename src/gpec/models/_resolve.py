"""What kind of model it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gpec.errors import InputError, ParameterTypeError
from gpec.models._lightgbm import lightgbm_output, lightgbm_predict
from gpec.models._regression import REGRESSION, predicts_numbers
from gpec.models._torch import is_module, torch_predict
from gpec.models._xgboost import booster_output, booster_predict

__all__ = ["is_booster", "resolve"]


def resolve(model: Any) -> tuple[Callable[[Any], Any], str]:
    """How to call ``model``, and whether it returns a "probability" or a "logit"."""
    if is_module(model):
        return torch_predict(model), "logit"
    if is_booster(model, "xgboost"):
        return booster_predict(model), booster_output(model)
    if is_booster(model, "lightgbm"):
        return lightgbm_predict(model), lightgbm_output(model)
    if isinstance(model, type):
        raise ParameterTypeError(f"model is the class {model.__name__}; pass a fitted instance of it.")
    if predicts_numbers(model):
        owner = getattr(model, "__self__", model)
        raise ParameterTypeError(f"model is the regressor {type(owner).__name__}. {REGRESSION}")
    if hasattr(model, "predict_proba"):
        return model.predict_proba, "probability"
    if callable(model):
        _refuse_pairs(model)
        return model, "probability"
    remedy = ""
    if hasattr(model, "decision_function"):
        remedy = " For a model with decision_function pass model.decision_function and model_output='logit'."
    elif hasattr(model, "predict"):
        remedy = " It has predict only: pass a callable that returns probabilities; regression is not supported yet."
    raise ParameterTypeError(
        f"model must have predict_proba, be a torch Module, an xgboost or lightgbm Booster or a callable, got "
        f"{type(model).__name__}.{remedy}"
    )


def is_booster(model: Any, package: str) -> bool:
    """Whether it is the package's Booster; the package is not imported to find out."""
    module = sys.modules.get(package)
    return module is not None and isinstance(model, module.Booster)


def _refuse_pairs(model: Any) -> None:
    """A support vector machine may decide for each pair of classes, which is no output for each class."""
    owner = getattr(model, "__self__", None)
    if getattr(model, "__name__", None) != "decision_function" or len(getattr(owner, "classes_", ())) <= 2:
        return
    if getattr(owner, "decision_function_shape", None) == "ovo":
        raise InputError(
            "model is a decision_function with one column for each pair of classes; set "
            "decision_function_shape='ovr' for one column for each class."
        )
