"""What kind of model it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gpec.errors import ParameterTypeError
from gpec.models._torch import is_module, torch_predict
from gpec.models._xgboost import booster_output, booster_predict

__all__ = ["resolve"]


def resolve(model: Any) -> tuple[Callable[[Any], Any], str]:
    """How to call ``model``, and whether it returns a "probability" or a "logit"."""
    if is_module(model):
        return torch_predict(model), "logit"
    xgboost = sys.modules.get("xgboost")
    if xgboost is not None and isinstance(model, xgboost.Booster):
        return booster_predict(model), booster_output(model)
    if isinstance(model, type):
        raise ParameterTypeError(f"model is the class {model.__name__}; pass a fitted instance of it.")
    if hasattr(model, "predict_proba"):
        return model.predict_proba, "probability"
    if callable(model):
        return model, "probability"
    remedy = ""
    if hasattr(model, "decision_function"):
        remedy = " For a model with decision_function pass model.decision_function and model_output='logit'."
    raise ParameterTypeError(
        f"model must have predict_proba, be a torch Module, an xgboost Booster or a callable, got "
        f"{type(model).__name__}.{remedy}"
    )
