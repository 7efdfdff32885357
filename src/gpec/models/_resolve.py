"""The kind of a model, and how to call it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gpec.errors import InputError, ParameterTypeError
from gpec.models._lightgbm import lightgbm_output, lightgbm_predict
from gpec.models._regression import predicts_labels, predicts_numbers, require_agreement
from gpec.models._torch import is_module, torch_predict
from gpec.models._xgboost import booster_output, booster_predict

__all__ = ["is_booster", "resolve"]


def resolve(model: Any, stated: str = "auto") -> tuple[Callable[[Any], Any], str]:
    """How to call ``model``, and whether it returns a "probability", a "logit" or a "value"; ``stated`` by the user."""
    name = type(getattr(model, "__self__", model)).__name__
    if is_module(model):
        return torch_predict(model), "logit" if stated == "auto" else stated
    if is_booster(model, "xgboost"):
        return booster_predict(model), require_agreement(stated, booster_output(model, stated), name)
    if is_booster(model, "lightgbm"):
        return lightgbm_predict(model), require_agreement(stated, lightgbm_output(model, stated), name)
    if isinstance(model, type):
        raise ParameterTypeError(f"model is the class {model.__name__}; pass a fitted instance of it.")
    if predicts_numbers(model):
        predict = model.predict if hasattr(model, "predict") else model
        return predict, require_agreement(stated, "value", name)
    if hasattr(model, "predict_proba"):
        return model.predict_proba, require_agreement(stated, "probability", name)
    if callable(model):
        _refuse_pairs(model)
        return model, "probability" if stated == "auto" else stated
    remedy = ""
    if hasattr(model, "decision_function"):
        remedy = " For a model with decision_function pass model.decision_function and model_output='logit'."
    elif predicts_labels(model):
        remedy = " Its predict gives labels: pass a callable that returns probabilities."
    elif hasattr(model, "predict"):
        return model.predict, require_agreement(stated, "value", name)
    raise ParameterTypeError(
        "model must have predict_proba or be a regressor with predict, a torch Module, an xgboost or lightgbm Booster "
        f"or a callable, got {name}.{remedy}"
    )


def is_booster(model: Any, package: str) -> bool:
    """Whether it is the package's Booster; the package is not imported to find out."""
    module = sys.modules.get(package)
    return module is not None and isinstance(model, module.Booster)


def _refuse_pairs(model: Any) -> None:
    """Raise for a support vector machine with one output for each pair of classes instead of each class."""
    owner = getattr(model, "__self__", None)
    if getattr(model, "__name__", None) != "decision_function" or len(getattr(owner, "classes_", ())) <= 2:
        return
    if getattr(owner, "decision_function_shape", None) == "ovo":
        raise InputError(
            "model is a decision_function with one column for each pair of classes; set "
            "decision_function_shape='ovr' for one column for each class."
        )
