"""Regressors, which are not explained yet."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_regressor

__all__ = ["REGRESSION", "predicts_numbers"]

REGRESSION = (
    "Regression is not supported yet: there is no decision boundary. To ask whether a value is exceeded, train a "
    "classifier for that."
)


def predicts_numbers(model: Any) -> bool:
    """Whether it is a regressor, or the ``predict`` of one."""
    if getattr(model, "__name__", None) == "predict":
        model = getattr(model, "__self__", None)
    try:
        return bool(is_regressor(model)) and not hasattr(model, "predict_proba")
    except AttributeError:  # not an estimator
        return False
