"""Tests whether a model is a regressor."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor

from gpec.errors import InputError

__all__ = ["predicts_labels", "predicts_numbers", "require_agreement"]


def predicts_numbers(model: Any) -> bool:
    """Whether it is a regressor, or the ``predict`` of one."""
    if getattr(model, "__name__", None) == "predict":
        model = getattr(model, "__self__", None)
    return _is(is_regressor, model) and not hasattr(model, "predict_proba")


def predicts_labels(model: Any) -> bool:
    """Whether it is a scikit-learn estimator whose ``predict`` gives labels."""
    return any(_is(kind, model) for kind in (is_classifier, is_clusterer, is_outlier_detector))


def require_agreement(stated: str, known: str, name: str) -> str:
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
