"""The kind of a model, and how to call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor

from gpec.errors import InputError, ParameterTypeError
from gpec.models._booster_calls import is_booster, lightgbm_output, xgboost_output, xgboost_predict
from gpec.models._remote import RemoteModel
from gpec.models._torch import is_module, torch_predict


def resolve(model: Any, stated: str = "auto") -> tuple[Callable[[Any], Any], str]:
    """How to call ``model``, and whether it returns a "probability", a "logit" or a "value"; ``stated`` by the user."""
    name = type(getattr(model, "__self__", model)).__name__
    if is_module(model):
        return torch_predict(model), "logit" if stated == "auto" else stated
    if is_booster(model, "xgboost"):
        return xgboost_predict(model), _require_agreement(stated, xgboost_output(model, stated), name)
    if is_booster(model, "lightgbm"):
        return model.predict, _require_agreement(stated, lightgbm_output(model, stated), name)
    if isinstance(model, type):
        raise ParameterTypeError(f"model is the class {model.__name__}; pass a fitted instance of it.")
    if _predicts_numbers(model):
        predict = model.predict if hasattr(model, "predict") else model
        return predict, _require_agreement(stated, "value", name)
    if hasattr(model, "predict_proba"):
        return model.predict_proba, _require_agreement(stated, "probability", name)
    if callable(model):
        _refuse_pairs(model)
        return model.ask if isinstance(model, RemoteModel) else model, "probability" if stated == "auto" else stated
    remedy = ""
    if _is(is_outlier_detector, model) and hasattr(model, "score_samples"):
        remedy = " For an outlier detector pass model.score_samples and model_output='value'."
    elif hasattr(model, "decision_function"):
        remedy = " For a model with decision_function pass model.decision_function and model_output='logit'."
    elif any(_is(kind, model) for kind in (is_classifier, is_clusterer, is_outlier_detector)):
        remedy = " Its predict gives labels: pass a callable that returns probabilities."
    elif hasattr(model, "predict"):
        return model.predict, _require_agreement(stated, "value", name)
    raise ParameterTypeError(
        "model must have predict_proba or be a regressor with predict, a torch Module, an xgboost or lightgbm Booster "
        f"or a callable, got {name}.{remedy}"
    )


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


def _predicts_numbers(model: Any) -> bool:
    """Whether it is a regressor, or the ``predict`` of one."""
    if getattr(model, "__name__", None) == "predict":
        model = getattr(model, "__self__", None)
    return _is(is_regressor, model) and not hasattr(model, "predict_proba")


def _require_agreement(stated: str, known: str, name: str) -> str:
    """The output of a model, detected as ``known`` and ``stated`` by the user; raise if the two contradict."""
    if stated == "auto" or (stated == "value") == (known == "value"):
        return known if stated == "auto" else stated
    if stated == "value":
        raise InputError(
            f"model_output='value' is for regressors, and the {name} is a classifier; leave model_output='auto', or "
            "pass a function that returns the number to explain."
        )
    raise InputError(
        f"model_output={stated!r} is for classifiers, and the {name} is a regressor; leave model_output='auto', or "
        "pass a function that returns probabilities."
    )


def _is(kind: Any, model: Any) -> bool:
    try:
        return bool(kind(model))
    except (AttributeError, TypeError):  # not an estimator
        return False
